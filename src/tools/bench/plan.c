#include "tools/bench/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "config/aliases.h"
#include "data/sampler.h"

enum { AXES_MAX = 10, VALUES_MAX = 32, TEXT_BYTES = 64, SAMPLES_WITHOUT_END = 1 << 30, EPOCHS_WITHOUT_END = 1000000 };

// A swept option: its full name and its values as texts.
typedef struct {
    char name[TEXT_BYTES];
    const char *short_name; // the part of name after the dot
    const char *sweep;      // argument of --sweep; NULL: the user did not sweep this option
    int count;
    char value[VALUES_MAX][TEXT_BYTES];
} axis;

typedef struct {
    const ls_bench_request *request;
    axis axes[AXES_MAX]; // [0]: device.type
    int axis_count;
    int ranks[VALUES_MAX], rank_count;
    ls_bench_plan *plan;
} planning;

// --- reading --sweep -----------------------------------------------------------------------------

static ls_status split_values(const char *sweep, axis *a) {
    const char *text = strchr(sweep, '=');
    if (!text || text == sweep || !text[1])
        return ls_fail(LS_USAGE, "--sweep %s: write it as key=value,value,...", sweep);
    a->sweep = sweep;
    for (const char *at = text + 1;; at++) {
        size_t length = strcspn(at, ",");
        if (a->count == VALUES_MAX) return ls_fail(LS_USAGE, "--sweep %s: more than %d values", sweep, VALUES_MAX);
        if (length == 0 || length >= TEXT_BYTES)
            return ls_fail(LS_USAGE, "--sweep %s: value %d is %s", sweep, a->count + 1, length ? "too long" : "empty");
        memcpy(a->value[a->count], at, length);
        a->value[a->count][length] = '\0';
        for (int i = 0; i < a->count; i++)
            if (strcmp(a->value[i], a->value[a->count]) == 0)
                return ls_fail(LS_USAGE, "--sweep %s: the value %s stands there twice", sweep, a->value[i]);
        a->count++;
        at += length;
        if (!*at) return LS_SUCCESS;
    }
}

// Finds the full name of an option from "section.key", or from "key" if only one section has that key.
static ls_status find_option(const char *sweep, char name[TEXT_BYTES]) {
    char word[TEXT_BYTES], unused[LS_TEXT_BYTES];
    const char *full, *found = NULL;
    int length = (int)strcspn(sweep, "="), matches = 0;
    snprintf(word, sizeof word, "%.*s", length < TEXT_BYTES ? length : TEXT_BYTES - 1, sweep);
    ls_config defaults;
    ls_config_defaults(&defaults);
    for (int i = 0; ls_config_value(&defaults, i, &full, unused, sizeof unused); i++) {
        const char *key = strchr(full, '.') + 1;
        if (strcmp(word, full) != 0 && strcmp(word, key) != 0) continue;
        found = full;
        matches++;
    }
    if (matches > 1)
        return ls_fail(
            LS_USAGE, "--sweep %s: several sections have the key %s; write section.%s=...", sweep, word, word);
    if (!found) {
        char hint[LS_HINT_BYTES];
        const char *ranks = "ranks";
        if (ls_text_nearest(word, &ranks, 1))
            return ls_fail(LS_USAGE, "--sweep %s: unknown option %s; did you mean ranks?", sweep, word);
        ls_config_hint(word, hint);
        return ls_fail(
            LS_USAGE, "--sweep %s: unknown option %s%s", sweep, word, hint[0] ? hint : "; 'train --list' shows all");
    }
    snprintf(name, TEXT_BYTES, "%s", found);
    return LS_SUCCESS;
}

static ls_status read_ranks(planning *p, const axis *a) {
    for (int i = 0; i < a->count; i++) {
        char *end;
        errno = 0;
        long ranks = strtol(a->value[i], &end, 10);
        if (*end || errno || ranks < 1)
            return ls_fail(LS_USAGE, "--sweep %s: %s is no number of ranks", a->sweep, a->value[i]);
        if (ranks > p->request->world_size)
            return ls_fail(LS_USAGE, "--sweep %s: %ld ranks, but this job has %d; start it with mpirun -np %ld",
                a->sweep, ranks, p->request->world_size, ranks);
        p->ranks[p->rank_count++] = (int)ranks;
    }
    return LS_SUCCESS;
}

