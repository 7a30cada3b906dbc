// layout.c - converts between the canonical layouts (NCHW, OIHW, rows; fp32) and the device's own, which cuda.h
// defines. The host converts, and one copy transfers the result.

#include "base/half.h"
#include "base/memory.h"
#include "device/cuda/cuda.h"

// A tensor as [outer][pixels][channels] on the device and [outer][channels][pixels] in the canonical layout.
typedef struct {
    int outer, channels, pixels;       // in the canonical layout
    int outer_padded, channels_padded; // on the device
} shape3;

static shape3 activation_shape(ls_nchw s) {
    return (shape3){ s.n, s.c, s.h * s.w, s.n, ls_cuda_channels(s.c) };
}

static shape3 param_shape(const ls_param_shape *p) {
    // not rounded up: one element, or the channels of one group
    int whole_inside = p->kind == LS_PARAM_VECTOR || p->groups > 1;
    return (shape3){ p->dim[0], p->dim[1], p->dim[2] * p->dim[3], ls_cuda_channels(p->dim[0]),
        whole_inside ? p->dim[1] : ls_cuda_channels(p->dim[1]) };
}

static size_t elements_of(shape3 s) {
    return (size_t)s.outer_padded * (size_t)s.pixels * (size_t)s.channels_padded;
}

static int64_t place(shape3 s, int outer, int channel, int pixel) {
    return ((int64_t)outer * s.pixels + pixel) * s.channels_padded + channel;
}

static void import(ls_cuda_device *device, shape3 s, ls_dtype storage, const float *host, ls_buffer dst) {
    size_t bytes = elements_of(s) * ls_dtype_bytes(storage);
    void *laid_out;
    ls_status status = ls_try_new(&laid_out, bytes, 1, "data for the GPU");
    if (ls_failed(status)) {
        ls_cuda_note_status(device, status);
        return;
    }
    for (int o = 0; o < s.outer; o++)
        for (int c = 0; c < s.channels; c++)
            for (int i = 0; i < s.pixels; i++) ls_store_float(laid_out, storage, place(s, o, c, i), *host++);
    // cudaMemcpy runs on the default stream. Queues and the default stream do not wait for each other.
    cudaError_t rc = ls_cuda_settle(device);
    if (rc == cudaSuccess) rc = cudaMemcpy(ls_cuda_at(dst), laid_out, bytes, cudaMemcpyHostToDevice);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(NULL);
    ls_cuda_note(device, "an import", rc);
    free(laid_out);
}

// Copies a tensor from the device to host memory in the canonical layout. If there is no memory for the copy, the
// result is zero; errors are noted in the device.
static void export(ls_cuda_device *device, shape3 s, ls_dtype storage, ls_buffer src, float *host) {
    size_t bytes = elements_of(s) * ls_dtype_bytes(storage);
    void *laid_out;
    ls_status status = ls_try_new(&laid_out, bytes, 1, "data from the GPU");
    if (ls_failed(status)) ls_cuda_note_status(device, status);
    if (laid_out) {
        cudaError_t rc = ls_cuda_settle(device);
        if (rc == cudaSuccess) rc = cudaMemcpy(laid_out, ls_cuda_at(src), bytes, cudaMemcpyDeviceToHost);
        ls_cuda_note(device, "an export", rc);
    }
    for (int o = 0; o < s.outer; o++)
        for (int c = 0; c < s.channels; c++)
            for (int i = 0; i < s.pixels; i++)
                *host++ = laid_out ? ls_load_float(laid_out, storage, place(s, o, c, i)) : 0;
    free(laid_out);
}

size_t ls_cuda_activation_bytes(const ls_device *device, ls_nchw shape, ls_dtype storage) {
    (void)device;
    return elements_of(activation_shape(shape)) * ls_dtype_bytes(storage);
}

void ls_cuda_activation_import(ls_device *device, ls_nchw shape, ls_dtype storage, const float *host, ls_buffer dst) {
    import((ls_cuda_device *)device, activation_shape(shape), storage, host, dst);
}

void ls_cuda_activation_export(ls_device *device, ls_nchw shape, ls_dtype storage, ls_buffer src, float *host) {
    export((ls_cuda_device *)device, activation_shape(shape), storage, src, host);
}

size_t ls_cuda_param_elements(const ls_device *device, const ls_param_shape *shape) {
    (void)device;
    return elements_of(param_shape(shape));
}

void ls_cuda_param_import(ls_device *device, const ls_param_shape *shape, const float *host, ls_buffer dst) {
    import((ls_cuda_device *)device, param_shape(shape), LS_F32, host, dst);
}

void ls_cuda_param_export(ls_device *device, const ls_param_shape *shape, ls_buffer src, float *host) {
    export((ls_cuda_device *)device, param_shape(shape), LS_F32, src, host);
}
