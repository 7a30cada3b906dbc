// device.c - opens and describes a GPU; the device's function table.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(LS_EMULATED_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define LS_CUDA_NVTX
#endif

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/libraries.h"

// NVTX is only a header. It does nothing unless a profiler runs.
#ifdef LS_CUDA_NVTX
static void range_begin(const char *name) {
    (void)nvtxRangePushA(name);
}

static void range_end(void) {
    (void)nvtxRangePop();
}
#endif

static void cuda_close(ls_device *device) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    if (!cuda) return;
    ls_cuda_libraries_close(cuda->libraries);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

// Explains an error of one of the first calls into CUDA, in words that help the user.
static ls_status explain_start(cudaError_t rc) {
    int driver = 0;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    (void)cudaDriverGetVersion(&driver);
    (void)cudaGetLastError();
    switch (rc) {
    case cudaErrorInsufficientDriver:
        if (driver == 0) return ls_fail(LS_DEVICE, "there is no NVIDIA driver: libcuda.so.1 was not found");
        return ls_fail(LS_DEVICE,
            "the NVIDIA driver is too old: it runs CUDA up to %d.%d, this build needs %d.%d; install a newer driver",
            driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    case cudaErrorNoDevice:
        return ls_fail(LS_DEVICE, "the NVIDIA driver sees no GPU%s%s%s", visible ? " (CUDA_VISIBLE_DEVICES is \"" : "",
            visible ? visible : "", visible ? "\")" : "; nvidia-smi lists the GPUs");
    case cudaErrorStubLibrary:
        return ls_fail(LS_DEVICE, "the CUDA toolkit's stub of libcuda.so was loaded in place of the driver's: take the "
                                  "folder stubs out of LD_LIBRARY_PATH");
    default:
        return ls_fail(LS_DEVICE, "CUDA cannot start: error %d (%s); nvidia-smi shows the state of driver and GPUs",
            (int)rc, cudaGetErrorString(rc));
    }
}

static ls_status count_gpus(int *count) {
    cudaError_t rc = cudaGetDeviceCount(count);
    return rc == cudaSuccess ? LS_SUCCESS : explain_start(rc);
}

static ls_status describe_gpu(int index, struct cudaDeviceProp *properties, ls_device_gpu *gpu) {
    *gpu = (ls_device_gpu){ .index = index };
    cudaError_t rc = cudaGetDeviceProperties(properties, index);
    if (rc != cudaSuccess) return explain_start(rc);
    unsigned char id[16];
    memcpy(id, properties->uuid.bytes, sizeof id);
    snprintf(gpu->name, sizeof gpu->name, "%.95s", properties->name);
    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
        id[0], id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14],
        id[15]);
    rc = cudaDeviceGetPCIBusId(gpu->pci, sizeof gpu->pci, index);
    if (rc != cudaSuccess) return explain_start(rc);
    // lower case, as in the kernel's /sys
    for (char *letter = gpu->pci; *letter; letter++) *letter = (char)tolower((unsigned char)*letter);
    int capability = 10 * properties->major + properties->minor;
    if (capability < LS_CUDA_LOWEST)
        return ls_fail(LS_DEVICE,
            "GPU %d (%s) has compute capability %d.%d, which is too old: this build is for " LS_CUDA_BUILT_FOR
            " and newer GPUs",
            index, gpu->name, properties->major, properties->minor);
    return LS_SUCCESS;
}

static ls_status cuda_list(ls_device_gpu *gpus, int most, int *count) {
    int all = 0;
    ls_status first = LS_SUCCESS;
    *count = 0;
    LS_TRY(count_gpus(&all));
    for (int i = 0; i < all && *count < most; i++) {
        struct cudaDeviceProp properties;
        ls_status status = describe_gpu(i, &properties, &gpus[*count]);
        *count += !ls_failed(status);
        ls_keep_first(&first, status);
    }
    return *count > 0 ? LS_SUCCESS : first;
}

static ls_status take_gpu(ls_cuda_device *cuda, int index, int alone) {
    int count = 0;
    ls_device_gpu gpu;
    struct cudaDeviceProp properties;
    LS_TRY(count_gpus(&count));
    if (index < 0 || index >= count)
        return ls_fail(LS_DEVICE,
            "GPU %d was asked for, but %d GPU%s visible, numbered from 0; use as many ranks on a host as it has GPUs",
            index, count, count == 1 ? " is" : "s are");
    LS_TRY(describe_gpu(index, &properties, &gpu));
    cuda->index = index;
    memcpy(cuda->name, gpu.name, sizeof cuda->name);
    memcpy(cuda->uuid, gpu.uuid, sizeof cuda->uuid);
    memcpy(cuda->pci, gpu.pci, sizeof cuda->pci);
    cuda->capability = 10 * properties.major + properties.minor;
    cuda->multiprocessors = properties.multiProcessorCount;
    cuda->shared_bytes = properties.sharedMemPerBlockOptin;
    cuda->alone = alone && properties.cooperativeLaunch;
    cuda->memory_bytes = properties.totalGlobalMem;
    cudaError_t rc = cudaSetDevice(index);
    if (rc == cudaSuccess) rc = cudaFree(NULL); // creates the context: a broken or occupied GPU fails here
    return rc == cudaSuccess ? LS_SUCCESS : explain_start(rc);
}

