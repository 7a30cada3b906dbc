// conv.c - the ladder of convolution: plain loops, the reference device, oneDNN as the program calls it, own kernels.
#include <stdio.h>
#include <string.h>
#include "conv.h"

enum { BATCH = 128, BATCH_QUICK = 16 };
static const double SLOW_FLOPS = 5e7; // plain loops and the reference device: so many at a time, or one sample
// A missing term of the longest sums (131072) would be 3e-3 of the result; plain fp32 sums of these are right to 1e-5.
static const double RMS_BOUND = 1e-4;

static const conv_layer layers[] = {
    //                               channels, map        K   R  s  p, groups
    { "resnet9", "3->64 @32", { BATCH, 3, 32, 32 }, 64, 3, 1, 1, 1 },
    { "resnet9", "64->128 @32", { BATCH, 64, 32, 32 }, 128, 3, 1, 1, 1 },
    { "resnet9", "128->128 @16", { BATCH, 128, 16, 16 }, 128, 3, 1, 1, 1 },
    { "resnet9", "128->256 @16", { BATCH, 128, 16, 16 }, 256, 3, 1, 1, 1 },
    { "resnet9", "256->512 @8", { BATCH, 256, 8, 8 }, 512, 3, 1, 1, 1 },
    { "resnet9", "512->512 @4", { BATCH, 512, 4, 4 }, 512, 3, 1, 1, 1 },
    { "resnet20", "3->16 @32", { BATCH, 3, 32, 32 }, 16, 3, 1, 1, 1 },
    { "resnet20", "16->16 @32", { BATCH, 16, 32, 32 }, 16, 3, 1, 1, 1 },
    { "resnet20", "16->32 @32, stride 2", { BATCH, 16, 32, 32 }, 32, 3, 2, 1, 1 },
    { "resnet20", "16->32 @32, 1x1, stride 2", { BATCH, 16, 32, 32 }, 32, 1, 2, 0, 1 },
    { "resnet20", "32->32 @16", { BATCH, 32, 16, 16 }, 32, 3, 1, 1, 1 },
    { "resnet20", "64->64 @8", { BATCH, 64, 8, 8 }, 64, 3, 1, 1, 1 },
    { "airbench94", "3->24 @32, 2x2", { BATCH, 3, 32, 32 }, 24, 2, 1, 0, 1 },
    { "airbench94", "24->64 @31", { BATCH, 24, 31, 31 }, 64, 3, 1, 1, 1 },
    { "airbench94", "64->64 @15", { BATCH, 64, 15, 15 }, 64, 3, 1, 1, 1 },
    { "airbench94", "64->256 @15", { BATCH, 64, 15, 15 }, 256, 3, 1, 1, 1 },
    { "airbench94", "256->256 @7", { BATCH, 256, 7, 7 }, 256, 3, 1, 1, 1 },
    { "airbench94", "256->256 @3", { BATCH, 256, 3, 3 }, 256, 3, 1, 1, 1 },
    { "airbench94, 24 pixels", "64->256 @11", { BATCH, 64, 11, 11 }, 256, 3, 1, 1, 1 },
    { "airbench94, 24 pixels", "256->256 @5", { BATCH, 256, 5, 5 }, 256, 3, 1, 1, 1 },
    { "airbench94, 28 pixels", "64->256 @13", { BATCH, 64, 13, 13 }, 256, 3, 1, 1, 1 },
    { "airbench94, 28 pixels", "256->256 @6", { BATCH, 256, 6, 6 }, 256, 3, 1, 1, 1 },
    { "lenet", "1->32 @28, 5x5", { BATCH, 1, 28, 28 }, 32, 5, 1, 2, 1 },
    { "lenet", "32->64 @14, 5x5", { BATCH, 32, 14, 14 }, 64, 5, 1, 2, 1 },
    { "mobilenet", "32 @32", { BATCH, 32, 32, 32 }, 32, 3, 1, 1, 32 },
    { "mobilenet", "64 @32, stride 2", { BATCH, 64, 32, 32 }, 64, 3, 2, 1, 64 },
    { "mobilenet", "128 @16", { BATCH, 128, 16, 16 }, 128, 3, 1, 1, 128 },
    { "mobilenet", "256 @8", { BATCH, 256, 8, 8 }, 256, 3, 1, 1, 256 },
    { "mobilenet", "512 @4", { BATCH, 512, 4, 4 }, 512, 3, 1, 1, 512 },
    { "mobilenet", "32->64 @32, 1x1", { BATCH, 32, 32, 32 }, 64, 1, 1, 0, 1 },
    { "mobilenet", "128->128 @16, 1x1", { BATCH, 128, 16, 16 }, 128, 1, 1, 0, 1 },
    { "mobilenet", "256->256 @8, 1x1", { BATCH, 256, 8, 8 }, 256, 1, 1, 0, 1 },
    { "mobilenet", "512->512 @4, 1x1", { BATCH, 512, 4, 4 }, 512, 1, 1, 0, 1 },
    { "bottleneck", "64->256 @16, 1x1", { BATCH, 64, 16, 16 }, 256, 1, 1, 0, 1 },
    { "bottleneck", "256->64 @16, 1x1", { BATCH, 256, 16, 16 }, 64, 1, 1, 0, 1 },
    { "bottleneck", "256->512 @16, 1x1, stride 2", { BATCH, 256, 16, 16 }, 512, 1, 2, 0, 1 },
    { "bottleneck", "128->128 @16, stride 2", { BATCH, 128, 16, 16 }, 128, 3, 2, 1, 1 },
    { "bottleneck", "64->64 @14, 5x5, stride 2", { BATCH, 64, 14, 14 }, 64, 5, 2, 2, 1 },
    { "stems", "3->32 @64, stride 2", { BATCH / 4, 3, 64, 64 }, 32, 3, 2, 1, 1 },
    { "stems", "3->64 @64, 7x7, stride 2", { BATCH / 4, 3, 64, 64 }, 64, 7, 2, 3, 1 },
    { "stems", "3->64 @64, 5x5, stride 2", { BATCH / 4, 3, 64, 64 }, 64, 5, 2, 2, 1 },
    { "groups", "16 @32, 5x5 by channel", { BATCH, 16, 32, 32 }, 16, 5, 1, 2, 16 },
    { "groups", "96 @32, 7x7 by channel", { BATCH, 96, 32, 32 }, 96, 7, 1, 3, 96 },
    { "groups", "64->64 @16 in 2", { BATCH, 64, 16, 16 }, 64, 3, 1, 1, 2 },
    { "groups", "64->64 @16 in 2, stride 2", { BATCH, 64, 16, 16 }, 64, 3, 2, 1, 2 },
    { "groups", "256->256 @8 in 16", { BATCH, 256, 8, 8 }, 256, 3, 1, 1, 16 },
    { "groups", "128->128 @16 in 16", { BATCH, 128, 16, 16 }, 128, 3, 1, 1, 16 },
    { "groups", "128->128 @16 in 32", { BATCH, 128, 16, 16 }, 128, 3, 1, 1, 32 },
    { "groups", "48->48 @16 in 2", { BATCH, 48, 16, 16 }, 48, 3, 1, 1, 2 },
    { "groups", "128->128 @16 in 4, 1x1", { BATCH, 128, 16, 16 }, 128, 1, 1, 0, 4 },
    { "groups", "120->120 @16 in 3, 1x1", { BATCH, 120, 16, 16 }, 120, 1, 1, 0, 3 },
};

