// main.c - bench_kernels: the cpu device's kernels, step by step from plain loops, each verified, then timed in turns.
//
//   bench_kernels [--quick] [--errors] [--only TEXT] [--threads N] [--width N] [--rounds N] [--json FILE]
//
//   --quick    small batches, two rounds: to see that it works
//   --errors   only the table of convolution's errors
//   --width    8 or 16 floats to a vector: as AVX2 or AVX-512 has; the processor's own
//   --only     cases whose "network layer pass" has TEXT in it
// Tables go to standard output. Exit code 1: a step computes something else than expected, or an argument is wrong.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "system/cpus.h"
#include "base/version.h"
#include "bench.h"

enum { ROUNDS = 7, ROUNDS_QUICK = 2 };
static const double LEAST_SECONDS = 4e-3;

typedef struct {
    int quick, errors, threads, width, rounds;
    const char *only, *json;
} options;

static ls_status read_number(const char *name, const char *text, int most, int *out) {
    char *end;
    const long value = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || value < 1 || value > most)
        return ls_fail(LS_USAGE, "%s needs a number from 1 to %d", name, most);
    *out = (int)value;
    return LS_SUCCESS;
}

static ls_status read_options(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--quick") == 0)
            o->quick = 1;
        else if (strcmp(name, "--errors") == 0)
            o->errors = 1;
        else if (strcmp(name, "--threads") == 0)
            LS_TRY(read_number(name, argv[++i], 1024, &o->threads));
        else if (strcmp(name, "--width") == 0)
            LS_TRY(read_number(name, argv[++i], 16, &o->width));
        else if (strcmp(name, "--rounds") == 0)
            LS_TRY(read_number(name, argv[++i], BENCH_ROUNDS_MAX, &o->rounds));
        else if (strcmp(name, "--only") == 0 && value)
            o->only = argv[++i];
        else if (strcmp(name, "--json") == 0 && value)
            o->json = argv[++i];
        else
            return ls_fail(LS_USAGE,
                "%s: options are --quick --errors --only TEXT --threads N --width N --rounds N --json FILE", name);
    }
    return LS_SUCCESS;
}

static ls_status open_devices(bench *b, int width) {
    ls_device_options o = { .threads = b->threads, .vector_width = width, .winograd = "auto" };
    LS_TRY(ls_device_open("ref", &o, &b->ref, NULL));
    LS_TRY(ls_device_open("cpu", &o, &b->cpu, NULL));
    for (int i = 0; i < BENCH_WAYS_MAX && bench_ways[i]; i++) {
        o.convolution = bench_ways[i];
        LS_TRY(ls_device_open("cpu", &o, &b->ways[i], NULL));
    }
    LS_TRY(ls_pool_new(b->threads, &b->pool));
    return b->cpu->api->queue_new(b->cpu, "bench", &b->queue);
}

static void close_devices(bench *b) {
    if (b->queue) b->cpu->api->queue_free(b->queue);
    if (b->pool) ls_pool_free(b->pool);
    for (int i = 0; i < BENCH_WAYS_MAX; i++) ls_device_close(b->ways[i]);
    ls_device_close(b->cpu);
    ls_device_close(b->ref);
}

static void describe(bench *b) {
    ls_device_info facts;
    b->cpu->api->info(b->cpu, &facts);
    const bench_machine *m = &b->machine;
    printf("Lockstep %s, %s; compiled by %s\n%s\n\n", ls_version(), facts.libraries, ls_version_compiler(), facts.name);
    if (m->fma_gflops > 0)
        printf(
            "Measured limits, %d thread%s: FMA %.0f GFLOP/s, oneDNN sgemm (square, 1024) %.0f GFLOP/s, copy %.1f GB/s "
            "(read and written). Medians and ranges of %d rounds in turns.\n",
            b->threads, b->threads == 1 ? "" : "s", m->fma_gflops, m->sgemm_gflops, m->copy_gbytes, b->rounds);
    fflush(stdout);
    ls_json_add_text(b->json, "version", ls_version());
    ls_json_add_text(b->json, "device", facts.name);
    ls_json_add_text(b->json, "libraries", facts.libraries);
    ls_json_add_text(b->json, "compiler", ls_version_compiler());
    ls_json_add_int(b->json, "threads", b->threads);
    ls_json_add_int(b->json, "rounds", b->rounds);
    ls_json_add_real(b->json, "fma_gflops", m->fma_gflops);
    ls_json_add_real(b->json, "sgemm_gflops", m->sgemm_gflops);
    ls_json_add_real(b->json, "copy_gbytes", m->copy_gbytes);
    ls_json_add_array(b->json, "steps");
    ls_json_add_array(b->json, "errors");
}

static ls_status measure(bench *b, const options *o) {
    LS_TRY(open_devices(b, o->width));
    if (!o->errors) LS_TRY(bench_machine_measure(b)); // errors do not depend on it
    describe(b);
    if (!o->errors) {
        LS_TRY(bench_conv(b));
        LS_TRY(bench_linear(b));
        LS_TRY(bench_memory_bound(b));
        bench_short_table(b);
    }
    if (o->errors || !o->quick) LS_TRY(bench_conv_errors(b));
    return o->json ? ls_json_write_file(o->json, b->json) : LS_SUCCESS;
}

int main(int argc, char **argv) {
    options o = { 0 };
    ls_status status = read_options(argc, argv, &o);
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    bench b = { .threads = o.threads ? o.threads : ls_cpus_threads_per_rank(&cpus, 1),
        .rounds = o.rounds  ? o.rounds
                  : o.quick ? ROUNDS_QUICK
                            : ROUNDS,
        .quick = o.quick,
        .least_seconds = o.quick ? 0 : LEAST_SECONDS,
        .only = o.only,
        .json = cJSON_CreateObject() };
    if (!ls_failed(status)) status = measure(&b, &o);
    close_devices(&b);
    cJSON_Delete(b.json);
    if (ls_failed(status)) fprintf(stderr, "bench_kernels: %s\n", status.text);
    return ls_failed(status);
}
