// The operators of an update on the reference device: optimizers against PyTorch, the decision of an update as a state
// machine, fixed-point sums in any order.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

// Runs an operator on plain host memory, which is what the reference device works on; NULL is an absent argument.
static void run(const ls_op_desc *desc, void *const *memory) {
    ls_slab slabs[LS_OP_ARGS_MAX];
    ls_buffer args[LS_OP_ARGS_MAX] = { { 0 } };
    ls_plan *plan;
    for (int i = 0; i < ls_op_args(desc->op); i++) {
        if (!memory[i]) continue;
        slabs[i] = (ls_slab){ .device = ref, .host_visible = 1, .address = memory[i], .bytes = SIZE_MAX };
        args[i] = ls_buffer_at(&slabs[i], 0, SIZE_MAX);
    }
    ls_status status = ref->api->plan_new(ref, desc, &plan);
    if (ls_failed(status)) fail_msg("%s", status.text);
    static double workspace[64];
    ls_slab room = { .device = ref, .host_visible = 1, .address = (char *)workspace, .bytes = sizeof workspace };
    assert_true(plan->workspace_bytes <= sizeof workspace);
    ls_plan_run(plan, args, ls_buffer_at(&room, 0, sizeof workspace), NULL);
    ref->api->plan_free(plan);
}

static void expect_near(const char *name, int update, int element, double got, double expected, double allowed) {
    if (!(fabs(got - expected) <= allowed)) {
        fail_msg("%s: update %d, element %d: %.9g, expected %.9g", name, update, element, got, expected);
    }
}

// w = torch.nn.Parameter(torch.tensor([0.5, -1.25, 2.0], dtype=torch.double))
// o = torch.optim.SGD([w], lr=0.1, momentum=..., nesterov=..., weight_decay=...)
// for s in range(3):
//     w.grad = torch.tensor([0.25, -0.5, 1.0], dtype=torch.double) * (s + 1); o.step(); print(w.tolist())
static const struct {
    const char *name;
    float momentum, decay;
    int nesterov;
    double weight[3][3]; // after each update
} sgd_rows[] = {
    { "momentum", 0.9F, 0, 0, { { 0.475, -1.2, 1.9 }, { 0.4025, -1.055, 1.61 }, { 0.26225, -0.7745, 1.049 } } },
    { "nesterov, decay", 0.9F, 0.01F, 1,
        { { 0.45155, -1.152625, 1.8062 }, { 0.335037055, -0.9189225125, 1.34014822 },
            { 0.13244522909549997, -0.51288168347625, 0.5297809163819999 } } },
    { "decay alone", 0, 0.1F, 0,
        { { 0.47, -1.1875, 1.88 }, { 0.4153, -1.075625, 1.6612 }, { 0.336147, -0.91486875, 1.344588 } } },
};

static void sgd_is_pytorchs(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof sgd_rows / sizeof *sgd_rows; i++) {
        // the rate is 0.2 * 0.5; gradients come 1024 times too large;
        // the velocity before the first update must not matter
        float weight[3] = { 0.5F, -1.25F, 2.0F }, velocity[3] = { 7, NAN, 9 };
        ls_train_state state = { .loss_scale = 1024, .lr = { 0.2F }, .multiplier = 1.0F / 1024 };
        ls_op_desc desc = { .op = LS_OP_SGD,
            .layer = "sgd",
            .attr.optimizer = { .count = 3,
                .segments = &(ls_step_segment){ 3, 0.5F, sgd_rows[i].decay, sgd_rows[i].momentum, 0, NULL, 0, 1 },
                .segment_count = 1,
                .nesterov = sgd_rows[i].nesterov } };
        for (int s = 0; s < 3; s++) {
            float grad[3] = { 256.0F * (float)(s + 1), -512.0F * (float)(s + 1), 1024.0F * (float)(s + 1) };
            float before[3];
            state.applied = s + 1;
            memcpy(before, weight, sizeof before);
            state.skip = 1; // a skipped update leaves everything as it is
            float kept[3];
            memcpy(kept, velocity, sizeof kept);
            run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, velocity, weight, NULL });
            assert_memory_equal(before, weight, sizeof before);
            assert_memory_equal(kept, velocity, sizeof kept);
            state.skip = 0;
            run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, velocity, weight, NULL });
            // each update rounds a value of at most 2 and its velocity to fp32; 0.1, 0.01 and 0.9 are rounded, too
            for (int k = 0; k < 3; k++)
                expect_near(sgd_rows[i].name, s, k, (double)weight[k], sgd_rows[i].weight[s][k], 1e-6);
        }
    }
}