const char *const bench_ways[BENCH_WAYS_MAX] = { "onednn", "own direct", "winograd f(2,3)", "winograd f(4,3)",
    "winograd f(2,5)", "winograd f(3,3)", "winograd f(5,3)", "winograd f(3,5)", "own grouped" };

// Whether a device that was asked for this algorithm has it for the plan; else it takes another.
static int is_by(const ls_plan *plan, const char *way) {
    return strncmp(plan->algorithm, way, strlen(way)) == 0;
}

static const ls_op passes[] = { LS_OP_CONV_FORWARD, LS_OP_CONV_BACKWARD_DATA, LS_OP_CONV_BACKWARD_WEIGHT };

// --- plain loops ---------------------------------------------------------------------------------

typedef struct {
    conv_pass *pass;
    ls_pool *pool;
    int tasks;
} naive;

static void naive_task(void *context, int task, int thread) {
    (void)thread;
    const naive *n = context;
    const size_t begin = n->pass->outs * (size_t)task / (size_t)n->tasks;
    const size_t end = n->pass->outs * (size_t)(task + 1) / (size_t)n->tasks;
    for (size_t i = begin; i < end; i++) n->pass->out[i] = conv_plain(n->pass, i);
}

static void naive_run(void *context) {
    naive *n = context;
    ls_pool_run(n->pool, naive_task, n, n->tasks);
}

// --- one layer, one pass -------------------------------------------------------------------------

