// Batch norm with pooling on the reference device against what it stands for: the batch norm, then the pooling, with
// the activation in between stored. What follows from one rounding less is allowed, no more.
#include "device/op_harness.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

enum { SLABS_MAX = 32 };

typedef struct {
    const char *row;
    ls_slab *slabs[SLABS_MAX];
    int count;
    ls_norm_attr fused, norm;
    ls_pool_attr pool;
    op_case *c; // for its random numbers
} comparison;

static ls_buffer bytes_new(comparison *t, size_t bytes) {
    ls_slab **slab = &t->slabs[t->count++];
    assert_true(t->count <= SLABS_MAX);
    assert_int_equal(ref->api->slab_new(ref, LS_MEMORY_DEVICE, bytes, "a test's argument", slab).code, LS_OK);
    return ls_buffer_at(*slab, 0, bytes);
}

static ls_buffer zeros(comparison *t, int64_t count) { // fp32
    return bytes_new(t, (size_t)count * sizeof(float));
}

static ls_buffer steps(comparison *t, int64_t count) { // few different values
    ls_buffer buffer = zeros(t, count);
    float *values = ls_buffer_host(buffer);
    for (int64_t i = 0; i < count; i++) values[i] = floorf(4 * case_random(t->c)) / 4;
    return buffer;
}

static void run_op(comparison *t, ls_op op, const ls_buffer *args) {
    ls_op_desc desc = { .op = op, .layer = t->row };
    if (op == LS_OP_POOL_FORWARD || op == LS_OP_POOL_BACKWARD) {
        desc.attr.pool = t->pool;
    } else {
        desc.attr.norm = t->norm;
    }
    ls_plan *plan;
    ls_status status = ref->api->plan_new(ref, &desc, &plan);
    if (ls_failed(status)) fail_msg("%s: %s", t->row, status.text);
    ls_plan_run(plan, args, plan->workspace_bytes ? bytes_new(t, plan->workspace_bytes) : (ls_buffer){ 0 }, NULL);
    ref->api->plan_free(plan);
}

static void run_fused(comparison *t, ls_op op, const ls_buffer *args) {
    ls_norm_attr parts = t->norm;
    t->norm = t->fused;
    run_op(t, op, args);
    t->norm = parts;
}

static void same(
    const comparison *t, const char *what, ls_buffer got, ls_buffer expected, int64_t count, double allowed) {
    const float *a = ls_buffer_host(got), *b = ls_buffer_host(expected);
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        if (difference <= allowed * fmax(1, fabs((double)b[i]))) continue;
        fail_msg("%s: %s, element %lld: %.9g, but %.9g by batch norm and pooling", t->row, what, (long long)i,
            (double)a[i], (double)b[i]);
    }
}

static void same_index(const comparison *t, ls_buffer got, ls_buffer expected) {
    const uint8_t *a = ls_buffer_host(got), *b = ls_buffer_host(expected);
    for (size_t i = 0; i < got.bytes; i++) {
        if (a[i] != b[i])
            fail_msg("%s: index, element %zu: %d, but %d by batch norm and pooling", t->row, i, a[i], b[i]);
    }
}

enum { FUSED, PARTS, BOTH };

static void compare_row(comparison *t) {
    const ls_norm_attr *a = &t->fused;
    int64_t count = ls_nchw_count(a->shape), pooled = ls_nchw_count(a->pooled), c = a->shape.c;
    ls_buffer src = steps(t, count), residual = steps(t, count), gamma = steps(t, c), beta = steps(t, c);
    ls_buffer y = zeros(t, count), grad_y = zeros(t, count), grad = steps(t, pooled);
    ls_buffer saved[BOTH], dst[BOTH], index[BOTH], grad_src[BOTH], grad_residual[BOTH], grad_gamma[BOTH],
        grad_beta[BOTH];
    for (int k = 0; k < BOTH; k++) {
        saved[k] = zeros(t, 2 * c);
        dst[k] = zeros(t, pooled);
        index[k] = bytes_new(t, (size_t)pooled);
        grad_src[k] = zeros(t, count);
        grad_residual[k] = zeros(t, count);
        grad_gamma[k] = zeros(t, c);
        grad_beta[k] = zeros(t, c);
        ls_buffer forward[LS_NORM_FORWARD_ARGS] = { [LS_NORM_FORWARD_SRC] = src,
            [LS_NORM_FORWARD_RESIDUAL] = residual,
            [LS_NORM_FORWARD_GAMMA] = gamma,
            [LS_NORM_FORWARD_BETA] = beta,
            [LS_NORM_FORWARD_SAVED] = saved[k],
            [LS_NORM_FORWARD_DST] = k == FUSED ? dst[k] : y };
        ls_buffer backward[LS_NORM_BACKWARD_ARGS] = { [LS_NORM_BACKWARD_SRC] = src,
            [LS_NORM_BACKWARD_GRAD_DST] = k == FUSED ? grad : grad_y,
            [LS_NORM_BACKWARD_GAMMA] = gamma,
            [LS_NORM_BACKWARD_SAVED] = saved[k],
            [LS_NORM_BACKWARD_GRAD_SRC] = grad_src[k],
            [LS_NORM_BACKWARD_GRAD_RESIDUAL] = grad_residual[k],
            [LS_NORM_BACKWARD_GRAD_GAMMA] = grad_gamma[k],
            [LS_NORM_BACKWARD_GRAD_BETA] = grad_beta[k] };
        if (k == FUSED) {
            forward[LS_NORM_FORWARD_INDEX] = backward[LS_NORM_BACKWARD_INDEX] = index[k];
            run_fused(t, LS_OP_NORM_FORWARD, forward);
            run_fused(t, LS_OP_NORM_BACKWARD, backward);
            continue;
        }
        backward[LS_NORM_BACKWARD_DST] = y;
        run_op(t, LS_OP_NORM_FORWARD, forward);
        run_op(t, LS_OP_POOL_FORWARD, (ls_buffer[LS_POOL_FORWARD_ARGS]){ y, dst[k], index[k] });
        run_op(t, LS_OP_POOL_BACKWARD, (ls_buffer[LS_POOL_BACKWARD_ARGS]){ grad, index[k], grad_y });
        run_op(t, LS_OP_NORM_BACKWARD, backward);
    }
    same(t, "dst", dst[FUSED], dst[PARTS], pooled, 0);
    same_index(t, index[FUSED], index[PARTS]);
    same(t, "saved", saved[FUSED], saved[PARTS], 2 * c, 0);
    same(t, "grad_src", grad_src[FUSED], grad_src[PARTS], count, 4 * EPS32);
    if (a->residual) same(t, "grad_residual", grad_residual[FUSED], grad_residual[PARTS], count, 4 * EPS32);
    same(t, "grad_gamma", grad_gamma[FUSED], grad_gamma[PARTS], c, 16 * EPS32);
    same(t, "grad_beta", grad_beta[FUSED], grad_beta[PARTS], c, 16 * EPS32);
}

