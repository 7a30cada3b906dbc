// memory.c - operators that move bytes: ReLU and max pooling, batch norm and what is fused with it, the optimizer.
// Each by the reference device, by own kernels one after another, and fused.
// What is expected comes from the reference device.
//
// Bytes are those of the fused operator when nothing stays in a cache: batch norm reads its inputs twice.
#include <stdlib.h>
#include <string.h>
#include "bench.h"

enum { BATCH = 128, BATCH_QUICK = 16 };
static const double RMS_BOUND = 1e-5;

typedef struct {
    ls_nchw out_shape; // of the compared output, argument out_arg of own and ref
    int out_arg;
    float *expected, *out;
    bench_operands ref, own, first, second; // first, second: of the parts of the unfused way
    bench_parts ref_parts, own_parts, unfused;
    double bytes;
    bench_ladder ladder;
} memory_case;

static void memory_case_free(memory_case *c) {
    bench_parts_free(&c->ref_parts);
    bench_parts_free(&c->own_parts);
    bench_parts_free(&c->unfused);
    bench_operands_free(&c->first);
    bench_operands_free(&c->second);
    bench_operands_free(&c->own);
    bench_operands_free(&c->ref);
    free(c->expected), free(c->out);
}

static ls_status add_step(memory_case *c, const char *name, const bench_operands *o, bench_parts *parts) {
    bench_parts_run(parts);
    o->device->api->activation_export(o->device, c->out_shape, LS_F32, o->args[c->out_arg], c->out);
    bench_error error = { 0 };
    for (size_t i = 0; i < (size_t)ls_nchw_count(c->out_shape); i++)
        bench_error_add(&error, (double)c->out[i], (double)c->expected[i]);
    bench_step *step = bench_ladder_add(&c->ladder, name, bench_parts_run, parts);
    step->bytes = c->bytes;
    step->rms = bench_error_rms(&error);
    step->worst = bench_error_worst(&error);
    return bench_ladder_check(&c->ladder, step, RMS_BOUND);
}

// All parts have their plans; `unfused` may have none.
static ls_status measure(bench *b, memory_case *c) {
    const size_t count = (size_t)ls_nchw_count(c->out_shape);
    LS_TRY(bench_floats(count, &c->expected));
    LS_TRY(bench_floats(count, &c->out));
    c->ladder.by_bytes = 1;
    c->ref_parts.queue = c->own_parts.queue = c->unfused.queue = b->queue;
    bench_parts_run(&c->ref_parts);
    c->ref.device->api->activation_export(c->ref.device, c->out_shape, LS_F32, c->ref.args[c->out_arg], c->expected);
    if (c->unfused.count) LS_TRY(add_step(c, "own, one after another", &c->own, &c->unfused));
    LS_TRY(add_step(c, c->unfused.count ? "own, fused" : "own", &c->own, &c->own_parts));
    bench_step *ref = bench_ladder_add(&c->ladder, "reference device", bench_parts_run, &c->ref_parts);
    ref->bytes = c->bytes;
    bench_ladder_time(b, &c->ladder);
    bench_ladder_report(b, &c->ladder);
    return LS_SUCCESS;
}

static ls_status new_normal(ls_nchw shape, uint64_t seed, float **out) {
    LS_TRY(bench_floats((size_t)ls_nchw_count(shape), out));
    bench_fill_normal(*out, (size_t)ls_nchw_count(shape), seed);
    return LS_SUCCESS;
}

// An activation of normal numbers.
static ls_status normal_operand(bench_operands *o, int arg, ls_nchw shape, uint64_t seed) {
    float *values;
    LS_TRY(new_normal(shape, seed, &values));
    ls_status status = bench_operand_activation(o, arg, shape, values);
    free(values);
    return status;
}

static ls_status vector_operand(bench_operands *o, int arg, int channels, uint64_t seed) {
    float *values;
    LS_TRY(new_normal((ls_nchw){ channels, 1, 1, 1 }, seed, &values));
    ls_status status = bench_operand_param(o, arg, bench_vector(channels), values);
    free(values);
    return status;
}

