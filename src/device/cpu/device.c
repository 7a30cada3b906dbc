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

// Only tests are linked with the 16-wide kernels for AVX2. In other programs these addresses are NULL.
#pragma weak ls_kernels_v16e
#pragma weak ls_kernels_v16e_bf16
static int has_emulated_kernels(void) {
    return &ls_kernels_v16e != NULL;
}

// Chooses the compiled kernels: those for this processor, or for the vector width that a test sets.
static ls_status choose_kernels(ls_cpu *cpu, int width) {
    if (!cpu->cpus.has_avx2)
        return ls_fail(LS_DEVICE,
            "the cpu device needs a processor with AVX2 and FMA; %s lacks them; use device.type = ref",
            cpu->cpus.model);
    if (width == 0) width = cpu->cpus.has_avx512 ? 16 : 8;
    if (width != 8 && width != 16)
        return ls_fail(LS_USAGE, "vector width %d: the cpu device has kernels for 8 and 16 floats", width);
    cpu->plain = &ls_kernels_v1;
    cpu->plain_bf16 = &ls_kernels_v1_bf16;
    if (width == 16 && !cpu->cpus.has_avx512 && !has_emulated_kernels())
        return ls_fail(LS_USAGE,
            "vector width 16: this processor has no AVX-512; only test programs have 16-wide kernels for AVX2");
    if (width == 8)
        cpu->kernels = &ls_kernels_v8, cpu->kernels_bf16 = &ls_kernels_v8_bf16;
    else if (!cpu->cpus.has_avx512)
        cpu->kernels = &ls_kernels_v16e, cpu->kernels_bf16 = &ls_kernels_v16e_bf16;
    else
        cpu->kernels = &ls_kernels_v16,
        cpu->kernels_bf16 = cpu->cpus.has_avx512_bf16 ? &ls_kernels_v16n_bf16 : &ls_kernels_v16_bf16;
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
    LS_TRY_GOTO(ls_onednn_new(cpu->threads, &cpu->onednn));
    *out = &cpu->base;
    cpu = NULL;
done:
    cpu_close((ls_device *)cpu);
    return status;
}

static void cpu_info(const ls_device *device, ls_device_info *info) {
    const ls_cpu *cpu = (const ls_cpu *)device;
    const char *isa = cpu->block == 8 ? "AVX2" : cpu->cpus.has_avx512 ? "AVX-512" : "AVX2, 16-wide layouts";
    *info = (ls_device_info){ .memory_bytes = 0 };
    snprintf(info->name, sizeof info->name, "%.45s, %d thread%s, %s", cpu->cpus.model, cpu->threads,
        cpu->threads == 1 ? "" : "s", isa);
    snprintf(info->vectors, sizeof info->vectors, "%s", isa);
    ls_onednn_describe(info->libraries, sizeof info->libraries);
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
