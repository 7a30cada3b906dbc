// The compiler: what is fused, in what order gradients complete, and that the gradients of whole networks are right.
#include <math.h>
#include "program/fixture.h"

// Every kind of layer, with the branches that fusion and the sums of gradients have to get right: a value read three
// times, an identity residual, a projected one, an add without relu, relu into pooling, relu alone and beside another
// reader, a pooled map that two convolutions read, dropout, scale.
static const char network[] =
    "[network]\ninput = 3x8x8\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
    "[c2]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, r1\n[r2]\nlayer = relu\n"
    "[c3]\nlayer = conv2d\nout_channels = 12\nkernel = 3\nstride = 2\npadding = 1\n"
    "[n3]\nlayer = batchnorm2d\n"
    "[s3]\nlayer = conv2d\ninputs = r2\nout_channels = 12\nkernel = 1\nstride = 2\n"
    "[m3]\nlayer = batchnorm2d\n[a3]\nlayer = add\ninputs = n3, m3\n"
    "[c4]\nlayer = conv2d\nout_channels = 12\nkernel = 3\npadding = 1\n"
    "[a4]\nlayer = add\ninputs = c4, a3\n[b4]\nlayer = add\ninputs = a4, a3\n[r4]\nlayer = relu\n"
    "[p4]\nlayer = maxpool2d\nkernel = 2\n"
    "[c5]\nlayer = conv2d\nout_channels = 10\nkernel = 3\npadding = 1\n[r5]\nlayer = relu\n"
    "[a5]\nlayer = add\ninputs = r5, c5\n"
    "[c6]\nlayer = conv2d\ninputs = p4\nout_channels = 10\nkernel = 1\n"
    "[a6]\nlayer = add\ninputs = a5, c6\n"
    "[d5]\nlayer = dropout\np = 0.3\n[p5]\nlayer = globalavgpool\n"
    "[f]\nlayer = flatten\n[l1]\nlayer = linear\nout_features = 9\n[r6]\nlayer = relu\n"
    "[l2]\nlayer = linear\nout_features = 5\n[out]\nlayer = scale\nfactor = 0.5\n";

// Every way in which a gelu stands: g1 and g4 in their batch norms, the first with two readers;
// alone behind the convolution c0 and the linear layer, behind the sum a2, whose batch norm has a residual,
// and behind n3, which another layer reads, too.
static const char gelu_network[] =
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 8\nkernel = 2\n[g0]\nlayer = gelu\n"
    "[c1]\nlayer = conv2d\nout_channels = 10\nkernel = 3\npadding = 1\nbias = false\n"
    "[p1]\nlayer = maxpool2d\nkernel = 2\n[n1]\nlayer = batchnorm2d\n[g1]\nlayer = gelu\n"
    "[c2]\nlayer = conv2d\nout_channels = 10\nkernel = 3\npadding = 1\nbias = false\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, g1\n[g2]\nlayer = gelu\n"
    "[n3]\nlayer = batchnorm2d\n[g3]\nlayer = gelu\n[a3]\nlayer = add\ninputs = g3, n3\n"
    "[n4]\nlayer = batchnorm2d\n[g4]\nlayer = gelu\n"
    "[s4]\nlayer = silu\n[f]\nlayer = flatten\n[l1]\nlayer = linear\nout_features = 9\n[g5]\nlayer = gelu\n"
    "[l2]\nlayer = linear\nout_features = 5\n";

// Every other activation, alone or in the batch norm before it.
static const char curved_network[] =
    "[network]\ninput = 3x8x8\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\n[n1]\nlayer = batchnorm2d\n[a1]\nlayer = silu\n"
    "[c2]\nlayer = conv2d\nout_channels = 5\nkernel = 1\n[n2]\nlayer = batchnorm2d\n[a2]\nlayer = elu\nalpha = 0.5\n"
    "[n3]\nlayer = batchnorm2d\n[a3]\nlayer = mish\n[n4]\nlayer = batchnorm2d\n[a4]\nlayer = tanh\n"
    "[n5]\nlayer = batchnorm2d\n[a5]\nlayer = gelu_tanh\n[n6]\nlayer = batchnorm2d\n[a6]\nlayer = softplus\n"
    "[n7]\nlayer = batchnorm2d\n[a7]\nlayer = hardswish\n[n8]\nlayer = batchnorm2d\n[a8]\nlayer = hardsigmoid\n"
    "[n9]\nlayer = batchnorm2d\n[a9]\nlayer = leaky_relu\nslope = 0.3\n[n10]\nlayer = batchnorm2d\n"
    "[a10]\nlayer = relu6\n[n11]\nlayer = batchnorm2d\n[a11]\nlayer = sigmoid\n"
    "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";