// o = torch.optim.AdamW([w], lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
// for s in range(3):
//     w.grad = torch.tensor([0.25, -0.5, 1.0], dtype=torch.double) * (s + 1)**2; o.step(); print(w.tolist())
static const double adamw_weight[3][3] = {
    { 0.48950000039999997, -1.2387500002, 1.9880000001 },
    { 0.4801667356151488, -1.2286674853546944, 1.9771682352244673 },
    { 0.4710323121259986, -1.2187845610855335, 1.966536810190301 },
};

static void adamw_is_pytorchs(void **unused) {
    (void)unused;
    float weight[3] = { 0.5F, -1.25F, 2.0F }, moment1[3] = { 0 }, moment2[3] = { 0 };
    uint16_t copy[3] = { 0 };
    ls_train_state state = { .loss_scale = 1, .lr = { 0.01F }, .multiplier = 0.5F };
    ls_op_desc desc = { .op = LS_OP_ADAMW,
        .layer = "adamw",
        .attr.optimizer = { .count = 3,
            .segments = &(ls_step_segment){ 3, 1, 0.1F, 0, 0, NULL, 0, 1 },
            .segment_count = 1,
            .beta1 = 0.9F,
            .beta2 = 0.999F,
            .eps = 1e-8F,
            .storage = LS_BF16 } };
    for (int s = 0; s < 3; s++) {
        float size = 2 * (float)((s + 1) * (s + 1)), grad[3] = { 0.25F * size, -0.5F * size, size };
        state.applied = s + 1;
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, moment1, moment2, weight, copy });
        for (int k = 0; k < 3; k++) {
            // 0.999 in fp32 is off by 1e-8, so 1 - 0.999^t, near 0.001, is off by a 1e-5th,
            // and the step of 0.01 by half of that
            expect_near("adamw", s, k, (double)weight[k], adamw_weight[s][k], 3e-7);
            assert_int_equal(copy[k], ls_bf16_from_float(weight[k]));
        }
    }
}

// w = torch.nn.Parameter(torch.tensor([0.5, -1.25, 2.0], dtype=torch.double))
// o = torch.optim.SGD([w], lr=0.1, momentum=0.9, nesterov=True)
// for s in range(3):
//     g, n = torch.tensor([0.25, -0.5, 1.0], dtype=torch.double) * (s + 1)**2, w.detach().norm()
//     t = 0.02*n/(g.norm() + 0.01*n + 1e-8); w.grad = t*(g + 0.01*w.detach()); o.step(); print(w.tolist())
static const double lars_weight[3][3] = {
    { 0.4980028482288651, -1.2459861165384054, 1.9920113929154604 },
    { 0.49516031632338664, -1.2402877527668592, 1.9806412652935466 },
    { 0.4915645543135053, -1.233084409220482, 1.9662582172540213 },
};

