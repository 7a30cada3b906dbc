// op_muon.c - Muon (op_update.h): matrices in batches, products in fp32 (TF32 if the device's option allows it).
//
// All matrices form one batch, padded to the size of the largest, if padding at most triples the work. A few large
// launches then replace many small ones. Otherwise all matrices of one size form a batch.
#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/kernels/muon.h"
#include "device/cuda/libraries.h"

enum { GRAM, FACTOR, NEXT, PRODUCTS, ALIGN = 256 };
static const double FILL = 3; // most work of the padded batch, as a multiple of the matrices' own work

typedef struct {
    int first, count, small, large; // matrices first..first+count-1 of the plan's list
    ls_cuda_muon_product product[PRODUCTS];
    ls_cuda_gemm *gemm[PRODUCTS]; // NULL: the own kernel computes the product
} batch;

typedef struct {
    ls_cuda_plan plan;
    ls_slab *matrices; // ls_cuda_muon_matrix, sorted by batch
    batch *batches;
    int batch_count;
    // workspace of the library's products, at the start; x, next, gram, factor, parts and factors follow
    size_t library_bytes;
    size_t x_bytes, gram_bytes, parts_bytes;
} muon_plan;

static void multiply(
    const batch *b, int which, const float *x, const float *y, const float *c, float *d, void *room, ls_queue *queue) {
    if (b->gemm[which])
        ls_cuda_gemm_execute(b->gemm[which], x, y, c, NULL, d, room, queue);
    else
        ls_cuda_muon_multiply(&b->product[which], x, y, c, d, queue->stream);
}

static void run_batch(const muon_plan *own, const batch *b, ls_cuda_muon_args *args, char *room, ls_queue *queue) {
    const ls_optimizer_attr *attr = &own->plan.base.desc.attr.optimizer;
    char *at = room + own->library_bytes;
    float *x = (float *)(void *)at, *next = (float *)(void *)(at += own->x_bytes);
    float *gram = (float *)(void *)(at += own->x_bytes), *factor = (float *)(void *)(at += own->gram_bytes);
    args->matrices = (const ls_cuda_muon_matrix *)(const void *)own->matrices->address + b->first;
    args->count = b->count, args->small = b->small, args->large = b->large;
    args->x = x;
    args->parts = (double *)(void *)(at += own->gram_bytes);
    args->factors = (float *)(void *)(at + own->parts_bytes);
    ls_cuda_muon_direction(args, queue->stream);
    for (int s = 0; s < attr->ns_steps; s++) {
        multiply(b, GRAM, x, x, gram, gram, room, queue);
        multiply(b, FACTOR, gram, gram, gram, factor, room, queue);
        multiply(b, NEXT, factor, x, x, next, room, queue);
        float *other = x;
        x = next;
        next = other;
    }
    args->x = x;
    ls_cuda_muon_apply(args, queue->stream);
}

static void run_muon(const ls_plan *plan, const ls_buffer *args, ls_buffer workspace, ls_queue *queue) {
    const muon_plan *own = (const muon_plan *)plan;
    const ls_optimizer_attr *attr = &plan->desc.attr.optimizer;
    ls_cuda_muon_args a = { .nesterov = attr->nesterov,
        .state = ls_cuda_at(args[LS_STEP_STATE]),
        .grad = ls_cuda_at(args[LS_STEP_GRAD]),
        .momentum = ls_cuda_at(args[LS_STEP_KEPT]),
        .weight = ls_cuda_at(args[LS_MUON_WEIGHT]),
        .copy = attr->storage == LS_F32 ? NULL : ls_cuda_at(args[LS_MUON_COPY]),
        .storage = attr->storage };
    for (int b = 0; b < own->batch_count; b++) run_batch(own, &own->batches[b], &a, ls_cuda_at(workspace), queue);
    ls_cuda_enqueued(plan, queue);
}

// --- planning ------------------------------------------------------------------------------------

// Return the shorter and the longer side of a matrix (x is transposed if it has more rows), rounded up as channels are.
static int small_of(const ls_cuda_muon_matrix *m) {
    return ls_cuda_channels(m->transposed ? m->columns : m->rows);
}

static int large_of(const ls_cuda_muon_matrix *m) {
    return ls_cuda_channels(m->transposed ? m->rows : m->columns);
}

static double work_of(int small, int large) {
    return (double)small * small * large;
}

static ls_cuda_muon_matrix matrix_of(const ls_cuda_device *device, const ls_step_segment *s, int64_t first) {
    const int rows = ls_cuda_channels(s->shape->dim[0]);
    const int columns = (int)(ls_cuda_param_elements(&device->base, s->shape) / (size_t)rows);
    return (ls_cuda_muon_matrix){ .first = first,
        .rows = rows,
        .columns = columns,
        .transposed = rows > columns,
        .true_rows = s->shape->dim[0],
        .lr_factor = s->lr_factor,
        .decay = s->decay,
        .momentum = s->momentum,
        .stretch = s->stretch,
        .rate = s->rate };
}

static int list_matrices(const ls_cuda_device *device, const ls_optimizer_attr *a, ls_cuda_muon_matrix *list) {
    int count = 0;
    int64_t first = 0;
    for (int s = 0; s < a->segment_count; first += a->segments[s++].count)
        if (a->segments[s].rate != LS_SEGMENT_IDLE) list[count++] = matrix_of(device, &a->segments[s], first);
    return count;
}