// Squeeze-and-excitation, a dense block, shortcuts and group norms: gates in either place and read twice, a product of two
// maps and of a map with itself, a concat of three, of one input twice, of vectors, a channel shuffle, slices that
// overlap and that do not, and an adaptive average.
static const char branched_network[] =
    "[network]\ninput = 3x8x8\n"
    "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\n[n1]\nlayer = groupnorm\ngroups = 4\n"
    "[r1]\nlayer = silu\n"
    "[q1]\nlayer = globalavgpool\n[e1]\nlayer = linear\nout_features = 4\n[x1]\nlayer = relu\n"
    "[e2]\nlayer = linear\nout_features = 8\n[g1]\nlayer = sigmoid\n"
    "[m1]\nlayer = multiply\ninputs = r1, g1\n[m2]\nlayer = multiply\ninputs = g1, m1\n"
    "[s2]\nlayer = shortcut\nout_channels = 13\n"
    "[c2]\nlayer = conv2d\ninputs = m2\nout_channels = 13\nkernel = 3\nstride = 2\npadding = 1\n"
    "[m3]\nlayer = multiply\ninputs = c2, s2\n[m4]\nlayer = multiply\ninputs = m3, m3\n"
    "[c3]\nlayer = conv2d\nout_channels = 5\nkernel = 3\npadding = 1\n"
    "[d3]\nlayer = concat\ninputs = s2, c3, m4\n[n3]\nlayer = groupnorm\ngroups = 31\naffine = false\n"
    "[n4]\nlayer = layernorm\n[n5]\nlayer = layerscale\nvalue = 0.5\n"
    "[t1]\nlayer = slice\nchannels = 9\n[t2]\nlayer = slice\ninputs = n5\nfrom = 9\nchannels = 18\n"
    "[t3]\nlayer = slice\ninputs = n5\nfrom = 20\nchannels = 11\n[t4]\nlayer = slice\ninputs = t2\nchannels = 9\n"
    "[k1]\nlayer = concat\ninputs = t1, t4\ninterleave = true\n[k2]\nlayer = concat\ninputs = k1, t2, t3\n"
    "[a1]\nlayer = avgpool2d\noutput = 3x5\n"
    "[c4]\nlayer = conv2d\nout_channels = 3\nkernel = 1\n[d4]\nlayer = concat\ninputs = c4, a1, c4\n"
    "[h]\nlayer = sigmoid\n[p]\nlayer = globalavgpool\n[d5]\nlayer = concat\ninputs = p, g1\n"
    "[l]\nlayer = linear\nout_features = 5\n";

static int count_ops(const ls_program *program, ls_op op) {
    int count = 0;
    for (int i = 0; i < program->count; i++) count += program->instructions[i].plan->desc.op == op;
    return count;
}

static void fusion(void **state) {
    (void)state;
    fixture f;
    fixture_new(&f, "ref", network, 4, 1);
    const ls_program *p = f.program;
    assert_int_equal(count_ops(p, LS_OP_NORM_FORWARD), 4);
    // forward adds: a2 and a3 join n2 and m3; a4, b4, a5 and a6 stay. Backward: sums
    // of gradients that no batch norm can take in.
    int adds_before_loss = 0, loss_at = -1;
    for (int i = 0; i < p->count; i++) {
        if (p->instructions[i].plan->desc.op == LS_OP_LOSS) loss_at = i;
        if (p->instructions[i].plan->desc.op == LS_OP_ADD && loss_at < 0) adds_before_loss++;
    }
    assert_int_equal(adds_before_loss, 4);
    assert_int_equal(count_ops(p, LS_OP_RELU_FORWARD), 2); // r5, r6: r1, r2 are in norms, r4 in the pooling
    assert_int_equal(count_ops(p, LS_OP_POOL_FORWARD), 2);
    for (int i = 0; i < p->count; i++) {
        const ls_op_desc *desc = &p->instructions[i].plan->desc;
        if (desc->op == LS_OP_NORM_FORWARD && strcmp(desc->layer, "n2") == 0)
            assert_true(desc->attr.norm.residual && desc->attr.norm.activation == LS_ACTIVATION_RELU);
        if (desc->op == LS_OP_NORM_FORWARD && strcmp(desc->layer, "m3") == 0)
            assert_true(desc->attr.norm.residual && desc->attr.norm.activation == LS_ACTIVATION_NONE);
        if (desc->op == LS_OP_POOL_FORWARD && strcmp(desc->layer, "p4") == 0) assert_true(desc->attr.pool.relu);
    }
    assert_int_equal(count_ops(p, LS_OP_CONV_BACKWARD_DATA), 6); // c1 reads the network's input
    fixture_free(&f);
}

// Nothing is fused into what the loss alone reads, and nobody looks for a reader behind the last layer.
static void the_loss_reads_the_last_layer(void **state) {
    (void)state;
    static const char *const last[] = { "[r]\nlayer = relu\n", "[n]\nlayer = batchnorm2d\n", "[g]\nlayer = gelu\n" };
    static const ls_op ops[] = { LS_OP_RELU_FORWARD, LS_OP_NORM_FORWARD, LS_OP_ACTIVATION_FORWARD };
    for (int i = 0; i < 3; i++) {
        char text[256];
        fixture f;
        snprintf(text, sizeof text, "[network]\ninput = 3x4x4\n[c]\nlayer = conv2d\nout_channels = 5\nkernel = 4\n%s",
            last[i]);
        fixture_new(&f, "ref", text, 4, 1);
        assert_int_equal(count_ops(f.program, ops[i]), 1);
        fixture_free(&f);
    }
}

