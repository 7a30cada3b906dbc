// conv_choose.c - chooses the algorithm of a convolution.
//
// The rule, in this order:
// - grouped kernels where they need less time than dense convolutions of the parts
// - Winograd where it gains, with the tiles that need the fewest multiplications for maps of this size
// - matrix products, one for each tap, where at most half of the filter's taps meet a pixel; for weight gradients,
//   where the filter is 1x1 or the outputs are few; for data gradients, where 1x1 filters have many weights (AVX-512)
// - own direct kernels where they skip enough of the padding channels in the last blocks
// - oneDNN's generated code, if it has some for the device's layouts
// - own direct kernels
// Measuring instead of this rule gains nothing (docs/cpu.md).
#include <stdio.h>
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
    char known[512] = "";
    for (int i = 0, at = 0; i < LS_CONV_ALGORITHMS; i++) {
        const char *before = i == 0 ? "" : i + 1 == LS_CONV_ALGORITHMS ? " and " : ", ";
        at += snprintf(known + at, sizeof known - (size_t)at, "%s%s", before, ls_conv_name(i));
    }
    return ls_fail(LS_USAGE, "convolution by \"%s\": the cpu device has %s", name, known);
}

// Whether the option device.winograd allows this variant: auto allows all, f2 only the most accurate, off no variant.
static int mode_allows(const ls_cpu *cpu, int variant) {
    return strcmp(cpu->winograd, "auto") == 0 || (strcmp(cpu->winograd, "f2") == 0 && variant == LS_WINOGRAD_F23);
}

// Returns how many times faster oneDNN multiplies bf16 than fp32 on processors with AVX512-BF16 (measured: 2.2 to 2.6
// times, for weight gradients 1.4 to 2.2); in all other cases 1. Own kernels always multiply fp32.
static double bf16_rate(const ls_cpu *cpu, const ls_conv_attr *attr, ls_op op) {
    if (!ls_conv_multiplies_bf16(cpu, attr)) return 1;
    return op == LS_OP_CONV_BACKWARD_WEIGHT ? 1.6 : 2.3;
}

// The share of the products in whole blocks that belong to real channels, not to padding.
static double share_of_blocks(const ls_cpu *cpu, const ls_conv_attr *a) {
    return (double)a->src.c * a->dst.c / (ls_cpu_vector(cpu, a->src.c) * ls_cpu_vector(cpu, a->dst.c));
}

// Returns the best variant, or -1 if none gains. *gain: how many times fewer multiplications it needs, or 1.
static int best_winograd(const ls_cpu *cpu, const ls_op_desc *desc, double *gain) {
    const ls_conv_attr attr = ls_conv_of_parts(cpu, &desc->attr.conv);
    const double bf16 = bf16_rate(cpu, &attr, desc->op), rate = bf16 > 1 ? bf16 * share_of_blocks(cpu, &attr) : 1;
    int best = -1;
    *gain = 1;
    for (int v = 0; v < LS_WINOGRAD_VARIANTS; v++) {
        const double fewer =
            mode_allows(cpu, v) ? ls_winograd_gain(&attr, desc->op, (ls_winograd_variant)v, cpu->block, rate) : 0;
        if (fewer <= *gain) continue;
        *gain = fewer;
        best = v;
    }
    return best;
}

// The share of a filter row's products that do not fall on padding. oneDNN skips the others.
static double share_inside(const ls_conv_attr *a) {
    int inside = 0;
    for (int s = 0; s < a->kernel_w; s++)
        for (int q = 0; q < a->dst.w; q++) {
            const int x = q * a->stride_w - a->pad_w + s * a->dilation;
            inside += x >= 0 && x < a->src.w;
        }
    return (double)inside / (a->kernel_w * a->dst.w);
}

// Whether own direct kernels are expected to be faster than oneDNN, which multiplies whole blocks. Own kernels skip the
// padding channels in the last block that they read, and half of the last block that they write if it is padding. They
// must save a seventh, because oneDNN's code is a little faster.
static int direct_gains(const ls_cpu *cpu, const ls_op_desc *desc) {
    const ls_conv_attr a = ls_conv_of_parts(cpu, &desc->attr.conv);
    const int back = desc->op == LS_OP_CONV_BACKWARD_DATA, src = a.src.c / a.groups, dst = a.dst.c / a.groups;
    const int in = back ? dst : src, out = back ? src : dst;
    const int half = cpu->block / 2;
    const double own = (double)in * ((out + half - 1) / half * half);
    return own * bf16_rate(cpu, &a, desc->op) * 7 / 6 <=
           share_inside(&a) * ls_cpu_vector(cpu, in) * ls_cpu_vector(cpu, out);
}

ls_status ls_cpu_conv_plan(ls_cpu *cpu, const ls_op_desc *desc, ls_plan **out) {
    double gain;
    const int winograd = best_winograd(cpu, desc, &gain);
    const int grouped = ls_conv_grouped_can(cpu, desc) && ls_conv_grouped_gains(cpu, desc, gain) ? LS_CONV_GROUPED : -1;
    const ls_conv_attr parts = ls_conv_of_parts(cpu, &desc->attr.conv);
    const int product = ls_winograd_product_gains(&parts, desc->op, cpu->block, bf16_rate(cpu, &parts, desc->op))
                            ? LS_WINOGRAD_F11
                            : -1;
    const int direct = direct_gains(cpu, desc) ? LS_CONV_DIRECT : -1;
    const int order[] = { cpu->forced_convolution, grouped, winograd, product, direct, LS_CONV_ONEDNN, LS_CONV_DIRECT };
    *out = NULL;
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && desc->attr.conv.bias_only) // nothing to convolve
        return ls_cpu_conv_plan_by(cpu, desc, LS_CONV_DIRECT, out);
    for (size_t i = 0; !*out && i < sizeof order / sizeof *order; i++)
        if (order[i] >= 0) LS_TRY(ls_cpu_conv_plan_by(cpu, desc, order[i], out));
    return LS_SUCCESS;
}
