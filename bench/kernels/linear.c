// linear.c - the matrix products of linear layers: the reference device, oneDNN's sgemm, own sgemm.
#include <stdlib.h>
#include "bench.h"

enum { BATCH = 128, BATCH_QUICK = 32 };

static const struct {
    const char *network, *name;
    ls_nchw src;
    int outputs;
} layers[] = {
    { "lenet", "3136->128", { BATCH, 64, 7, 7 }, 128 },
    { "lenet", "128->10", { BATCH, 128, 1, 1 }, 10 },
    { "resnet9", "512->10", { BATCH, 512, 1, 1 }, 10 },
    { "square", "1024->1024", { BATCH, 1024, 1, 1 }, 1024 },
};

typedef struct {
    ls_op_desc desc;
    float *src, *weight, *grad, *out, *expected; // canonical
    ls_nchw out_shape;                           // an activation's, or a weight's: the same elements in order
    bench_operands ref, own;
    bench_parts ref_parts, own_parts;
    bench_sgemm sgemm;
    ls_pool *pool;
    bench_ladder ladder;
} linear_case;

static const char *const pass_names[] = { "forward", "backward data", "backward weight" };
static const ls_op passes[] = { LS_OP_LINEAR_FORWARD, LS_OP_LINEAR_BACKWARD_DATA, LS_OP_LINEAR_BACKWARD_WEIGHT };
static const int out_args[] = { LS_LINEAR_FORWARD_DST, LS_LINEAR_BACKWARD_DATA_GRAD_SRC,
    LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT };

static void sgemm_run(void *context) {
    const linear_case *c = context;
    bench_sgemm_run(c->pool, &c->sgemm);
}

static ls_param_shape weight_shape(const linear_case *c) {
    const ls_linear_attr *a = &c->desc.attr.linear;
    return (ls_param_shape){ LS_PARAM_LINEAR, { a->out_features, a->src.c, a->src.h, a->src.w }, 1 };
}

static ls_status operands(const linear_case *c, ls_device *device, bench_operands *o) {
    const ls_linear_attr *a = &c->desc.attr.linear;
    const ls_nchw dst = { a->src.n, a->out_features, 1, 1 };
    *o = (bench_operands){ .device = device };
    if (c->desc.op == LS_OP_LINEAR_FORWARD) {
        LS_TRY(bench_operand_activation(o, LS_LINEAR_FORWARD_SRC, a->src, c->src));
        LS_TRY(bench_operand_param(o, LS_LINEAR_FORWARD_WEIGHT, weight_shape(c), c->weight));
        return bench_operand_activation(o, LS_LINEAR_FORWARD_DST, dst, NULL);
    }
    if (c->desc.op == LS_OP_LINEAR_BACKWARD_DATA) {
        LS_TRY(bench_operand_activation(o, LS_LINEAR_BACKWARD_DATA_GRAD_DST, dst, c->grad));
        LS_TRY(bench_operand_param(o, LS_LINEAR_BACKWARD_DATA_WEIGHT, weight_shape(c), c->weight));
        return bench_operand_activation(o, LS_LINEAR_BACKWARD_DATA_GRAD_SRC, a->src, NULL);
    }
    LS_TRY(bench_operand_activation(o, LS_LINEAR_BACKWARD_WEIGHT_SRC, a->src, c->src));
    LS_TRY(bench_operand_activation(o, LS_LINEAR_BACKWARD_WEIGHT_GRAD_DST, dst, c->grad));
    return bench_operand_param(o, LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT, weight_shape(c), NULL);
}

// All on canonical arrays: rows of C*H*W.
static bench_sgemm sgemm_of(const linear_case *c, int threads) {
    const ls_linear_attr *a = &c->desc.attr.linear;
    const int k = a->src.c * a->src.h * a->src.w;
    bench_sgemm g = { .threads = threads, .c = c->out };
    if (c->desc.op == LS_OP_LINEAR_FORWARD) {
        g.m = a->src.n, g.n = a->out_features, g.k = k;
        g.a = c->src, g.b = c->weight, g.transpose_b = 1;
    } else if (c->desc.op == LS_OP_LINEAR_BACKWARD_DATA) {
        g.m = a->src.n, g.n = k, g.k = a->out_features;
        g.a = c->grad, g.b = c->weight;
    } else {
        g.m = a->out_features, g.n = k, g.k = a->src.n;
        g.a = c->grad, g.transpose_a = 1, g.b = c->src, g.add = 1;
    }
    return g;
}