static void norm_takes_in_gelu(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f;
        fixture_new(&f, "ref", gelu_network, 4, training);
        const ls_program *p = f.program;
        assert_int_equal(count_ops(p, LS_OP_ACTIVATION_FORWARD), 5);
        assert_int_equal(count_ops(p, LS_OP_ACTIVATION_BACKWARD), training ? 5 : 0);
        for (int i = 0; i < p->count; i++) {
            const ls_instruction *at = &p->instructions[i];
            const ls_op_desc *desc = &at->plan->desc;
            int fused = strcmp(desc->layer, "n1") == 0 || strcmp(desc->layer, "n4") == 0;
            if (desc->op == LS_OP_NORM_FORWARD || desc->op == LS_OP_NORM_INFERENCE || desc->op == LS_OP_NORM_BACKWARD)
                if (desc->attr.norm.activation != (fused ? LS_ACTIVATION_GELU : LS_ACTIVATION_NONE))
                    fail_msg("%s: activation %d", desc->layer, desc->attr.norm.activation);
            if (desc->op == LS_OP_NORM_BACKWARD) {
                assert_int_equal(at->refs[LS_NORM_BACKWARD_BETA].kind, fused ? LS_REF_PARAM : LS_REF_NONE);
                assert_int_equal(at->refs[LS_NORM_BACKWARD_DST].kind, LS_REF_NONE);
            }
            if (desc->op != LS_OP_ACTIVATION_FORWARD) continue; // in place where nobody needs its input again
            int in_place = at->refs[LS_ACTIVATION_FORWARD_SRC].index == at->refs[LS_ACTIVATION_FORWARD_DST].index;
            int may = !training && (strcmp(desc->layer, "g0") == 0 || strcmp(desc->layer, "g5") == 0);
            if (in_place != may) fail_msg("%s, training %d: in place %d", desc->layer, training, in_place);
        }
        fixture_free(&f);
    }
}

// A batch norm takes in the activations that are 0 for 0, with their parameters.
static void norm_takes_in_curves(void **state) {
    (void)state;
    fixture f;
    fixture_new(&f, "ref", curved_network, 4, 1);
    int norms = 0, alone = 0;
    for (int i = 0; i < f.program->count; i++) {
        const ls_op_desc *desc = &f.program->instructions[i].plan->desc;
        if (desc->op == LS_OP_ACTIVATION_FORWARD) {
            alone++;
            if (ls_activation_keeps_zero(desc->attr.elementwise.activation)) fail_msg("%s is alone", desc->layer);
        }
        if (desc->op != LS_OP_NORM_FORWARD || desc->attr.norm.activation == LS_ACTIVATION_NONE) continue;
        norms++;
        const ls_activation kind = desc->attr.norm.activation;
        const float expected = kind == LS_ACTIVATION_ELU ? 0.5F : kind == LS_ACTIVATION_LEAKY_RELU ? 0.3F : 0;
        if (desc->attr.norm.parameter != expected)
            fail_msg("%s: parameter %g", desc->layer, (double)desc->attr.norm.parameter);
    }
    assert_int_equal(norms, 8);
    assert_int_equal(alone, 3);
    fixture_free(&f);
}

// Which batch norms take in the max pooling behind them, where the device can: n1 with an overlapping pooling that
// two layers read, n2 with a residual. Not n3, whose window has no index of one byte, nor n4, whose relu has another
// reader, nor n5, which has no relu.
static const char pooled_network[] =
    "[network]\ninput = 3x20x20\n"
    "[c1]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n[p1]\nlayer = maxpool2d\nkernel = 3\nstride = 1\npadding = 1\n"
    "[c2]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, p1\n[r2]\nlayer = relu\n"
    "[p2]\nlayer = maxpool2d\nkernel = 2\nstride = 1\npadding = 1\n"
    "[c4]\nlayer = conv2d\nout_channels = 4\nkernel = 3\npadding = 1\n"
    "[n4]\nlayer = batchnorm2d\n[r4]\nlayer = relu\n[p4]\nlayer = maxpool2d\nkernel = 3\nstride = 1\npadding = 1\n"
    "[a4]\nlayer = add\ninputs = p4, r4\n"
    "[n5]\nlayer = batchnorm2d\n[p5]\nlayer = maxpool2d\nkernel = 2\nstride = 1\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n[p3]\nlayer = maxpool2d\nkernel = 16\nstride = 4\n"
    "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";

static void norm_takes_in_pooling(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f;
        fixture_setup setup = { .device = "ref", .network = pooled_network, .batch = 4, .training = training };
        setup.fusions = LS_FUSES_NORM_POOL;
        fixture_make(&f, &setup);
        const ls_program *p = f.program;
        assert_int_equal(count_ops(p, training ? LS_OP_NORM_FORWARD : LS_OP_NORM_INFERENCE), 5);
        assert_int_equal(count_ops(p, LS_OP_POOL_FORWARD), 3);
        assert_int_equal(count_ops(p, LS_OP_POOL_BACKWARD), training ? 3 : 0);
        for (int i = 0; i < p->count; i++) {
            const ls_instruction *at = &p->instructions[i];
            const ls_op_desc *desc = &at->plan->desc;
            int backward = desc->op == LS_OP_NORM_BACKWARD, forward = desc->op == LS_OP_NORM_FORWARD;
            if (!forward && !backward && desc->op != LS_OP_NORM_INFERENCE) continue;
            int fused = strcmp(desc->layer, "n1") == 0 || strcmp(desc->layer, "n2") == 0;
            if ((desc->attr.norm.pool_kernel > 0) != fused)
                fail_msg("%s: pool_kernel %d", desc->layer, desc->attr.norm.pool_kernel);
            if (!fused) continue;
            assert_int_equal(desc->attr.norm.pooled.h, desc->layer[1] == '1' ? 20 : 21);
            assert_int_equal(desc->attr.norm.residual, desc->layer[1] == '2');
            if (forward) assert_int_equal(at->refs[LS_NORM_FORWARD_INDEX].kind, LS_REF_SLOT);
            if (!backward) continue;
            assert_int_equal(at->refs[LS_NORM_BACKWARD_INDEX].kind, LS_REF_SLOT);
            assert_int_equal(at->refs[LS_NORM_BACKWARD_DST].kind, LS_REF_NONE);
            assert_int_equal(desc->attr.norm.two_grads, desc->layer[1] == '1');
        }
        fixture_free(&f);
    }
}

