// op_harness.h - runs operators on two devices with the same canonical inputs and compares what they write.
//
//   failed = ls_ops_compare(ref, device, (ls_ops_options){ .storage = LS_F32 });  // all cases of op_cases.h
//   failed = ls_ops_compare_each(ref, trials, count);  // several devices, for which the oracle computes each case once
//
// Beside the values it checks, on the device under test, that inputs are left alone, that nothing
// is written beyond the arguments and the workspace, that outputs do not depend on what stood
// in them or in the workspace (both are filled with NaN), and that padding elements come out zero:
// what is exported and imported again is the same bytes, padding included.
#ifndef TESTS_DEVICE_OP_HARNESS_H
#define TESTS_DEVICE_OP_HARNESS_H

#include "op_case.h"
#include "op_cases.h"

typedef struct {
    ls_dtype storage;
    double tolerance_factor; // 0: 1; times the absolute tolerance of convolutions, for less accurate ones (Winograd)
    double flops_max;        // skips what costs more, for tests that must be short; 0: no limit
    int exact;               // outputs must be equal
    int library_rounds; // in 16 bits convolutions and linear layers are rounded once more than need be: before their
                        // bias, and weight gradients before they are added (cuDNN has no fp32 sums)
    int tf32;           // in fp32, inputs of convolutions, linear layers and Muon's products may be rounded to TF32
    const char *only;   // cases whose name contains it; NULL: all
} ls_ops_options;

// One device under test.
typedef struct {
    ls_device *device;
    ls_ops_options options;
    const char *name; // in messages, beside the device's; NULL: none
} ls_ops_trial;

enum { GUARD = 256, GUARD_BYTE = 0xA5, POISON_BYTE = 0xFF }; // 0xFF in every byte is a NaN in fp32, bf16 and fp16

// A run's memory: each argument in a slab of its own, between guards.
typedef struct {
    ls_device *device;
    ls_queue *queue;
    ls_slab *slab[LS_OP_ARGS_MAX + 1], *staging; // the last: workspace; staging: host memory for copies
    ls_buffer args[LS_OP_ARGS_MAX], workspace;
    char *before[LS_OP_ARGS_MAX]; // bytes of the inputs
} op_run;

static inline int pools_norm(const ls_op_desc *desc) {
    return desc->op >= LS_OP_NORM_FORWARD && desc->op <= LS_OP_NORM_BACKWARD_APPLY && desc->attr.norm.pool_kernel > 0;
}

static inline int can_pool_norm(const ls_device *device, const ls_norm_attr *a) {
    if (device->api->fusions & LS_FUSES_NORM_POOL) return 1;
    return device->api->fusions & LS_FUSES_NORM_POOL_2X2 && a->pool_kernel == 2 && a->pool_stride == 2 &&
           a->pool_pad == 0 && a->shape.h % 2 == 0 && a->shape.w % 2 == 0;
}

// Forward, or what a backward pass then reads: no dst.
static inline int adds_last(const op_case *c) {
    const int backward = c->desc.op >= LS_OP_NORM_BACKWARD_SUMS || c->desc.op == LS_OP_NORM_BACKWARD;
    if (c->desc.op < LS_OP_NORM_FORWARD || c->desc.op > LS_OP_NORM_BACKWARD_APPLY) return 0;
    const ls_norm_attr *a = &c->desc.attr.norm;
    if (!backward) return a->adds_last;
    return a->activation == LS_ACTIVATION_RELU && !a->pool_kernel && c->args[LS_NORM_BACKWARD_DST].kind == ARG_ABSENT;
}

// The shape of a case's pool_src.
static inline ls_nchw pool_src_shape(const op_case *c) {
    return pools_norm(&c->desc) ? c->desc.attr.norm.shape : c->desc.attr.pool.src;
}

