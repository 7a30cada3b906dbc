// cost_machine.h - machines for the model of cost.h: GPUs by their published figures (cost_devices.def), this machine's cpu device by
// what is measured of it at the start; and the links between GPUs.
#ifndef LS_CLI_BENCH_COST_MACHINE_H
#define LS_CLI_BENCH_COST_MACHINE_H

#include "cli/bench/cost.h"
#include "config/config.h"
#include "dist/allreduce_model.h"

typedef struct {
    const char *word, *name;
    double memory_gbytes, cache_mbytes;
    int units, shared_kib, cluster;
    double fp32_tflops, tf32_tflops, half_tflops;
    double pcie_gbytes;
    int per_host; // GPUs
    ls_link inside, between;
} ls_cost_gpu;

extern const ls_cost_gpu ls_cost_gpus[];
extern const int ls_cost_gpu_count;

// The GPU of a word of --model; NULL for "cpu". LS_USAGE: any other word, with the list.
LS_CHECKED ls_status ls_cost_find_gpu(const char *word, const ls_cost_gpu **out);
// tf32: fp32 products round their inputs to TF32 (device.tf32).
ls_cost_machine ls_cost_machine_of_gpu(const ls_cost_gpu *gpu, int tf32);
// Measures the cpu device for some tenths of a second: matrix product, adding arrays in memory and in cache.
LS_CHECKED ls_status ls_cost_measure_cpu(ls_device *device, int threads, ls_cost_machine *out);

#endif