static void lars_is_sgd_by_its_trust(void **unused) {
    (void)unused;
    float weight[3] = { 0.5F, -1.25F, 2.0F }, momentum[3] = { 0 };
    ls_train_state state = { .loss_scale = 1, .lr = { 0.1F }, .multiplier = 0.5F };
    ls_op_desc desc = { .op = LS_OP_LARS,
        .layer = "lars",
        .attr.optimizer = { .count = 3,
            .segments = &(ls_step_segment){ 3, 1, 0.01F, 0.9F, 0, NULL, 0, 1 },
            .segment_count = 1,
            .nesterov = 1,
            .eps = 1e-8F,
            .trust = 0.02F } };
    for (int s = 0; s < 3; s++) {
        float size = 2 * (float)((s + 1) * (s + 1)), grad[3] = { 0.25F * size, -0.5F * size, size };
        state.applied = s + 1;
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, momentum, weight, NULL });
        for (int k = 0; k < 3; k++) expect_near("lars", s, k, (double)weight[k], lars_weight[s][k], 3e-7);
    }
    const float zero[3] = { 0 }; // a gradient of nothing leaves the momentum alone, without a norm to divide by
    float still[3] = { 0 };
    memcpy(still, weight, sizeof still);
    memset(momentum, 0, sizeof momentum);
    desc.attr.optimizer.segments = &(ls_step_segment){ 3, 1, 0, 0.9F, 0, NULL, 0, 1 };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, (void *)(uintptr_t)zero, momentum, weight, NULL });
    assert_memory_equal(still, weight, sizeof still);
}

// X = u/(u.norm() + 1e-7); three times A = X @ X.T, X = a*X + (b*A + c*A@A) @ X; m = 0.6*m + g, u = g + 0.6*m; in the second
// update w *= 2**.5/w.norm() first; w = w*(1 - 0.1*0.05) - 0.1*X; in torch.double, by torch's own products
static const double muon_weight[3][6] = {
    { 0.47884688021505034, -1.2050422038756645, 1.9109492584378207, 1.07498511259847, 0.706607832839374,
        -0.5585984000544477 },
    { 0.2321668706930781, -0.5917468408752479, 0.9059489597656093, 0.6318209615499261, 0.3404600583923904,
        -0.3461258954930329 },
    { 0.21360647754157386, -0.5544973094207232, 0.8120631986496234, 0.6972991738260877, 0.3149618123947034,
        -0.3954132544339309 },
};

static void muon_is_torchs(void **unused) {
    (void)unused;
    float weight[6] = { 0.5F, -1.25F, 2.0F, 1.0F, 0.75F, -0.5F }, momentum[6] = { NAN };
    uint16_t copy[6] = { 0 };
    const ls_param_shape shape = { LS_PARAM_LINEAR, { 2, 3, 1, 1 }, 1 };
    ls_train_state state = { .loss_scale = 1, .lr = { 7, 0.2F }, .multiplier = 0.5F };
    const ls_step_segment segment = { 6, 0.5F, 0.05F, 0.6F, 1, &shape, 0, 1 };
    ls_op_desc desc = { .op = LS_OP_MUON,
        .layer = "muon",
        .attr.optimizer = { .count = 6,
            .segments = &segment,
            .segment_count = 1,
            .nesterov = 1,
            .ns_steps = 3,
            .ns = { 3.4445F, -4.7750F, 2.0315F },
            .storage = LS_BF16 } };
    for (int s = 0; s < 3; s++) {
        float grad[6] = { 0.25F, -0.5F, 1.0F, -1.0F, 0.5F, 0.75F };
        for (int k = 0; k < 6; k++) grad[k] *= 2 * (float)(s + 1);
        grad[2] += (float)s;
        grad[4] -= 0.5F * (float)s;
        state.applied = s + 1;
        state.renormalise = s == 1;
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, momentum, weight, copy });
        for (int k = 0; k < 6;
             k++) { // momentum and weight are rounded to fp32, and so are 0.6, 0.05 and the coefficients
            expect_near("muon", s, k, (double)weight[k], muon_weight[s][k], 1e-6);
            assert_int_equal(copy[k], ls_bf16_from_float(weight[k]));
        }
    }
}

