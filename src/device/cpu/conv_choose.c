// conv_choose.c - by which algorithm a convolution is computed.
//
// The rule: Winograd where it gains (F(4,3); F(2,3) on maps that its smaller tiles fit better, as 2x2 and 5x5), else
// oneDNN's generated code where it has some for the device's layouts, else own kernels. Measuring instead gains nothing
// (docs/cpu.md).
#include <string.h>
#include "device/cpu/conv.h"

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
        "convolution by \"%s\": the cpu device has winograd f(4,3), winograd f(2,5), winograd f(2,3), onednn and own "
        "direct",
        name);
}

// Whether the rule prefers it to those behind it. F(2,3) is more accurate than what `auto` stands for, so `auto` allows
// it, too.
static int rule_takes(const ls_cpu *cpu, const ls_op_desc *desc, ls_conv_algorithm algorithm) {
    const char *mode = ls_conv_kinds[algorithm].winograd;
    if (!mode) return 1;
    const int allowed =
        strcmp(cpu->winograd, "auto") == 0 || (strcmp(cpu->winograd, "f2") == 0 && algorithm == LS_CONV_F23);
    return allowed && ls_winograd_supports(&desc->attr.conv, desc->op, mode, cpu->block);
}

ls_status ls_cpu_conv_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    *out = NULL;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && desc->attr.conv.bias_only) // there is nothing to convolve
        return ls_cpu_conv_plan_by(cpu, desc, LS_CONV_DIRECT, out);
    if (cpu->forced_convolution >= 0)
        LS_TRY(ls_cpu_conv_plan_by(cpu, desc, (ls_conv_algorithm)cpu->forced_convolution, out));
    for (int i = 0; !*out && i < LS_CONV_ALGORITHMS; i++)
        if (rule_takes(cpu, desc, (ls_conv_algorithm)i))
            LS_TRY(ls_cpu_conv_plan_by(cpu, desc, (ls_conv_algorithm)i, out));
    return LS_SUCCESS;
}
