// Parameter groups on a network: which optimizer, constants and rate each parameter has; what is frozen has no gradient, no
// state and no step; what is refused.
#include <math.h>
#include "program/optimizer.h"
#include "train/update.h"
#include "train/whole_run.h"

static const char network[] = "[network]\ninput = 3x6x6\n"
                              "[c1]\nlayer = conv2d\nout_channels = 9\nkernel = 2\n"
                              "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\n"
                              "[n2]\nlayer = batchnorm2d\n[r2]\nlayer = relu\n"
                              "[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 10\n";
static char network_path[] = "/tmp/lockstep_rules_XXXXXX";

static int write_network(void **state) {
    (void)state;
    return run_write_network(network_path, network);
}

static int remove_network(void **state) {
    (void)state;
    return unlink(network_path);
}

static const char *const base[RUN_OPTIONS_MAX] = { "data.dataset=synthetic", "device.type=cpu", "device.threads=1",
    "data.shape=3x6x6", "data.train_samples=32", "data.test_samples=8", "train.global_batch=16", "train.epochs=4",
    "optimizer.lr=0.1", "optimizer.weight_decay=0.01" };

static ls_status open_more(run *r, const char *option, const char *groups, const char *stored) {
    char setting[512], statistics[512];
    snprintf(setting, sizeof setting, "optimizer.groups=%s", groups);
    snprintf(statistics, sizeof statistics, "train.stored_statistics=%s", stored);
    const char *const more[] = { option, setting, statistics, NULL };
    return run_open(r, network_path, (const char *const *const[RUN_LISTS_MAX]){ base, more });
}

static ls_status open_groups(run *r, const char *option, const char *groups) {
    return open_more(r, option, groups, "");
}

static int find(const ls_graph *graph, const char *name) {
    for (int p = 0; p < graph->param_count; p++)
        if (strcmp(graph->params[p].name, name) == 0) return p;
    fail_msg("no parameter %s", name);
    return -1;
}

static void the_first_match_decides(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int kind;
        double lr, decay, momentum, end, frozen_after;
    } rows[] = {
        { "c1.weight", LS_NOT_TRAINED, 0, 0, 0, NAN, INFINITY },
        { "c1.bias", LS_OPTIMIZER_SGD, 0.5, 0, 0.8, 1.5, INFINITY }, // Muon's, but no matrix
        { "c2.weight", LS_OPTIMIZER_MUON, 1, 0.01, 0.9, NAN, INFINITY },
        { "c2.bias", LS_OPTIMIZER_SGD, 1, 0, 0.9, NAN, INFINITY },
        { "n2.weight", LS_OPTIMIZER_SGD, 1, 0.25, 0.9, NAN, 2 },
        { "n2.bias", LS_OPTIMIZER_SGD, 1, 0, 0.9, NAN, INFINITY },
        { "n2.running_mean", LS_NOT_TRAINED, 0, 0, 0, NAN, INFINITY },
        { "l.weight", LS_OPTIMIZER_ADAMW, 2, 0.01, 0.9, NAN, INFINITY },
        { "l.bias", LS_OPTIMIZER_ADAMW, 2, 0, 0.9, NAN, INFINITY },
    };
    run r = { 0 };
    must(open_groups(&r, "optimizer.kind=muon",
        "c1.weight frozen; c1.* lr=0.5 momentum=0.8 end=1.5; n2.weight decay=0.25 frozen_after=2; l.* kind=adamw "
        "lr=2"));
    const ls_param_rules *rules = r.trainer->plan.rules;
    assert_int_equal(rules->rate_count, 3);
    assert_int_equal(rules->kept, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_param_rule *rule = &rules->param[find(r.trainer->plan.graph, rows[i].name)];
        const ls_rate_rule *rate = &rules->rate[rule->rate];
        if (rule->kind != rows[i].kind) fail_msg("%s: kind %d", rows[i].name, rule->kind);
        if (rule->kind == LS_NOT_TRAINED) continue;
        if (rule->lr_factor != (float)rows[i].lr || rule->decay != (float)rows[i].decay ||
            rule->momentum != (float)rows[i].momentum)
            fail_msg("%s: lr x %g, decay %g, momentum %g", rows[i].name, (double)rule->lr_factor, (double)rule->decay,
                (double)rule->momentum);
        if (isnan(rate->end) != isnan(rows[i].end) || (!isnan(rate->end) && rate->end != rows[i].end) ||
            rate->frozen_after != rows[i].frozen_after)
            fail_msg("%s: end %g, frozen after %g", rows[i].name, rate->end, rate->frozen_after);
    }
    run_close(&r);
}

