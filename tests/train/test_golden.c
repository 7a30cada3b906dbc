// Loss curves against PyTorch's: the same initial weights and batches, 20 updates in fp32
// (tests/golden/, scripts/make_golden.py). Of networks with plain SGD; and of whole recipes in small, whose configurations
// lie beside the losses: whitening, augmentation, resolutions, Muon, groups, schedules, averaging.
//
// Rounding differs between any two implementations and grows with every update:
// PyTorch's own fp32 and fp64 curves part at the rate that the golden files record.
// 1e-4 over the first ten updates and 1e-3 up to the twentieth is what two correct ones keep; recipes in small, whose rates
// are lower, three tenths of that.
#include <stdint.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <math.h>
#include "base/json.h"
#include "support/cmocka.h"
#include "train/run.h"
#include "train/trainer_internal.h"

#define must(expr) \
    do { \
        ls_status must_status_ = (expr); \
        if (ls_failed(must_status_)) fail_msg("%s: %s", #expr, must_status_.text); \
    } while (0)

// Under a sanitizer, which is some ten times slower, the first updates are enough: memory is what it looks at.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { UPDATES = 2 };
#else
enum { UPDATES = 20 };
#endif

typedef struct {
    const char *name, *device, *winograd;
    int updates;
} row;

static const row rows[] = {
    { "lenet", "ref", "off", UPDATES < 3 ? UPDATES : 3 }, // plain loops: slow
    { "lenet", "cpu", "off", UPDATES },
    { "lenet", "cpu", "auto", UPDATES },
    { "resnet20", "cpu", "off", UPDATES },
    { "resnet20", "cpu", "f2", UPDATES },
    { "resnet20", "cpu", "auto", UPDATES },
    { "airbench94-plain", "cpu", "auto", UPDATES },
    { "se-resnet", "ref", "off", UPDATES < 3 ? UPDATES : 3 },
    { "se-resnet", "cpu", "auto", UPDATES },
    { "densenet", "ref", "off", UPDATES < 3 ? UPDATES : 3 },
    { "densenet", "cpu", "auto", UPDATES },
    { "separable", "ref", "off", UPDATES < 3 ? UPDATES : 3 },
    { "separable", "cpu", "auto", UPDATES },
    { "resnet9", "cpu", "off", UPDATES },
    { "resnet9", "cpu", "auto", UPDATES },
    { "e1", "cpu", "auto", UPDATES },
    { "e5", "cpu", "auto", UPDATES },
    { "airbench94_muon", "cpu", "auto", UPDATES },
    { "airbench94_sgd", "cpu", "auto", UPDATES },
};

static double number(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item)) fail_msg("golden file: no number '%s'", name);
    return item->valuedouble;
}

static void set(ls_config *cfg, const char *key, const char *format, ...) LS_PRINTF(3, 4);
static void set(ls_config *cfg, const char *key, const char *format, ...) {
    char value[512], assignment[640];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    snprintf(assignment, sizeof assignment, "%s=%s", key, value);
    must(ls_config_set(cfg, assignment));
}

static void configure_network(ls_config *cfg, const cJSON *golden) {
    const cJSON *input = cJSON_GetObjectItem(golden, "input");
    set(cfg, "model.file", "%s", cJSON_GetObjectItem(golden, "model_file")->valuestring);
    set(cfg, "data.dataset", "synthetic");
    set(cfg, "data.shape", "%dx%dx%d", cJSON_GetArrayItem(input, 0)->valueint, cJSON_GetArrayItem(input, 1)->valueint,
        cJSON_GetArrayItem(input, 2)->valueint);
    set(cfg, "data.classes", "%.0f", number(golden, "classes"));
    set(cfg, "data.train_samples", "%.0f", number(golden, "batch") * number(golden, "updates"));
    set(cfg, "data.test_samples", "10");
    set(cfg, "data.shuffle", "false");
    set(cfg, "data.mean", "%s", cJSON_GetArrayItem(input, 0)->valueint == 1 ? "0.5" : "0.5, 0.5, 0.5");
    set(cfg, "data.std", "%s", cJSON_GetArrayItem(input, 0)->valueint == 1 ? "0.25" : "0.25, 0.25, 0.25");
    set(cfg, "run.seed", "%.0f", number(golden, "seed"));
    set(cfg, "train.global_batch", "%.0f", number(golden, "batch"));
    set(cfg, "optimizer.lr", "%.17g", number(golden, "rate"));
    set(cfg, "optimizer.momentum", "%.17g", number(golden, "momentum"));
    set(cfg, "optimizer.weight_decay", "%.17g", number(golden, "weight_decay"));
}