// Algorithm 2 of Chen et al. 2023 in double: c = beta1 m + (1 - beta1) g; w -= lr (sign(c) + decay w); m = beta2 m + (1 - beta2) g.
// The first element's sign turns when its gradient does, the second's stays for the momentum, the third has no gradient.
static void lion_is_the_papers(void **unused) {
    (void)unused;
    static const double gradient[4][3] = { { 1, 0.5, 0 }, { 2, 1, 0 }, { -4, -0.005, 0 }, { -4, -0.005, 0 } };
    float weight[3] = { 0.5F, -1.25F, 2.0F }, momentum[3] = { 0 };
    double w[3] = { 0.5, -1.25, 2 }, m[3] = { 0 };
    uint16_t copy[3] = { 0 };
    ls_train_state state = { .loss_scale = 1, .lr = { 0.01F }, .multiplier = 0.5F };
    ls_op_desc desc = { .op = LS_OP_LION,
        .layer = "lion",
        .attr.optimizer = { .count = 3,
            .segments = &(ls_step_segment){ 3, 1, 0.1F, 0, 0, NULL, 0, 1 },
            .segment_count = 1,
            .beta1 = 0.9F,
            .beta2 = 0.99F,
            .storage = LS_BF16 } };
    int turned = 0, held = 0;
    for (int s = 0; s < 4; s++) {
        float grad[3];
        for (int k = 0; k < 3; k++) {
            const double g = gradient[s][k], c = 0.9 * m[k] + 0.1 * g;
            grad[k] = 2 * (float)g; // the multiplier halves it
            w[k] -= 0.01 * ((c > 0 ? 1 : c < 0 ? -1 : 0) + 0.1 * w[k]);
            m[k] = 0.99 * m[k] + 0.01 * g;
            turned += g < 0 && c < 0;
            held += g < 0 && c > 0;
        }
        state.applied = s + 1;
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &state, grad, momentum, weight, copy });
        for (int k = 0; k < 3; k++) {
            expect_near("lion", s, k, (double)weight[k], w[k], 3e-7);
            expect_near("lion's momentum", s, k, (double)momentum[k], m[k], 3e-7);
            assert_int_equal(copy[k], ls_bf16_from_float(weight[k]));
        }
    }
    assert_true(turned >= 2 && held >= 2);
}

// --- control: a sequence of updates, each with what must stand in the state after it -------------

typedef struct {
    float norm, bad; // of the reduced gradient: its norm, and an element beside that
    int bad_gradient;
    float multiplier, grad_norm;
    float loss_scale; // afterwards
    int applied, skipped, finite_in_row, skipped_in_row;
} control_step;

static const ls_step_control_attr control_attr = { .count = 80,
    .clip_norm = 0.5F,
    .dynamic = 1,
    .growth = 2,
    .backoff = 0.25F,
    .minimum = 1,
    .maximum = 64,
    .growth_interval = 3,
    .max_skips = 5 };

// Starts at a scale of 32; 4 samples in the window: the multiplier without clipping is 1/(4 * scale).
static const control_step control_steps[] = {
    { 64, 0, 0, 1 / 128.0F, 0.5F, 32, 1, 0, 1, 0 },  // norm 64/128 = 0.5: not clipped (to 1e-6)
    { 128, 0, 0, 0.5F / 128.0F, 1, 32, 2, 0, 2, 0 }, // norm 1: clipped to a half
    { 0, 0, 0, 1 / 128.0F, 0, 64, 3, 0, 0, 0 },      // third finite one in a row: grows
    { 0, 0, 0, 1 / 256.0F, 0, 64, 4, 0, 1, 0 },      // the new scale
    { 0, 0, 0, 1 / 256.0F, 0, 64, 5, 0, 2, 0 },
    { 0, 0, 0, 1 / 256.0F, 0, 64, 6, 0, 0, 0 }, // grows, but not above the ceiling
    { 0, 0, 0, 1 / 256.0F, 0, 64, 7, 0, 1, 0 },
    { 0, -INFINITY, 0, 0, 0, 16, 7, 1, 0, 1 },                              // overflow: backs off, not applied
    { 0, 0, 1, 0, 0, 4, 7, 2, 0, 2 },                                       // fixed point out of range: the same
    { 0, NAN, 0, 0, 0, 1, 7, 3, 0, 3 }, { 0, NAN, 0, 0, 0, 1, 7, 4, 0, 4 }, // the floor
    { 2, 0, 0, 0.25F, 0.5F, 1, 8, 4, 1, 0 },                                // finite again
};