static inline size_t arg_bytes(ls_device *device, const op_case *c, const op_arg *arg) {
    size_t element = ls_dtype_bytes(c->storage);
    switch (arg->kind) {
    case ARG_ABSENT:
        return 0;
    case ARG_ACTIVATION:
        return device->api->activation_bytes(device, arg->shape, c->storage);
    case ARG_PARAM:
        return device->api->param_elements(device, &arg->param) * sizeof(float);
    case ARG_WORKING:
        return device->api->param_elements(device, &arg->param) * element;
    case ARG_SAVED:
        return 2 * device->api->param_elements(device, &arg->param) * sizeof(float);
    case ARG_SUMS:
        return ls_norm_sums_count(device->api->param_elements(device, &arg->param)) * sizeof(double);
    case ARG_INDEX: {
        if (pools_norm(&c->desc))
            return device->api->activation_bytes(device, c->desc.attr.norm.pooled, c->storage) / element;
        const ls_pool_attr *a = &c->desc.attr.pool;
        return ls_pool_index_bytes(a, device->api->activation_bytes(device, a->dst, a->storage) / element);
    }
    case ARG_RAW:
        return arg->count * ls_dtype_bytes(arg->type);
    case ARG_STATE:
        return sizeof(ls_train_state);
    case ARG_RESULT:
        return sizeof(ls_micro_result);
    case ARG_MICRO:
        return sizeof(ls_micro_input);
    case ARG_WINDOW:
        return sizeof(ls_update_input);
    }
    return 0;
}

// Makes the staging memory large enough; what is in it is lost.
static inline void stage(op_run *run, size_t bytes) {
    const ls_device_api *api = run->device->api;
    if (run->staging && run->staging->bytes >= bytes) return;
    if (run->staging) api->slab_free(run->staging);
    run->staging = NULL;
    ls_status status = api->slab_new(run->device, LS_MEMORY_PINNED, bytes, "a test's staging", &run->staging);
    if (!ls_failed(status)) return;
    fprintf(stderr, "%s\n", status.text);
    abort();
}

static inline void put_bytes(op_run *run, ls_buffer dst, const void *bytes, size_t count) {
    stage(run, count);
    memcpy(run->staging->address, bytes, count);
    run->device->api->copy(dst, ls_buffer_at(run->staging, 0, run->staging->bytes), count, run->queue);
    (void)run->device->api->queue_sync(run->queue);
}

static inline void get_bytes(op_run *run, void *bytes, ls_buffer src, size_t count) {
    stage(run, count);
    run->device->api->copy(ls_buffer_at(run->staging, 0, run->staging->bytes), src, count, run->queue);
    (void)run->device->api->queue_sync(run->queue);
    memcpy(bytes, run->staging->address, count);
}

// A slab of guard, `bytes` of poison, guard.
static inline ls_status guarded_new(op_run *run, size_t bytes, ls_slab **slab, ls_buffer *buffer) {
    LS_TRY(run->device->api->slab_new(run->device, LS_MEMORY_DEVICE, bytes + 2 * GUARD, "a test's argument", slab));
    char *fill = case_memory(bytes + 2 * GUARD);
    memset(fill, GUARD_BYTE, bytes + 2 * GUARD);
    memset(fill + GUARD, POISON_BYTE, bytes);
    put_bytes(run, ls_buffer_at(*slab, 0, bytes + 2 * GUARD), fill, bytes + 2 * GUARD);
    free(fill);
    *buffer = ls_buffer_at(*slab, GUARD, bytes);
    return LS_SUCCESS;
}

static inline int guards_are_whole(op_run *run, ls_slab *slab) {
    int whole = 1;
    char *bytes = case_memory(slab->bytes);
    get_bytes(run, bytes, ls_buffer_at(slab, 0, slab->bytes), slab->bytes);
    for (size_t i = 0; i < GUARD; i++) {
        whole &= (unsigned char)bytes[i] == GUARD_BYTE && (unsigned char)bytes[slab->bytes - 1 - i] == GUARD_BYTE;
    }
    free(bytes);
    return whole;
}

static inline ls_status run_plan(op_run *run, const ls_op_desc *desc, const ls_buffer *args) {
    const ls_device_api *api = run->device->api;
    ls_plan *plan;
    ls_slab *slab = NULL;
    ls_buffer workspace = { 0 };
    LS_TRY(api->plan_new(run->device, desc, &plan));
    ls_status status = LS_SUCCESS;
    if (plan->workspace_bytes) status = guarded_new(run, plan->workspace_bytes, &slab, &workspace);
    if (!ls_failed(status)) {
        ls_plan_run(plan, args, workspace, run->queue);
        status = api->queue_sync(run->queue);
        if (!ls_failed(status) && slab && !guards_are_whole(run, slab)) {
            status = ls_fail(LS_INTERNAL, "writes outside of its workspace of %zu bytes", plan->workspace_bytes);
        }
    }
    if (slab) api->slab_free(slab);
    api->plan_free(plan);
    return status;
}