static int count_of(const ls_program *program, ls_op op, const char *layer) {
    int count = 0;
    for (int i = 0; i < program->count; i++)
        count += program->instructions[i].plan->desc.op == op &&
                 strcmp(program->instructions[i].plan->desc.layer, layer) == 0;
    return count;
}

// The lowest layer has only its bias trained, then neither; the batch norm's weight not.
static void what_is_frozen_is_not_computed(void **state) {
    (void)state;
    run bias = { 0 }, none = { 0 };
    must(open_groups(&bias, "optimizer.kind=sgd", "c1.weight frozen; n2.weight frozen"));
    const ls_program *program = ls_run_session_full_program(&bias.trainer->session, 0);
    assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c1"), 1);
    for (int i = 0; i < program->count; i++) {
        const ls_op_desc *desc = &program->instructions[i].plan->desc;
        if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT)
            assert_int_equal(desc->attr.conv.bias_only, strcmp(desc->layer, "c1") == 0);
    }
    const ls_param_store *store = bias.trainer->session.compute.store;
    assert_int_equal(store->trained_params, 6);
    assert_int_equal(store->grad->bytes, (size_t)(store->trained_elements + store->statistic_elements) * sizeof(float));
    assert_int_equal(store->state->bytes, (size_t)store->trained_elements * sizeof(float));
    run_close(&bias);
    must(open_groups(&none, "optimizer.kind=sgd", "c1.* frozen; c2.weight frozen"));
    program = ls_run_session_full_program(&none.trainer->session, 0);
    assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c1"), 0);
    assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_DATA, "c2"), 0);
    assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c2"), 1);
    run_close(&none);
}

// A rate that ends in mid-epoch costs until the epoch's end; gradients complete as before, for buckets.
static void what_has_ended_is_not_computed(void **state) {
    (void)state;
    static const struct {
        int64_t epoch;
        int weight_c1, data_c2, weight_c2;
    } rows[] = { { 0, 1, 1, 1 }, { 1, 1, 1, 1 }, { 2, 0, 0, 1 }, { 3, 0, 0, 0 }, { 9, 0, 0, 0 } };
    run r = { 0 };
    must(open_groups(&r, "optimizer.kind=sgd", "c1.* end=1.25; c2.* frozen_after=3"));
    const int trained = r.trainer->session.compute.store->trained_params;
    assert_int_equal(r.trainer->plan.stage_count, 3);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_program *program = ls_run_session_full_program(&r.trainer->session, rows[i].epoch);
        assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c1"), rows[i].weight_c1);
        assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_DATA, "c2"), rows[i].data_c2);
        assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c2"), rows[i].weight_c2);
        int last = 0;
        for (int k = 0; k < program->count; k++) {
            const int completes = program->instructions[k].completes;
            if (completes) assert_true(completes > last);
            if (completes) last = completes;
        }
        assert_int_equal(last, trained);
    }
    run_close(&r);
}