static ls_status take_convolution(ls_cuda_device *cuda, const char *name) {
    cuda->no_library = name && strcmp(name, "implicit gemm") == 0;
    cuda->no_implicit_gemm = name && strcmp(name, "library") == 0;
    if (!name || cuda->no_library || cuda->no_implicit_gemm) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "convolution by \"%s\": the cuda device has implicit gemm and library", name);
}

static ls_status cuda_open(const ls_device_options *options, ls_device **out) {
    ls_status status;
    ls_cuda_device *cuda = ls_new(1, sizeof *cuda, "cuda device");
    pthread_mutex_init(&cuda->lock, NULL);
    cuda->base.api = &ls_device_cuda;
    cuda->algorithms = options->algorithms;
    cuda->workspace_limit = options->workspace_limit_bytes ? options->workspace_limit_bytes : LS_CUDA_WORKSPACE_LIMIT;
    LS_TRY_GOTO(take_convolution(cuda, options->convolution));
    LS_TRY_GOTO(take_gpu(cuda, options->index, options->alone));
    cuda->tf32 = options->tf32 && cuda->capability >= LS_CUDA_BF16;
    LS_TRY_GOTO(ls_cuda_libraries_open(cuda, &cuda->libraries));
    *out = &cuda->base;
    cuda = NULL;
done:
    cuda_close((ls_device *)cuda);
    return status;
}

static void cuda_info(const ls_device *device, ls_device_info *info) {
    const ls_cuda_device *cuda = (const ls_cuda_device *)device;
    *info = (ls_device_info){ .memory_bytes = cuda->memory_bytes };
    snprintf(info->name, sizeof info->name, "%.60s, compute capability %d.%d", cuda->name, cuda->capability / 10,
        cuda->capability % 10);
    memcpy(info->uuid, cuda->uuid, sizeof info->uuid);
    memcpy(info->pci, cuda->pci, sizeof info->pci);
    int runtime = 0, driver = 0;
    (void)cudaDriverGetVersion(&driver);
    snprintf(info->driver, sizeof info->driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    char libraries[96];
    (void)cudaRuntimeGetVersion(&runtime);
    ls_cuda_libraries_text(cuda->libraries, libraries, sizeof libraries);
    snprintf(info->libraries, sizeof info->libraries, "CUDA %d.%d, %s", runtime / 1000, runtime % 1000 / 10, libraries);
}

static ls_status cuda_check_precision(const ls_device *device, ls_dtype storage) {
    const ls_cuda_device *cuda = (const ls_cuda_device *)device;
    if (storage == LS_BF16 && cuda->capability < LS_CUDA_BF16)
        return ls_fail(LS_USAGE,
            "bf16 needs a GPU of compute capability %d.%d or later, and the %s has %d.%d: use train.precision = fp16, "
            "which scales the loss, or fp32",
            LS_CUDA_BF16 / 10, LS_CUDA_BF16 % 10, cuda->name, cuda->capability / 10, cuda->capability % 10);
    if (storage == LS_F32 || storage == LS_BF16 || storage == LS_F16) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "the cuda device stores activations in fp32, bf16 or fp16, not in %s", ls_dtype_name(storage));
}

const ls_device_api ls_device_cuda = {
    .abi = LS_DEVICE_ABI,
    .size = sizeof(ls_device_api),
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .info = cuda_info,
    .check_precision = cuda_check_precision,
    .slab_new = ls_cuda_slab_new,
    .slab_free = ls_cuda_slab_free,
    .queue_new = ls_cuda_queue_new,
    .queue_free = ls_cuda_queue_free,
    .queue_sync = ls_cuda_queue_sync,
    .event_new = ls_cuda_event_new,
    .event_free = ls_cuda_event_free,
    .event_record = ls_cuda_event_record,
    .event_wait = ls_cuda_event_wait,
    .event_sync = ls_cuda_event_sync,
    .event_happened = ls_cuda_event_happened,
    .event_seconds = ls_cuda_event_seconds,
#ifdef LS_CUDA_NVTX
    .range_begin = range_begin,
    .range_end = range_end,
#endif
    .capture_begin = ls_cuda_capture_begin,
    .capture_end = ls_cuda_capture_end,
    .graph_launch = ls_cuda_graph_launch,
    .graph_free = ls_cuda_graph_free,
    .memory = ls_cuda_memory,
    .copy = ls_cuda_copy,
    .zero = ls_cuda_zero,
    .activation_bytes = ls_cuda_activation_bytes,
    .activation_import = ls_cuda_activation_import,
    .activation_export = ls_cuda_activation_export,
    .param_elements = ls_cuda_param_elements,
    .param_import = ls_cuda_param_import,
    .param_export = ls_cuda_param_export,
    .plan_new = ls_cuda_plan_new,
    .plan_free = ls_cuda_plan_free,
    .fusions =
        LS_FUSES_NORM_POOL | LS_ROUNDS_GRADIENTS | LS_FUSES_BIAS | LS_FUSES_RELU_ADD | LS_FUSES_SCALE | LS_FUSES_HEAD,
    .list = cuda_list,
    .collective = &ls_cuda_collective,
    .measures = 1,
};