static double floats_bytes(ls_nchw shape) {
    return (double)ls_nchw_count(shape) * sizeof(float);
}

// --- reLU and 2x2 max pooling --------------------------------------------------------------------

static ls_op_desc pool_desc(ls_op op, ls_nchw src, int relu) {
    return (ls_op_desc){ .op = op,
        .layer = "pool",
        .attr.pool = { .kind = LS_POOL_MAX,
            .src = src,
            .dst = { src.n, src.c, src.h / 2, src.w / 2 },
            .kernel_h = 2,
            .kernel_w = 2,
            .stride_h = 2,
            .stride_w = 2,
            .relu = relu,
            .training = 1,
            .storage = LS_F32 } };
}

static ls_op_desc map_desc(ls_op op, ls_nchw shape) {
    return (ls_op_desc){ .op = op, .layer = "map", .attr.elementwise = { .shape = shape, .storage = LS_F32 } };
}

static ls_status pool_operands(bench_operands *o, ls_nchw src, ls_nchw dst) {
    LS_TRY(normal_operand(o, LS_POOL_FORWARD_SRC, src, 1));
    LS_TRY(bench_operand_activation(o, LS_POOL_FORWARD_DST, dst, NULL));
    return bench_operand_bytes(o, LS_POOL_FORWARD_INDEX, (size_t)ls_nchw_count(dst) + 64);
}

static ls_status pool_forward(bench *b, memory_case *c, ls_nchw src) {
    const ls_op_desc fused = pool_desc(LS_OP_POOL_FORWARD, src, 1), pool = pool_desc(LS_OP_POOL_FORWARD, src, 0);
    const ls_op_desc relu = map_desc(LS_OP_RELU_FORWARD, src);
    const ls_nchw dst = fused.attr.pool.dst;
    LS_TRY(pool_operands(&c->ref, src, dst));
    LS_TRY(pool_operands(&c->own, src, dst));
    LS_TRY(bench_operand_activation(&c->first, LS_RELU_FORWARD_DST, src, NULL));
    c->first.args[LS_RELU_FORWARD_SRC] = c->own.args[LS_POOL_FORWARD_SRC];
    memcpy(c->second.args, c->own.args, sizeof c->own.args);
    c->second.args[LS_POOL_FORWARD_SRC] = c->first.args[LS_RELU_FORWARD_DST];
    LS_TRY(bench_parts_add(&c->ref_parts, &fused, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &fused, &c->own));
    LS_TRY(bench_parts_add(&c->unfused, &relu, &c->first));
    LS_TRY(bench_parts_add(&c->unfused, &pool, &c->second));
    c->out_shape = dst, c->out_arg = LS_POOL_FORWARD_DST;
    c->bytes = floats_bytes(src) + 1.25 * floats_bytes(dst);
    return measure(b, c);
}

// The index of a forward run on this device.
static ls_status pool_index(ls_device *device, ls_queue *queue, ls_nchw src, int relu, ls_buffer index) {
    const ls_op_desc desc = pool_desc(LS_OP_POOL_FORWARD, src, relu);
    bench_operands o = { .device = device };
    bench_parts parts = { .queue = queue };
    ls_status status = pool_operands(&o, src, desc.attr.pool.dst);
    o.args[LS_POOL_FORWARD_INDEX] = index;
    if (!ls_failed(status)) status = bench_parts_add(&parts, &desc, &o);
    if (!ls_failed(status)) bench_parts_run(&parts);
    bench_parts_free(&parts);
    bench_operands_free(&o);
    return status;
}

static ls_status pool_grad_operands(bench *b, bench_operands *o, ls_nchw src, ls_nchw dst, int relu) {
    LS_TRY(normal_operand(o, LS_POOL_BACKWARD_GRAD_DST, dst, 2));
    LS_TRY(bench_operand_activation(o, LS_POOL_BACKWARD_GRAD_SRC, src, NULL));
    LS_TRY(bench_operand_bytes(o, LS_POOL_BACKWARD_INDEX, (size_t)ls_nchw_count(dst) + 64));
    return pool_index(o->device, b->queue, src, relu, o->args[LS_POOL_BACKWARD_INDEX]);
}

