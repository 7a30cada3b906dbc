// conv_choose.c - by which algorithm a convolution is computed.
//
// The rule: Winograd where it gains (F(4,3); F(2,3) on maps that its smaller tiles fit better, as 2x2 and 5x5), else
// oneDNN's generated code where it has some for the device's layouts, else own kernels. Where the device was given a
// cache of plans (device/algorithm_cache.h) a measurement decides, made now or before.
#include <stdio.h>
#include <string.h>
#include "base/version.h"
#include "device/cpu/conv.h"
#include "device/algorithm_cache.h"

enum { KEY_BYTES = 512 };

const ls_conv_kind ls_conv_kinds[LS_CONV_ALGORITHMS] = {
    [LS_CONV_F43] = { "winograd f(4,3)", "auto", 3 },
    [LS_CONV_F25] = { "winograd f(2,5)", "auto", 5 },
    [LS_CONV_F23] = { "winograd f(2,3)", "f2", 3 },
    [LS_CONV_ONEDNN] = { "onednn", NULL, 0 },
    [LS_CONV_DIRECT] = { "own direct", NULL, 0 },
};

static int find_kind(const char *name) {
    for (int i = 0; i < LS_CONV_ALGORITHMS; i++)
        if (strcmp(ls_conv_kinds[i].name, name) == 0) return i;
    return -1;
}

ls_status ls_cpu_conv_find(const char *name, int *algorithm) {
    *algorithm = name ? find_kind(name) : -1;
    if (!name || *algorithm >= 0) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "convolution by \"%s\": the cpu device knows winograd f(4,3), winograd f(2,5), winograd f(2,3), onednn and own "
        "direct",
        name);
}

// F(2,3) is more accurate than what `auto` stands for, so `auto` allows it, too.
int ls_cpu_conv_allowed(const ls_cpu *cpu, ls_conv_algorithm algorithm) {
    if (!ls_conv_kinds[algorithm].winograd || strcmp(cpu->winograd, "auto") == 0) return 1;
    return strcmp(cpu->winograd, "f2") == 0 && algorithm == LS_CONV_F23;
}

// Whether the rule prefers it to those behind it.
static int rule_takes(const ls_cpu *cpu, const ls_op_desc *desc, ls_conv_algorithm algorithm) {
    const char *mode = ls_conv_kinds[algorithm].winograd;
    if (!mode) return 1;
    return ls_cpu_conv_allowed(cpu, algorithm) && ls_winograd_supports(&desc->attr.conv, desc->op, mode, cpu->block);
}

static ls_status plan_by_rule(ls_cpu *cpu, const ls_op_desc *desc, ls_conv_algorithm *rule, ls_plan **out) {
    *out = NULL;
    for (int i = 0; !*out && i < LS_CONV_ALGORITHMS; i++) {
        *rule = (ls_conv_algorithm)i;
        if (rule_takes(cpu, desc, *rule)) LS_TRY(ls_cpu_conv_plan_by(cpu, desc, *rule, out));
    }
    return LS_SUCCESS;
}

// All that the choice depends on. Our own version stands for our kernels.
static void make_key(const ls_cpu *cpu, const ls_op_desc *desc, char key[KEY_BYTES]) {
    const ls_conv_attr *a = &desc->attr.conv;
    char library[64];
    ls_onednn_describe(library, sizeof library);
    snprintf(key, KEY_BYTES,
        "cpu; lockstep %s; %s; %s, %d floats, threads %d, winograd %s; %s; src %dx%dx%dx%d dst %dx%dx%dx%d kernel %d "
        "stride %d pad %d dilation %d groups %d bias %d",
        ls_version(), library, cpu->cpus.model, cpu->block, cpu->threads, cpu->winograd, ls_op_name(desc->op), a->src.n,
        a->src.c, a->src.h, a->src.w, a->dst.n, a->dst.c, a->dst.h, a->dst.w, a->kernel, a->stride, a->pad, a->dilation,
        a->groups, a->has_bias);
}

// The plan that the cache's choice names; *out stays NULL where it holds none that can be had.
static ls_status plan_by_choice(ls_cpu *cpu, const ls_op_desc *desc, const char *key, const char **how, ls_plan **out) {
    const char *choice = ls_algorithm_cache_find(cpu->plans, key, how);
    int algorithm = choice ? find_kind(choice) : -1;
    *out = NULL;
    if (algorithm < 0 || !ls_cpu_conv_allowed(cpu, (ls_conv_algorithm)algorithm)) return LS_SUCCESS;
    return ls_cpu_conv_plan_by(cpu, desc, (ls_conv_algorithm)algorithm, out);
}

static ls_status plan_by_measurement(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    char key[KEY_BYTES];
    const char *how;
    ls_conv_algorithm rule, best;
    int compared;
    const int settled = ls_algorithm_cache_settled(cpu->plans);
    if (settled) ls_cpu_conv_measure_end(cpu);
    make_key(cpu, desc, key);
    LS_TRY(plan_by_choice(cpu, desc, key, &how, out));
    if (*out) {
        (*out)->chosen = how;
        return LS_SUCCESS;
    }
    LS_TRY(plan_by_rule(cpu, desc, &rule, out));
    (*out)->chosen = LS_CHOSEN_BY_RULE;
    if (settled) return LS_SUCCESS;
    ls_status status = ls_cpu_conv_measure(cpu, desc, rule, &best, &compared);
    if (!ls_failed(status) && compared) status = ls_algorithm_cache_put(cpu->plans, key, ls_conv_kinds[best].name);
    if (!ls_failed(status) && compared && best != rule) {
        ls_cpu_plan_free(*out);
        status = ls_cpu_conv_plan_by(cpu, desc, best, out);
    }
    if (!ls_failed(status) && compared) (*out)->chosen = LS_CHOSEN_NOW;
    if (ls_failed(status)) ls_cpu_plan_free(*out);
    return status;
}

ls_status ls_cpu_conv_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    ls_conv_algorithm rule;
    if (cpu->forced_convolution >= 0) {
        LS_TRY(ls_cpu_conv_plan_by(cpu, desc, (ls_conv_algorithm)cpu->forced_convolution, out));
        if (*out) return LS_SUCCESS;
    } else if (cpu->plans) {
        return plan_by_measurement(cpu, desc, out);
    }
    LS_TRY(plan_by_rule(cpu, desc, &rule, out));
    (*out)->chosen = LS_CHOSEN_BY_RULE;
    return LS_SUCCESS;
}