// A parameter in 16 bits: imported as fp32, then cast on the device, as the optimizer's working copy is made.
static inline ls_status put_working(op_run *run, const op_case *c, const op_arg *arg, ls_buffer dst) {
    const ls_device_api *api = run->device->api;
    if (c->storage == LS_F32) {
        api->param_import(run->device, &arg->param, arg->host, dst);
        return LS_SUCCESS;
    }
    size_t elements = api->param_elements(run->device, &arg->param);
    ls_slab *slab;
    LS_TRY(api->slab_new(run->device, LS_MEMORY_DEVICE, elements * sizeof(float), "a test's parameter", &slab));
    ls_buffer full = ls_buffer_at(slab, 0, elements * sizeof(float));
    api->param_import(run->device, &arg->param, arg->host, full);
    ls_op_desc cast = {
        .op = LS_OP_CAST, .layer = "test", .attr.flat = { .count = (int64_t)elements, .storage = c->storage }
    };
    ls_status status = run_plan(run, &cast, (ls_buffer[]){ full, dst });
    api->slab_free(slab);
    return status;
}

// Between canonical sums and those in the device's layout, whose padding must be zero: 0 where it is not.
static inline void lay_out_sums(const op_arg *arg, const double *host, double *laid_out, size_t bytes) {
    size_t channels = arg->count / 2, vector = bytes / sizeof(double) / 2;
    memset(laid_out, 0, bytes);
    memcpy(laid_out, host, channels * sizeof(double));
    memcpy(laid_out + vector, host + channels, channels * sizeof(double));
    laid_out[2 * vector] = host[2 * channels];
}

static inline int take_sums(const op_arg *arg, const double *laid_out, size_t bytes, double *host) {
    size_t channels = arg->count / 2, vector = bytes / sizeof(double) / 2;
    int padding_is_zero = 1;
    for (size_t i = 0; i < 2; i++) {
        memcpy(host + i * channels, laid_out + i * vector, channels * sizeof(double));
        for (size_t k = channels; k < vector; k++) padding_is_zero &= laid_out[i * vector + k] == 0;
    }
    host[2 * channels] = laid_out[2 * vector];
    return padding_is_zero;
}

static inline ls_status put_arg(op_run *run, const op_case *c, const op_arg *arg, ls_buffer dst) {
    const ls_device_api *api = run->device->api;
    if (arg->use == USE_OUT) return LS_SUCCESS; // stays poisoned
    switch (arg->kind) {
    case ARG_ACTIVATION:
        api->activation_import(run->device, arg->shape, c->storage, arg->host, dst);
        break;
    case ARG_PARAM:
        api->param_import(run->device, &arg->param, arg->host, dst);
        break;
    case ARG_WORKING:
        return put_working(run, c, arg, dst);
    case ARG_SAVED: {
        size_t half = dst.bytes / 2;
        const float *values = arg->host;
        api->param_import(run->device, &arg->param, values, ls_buffer_at(dst.slab, dst.offset, half));
        api->param_import(
            run->device, &arg->param, values + arg->count / 2, ls_buffer_at(dst.slab, dst.offset + half, half));
        break;
    }
    case ARG_SUMS: {
        double *sums = case_memory(dst.bytes);
        lay_out_sums(arg, arg->host, sums, dst.bytes);
        put_bytes(run, dst, sums, dst.bytes);
        free(sums);
        break;
    }
    default:
        put_bytes(run, dst, arg->host, dst.bytes);
    }
    return LS_SUCCESS;
}

// What the device must be able to join for this operator, of ls_fusion, batch norm apart; 0: every device has it.
static inline unsigned fusion_of(const ls_op_desc *desc) {
    if (desc->op == LS_OP_POOL_FORWARD && desc->attr.pool.has_bias) return LS_FUSES_BIAS;
    if (desc->op == LS_OP_LINEAR_FORWARD && desc->attr.linear.relu) return LS_FUSES_BIAS;
    if (desc->op == LS_OP_COPY_CHANNELS && desc->attr.channels.two_sources) return LS_FUSES_CONCAT_ADD;
    if (desc->op == LS_OP_HEAD) return LS_FUSES_HEAD;
    return desc->op == LS_OP_LOSS && desc->attr.loss.scale != 0 ? LS_FUSES_SCALE : 0;
}