// After four updates (two epochs), then four more: what is frozen, and when.
static void what_is_frozen_stays(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int moves[2];
    } rows[] = {
        { "c1.weight", { 0, 0 } }, { "c1.bias", { 1, 1 } }, { "c2.weight", { 1, 0 } }, // to the end of its rate
        { "n2.weight", { 1, 0 } },                                                     // frozen after
        { "n2.bias", { 1, 1 } }, { "n2.running_mean", { 1, 1 } },
        { "l.weight", { 0, 0 } }, // from the start on, though it decays
    };
    static const char *const kinds[] = { "optimizer.kind=sgd", "optimizer.kind=adamw", "optimizer.kind=lion",
        "optimizer.kind=rmsprop", "optimizer.kind=muon", "optimizer.kind=lars" };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        run r = { 0 };
        ls_snapshot *s[3];
        must(open_groups(&r, kinds[k], "c1.weight frozen; c2.* end=2; n2.weight frozen_after=2; l.* frozen_after=0"));
        for (int step = 0; step < 3; step++) {
            if (step) must(ls_trainer_updates(r.trainer, 4, NULL));
            must(ls_trainer_snapshot_new(r.trainer, &s[step]));
            must(ls_trainer_snapshot(r.trainer, s[step]));
        }
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int step = 0; step < 2; step++) {
                const int p = find(r.trainer->plan.graph, rows[i].name);
                const ls_snapshot_tensor *before = &s[step]->tensors[p], *after = &s[step + 1]->tensors[p];
                const int moved = memcmp(before->values, after->values, (size_t)before->elements * sizeof(float)) != 0;
                if (moved != rows[i].moves[step])
                    fail_msg("%s: %s %s in part %d", kinds[k], rows[i].name, moved ? "moved" : "stayed", step);
            }
        for (int step = 0; step < 3; step++) ls_snapshot_free(s[step]);
        run_close(&r);
    }
}

// After one update they are of the initial weights, whichever optimizers there are: one for matrices alone, several, or tensors' norms.
static void statistics_move_once(void **state) {
    (void)state;
    static const char *const rows[][2] = { { "optimizer.kind=sgd", "" }, { "optimizer.kind=muon", "*.bias frozen" },
        { "optimizer.kind=muon", "l.* kind=adamw" }, { "optimizer.kind=adamw", "l.weight kind=muon" },
        { "optimizer.kind=lars", "" }, { "optimizer.kind=lion", "" }, { "optimizer.kind=rmsprop", "" } };
    static const char *const names[] = { "n2.running_mean", "n2.running_var" };
    float want[2][8], first[8];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = { 0 };
        ls_snapshot *s;
        must(open_groups(&r, rows[i][0], rows[i][1]));
        must(ls_trainer_updates(r.trainer, 1, NULL));
        must(ls_trainer_snapshot_new(r.trainer, &s));
        must(ls_trainer_snapshot(r.trainer, s));
        for (int n = 0; n < 2; n++) {
            const float *got = s->tensors[find(r.trainer->plan.graph, names[n])].values;
            for (int c = 0; c < 8; c++) first[c] = n ? 1 : 0;
            assert_memory_not_equal(got, first, sizeof first);
            if (i == 0) memcpy(want[n], got, sizeof want[n]);
            if (memcmp(got, want[n], sizeof want[n]) != 0) fail_msg("%s, %s: %s", rows[i][0], rows[i][1], names[n]);
        }
        ls_snapshot_free(s);
        run_close(&r);
    }
}

