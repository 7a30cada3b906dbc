// monitor.h - watches a GPU: its load, memory, power, temperature, clock and energy. It uses NVIDIA's management
// library (NVML), which is opened at run time.
//
// A call into NVML may take milliseconds, so a separate thread polls every half second. Readers get the last answers
// without waiting. Some of NVML's numbers are means over up to one second.
#ifndef LS_SYSTEM_MONITOR_H
#define LS_SYSTEM_MONITOR_H

#include <stddef.h>
#include <stdint.h>

// Reasons why the clock is lower than it could be: a set of NVML's own bits.
typedef enum {
    LS_GPU_SLOWED_POWER_CAP = 0x04,
    LS_GPU_SLOWED_HARDWARE = 0x08,
    LS_GPU_SLOWED_HEAT = 0x20,
    LS_GPU_SLOWED_HEAT_HARDWARE = 0x40,
    LS_GPU_SLOWED_POWER_BRAKE = 0x80
} ls_gpu_slowed;

// One sample of the whole card, for all its users together. NaN: the GPU does not report the value.
typedef struct {
    int64_t samples;     // number of samples so far; 0: the other members are not valid yet
    double utilisation;  // share of the time in which a kernel ran, 0 to 1
    double memory_bytes; // memory in use
    double power_watts;
    double temperature_c; // temperature of the chip
    double clock_mhz;     // clock of the multiprocessors
    uint64_t slowed;      // reasons for a lower clock: bits of ls_gpu_slowed
    double joules;        // energy since the first sample
    int64_t integrated;   // 1: joules are integrated from the power of the samples; 0: from the card's counter
} ls_gpu_sample;

typedef struct ls_gpu_monitor ls_gpu_monitor;

// Starts watching the GPU with this UUID, or else with this PCI address. Returns NULL if NVML is not available or no
// thread can be started. An unknown GPU is only noticed later: no samples arrive.
ls_gpu_monitor *ls_gpu_monitor_start(const char *uuid, const char *pci);
// Returns without waiting. last: the newest sample. all: a summary since the start: mean utilisation and clock, total
// energy, maximum of the other values, and every reason seen. Either may be NULL.
void ls_gpu_monitor_read(ls_gpu_monitor *monitor, ls_gpu_sample *last, ls_gpu_sample *all);
void ls_gpu_monitor_stop(ls_gpu_monitor *monitor); // NULL is allowed

// Writes the reasons in words to text (at least 96 bytes), for example "power cap, heat"; "" for no reason. Returns
// text.
char *ls_gpu_slowed_text(uint64_t slowed, char *text);

#endif