// The index of a max pooling's backward comes from the device's own forward.
static inline ls_status put_pool_index(op_run *run, const op_case *c) {
    const ls_device_api *api = run->device->api;
    const ls_pool_attr *a = &c->desc.attr.pool;
    ls_slab *src_slab = NULL, *dst_slab = NULL;
    ls_buffer args[LS_POOL_FORWARD_ARGS] = { [LS_POOL_FORWARD_INDEX] = run->args[LS_POOL_BACKWARD_INDEX] };
    ls_op_desc forward = c->desc;
    forward.op = LS_OP_POOL_FORWARD;
    LS_TRY(guarded_new(
        run, api->activation_bytes(run->device, a->src, a->storage), &src_slab, &args[LS_POOL_FORWARD_SRC]));
    ls_status status =
        guarded_new(run, api->activation_bytes(run->device, a->dst, a->storage), &dst_slab, &args[LS_POOL_FORWARD_DST]);
    if (!ls_failed(status)) {
        api->activation_import(run->device, a->src, a->storage, c->pool_src, args[LS_POOL_FORWARD_SRC]);
        status = run_plan(run, &forward, args);
        api->slab_free(dst_slab);
    }
    api->slab_free(src_slab);
    return status;
}

// That of a batch norm with pooling, too: from the backward run's SRC and GAMMA, with what stands in GRAD_BETA as BETA;
// of the halves each has one of the two vectors.
static inline ls_status put_norm_index(op_run *run, const op_case *c) {
    const ls_device_api *api = run->device->api;
    const ls_norm_attr *a = &c->desc.attr.norm;
    enum { DST, SAVED, RESIDUAL, SLABS };
    ls_slab *slabs[SLABS] = { 0 };
    ls_buffer made[SLABS];
    ls_param_shape vector = vector_shape(a->shape.c);
    const size_t bytes[SLABS] = { api->activation_bytes(run->device, a->pooled, a->storage),
        2 * sizeof(float) * api->param_elements(run->device, &vector),
        api->activation_bytes(run->device, a->shape, a->storage) };
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < SLABS && !ls_failed(status); i++) status = guarded_new(run, bytes[i], &slabs[i], &made[i]);
    if (!ls_failed(status)) {
        ls_op_desc forward = c->desc;
        forward.op = LS_OP_NORM_FORWARD;
        api->activation_import(run->device, a->shape, a->storage, c->pool_src, made[RESIDUAL]);
        ls_buffer gamma = run->args[LS_NORM_BACKWARD_GAMMA], beta = run->args[LS_NORM_BACKWARD_GRAD_BETA];
        ls_buffer args[LS_NORM_FORWARD_ARGS] = { [LS_NORM_FORWARD_SRC] = run->args[LS_NORM_BACKWARD_SRC],
            [LS_NORM_FORWARD_GAMMA] = gamma.slab ? gamma : beta,
            [LS_NORM_FORWARD_BETA] = beta.slab ? beta : gamma,
            [LS_NORM_FORWARD_SAVED] = made[SAVED],
            [LS_NORM_FORWARD_DST] = made[DST],
            [LS_NORM_FORWARD_INDEX] = run->args[LS_NORM_BACKWARD_INDEX] };
        if (a->residual) args[LS_NORM_FORWARD_RESIDUAL] = made[RESIDUAL];
        status = run_plan(run, &forward, args);
    }
    for (int i = 0; i < SLABS; i++) {
        if (slabs[i]) api->slab_free(slabs[i]);
    }
    return status;
}

static inline ls_status run_prepare(op_run *run, const op_case *c) {
    const ls_device_api *api = run->device->api;
    size_t largest = 1;
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        size_t bytes = arg_bytes(run->device, c, &c->args[i]);
        if (bytes > largest) largest = bytes;
    }
    LS_TRY(api->queue_new(run->device, "test", &run->queue));
    stage(run, largest + 2 * GUARD);
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        const op_arg *arg = &c->args[i];
        size_t bytes = arg_bytes(run->device, c, arg);
        if (arg->kind == ARG_ABSENT || arg->alias || !bytes) continue;
        LS_TRY(guarded_new(run, bytes, &run->slab[i], &run->args[i]));
        LS_TRY(put_arg(run, c, arg, run->args[i]));
    }
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        if (c->args[i].alias) run->args[i] = run->args[c->args[i].alias - 1];
    }
    if (c->pool_src) LS_TRY(pools_norm(&c->desc) ? put_norm_index(run, c) : put_pool_index(run, c));
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        if (!run->slab[i] || c->args[i].use != USE_IN) continue;
        run->before[i] = case_memory(run->args[i].bytes);
        get_bytes(run, run->before[i], run->args[i], run->args[i].bytes);
    }
    return LS_SUCCESS;
}