static void is_room_for(const char *what, ls_buffer buffer, size_t bytes) {
    if (buffer.bytes < bytes || buffer.bytes >= bytes + LS_BUFFER_PLANNER_ALIGN)
        fail_msg("%s: %zu bytes, expected %zu and what rounds them up", what, buffer.bytes, bytes);
}

// Batch norm's statistics are two floats for a channel, and the index of its pooling is a byte for an element.
static void norm_has_the_room_it_needs(void **state) {
    (void)state;
    static const char wide_network[] =
        "[network]\ninput = 3x8x8\n[c]\nlayer = conv2d\nout_channels = 100\nkernel = 1\n"
        "[n]\nlayer = batchnorm2d\n[r]\nlayer = relu\n[p]\nlayer = maxpool2d\nkernel = 2\nstride = 2\n"
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";
    fixture f;
    fixture_setup setup = { .device = "ref", .network = wide_network, .batch = 4, .training = 1 };
    setup.fusions = LS_FUSES_NORM_POOL;
    fixture_make(&f, &setup);
    assert_int_equal(count_ops(f.program, LS_OP_NORM_FORWARD), 1);
    for (int i = 0; i < f.program->count; i++) {
        const ls_instruction *at = &f.program->instructions[i];
        if (at->plan->desc.op != LS_OP_NORM_FORWARD) continue;
        is_room_for("saved statistics", at->args[LS_NORM_FORWARD_SAVED], 2 * 100 * sizeof(float));
        is_room_for("pooling index", at->args[LS_NORM_FORWARD_INDEX], 4 * 100 * 4 * 4);
    }
    fixture_free(&f);
}

// Gradients of two programs of one network, within rounding.
static void expect_same_gradients(const fixture *alone, const fixture *fused) {
    for (int p = 0; p < fused->graph->param_count; p++) {
        const ls_param *param = &fused->graph->params[p];
        const float *x = ls_buffer_host(ls_param_store_grad(alone->store, p));
        const float *y = ls_buffer_host(ls_param_store_grad(fused->store, p));
        int64_t count = ls_param_count(&param->shape);
        float largest = 0;
        for (int64_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(x[i]));
        for (int64_t i = 0; i < count; i++)
            if (!(fabsf(x[i] - y[i]) <= 1e-5f * largest + 1e-6f))
                fail_msg("%s[%lld]: %g fused, %g alone (largest %g)", param->name, (long long)i, (double)y[i],
                    (double)x[i], (double)largest);
    }
}

// On ref, fused and not: the same loss, bit for bit, because rounding to storage commutes with the maximum; gradients
// within rounding, because an overlapping pooling adds gradients and stores their sum, which the fused one need not.
static void pooling_fused_is_pooling_alone(void **state) {
    (void)state;
    assert_true(ls_device_ref.fusions & LS_FUSES_NORM_POOL);
    for (int recompute = 0; recompute < 2; recompute++) {
        fixture alone, fused;
        fixture_setup setup = { .device = "ref", .network = pooled_network, .batch = 4, .training = 1 };
        setup.recompute = recompute;
        fixture_make(&alone, &setup);
        setup.fusions = LS_FUSES_NORM_POOL;
        fixture_make(&fused, &setup);
        double want = fixture_run(&alone), got = fixture_run(&fused);
        if (want != got) fail_msg("recompute %d: loss %.17g fused, %.17g alone", recompute, got, want);
        expect_same_gradients(&alone, &fused);
        fixture_free(&alone);
        fixture_free(&fused);
    }
}

// Which batch norms with relu take in the add behind them, where the device can: n1, n2, whose sums have two readers and so
// two gradients. Not n3, whose relu has another reader, nor n4, whose other operand comes later, nor n5 with an add before its relu.
static const char added_network[] =
    "[network]\ninput = 3x8x8\n"
    "[c0]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[c1]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n[a1]\nlayer = add\ninputs = c0, r1\n"
    "[c2]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n2]\nlayer = batchnorm2d\n[r2]\nlayer = relu\n[a2]\nlayer = add\ninputs = r2, a1\n"
    "[c3]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n"
    "[n3]\nlayer = batchnorm2d\n[r3]\nlayer = relu\n[a3]\nlayer = add\ninputs = r3, a2\n"
    "[a33]\nlayer = add\ninputs = a3, r3\n"
    "[n4]\nlayer = batchnorm2d\n[r4]\nlayer = relu\n"
    "[c4]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\ninputs = a33\n"
    "[a4]\nlayer = add\ninputs = r4, c4\n"
    "[n5]\nlayer = batchnorm2d\n[a5]\nlayer = add\ninputs = n5, a4\n[r5]\nlayer = relu\n"
    "[a55]\nlayer = add\ninputs = r5, a2\n"
    "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";

