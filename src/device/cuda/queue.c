// queue.c - streams, events, captured graphs, and errors that show up later than their cause.
//
// A GPU reports a kernel's fault at some later call, and then at every call. So functions that cannot return a status
// note the first error in the device, with the operator that was enqueued last. Functions with a status, such as
// ls_queue_sync, return it.
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"

struct ls_event {
    ls_cuda_device *device;
    cudaEvent_t event;
};

struct ls_captured_graph {
    ls_cuda_device *device;
    cudaGraphExec_t executable;
    const ls_op_desc *last; // the last operator in the graph
};

// --- errors --------------------------------------------------------------------------------------

ls_status ls_cuda_fail(const char *call, cudaError_t rc) {
    (void)cudaGetLastError(); // clears the error, which is reported here: the next launch must not see it
    return ls_fail(LS_DEVICE, "%s: CUDA error %d (%s)", call, (int)rc, cudaGetErrorString(rc));
}

void ls_cuda_note_status(ls_cuda_device *device, ls_status status) {
    pthread_mutex_lock(&device->lock);
    ls_keep_first(&device->error, status);
    pthread_mutex_unlock(&device->lock);
}

ls_status ls_cuda_error(ls_cuda_device *device) {
    pthread_mutex_lock(&device->lock);
    ls_status status = device->error;
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void note_first(ls_cuda_device *device, const char *while_doing, cudaError_t rc) { // call with the lock held
    if (ls_failed(device->error)) return; // only the first error is the cause
    char last[256] = "no operator had been enqueued";
    if (device->last)
        snprintf(last, sizeof last, "the last operator enqueued was %s of layer %s%s", ls_op_name(device->last->op),
            device->last->layer, device->last_recorded ? ", the end of a captured update" : "");
    device->error = ls_fail(LS_DEVICE,
        "CUDA error %d (%s), noticed at %s; %s; run again with CUDA_LAUNCH_BLOCKING=1 and device.graphs = false to "
        "find the operator at fault",
        (int)rc, cudaGetErrorString(rc), while_doing, last);
}

void ls_cuda_note(ls_cuda_device *device, const char *while_doing, cudaError_t rc) {
    if (rc == cudaSuccess) return;
    (void)cudaGetLastError();
    pthread_mutex_lock(&device->lock);
    note_first(device, while_doing, rc);
    pthread_mutex_unlock(&device->lock);
}

static void remember(ls_cuda_device *device, const ls_op_desc *last, int recorded) {
    pthread_mutex_lock(&device->lock);
    device->last = last;
    device->last_recorded = recorded;
    pthread_mutex_unlock(&device->lock);
}

void ls_cuda_enqueued(const ls_plan *plan, ls_queue *queue) {
    ls_cuda_device *device = queue->device;
    cudaError_t rc = cudaPeekAtLastError();
    if (rc != cudaSuccess) {
        char where[192];
        snprintf(where, sizeof where, "the launch of %s of layer %s", ls_op_name(plan->desc.op), plan->desc.layer);
        ls_cuda_note(device, where, rc);
    }
    remember(device, &plan->desc, 0);
}

// --- queues --------------------------------------------------------------------------------------

// Makes the stream of a queue. The queue "gradients" gets a higher priority: sums over ranks are short, and other work
// waits for them, so they run before the kernels of the backward pass. A lower number is a higher priority.
static cudaError_t make_stream(const char *name, cudaStream_t *stream) {
    int lowest = 0, highest = 0;
    if (strcmp(name, "gradients") == 0) {
        cudaError_t rc = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
        if (rc != cudaSuccess) return rc;
    }
    return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, highest);
}

ls_status ls_cuda_queue_new(ls_device *device, const char *name, ls_queue **out) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    LS_TRY_CUDA(cudaSetDevice(cuda->index));
    ls_queue *queue = ls_new(1, sizeof *queue, "queue %s", name);
    queue->device = cuda;
    snprintf(queue->name, sizeof queue->name, "%s", name);
    cudaError_t rc = make_stream(name, &queue->stream);
    if (rc != cudaSuccess) {
        free(queue);
        return ls_cuda_fail("cudaStreamCreateWithPriority", rc);
    }
    pthread_mutex_lock(&cuda->lock);
    queue->next = cuda->queues;
    cuda->queues = queue;
    pthread_mutex_unlock(&cuda->lock);
    *out = queue;
    return LS_SUCCESS;
}

void ls_cuda_queue_free(ls_queue *queue) {
    if (!queue) return;
    pthread_mutex_lock(&queue->device->lock);
    ls_queue **at = &queue->device->queues;
    while (*at != queue) at = &(*at)->next;
    *at = queue->next;
    pthread_mutex_unlock(&queue->device->lock);
    ls_cuda_note(queue->device, "the end of a queue", cudaStreamDestroy(queue->stream));
    free(queue);
}

cudaError_t ls_cuda_settle(ls_cuda_device *device) {
    pthread_mutex_lock(&device->lock);
    cudaError_t rc = cudaStreamSynchronize(NULL);
    for (const ls_queue *each = device->queues; each && rc == cudaSuccess; each = each->next)
        rc = cudaStreamSynchronize(each->stream);
    pthread_mutex_unlock(&device->lock);
    return rc;
}

ls_status ls_cuda_queue_sync(ls_queue *queue) {
    char where[64];
    snprintf(where, sizeof where, "the synchronisation of queue %s", queue->name);
    cudaError_t rc = ls_cuda_enter(queue->device);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(queue->stream);
    ls_cuda_note(queue->device, where, rc);
    return ls_cuda_error(queue->device);
}