static ls_status fill(linear_case *c) {
    const ls_linear_attr *a = &c->desc.attr.linear;
    const size_t in = (size_t)ls_nchw_count(a->src), out = (size_t)(a->src.n * a->out_features);
    const size_t weights = in / (size_t)a->src.n * (size_t)a->out_features;
    const ls_nchw dst = { a->src.n, a->out_features, 1, 1 };
    c->out_shape = c->desc.op == LS_OP_LINEAR_FORWARD ? dst : a->src;
    if (c->desc.op == LS_OP_LINEAR_BACKWARD_WEIGHT) c->out_shape.n = a->out_features;
    const size_t outs = (size_t)ls_nchw_count(c->out_shape);
    LS_TRY(bench_floats(in, &c->src));
    LS_TRY(bench_floats(weights, &c->weight));
    LS_TRY(bench_floats(out, &c->grad));
    LS_TRY(bench_floats(outs, &c->out));
    LS_TRY(bench_floats(outs, &c->expected));
    for (size_t i = 0; i < outs; i++) c->out[i] = 0;
    bench_fill_normal(c->src, in, 1);
    bench_fill_normal(c->weight, weights, 1U << 30);
    bench_fill_normal(c->grad, out, 2U << 30);
    return LS_SUCCESS;
}

static ls_status add_step(linear_case *c, const char *name, void (*run)(void *), void *context) {
    bench_error error = { 0 };
    for (size_t i = 0; i < (size_t)ls_nchw_count(c->out_shape); i++)
        bench_error_add(&error, (double)c->out[i], (double)c->expected[i]);
    bench_step *step = bench_ladder_add(&c->ladder, name, run, context);
    step->flops = ls_op_flops(&c->desc);
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) step->bytes += (double)c->ref.args[i].bytes;
    step->rms = bench_error_rms(&error);
    step->worst = bench_error_worst(&error);
    return bench_ladder_check(&c->ladder, step, 1e-5);
}

static void export_out(const linear_case *c, int pass, const bench_operands *o, float *to) {
    const ls_param_shape weight = weight_shape(c);
    if (passes[pass] == LS_OP_LINEAR_BACKWARD_WEIGHT)
        o->device->api->param_export(o->device, &weight, o->args[out_args[pass]], to);
    else
        o->device->api->activation_export(o->device, c->out_shape, LS_F32, o->args[out_args[pass]], to);
}

static ls_status add_steps(bench *b, linear_case *c, int pass) {
    c->ref_parts.queue = c->own_parts.queue = b->queue;
    c->pool = b->pool;
    LS_TRY(operands(c, b->ref, &c->ref));
    LS_TRY(operands(c, b->cpu, &c->own));
    LS_TRY(bench_parts_add(&c->ref_parts, &c->desc, &c->ref));
    LS_TRY(bench_parts_add(&c->own_parts, &c->desc, &c->own));
    bench_parts_run(&c->ref_parts);
    export_out(c, pass, &c->ref, c->expected);
    c->sgemm = sgemm_of(c, b->threads);
    sgemm_run(c);
    LS_TRY(add_step(c, "oneDNN sgemm", sgemm_run, c));
    bench_parts_run(&c->own_parts);
    export_out(c, pass, &c->own, c->out);
    LS_TRY(add_step(c, c->own_parts.plan[0]->algorithm, bench_parts_run, &c->own_parts));
    export_out(c, pass, &c->ref, c->out);
    return add_step(c, "reference device", bench_parts_run, &c->ref_parts);
}

static ls_status run_case(bench *b, size_t layer, int pass) {
    linear_case c = { .ladder = { layers[layer].network, layers[layer].name, pass_names[pass] },
        .desc = { .op = passes[pass],
            .layer = layers[layer].name,
            .attr.linear = { layers[layer].src, layers[layer].outputs, 0, LS_F32 } } };
    if (b->quick) c.desc.attr.linear.src.n = BATCH_QUICK;
    ls_status status;
    LS_TRY_GOTO(fill(&c));
    LS_TRY_GOTO(add_steps(b, &c, pass));
    bench_ladder_time(b, &c.ladder);
    bench_ladder_report(b, &c.ladder);
done:
    bench_parts_free(&c.ref_parts);
    bench_parts_free(&c.own_parts);
    bench_operands_free(&c.ref);
    bench_operands_free(&c.own);
    free(c.src), free(c.weight), free(c.grad), free(c.out), free(c.expected);
    return status;
}

ls_status bench_linear(bench *b) {
    bench_table_head("Linear layers", 0);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int pass = 0; pass < 3; pass++)
            if (bench_wanted(b, layers[i].network, layers[i].name, pass_names[pass])) LS_TRY(run_case(b, i, pass));
    return LS_SUCCESS;
}