typedef struct {
    conv_pass small, whole; // small: for plain loops and the reference device
    naive naive;
    bench_operands ref_operands, operands; // operands: all plans of the cpu device
    bench_parts ref, way[BENCH_WAYS_MAX];
    bench_ladder ladder;
} conv_case;

static double bytes_of(const bench_operands *o) {
    double bytes = 0;
    for (int i = 0; i < LS_OP_ARGS_MAX; i++) bytes += (double)o->args[i].bytes;
    return bytes;
}

static ls_status add_step(conv_case *c, const char *name, void (*run)(void *), void *context, const conv_pass *pass) {
    const bench_error error = conv_pass_error(pass);
    bench_step *step = bench_ladder_add(&c->ladder, name, run, context);
    step->flops = ls_op_flops(&(ls_op_desc){ .op = pass->op, .attr.conv = pass->attr });
    step->bytes = bytes_of(pass == &c->small ? &c->ref_operands : &c->operands);
    step->rms = bench_error_rms(&error);
    step->worst = bench_error_worst(&error);
    return bench_ladder_check(&c->ladder, step, RMS_BOUND);
}

static ls_op_desc desc_of(const conv_pass *pass, const char *layer) {
    return (ls_op_desc){ .op = pass->op, .layer = layer, .attr.conv = pass->attr };
}

static ls_status add_slow_steps(bench *b, conv_case *c) {
    c->naive = (naive){ &c->small, b->pool, 16 * b->threads };
    LS_TRY(conv_operands(&c->small, b->ref, &c->ref_operands));
    naive_run(&c->naive);
    LS_TRY(add_step(c, "plain loops", naive_run, &c->naive, &c->small));
    const ls_op_desc desc = desc_of(&c->small, c->ladder.layer);
    c->ref.queue = b->queue;
    LS_TRY(bench_parts_add(&c->ref, &desc, &c->ref_operands));
    LS_TRY(conv_run_once(&c->small, &c->ref, &c->ref_operands));
    return add_step(c, "reference device", bench_parts_run, &c->ref, &c->small);
}

static ls_status add_ways(bench *b, conv_case *c) {
    const ls_op_desc desc = desc_of(&c->whole, c->ladder.layer);
    LS_TRY(conv_operands(&c->whole, b->cpu, &c->operands));
    c->ladder.baseline = c->ladder.count;
    for (int i = 0; i < BENCH_WAYS_MAX && b->ways[i]; i++) {
        bench_parts *parts = &c->way[i];
        parts->queue = b->queue;
        c->operands.device = b->ways[i];
        LS_TRY(bench_parts_add(parts, &desc, &c->operands));
        if (!is_by(parts->plan[0], bench_ways[i])) continue;
        LS_TRY(conv_run_once(&c->whole, parts, &c->operands));
        LS_TRY(add_step(c, parts->plan[0]->algorithm, bench_parts_run, parts, &c->whole));
    }
    return LS_SUCCESS;
}

static void conv_case_free(conv_case *c) {
    for (int i = 0; i < BENCH_WAYS_MAX; i++) bench_parts_free(&c->way[i]);
    bench_parts_free(&c->ref);
    bench_operands_free(&c->operands);
    bench_operands_free(&c->ref_operands);
    conv_pass_free(&c->small);
    conv_pass_free(&c->whole);
}

static ls_status run_case(bench *b, const conv_layer *layer, ls_op op) {
    conv_case c = { .ladder = { .group = layer->network, .layer = layer->name, .pass = conv_pass_name(op) } };
    ls_conv_attr attr = conv_attr_of(layer);
    if (b->quick) attr.src.n = attr.dst.n = BATCH_QUICK;
    ls_status status;
    LS_TRY_GOTO(conv_pass_new(op, conv_smaller(attr, SLOW_FLOPS), 0, &c.small));
    LS_TRY_GOTO(conv_pass_new(op, attr, 0, &c.whole));
    LS_TRY_GOTO(add_slow_steps(b, &c));
    LS_TRY_GOTO(add_ways(b, &c));
    bench_ladder_time(b, &c.ladder);
    bench_ladder_report(b, &c.ladder);
done:
    conv_case_free(&c);
    return status;
}

ls_status bench_conv(bench *b) {
    bench_table_head("Convolution", 0);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
            if (layers[i].src.c <= 3 && passes[p] == LS_OP_CONV_BACKWARD_DATA) continue; // nobody needs it
            if (!bench_wanted(b, layers[i].network, layers[i].name, conv_pass_name(passes[p]))) continue;
            LS_TRY(run_case(b, &layers[i], passes[p]));
        }
    return LS_SUCCESS;
}

// --- the table of errors -------------------------------------------------------------------------