static inline void run_free(op_run *run) {
    const ls_device_api *api = run->device->api;
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        if (run->slab[i]) api->slab_free(run->slab[i]);
        free(run->before[i]);
    }
    if (run->staging) api->slab_free(run->staging);
    if (run->queue) api->queue_free(run->queue);
}

// The values of an argument after the run, as doubles; their number is *count.
static inline double *get_values(op_run *run, const op_case *c, int at, size_t *count) {
    const ls_device_api *api = run->device->api;
    const op_arg *arg = &c->args[at];
    ls_buffer src = run->args[at];
    float *floats = case_memory(arg->count * sizeof *floats);
    double *values = case_memory((arg->count + 16) * sizeof *values);
    *count = arg->count;
    if (arg->kind == ARG_ACTIVATION) {
        api->activation_export(run->device, arg->shape, c->storage, src, floats);
    } else if (arg->kind == ARG_PARAM) {
        api->param_export(run->device, &arg->param, src, floats);
    } else if (arg->kind == ARG_SAVED) {
        size_t half = src.bytes / 2;
        api->param_export(run->device, &arg->param, ls_buffer_at(src.slab, src.offset, half), floats);
        api->param_export(
            run->device, &arg->param, ls_buffer_at(src.slab, src.offset + half, half), floats + arg->count / 2);
    }
    for (size_t i = 0; i < arg->count; i++) values[i] = (double)floats[i];
    free(floats);
    char *bytes = case_memory(src.bytes);
    get_bytes(run, bytes, src, src.bytes);
    for (size_t i = 0; arg->kind == ARG_RAW && i < arg->count; i++) {
        switch (arg->type) {
        case LS_F64:
            values[i] = ((double *)(void *)bytes)[i];
            break;
        case LS_I64:
            values[i] = (double)((int64_t *)(void *)bytes)[i];
            break;
        case LS_U8:
            values[i] = ((const uint8_t *)bytes)[i];
            break;
        default:
            values[i] = (double)ls_load_float(bytes, arg->type, (int64_t)i);
        }
    }
    if (arg->kind == ARG_SUMS) take_sums(arg, (const void *)bytes, src.bytes, values);
    if (arg->kind == ARG_STATE) {
        const ls_train_state *s = (const void *)bytes;
        double fields[] = { (double)s->applied, (double)s->skipped, (double)s->loss_scale, s->finite_in_row,
            s->skipped_in_row, s->skip, (double)s->lr[0], (double)s->multiplier, (double)s->grad_norm, s->halted,
            s->skip ? (double)s->bad_element : -1, s->bad_gradient, (double)s->lr[LS_RATES_MAX - 1],
            (double)s->micro_batches };
        *count = sizeof fields / sizeof *fields;
        if (s->skip) fields[7] = fields[8] = 0; // multiplier, norm: no meaning when skipped
        memcpy(values, fields, sizeof fields);
    } else if (arg->kind == ARG_RESULT) {
        const ls_micro_result *r = (const void *)bytes;
        double fields[] = { r->loss_sum, (double)r->correct, (double)r->count, (double)r->bad };
        *count = sizeof fields / sizeof *fields;
        memcpy(values, fields, sizeof fields);
    }
    free(bytes);
    return values;
}

// Exported and imported again, an output is the same bytes: its padding is zero.
static inline ls_status check_padding(op_run *run, const op_case *c, int at) {
    const ls_device_api *api = run->device->api;
    const op_arg *arg = &c->args[at];
    ls_buffer src = run->args[at], again;
    ls_slab *slab;
    if (arg->use == USE_IN || (arg->kind != ARG_ACTIVATION && arg->kind != ARG_PARAM)) return LS_SUCCESS;
    LS_TRY(guarded_new(run, src.bytes, &slab, &again));
    float *values = case_memory(arg->count * sizeof *values);
    char *bytes = case_memory(2 * src.bytes);
    if (arg->kind == ARG_ACTIVATION) {
        api->activation_export(run->device, arg->shape, c->storage, src, values);
        api->activation_import(run->device, arg->shape, c->storage, values, again);
    } else {
        api->param_export(run->device, &arg->param, src, values);
        api->param_import(run->device, &arg->param, values, again);
    }
    get_bytes(run, bytes, src, src.bytes);
    get_bytes(run, bytes + src.bytes, again, src.bytes);
    ls_status status = LS_SUCCESS;
    for (size_t i = 0; i < src.bytes && !ls_failed(status); i++) {
        if (bytes[i] == bytes[src.bytes + i]) continue;
        status = ls_fail(LS_INTERNAL,
            "argument %d: byte %zu of %zu is 0x%02x, but imported again it is 0x%02x: padding is not zero", at, i,
            src.bytes, (unsigned)(unsigned char)bytes[i], (unsigned)(unsigned char)bytes[src.bytes + i]);
    }
    free(values);
    free(bytes);
    api->slab_free(slab);
    return status;
}

