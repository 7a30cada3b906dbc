#include "cli/bench/cost_machine.h"

#include <math.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"
#include "cli/bench/peak.h"

const ls_cost_gpu ls_cost_gpus[] = {
#define GPU(word, name, memory, cache, units, shared, cluster, fp32, tf32, half, pcie, per_host, inside, between) \
    { #word, name, memory, cache, units, shared, cluster, fp32, tf32, half, pcie, per_host, LS_LINK_##inside, \
        LS_LINK_##between },
#include "cli/bench/cost_devices.def"
};
const int ls_cost_gpu_count = sizeof ls_cost_gpus / sizeof *ls_cost_gpus;

// --- GPUs -----------------------------------------------------------------------------------------

// What data sheets do not say.
//   L2 delivers more than memory: 5120 bytes a clock are published of A100, 3.5 times its memory's rate; half of that is counted.
//   Of L2, what other data of a kernel leave.
//   A graph's nodes one behind the other: 0.5 us apart with kernels of 2.9 us were published of V100 ("Getting Started with CUDA
//   Graphs", NVIDIA developer blog); 1 us is counted, as kernels that fill the card drain and fill it. The shortest kernel: two
//   dependent round trips to memory and the blocks' start.
//   A grid's barrier: an atomic addition and a look at it, then the other blocks' sums: three dependent round trips to L2.
static const double CACHE_TIMES_MEMORY = 2, CACHE_SHARE = 0.6, GAP_S = 1e-6, SHORTEST_S = 2e-6, GRID_WAIT_S = 2e-6;

static ls_status unknown(const char *word) {
    char list[160] = "";
    const char *words[16] = { "cpu" };
    ls_text_room room = { list, sizeof list };
    for (int i = 0; i < ls_cost_gpu_count; i++) {
        words[i + 1] = ls_cost_gpus[i].word;
        ls_text_put(&room, "%s, ", ls_cost_gpus[i].word);
    }
    const char *nearest = ls_text_nearest(word, words, ls_cost_gpu_count + 1);
    return ls_fail(LS_USAGE, "--model %s: no such device%s%s%s; there are %sand cpu, which is this machine's", word,
        nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "", list);
}

ls_status ls_cost_find_gpu(const char *word, const ls_cost_gpu **out) {
    *out = NULL;
    for (int i = 0; i < ls_cost_gpu_count; i++)
        if (strcmp(ls_cost_gpus[i].word, word) == 0) *out = &ls_cost_gpus[i];
    return *out || strcmp(word, "cpu") == 0 ? LS_SUCCESS : unknown(word);
}

ls_cost_machine ls_cost_machine_of_gpu(const ls_cost_gpu *gpu, int tf32) {
    ls_cost_machine m = { .is_gpu = 1,
        .memory = gpu->memory_gbytes * 1e9,
        .cache = gpu->memory_gbytes * 1e9 * CACHE_TIMES_MEMORY,
        .cache_bytes = gpu->cache_mbytes * 1e6 * CACHE_SHARE,
        .vector_rate = gpu->fp32_tflops * 1e12,
        .fp32_rate = (tf32 ? gpu->tf32_tflops : gpu->fp32_tflops) * 1e12,
        .half_rate = gpu->half_tflops * 1e12,
        .units = gpu->units,
        .gap_s = GAP_S,
        .shortest_s = SHORTEST_S,
        .grid_wait_s = GRID_WAIT_S };
    snprintf(m.name, sizeof m.name, "%s", gpu->name);
    return m;
}

// --- this machine ---------------------------------------------------------------------------------

enum { ROUNDS = 8 };
static const double ROUND_S = 0.04, DISPATCH_S = 2e-6; // of a parallel loop's start and end
static const double CACHE_LEAST = 1 << 19;             // where the system does not say

// Of the cores' own: what lies behind is shared with others, and virtual machines are given figures of whole processors.
static double cache_bytes(int threads) {
    const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return threads * (bytes > 0 ? (double)bytes : CACHE_LEAST);
}

// The best of some rounds: limits are what can be reached, also where others take a share of the machine.
static ls_status measure(ls_bench_peak *peak, ls_cost_machine *out) {
    double gflops = 0, memory = 0, cache = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double products, large, small;
        LS_TRY(ls_bench_peak_measure(peak, ROUND_S, &products));
        LS_TRY(ls_bench_peak_bandwidth(peak, LS_BENCH_LARGE, ROUND_S, &large));
        LS_TRY(ls_bench_peak_bandwidth(peak, out->cache_bytes / 2, ROUND_S, &small));
        gflops = fmax(gflops, products);
        memory = fmax(memory, large);
        cache = fmax(cache, small);
    }
    out->vector_rate = out->fp32_rate = out->half_rate = gflops * 1e9;
    out->memory = memory * 1e9;
    out->cache = fmax(cache, memory) * 1e9;
    return LS_SUCCESS;
}

ls_status ls_cost_measure_cpu(ls_device *device, int threads, ls_cost_machine *out) {
    ls_device_info info;
    ls_bench_peak *peak;
    device->api->info(device, &info);
    *out = (ls_cost_machine){ .cache_bytes = cache_bytes(threads) * CACHE_SHARE, .shortest_s = DISPATCH_S };
    snprintf(out->name, sizeof out->name, "%s", info.name);
    LS_TRY(ls_bench_peak_new(device, LS_F32, &peak));
    ls_status status = measure(peak, out);
    ls_bench_peak_free(peak);
    return status;
}
