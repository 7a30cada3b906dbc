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

// Compiled kernels: for blocked tensors and for tensors with few channels.
typedef struct {
    const char *isa;
    const ls_kernels *kernels, *kernels_bf16, *plain, *plain_bf16;
} kernel_set;
#define SET(isa, wide, few) \
    { isa, &ls_kernels_##wide, &ls_kernels_##wide##_bf16, &ls_kernels_##few, &ls_kernels_##few##_bf16 }

static const kernel_set baseline = SET(LS_CPUS_BASELINE, v4, v1b);
#if defined(__x86_64__)
// Only tests are linked with the emulated kernels. In other programs their addresses are NULL.
#pragma weak ls_kernels_v4e
#pragma weak ls_kernels_v4e_bf16
#pragma weak ls_kernels_v16e
#pragma weak ls_kernels_v16e_bf16
static const kernel_set fused = SET("AVX2, 4-wide layouts", v4e, v1), avx2 = SET("AVX2", v8, v1),
                        wide_avx2 = SET("AVX2, 16-wide layouts", v16e, v1), avx512 = SET("AVX-512", v16, v1);
static const kernel_set avx512_bf16 = { "AVX-512", &ls_kernels_v16, &ls_kernels_v16n_bf16, &ls_kernels_v1,
    &ls_kernels_v1_bf16 };

static const kernel_set *find_kernels(const ls_cpus *cpus, int width) {
    if (width == 4) return fused.kernels ? &fused : &baseline;
    if (width == 8 && cpus->has_avx2) return &avx2;
    if (width == 16 && cpus->has_avx512) return cpus->has_avx512_bf16 ? &avx512_bf16 : &avx512;
    return width == 16 && cpus->has_avx2 && wide_avx2.kernels ? &wide_avx2 : NULL;
}
#else
static const kernel_set *find_kernels(const ls_cpus *cpus, int width) {
    (void)cpus;
    return width == 4 ? &baseline : NULL;
}
#endif

// Chooses the compiled kernels: those for this processor, or for the vector width that a test sets.
static ls_status choose_kernels(ls_cpu *cpu, int width) {
    if (width == 0) width = cpu->cpus.has_avx512 ? 16 : cpu->cpus.has_avx2 ? 8 : 4;
    const kernel_set *set = find_kernels(&cpu->cpus, width);
    if (!set)
        return ls_fail(LS_USAGE,
            "vector width %d: the cpu device has kernels for 4 floats on any processor, 8 with AVX2 and 16 with "
            "AVX-512 (test programs: with AVX2)",
            width);
    cpu->isa = set->isa;
    cpu->kernels = set->kernels, cpu->kernels_bf16 = set->kernels_bf16;
    cpu->plain = set->plain, cpu->plain_bf16 = set->plain_bf16;
    cpu->block = width;
    return LS_SUCCESS;
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
