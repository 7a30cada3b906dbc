// miscompute.c - linked into train_miscomputing: the program on ranks whose devices compute wrong gradients. The
// linker's --wrap (cmake/lockstep.cmake) sends calls of these functions through here.
//
// Environment
//   LOCKSTEP_TEST_MISCOMPUTE  a file of faults, a line each: RANK FROM TO PASS TENSOR STRIDE LANE OP BIT
//                               FROM TO    updates FROM to TO, from 1, both included
//                               PASS       which of the rank's runs of a program in an update, from 0; -1: all of them
//                               TENSOR     number of a trained tensor in the parameter store's order, modulo their count
//                               STRIDE LANE  elements LANE, LANE + STRIDE, ... of its gradient
//                               OP BIT     set, clear, flip: that bit of them; nan: they become NaN
//   LOCKSTEP_TEST_MISCOMPUTE_LOG  a file: "RANK UPDATE PASS CHANGED" is appended whenever a fault has changed gradients
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "train/update_internal.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // __wrap_NAME is called as NAME

typedef struct {
    int rank, pass, tensor, stride, lane, bit;
    long long from, to;
    char op[8];
} fault;

static fault *faults;
static int count = -1, rank;
static long long update; // the update in progress, from 1
static int pass;         // number of the run of a program in it, from 0

static void read_faults(void) {
    const char *path = getenv("LOCKSTEP_TEST_MISCOMPUTE"), *mine = getenv("OMPI_COMM_WORLD_RANK");
    FILE *file = path && mine ? fopen(path, "r") : NULL;
    fault f;
    count = 0;
    while (file && fscanf(file, "%d %lld %lld %d %d %d %d %7s %d", &f.rank, &f.from, &f.to, &f.pass, &f.tensor,
                       &f.stride, &f.lane, f.op, &f.bit) == 9) {
        rank = atoi(mine);
        if (f.rank != rank) continue;
        faults = ls_grow(faults, count, sizeof *faults, "faults");
        faults[count++] = f;
    }
    if (file) fclose(file);
}

static float wrong(const fault *f, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t bit = UINT32_C(1) << f->bit;
    bits = f->op[0] == 's' ? bits | bit : f->op[0] == 'c' ? bits & ~bit : f->op[0] == 'f' ? bits ^ bit : 0x7fc00000;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Returns the number of elements that have changed.
static int do_harm(const ls_param_store *store, const fault *f) {
    const int param = store->order[f->tensor % store->trained_params];
    const ls_param_shape *shape = &store->graph->params[param].shape;
    const int64_t elements = ls_param_count(shape);
    float *values = ls_new(elements, sizeof *values, "wrong gradient");
    const ls_buffer gradient = ls_param_store_grad(store, param);
    int changed = 0;
    store->device->api->param_export(store->device, shape, gradient, values);
    for (int64_t i = f->lane % elements; i < elements; i += f->stride) {
        const float before = values[i];
        values[i] = wrong(f, before);
        changed += memcmp(&values[i], &before, sizeof before) != 0;
    }
    if (changed) store->device->api->param_import(store->device, shape, values, gradient);
    free(values);
    return changed;
}

static void report(int changed) {
    const char *path = getenv("LOCKSTEP_TEST_MISCOMPUTE_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%d %lld %d %d\n", rank, update, pass, changed);
    fclose(file);
}

typedef struct {
    const ls_program *program;
    ls_queue *queue;
    const ls_program_hooks *hooks;
    int harmed; // tensors of the store's order whose faults have been made
} wrong_run;

// Makes the faults of the first `up_to` tensors of the store, before anything reads their gradients.
static void make_faults(wrong_run *w, int up_to) {
    const ls_param_store *store = w->program->store;
    for (; w->harmed < up_to; w->harmed++)
        for (int i = 0; i < count; i++) {
            const fault *f = &faults[i];
            if (update < f->from || update > f->to || (f->pass >= 0 && f->pass != pass)) continue;
            if (f->tensor % store->trained_params != w->harmed) continue;
            if (ls_failed(store->device->api->queue_sync(w->queue))) abort();
            const int changed = do_harm(store, f);
            if (changed) report(changed);
        }
}

static void complete(void *context, int up_to) {
    wrong_run *w = context;
    make_faults(w, up_to);
    if (w->hooks->complete) w->hooks->complete(w->hooks->context, up_to);
}

static void reduce(void *context, ls_buffer sums, int64_t elements) {
    const wrong_run *w = context;
    w->hooks->reduce(w->hooks->context, sums, elements);
}

void __real_ls_update_begin(ls_update *u, const ls_sliding_window *window);
void __wrap_ls_update_begin(ls_update *u, const ls_sliding_window *window) {
    if (count < 0) read_faults();
    if (update != window->number + 1) pass = 0;
    update = window->number + 1;
    __real_ls_update_begin(u, window);
}

void __real_ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks);
void __wrap_ls_program_run(
    const ls_program *program, const ls_program_inputs *inputs, ls_queue *queue, const ls_program_hooks *hooks) {
    if (count <= 0 || !hooks->complete) { // without this hook the program only evaluates
        __real_ls_program_run(program, inputs, queue, hooks);
        return;
    }
    wrong_run w = { program, queue, hooks, 0 };
    const ls_program_hooks mine = {
        .clock = hooks->clock, .context = &w, .complete = complete, .reduce = hooks->reduce ? reduce : NULL
    };
    __real_ls_program_run(program, inputs, queue, &mine);
    make_faults(&w, program->store->trained_params);
    pass++;
}
