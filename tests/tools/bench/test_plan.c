// Which arrangements a benchmark measures: combinations, their names, their batches, what efficiency
// is over; and every refusal with its message.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "tools/bench/plan.h"
#include "support/cmocka.h"

enum { SWEEPS_MAX = 4 };

typedef struct {
    const char *sets[3], *sweeps[SWEEPS_MAX];
    int world_size, has_gpu;
    const char *scaling; // "s", "w", "sw"
    const char *expected;
} row;

// By case: name, global batch / micro-batch, name of its base; in order.
static const row accepted[] = {
    { { "device.type=cpu" }, { NULL }, 1, 0, "s", "cpu x 1: 128/0 < cpu x 1\n" },
    { { NULL }, { NULL }, 1, 0, "s", "cpu x 1: 128/0 < cpu x 1\n" },
    { { "device.type=ref" }, { NULL }, 4, 1, "s", "ref x 1: 128/0 < ref x 1\nref x 4: 128/0 < ref x 1\n" },
    { { NULL }, { NULL }, 4, 1, "s",
        "cpu x 1: 128/0 < cpu x 1\ncpu x 4: 128/0 < cpu x 1\ncuda x 1: 128/0 < cuda x 1\ncuda x 4: 128/0 < cuda x "
        "1\n" },
    { { NULL }, { NULL }, 4, 0, "w", "cpu x 1 weak: 128/0 < cpu x 1 weak\ncpu x 4 weak: 512/0 < cpu x 1 weak\n" },
    { { NULL }, { "ranks=4,2" }, 4, 0, "s", "cpu x 4: 128/0 < cpu x 2\ncpu x 2: 128/0 < cpu x 2\n" },
    { { NULL }, { "ranks=1,2" }, 4, 0, "sw",
        "cpu x 1: 128/0 < cpu x 1\ncpu x 2: 128/0 < cpu x 1\ncpu x 2 weak: 256/0 < cpu x 1\n" },
    { { NULL }, { "ranks=2,4" }, 4, 0, "sw",
        "cpu x 2: 128/0 < cpu x 2\ncpu x 4: 128/0 < cpu x 2\ncpu x 2 weak: 256/0 < cpu x 2 weak\n"
        "cpu x 4 weak: 512/0 < cpu x 2 weak\n" },
    { { NULL }, { "micro_batch=32,64" }, 2, 0, "s",
        "cpu x 1 micro_batch=32: 128/32 < cpu x 1 micro_batch=32\ncpu x 2 micro_batch=32: 128/32 < cpu x 1 "
        "micro_batch=32\n"
        "cpu x 1 micro_batch=64: 128/64 < cpu x 1 micro_batch=64\ncpu x 2 micro_batch=64: 128/64 < cpu x 1 "
        "micro_batch=64\n" },
    { { NULL }, { "train.global_batch=8,16", "dist.overlap=true,false", "ranks=2" }, 2, 0, "s",
        "cpu x 2 global_batch=8 overlap=true: 8/0 < cpu x 2 global_batch=8 overlap=true\n"
        "cpu x 2 global_batch=8 overlap=false: 8/0 < cpu x 2 global_batch=8 overlap=false\n"
        "cpu x 2 global_batch=16 overlap=true: 16/0 < cpu x 2 global_batch=16 overlap=true\n"
        "cpu x 2 global_batch=16 overlap=false: 16/0 < cpu x 2 global_batch=16 overlap=false\n" },
    { { NULL }, { "type=ref,cpu", "ranks=1" }, 2, 1, "s", "ref x 1: 128/0 < ref x 1\ncpu x 1: 128/0 < cpu x 1\n" },
};