static void control_decides(void **unused) {
    (void)unused;
    ls_train_state state = { .loss_scale = 32 };
    ls_op_desc desc = { .op = LS_OP_STEP_CONTROL, .layer = "control", .attr.step_control = control_attr };
    for (int i = 0; i < (int)(sizeof control_steps / sizeof *control_steps); i++) {
        const control_step *s = &control_steps[i];
        ls_update_input window = {
            .samples = 4, .micro_batches = 2, .lr = { 0.125F * (float)(i + 1) }, .update = (uint32_t)i
        };
        float grad[80] = { [3] = s->norm, [77] = s->bad };
        state.bad_gradient = s->bad_gradient;
        int at_floor = state.loss_scale <= control_attr.minimum;
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &window, grad, &state });
        int skip = !isfinite(s->bad) || s->bad_gradient;
        assert_int_equal(state.skip, skip);
        assert_int_equal(state.bad_gradient, 0);
        assert_int_equal(state.bad_element, !isfinite(s->bad) ? 77 : s->bad_gradient - 1);
        assert_int_equal(state.halted, skip && at_floor && state.skipped_in_row > 1);
        state.halted = 0;
        expect_near("applied", i, 0, (double)state.applied, s->applied, 0);
        expect_near("skipped", i, 0, (double)state.skipped, s->skipped, 0);
        expect_near("finite_in_row", i, 0, state.finite_in_row, s->finite_in_row, 0);
        expect_near("skipped_in_row", i, 0, state.skipped_in_row, s->skipped_in_row, 0);
        expect_near("loss_scale", i, 0, (double)state.loss_scale, (double)s->loss_scale, 0);
        expect_near("lr", i, 0, (double)state.lr[0], (double)window.lr[0], 0);
        if (skip) continue;
        // the 1e-6 beside the norm, and no more
        expect_near(
            "multiplier", i, 0, (double)state.multiplier, (double)s->multiplier, 2.1e-6 * (double)s->multiplier);
        expect_near("grad_norm", i, 0, (double)state.grad_norm, (double)s->grad_norm, 0);
    }
}

static void a_fixed_loss_scale_stays_and_a_skip_ends_the_run(void **unused) {
    (void)unused;
    ls_train_state state = { .loss_scale = 8 };
    ls_update_input window = { .samples = 1, .micro_batches = 1, .lr = { 1 } };
    ls_op_desc desc = { .op = LS_OP_STEP_CONTROL, .layer = "control", .attr.step_control = { .count = 7 } };
    for (int i = 0; i < 5; i++) {
        float grad[7] = { 0, -8, [5] = i == 2 ? NAN : 0 };
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &window, grad, &state });
        assert_int_equal(state.skip, i >= 2); // halted: no later update changes anything
        assert_int_equal(state.halted, i >= 2);
        assert_int_equal(state.bad_element, i >= 2 ? 5 : -1);
        assert_true(state.loss_scale == 8 && state.finite_in_row == 0);
        if (i < 2) assert_true(state.grad_norm == 1 && state.multiplier == 0.125F);
    }
    assert_int_equal(state.applied, 2);
    assert_int_equal(state.skipped, 1);
}

// --- fixed point ---------------------------------------------------------------------------------

enum { ELEMENTS = 200, GRADIENTS = 16 };

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static void fix(float *grad, ls_train_state *state, int64_t *fixed, int count, int bits) {
    ls_op_desc desc = {
        .op = LS_OP_TO_FIXED_POINT, .layer = "fix", .attr.flat = { .count = count, .fraction_bits = bits }
    };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ grad, state, fixed });
}