static inline ls_status check_sums_padding(op_run *run, const op_case *c, int at) {
    const op_arg *arg = &c->args[at];
    if (arg->kind != ARG_SUMS) return LS_SUCCESS;
    double *values = case_memory(arg->count * sizeof *values), *bytes = case_memory(run->args[at].bytes);
    get_bytes(run, bytes, run->args[at], run->args[at].bytes);
    int zero = take_sums(arg, bytes, run->args[at].bytes, values);
    free(values);
    free(bytes);
    return zero ? LS_SUCCESS : ls_fail(LS_INTERNAL, "argument %d: the sums' padding is not zero", at);
}

static inline ls_status check_memory(op_run *run, const op_case *c) {
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        if (run->args[i].slab) LS_TRY(check_padding(run, c, i)); // of an output in place, too
        if (run->args[i].slab) LS_TRY(check_sums_padding(run, c, i));
        if (!run->slab[i]) continue;
        if (!guards_are_whole(run, run->slab[i])) {
            return ls_fail(LS_INTERNAL, "argument %d: writes outside of its %zu bytes", i, run->args[i].bytes);
        }
        int shared = 0;
        for (int j = 0; j < LS_OP_ARGS_MAX; j++) shared |= c->args[j].alias == 1 + i;
        if (!run->before[i] || shared) continue;
        char *after = case_memory(run->args[i].bytes);
        get_bytes(run, after, run->args[i], run->args[i].bytes);
        int same = memcmp(after, run->before[i], run->args[i].bytes) == 0;
        free(after);
        if (!same) return ls_fail(LS_INTERNAL, "argument %d: an input was changed", i);
    }
    return LS_SUCCESS;
}

// A convolution's weight gradient is the sum of two parts.
static inline ls_status join_gradient(op_run *run, const op_case *c) {
    const ls_buffer rounded = run->args[LS_CONV_BACKWARD_WEIGHT_GRAD_ROUNDED];
    if (c->desc.op != LS_OP_CONV_BACKWARD_WEIGHT || !c->desc.attr.conv.rounds) return LS_SUCCESS;
    const ls_op_desc widen = { .op = LS_OP_WIDEN,
        .layer = "test",
        .attr.flat = { .count = (int64_t)(rounded.bytes / ls_dtype_bytes(c->storage)), .storage = c->storage } };
    return run_plan(run, &widen, (ls_buffer[]){ rounded, run->args[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT] });
}

// Runs the case; values[i] receives what argument i holds afterwards (NULL for inputs), to be freed by the caller.
static inline ls_status case_run(ls_device *device, const op_case *c, double *values[], size_t counts[]) {
    op_run run = { .device = device };
    ls_status status = run_prepare(&run, c);
    if (!ls_failed(status)) status = run_plan(&run, &c->desc, run.args);
    if (!ls_failed(status)) status = join_gradient(&run, c);
    if (!ls_failed(status)) status = check_memory(&run, c);
    for (int i = 0; !ls_failed(status) && i < LS_OP_ARGS_MAX; i++) {
        const op_arg *arg = &c->args[i];
        if (arg->kind == ARG_ABSENT || arg->kind == ARG_INDEX || arg->use == USE_IN) continue;
        values[i] = get_values(&run, c, i, &counts[i]);
    }
    run_free(&run);
    return status;
}

// What comes of a trial.
typedef struct {
    ls_ops_trial trial;
    int run, failed, skipped;
    double worst; // largest share of a tolerance that was used up
    char worst_name[160];
} ops_comparison;

typedef struct {
    ls_device *oracle;
    ops_comparison *of;
    size_t count;
    const char *named; // as options.only, and besides it; NULL: all
} ops_comparisons;

// What a device gives for a case: values[i] and counts[i] as by case_run.
typedef struct {
    ls_status status;
    double *values[LS_OP_ARGS_MAX];
    size_t counts[LS_OP_ARGS_MAX];
} case_results;

static inline void case_results_free(case_results *results) {
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) free(results->values[i]);
}

