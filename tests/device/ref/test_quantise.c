// Fake quantisation on the reference device beside numbers worked out by hand: rounding with ties to even, clipping at
// both ends, and the gradient that passes inside the range only; the rounded weights, a scale for each output channel.
#include "device/op_harness.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

static ls_buffer buffer_of(const void *values, size_t count) {
    ls_slab *slab;
    assert_int_equal(
        ref->api->slab_new(ref, LS_MEMORY_DEVICE, count * sizeof(float), "an argument", &slab).code, LS_OK);
    if (values) memcpy(slab->address, values, count * sizeof(float));
    return ls_buffer_at(slab, 0, count * sizeof(float));
}

static void run_and_compare(ls_op_desc desc, ls_buffer *args, int out, const float *expected, size_t count) {
    ls_plan *plan;
    desc.layer = "by hand";
    assert_int_equal(ref->api->plan_new(ref, &desc, &plan).code, LS_OK);
    args[out] = buffer_of(NULL, count);
    ls_plan_run(plan, args, (ls_buffer){ 0 }, NULL);
    const float *got = ls_buffer_host(args[out]);
    for (size_t i = 0; i < count; i++)
        if (got[i] != expected[i] && !(isnan(got[i]) && isnan(expected[i])))
            fail_msg(
                "%s: element %zu is %.9g instead of %.9g", ls_op_name(desc.op), i, (double)got[i], (double)expected[i]);
    ref->api->plan_free(plan);
    for (int i = 0; i < ls_op_args(desc.op); i++) ref->api->slab_free(args[i].slab);
}

// Scale 0.5 and zero 100: q - zero runs from -228 to 27, and values from -114 to 13.5.
static const float scale = 0.5F, zero = 100;
static const float values[] = { 0, 0.24F, 0.25F, 0.26F, 0.75F, -0.25F, -0.75F, 13.5F, 13.74F, 13.75F, 14, 1e30F, -114,
    -114.25F, -114.3F, -INFINITY, NAN };
enum { VALUES = sizeof values / sizeof *values };

static void activations(void **unused) {
    (void)unused;
    static const float rounded[VALUES] = { 0, 0, 0, 0.5F, 1, 0, -1, 13.5F, 13.5F, 13.5F, 13.5F, 13.5F, -114, -114, -114,
        -114, NAN };
    const ls_op_desc desc = { .op = LS_OP_FAKE_QUANTISE, .attr.quantise.shape = { 1, VALUES, 1, 1 } };
    ls_buffer args[LS_FAKE_QUANTISE_ARGS] = { buffer_of(values, VALUES), buffer_of(&scale, 1), buffer_of(&zero, 1) };
    run_and_compare(desc, args, LS_FAKE_QUANTISE_DST, rounded, VALUES);
}

static void gradients(void **unused) {
    (void)unused;
    // 13.75 / 0.5 = 27.5 rounds to 28, which is outside; -114.25 / 0.5 = -228.5 rounds to -228, which is inside
    static const float passed[VALUES] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 13, 14, 0, 0, 0 };
    float grad[VALUES];
    for (int i = 0; i < VALUES; i++) grad[i] = (float)(i + 1);
    const ls_op_desc desc = { .op = LS_OP_FAKE_QUANTISE_BACKWARD, .attr.quantise.shape = { 1, VALUES, 1, 1 } };
    ls_buffer args[LS_FAKE_QUANTISE_BACKWARD_ARGS] = { buffer_of(values, VALUES), buffer_of(&scale, 1),
        buffer_of(&zero, 1), buffer_of(grad, VALUES) };
    run_and_compare(desc, args, LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC, passed, VALUES);
}

static void weights(void **unused) {
    (void)unused;
    // steps of 1/4, of 2, and a channel of zeros
    static const float weight[] = { 31.75F, -31.75F, 0.3F, 0.125F, 254, 1, -3, -100.5F, 0, 0, 0, 0 };
    static const float rounded[] = { 31.75F, -31.75F, 0.25F, 0, 254, 0, -4, -100, 0, 0, 0, 0 };
    const ls_op_desc desc = { .op = LS_OP_FAKE_QUANTISE_WEIGHT,
        .attr.quantise.param = { LS_PARAM_CONV, { 3, 1, 2, 2 }, 1 } };
    ls_buffer args[LS_FAKE_QUANTISE_WEIGHT_ARGS] = { buffer_of(weight, 12) };
    run_and_compare(desc, args, LS_FAKE_QUANTISE_WEIGHT_DST, rounded, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(activations), cmocka_unit_test(gradients),
        cmocka_unit_test(weights) };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