static const conv_layer error_layers[] = {
    { "", "16->16 @32", { BATCH, 16, 32, 32 }, 16, 3, 1, 1, 1 },
    { "", "64->64 @8", { BATCH, 64, 8, 8 }, 64, 3, 1, 1, 1 },
    { "", "128->128 @16", { BATCH, 128, 16, 16 }, 128, 3, 1, 1, 1 },
    { "", "512->512 @4", { BATCH, 512, 4, 4 }, 512, 3, 1, 1, 1 },
    { "", "32->64 @14, 5x5", { BATCH, 32, 14, 14 }, 64, 5, 1, 2, 1 },
    { "", "64 @16, by channel", { BATCH, 64, 16, 16 }, 64, 3, 1, 1, 64 },
    { "", "128->128 @8 in 32", { BATCH, 128, 8, 8 }, 128, 3, 1, 1, 32 },
};

static void put_error(cJSON *item, const char *name, const bench_error *error) {
    cJSON *of = ls_json_add_object(item, name);
    ls_json_add_real(of, "rms", bench_error_rms(error));
    ls_json_add_real(of, "worst", bench_error_worst(error));
    printf(" %.1f / %.0f |", 1e7 * bench_error_rms(error), 1e7 * bench_error_worst(error));
}

static ls_status way_error(bench *b, const conv_pass *pass, int way, bench_operands *o, cJSON *item) {
    const ls_op_desc desc = desc_of(pass, "errors");
    bench_parts parts = { .queue = b->queue };
    o->device = b->ways[way];
    LS_TRY(bench_parts_add(&parts, &desc, o));
    const int fallback = !is_by(parts.plan[0], bench_ways[way]);
    ls_status status = fallback ? LS_SUCCESS : conv_run_once(pass, &parts, o);
    if (fallback) printf(" - |");
    if (!fallback && !ls_failed(status)) {
        const bench_error error = conv_pass_error(pass);
        put_error(item, parts.plan[0]->algorithm, &error);
    }
    bench_parts_free(&parts);
    return status;
}

static ls_status error_row(bench *b, const conv_layer *layer, ls_op op, int zeros) {
    bench_operands o = { 0 };
    conv_pass pass;
    LS_TRY(conv_pass_new(op, conv_attr_of(layer), zeros, &pass));
    ls_status status;
    cJSON *item = cJSON_CreateObject();
    ls_json_add_text(item, "layer", layer->name);
    ls_json_add_text(item, "pass", conv_pass_name(op));
    ls_json_add_text(item, "inputs", zeros ? "relu" : "normal");
    printf("| %s | %s | %s |", layer->name, conv_pass_name(op), zeros ? "after ReLU" : "normal");
    bench_error plain = { 0 };
    for (int i = 0; i < pass.samples; i++)
        bench_error_add(&plain, (double)conv_plain(&pass, pass.sample[i]), pass.expected[i]);
    put_error(item, "plain", &plain);
    LS_TRY_GOTO(conv_operands(&pass, b->cpu, &o));
    for (int i = 0; i < BENCH_WAYS_MAX && b->ways[i]; i++) LS_TRY_GOTO(way_error(b, &pass, i, &o, item));
    printf(" %d |\n", pass.samples);
    fflush(stdout);
done:
    ls_json_append(cJSON_GetObjectItem(b->json, "errors"), item);
    bench_operands_free(&o);
    conv_pass_free(&pass);
    return status;
}

ls_status bench_conv_errors(bench *b) {
    printf(
        "\n## Errors of convolution against double\n\n"
        "Batch %d. RMS error / largest error, both in 1e-7 of the RMS of the output. plain: one fp32 sum an output.\n\n"
        "| layer | pass | inputs | plain |",
        BATCH);
    for (int i = 0; i < BENCH_WAYS_MAX && bench_ways[i]; i++) printf(" %s |", bench_ways[i]);
    printf(" outputs compared |\n| --- | --- | --- | --- |");
    for (int i = 0; i < BENCH_WAYS_MAX && bench_ways[i]; i++) printf(" --- |");
    printf(" --- |\n");
    for (size_t i = 0; i < sizeof error_layers / sizeof *error_layers; i++)
        for (size_t p = 0; p < sizeof passes / sizeof *passes; p++)
            for (int zeros = 0; zeros < 2; zeros++)
                if (bench_wanted(b, "errors", error_layers[i].name, conv_pass_name(passes[p])))
                    LS_TRY(error_row(b, &error_layers[i], passes[p], zeros));
    return LS_SUCCESS;
}