static inline int is_conv(ls_op op) {
    return op == LS_OP_CONV_FORWARD || op == LS_OP_CONV_BACKWARD_DATA || op == LS_OP_CONV_BACKWARD_WEIGHT;
}

// What rounding once more may add: a unit in the last place of the largest value.
static inline double rounding_of(
    const ops_comparison *comparison, const op_case *c, const double *expected, size_t count) {
    ls_op op = c->desc.op;
    int rounded = op == LS_OP_CONV_FORWARD || op == LS_OP_CONV_BACKWARD_WEIGHT || op == LS_OP_LINEAR_FORWARD;
    if (!comparison->trial.options.library_rounds || c->storage == LS_F32 || !rounded) return 0;
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(expected[i]) && fabs(expected[i]) > largest) largest = fabs(expected[i]);
    return largest * (c->storage == LS_BF16 ? 0x1p-7 : 0x1p-10);
}

// TF32 keeps 10 bits behind the point, and hardware may cut off the others: each input loses up to 2^-10 of itself, a
// product 2^-9, and a sum of products 2^-9 of the sum of their magnitudes.
#define TF32_OF_PRODUCTS 0x1p-9
// Of an input, in units of fp32's rounding
#define TF32_ROUNDING (0x1p-10 / 0x1p-24)

static inline int rounds_to_tf32(const ls_ops_options *options, const op_case *c) {
    ls_op op = c->desc.op;
    int product = is_conv(op) || op == LS_OP_LINEAR_FORWARD || op == LS_OP_LINEAR_BACKWARD_DATA ||
                  op == LS_OP_LINEAR_BACKWARD_WEIGHT;
    return options->tf32 && c->storage == LS_F32 && product;
}

// What the oracle gives for the magnitudes of all inputs: sums of the magnitudes of products. The case's values are these afterwards.
static inline ls_status magnitudes_run(ls_device *oracle, op_case *c, double *values[], size_t counts[]) {
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) {
        float *host = c->args[i].host;
        for (size_t k = 0; host && k < c->args[i].count; k++) host[k] = fabsf(host[k]);
    }
    return case_run(oracle, c, values, counts);
}

// magnitudes: NULL, or the sums of magnitudes where products are rounded to TF32.
static inline int compare_values(ops_comparison *comparison, const op_case *c, int at, const double *expected,
    const double *got, const double *magnitudes, size_t count) {
    const op_arg *arg = &c->args[at];
    const ls_ops_options *options = &comparison->trial.options;
    const char *name = comparison->trial.name;
    double factor = is_conv(c->desc.op) && options->tolerance_factor > 0 ? options->tolerance_factor : 1;
    double rounding = rounding_of(comparison, c, expected, count);
    if (options->tf32 && c->desc.op == LS_OP_MUON && at == LS_MUON_WEIGHT) factor *= TF32_ROUNDING;
    for (size_t i = 0; i < count; i++) {
        double tolerance = factor * arg->absolute + arg->relative * fabs(expected[i]) + rounding;
        if (magnitudes) tolerance += TF32_OF_PRODUCTS * magnitudes[i];
        double difference = fabs(got[i] - expected[i]);
        if (options->exact) tolerance = 0;
        int same_special = isnan(expected[i]) ? isnan(got[i]) : isinf(expected[i]) && got[i] == expected[i];
        if (!(difference <= tolerance) && !same_special) {
            fprintf(stderr,
                "FAILED %s: argument %d, element %zu of %zu: %.9g, expected %.9g (difference %.3g, allowed %.3g)%s%s\n",
                c->name, at, i, count, got[i], expected[i], difference, tolerance, name ? ", by " : "",
                name ? name : "");
            return 0;
        }
        if (tolerance > 0 && difference / tolerance > comparison->worst) {
            comparison->worst = difference / tolerance;
            memcpy(comparison->worst_name, c->name, sizeof c->name);
        }
    }
    return 1;
}

// 1 where the trial's device computes the case; counts what is too large for it.
static inline int takes_case(ops_comparison *comparison, const op_case *c) {
    const ls_ops_options *options = &comparison->trial.options;
    const ls_device *device = comparison->trial.device;
    if (options->only && !strstr(c->name, options->only)) return 0;
    if (pools_norm(&c->desc) && !can_pool_norm(device, &c->desc.attr.norm)) return 0;
    if (adds_last(c) && !(device->api->fusions & LS_FUSES_RELU_ADD)) return 0;
    if (fusion_of(&c->desc) & ~device->api->fusions) return 0;
    if (options->flops_max <= 0 || ls_op_flops(&c->desc) <= options->flops_max) return 1;
    comparison->skipped++;
    return 0;
}