// What batch norm's statistics do in updates 1 to 3, 4, 5 to 8 (two an epoch): they rest with the layer's weight and
// bias, and with train.stored_statistics they never move.
static void statistics_rest(void **state) {
    (void)state;
    enum { PARTS = 3 };
    static const int64_t updates[PARTS] = { 3, 1, 4 };
    static const struct {
        const char *groups, *stored;
        int moves[PARTS];
    } rows[] = {
        { "", "", { 1, 1, 1 } },
        { "n2.weight frozen", "", { 1, 1, 1 } },
        { "n2.* frozen", "", { 0, 0, 0 } },
        { "*.bias frozen; *2.* frozen", "", { 0, 0, 0 } },
        { "n2.weight frozen; n2.bias lr=0", "", { 0, 0, 0 } },
        { "n2.* frozen_after=0", "", { 0, 0, 0 } },
        { "n2.* frozen_after=1.5", "", { 1, 0, 0 } },
        { "n2.* frozen_after=2", "", { 1, 1, 0 } },
        { "n2.* end=1.5", "", { 1, 0, 0 } },
        { "n2.weight frozen_after=1; n2.bias end=2", "", { 1, 1, 0 } },
        { "n2.weight frozen; n2.bias frozen_after=2", "", { 1, 1, 0 } },
        { "n2.weight frozen_after=2", "", { 1, 1, 1 } },
        { "", "n2", { 0, 0, 0 } },
        { "", "x*, n? ", { 0, 0, 0 } },
    };
    static const char *const kinds[] = { "optimizer.kind=adamw", "optimizer.kind=muon", "device.type=ref",
        "train.precision=bf16", "run.deterministic=true", "average.kind=ema", "average.kind=lookahead" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            run r = { 0 };
            ls_snapshot *s[PARTS + 1];
            if (rows[i].stored[0] == 'x') {
                ls_status status = open_more(&r, kinds[k], rows[i].groups, rows[i].stored);
                assert_int_equal(status.code, LS_USAGE);
                assert_non_null(strstr(status.text, "the pattern 'x*' matches no batchnorm2d layer of"));
                ls_comm_finish(r.comm);
                continue;
            }
            must(open_more(&r, kinds[k], rows[i].groups, rows[i].stored));
            const int mean = find(r.trainer->plan.graph, "n2.running_mean"),
                      var = find(r.trainer->plan.graph, "n2.running_var");
            for (int part = 0; part <= PARTS; part++) {
                if (part) must(ls_trainer_updates(r.trainer, updates[part - 1], NULL));
                must(ls_trainer_snapshot_new(r.trainer, &s[part]));
                must(ls_trainer_snapshot(r.trainer, s[part]));
            }
            for (int part = 0; part < PARTS; part++)
                for (int p = 0; p < 2; p++) {
                    const int at = p ? var : mean;
                    const int moved = memcmp(s[part]->tensors[at].values, s[part + 1]->tensors[at].values,
                                          (size_t)s[part]->tensors[at].elements * sizeof(float)) != 0;
                    // an average goes on moving towards statistics that rest
                    if (strstr(kinds[k], "average") && part && !rows[i].moves[part] && rows[i].moves[0]) continue;
                    if (moved != rows[i].moves[part])
                        fail_msg("%s, '%s', stored '%s': %s in part %d", kinds[k], rows[i].groups, rows[i].stored,
                            moved ? "moved" : "stayed", part);
                }
            for (int part = 0; part <= PARTS; part++) ls_snapshot_free(s[part]);
            run_close(&r);
        }
}

// Stored statistics: the forward pass is an evaluation's, nothing is summed for them, and gradients go on through the
// layer.
static void stored_statistics_are_an_evaluations(void **state) {
    (void)state;
    run r = { 0 };
    must(open_more(&r, "optimizer.kind=sgd", "", "*"));
    const ls_program *program = ls_run_session_full_program(&r.trainer->session, 0);
    assert_int_equal(count_of(program, LS_OP_NORM_FORWARD, "n2"), 0);
    assert_int_equal(count_of(program, LS_OP_NORM_INFERENCE, "n2"), 1);
    assert_int_equal(count_of(program, LS_OP_NORM_BACKWARD, "n2"), 1);
    assert_int_equal(count_of(program, LS_OP_CONV_BACKWARD_WEIGHT, "c1"), 1);
    assert_int_equal(r.trainer->session.compute.store->statistic_params, 0);
    run_close(&r);
}

static const ls_optimizer_attr *step_of(const run *r, ls_op op) {
    const ls_optimizer *o = ls_update_optimizer(r->trainer->session.update);
    for (int s = 0; s < o->step_count; s++)
        if (o->steps[s].plan->desc.op == op) return &o->steps[s].plan->desc.attr.optimizer;
    fail_msg("no step of operator %d", op);
    return NULL;
}

