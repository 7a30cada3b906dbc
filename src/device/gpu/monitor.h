// monitor.h - what a GPU is doing: how busy, how full, how hot, by NVIDIA's management library (NVML),
// which is opened at run time.
//
// A call into NVML may take milliseconds, so a thread of its own polls every half second; readers get the last
// answers without waiting. NVML's own numbers are means over up to a second before.
#ifndef LS_DEVICE_GPU_MONITOR_H
#define LS_DEVICE_GPU_MONITOR_H

#include <stddef.h>
#include <stdint.h>

// Why the clock is lower than it could be: a set of these, NVML's own bits.
typedef enum {
    LS_GPU_SLOWED_POWER_CAP = 0x04,
    LS_GPU_SLOWED_HARDWARE = 0x08,
    LS_GPU_SLOWED_HEAT = 0x20,
    LS_GPU_SLOWED_HEAT_HARDWARE = 0x40,
    LS_GPU_SLOWED_POWER_BRAKE = 0x80
} ls_gpu_slowed;

// NaN: the GPU does not report it. Of the whole card, all its users together.
typedef struct {
    int64_t samples;     // so far; 0: the rest is not there yet
    double utilisation;  // share of the time in which a kernel ran, 0 to 1
    double memory_bytes; // in use
    double power_watts;
    double temperature_c; // of the chip
    double clock_mhz;     // of the multiprocessors
    uint64_t slowed;      // ls_gpu_slowed
    double joules;        // since the first sample
    int64_t integrated;   // 1: these are the mean power of two samples, times the time between them; 0: the card counts
} ls_gpu_sample;

typedef struct ls_gpu_monitor ls_gpu_monitor;

// Begins to look at the GPU of that UUID or PCI address. NULL: there is no NVML.
// Whether NVML has the GPU shows later.
ls_gpu_monitor *ls_gpu_monitor_start(const char *uuid, const char *pci);
// last: the newest answers. all: since the start, the mean utilisation and clock, the energy, the highest of the rest, and
// every reason seen. Either may be NULL.
void ls_gpu_monitor_read(ls_gpu_monitor *monitor, ls_gpu_sample *last, ls_gpu_sample *all);
void ls_gpu_monitor_stop(ls_gpu_monitor *monitor); // NULL is allowed

// "power cap, heat" into text (at least 96 bytes); "" for none. Returns text.
char *ls_gpu_slowed_text(uint64_t slowed, char *text);

#endif