static inline int report_failure(const op_case *c, const char *who, ls_status status) {
    if (ls_failed(status)) fprintf(stderr, "FAILED %s: %s: %s\n", c->name, who, status.text);
    return ls_failed(status);
}

// The case on the trial's device, beside what the oracle gives.
static inline void judge_case(ops_comparison *comparison, ls_device *oracle, op_case *c, const case_results *expected) {
    ls_device *device = comparison->trial.device;
    case_results got = { .status = LS_SUCCESS }, magnitudes = { .status = LS_SUCCESS };
    got.status = case_run(device, c, got.values, got.counts);
    int bad = report_failure(c, device->api->name, got.status) || ls_failed(expected->status);
    if (rounds_to_tf32(&comparison->trial.options, c)) {
        magnitudes.status = magnitudes_run(oracle, c, magnitudes.values, magnitudes.counts);
        bad |= report_failure(c, "magnitudes", magnitudes.status);
    }
    for (int i = 0; !bad && i < LS_OP_ARGS_MAX; i++) {
        if (!expected->values[i]) continue;
        size_t count = expected->counts[i] < got.counts[i] ? expected->counts[i] : got.counts[i];
        bad = !compare_values(comparison, c, i, expected->values[i], got.values[i], magnitudes.values[i], count);
    }
    case_results_free(&got);
    case_results_free(&magnitudes);
    comparison->run++;
    comparison->failed += bad;
}

static inline void compare_case(void *context, op_case *c) {
    ops_comparisons *all = context;
    case_results expected = { .status = LS_SUCCESS };
    int computed = 0;
    if (all->named && !strstr(c->name, all->named)) return;
    for (size_t i = 0; i < all->count; i++) {
        if (!takes_case(&all->of[i], c)) continue;
        if (!computed++) {
            expected.status = case_run(all->oracle, c, expected.values, expected.counts);
            report_failure(c, "oracle", expected.status);
        }
        judge_case(&all->of[i], all->oracle, c, &expected);
    }
    case_results_free(&expected);
}

static inline int report_trial(const ops_comparisons *all, const ops_comparison *of, int slow) {
    const ls_ops_trial *trial = &of->trial;
    fprintf(stderr,
        "%s%s%s against %s, %s: %d cases, %d failed, %d too large for this test; largest share of a tolerance: %.2f "
        "(%s)\n",
        trial->device->api->name, trial->name ? ", " : "", trial->name ? trial->name : "", all->oracle->api->name,
        ls_dtype_name(trial->options.storage), of->run, of->failed, of->skipped, of->worst, of->worst_name);
    int nothing = of->run == 0 && !all->named && !(slow && of->skipped); // a comparison of nothing is no success
    return nothing ? 1 : of->failed;
}

// Compares each trial's device with the oracle in all cases of op_cases.h; every failure is a line on stderr.
// The trials have one type of storage. One with tf32 is the last: it changes a case's inputs.
// Returns the number of cases failed.
static inline int ls_ops_compare_each(ls_device *oracle, const ls_ops_trial *trials, size_t count) {
    const char *slow = getenv("LOCKSTEP_TEST_FLOPS_MAX"); // as options.flops_max, for an emulated processor
    ops_comparisons all = { .oracle = oracle, .count = count };
    all.named = getenv("LOCKSTEP_TEST_CASES"); // for planted faults
    all.of = case_memory(count * sizeof *all.of);
    for (size_t i = 0; i < count; i++) {
        if (trials[i].options.storage != trials[0].options.storage || (trials[i].options.tf32 && i + 1 < count))
            abort(); // the test is wrong
        all.of[i] = (ops_comparison){ .trial = trials[i] };
        double *limit = &all.of[i].trial.options.flops_max;
        if (slow && (*limit == 0 || atof(slow) < *limit)) *limit = atof(slow);
    }
    each_case(trials[0].options.storage, compare_case, &all);
    int failed = 0;
    for (size_t i = 0; i < count; i++) failed += report_trial(&all, &all.of[i], slow != NULL);
    free(all.of);
    return failed;
}

static inline int ls_ops_compare(ls_device *oracle, ls_device *device, ls_ops_options options) {
    return ls_ops_compare_each(oracle, &(ls_ops_trial){ .device = device, .options = options }, 1);
}

#endif