static ls_status pool_backward(bench *b, memory_case *c, ls_nchw src) {
    const ls_op_desc fused = pool_desc(LS_OP_POOL_BACKWARD, src, 1), pool = pool_desc(LS_OP_POOL_BACKWARD, src, 0);
    const ls_op_desc relu = map_desc(LS_OP_RELU_BACKWARD, src);
    const ls_nchw dst = fused.attr.pool.dst;
    LS_TRY(pool_grad_operands(b, &c->ref, src, dst, 1));
    LS_TRY(pool_grad_operands(b, &c->own, src, dst, 1));
    LS_TRY(pool_grad_operands(b, &c->first, src, dst, 0));
    LS_TRY(normal_operand(&c->second, LS_RELU_BACKWARD_DST, src, 1)); // positive where the ReLU's output is
    c->second.args[LS_RELU_BACKWARD_GRAD_DST] = c->first.args[LS_POOL_BACKWARD_GRAD_SRC];
    c->second.args[LS_RELU_BACKWARD_GRAD_SRC] = c->own.args[LS_POOL_BACKWARD_GRAD_SRC];
    LS_TRY(bench_parts_add(&c->ref_parts, &fused, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &fused, &c->own));
    LS_TRY(bench_parts_add(&c->unfused, &pool, &c->first));
    LS_TRY(bench_parts_add(&c->unfused, &relu, &c->second));
    c->out_shape = src, c->out_arg = LS_POOL_BACKWARD_GRAD_SRC;
    c->bytes = floats_bytes(src) + 1.25 * floats_bytes(dst);
    return measure(b, c);
}

// --- batch norm, a residual's addition, ReLU -----------------------------------------------------

static ls_op_desc norm_desc(ls_op op, ls_nchw shape, int fused) {
    return (ls_op_desc){ .op = op,
        .layer = "norm",
        .attr.norm = { .shape = shape,
            .eps = 1e-5F,
            .activation = fused ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
            .residual = fused && op == LS_OP_NORM_FORWARD,
            .storage = LS_F32 } };
}

static ls_status norm_operands(bench_operands *o, ls_nchw shape) {
    LS_TRY(normal_operand(o, LS_NORM_FORWARD_SRC, shape, 1));
    LS_TRY(normal_operand(o, LS_NORM_FORWARD_RESIDUAL, shape, 2));
    LS_TRY(vector_operand(o, LS_NORM_FORWARD_GAMMA, shape.c, 3));
    LS_TRY(vector_operand(o, LS_NORM_FORWARD_BETA, shape.c, 4));
    LS_TRY(bench_operand_bytes(o, LS_NORM_FORWARD_SAVED, 2 * (size_t)shape.c * sizeof(float)));
    LS_TRY(vector_operand(o, LS_NORM_FORWARD_SUM_MEAN, shape.c, 5));
    LS_TRY(vector_operand(o, LS_NORM_FORWARD_SUM_VAR, shape.c, 6));
    return bench_operand_activation(o, LS_NORM_FORWARD_DST, shape, NULL);
}

// One after another: batch norm; the addition and the ReLU in place.
static ls_status norm_forward(bench *b, memory_case *c, ls_nchw shape) {
    const ls_op_desc fused = norm_desc(LS_OP_NORM_FORWARD, shape, 1), norm = norm_desc(LS_OP_NORM_FORWARD, shape, 0);
    const ls_op_desc add = map_desc(LS_OP_ADD, shape), relu = map_desc(LS_OP_RELU_FORWARD, shape);
    LS_TRY(norm_operands(&c->ref, shape));
    LS_TRY(norm_operands(&c->own, shape));
    const ls_buffer dst = c->own.args[LS_NORM_FORWARD_DST];
    c->first.args[LS_ADD_A] = c->first.args[LS_ADD_DST] = dst;
    c->first.args[LS_ADD_B] = c->own.args[LS_NORM_FORWARD_RESIDUAL];
    c->second.args[LS_RELU_FORWARD_SRC] = c->second.args[LS_RELU_FORWARD_DST] = dst;
    LS_TRY(bench_parts_add(&c->ref_parts, &fused, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &fused, &c->own));
    LS_TRY(bench_parts_add(&c->unfused, &norm, &c->own));
    LS_TRY(bench_parts_add(&c->unfused, &add, &c->first));
    LS_TRY(bench_parts_add(&c->unfused, &relu, &c->second));
    c->out_shape = shape, c->out_arg = LS_NORM_FORWARD_DST;
    c->bytes = 4 * floats_bytes(shape);
    return measure(b, c);
}