void ls_cuda_copy(ls_buffer dst, ls_buffer src, size_t bytes, ls_queue *queue) {
    assert(bytes <= dst.bytes && bytes <= src.bytes);
    cudaError_t rc = ls_cuda_enter(queue->device);
    if (rc == cudaSuccess)
        rc = cudaMemcpyAsync(ls_cuda_at(dst), ls_cuda_at(src), bytes, cudaMemcpyDefault, queue->stream);
    ls_cuda_note(queue->device, "a copy", rc);
}

void ls_cuda_zero(ls_buffer dst, size_t bytes, ls_queue *queue) {
    assert(bytes <= dst.bytes);
    cudaError_t rc = ls_cuda_enter(queue->device);
    if (rc == cudaSuccess) rc = cudaMemsetAsync(ls_cuda_at(dst), 0, bytes, queue->stream);
    ls_cuda_note(queue->device, "setting memory to zero", rc);
}

// --- events --------------------------------------------------------------------------------------

ls_status ls_cuda_event_new(ls_device *device, int timed, ls_event **out) {
    ls_cuda_device *cuda = (ls_cuda_device *)device;
    LS_TRY_CUDA(cudaSetDevice(cuda->index));
    ls_event *event = ls_new(1, sizeof *event, "event");
    event->device = cuda;
    cudaError_t rc = cudaEventCreateWithFlags(&event->event, timed ? cudaEventDefault : cudaEventDisableTiming);
    if (rc != cudaSuccess) {
        free(event);
        return ls_cuda_fail("cudaEventCreateWithFlags", rc);
    }
    *out = event;
    return LS_SUCCESS;
}

void ls_cuda_event_free(ls_event *event) {
    if (!event) return;
    ls_cuda_note(event->device, "the end of an event", cudaEventDestroy(event->event));
    free(event);
}

void ls_cuda_event_record(ls_event *event, ls_queue *queue) {
    cudaError_t rc = ls_cuda_enter(event->device);
    if (rc == cudaSuccess) rc = cudaEventRecord(event->event, queue->stream);
    ls_cuda_note(event->device, "the recording of an event", rc);
}

void ls_cuda_event_wait(ls_event *event, ls_queue *queue) {
    cudaError_t rc = ls_cuda_enter(event->device);
    if (rc == cudaSuccess) rc = cudaStreamWaitEvent(queue->stream, event->event, 0);
    ls_cuda_note(event->device, "a wait for an event", rc);
}

ls_status ls_cuda_event_sync(ls_event *event) {
    cudaError_t rc = ls_cuda_enter(event->device);
    if (rc == cudaSuccess) rc = cudaEventSynchronize(event->event);
    ls_cuda_note(event->device, "the host's wait for an event", rc);
    return ls_cuda_error(event->device);
}

// Whether the device has passed the event. Returns 1 after an error too: a caller that polls then stops, and the next
// call that can return the error does so.
int ls_cuda_event_happened(ls_event *event) {
    cudaError_t rc = cudaEventQuery(event->event);
    if (rc == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return 0;
    }
    ls_cuda_note(event->device, "a look at an event", rc);
    return 1;
}

double ls_cuda_event_seconds(ls_event *from, ls_event *to) {
    float milliseconds = 0;
    ls_cuda_note(
        from->device, "the time between two events", cudaEventElapsedTime(&milliseconds, from->event, to->event));
    return milliseconds * 1e-3;
}

// --- captured graphs -----------------------------------------------------------------------------

ls_status ls_cuda_capture_begin(ls_queue *queue) {
    LS_TRY(ls_cuda_error(queue->device));
    // thread-local mode: calls of the loader's threads do not disturb the capture
    LS_TRY_CUDA(cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal));
    return LS_SUCCESS;
}

ls_status ls_cuda_capture_end(ls_queue *queue, ls_captured_graph **out) {
    ls_cuda_device *device = queue->device;
    cudaGraph_t captured = NULL;
    cudaGraphExec_t executable = NULL;
    cudaError_t rc = cudaStreamEndCapture(queue->stream, &captured);
    if (rc == cudaSuccess) {
        // With this flag a captured kernel keeps its stream's priority. Without it, all nodes would run with that of
        // the stream in which the graph is launched, and sums over ranks would queue after the backward pass.
        rc = cudaGraphInstantiate(&executable, captured, cudaGraphInstantiateFlagUseNodePriority);
        cudaGraphDestroy(captured);
    }
    // error of work enqueued during the capture, which then is the cause of rc
    ls_status status = ls_cuda_error(device);
    if (rc != cudaSuccess) ls_keep_first(&status, ls_cuda_fail("the end of a captured update", rc));
    if (ls_failed(status)) {
        if (executable) cudaGraphExecDestroy(executable);
        return status;
    }
    ls_captured_graph *graph = ls_new(1, sizeof *graph, "captured update");
    pthread_mutex_lock(&device->lock);
    *graph = (ls_captured_graph){ device, executable, device->last };
    pthread_mutex_unlock(&device->lock);
    *out = graph;
    return LS_SUCCESS;
}

void ls_cuda_graph_launch(ls_captured_graph *graph, ls_queue *queue) {
    ls_cuda_device *device = graph->device;
    ls_cuda_note(device, "the launch of a captured update", cudaGraphLaunch(graph->executable, queue->stream));
    remember(device, graph->last, 1);
}

void ls_cuda_graph_free(ls_captured_graph *graph) {
    if (!graph) return;
    ls_cuda_note(graph->device, "the end of a captured update", cudaGraphExecDestroy(graph->executable));
    free(graph);
}