static void fixed_sums_do_not_depend_on_the_order(void **unused) {
    (void)unused;
    static float grads[GRADIENTS][ELEMENTS];
    static int64_t first[ELEMENTS], fixed[ELEMENTS];
    static float unfixed[ELEMENTS];
    uint32_t random = 1;
    int order[GRADIENTS];
    for (int g = 0; g < GRADIENTS; g++) {
        order[g] = g;
        for (int i = 0; i < ELEMENTS;
             i++) { // sizes over 24 powers of two, so that sums of floats would depend on the order
            float size = ldexpf(1, (int)(next_random(&random) % 24) - 12);
            grads[g][i] = size * ((float)next_random(&random) / 0x1p23F - 1);
        }
    }
    ls_train_state state = { .loss_scale = 48 };
    for (int round = 0; round < 20; round++) {
        memset(fixed, 0, sizeof fixed);
        for (int g = 0; g < GRADIENTS; g++) fix(grads[order[g]], &state, fixed, ELEMENTS, 30);
        if (round == 0) memcpy(first, fixed, sizeof first);
        assert_memory_equal(first, fixed, sizeof fixed);
        for (int g = GRADIENTS; g-- > 1;) {
            int other = (int)(next_random(&random) % (uint32_t)(g + 1)), swap = order[g];
            order[g] = order[other];
            order[other] = swap;
        }
    }
    assert_int_equal(state.bad_gradient, 0);
    ls_op_desc unfix = {
        .op = LS_OP_FROM_FIXED_POINT, .layer = "unfix", .attr.flat = { .count = ELEMENTS, .fraction_bits = 30 }
    };
    run(&unfix, (void *[]){ fixed, &state, unfixed });
    for (int i = 0; i < ELEMENTS; i++) {
        double sum = 0;
        for (int g = 0; g < GRADIENTS; g++) sum += (double)grads[g][i];
        // each gradient was rounded to half a unit of 48/2^30, and the result to fp32
        expect_near("unfix", 0, i, (double)unfixed[i], sum, GRADIENTS * 24 * 0x1p-30 + fabs(sum) * 0x1p-24);
    }
}

static const struct {
    const char *name;
    float grad;
    int bits;
    int64_t fixed; // what is added
    int bad;
} fix_rows[] = {
    { "to even, down", 0.5F, 0, 0, 0 },
    { "to even, up", 1.5F, 0, 2, 0 },
    { "negative, to even", -2.5F, 0, -2, 0 },
    { "scaled", 3.0F, 4, 48, 0 },
    { "largest", 0x1.fffffep+49F, 0, ((int64_t)1 << 50) - ((int64_t)1 << 26), 0 },
    { "at the limit", 0x1p+50F, 0, 0, 1 },
    { "at the limit, negative", -0x1p+20F, 30, 0, 1 },
    { "infinite", INFINITY, 10, 0, 1 },
    { "not a number", NAN, 10, 0, 1 },
};

static void fixed_point_of_single_values(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof fix_rows / sizeof *fix_rows; i++) {
        ls_train_state state = { .loss_scale = 1 };
        float grad = fix_rows[i].grad;
        int64_t fixed = 5, expected = fix_rows[i].fixed;
        fix(&grad, &state, &fixed, 1, fix_rows[i].bits);
        if (fixed != 5 + expected) fail_msg("%s: added %lld", fix_rows[i].name, (long long)fixed - 5);
        assert_int_equal(state.bad_gradient, fix_rows[i].bad);
    }
    ls_train_state state = { .loss_scale = 4 };
    float grad = 3;
    int64_t fixed = 0;
    ls_op_desc desc = {
        .op = LS_OP_TO_FIXED_POINT, .layer = "fix", .attr.flat = { .count = 1, .fraction_bits = 4, .unscaled = 1 }
    };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ &grad, &state, &fixed });
    assert_int_equal(fixed, 48); // not divided by the loss scale
}

// --- 16 bits -------------------------------------------------------------------------------------

static const struct {
    ls_dtype storage;
    float value;
    uint16_t bits;
} cast_rows[] = {
    { LS_F16, 65504.0F, 0x7bff },
    { LS_F16, 65519.0F, 0x7bff }, // rounds down to the largest
    { LS_F16, 65520.0F, 0x7c00 }, // halfway to 2^16: overflows to infinity
    { LS_F16, -1e6F, 0xfc00 },
    { LS_F16, 0x1p-24F, 0x0001 },     // the smallest
    { LS_F16, 0x1p-25F, 0x0000 },     // halfway, to even
    { LS_BF16, 1.00390625F, 0x3f80 }, // halfway, to even
    { LS_BF16, 3.4e38F, 0x7f80 },
    { LS_BF16, -2.5F, 0xc020 },
};