static ls_status norm_grad_operands(bench_operands *o, ls_nchw shape) {
    LS_TRY(normal_operand(o, LS_NORM_BACKWARD_SRC, shape, 1));
    LS_TRY(normal_operand(o, LS_NORM_BACKWARD_DST, shape, 2)); // read for its sign only
    LS_TRY(normal_operand(o, LS_NORM_BACKWARD_GRAD_DST, shape, 3));
    LS_TRY(vector_operand(o, LS_NORM_BACKWARD_GAMMA, shape.c, 4));
    LS_TRY(bench_operand_bytes(o, LS_NORM_BACKWARD_SAVED, 2 * (size_t)shape.c * sizeof(float)));
    float *saved = ls_buffer_host(o->args[LS_NORM_BACKWARD_SAVED]); // mean 0; channels without padding
    for (int i = 0; i < shape.c; i++) saved[shape.c + i] = 1;
    LS_TRY(bench_operand_activation(o, LS_NORM_BACKWARD_GRAD_SRC, shape, NULL));
    LS_TRY(vector_operand(o, LS_NORM_BACKWARD_GRAD_GAMMA, shape.c, 5));
    return vector_operand(o, LS_NORM_BACKWARD_GRAD_BETA, shape.c, 6);
}

static ls_status norm_backward(bench *b, memory_case *c, ls_nchw shape) {
    const ls_op_desc fused = norm_desc(LS_OP_NORM_BACKWARD, shape, 1), norm = norm_desc(LS_OP_NORM_BACKWARD, shape, 0);
    const ls_op_desc relu = map_desc(LS_OP_RELU_BACKWARD, shape);
    LS_TRY(norm_grad_operands(&c->ref, shape));
    LS_TRY(norm_grad_operands(&c->own, shape));
    LS_TRY(bench_operand_activation(&c->first, LS_RELU_BACKWARD_GRAD_SRC, shape, NULL));
    c->first.args[LS_RELU_BACKWARD_DST] = c->own.args[LS_NORM_BACKWARD_DST];
    c->first.args[LS_RELU_BACKWARD_GRAD_DST] = c->own.args[LS_NORM_BACKWARD_GRAD_DST];
    memcpy(c->second.args, c->own.args, sizeof c->own.args);
    c->second.args[LS_NORM_BACKWARD_GRAD_DST] = c->first.args[LS_RELU_BACKWARD_GRAD_SRC];
    LS_TRY(bench_parts_add(&c->ref_parts, &fused, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &fused, &c->own));
    LS_TRY(bench_parts_add(&c->unfused, &relu, &c->first));
    LS_TRY(bench_parts_add(&c->unfused, &norm, &c->second));
    c->out_shape = shape, c->out_arg = LS_NORM_BACKWARD_GRAD_SRC;
    c->bytes = 7 * floats_bytes(shape);
    return measure(b, c);
}

// --- the optimizer -------------------------------------------------------------------------------

enum { SGD_ARRAYS = 3, ADAMW_ARRAYS = 4 };

static ls_status optimizer_operands(bench_operands *o, int arrays, ls_nchw count) {
    LS_TRY(bench_operand_bytes(o, LS_STEP_STATE, sizeof(ls_train_state)));
    *(ls_train_state *)ls_buffer_host(o->args[LS_STEP_STATE]) =
        (ls_train_state){ .applied = 2, .loss_scale = 1, .lr = { 0.1F }, .multiplier = 1.0F / BATCH };
    for (int i = 0; i < arrays; i++) {
        float *values;
        LS_TRY(new_normal(count, (uint64_t)i << 30, &values));
        for (int64_t j = 0; i == 2 && arrays == ADAMW_ARRAYS && j < ls_nchw_count(count); j++)
            values[j] *= values[j]; // a mean of squares
        ls_status status = bench_operand_bytes(o, LS_STEP_GRAD + i, (size_t)floats_bytes(count));
        if (!ls_failed(status)) memcpy(ls_buffer_host(o->args[LS_STEP_GRAD + i]), values, (size_t)floats_bytes(count));
        free(values);
        LS_TRY(status);
    }
    return LS_SUCCESS;
}