static void configure(ls_config *cfg, const cJSON *golden, const row *r) {
    char recipe[128];
    snprintf(recipe, sizeof recipe, "tests/golden/%s.ini", r->name);
    ls_config_defaults(cfg);
    if (cJSON_HasObjectItem(golden, "recipe"))
        must(ls_config_read_file(cfg, recipe));
    else
        configure_network(cfg, golden);
    set(cfg, "device.type", "%s", r->device);
    set(cfg, "device.winograd", "%s", r->winograd);
    set(cfg, "device.threads", "2");
    must(ls_config_check(cfg));
}

typedef struct {
    int64_t count;
    double sum, squares;
} sums;

static sums sums_of(const ls_trainer *t, const char *name) {
    int p = 0;
    while (p < t->plan.graph->param_count && strcmp(t->plan.graph->params[p].name, name) != 0) p++;
    if (p == t->plan.graph->param_count) fail_msg("no parameter %s", name);
    sums s = { .count = ls_param_count(&t->plan.graph->params[p].shape) };
    float *values = malloc((size_t)s.count * sizeof *values);
    ls_param_store_export(t->session.compute.store, p, values);
    for (int64_t i = 0; i < s.count; i++) {
        s.sum += (double)values[i];
        s.squares += (double)values[i] * (double)values[i];
    }
    free(values);
    return s;
}

// The sum of each parameter's initial values: a difference here is the generator's fault, not the training's.
static void compare_initial(const ls_trainer *t, const cJSON *golden) {
    const cJSON *wanted;
    cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(golden, "parameters")) {
        const char *name = cJSON_GetObjectItem(wanted, "name")->valuestring;
        const sums s = sums_of(t, name);
        double expected = number(wanted, "sum");
        if (fabs(s.sum - expected) > 1e-9 * (double)s.count + 1e-6 * fabs(expected))
            fail_msg("initial %s: sum %.12g, expected %.12g", name, s.sum, expected);
    }
}

// Running statistics are no part of a training loss. Averaged, too, where the recipe averages.
static void compare_final(const ls_trainer *t, const cJSON *golden, const row *r) {
    const cJSON *wanted;
    if (r->updates < 20) return;
    cJSON_ArrayForEach(wanted, cJSON_GetObjectItem(golden, "final_sum_squares")) {
        double squares = sums_of(t, wanted->string).squares;
        if (!(fabs(squares - wanted->valuedouble) <= 1e-3 * wanted->valuedouble))
            fail_msg("%s on %s: at the end %s: sum of squares %.9g, PyTorch %.9g", r->name, r->device, wanted->string,
                squares, wanted->valuedouble);
    }
}

static void compare_curve(ls_trainer *t, const cJSON *golden, const row *r) {
    const cJSON *curve = cJSON_GetObjectItem(golden, "loss_fp32");
    const double strictness = cJSON_HasObjectItem(golden, "recipe") ? 0.3 : 1;
    for (int u = 0; u < r->updates && u < cJSON_GetArraySize(curve); u++) {
        ls_train_state state;
        t->progress.since_report = (ls_micro_result){ 0 };
        must(ls_run_advance(&t->session, &t->progress, &t->saving, t->progress.done.updates + 1, &state));
        double loss = t->progress.since_report.loss_sum / (double)t->progress.since_report.count;
        double expected = cJSON_GetArrayItem(curve, u)->valuedouble, limit = (u < 10 ? 1e-4 : 1e-3) * strictness;
        if (!(fabs(loss - expected) <= limit * expected))
            fail_msg("%s on %s, winograd %s: update %d: loss %.9g, PyTorch %.9g (relative difference %.2g, limit %g)",
                r->name, r->device, r->winograd, u + 1, loss, expected, fabs(loss - expected) / expected, limit);
        if (u > 0) continue;
        double norm = (double)state.grad_norm, wanted = number(golden, "grad_norm_fp64");
        if (fabs(norm - wanted) > 1e-4 * wanted)
            fail_msg(
                "%s on %s: gradient norm of the first update %.9g, PyTorch %.9g", r->name, r->device, norm, wanted);
    }
}

static void run_row(const row *r) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/%s.json", r->name);
    cJSON *golden;
    must(ls_json_read_file(path, &golden));
    ls_config cfg;
    configure(&cfg, golden, r);
    ls_comm *comm;
    must(ls_comm_self(&comm));
    ls_trainer *trainer;
    must(ls_trainer_new(&cfg, comm, &trainer));
    compare_initial(trainer, golden);
    compare_curve(trainer, golden, r);
    compare_final(trainer, golden, r);
    ls_trainer_free(trainer);
    ls_comm_finish(comm);
    cJSON_Delete(golden);
}

static void lenet_on_ref(void **state) {
    (void)state;
    run_row(&rows[0]);
}

static void all_others(void **state) {
    (void)state;
    for (size_t r = 1; r < sizeof rows / sizeof *rows; r++) run_row(&rows[r]);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lenet_on_ref), cmocka_unit_test(all_others) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
