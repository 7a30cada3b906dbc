// device.c - opens and describes the cpu device.
#include <stdio.h>
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/host.h"

static void cpu_close(ls_device *device) {
    ls_cpu *cpu = (ls_cpu *)device;
    if (!cpu) return;
    ls_onednn_free(cpu->onednn);
    ls_pool_free(cpu->pool);
    ls_pool_free(cpu->alone);
    free(cpu);
}

// Only tests are linked with the emulated kernels. In other programs their addresses are NULL.
#if defined(__x86_64__)
#pragma weak ls_kernels_v4e
#pragma weak ls_kernels_v4e_bf16
#pragma weak ls_kernels_v16e
#pragma weak ls_kernels_v16e_bf16
#endif

typedef enum { ANY, AVX2, AVX512, AVX512_BF16 } needs; // instructions that the processor must have

static int has(const ls_cpus *cpus, needs what) {
    return what == ANY ? 1 : what == AVX2 ? cpus->has_avx2 : what == AVX512 ? cpus->has_avx512 : cpus->has_avx512_bf16;
}

// The compiled kernels, for blocked tensors (wide) and for tensors with few channels (few): the best first.
// cmake/lockstep.cmake defines LS_KERNELS_* for those that this build has.
#define SET(width, needs, isa, wide, wide_bf16, few) \
    { width, needs, isa, &ls_kernels_##wide, &ls_kernels_##wide_bf16, &ls_kernels_##few, &ls_kernels_##few##_bf16 }
static const struct {
    int width;
    needs needs;
    const char *isa;
    const ls_kernels *wide, *wide_bf16, *few, *few_bf16;
} sets[] = {
#ifdef LS_KERNELS_v16n_bf16
    SET(16, AVX512_BF16, "AVX-512", v16, v16n_bf16, v1),
#endif
#ifdef LS_KERNELS_v16_bf16
    SET(16, AVX512, "AVX-512", v16, v16_bf16, v1),
#endif
#ifdef LS_KERNELS_v8
    SET(8, AVX2, "AVX2", v8, v8_bf16, v1),
    SET(16, AVX2, "AVX2, 16-wide layouts", v16e, v16e_bf16, v1),
    SET(4, ANY, "AVX2, 4-wide layouts", v4e, v4e_bf16, v1), // train_fused has AVX2, but is told that it has not
#endif
#ifdef LS_KERNELS_v4
    SET(4, ANY, LS_CPUS_BASELINE, v4, v4_bf16, v1b),
#endif
};
enum { SETS = sizeof sets / sizeof *sets };

// Chooses the compiled kernels: the best for this processor, or those with the vector width that a test sets.
static ls_status choose_kernels(ls_cpu *cpu, int width) {
    for (int i = 0; i < SETS; i++) {
        if ((width != 0 && width != sets[i].width) || !sets[i].wide || !has(&cpu->cpus, sets[i].needs)) continue;
        cpu->isa = sets[i].isa;
        cpu->kernels = sets[i].wide, cpu->kernels_bf16 = sets[i].wide_bf16;
        cpu->plain = sets[i].few, cpu->plain_bf16 = sets[i].few_bf16;
        cpu->block = sets[i].width;
        return LS_SUCCESS;
    }
    if (width == 0)
        return ls_fail(LS_USAGE,
            "the cpu device has kernels only for the processor that it was built on (%s), and this one (%s) cannot run "
            "them: build again, by cmake --preset native on this machine or --preset release for any",
            sets[0].isa, cpu->cpus.model);
    return ls_fail(LS_USAGE,
        "vector width %d: the cpu device has kernels for 4 floats on any processor, 8 with AVX2 and 16 with AVX-512 "
        "(test programs: with AVX2)",
        width);
}

static ls_status cpu_open(const ls_device_options *options, ls_device **out) {
    ls_cpu *cpu = ls_new(1, sizeof *cpu, "cpu device");
    ls_status status;
    cpu->base.api = &ls_device_cpu;
    ls_cpus_detect(&cpu->cpus);
    LS_TRY_GOTO(choose_kernels(cpu, options->vector_width));
    cpu->threads = options->threads > 0 ? options->threads : 1;
    snprintf(cpu->winograd, sizeof cpu->winograd, "%s", options->winograd ? options->winograd : "auto");
    LS_TRY_GOTO(ls_cpu_conv_find(options->convolution, &cpu->forced_convolution));
    LS_TRY_GOTO(ls_pool_new(cpu->threads, &cpu->pool));
    LS_TRY_GOTO(ls_pool_new(1, &cpu->alone));
    if (cpu->block >= LS_ONEDNN_BLOCK_MIN) LS_TRY_GOTO(ls_onednn_new(cpu->threads, &cpu->onednn));
    *out = &cpu->base;
    cpu = NULL;
done:
    cpu_close((ls_device *)cpu);
    return status;
}

static void cpu_info(const ls_device *device, ls_device_info *info) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    *info = (ls_device_info){ .memory_bytes = 0 };
    snprintf(info->name, sizeof info->name, "%.45s, %d thread%s, %s", cpu->cpus.model, cpu->threads,
        cpu->threads == 1 ? "" : "s", cpu->isa);
    snprintf(info->vectors, sizeof info->vectors, "%s", cpu->isa);
    if (cpu->onednn)
        ls_onednn_describe(info->libraries, sizeof info->libraries);
    else
        snprintf(info->libraries, sizeof info->libraries, "own kernels only");
}

static ls_status cpu_check_precision(const ls_device *device, ls_dtype storage) {
    (void)device;
    if (storage == LS_F32 || storage == LS_BF16) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "the cpu device stores activations in fp32 or bf16: use train.precision = fp32 or bf16; %s is for device.type "
        "= "
        "cuda, or ref (slow)",
        ls_dtype_name(storage));
}

const ls_device_api ls_device_cpu = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_device_api),
    .name = "cpu",
    .fusions = LS_FUSES_CONCAT_ADD | LS_FUSES_NORM_POOL_2X2,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .check_precision = cpu_check_precision,
    LS_HOST_MEMORY_ROWS,
    .activation_bytes = ls_cpu_activation_bytes,
    .activation_import = ls_cpu_activation_import,
    .activation_export = ls_cpu_activation_export,
    .param_elements = ls_cpu_param_elements,
    .param_import = ls_cpu_param_import,
    .param_export = ls_cpu_param_export,
    .plan_new = ls_cpu_plan_new,
    .plan_free = ls_cpu_plan_free,
};
