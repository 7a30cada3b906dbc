// bench.h - what the files of bench_kernels share: the machine's limits, and ladders of implementations of one
// operator, each step verified before it is timed.
//
// A ladder is a list of steps that compute the same thing. Steps are timed in turns (A B C A B C ...), so that what
// else the machine does falls on all of them alike; reported are the median and the range of the rounds, and for each
// round the step's rate over that of the step before which "baseline" is set.
#ifndef BENCH_KERNELS_BENCH_H
#define BENCH_KERNELS_BENCH_H

#include <stddef.h>
#include "base/json.h"
#include "base/pool.h"
#include "device/device.h"

enum { BENCH_WAYS_MAX = 9, BENCH_STEPS_MAX = 12, BENCH_ROUNDS_MAX = 15 };

typedef struct {         // all threads together
    double fma_gflops;   // multiply-adds on registers only
    double sgemm_gflops; // oneDNN's, square matrices, one for each thread
    double copy_gbytes;  // read and written, arrays beyond every cache
} bench_machine;

typedef struct {
    int threads, rounds, quick;
    double least_seconds; // of one timing: short runs are repeated
    const char *only;     // cases whose name has this in it; NULL: all
    ls_pool *pool;
    ls_device *ref, *cpu;
    ls_device *ways[BENCH_WAYS_MAX]; // the cpu device, asked for one algorithm of convolutions each: conv.c
    ls_queue *queue;
    bench_machine machine;
    cJSON *json;
} bench;

typedef struct {
    const char *name;
    void (*run)(void *context);
    void *context;
    double flops, bytes; // of one run; bytes: what must be read and written at least
    double rms, worst;   // errors relative to the RMS of what is expected
    double seconds[BENCH_ROUNDS_MAX];
    int repeats;
} bench_step;

typedef struct {
    const char *group, *layer, *pass; // borrowed until the ladder was reported
    int by_bytes;                     // judged by bytes, not by operations
    bench_step steps[BENCH_STEPS_MAX];
    int count, baseline; // number of the step that others are compared with
} bench_ladder;

// machine.c
LS_CHECKED ls_status bench_machine_measure(bench *b);
// C[m][n] = A[m][k] * B[k][n] (row-major; transposed: A is [k][m], B is [n][k]) by oneDNN, rows split over the pool.
typedef struct {
    int transpose_a, transpose_b, add;
    int m, n, k;
    const float *a, *b;
    float *c;
    int threads;
} bench_sgemm;
void bench_sgemm_run(ls_pool *pool, const bench_sgemm *gemm);

// ladder.c
int bench_wanted(const bench *b, const char *group, const char *layer, const char *pass);
bench_step *bench_ladder_add(bench_ladder *ladder, const char *name, void (*run)(void *context), void *context);
// LS_DEVICE when a step's error says that it computes something else.
LS_CHECKED ls_status bench_ladder_check(const bench_ladder *ladder, const bench_step *step, double rms_bound);
void bench_ladder_time(bench *b, bench_ladder *ladder);
void bench_table_head(const char *title, int by_bytes);
void bench_ladder_report(bench *b, const bench_ladder *ladder);
void bench_short_table(const bench *b); // of what was reported

// operands.c: an operator's arguments on a device, and the data in them
typedef struct {
    ls_device *device;
    ls_slab *slabs[LS_OP_ARGS_MAX + 1]; // and the workspace
    ls_buffer args[LS_OP_ARGS_MAX], workspace;
} bench_operands;

LS_CHECKED ls_status bench_operand_bytes(bench_operands *o, int arg, size_t bytes); // zeros
LS_CHECKED ls_status bench_operand_activation(bench_operands *o, int arg, ls_nchw shape, const float *host);
LS_CHECKED ls_status bench_operand_param(bench_operands *o, int arg, ls_param_shape shape, const float *host);
LS_CHECKED ls_status bench_operand_workspace(bench_operands *o, size_t bytes);
void bench_operands_free(bench_operands *o);

enum { BENCH_PARTS = 3 };
typedef struct { // operators that run one after another
    int count;
    ls_plan *plan[BENCH_PARTS];
    const bench_operands *operands[BENCH_PARTS];
    ls_queue *queue;
} bench_parts;

// Makes the plan and appends it; the operands' workspace grows to what it needs.
LS_CHECKED ls_status bench_parts_add(bench_parts *parts, const ls_op_desc *desc, bench_operands *operands);
void bench_parts_run(void *parts);
void bench_parts_free(bench_parts *parts);

LS_CHECKED ls_status bench_floats(size_t count, float **out);
void bench_fill_normal(float *values, size_t count, uint64_t seed); // about: sums of four 16-bit numbers
static inline ls_param_shape bench_vector(int count) {
    return (ls_param_shape){ LS_PARAM_VECTOR, { count, 1, 1, 1 }, 1 };
}

typedef struct {
    double error, norm, worst;
    size_t count;
} bench_error;
void bench_error_add(bench_error *e, double got, double expected);
double bench_error_rms(const bench_error *e); // relative to the RMS of what is expected, as the next
double bench_error_worst(const bench_error *e);

extern const char *const bench_ways[BENCH_WAYS_MAX]; // conv.c: ls_device_options.convolution, the baseline first

// What is measured; each prints its tables and adds to the JSON.
LS_CHECKED ls_status bench_conv(bench *b);
LS_CHECKED ls_status bench_conv_errors(bench *b);
LS_CHECKED ls_status bench_linear(bench *b);
LS_CHECKED ls_status bench_memory_bound(bench *b);

#endif
