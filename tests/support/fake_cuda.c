// fake_cuda.c - NVIDIA's driver and libraries for tests, as far as system/nvidia.c and
// system/monitor.c ask them: one file that is compiled by the test and copied to every name. The environment says
// how it answers: FAKE_<what>=number.
//   cc -shared -fPIC -o fake.so fake_cuda.c
//   cc -shared -fPIC -DPART -Wl,-soname,libcudnn_graph.so.9 -o libcudnn_graph.so.9 fake_cuda.c     a part of cuDNN, empty
#ifndef PART
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int answer(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

// Whether this copy is one for CUDA 12: by its own name, libcudart.so.12, or by its folder's, cuda12/.
static int is_for_12(void) {
    Dl_info file;
    if (!dladdr((void *)(size_t)is_for_12, &file)) return 0;
    return strstr(file.dli_fname, ".so.12") || strstr(file.dli_fname, "cuda12/");
}

// --- driver: cuda.h ------------------------------------------------------------------------------
int cuInit(unsigned flags) {
    (void)flags;
    return answer("FAKE_INIT", 0);
}
int cuDriverGetVersion(int *version) {
    *version = answer("FAKE_DRIVER", 13000);
    return 0;
}
int cuDeviceGetCount(int *count) {
    *count = answer("FAKE_CARDS", 1);
    return 0;
}
int cuDeviceGet(int *device, int index) {
    *device = index;
    return 0;
}
int cuDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "Fake GPU %d", device);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    int capability = answer("FAKE_CAPABILITY", 90);
    if (attribute != 75 && attribute != 76) return 1;
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)80 << 30;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i + 16 * device);
    return 0;
}
int cuDeviceGetPCIBusId(char *text, int bytes, int device) {
    snprintf(text, (size_t)bytes, "0000:%02x:00.0", 0x3b + device);
    return 0;
}
int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "fake words";
    return 0;
}

// --- libraries -----------------------------------------------------------------------------------
int cudaRuntimeGetVersion(int *version) {
    *version = answer("FAKE_RUNTIME", is_for_12() ? 12040 : 13000);
    return 0;
}
// As cuDNN's do: the process ends where the part that holds the function is not open. Unlike cuDNN it looks nowhere for
// it, as under a sanitizer, whose dlopen does not look beside the library that calls it.
static void call_part(const char *function) {
    if (dlopen("libcudnn_graph.so.9", RTLD_LAZY | RTLD_NOLOAD)) return;
    fprintf(stderr, "Invalid handle. Cannot load symbol %s\n", function);
    abort();
}
size_t cudnnGetVersion(void) {
    call_part("cudnnGetVersion");
    return (size_t)answer("FAKE_CUDNN", 91900);
}
size_t cudnnGetCudartVersion(void) {
    call_part("cudnnGetCudartVersion");
    return (size_t)answer("FAKE_CUDNN_CUDA", is_for_12() ? 12040 : 13000);
}
size_t cublasLtGetVersion(void) {
    return (size_t)answer("FAKE_CUBLASLT", is_for_12() ? 120405 : 130100);
}
int ncclGetVersion(int *version) {
    *version = answer("FAKE_NCCL", 22809);
    return 0;
}
int nvmlInit_v2(void) {
    return answer("FAKE_NVML", 0);
}
int nvmlShutdown(void) {
    return 0;
}
int nvmlSystemGetNVMLVersion(char *text, unsigned bytes) {
    snprintf(text, bytes, "13.580.65.06");
    return 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned bytes) {
    const char *release = getenv("FAKE_RELEASE");
    snprintf(text, bytes, "%s", release ? release : "580.65.06");
    return 0;
}

// --- the card, for system/monitor.c ----------------------------------------------------------
// FAKE_CARD_UNKNOWN=1: it is not found. FAKE_MUTE=1: nothing but its memory is known. FAKE_SLOWED: reasons.
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    static int card;
    *device = &card;
    return answer("FAKE_CARD_UNKNOWN", 0) || strncmp(uuid, "GPU-", 4) != 0 ? 6 : 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device) {
    static int card;
    *device = &card;
    return answer("FAKE_CARD_UNKNOWN", 0) || strcmp(pci, "0000:01:00.0") != 0 ? 6 : 0;
}
// One more per cent at every call: 50, 51, ...
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) {
    static unsigned calls;
    (void)device;
    rates[0] = 50 + calls++;
    return answer("FAKE_MUTE", 0) ? 3 : 0;
}
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]) {
    (void)device;
    memory[0] = 80ULL << 30;
    memory[2] = 6ULL << 30;
    memory[1] = memory[0] - memory[2];
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 350500;
    return answer("FAKE_MUTE", 0) ? 3 : 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)device;
    *celsius = 61;
    return answer("FAKE_MUTE", 0) || sensor != 0 ? 3 : 0;
}
int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) {
    (void)device;
    *mhz = 1980;
    return answer("FAKE_MUTE", 0) || type != 1 ? 3 : 0;
}
// 100 J more at every call. FAKE_NO_COUNTER=1: a card before Volta.
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    static unsigned long long calls;
    (void)device;
    *millijoules = 5000000 + 100000 * calls++;
    return answer("FAKE_MUTE", 0) || answer("FAKE_NO_COUNTER", 0) ? 3 : 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    (void)device;
    *reasons = (unsigned long long)answer("FAKE_SLOWED", 1); // 1: idle, which is none of ours
    return answer("FAKE_MUTE", 0) ? 3 : 0;
}
#endif
