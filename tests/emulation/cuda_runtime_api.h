// cuda_runtime_api.h - the part of the CUDA runtime's interface that the emulation has (README.md): NVIDIA's names, numbers
// and signatures, nothing of theirs else. C and C++.
#ifndef LS_EMULATION_CUDA_RUNTIME_API_H
#define LS_EMULATION_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUDART_VERSION 13000

// number, name, text of cudaGetErrorString
#define EMU_CUDA_ERRORS(X) \
    X(0, cudaSuccess, "no error") \
    X(1, cudaErrorInvalidValue, "invalid argument") \
    X(2, cudaErrorMemoryAllocation, "out of memory") \
    X(3, cudaErrorInitializationError, "initialization error") \
    X(9, cudaErrorInvalidConfiguration, "invalid configuration argument") \
    X(21, cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") \
    X(34, cudaErrorStubLibrary, "CUDA driver is a stub library") \
    X(35, cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
    X(100, cudaErrorNoDevice, "no CUDA-capable device is detected") \
    X(101, cudaErrorInvalidDevice, "invalid device ordinal") \
    X(400, cudaErrorInvalidResourceHandle, "invalid resource handle") \
    X(401, cudaErrorIllegalState, "the operation cannot be performed in the present state") \
    X(600, cudaErrorNotReady, "device not ready") \
    X(700, cudaErrorIllegalAddress, "an illegal memory access was encountered") \
    X(719, cudaErrorLaunchFailure, "unspecified launch failure") \
    X(720, cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch") \
    X(800, cudaErrorNotPermitted, "operation not permitted") \
    X(801, cudaErrorNotSupported, "operation not supported") \
    X(900, cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing") \
    X(901, cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture") \
    X(902, cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences") \
    X(903, cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began") \
    X(904, cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work") \
    X(905, cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream") \
    X(906, cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream") \
    X(907, cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream") \
    X(908, cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread") \
    X(912, cudaErrorInvalidClusterSize, "invalid cluster size") \
    X(999, cudaErrorUnknown, "unknown error")

typedef enum cudaError {
#define EMU_CUDA_ERROR(number, name, text) name = number,
    EMU_CUDA_ERRORS(EMU_CUDA_ERROR)
#undef EMU_CUDA_ERROR
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone = 0,
    cudaStreamCaptureStatusActive = 1,
    cudaStreamCaptureStatusInvalidated = 2
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal = 0,
    cudaStreamCaptureModeThreadLocal = 1,
    cudaStreamCaptureModeRelaxed = 2
};
enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrL2CacheSize = 38,
    cudaDevAttrMaxThreadsPerMultiProcessor = 39,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76
};

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaGraphInstantiateFlagUseNodePriority 8
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01

typedef struct CUuuid_st {
    char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp { // the emulation fills these; the real struct has more
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, totalConstMem;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor, l2CacheSize;
    int pciDomainID, pciBusID, pciDeviceID, integrated, asyncEngineCount, concurrentKernels, unifiedAddressing, cooperativeLaunch;
};

// The device
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error);

// Memory
cudaError_t cudaMalloc(void **address, size_t bytes);
cudaError_t cudaFree(void *address);
cudaError_t cudaMallocHost(void **address, size_t bytes);
cudaError_t cudaHostAlloc(void **address, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *address);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void *dst, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream);

// Streams and events
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

// Graphs
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count); // nodes NULL: the count alone

// Not CUDA's: until the next call with NULL, what this thread enqueues counts as one piece of work of this name (`nodes`).
void emuLibraryCall(const char *name);

#ifdef __cplusplus
}
#endif

#endif