static void cast_rounds_to_nearest_even_and_overflows_to_infinity(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof cast_rows / sizeof *cast_rows; i++) {
        float src = cast_rows[i].value;
        uint16_t dst = 0xffff;
        ls_op_desc desc = {
            .op = LS_OP_CAST, .layer = "cast", .attr.flat = { .count = 1, .storage = cast_rows[i].storage }
        };
        run(&desc, (void *[LS_OP_ARGS_MAX]){ &src, &dst });
        if (dst != cast_rows[i].bits) fail_msg("row %zu: 0x%04x, expected 0x%04x", i, dst, cast_rows[i].bits);
    }
}

// A loss scale that is too large must show in the stored gradient, or no overflow would ever be seen.
static void fp16_gradients_overflow_to_infinity(void **unused) {
    (void)unused;
    uint16_t logits[4] = { ls_f16_from_float(3), ls_f16_from_float(-3), 0, 0 }, grad[4];
    int32_t labels[2] = { 1, 0 };
    ls_micro_input micro = { .count = 2 };
    ls_train_state state = { .loss_scale = 131072 };
    ls_micro_result result = { 0 };
    ls_op_desc desc = { .op = LS_OP_LOSS, .layer = "loss", .attr.loss = { { 2, 2, 1, 1 }, 0, 1, LS_F16, 0 } };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ logits, labels, &micro, &state, &result, grad });
    assert_int_equal(grad[0], 0x7c00); // 0.9975 * 131072 is infinite in fp16
    assert_int_equal(grad[1], 0xfc00);
    assert_int_equal(grad[2], 0xfc00); // -0.5 * 131072 = -65536, too
    assert_int_equal(grad[3], 0x7c00);
    assert_int_equal(result.bad, 0); // the loss itself is finite
}

// torch 2: (cross_entropy(logits.float(), labels, reduction="sum") / 100 * 65536).backward(), as GradScaler scales the mean
// over a batch of 100; logits.grad is fp16.
static void fp16_gradients_are_gradscalers(void **unused) {
    (void)unused;
    static const float values[6] = { 1, -2.5F, 0.25F, 3, 3.5F, -8 };
    static const float expected[6] = { 436.25F, 13.171875F, -449.25F, -408, 408, 0.004131317138671875F };
    uint16_t logits[6], grad[6];
    for (int i = 0; i < 6; i++) logits[i] = ls_f16_from_float(values[i]);
    int32_t labels[2] = { 2, 0 };
    ls_micro_input micro = { .count = 2 };
    ls_train_state state = { .loss_scale = 65536 };
    ls_micro_result result = { 0 };
    ls_op_desc desc = { .op = LS_OP_LOSS,
        .layer = "loss",
        .attr.loss = { .logits = { 2, 3, 1, 1 }, .training = 1, .storage = LS_F16, .mean_of = 100 } };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ logits, labels, &micro, &state, &result, grad });
    for (int i = 0; i < 6; i++)
        expect_near("gradient", i, 0, (double)ls_load_float(grad, LS_F16, i), (double)expected[i],
            0x1p-10 * fabs((double)expected[i]));
    // the update then sees the gradient of the mean
    ls_update_input window = { .samples = 100, .micro_batches = 1, .lr = { 1 } };
    float sum[1] = { 65536 };
    desc = (ls_op_desc){
        .op = LS_OP_STEP_CONTROL, .layer = "control", .attr.step_control = { .count = 1, .mean_of = 100 }
    };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ &window, sum, &state });
    expect_near("multiplier", 0, 0, (double)state.multiplier, 1 / 65536.0, 1e-12);
    expect_near("grad_norm", 0, 0, (double)state.grad_norm, 1, 1e-6);
}