static const row refused[] = {
    { { NULL }, { "ranks" }, 2, 0, "s", "--sweep ranks: write it as key=value,value,..." },
    { { NULL }, { "ranks=" }, 2, 0, "s", "--sweep ranks=: write it as key=value,value,..." },
    { { NULL }, { "=1" }, 2, 0, "s", "--sweep =1: write it as key=value,value,..." },
    { { NULL }, { "ranks=1,,2" }, 2, 0, "s", "--sweep ranks=1,,2: value 2 is empty" },
    { { NULL }, { "ranks=1,2," }, 2, 0, "s", "--sweep ranks=1,2,: value 3 is empty" },
    { { NULL }, { "ranks=2,2" }, 2, 0, "s", "--sweep ranks=2,2: the value 2 stands there twice" },
    { { NULL }, { "ranks=two" }, 2, 0, "s", "--sweep ranks=two: two is no number of ranks" },
    { { NULL }, { "ranks=0" }, 2, 0, "s", "--sweep ranks=0: 0 is no number of ranks" },
    { { NULL }, { "ranks=1,4" }, 2, 0, "s",
        "--sweep ranks=1,4: 4 ranks, but this job has 2; start it with mpirun -np 4" },
    { { NULL }, { "ranks=1", "ranks=2" }, 2, 0, "s",
        "--sweep ranks=2: the same key is swept twice; give all its values in one --sweep" },
    { { NULL }, { "micro_batch=8", "train.micro_batch=16" }, 2, 0, "s",
        "--sweep train.micro_batch=16: the same key is swept twice; give all its values in one --sweep" },
    { { NULL }, { "device.type=cpu", "type=ref" }, 2, 0, "s",
        "--sweep type=ref: the same key is swept twice; give all its values in one --sweep" },
    { { NULL }, { "micro_batsh=8" }, 2, 0, "s",
        "--sweep micro_batsh=8: unknown option micro_batsh; did you mean train.micro_batch?" },
    { { NULL }, { "train.micro_batsh=8" }, 2, 0, "s",
        "--sweep train.micro_batsh=8: unknown option train.micro_batsh; did you mean train.micro_batch?" },
    { { NULL }, { "rank=1" }, 2, 0, "s", "--sweep rank=1: unknown option rank; did you mean ranks?" },
    { { NULL }, { "xyzzy=1" }, 2, 0, "s", "--sweep xyzzy=1: unknown option xyzzy; 'train --list' shows all" },
    { { NULL }, { "kind=sgd" }, 2, 0, "s",
        "--sweep kind=sgd: several sections have the key kind; write section.kind=..." },
    { { NULL }, { "micro_batch=8,-3" }, 2, 0, "s", "--sweep micro_batch=8,-3: --set train.micro_batch=-3" },
    { { NULL }, { "micro_batch=48" }, 2, 0, "s",
        "arrangement cpu x 1 micro_batch=48: --set train.micro_batch=48: does not divide" },
    { { NULL }, { "micro_batch=64", "ranks=1,4" }, 4, 0, "s",
        "arrangement cpu x 4 micro_batch=64: train.micro_batch = 64 on 4 ranks does not divide" },
    { { NULL }, { NULL }, 3, 0, "s", "arrangement cpu x 3: train.global_batch = 128 is no multiple of the 3 ranks" },
    { { "train.global_batch=1048576" }, { NULL }, 2, 0, "w", "arrangement cpu x 2 weak: --set train.global_batch" },
    { { NULL },
        { "micro_batch=1,2,4,8,16,32,64,128", "bucket_bytes=4096,8192,16384,32768,65536", "overlap=true,false" }, 1, 0,
        "s", "--sweep: more than 64 arrangements; sweep fewer values" },
};

static ls_status plan_of(const row *r, ls_config *cfg, ls_bench_plan *plan) {
    ls_config_defaults(cfg);
    for (int i = 0; i < 3 && r->sets[i]; i++) {
        ls_status status = ls_config_set(cfg, r->sets[i]);
        assert_false(ls_failed(status));
    }
    ls_bench_request request = { .cfg = cfg,
        .sweeps = r->sweeps,
        .strong = strchr(r->scaling, 's') != NULL,
        .weak = strchr(r->scaling, 'w') != NULL,
        .world_size = r->world_size,
        .gpu = r->has_gpu ? "cuda" : NULL };
    while (request.sweep_count < SWEEPS_MAX && r->sweeps[request.sweep_count]) request.sweep_count++;
    return ls_bench_plan_new(&request, plan);
}

static void acceptance(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        ls_config cfg;
        ls_bench_plan plan;
        ls_status status = plan_of(&accepted[i], &cfg, &plan);
        if (ls_failed(status)) fail_msg("row %zu: refused: %s", i, status.text);
        char text[2048] = "";
        size_t used = 0;
        for (int c = 0; c < plan.count; c++) {
            const ls_bench_case *k = &plan.row[c];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s: %d/%d < %s\n", k->name,
                (int)k->cfg.train_global_batch, (int)k->cfg.train_micro_batch, plan.row[k->base].name);
        }
        if (strcmp(text, accepted[i].expected) != 0)
            fail_msg("row %zu: is\n%sexpected\n%s", i, text, accepted[i].expected);
        ls_bench_plan_free(&plan);
    }
}

static void refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_config cfg;
        ls_bench_plan plan;
        ls_status status = plan_of(&refused[i], &cfg, &plan);
        const char *text = ls_failed(status) ? status.text : "(accepted)";
        if (status.code == LS_USAGE && strncmp(text, refused[i].expected, strlen(refused[i].expected)) == 0) continue;
        fail_msg(
            "row %zu: code %d, text '%s'; expected code 2, text '%s...'", i, status.code, text, refused[i].expected);
    }
}

// The CPU has no fp16: beside GPUs it is measured in fp32. Where the CPU alone is asked for, it is refused by the device, not
// changed behind the user's back.
static void precision(void **state) {
    (void)state;
    static const row beside = { { "train.precision=fp16" }, { NULL }, 1, 1, "s", NULL };
    static const row bf16 = { { "train.precision=bf16" }, { NULL }, 1, 1, "s", NULL };
    static const row swept = { { "train.precision=fp16" }, { "type=cpu,cuda" }, 1, 1, "s", NULL };
    ls_config cfg;
    ls_bench_plan plan;
    assert_false(ls_failed(plan_of(&beside, &cfg, &plan)));
    assert_int_equal(plan.row[0].cfg.train_precision, LS_PRECISION_FP32);
    assert_int_equal(plan.row[1].cfg.train_precision, LS_PRECISION_FP16);
    ls_bench_plan_free(&plan);
    assert_false(ls_failed(plan_of(&bf16, &cfg, &plan)));
    assert_int_equal(plan.row[0].cfg.train_precision, LS_PRECISION_BF16);
    ls_bench_plan_free(&plan);
    assert_false(ls_failed(plan_of(&swept, &cfg, &plan)));
    assert_int_equal(plan.row[0].cfg.train_precision, LS_PRECISION_FP16);
    ls_bench_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acceptance),
        cmocka_unit_test(refusals),
        cmocka_unit_test(precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