static ls_status twice(const char *sweep) {
    return ls_fail(LS_USAGE, "--sweep %s: the same key is swept twice; give all its values in one --sweep", sweep);
}

static ls_status read_sweep(planning *p, const char *sweep) {
    axis a = { .count = 0 };
    LS_TRY(split_values(sweep, &a));
    if (strncmp(sweep, "ranks=", 6) == 0) return p->rank_count ? twice(sweep) : read_ranks(p, &a);
    LS_TRY(find_option(sweep, a.name));
    int at = strcmp(a.name, "device.type") == 0 ? 0 : p->axis_count++;
    for (int i = 0; i < p->axis_count; i++)
        if (strcmp(p->axes[i].name, a.name) == 0) return twice(sweep);
    p->axes[at] = a;
    return LS_SUCCESS;
}

static void add_device(axis *a, const char *word) {
    snprintf(a->value[a->count++], TEXT_BYTES, "%s", word);
}

static ls_status read_request(planning *p) {
    const ls_bench_request *request = p->request;
    p->axis_count = 1;
    for (int i = 0; i < request->sweep_count; i++) LS_TRY(read_sweep(p, request->sweeps[i]));
    axis *devices = &p->axes[0];
    if (devices->count == 0) {
        strcpy(devices->name, "device.type");
        if (request->cfg->device_type != LS_DEVICE_TYPE_AUTO) {
            add_device(devices, ls_config_choice("device.type", request->cfg->device_type));
        } else {
            add_device(devices, "cpu");
            if (request->gpu) add_device(devices, request->gpu);
        }
    }
    for (int i = 0; i < p->axis_count; i++) p->axes[i].short_name = strchr(p->axes[i].name, '.') + 1;
    if (p->rank_count > 0) return LS_SUCCESS;
    p->ranks[p->rank_count++] = 1;
    if (request->world_size > 1) p->ranks[p->rank_count++] = request->world_size;
    return LS_SUCCESS;
}

// --- combining -----------------------------------------------------------------------------------

// One value of every axis: pick[i] is an index into axes[i].value.
typedef struct {
    int pick[AXES_MAX];
    int weak, ranks;
} combination;

static void name_case(const planning *p, const combination *c, ls_bench_case *row) {
    size_t used = 0;
    row->settings[0] = '\0';
    for (int i = 1; i < p->axis_count && used < sizeof row->settings; i++)
        used += (size_t)snprintf(row->settings + used, sizeof row->settings - used, "%s%s=%s", used ? " " : "",
            p->axes[i].short_name, p->axes[i].value[c->pick[i]]);
    snprintf(row->name, sizeof row->name, "%.32s x %d%s%s%.64s", p->axes[0].value[c->pick[0]], row->ranks,
        c->weak ? " weak" : "", row->settings[0] ? " " : "", row->settings);
}

static ls_status set_value(const axis *a, int pick, ls_config *cfg) {
    char assignment[2 * TEXT_BYTES + 2];
    snprintf(assignment, sizeof assignment, "%s=%s", a->name, a->value[pick]);
    ls_status status = ls_config_set(cfg, assignment);
    return ls_failed(status) && a->sweep ? ls_fail(status.code, "--sweep %s: %s", a->sweep, status.text) : status;
}

// Checks that an arrangement's options are valid and that its batch can be divided among the ranks, before minutes of
// measuring.
static ls_status check_case(const ls_bench_case *row) {
    ls_batches unused;
    ls_status status = ls_config_check(&row->cfg);
    if (!ls_failed(status)) status = ls_batches_plan(&row->cfg, SAMPLES_WITHOUT_END, 0, row->ranks, &unused);
    return ls_failed(status) ? ls_fail(status.code, "arrangement %s: %s", row->name, status.text) : status;
}