static void a_loss_that_is_not_finite_is_counted(void **unused) {
    (void)unused;
    float logits[9] = { 0, NAN, 1, 5, 1, 1, INFINITY, 0, 0 }, grad[9];
    int32_t labels[3] = { 0, 0, 1 };
    ls_micro_input micro = { .count = 3 };
    ls_train_state state = { .loss_scale = 1 };
    ls_micro_result result = { 0 };
    ls_op_desc desc = { .op = LS_OP_LOSS, .layer = "loss", .attr.loss = { { 3, 3, 1, 1 }, 0, 1, LS_F32, 0 } };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ logits, labels, &micro, &state, &result, grad });
    assert_int_equal(result.bad, 2);
    assert_int_equal(result.count, 3);
}

// Softmax gives 0 for the label, and 0 - 1 is a number: it must not be applied, on any rank.
static void an_infinite_loss_has_no_gradient(void **unused) {
    (void)unused;
    float logits[6] = { 1, -INFINITY, 2, 5, 1, 1 }, grad[6];
    int32_t labels[2] = { 1, 0 };
    ls_micro_input micro = { .count = 2 };
    ls_train_state state = { .loss_scale = 1 };
    ls_micro_result result = { 0 };
    ls_op_desc desc = { .op = LS_OP_LOSS, .layer = "loss", .attr.loss = { { 2, 3, 1, 1 }, 0, 1, LS_F32, 0 } };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ logits, labels, &micro, &state, &result, grad });
    assert_int_equal(result.bad, 1);
    for (int i = 0; i < 6; i++) assert_int_equal(isnan(grad[i]) != 0, i < 3);
}

static void the_lowest_class_wins_a_tie(void **unused) {
    (void)unused;
    float logits[6] = { 1, 2, 2, 3, 1, 3 };
    int32_t labels[2] = { 1, 0 };
    ls_micro_input micro = { .count = 2 };
    ls_train_state state = { .loss_scale = 1 };
    ls_micro_result result = { 0 };
    ls_op_desc desc = { .op = LS_OP_LOSS, .layer = "loss", .attr.loss = { { 2, 3, 1, 1 }, 0, 0, LS_F32, 0 } };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ logits, labels, &micro, &state, &result, NULL });
    assert_int_equal(result.correct, 2);
}

// multiplier = clip / (norm + 1e-6): where the norm is small itself, the 1e-6 shows
static void clipping_adds_to_the_norm(void **unused) {
    (void)unused;
    ls_train_state state = { .loss_scale = 1 };
    ls_update_input window = { .samples = 1, .micro_batches = 1, .lr = { 1 } };
    float grad[1] = { 1e-6F };
    ls_op_desc desc = {
        .op = LS_OP_STEP_CONTROL, .layer = "control", .attr.step_control = { .count = 1, .clip_norm = 1e-6F }
    };
    run(&desc, (void *[LS_OP_ARGS_MAX]){ &window, grad, &state });
    expect_near("multiplier", 0, 0, (double)state.multiplier, 0.5, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_pytorchs),
        cmocka_unit_test(adamw_is_pytorchs),
        cmocka_unit_test(lion_is_the_papers),
        cmocka_unit_test(lars_is_sgd_by_its_trust),
        cmocka_unit_test(muon_is_torchs),
        cmocka_unit_test(control_decides),
        cmocka_unit_test(a_fixed_loss_scale_stays_and_a_skip_ends_the_run),
        cmocka_unit_test(fixed_sums_do_not_depend_on_the_order),
        cmocka_unit_test(fixed_point_of_single_values),
        cmocka_unit_test(cast_rounds_to_nearest_even_and_overflows_to_infinity),
        cmocka_unit_test(fp16_gradients_overflow_to_infinity),
        cmocka_unit_test(fp16_gradients_are_gradscalers),
        cmocka_unit_test(a_loss_that_is_not_finite_is_counted),
        cmocka_unit_test(an_infinite_loss_has_no_gradient),
        cmocka_unit_test(the_lowest_class_wins_a_tie),
        cmocka_unit_test(clipping_adds_to_the_norm),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
