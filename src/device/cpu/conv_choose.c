// conv_choose.c - by which algorithm a convolution is computed.
//
// The rule: Winograd where it gains, with the tiles that need the fewest multiplications on maps of this size; groups
// lane by lane where that takes less than dense convolutions of the parts; else oneDNN's generated code where it
// has some for the device's layouts, else own kernels. Measuring instead gains nothing (docs/cpu.md).
#include <string.h>
#include "device/cpu/conv.h"

const char *ls_conv_name(int algorithm) {
    if (algorithm < LS_WINOGRAD_VARIANTS) return ls_winograd_name((ls_winograd_variant)algorithm);
    return algorithm == LS_CONV_GROUPED ? "own grouped" : algorithm == LS_CONV_ONEDNN ? "onednn" : "own direct";
}

ls_status ls_cpu_conv_find(const char *name, int *algorithm) {
    *algorithm = -1;
    for (int i = 0; name && i < LS_CONV_ALGORITHMS; i++)
        if (strcmp(ls_conv_name(i), name) == 0) *algorithm = i;
    if (!name || *algorithm >= 0) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "convolution by \"%s\": the cpu device has winograd f(4,3), winograd f(5,3), winograd f(2,5), winograd f(3,3), "
        "winograd f(2,3), own grouped, onednn and own direct",
        name);
}

// device.winograd: f2 stands for the most accurate variant alone.
static int mode_allows(const ls_cpu *cpu, int variant) {
    return strcmp(cpu->winograd, "auto") == 0 || (strcmp(cpu->winograd, "f2") == 0 && variant == LS_WINOGRAD_F23);
}

// -1: none gains. *gain: how many times fewer multiplications, or 1.
static int best_winograd(const ls_cpu *cpu, const ls_op_desc *desc, double *gain) {
    const ls_conv_attr attr = ls_conv_of_parts(cpu, &desc->attr.conv);
    int best = -1;
    *gain = 1;
    for (int v = 0; v < LS_WINOGRAD_VARIANTS; v++) {
        const double of =
            mode_allows(cpu, v) ? ls_winograd_gain(&attr, desc->op, (ls_winograd_variant)v, cpu->block) : 0;
        if (of <= *gain) continue;
        *gain = of;
        best = v;
    }
    return best;
}

ls_status ls_cpu_conv_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    double gain;
    const int winograd = best_winograd(cpu, desc, &gain);
    const int grouped = ls_conv_grouped_can(desc) && ls_conv_grouped_gains(cpu, desc, gain) ? LS_CONV_GROUPED : -1;
    const int order[] = { cpu->forced_convolution, grouped, winograd, LS_CONV_ONEDNN, LS_CONV_DIRECT };
    *out = NULL;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && desc->attr.conv.bias_only) // there is nothing to convolve
        return ls_cpu_conv_plan_by(cpu, desc, LS_CONV_DIRECT, out);
    for (size_t i = 0; !*out && i < sizeof order / sizeof *order; i++)
        if (order[i] >= 0) LS_TRY(ls_cpu_conv_plan_by(cpu, desc, order[i], out));
    return LS_SUCCESS;
}