// Whether padding all matrices to the size of the largest is worthwhile, so that they form one batch. *small and
// *large: its size.
static int fills_one(const ls_cuda_muon_matrix *list, int count, int *small, int *large) {
    double own = 0;
    *small = *large = 0;
    for (int i = 0; i < count; i++) {
        own += work_of(small_of(&list[i]), large_of(&list[i]));
        if (small_of(&list[i]) > *small) *small = small_of(&list[i]);
        if (large_of(&list[i]) > *large) *large = large_of(&list[i]);
    }
    return count * work_of(*small, *large) <= FILL * own;
}

// Cuts the matrices into batches: all in one batch if that is worthwhile, else one batch for each size. Sorts `list` so
// that the matrices of a batch are adjacent.
static void cut_batches(muon_plan *own, ls_cuda_muon_matrix *list, int count) {
    int small, large;
    if (fills_one(list, count, &small, &large)) {
        own->batches[own->batch_count++] = (batch){ .count = count, .small = small, .large = large };
        return;
    }
    for (int first = 0; first < count;) {
        batch *b = &own->batches[own->batch_count++];
        *b = (batch){ .first = first, .small = small_of(&list[first]), .large = large_of(&list[first]) };
        for (int i = first; i < count; i++) {
            if (small_of(&list[i]) != b->small || large_of(&list[i]) != b->large) continue;
            const ls_cuda_muon_matrix found = list[i];
            list[i] = list[first + b->count];
            list[first + b->count++] = found;
        }
        first += b->count;
    }
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void grow(size_t *most, size_t bytes) {
    if (aligned(bytes) > *most) *most = aligned(bytes);
}

static ls_status plan_batch(ls_cuda_device *device, muon_plan *own, batch *b) {
    const float *ns = own->plan.base.desc.attr.optimizer.ns;
    const int small = b->small, large = b->large;
    const size_t matrices = (size_t)b->count * sizeof(float);
    b->product[GRAM] = (ls_cuda_muon_product){ b->count, small, small, large, 1, 1, 0 };
    b->product[FACTOR] = (ls_cuda_muon_product){ b->count, small, small, small, 0, ns[2], ns[1] };
    b->product[NEXT] = (ls_cuda_muon_product){ b->count, small, large, small, 0, 1, ns[0] };
    for (int p = 0; p < PRODUCTS && device->libraries; p++) {
        const ls_cuda_muon_product *from = &b->product[p];
        const ls_cuda_gemm_attr attr = { .m = from->m,
            .n = from->n,
            .k = from->k,
            .batch = from->batch,
            .transpose_b = from->transpose_b,
            .storage = LS_F32,
            .result = LS_F32,
            .alpha = from->alpha,
            .beta = from->beta };
        LS_TRY(ls_cuda_gemm_new(device->libraries, &attr, own->plan.base.desc.layer, &b->gemm[p]));
        if (b->gemm[p]) grow(&own->library_bytes, ls_cuda_gemm_workspace(b->gemm[p]));
    }
    grow(&own->x_bytes, matrices * (size_t)small * (size_t)large);
    grow(&own->gram_bytes, matrices * (size_t)small * (size_t)small);
    grow(&own->parts_bytes, (size_t)b->count * LS_CUDA_MUON_PARTS * sizeof(double[2]));
    return LS_SUCCESS;
}

static ls_status upload(ls_cuda_device *device, const ls_cuda_muon_matrix *list, int count, ls_slab **out) {
    const size_t bytes = (size_t)count * sizeof *list;
    LS_TRY(ls_cuda_slab_new(&device->base, LS_MEMORY_DEVICE, bytes, "the optimizer's constants", out));
    cudaError_t rc = cudaMemcpy((*out)->address, list, bytes, cudaMemcpyHostToDevice);
    if (rc == cudaSuccess) rc = cudaStreamSynchronize(NULL); // queues do not wait for the default stream
    return rc == cudaSuccess ? LS_SUCCESS : ls_cuda_fail("copy of the optimizer's constants", rc);
}

static void free_parts(ls_plan *plan) {
    muon_plan *own = (muon_plan *)plan;
    for (int b = 0; b < own->batch_count; b++)
        for (int p = 0; p < PRODUCTS; p++) ls_cuda_gemm_free(own->batches[b].gemm[p]);
    free(own->batches);
    if (own->matrices) ls_cuda_slab_free(own->matrices);
}

static ls_status make(ls_cuda_device *device, muon_plan *own, ls_cuda_muon_matrix *list) {
    const int count = list_matrices(device, &own->plan.base.desc.attr.optimizer, list);
    own->batches = ls_new(count + 1, sizeof *own->batches, "Muon of %d matrices", count);
    cut_batches(own, list, count);
    for (int b = 0; b < own->batch_count; b++) LS_TRY(plan_batch(device, own, &own->batches[b]));
    own->plan.base.workspace_bytes = own->library_bytes + 2 * own->x_bytes + 2 * own->gram_bytes + own->parts_bytes +
                                     (size_t)count * sizeof(float[2]);
    if (own->batch_count && own->batches[0].gemm[GRAM]) own->plan.base.algorithm = "cublaslt";
    return upload(device, list, count, &own->matrices);
}

ls_status ls_cuda_muon_plan(ls_cuda_device *device, const ls_op_desc *desc, ls_plan **out) {
    ls_cuda_muon_matrix *list = ls_new(desc->attr.optimizer.segment_count, sizeof *list, "Muon's matrices");
    muon_plan *own = ls_cuda_plan_make(device, desc, sizeof *own, run_muon, "own kernel");
    own->plan.free_parts = free_parts;
    ls_status status = make(device, own, list);
    free(list);
    return LS_GIVE_OR_FREE(status, &own->plan.base, out, ls_cuda_plan_free);
}