static void norm_takes_in_the_add_behind_its_relu(void **state) {
    (void)state;
    for (int training = 0; training < 2; training++) {
        fixture f;
        fixture_setup setup = { .device = "ref", .network = added_network, .batch = 4, .training = training };
        setup.fusions = LS_FUSES_RELU_ADD;
        fixture_make(&f, &setup);
        const ls_program *p = f.program;
        for (int i = 0; i < p->count; i++) {
            const ls_instruction *at = &p->instructions[i];
            const ls_op_desc *desc = &at->plan->desc;
            const int fused = strcmp(desc->layer, "n1") == 0 || strcmp(desc->layer, "n2") == 0;
            if (desc->op == LS_OP_NORM_FORWARD || desc->op == LS_OP_NORM_INFERENCE) {
                if (desc->attr.norm.adds_last != fused) fail_msg("%s: adds_last %d", desc->layer, !fused);
                assert_int_equal(desc->attr.norm.residual, fused || strcmp(desc->layer, "n5") == 0);
            }
            if (desc->op != LS_OP_NORM_BACKWARD) continue;
            assert_int_equal(desc->attr.norm.adds_last, 0);
            assert_int_equal(at->refs[LS_NORM_BACKWARD_DST].kind, fused ? LS_REF_NONE : LS_REF_SLOT);
            if (!fused) continue;
            assert_int_equal(at->refs[LS_NORM_BACKWARD_BETA].kind, LS_REF_PARAM);
            assert_int_equal(at->refs[LS_NORM_BACKWARD_GRAD_RESIDUAL].kind, LS_REF_NONE);
            assert_int_equal(desc->attr.norm.two_grads, 1);
        }
        fixture_free(&f);
    }
}

// On ref: the relu is not rounded before the addition.
static void adding_last_is_adding_alone(void **state) {
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        fixture alone, fused;
        fixture_setup setup = { .device = "ref", .network = added_network, .batch = 4, .training = 1 };
        setup.recompute = recompute;
        fixture_make(&alone, &setup);
        setup.fusions = LS_FUSES_RELU_ADD;
        fixture_make(&fused, &setup);
        double want = fixture_run(&alone), got = fixture_run(&fused);
        if (!(fabs(want - got) <= 1e-6 * fabs(want)))
            fail_msg("recompute %d: loss %.17g fused, %.17g alone", recompute, got, want);
        expect_same_gradients(&alone, &fused);
        fixture_free(&alone);
        fixture_free(&fused);
    }
}

// On cpu, where windows of 2x2 are fused: the same sums in the same order, so the same bits. Of both pooled values that two layers
// read, one is behind a residual; maps of odd sides, other windows and paddings stay alone.
static void pooling_of_2x2_has_the_bits_of_pooling_alone(void **state) {
    (void)state;
    static const char network_of_2x2[] =
        "[network]\ninput = 3x24x20\n"
        "[c1]\nlayer = conv2d\nout_channels = 19\nkernel = 3\npadding = 1\n"
        "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n[p1]\nlayer = maxpool2d\nkernel = 2\n"
        "[c2]\nlayer = conv2d\nout_channels = 19\nkernel = 3\npadding = 1\n"
        "[n2]\nlayer = batchnorm2d\n[a2]\nlayer = add\ninputs = n2, p1\n[r2]\nlayer = relu\n"
        "[p2]\nlayer = maxpool2d\nkernel = 2\n"
        "[c3]\nlayer = conv2d\nout_channels = 19\nkernel = 3\npadding = 1\n[g3]\nlayer = gelu\n"
        "[a3]\nlayer = add\ninputs = g3, p2\n"
        "[n4]\nlayer = batchnorm2d\n[r4]\nlayer = relu\n[p4]\nlayer = maxpool2d\nkernel = 2\nstride = 1\n"  // 6x5
        "[n5]\nlayer = batchnorm2d\n[r5]\nlayer = relu\n[p5]\nlayer = maxpool2d\nkernel = 2\n"              // 5x4
        "[n6]\nlayer = batchnorm2d\n[r6]\nlayer = relu\n[p6]\nlayer = maxpool2d\nkernel = 2\npadding = 1\n" // 2x2
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 5\n";
    assert_true(ls_device_cpu.fusions & LS_FUSES_NORM_POOL_2X2);
    for (int training = 0; training < 2; training++) {
        fixture alone, fused;
        fixture_setup setup = { .device = "cpu", .network = network_of_2x2, .batch = 5, .training = training };
        fixture_make(&alone, &setup);
        setup.fusions = LS_FUSES_NORM_POOL_2X2;
        fixture_make(&fused, &setup);
        assert_int_equal(count_ops(alone.program, LS_OP_POOL_FORWARD), 5);
        assert_int_equal(count_ops(fused.program, LS_OP_POOL_FORWARD), 3);
        assert_true(fixture_run(&alone) == fixture_run(&fused));
        assert_memory_equal(alone.store->grad->address, fused.store->grad->address, alone.store->grad->bytes);
        fixture_free(&alone);
        fixture_free(&fused);
    }
}

