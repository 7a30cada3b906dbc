// op_case.h - one run of one operator as data: its descriptor and every argument with canonical values and a tolerance.
#ifndef TESTS_DEVICE_OP_CASE_H
#define TESTS_DEVICE_OP_CASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/philox.h"
#include "device/device.h"

typedef enum {
    ARG_ABSENT,
    ARG_ACTIVATION, // shape, in the storage type
    ARG_PARAM,      // param, fp32
    ARG_WORKING,    // param in the storage type, as the operators read it
    ARG_SAVED,      // two fp32 vectors, param being the shape of one
    ARG_SUMS,       // two vectors of doubles and a count (op_norm.h), param being the shape of one
    ARG_INDEX,      // of max pooling: the device's own
    ARG_RAW,        // count elements of type, no layout
    ARG_STATE,      // ls_train_state
    ARG_RESULT,     // ls_micro_result
    ARG_MICRO,      // ls_micro_input
    ARG_WINDOW      // ls_update_input
} arg_kind;

typedef enum {
    USE_IN,    // must be the same after the run
    USE_OUT,   // overwritten: poisoned before the run
    USE_UPDATE // added to or changed in place: has values before the run
} arg_use;

typedef struct {
    arg_kind kind;
    arg_use use;
    ls_nchw shape;
    ls_param_shape param;
    ls_dtype type; // RAW
    size_t count;  // canonical elements (RAW: elements; records: 1)
    void *host;    // values before the run: float for what has a layout, else the bytes; owned; NULL for USE_OUT
    // |difference| may be absolute + relative * |oracle's value|
    double absolute, relative;
    int alias; // 1 + number of the argument whose buffer this one is; 0: its own
} op_arg;

typedef struct {
    char name[160];
    ls_op_desc desc;
    ls_dtype storage;
    op_arg args[LS_OP_ARGS_MAX];
    float *pool_src; // POOL_BACKWARD: what the forward run that makes the index reads; owned. Batch norm's
                     // backward with pooling and a residual: that run's residual
    uint32_t next_random;
    ls_step_segment segments[4]; // of an optimizer
} op_case;

#define EPS32 0x1p-23

static inline float case_random(op_case *c) { // uniform in [-1, 1); the finaliser of MurmurHash3 of a counter
    uint32_t h = ++c->next_random * 0x9E3779B9U;
    h = (h ^ h >> 16) * 0x85EBCA6BU;
    h = (h ^ h >> 13) * 0xC2B2AE35U;
    return 2 * ls_unit_float(h ^ h >> 16) - 1;
}

static inline void *case_memory(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) abort();
    return memory;
}

static inline op_case *case_new(ls_op op, ls_dtype storage, const char *row, const char *variant) {
    op_case *c = case_memory(sizeof *c);
    c->desc = (ls_op_desc){ .op = op, .layer = row };
    c->storage = storage;
    snprintf(c->name, sizeof c->name, "%s: %s%s%s (%s)", ls_op_name(op), row, *variant ? ", " : "", variant,
        ls_dtype_name(storage));
    return c;
}

static inline void case_free(op_case *c) {
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(c->args[i].host);
    free(c->pool_src);
    free(c);
}

// Rounding of one stored value: the nearest of two devices' values may differ by one unit in the last place.
static inline double storage_ulp(ls_dtype storage) {
    return storage == LS_BF16 ? 0x1p-7 : storage == LS_F16 ? 0x1p-10 : EPS32;
}

// Sum of `terms` products of two values in [-1, 1): in fp32 and any order. Partial sums of j random terms are about
// sqrt(j)/3 in size, and each addition rounds by up to 2^-24 of that: together 0.14 * terms * 2^-24 (standard
// deviation); allowed is six times that, for the worst of a million sums.
// A sum that lacks a single term is off by about 1/4, which is far more.
static inline double sum_tolerance(double terms) {
    return EPS32 * (8 + 0.5 * terms);
}

static inline op_arg *case_set(op_case *c, int at, arg_kind kind, arg_use use, size_t count, size_t element_bytes) {
    op_arg *arg = &c->args[at];
    *arg = (op_arg){ .kind = kind, .use = use, .count = count };
    if (use != USE_OUT) arg->host = case_memory(count * element_bytes);
    return arg;
}

static inline void fill_uniform(op_case *c, op_arg *arg, float low, float high) {
    float *values = arg->host;
    for (size_t i = 0; values && i < arg->count; i++) values[i] = low + (high - low) * (case_random(c) + 1) / 2;
}

static inline op_arg *case_activation(op_case *c, int at, arg_use use, ls_nchw shape, double absolute) {
    op_arg *arg = case_set(c, at, ARG_ACTIVATION, use, (size_t)ls_nchw_count(shape), sizeof(float));
    arg->shape = shape;
    arg->absolute = absolute;
    arg->relative = storage_ulp(c->storage);
    fill_uniform(c, arg, -1, 1);
    return arg;
}

static inline op_arg *case_param(
    op_case *c, int at, arg_kind kind, arg_use use, ls_param_shape shape, double absolute) {
    size_t count = (size_t)ls_param_count(&shape) * (kind == ARG_SAVED ? 2 : 1);
    op_arg *arg = case_set(c, at, kind, use, count, sizeof(float));
    arg->param = shape;
    arg->absolute = absolute;
    arg->relative = EPS32;
    fill_uniform(c, arg, -1, 1);
    return arg;
}

static inline ls_param_shape vector_shape(int count) {
    return (ls_param_shape){ LS_PARAM_VECTOR, { count, 1, 1, 1 }, 1 };
}

static inline op_arg *case_vector(op_case *c, int at, arg_use use, int count, double absolute) {
    return case_param(c, at, ARG_PARAM, use, vector_shape(count), absolute);
}

// fp32 arrays are filled with values in [-1, 1), others with zeros.
static inline op_arg *case_raw(op_case *c, int at, arg_use use, ls_dtype type, size_t count, double relative) {
    op_arg *arg = case_set(c, at, ARG_RAW, use, count, ls_dtype_bytes(type));
    arg->type = type;
    arg->relative = relative;
    if (type == LS_F32) fill_uniform(c, arg, -1, 1);
    return arg;
}

// double[2][channels] and the count; zeros where they are given.
static inline op_arg *case_sums(op_case *c, int at, arg_use use, int channels, double absolute) {
    op_arg *arg = case_set(c, at, ARG_SUMS, use, 2 * (size_t)channels + 1, sizeof(double));
    arg->param = vector_shape(channels);
    arg->absolute = absolute;
    arg->relative = EPS32;
    return arg;
}

static inline void case_micro(op_case *c, int at, int count) {
    op_arg *arg = case_set(c, at, ARG_MICRO, USE_IN, 1, sizeof(ls_micro_input));
    *(ls_micro_input *)arg->host = (ls_micro_input){ .count = count, .update = 17, .position = 1000003 };
}

static inline ls_train_state *case_state(op_case *c, int at, arg_use use) {
    op_arg *arg = case_set(c, at, ARG_STATE, use, 1, sizeof(ls_train_state));
    ls_train_state *state = arg->host;
    *state = (ls_train_state){
        .applied = 3, .loss_scale = 1024, .lr = { 0.05F, 0.02F }, .multiplier = 1.0F / 512, .micro_batches = 512
    };
    arg->relative = 1e-5;
    return state;
}

static inline void case_alias(op_case *c, int out, int in) {
    c->args[out].alias = 1 + in;
    strncat(c->name, ", in place", sizeof c->name - strlen(c->name) - 1);
}

#endif