// beta2 = auto is each kind's own, in groups, too; what is set holds for all. 1 - beta is of the number that was set.
static void beta2_is_the_groups_kinds(void **state) {
    (void)state;
    static const struct {
        const char *kind, *groups, *beta2;
        double adamw, lion;
    } rows[] = {
        { "optimizer.kind=sgd", "l.weight kind=adamw; l.bias kind=lion", "optimizer.beta2=auto", 0.999, 0.99 },
        { "optimizer.kind=adamw", "l.* kind=lion", "optimizer.beta2=auto", 0.999, 0.99 },
        { "optimizer.kind=lion", "l.* kind=adamw", "optimizer.beta2=auto", 0.999, 0.99 },
        { "optimizer.kind=lion", "l.* kind=adamw", "optimizer.beta2=0.95", 0.95, 0.95 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = { 0 };
        char groups[512];
        snprintf(groups, sizeof groups, "optimizer.groups=%s", rows[i].groups);
        const char *const more[] = { rows[i].beta2, rows[i].kind, groups, NULL };
        must(run_open(&r, network_path, (const char *const *const[RUN_LISTS_MAX]){ base, more }));
        assert_true(step_of(&r, LS_OP_ADAMW)->beta2 == rows[i].adamw);
        assert_true(step_of(&r, LS_OP_LION)->beta2 == rows[i].lion);
        assert_true(step_of(&r, LS_OP_LION)->beta1 == 0.9);
        run_close(&r);
    }
}

// torch.optim.Muon, _adjust_lr: "original" sqrt(max(1, A/B)), "match_rms_adamw" 0.2 sqrt(max(A, B)) of A rows and B
// columns.
static void muon_is_stretched_as_torchs(void **state) {
    (void)state;
    static const struct {
        const char *stretch;
        double c1, c2, l; // 9x12, 8x81, 10x8
    } rows[] = {
        { "optimizer.stretch=original", 1, 1, 1.118033988749895 },
        { "optimizer.stretch=match-rms-adamw", 0.6928203230275509, 1.8, 0.6324555320336759 },
        { "optimizer.stretch=off", 1, 1, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = { 0 };
        const char *const more[] = { rows[i].stretch, "optimizer.kind=muon", NULL };
        must(run_open(&r, network_path, (const char *const *const[RUN_LISTS_MAX]){ base, more }));
        const ls_optimizer_attr *a = step_of(&r, LS_OP_MUON);
        int seen = 0;
        for (int s = 0; s < a->segment_count; s++) {
            if (a->segments[s].rate == LS_SEGMENT_IDLE) continue;
            const int rows_of = a->segments[s].shape->dim[0];
            const double want = rows_of == 9 ? rows[i].c1 : rows_of == 8 ? rows[i].c2 : rows[i].l;
            assert_true(fabs((double)a->segments[s].stretch - want) < 1e-7);
            seen++;
        }
        assert_int_equal(seen, 3);
        run_close(&r);
    }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *groups, *message;
    } rows[] = {
        { "c9.* frozen", "the pattern 'c9.*' matches no parameter of" },
        { "* frozen", "every parameter of" },
        { "c1.weight end=1; c1.bias end=2; c2.weight end=3; c2.bias end=4; n2.weight end=5; n2.bias end=6; l.weight "
          "end=7; "
          "l.bias end=8",
            "expected at most 7 different pairs of end= and frozen_after=" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = { 0 };
        ls_status status = open_groups(&r, "optimizer.kind=sgd", rows[i].groups);
        if (status.code != LS_USAGE || !strstr(status.text, rows[i].message))
            fail_msg("%s: %s", rows[i].groups, status.text ? status.text : "accepted");
        ls_comm_finish(r.comm);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_first_match_decides),
        cmocka_unit_test(what_is_frozen_is_not_computed), cmocka_unit_test(what_has_ended_is_not_computed),
        cmocka_unit_test(what_is_frozen_stays), cmocka_unit_test(statistics_move_once),
        cmocka_unit_test(statistics_rest), cmocka_unit_test(stored_statistics_are_an_evaluations),
        cmocka_unit_test(beta2_is_the_groups_kinds), cmocka_unit_test(muon_is_stretched_as_torchs),
        cmocka_unit_test(refusals) };
    return cmocka_run_group_tests(tests, write_network, remove_network);
}