// A concatenation that a convolution and another concatenation read has two gradients: one operator less, the same bits.
static void copies_add_a_concatenations_gradients(void **state) {
    (void)state;
    static const char dense_network[] =
        "[network]\ninput = 3x8x8\n[c1]\nlayer = conv2d\nout_channels = 9\nkernel = 3\n[c2]\nlayer = conv2d\n"
        "out_channels = 5\nkernel = 1\n[d1]\nlayer = concat\ninputs = c1, c2\n[c3]\nlayer = conv2d\nout_channels = 4\n"
        "kernel = 3\npadding = 1\n[d2]\nlayer = concat\ninputs = d1, c3\n[p]\nlayer = globalavgpool\n"
        "[l]\nlayer = linear\nout_features = 5\n";
    assert_true(ls_device_cpu.fusions & LS_FUSES_CONCAT_ADD);
    fixture alone, fused;
    fixture_setup setup = { .device = "ref", .network = dense_network, .batch = 4, .training = 1 };
    fixture_make(&alone, &setup);
    setup.fusions = LS_FUSES_CONCAT_ADD;
    fixture_make(&fused, &setup);
    assert_int_equal(count_ops(alone.program, LS_OP_ADD), 2); // of the gradients of c1 and d1
    assert_int_equal(count_ops(fused.program, LS_OP_ADD), 1);
    assert_true(fixture_run(&alone) == fixture_run(&fused));
    assert_memory_equal(alone.store->grad->address, fused.store->grad->address, alone.store->grad->bytes);
    fixture_free(&alone);
    fixture_free(&fused);
}

// The slices of one map write their channels into one gradient: no operator adds gradients.
static void slices_share_a_gradient(void **state) {
    (void)state;
    static const char text[] =
        "[network]\ninput = 3x8x8\n[c1]\nlayer = conv2d\nout_channels = 20\nkernel = 3\n[s1]\nlayer = slice\n"
        "channels = 7\n[s2]\nlayer = slice\ninputs = c1\nfrom = 13\nchannels = 7\n[k]\nlayer = concat\n"
        "inputs = s1, s2\ninterleave = true\n[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 5\n";
    fixture f;
    fixture_make(&f, &(fixture_setup){ .device = "ref", .network = text, .batch = 4, .training = 1 });
    assert_int_equal(count_ops(f.program, LS_OP_ADD), 0);
    assert_int_equal(count_ops(f.program, LS_OP_COPY_CHANNELS), 2 + 1 + 2 + 2); // slices, shuffle, and their gradients
    fixture_free(&f);
}

// On ref, compiled with the fusions and without: the same loss and gradients, within rounding.
static void compare_fusions(const fixture_setup *setup, const char *what) {
    fixture alone, fused;
    fixture_setup plain = *setup;
    plain.fusions = 0;
    fixture_make(&alone, &plain);
    fixture_make(&fused, setup);
    const double want = fixture_run(&alone), got = fixture_run(&fused);
    if (!(fabs(got - want) <= 1e-6 * want)) fail_msg("%s: loss %.17g fused, %.17g alone", what, got, want);
    for (int p = 0; setup->training && p < fused.graph->param_count; p++) {
        const ls_param *param = &fused.graph->params[p];
        const float *x = ls_buffer_host(ls_param_store_grad(alone.store, p));
        const float *y = ls_buffer_host(ls_param_store_grad(fused.store, p));
        for (int64_t k = 0; k < ls_param_count(&param->shape); k++)
            if (!(fabsf(x[k] - y[k]) <= 1e-4f * fabsf(x[k]) + 1e-5f))
                fail_msg(
                    "%s: %s[%lld] is %g fused, %g alone", what, param->name, (long long)k, (double)y[k], (double)x[k]);
    }
    fixture_free(&alone);
    fixture_free(&fused);
}

static void count_fused(const fixture_setup *setup, const char *what, const ls_op ops[2], const int want[2]) {
    fixture f;
    fixture_make(&f, setup);
    for (int i = 0; i < 2; i++)
        if (count_ops(f.program, ops[i]) != want[i])
            fail_msg("%s, training %d: %d of %s, expected %d", what, setup->training, count_ops(f.program, ops[i]),
                ls_op_name(ops[i]), want[i]);
    fixture_free(&f);
}

// Evaluation keeps the layer, whose output is read, and so does a scale that is not the last layer, or one by 0.
static void the_loss_takes_in_a_scale(void **state) {
    (void)state;
    static const struct {
        const char *tail;
        int scales[2]; // operators: in evaluation, in training
    } rows[] = { { "[s]\nlayer = scale\nfactor = 0.5\n", { 1, 0 } }, { "[s]\nlayer = scale\nfactor = 0\n", { 1, 2 } },
        { "[s]\nlayer = scale\nfactor = 2\n[t]\nlayer = scale\nfactor = -0.5\n", { 2, 2 } } };
    for (int i = 0; i < 6; i++) {
        const int row = i / 2, training = i % 2;
        char text[512];
        snprintf(text, sizeof text,
            "[network]\ninput = 3x4x4\n[c]\nlayer = conv2d\nout_channels = 5\nkernel = 4\n[f]\nlayer = flatten\n%s",
            rows[row].tail);
        const fixture_setup setup = {
            .device = "ref", .network = text, .batch = 4, .training = training, .fusions = LS_FUSES_SCALE
        };
        count_fused(
            &setup, rows[row].tail, (ls_op[]){ LS_OP_SCALE, LS_OP_LOSS }, (int[]){ rows[row].scales[training], 1 });
        compare_fusions(&setup, rows[row].tail);
    }
}