static ls_status optimizer(bench *b, memory_case *c, ls_nchw count, ls_op op) {
    const int arrays = op == LS_OP_SGD ? SGD_ARRAYS : ADAMW_ARRAYS;
    const ls_step_segment segment = { ls_nchw_count(count), 1, 5e-4F, 0.9F, 0, NULL, 0, 1 };
    const ls_op_desc desc = { .op = op,
        .layer = "optimizer",
        .attr.optimizer = { .count = segment.count,
            .segments = &segment,
            .segment_count = 1,
            .nesterov = 1,
            .beta1 = 0.9F,
            .beta2 = 0.999F,
            .eps = 1e-8F,
            .storage = LS_F32 } };
    LS_TRY(optimizer_operands(&c->ref, arrays, count));
    LS_TRY(optimizer_operands(&c->own, arrays, count));
    LS_TRY(bench_parts_add(&c->ref_parts, &desc, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &desc, &c->own));
    c->out_shape = count, c->out_arg = op == LS_OP_SGD ? (int)LS_SGD_WEIGHT : (int)LS_ADAMW_WEIGHT;
    c->bytes = (2 * arrays - 1) * floats_bytes(count); // the gradient is not written
    return measure(b, c);
}

static ls_status sgd(bench *b, memory_case *c, ls_nchw count) {
    return optimizer(b, c, count, LS_OP_SGD);
}

static ls_status adamw(bench *b, memory_case *c, ls_nchw count) {
    return optimizer(b, c, count, LS_OP_ADAMW);
}

// --- all -----------------------------------------------------------------------------------------

static const struct {
    const char *operator, * network, *name;
    ls_status (*run)(bench *b, memory_case *c, ls_nchw shape);
    ls_nchw shape;
} rows[] = {
    { "ReLU + max pool", "lenet", "32 @28", pool_forward, { BATCH, 32, 28, 28 } },
    { "ReLU + max pool", "resnet9", "128 @32", pool_forward, { BATCH, 128, 32, 32 } },
    { "ReLU + max pool, backward", "lenet", "32 @28", pool_backward, { BATCH, 32, 28, 28 } },
    { "ReLU + max pool, backward", "resnet9", "128 @32", pool_backward, { BATCH, 128, 32, 32 } },
    { "batch norm + add + ReLU", "resnet20", "16 @32", norm_forward, { BATCH, 16, 32, 32 } },
    { "batch norm + add + ReLU", "resnet9", "128 @32", norm_forward, { BATCH, 128, 32, 32 } },
    { "batch norm + ReLU, backward", "resnet20", "16 @32", norm_backward, { BATCH, 16, 32, 32 } },
    { "batch norm + ReLU, backward", "resnet9", "128 @32", norm_backward, { BATCH, 128, 32, 32 } },
    { "SGD, Nesterov", "resnet9", "6.6 million", sgd, { 1, 1, 1, 6573120 } },
    { "AdamW", "resnet9", "6.6 million", adamw, { 1, 1, 1, 6573120 } },
};

ls_status bench_memory_bound(bench *b) {
    bench_table_head("What moves bytes", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!bench_wanted(b, rows[i].network, rows[i].name, rows[i].operator)) continue;
        ls_nchw shape = rows[i].shape;
        if (b->quick && shape.n == BATCH) shape.n = BATCH_QUICK;
        memory_case c = { .ladder = { rows[i].network, rows[i].name, rows[i].operator} };
        c.ref.device = b->ref, c.own.device = c.first.device = c.second.device = b->cpu;
        ls_status status = rows[i].run(b, &c, shape);
        memory_case_free(&c);
        LS_TRY(status);
    }
    return LS_SUCCESS;
}