// Takes the attributes from the cases of the operator suite.
static void visit(void *context, op_case *c) {
    int *compared = context;
    if (c->desc.op != LS_OP_NORM_BACKWARD || c->desc.attr.norm.two_grads) return;
    comparison t = { .row = c->desc.layer, .fused = c->desc.attr.norm, .norm = c->desc.attr.norm, .c = c };
    t.norm.pool_kernel = 0;
    t.pool = (ls_pool_attr){ .kind = LS_POOL_MAX,
        .src = t.fused.shape,
        .dst = t.fused.pooled,
        .kernel_h = t.fused.pool_kernel,
        .kernel_w = t.fused.pool_kernel,
        .stride_h = t.fused.pool_stride,
        .stride_w = t.fused.pool_stride,
        .pad_h = t.fused.pool_pad,
        .pad_w = t.fused.pool_pad,
        .relu = 1,
        .training = 1,
        .storage = LS_F32 };
    compare_row(&t);
    for (int i = 0; i < t.count; i++) ref->api->slab_free(t.slabs[i]);
    ++*compared;
}

static void fused_is_batch_norm_and_pooling(void **unused) {
    (void)unused;
    int compared = 0;
    norm_pool_cases(LS_F32, visit, &compared);
    assert_true(compared >= 20);
}

static void the_cpu_device_refuses_what_it_has_not(void **unused) {
    (void)unused;
    ls_device *cpu;
    ls_plan *plan;
    ls_op_desc desc = { .op = LS_OP_NORM_FORWARD,
        .layer = "bn1",
        .attr.norm = { .shape = { 2, 8, 4, 4 },
            .eps = 1e-5F,
            .activation = LS_ACTIVATION_RELU,
            .pool_kernel = 2,
            .pool_stride = 2,
            .pooled = { 2, 8, 2, 2 } } };
    static const struct {
        int stride, pad, h;
        const char *what;
    } others[] = { { 1, 0, 4, "stride 1" }, { 2, 1, 4, "padded" }, { 2, 0, 5, "a row left over" } };
    assert_int_equal(ls_device_open("cpu", &(ls_device_options){ .threads = 1 }, &cpu, NULL).code, LS_OK);
    assert_int_equal(cpu->api->fusions & LS_FUSES_NORM_POOL, 0);
    assert_int_equal(cpu->api->plan_new(cpu, &desc, &plan).code, LS_OK);
    cpu->api->plan_free(plan);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ls_norm_attr *a = &desc.attr.norm;
        a->shape.h = others[i].h, a->pool_stride = others[i].stride, a->pool_pad = others[i].pad;
        a->pooled.h = (a->shape.h + 2 * a->pool_pad - 2) / a->pool_stride + 1;
        a->pooled.w = (a->shape.w + 2 * a->pool_pad - 2) / a->pool_stride + 1;
        const ls_status status = cpu->api->plan_new(cpu, &desc, &plan);
        if (status.code != LS_INTERNAL ||
            !strstr(status.text, "layer bn1: the cpu device pools in a batch norm only with"))
            fail_msg("%s: code %d, %s", others[i].what, status.code, status.text);
    }
    desc.attr.norm = (ls_norm_attr){
        .shape = { 2, 8, 4, 4 }, .eps = 1e-5F, .activation = LS_ACTIVATION_RELU, .residual = 1, .adds_last = 1
    };
    assert_int_equal(cpu->api->fusions & LS_FUSES_RELU_ADD, 0);
    const ls_status status = cpu->api->plan_new(cpu, &desc, &plan);
    assert_int_equal(status.code, LS_INTERNAL);
    assert_non_null(strstr(status.text, "layer bn1: the cpu device has no batch norm that adds last"));
    ls_device_close(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_is_batch_norm_and_pooling),
        cmocka_unit_test(the_cpu_device_refuses_what_it_has_not),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