// Which ends of a network are a head, and with which pooling.
static void the_loss_takes_in_the_head(void **state) {
    (void)state;
#define LINEAR(outputs) "[l]\nlayer = linear\nout_features = " outputs "\n"
    static const struct {
        const char *tail;
        int heads, pools; // operators of a training program
    } rows[] = { { "[p]\nlayer = globalavgpool\n" LINEAR("5"), 1, 0 },
        { "[p]\nlayer = globalmaxpool\n[f]\nlayer = flatten\n" LINEAR(
              "5") "bias = false\n[s]\nlayer = scale\nfactor = 0.3\n",
            1, 0 },
        { "[p]\nlayer = maxpool2d\nkernel = 4\n[f]\nlayer = flatten\n" LINEAR("32"), 1, 0 },
        { "[p]\nlayer = avgpool2d\nkernel = 4\n[d]\nlayer = dropout\n[f]\nlayer = flatten\n" LINEAR("5"), 1, 1 },
        { "[f]\nlayer = flatten\n[h]\nlayer = linear\nout_features = 7\n[r]\nlayer = relu\n" LINEAR("5"), 1, 0 },
        { "[r]\nlayer = relu\n[p]\nlayer = globalmaxpool\n" LINEAR("5"), 1, 1 }, // the pooling has the relu
        { "[p]\nlayer = maxpool2d\nkernel = 3\nstride = 1\n[f]\nlayer = flatten\n" LINEAR("5"), 0, 1 },
        { "[p]\nlayer = globalavgpool\n[h]\nlayer = linear\nout_features = 6\n[a]\nlayer = add\ninputs = h, p\n" LINEAR(
              "5"),
            1, 1 },
        { "[p]\nlayer = globalavgpool\n" LINEAR("33"), 0, 1 },
        { "[p]\nlayer = globalavgpool\n" LINEAR("5") "[e]\nlayer = relu\n", 0, 1 } };
#undef LINEAR
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text,
            "[network]\ninput = 3x4x4\n[c]\nlayer = conv2d\nout_channels = 6\nkernel = 3\npadding = 1\n%s",
            rows[i].tail);
        for (int k = 0; k < 3; k++) { // in evaluation, in training, with blocks that are computed again
            const int heads = k > 0 ? rows[i].heads : 0;
            const fixture_setup setup = { .device = "ref",
                .network = text,
                .batch = 4,
                .training = k > 0,
                .recompute = k == 2,
                .fusions = LS_FUSES_HEAD | LS_FUSES_SCALE };
            fixture_setup focal = setup; // no head computes it
            focal.focal_gamma = 2;
            count_fused(&focal, rows[i].tail, (ls_op[]){ LS_OP_HEAD, LS_OP_LOSS }, (int[]){ 0, 1 });
            count_fused(&setup, rows[i].tail, (ls_op[]){ LS_OP_HEAD, LS_OP_LOSS }, (int[]){ heads, !heads });
            if (k > 0)
                count_fused(&setup, rows[i].tail, (ls_op[]){ LS_OP_HEAD, LS_OP_POOL_BACKWARD },
                    (int[]){ heads, rows[i].pools });
            compare_fusions(&setup, rows[i].tail);
        }
    }
}

// Stochastic depth often begins with a share of 0.
static void a_dropout_of_nothing_has_no_operator(void **state) {
    (void)state;
    static const char *const kinds[] = { "dropout", "dropout2d", "droppath" };
    for (int i = 0; i < 6; i++) {
        char text[512];
        snprintf(text, sizeof text,
            "[network]\ninput = 3x4x4\n[c]\nlayer = conv2d\nout_channels = 3\nkernel = 3\npadding = 1\n"
            "[d]\nlayer = %s\np = %s\n[a]\nlayer = add\ninputs = d, c\n[f]\nlayer = flatten\n[l]\nlayer = "
            "linear\nout_features = 5\n",
            kinds[i / 2], i % 2 ? "0.5" : "0");
        const fixture_setup setup = { .device = "ref", .network = text, .batch = 4, .training = 1 };
        count_fused(&setup, kinds[i / 2], (ls_op[]){ LS_OP_DROPOUT, LS_OP_LOSS }, (int[]){ i % 2 ? 2 : 0, 1 });
        compare_fusions(&setup, kinds[i / 2]);
    }
}

static void gradients_complete_in_arena_order(void **state) {
    (void)state;
    fixture f;
    fixture_new(&f, "ref", network, 4, 1);
    int last = 0;
    for (int i = 0; i < f.program->count; i++) {
        int completes = f.program->instructions[i].completes;
        if (!completes) continue;
        assert_true(completes > last);
        last = completes;
    }
    assert_int_equal(last, f.store->trained_params);
    fixture_free(&f);
}