static ls_status set_weak_batch(ls_bench_case *row) {
    char assignment[TEXT_BYTES];
    long long batch = (long long)row->cfg.train_global_batch * row->ranks;
    snprintf(assignment, sizeof assignment, "train.global_batch=%lld", batch);
    ls_status status = ls_config_set(&row->cfg, assignment);
    return ls_failed(status) ? ls_fail(status.code, "arrangement %s: %s", row->name, status.text) : status;
}

static ls_status add_case(planning *p, const combination *c, int setting) {
    if (p->plan->count == LS_BENCH_CASES_MAX)
        return ls_fail(LS_USAGE, "--sweep: more than %d arrangements; sweep fewer values", LS_BENCH_CASES_MAX);
    ls_bench_case *row = &p->plan->row[p->plan->count++];
    row->ranks = c->ranks;
    row->weak = c->weak;
    row->setting = setting;
    row->cfg = *p->request->cfg;
    name_case(p, c, row);
    for (int i = 0; i < p->axis_count; i++) LS_TRY(set_value(&p->axes[i], c->pick[i], &row->cfg));
    // The CPU has no fp16. If it is measured only as a companion of GPUs, it uses fp32.
    if (!p->axes[0].sweep && p->axes[0].count > 1 && row->cfg.device_type == LS_DEVICE_TYPE_CPU &&
        row->cfg.train_precision == LS_PRECISION_FP16)
        row->cfg.train_precision = LS_PRECISION_FP32;
    row->cfg.train_epochs = EPOCHS_WITHOUT_END;
    row->cfg.train_max_updates = 0;
    row->cfg.data_drop_last = 1;
    if (row->ranks == 1) row->cfg.run_cross_check = 0; // one rank has no neighbour
    if (c->weak) LS_TRY(set_weak_batch(row));
    return check_case(row);
}

static ls_status add_setting(planning *p, combination *c, int setting) {
    const ls_bench_request *request = p->request;
    for (c->weak = !request->strong; c->weak <= request->weak; c->weak++)
        for (int r = 0; r < p->rank_count; r++) {
            c->ranks = p->ranks[r];
            if (c->weak && request->strong && c->ranks == 1) continue; // the same as the strong case
            LS_TRY(add_case(p, c, setting));
        }
    return LS_SUCCESS;
}

static void find_bases(ls_bench_plan *plan) {
    for (int i = 0; i < plan->count; i++) {
        ls_bench_case *row = &plan->row[i];
        row->base = i;
        for (int j = 0; j < plan->count; j++) {
            const ls_bench_case *other = &plan->row[j];
            if (other->setting != row->setting || (other->weak != row->weak && other->ranks > 1)) continue;
            if (other->ranks < plan->row[row->base].ranks) row->base = j;
        }
    }
}

// Steps to the next combination like an odometer, with the last axis fastest. Returns 0 after the last combination.
static int next_combination(const planning *p, combination *c) {
    for (int i = p->axis_count - 1; i >= 0; i--) {
        if (++c->pick[i] < p->axes[i].count) return 1;
        c->pick[i] = 0;
    }
    return 0;
}

static ls_status make(planning *p) {
    LS_TRY(read_request(p));
    combination c = { .weak = 0 };
    int setting = 0;
    do {
        LS_TRY(add_setting(p, &c, setting++));
    } while (next_combination(p, &c));
    find_bases(p->plan);
    return LS_SUCCESS;
}

ls_status ls_bench_plan_new(const ls_bench_request *request, ls_bench_plan *out) {
    planning *p;
    *out = (ls_bench_plan){ 0 };
    ls_status status = LS_NEW(p, 1, "arrangements");
    ls_keep_first(&status, LS_NEW(out->row, LS_BENCH_CASES_MAX, "arrangements"));
    if (!ls_failed(status)) {
        *p = (planning){ .request = request, .plan = out };
        status = make(p);
    }
    free(p);
    if (ls_failed(status)) ls_bench_plan_free(out);
    return status;
}

void ls_bench_plan_free(ls_bench_plan *plan) {
    free(plan->row);
    *plan = (ls_bench_plan){ 0 };
}