static void evaluation_has_no_backward(void **state) {
    (void)state;
    fixture f;
    fixture_new(&f, "ref", network, 4, 0);
    assert_int_equal(count_ops(f.program, LS_OP_NORM_INFERENCE), 4);
    assert_int_equal(count_ops(f.program, LS_OP_DROPOUT), 0);
    assert_int_equal(f.program->instructions[f.program->count - 1].plan->desc.op, LS_OP_LOSS);
    assert_true(isfinite(fixture_run(&f)));
    fixture_free(&f);
}

// One element of a parameter, as the device holds it: ref keeps the canonical order.
static float *element(ls_buffer buffer, int64_t i) {
    return (float *)ls_buffer_host(buffer) + i;
}

// Central differences of the summed loss. Activations are stored in fp32, so a difference of 2*step carries about 1e-6
// of noise in the loss; relu, pooling and batch norm bend it: the tolerance is for both.
// A lost, doubled or misplaced gradient is off by far more.
static void check_network_gradients(const char *text, int checked_min) {
    fixture f;
    fixture_new(&f, "ref", text, 4, 1);
    fixture_run(&f);
    size_t bytes = f.store->grad->bytes;
    float *grads = malloc(bytes);
    memcpy(grads, f.store->grad->address, bytes);
    int checked = 0;
    for (int p = 0; p < f.graph->param_count; p++) {
        const ls_param *param = &f.graph->params[p];
        if (ls_role_is_statistic(param->role)) continue;
        int64_t count = ls_param_count(&param->shape);
        double worst = 0, norm = 0;
        for (int64_t s = 0; s < 6; s++) {
            int64_t i = (s * 7919 + 3) % count;
            float *w = element(ls_param_store_weight(f.store, p), i), kept = *w;
            const float step = 2e-3f;
            *w = kept + step;
            double up = fixture_run(&f);
            *w = kept - step;
            double down = fixture_run(&f);
            *w = kept;
            double numeric = (up - down) / (2.0 * (double)step), analytic = (double)grads[f.store->offset[p] + i];
            double error = fabs(numeric - analytic);
            if (error > worst) worst = error;
            if (fabs(analytic) > norm) norm = fabs(analytic);
            checked++;
        }
        if (worst > 0.05 * norm + 4e-3)
            fail_msg("%s: analytic and numeric gradient differ by %g (largest %g)", param->name, worst, norm);
    }
    assert_true(checked > checked_min);
    free(grads);
    fixture_free(&f);
}

static void whole_network_gradients(void **state) {
    (void)state;
    check_network_gradients(network, 100);
    check_network_gradients(gelu_network, 80);
    check_network_gradients(curved_network, 80);
    check_network_gradients(branched_network, 80);
}

// The same program on the cpu device: the compiler makes no assumption about layouts.
static void compare_cpu(const char *text) {
    fixture ref, cpu;
    fixture_new(&ref, "ref", text, 4, 1);
    fixture_new(&cpu, "cpu", text, 4, 1);
    double a = fixture_run(&ref), b = fixture_run(&cpu);
    assert_true(fabs(a - b) < 1e-5 * fabs(a));
    for (int p = 0; p < ref.graph->param_count; p++) {
        const ls_param *param = &ref.graph->params[p];
        int64_t count = ls_param_count(&param->shape);
        float *x = malloc((size_t)count * sizeof *x), *y = malloc((size_t)count * sizeof *y);
        ref.device->api->param_export(ref.device, &param->shape, ls_param_store_grad(ref.store, p), x);
        cpu.device->api->param_export(cpu.device, &param->shape, ls_param_store_grad(cpu.store, p), y);
        double largest = 0, worst = 0;
        for (int64_t i = 0; i < count; i++) {
            largest = fmax(largest, fabs((double)x[i]));
            worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        }
        if (worst > 2e-4 * largest + 2e-5) fail_msg("%s: cpu and ref differ by %g of %g", param->name, worst, largest);
        free(x);
        free(y);
    }
    fixture_free(&ref);
    fixture_free(&cpu);
}

static void cpu_agrees_with_ref(void **state) {
    (void)state;
    compare_cpu(network);
    compare_cpu(gelu_network);
    compare_cpu(curved_network);
    compare_cpu(branched_network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fusion),
        cmocka_unit_test(the_loss_reads_the_last_layer),
        cmocka_unit_test(norm_takes_in_gelu),
        cmocka_unit_test(norm_takes_in_curves),
        cmocka_unit_test(norm_takes_in_pooling),
        cmocka_unit_test(norm_has_the_room_it_needs),
        cmocka_unit_test(pooling_fused_is_pooling_alone),
        cmocka_unit_test(pooling_of_2x2_has_the_bits_of_pooling_alone),
        cmocka_unit_test(copies_add_a_concatenations_gradients),
        cmocka_unit_test(slices_share_a_gradient),
        cmocka_unit_test(norm_takes_in_the_add_behind_its_relu),
        cmocka_unit_test(adding_last_is_adding_alone),
        cmocka_unit_test(the_loss_takes_in_a_scale),
        cmocka_unit_test(the_loss_takes_in_the_head),
        cmocka_unit_test(a_dropout_of_nothing_has_no_operator),
        cmocka_unit_test(gradients_complete_in_arena_order),
        cmocka_unit_test(evaluation_has_no_backward),
        cmocka_unit_test(whole_network_gradients),
        cmocka_unit_test(cpu_agrees_with_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
