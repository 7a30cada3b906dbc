// lower.c - turns each kind of layer into operators, forward and backward.
#include "program/compile_internal.h"

static ls_nchw input_shape(const ls_builder *b, const ls_node *node) {
    return b->values[node->input[0]].shape;
}

static ls_ref input_ref(const ls_builder *b, const ls_node *node) {
    return b->values[node->input[0]].ref;
}

// Returns the number of elements of an activation in the device's layout, padding included.
static size_t elements_of(const ls_builder *b, ls_nchw shape) {
    ls_dtype storage = b->store->storage;
    return b->device->api->activation_bytes(b->device, shape, storage) / ls_dtype_bytes(storage);
}

// Gives the node's output a shape and a buffer of its own.
static ls_status new_output(ls_builder *b, const ls_node *node, ls_nchw shape) {
    ls_value *value = &b->values[node->output];
    value->shape = shape;
    return ls_builder_activation(b, node->layer->name, shape, &value->ref);
}

// Books a buffer for the gradient of the node's input, and contributes it to that value.
static ls_status new_input_grad(ls_builder *b, const ls_node *node, ls_ref *out) {
    LS_TRY(ls_builder_activation(b, node->layer->name, input_shape(b, node), out));
    return ls_builder_give_grad(b, node->input[0], *out);
}

static int input_needs_grad(const ls_builder *b, const ls_node *node) {
    return b->values[node->input[0]].needs_grad;
}

static int has_gradient(const ls_builder *b, const ls_node *node, ls_param_role role) {
    return ls_builder_param(b, node, role, LS_PARAM_GRAD).kind != LS_REF_NONE;
}

// --- conv2d and linear: their operators take the same arguments (device/op_linear.h) -------------

static ls_op_desc conv_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    const ls_layer_conv2d *c = &node->layer->attr.conv2d;
    ls_nchw src = input_shape(b, node);
    return (ls_op_desc){ .op = op,
        .layer = node->layer->name,
        .attr.conv = { .src = src,
            .dst = ls_batch_of(src.n, node->layer->out),
            .kernel_h = c->kernel.h,
            .kernel_w = c->kernel.w,
            .stride_h = c->stride.h,
            .stride_w = c->stride.w,
            .pad_h = c->padding.h,
            .pad_w = c->padding.w,
            .dilation = c->dilation,
            .groups = c->groups,
            .has_bias = c->bias,
            .storage = b->store->storage } };
}

static ls_op_desc linear_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    const ls_layer_linear *l = &node->layer->attr.linear;
    return (ls_op_desc){ .op = op,
        .layer = node->layer->name,
        .attr.linear = { .src = input_shape(b, node),
            .out_features = l->out_features,
            .has_bias = l->bias,
            .storage = b->store->storage } };
}

// Sets node->weight to the weights that the operators read: in a quantised network, a rounded copy.
static ls_status round_weight(ls_builder *b, ls_node *node) {
    node->weight = ls_builder_param(b, node, LS_ROLE_WEIGHT, LS_PARAM_WORKING);
    if (!b->quantises) return LS_SUCCESS;
    const int p = node->weight.index;
    const ls_op_desc desc = { .op = LS_OP_FAKE_QUANTISE_WEIGHT,
        .layer = node->layer->name,
        .attr.quantise = { .param = b->graph->params[p].shape } };
    ls_ref refs[LS_FAKE_QUANTISE_WEIGHT_ARGS] = { [LS_FAKE_QUANTISE_WEIGHT_SRC] = node->weight };
    LS_TRY(ls_builder_slot(
        b, "rounded weights", (size_t)b->store->elements[p] * sizeof(float), &refs[LS_FAKE_QUANTISE_WEIGHT_DST]));
    node->weight = refs[LS_FAKE_QUANTISE_WEIGHT_DST];
    return ls_builder_emit(b, &desc, refs, LS_FAKE_QUANTISE_WEIGHT_ARGS);
}

static ls_status conv_linear_forward(ls_builder *b, ls_node *node, const ls_op_desc *desc, ls_nchw dst) {
    LS_TRY(new_output(b, node, dst));
    if (node == b->head) return LS_SUCCESS; // the loss operator computes it (ls_builder_emit_loss)
    LS_TRY(round_weight(b, node));
    ls_ref refs[LS_CONV_FORWARD_ARGS] = {
        [LS_CONV_FORWARD_SRC] = input_ref(b, node),
        [LS_CONV_FORWARD_WEIGHT] = node->weight,
        [LS_CONV_FORWARD_DST] = b->values[node->output].ref,
    };
    if (!b->values[node->output].biased_by)
        refs[LS_CONV_FORWARD_BIAS] = ls_builder_param(
            b, node, LS_ROLE_BIAS, desc->op == LS_OP_LINEAR_FORWARD ? LS_PARAM_WORKING : LS_PARAM_MASTER);
    return ls_builder_emit(b, desc, refs, LS_CONV_FORWARD_ARGS);
}

// Emits the operator that computes the gradients of weight and bias, unless neither of them gets a gradient.
static ls_status weight_gradient(ls_builder *b, ls_node *node, const ls_op_desc *desc, ls_ref grad) {
    ls_ref refs[LS_CONV_BACKWARD_WEIGHT_ARGS] = {
        [LS_CONV_BACKWARD_WEIGHT_SRC] = input_ref(b, node),
        [LS_CONV_BACKWARD_WEIGHT_GRAD_DST] = grad,
        [LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT] = ls_builder_param(b, node, LS_ROLE_WEIGHT, LS_PARAM_GRAD),
        [LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS] = ls_builder_param(b, node, LS_ROLE_BIAS, LS_PARAM_GRAD),
    };
    if (desc->op == LS_OP_CONV_BACKWARD_WEIGHT && desc->attr.conv.rounds)
        refs[LS_CONV_BACKWARD_WEIGHT_GRAD_ROUNDED] = ls_builder_param(b, node, LS_ROLE_WEIGHT, LS_PARAM_ROUNDED);
    if (!refs[LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT].kind && !refs[LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS].kind)
        return LS_SUCCESS;
    LS_TRY(ls_builder_emit(b, desc, refs, LS_CONV_BACKWARD_WEIGHT_ARGS));
    ls_builder_completes(b, node);
    return LS_SUCCESS;
}

// Emits the weight gradient first, so that its bucket can be reduced while the data gradient is computed.
static ls_status conv_linear_backward(ls_builder *b, ls_node *node, const ls_op_desc *weight, const ls_op_desc *data) {
    ls_ref grad;
    LS_TRY(ls_builder_grad(b, node, &grad));
    LS_TRY(weight_gradient(b, node, weight, grad));
    if (!input_needs_grad(b, node) || node == b->head) return LS_SUCCESS; // of the head the loss operator computes it
    ls_ref data_refs[LS_CONV_BACKWARD_DATA_ARGS] = {
        [LS_CONV_BACKWARD_DATA_GRAD_DST] = grad,
        [LS_CONV_BACKWARD_DATA_WEIGHT] = node->weight,
    };
    LS_TRY(new_input_grad(b, node, &data_refs[LS_CONV_BACKWARD_DATA_GRAD_SRC]));
    return ls_builder_emit(b, data, data_refs, LS_CONV_BACKWARD_DATA_ARGS);
}

static ls_status conv_forward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = conv_desc(b, node, LS_OP_CONV_FORWARD);
    if (b->values[node->output].biased_by) desc.attr.conv.has_bias = 0;
    return conv_linear_forward(b, node, &desc, desc.attr.conv.dst);
}

static ls_status conv_backward(ls_builder *b, ls_node *node) {
    const ls_op_desc data = conv_desc(b, node, LS_OP_CONV_BACKWARD_DATA);
    ls_op_desc weight = conv_desc(b, node, LS_OP_CONV_BACKWARD_WEIGHT);
    weight.attr.conv.has_bias = has_gradient(b, node, LS_ROLE_BIAS);
    weight.attr.conv.bias_only = !has_gradient(b, node, LS_ROLE_WEIGHT);
    weight.attr.conv.rounds = b->store->sizes.rounded && !weight.attr.conv.bias_only;
    return conv_linear_backward(b, node, &weight, &data);
}

static ls_status linear_forward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = linear_desc(b, node, LS_OP_LINEAR_FORWARD);
    desc.attr.linear.relu = b->values[node->output].rectified;
    return conv_linear_forward(b, node, &desc, ls_batch_of(desc.attr.linear.src.n, node->layer->out));
}

static ls_status linear_backward(ls_builder *b, ls_node *node) {
    const ls_op_desc data = linear_desc(b, node, LS_OP_LINEAR_BACKWARD_DATA);
    ls_op_desc weight = linear_desc(b, node, LS_OP_LINEAR_BACKWARD_WEIGHT);
    weight.attr.linear.has_bias = has_gradient(b, node, LS_ROLE_BIAS);
    weight.attr.linear.bias_only = !has_gradient(b, node, LS_ROLE_WEIGHT);
    return conv_linear_backward(b, node, &weight, &data);
}

// --- batchnorm2d, with its fused residual and activation -----------------------------------------

static ls_op_desc norm_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    return (ls_op_desc){ .op = op,
        .layer = node->layer->name,
        .attr.norm = { .shape = input_shape(b, node),
            .eps = (float)node->layer->attr.batchnorm2d.eps,
            .activation = node->activation,
            .parameter = (float)node->parameter,
            .residual = node->residual,
            .adds_last = node->adds_last,
            .pool_kernel = node->pool ? node->pool->attr.maxpool2d.kernel.h : 0,
            .pool_stride = node->pool ? node->pool->attr.maxpool2d.stride.h : 0,
            .pool_pad = node->pool ? node->pool->attr.maxpool2d.padding.h : 0,
            .pooled = node->pool ? ls_batch_of(input_shape(b, node).n, node->pool->out) : (ls_nchw){ 0 },
            .storage = b->store->storage } };
}

// Whether training normalises with stored statistics. The forward operator is then that of evaluation.
static int is_stored(const ls_builder *b, const ls_node *node) {
    return ls_param_rules_stored(b->store->options.rules, node->layer);
}

static ls_status norm_inference(ls_builder *b, ls_node *node) {
    ls_op_desc desc = norm_desc(b, node, LS_OP_NORM_INFERENCE);
    ls_ref refs[LS_NORM_INFERENCE_ARGS] = {
        [LS_NORM_INFERENCE_SRC] = input_ref(b, node),
        [LS_NORM_INFERENCE_RESIDUAL] = node->residual ? b->values[node->input[1]].ref : (ls_ref){ 0 },
        [LS_NORM_INFERENCE_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_MASTER),
        [LS_NORM_INFERENCE_BETA] = ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_MASTER),
        [LS_NORM_INFERENCE_MEAN] = ls_builder_param(b, node, LS_ROLE_RUNNING_MEAN, LS_PARAM_MASTER),
        [LS_NORM_INFERENCE_VAR] = ls_builder_param(b, node, LS_ROLE_RUNNING_VAR, LS_PARAM_MASTER),
        [LS_NORM_INFERENCE_DST] = b->values[node->output].ref,
    };
    return ls_builder_emit(b, &desc, refs, LS_NORM_INFERENCE_ARGS);
}

// Returns the number of elements of a per-channel array of batch norm in the device's layout, padding included.
static size_t vector_elements(const ls_builder *b, const ls_node *node) {
    ls_param_shape vector = { LS_PARAM_VECTOR, { input_shape(b, node).c, 1, 1, 1 }, 1 };
    return b->device->api->param_elements(b->device, &vector);
}

// Emits the half of a synchronised operator that computes sums, into a new slot. refs[sums_at] becomes that slot.
static ls_status emit_sums(ls_builder *b, const ls_node *node, const ls_op_desc *desc, ls_ref *refs, int sums_at) {
    size_t count = ls_norm_sums_count(vector_elements(b, node));
    LS_TRY(ls_builder_slot(b, "sums over ranks", count * sizeof(double), &refs[sums_at]));
    LS_TRY(ls_builder_emit(b, desc, refs, ls_op_args(desc->op)));
    ls_builder_reduces(b, sums_at, count);
    return LS_SUCCESS;
}

static ls_status norm_sums(ls_builder *b, ls_node *node) {
    ls_op_desc desc = norm_desc(b, node, LS_OP_NORM_SUMS);
    ls_ref refs[LS_NORM_SUMS_ARGS] = { [LS_NORM_SUMS_SRC] = input_ref(b, node) };
    LS_TRY(emit_sums(b, node, &desc, refs, LS_NORM_SUMS_SUMS));
    node->sums = refs[LS_NORM_SUMS_SUMS];
    return LS_SUCCESS;
}

static ls_status norm_forward(ls_builder *b, ls_node *node) {
    const int inference = !b->options->training || is_stored(b, node);
    int synced = !inference && b->options->sync_norm;
    ls_op_desc desc = norm_desc(b, node, synced ? LS_OP_NORM_APPLY : LS_OP_NORM_FORWARD);
    const ls_norm_attr *attr = &desc.attr.norm;
    if (synced && !b->again) LS_TRY(norm_sums(b, node)); // recomputation reuses the sums
    LS_TRY(new_output(b, node, node->pool ? attr->pooled : attr->shape));
    if (inference) return norm_inference(b, node);
    LS_TRY(ls_builder_slot(b, "saved statistics", 2 * vector_elements(b, node) * sizeof(float), &node->saved));
    // The index of a fused pooling takes one byte for each element.
    if (node->pool) LS_TRY(ls_builder_slot(b, "pooling index", elements_of(b, attr->pooled), &node->index));
    // Recomputation must not add this micro-batch to the running statistics a second time.
    ls_ref sum_mean = ls_builder_param(b, node, LS_ROLE_RUNNING_MEAN, LS_PARAM_GRAD);
    ls_ref sum_var = ls_builder_param(b, node, LS_ROLE_RUNNING_VAR, LS_PARAM_GRAD);
    if (b->again) sum_mean = sum_var = (ls_ref){ 0 };
    ls_ref refs[LS_NORM_APPLY_ARGS] = {
        [LS_NORM_FORWARD_SRC] = input_ref(b, node),
        [LS_NORM_FORWARD_RESIDUAL] = node->residual ? b->values[node->input[1]].ref : (ls_ref){ 0 },
        [LS_NORM_FORWARD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_MASTER),
        [LS_NORM_FORWARD_BETA] = ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_MASTER),
        [LS_NORM_FORWARD_SAVED] = node->saved,
        [LS_NORM_FORWARD_SUM_MEAN] = sum_mean,
        [LS_NORM_FORWARD_SUM_VAR] = sum_var,
        [LS_NORM_FORWARD_DST] = b->values[node->output].ref,
        [LS_NORM_FORWARD_INDEX] = node->index,
        [LS_NORM_APPLY_SUMS] = node->sums,
    };
    return ls_builder_emit(b, &desc, refs, ls_op_args(desc.op));
}

// Whether the backward pass can compute the activation's input again from src alone.
static int norm_follows_from_src(const ls_node *node) {
    return node->activation > LS_ACTIVATION_RELU ||
           (node->activation == LS_ACTIVATION_RELU && (!node->residual || node->adds_last) && !node->pool);
}

// Emits the first half of a synchronised backward pass: it adds to the gradients of gamma and beta and computes sums.
// Afterwards refs are the arguments of the second half.
static ls_status norm_backward_sums(ls_builder *b, const ls_node *node, ls_op_desc desc, ls_ref *refs) {
    ls_ref gamma = refs[LS_NORM_BACKWARD_GAMMA];
    desc.op = LS_OP_NORM_BACKWARD_SUMS;
    if (!norm_follows_from_src(node)) refs[LS_NORM_BACKWARD_GAMMA] = (ls_ref){ 0 };
    LS_TRY(emit_sums(b, node, &desc, refs, LS_NORM_BACKWARD_SUMS_SUMS));
    ls_builder_completes(b, node);
    refs[LS_NORM_BACKWARD_GAMMA] = gamma;
    refs[LS_NORM_BACKWARD_GRAD_GAMMA] = refs[LS_NORM_BACKWARD_GRAD_BETA] = (ls_ref){ 0 };
    return LS_SUCCESS;
}

// Returns a stored statistic if training normalises with stored statistics, else an absent reference.
static ls_ref stored_statistic(const ls_builder *b, const ls_node *node, ls_param_role role) {
    return is_stored(b, node) ? ls_builder_param(b, node, role, LS_PARAM_MASTER) : (ls_ref){ 0 };
}

static ls_status norm_backward(ls_builder *b, ls_node *node) {
    ls_value *output = &b->values[node->output];
    const int stored = is_stored(b, node), synced = !stored && b->options->sync_norm;
    ls_op_desc desc = norm_desc(b, node, synced ? LS_OP_NORM_BACKWARD_APPLY : LS_OP_NORM_BACKWARD);
    desc.attr.norm.two_grads = output->grad_count == 2;
    int residual = node->residual && b->values[node->input[1]].needs_grad;
    // The residual's gradient is the output's gradient itself if the residual is added last, or if there is no
    // activation and only one gradient.
    int residual_is_grad =
        residual && (node->adds_last || (node->activation == LS_ACTIVATION_NONE && output->grad_count == 1));
    desc.attr.norm.residual = residual && !residual_is_grad;
    desc.attr.norm.adds_last = 0;
    desc.attr.norm.stored = stored;
    ls_ref refs[LS_NORM_BACKWARD_APPLY_ARGS] = {
        [LS_NORM_BACKWARD_SRC] = input_ref(b, node),
        [LS_NORM_BACKWARD_DST] =
            node->activation == LS_ACTIVATION_RELU && !node->pool && !node->adds_last ? output->ref : (ls_ref){ 0 },
        [LS_NORM_BACKWARD_GRAD_DST] = output->grads[0],
        [LS_NORM_BACKWARD_GRAD_DST2] = output->grad_count == 2 ? output->grads[1] : (ls_ref){ 0 },
        [LS_NORM_BACKWARD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_MASTER),
        [LS_NORM_BACKWARD_BETA] =
            norm_follows_from_src(node) ? ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_MASTER) : (ls_ref){ 0 },
        [LS_NORM_BACKWARD_SAVED] = node->saved,
        [LS_NORM_BACKWARD_INDEX] = node->index,
        [LS_NORM_BACKWARD_MEAN] = stored_statistic(b, node, LS_ROLE_RUNNING_MEAN),
        [LS_NORM_BACKWARD_VAR] = stored_statistic(b, node, LS_ROLE_RUNNING_VAR),
        [LS_NORM_BACKWARD_GRAD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_GRAD),
        [LS_NORM_BACKWARD_GRAD_BETA] = ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_GRAD),
    };
    if (synced) LS_TRY(norm_backward_sums(b, node, desc, refs));
    for (int g = 0; residual_is_grad && g < output->grad_count; g++)
        LS_TRY(ls_builder_give_grad(b, node->input[1], output->grads[g]));
    if (desc.attr.norm.residual) {
        LS_TRY(
            ls_builder_activation(b, node->layer->name, desc.attr.norm.shape, &refs[LS_NORM_BACKWARD_GRAD_RESIDUAL]));
        LS_TRY(ls_builder_give_grad(b, node->input[1], refs[LS_NORM_BACKWARD_GRAD_RESIDUAL]));
    }
    LS_TRY(new_input_grad(b, node, &refs[LS_NORM_BACKWARD_GRAD_SRC]));
    LS_TRY(ls_builder_emit(b, &desc, refs, ls_op_args(desc.op)));
    if (!synced) ls_builder_completes(b, node);
    return LS_SUCCESS;
}

// --- pooling -------------------------------------------------------------------------------------

// Describes a pooling operator. Reads maxpool2d's attributes for avgpool2d too: they are the same.
static ls_op_desc pool_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    const ls_layer *layer = node->layer;
    ls_nchw src = input_shape(b, node);
    int global = layer->kind == LS_LAYER_GLOBALAVGPOOL || layer->kind == LS_LAYER_GLOBALMAXPOOL;
    int max = layer->kind == LS_LAYER_MAXPOOL2D || layer->kind == LS_LAYER_GLOBALMAXPOOL;
    return (ls_op_desc){ .op = op,
        .layer = layer->name,
        .attr.pool = { .kind = max ? LS_POOL_MAX : LS_POOL_AVERAGE,
            .src = src,
            .dst = ls_batch_of(src.n, layer->out),
            .kernel_h = global ? src.h : layer->attr.maxpool2d.kernel.h,
            .kernel_w = global ? src.w : layer->attr.maxpool2d.kernel.w,
            .stride_h = global ? 1 : layer->attr.maxpool2d.stride.h,
            .stride_w = global ? 1 : layer->attr.maxpool2d.stride.w,
            .pad_h = global ? 0 : layer->attr.maxpool2d.padding.h,
            .pad_w = global ? 0 : layer->attr.maxpool2d.padding.w,
            .relu = node->activation == LS_ACTIVATION_RELU,
            .training = b->options->training,
            .storage = b->store->storage } };
}

static ls_status pool_forward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = pool_desc(b, node, LS_OP_POOL_FORWARD);
    const ls_pool_attr *attr = &desc.attr.pool;
    const ls_node *biased_by = b->values[node->input[0]].biased_by;
    desc.attr.pool.has_bias = biased_by != NULL;
    LS_TRY(new_output(b, node, attr->dst));
    if (node == b->head_pool) return LS_SUCCESS; // the loss operator computes it (ls_builder_emit_loss)
    if (attr->training && attr->kind == LS_POOL_MAX) {
        size_t bytes = ls_pool_index_bytes(attr, elements_of(b, attr->dst));
        LS_TRY(ls_builder_slot(b, "pooling index", bytes, &node->index));
    }
    ls_ref refs[LS_POOL_FORWARD_ARGS] = {
        [LS_POOL_FORWARD_SRC] = input_ref(b, node),
        [LS_POOL_FORWARD_DST] = b->values[node->output].ref,
        [LS_POOL_FORWARD_INDEX] = node->index,
        [LS_POOL_FORWARD_BIAS] =
            biased_by ? ls_builder_param(b, biased_by, LS_ROLE_BIAS, LS_PARAM_MASTER) : (ls_ref){ 0 },
    };
    return ls_builder_emit(b, &desc, refs, LS_POOL_FORWARD_ARGS);
}

static ls_status pool_backward(ls_builder *b, ls_node *node) {
    if (node == b->head_pool) return LS_SUCCESS; // the loss operator has computed the gradient of the input
    ls_op_desc desc = pool_desc(b, node, LS_OP_POOL_BACKWARD);
    ls_ref refs[LS_POOL_BACKWARD_ARGS] = { [LS_POOL_BACKWARD_INDEX] = node->index };
    LS_TRY(ls_builder_grad(b, node, &refs[LS_POOL_BACKWARD_GRAD_DST]));
    LS_TRY(new_input_grad(b, node, &refs[LS_POOL_BACKWARD_GRAD_SRC]));
    return ls_builder_emit(b, &desc, refs, LS_POOL_BACKWARD_ARGS);
}

// --- element-wise --------------------------------------------------------------------------------

static ls_op_desc elementwise_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    return (ls_op_desc){ .op = op,
        .layer = node->layer->name,
        .attr.elementwise = { .shape = input_shape(b, node), .storage = b->store->storage } };
}

// Whether an activation works in place: after a convolution or linear layer whose output no other layer reads, because
// the backward pass of that layer does not read its output. In training only relu, because the other activations'
// backward passes read their input.
int ls_node_in_place(const ls_builder *b, const ls_node *node) {
    int input = node->layer->inputs[0];
    double parameter;
    const ls_activation activation = ls_layer_applies(node->layer, &parameter);
    if (activation == LS_ACTIVATION_NONE || input < 0 || b->readers[input] != 1) return 0;
    if (b->options->training && activation != LS_ACTIVATION_RELU) return 0;
    ls_layer_kind kind = b->graph->layers[input].kind;
    return kind == LS_LAYER_CONV2D || kind == LS_LAYER_LINEAR;
}

static ls_status output_in_place_or_new(ls_builder *b, const ls_node *node) {
    if (!ls_node_in_place(b, node)) return new_output(b, node, input_shape(b, node));
    b->values[node->output].shape = input_shape(b, node);
    b->values[node->output].ref = input_ref(b, node);
    return LS_SUCCESS;
}

// Emit the forward and the backward operator of any activation. reads: the value that the backward operator reads.
static ls_status emit_forward(ls_builder *b, ls_node *node, ls_op_desc desc) {
    LS_TRY(output_in_place_or_new(b, node));
    ls_ref refs[] = { input_ref(b, node), b->values[node->output].ref };
    return ls_builder_emit(b, &desc, refs, 2);
}

static ls_status emit_backward(ls_builder *b, ls_node *node, ls_op_desc desc, ls_ref reads) {
    ls_ref refs[3] = { reads };
    LS_TRY(ls_builder_grad(b, node, &refs[1]));
    LS_TRY(new_input_grad(b, node, &refs[2]));
    return ls_builder_emit(b, &desc, refs, 3);
}

static ls_status relu_forward(ls_builder *b, ls_node *node) {
    if (b->values[node->input[0]].rectified) return output_in_place_or_new(b, node);
    return emit_forward(b, node, elementwise_desc(b, node, LS_OP_RELU_FORWARD));
}

static ls_status relu_backward(ls_builder *b, ls_node *node) {
    return emit_backward(b, node, elementwise_desc(b, node, LS_OP_RELU_BACKWARD), b->values[node->output].ref);
}

static ls_op_desc activation_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    ls_op_desc desc = elementwise_desc(b, node, op);
    double parameter;
    desc.attr.elementwise.activation = ls_layer_applies(node->layer, &parameter);
    desc.attr.elementwise.parameter = (float)parameter;
    return desc;
}

static ls_status activation_forward(ls_builder *b, ls_node *node) {
    return emit_forward(b, node, activation_desc(b, node, LS_OP_ACTIVATION_FORWARD));
}

static ls_status activation_backward(ls_builder *b, ls_node *node) {
    return emit_backward(b, node, activation_desc(b, node, LS_OP_ACTIVATION_BACKWARD), input_ref(b, node));
}

static ls_status add_forward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = elementwise_desc(b, node, LS_OP_ADD);
    LS_TRY(new_output(b, node, input_shape(b, node)));
    ls_ref refs[LS_ADD_ARGS] = { [LS_ADD_A] = input_ref(b, node),
        [LS_ADD_B] = b->values[node->input[1]].ref,
        [LS_ADD_DST] = b->values[node->output].ref };
    return ls_builder_emit(b, &desc, refs, LS_ADD_ARGS);
}

static ls_status add_backward(ls_builder *b, ls_node *node) {
    ls_ref grad;
    LS_TRY(ls_builder_grad(b, node, &grad));
    LS_TRY(ls_builder_give_grad(b, node->input[0], grad));
    return ls_builder_give_grad(b, node->input[1], grad);
}

// --- multiply: element by element, or a map by a gate ---------------------------------------------

// Whether this input is a gate: one number per channel, for the other input, which is a map.
static int is_gate(const ls_builder *b, const ls_node *node, int input) {
    const ls_nchw own = b->values[node->input[input]].shape, other = b->values[node->input[1 - input]].shape;
    return own.h * own.w == 1 && other.h * other.w > 1;
}

// Emits dst = src * input number `by`. That input may be a gate.
static ls_status emit_product(ls_builder *b, const ls_node *node, ls_ref src, int by, ls_nchw shape, ls_ref dst) {
    const int gate = is_gate(b, node, by);
    ls_op_desc desc = { .op = gate ? LS_OP_GATE : LS_OP_MULTIPLY, .layer = node->layer->name };
    if (gate)
        desc.attr.gate = (ls_gate_attr){ .shape = shape, .storage = b->store->storage };
    else
        desc.attr.elementwise = (ls_elementwise_attr){ .shape = shape, .storage = b->store->storage };
    ls_ref refs[LS_GATE_ARGS] = {
        [LS_GATE_SRC] = src, [LS_GATE_GATE] = b->values[node->input[by]].ref, [LS_GATE_DST] = dst
    };
    return ls_builder_emit(b, &desc, refs, LS_GATE_ARGS);
}

static ls_status multiply_forward(ls_builder *b, ls_node *node) {
    const int map = is_gate(b, node, 0) ? 1 : 0;
    const ls_value *src = &b->values[node->input[map]];
    LS_TRY(new_output(b, node, src->shape));
    return emit_product(b, node, src->ref, 1 - map, src->shape, b->values[node->output].ref);
}

static ls_status emit_gate_backward(ls_builder *b, const ls_node *node, int map, ls_ref grad, ls_ref grad_gate) {
    const ls_value *src = &b->values[node->input[map]];
    ls_op_desc desc = { .op = LS_OP_GATE_BACKWARD,
        .layer = node->layer->name,
        .attr.gate = { .shape = src->shape, .storage = b->store->storage } };
    ls_ref refs[LS_GATE_BACKWARD_ARGS] = {
        [LS_GATE_BACKWARD_SRC] = src->ref, [LS_GATE_BACKWARD_GRAD_DST] = grad, [LS_GATE_BACKWARD_GRAD_GATE] = grad_gate
    };
    return ls_builder_emit(b, &desc, refs, LS_GATE_BACKWARD_ARGS);
}

static ls_status multiply_backward(ls_builder *b, ls_node *node) {
    ls_ref grad, grad_input;
    LS_TRY(ls_builder_grad(b, node, &grad));
    for (int i = 0; i < 2; i++) {
        const ls_value *input = &b->values[node->input[i]];
        if (!input->needs_grad) continue;
        LS_TRY(ls_builder_activation(b, node->layer->name, input->shape, &grad_input));
        if (is_gate(b, node, i))
            LS_TRY(emit_gate_backward(b, node, 1 - i, grad, grad_input));
        else
            LS_TRY(emit_product(b, node, grad, 1 - i, input->shape, grad_input));
        LS_TRY(ls_builder_give_grad(b, node->input[i], grad_input));
    }
    return LS_SUCCESS;
}
_Static_assert((int)LS_MULTIPLY_ARGS == (int)LS_GATE_ARGS && (int)LS_MULTIPLY_A == (int)LS_GATE_SRC &&
                   (int)LS_MULTIPLY_B == (int)LS_GATE_GATE && (int)LS_MULTIPLY_DST == (int)LS_GATE_DST,
    "emit_product has one list for both");

// --- concat, slice and shortcut: copies of channels -----------------------------------------------

static ls_status emit_copy(ls_builder *b, const ls_node *node, ls_channels_attr attr, const ls_ref src[2], ls_ref dst) {
    attr.two_sources = src[1].kind != LS_REF_NONE && !attr.interleave;
    attr.storage = b->store->storage;
    ls_op_desc desc = { .op = LS_OP_COPY_CHANNELS, .layer = node->layer->name, .attr.channels = attr };
    ls_ref refs[LS_COPY_CHANNELS_ARGS] = {
        [LS_COPY_CHANNELS_SRC] = src[0], [LS_COPY_CHANNELS_DST] = dst, [LS_COPY_CHANNELS_SRC2] = src[1]
    };
    return ls_builder_emit(b, &desc, refs, LS_COPY_CHANNELS_ARGS);
}

static ls_status concat_forward(ls_builder *b, ls_node *node) {
    const ls_nchw dst = ls_batch_of(input_shape(b, node).n, node->layer->out);
    LS_TRY(new_output(b, node, dst));
    if (node->layer->attr.concat.interleave) {
        const ls_value *one = &b->values[node->input[0]], *other = &b->values[node->input[1]];
        const ls_channels_attr attr = {
            .src = one->shape, .dst = dst, .count = one->shape.c, .stride = 1, .interleave = 1
        };
        return emit_copy(b, node, attr, (ls_ref[2]){ one->ref, other->ref }, b->values[node->output].ref);
    }
    for (int i = 0, at = 0; i < node->input_count; i++) {
        const ls_value *src = &b->values[node->input[i]];
        const ls_channels_attr attr = {
            .src = src->shape, .dst = dst, .to = at, .count = src->shape.c, .stride = 1, .keep = i > 0
        };
        LS_TRY(emit_copy(b, node, attr, (ls_ref[2]){ src->ref }, b->values[node->output].ref));
        at += src->shape.c;
    }
    return LS_SUCCESS;
}

static ls_status concat_backward(ls_builder *b, ls_node *node) {
    const ls_value *output = &b->values[node->output];
    const int turns = node->layer->attr.concat.interleave;
    ls_ref grads[2] = { output->grads[0], output->grads[1] }, grad_input;
    if (output->grad_count < 2 || !(b->device->api->fusions & LS_FUSES_CONCAT_ADD)) {
        LS_TRY(ls_builder_grad(b, node, &grads[0]));
        grads[1] = (ls_ref){ 0 };
    }
    for (int i = 0, at = 0; i < node->input_count; i++) {
        const ls_value *input = &b->values[node->input[i]];
        const ls_channels_attr attr = { .src = output->shape,
            .dst = input->shape,
            .from = at,
            .count = input->shape.c,
            .stride = 1,
            .alternate = turns };
        at += turns ? 1 : input->shape.c;
        if (!input->needs_grad) continue;
        LS_TRY(ls_builder_activation(b, node->layer->name, input->shape, &grad_input));
        LS_TRY(emit_copy(b, node, attr, grads, grad_input));
        LS_TRY(ls_builder_give_grad(b, node->input[i], grad_input));
    }
    return LS_SUCCESS;
}

static ls_status slice_forward(ls_builder *b, ls_node *node) {
    const ls_nchw src = input_shape(b, node), dst = ls_batch_of(src.n, node->layer->out);
    const ls_channels_attr attr = {
        .src = src, .dst = dst, .from = node->layer->attr.slice.from, .count = dst.c, .stride = 1
    };
    LS_TRY(new_output(b, node, dst));
    return emit_copy(b, node, attr, (ls_ref[2]){ input_ref(b, node) }, b->values[node->output].ref);
}

// Slices of a map share its newest gradient, as long as each has channels before or after those already written. Each
// writes its own channels, and the first one also writes zeros into all other channels.
static ls_status slice_backward(ls_builder *b, ls_node *node) {
    ls_value *input = &b->values[node->input[0]];
    const int from = node->layer->attr.slice.from, end = from + node->layer->out.c;
    const int joins =
        input->grad_count && input->sliced_end && (from >= input->sliced_end || end <= input->sliced_from);
    ls_ref grad, grad_src;
    LS_TRY(ls_builder_grad(b, node, &grad));
    if (joins)
        grad_src = input->grads[input->grad_count - 1];
    else
        LS_TRY(new_input_grad(b, node, &grad_src));
    input->sliced_from = joins && input->sliced_from < from ? input->sliced_from : from;
    input->sliced_end = joins && input->sliced_end > end ? input->sliced_end : end;
    const ls_channels_attr attr = { .src = b->values[node->output].shape,
        .dst = input->shape,
        .to = from,
        .count = end - from,
        .stride = 1,
        .keep = joins };
    return emit_copy(b, node, attr, (ls_ref[2]){ grad }, grad_src);
}

static ls_channels_attr shortcut_attr(const ls_builder *b, const ls_node *node) {
    const ls_nchw src = input_shape(b, node), dst = ls_batch_of(src.n, node->layer->out);
    return (ls_channels_attr){
        .src = src, .dst = dst, .to = (dst.c - src.c) / 2, .count = src.c, .stride = node->layer->attr.shortcut.stride
    };
}

static ls_status shortcut_forward(ls_builder *b, ls_node *node) {
    const ls_channels_attr attr = shortcut_attr(b, node);
    LS_TRY(new_output(b, node, attr.dst));
    return emit_copy(b, node, attr, (ls_ref[2]){ input_ref(b, node) }, b->values[node->output].ref);
}

static ls_status shortcut_backward(ls_builder *b, ls_node *node) {
    const ls_channels_attr forward = shortcut_attr(b, node);
    const ls_channels_attr attr = { .src = forward.dst,
        .dst = forward.src,
        .from = forward.to,
        .count = forward.count,
        .stride = forward.stride,
        .spread = 1 };
    ls_ref grad, grad_src;
    LS_TRY(ls_builder_grad(b, node, &grad));
    LS_TRY(new_input_grad(b, node, &grad_src));
    return emit_copy(b, node, attr, (ls_ref[2]){ grad }, grad_src);
}

// --- groupnorm, layernorm and layerscale ---------------------------------------------------------

static ls_op_desc group_norm_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    const ls_layer_group_norm *l = &node->layer->attr.groupnorm; // of all three kinds
    const ls_layer_kind kind = node->layer->kind;
    return (ls_op_desc){ .op = op,
        .layer = node->layer->name,
        .attr.group_norm = { .shape = input_shape(b, node),
            .groups = l->groups,
            .eps = (float)l->eps,
            .affine = l->affine,
            .storage = b->store->storage,
            .over = kind == LS_LAYER_LAYERNORM    ? LS_NORM_OVER_PIXELS
                    : kind == LS_LAYER_LAYERSCALE ? LS_NORM_OVER_NOTHING
                                                  : LS_NORM_OVER_GROUPS } };
}

static ls_status group_norm_forward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = group_norm_desc(b, node, LS_OP_GROUP_NORM_FORWARD);
    const ls_group_norm_attr *attr = &desc.attr.group_norm;
    LS_TRY(new_output(b, node, attr->shape));
    const size_t saved = 2 * (size_t)ls_group_norm_means(attr) * sizeof(float);
    if (saved) LS_TRY(ls_builder_slot(b, "saved statistics", saved, &node->saved));
    ls_ref refs[LS_GROUP_NORM_FORWARD_ARGS] = {
        [LS_GROUP_NORM_FORWARD_SRC] = input_ref(b, node),
        [LS_GROUP_NORM_FORWARD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_MASTER),
        [LS_GROUP_NORM_FORWARD_BETA] = ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_MASTER),
        [LS_GROUP_NORM_FORWARD_SAVED] = node->saved,
        [LS_GROUP_NORM_FORWARD_DST] = b->values[node->output].ref,
    };
    return ls_builder_emit(b, &desc, refs, LS_GROUP_NORM_FORWARD_ARGS);
}

static ls_status group_norm_backward(ls_builder *b, ls_node *node) {
    ls_op_desc desc = group_norm_desc(b, node, LS_OP_GROUP_NORM_BACKWARD);
    ls_ref refs[LS_GROUP_NORM_BACKWARD_ARGS] = {
        [LS_GROUP_NORM_BACKWARD_SRC] = input_ref(b, node),
        [LS_GROUP_NORM_BACKWARD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_MASTER),
        [LS_GROUP_NORM_BACKWARD_SAVED] = node->saved,
        [LS_GROUP_NORM_BACKWARD_GRAD_GAMMA] = ls_builder_param(b, node, LS_ROLE_NORM_WEIGHT, LS_PARAM_GRAD),
        [LS_GROUP_NORM_BACKWARD_GRAD_BETA] = ls_builder_param(b, node, LS_ROLE_NORM_BIAS, LS_PARAM_GRAD),
    };
    LS_TRY(ls_builder_grad(b, node, &refs[LS_GROUP_NORM_BACKWARD_GRAD_DST]));
    LS_TRY(new_input_grad(b, node, &refs[LS_GROUP_NORM_BACKWARD_GRAD_SRC]));
    LS_TRY(ls_builder_emit(b, &desc, refs, LS_GROUP_NORM_BACKWARD_ARGS));
    if (has_gradient(b, node, LS_ROLE_NORM_WEIGHT) || has_gradient(b, node, LS_ROLE_NORM_BIAS))
        ls_builder_completes(b, node);
    return LS_SUCCESS;
}

static ls_status emit_scale(ls_builder *b, const ls_node *node, ls_ref src, ls_ref dst) {
    ls_op_desc desc = elementwise_desc(b, node, LS_OP_SCALE);
    desc.attr.elementwise.factor = (float)node->layer->attr.scale.factor;
    ls_ref refs[LS_SCALE_ARGS] = { [LS_SCALE_SRC] = src, [LS_SCALE_DST] = dst };
    return ls_builder_emit(b, &desc, refs, LS_SCALE_ARGS);
}

static ls_status scale_forward(ls_builder *b, ls_node *node) {
    LS_TRY(new_output(b, node, input_shape(b, node)));
    return emit_scale(b, node, input_ref(b, node), b->values[node->output].ref);
}

static ls_status scale_backward(ls_builder *b, ls_node *node) {
    ls_ref grad, grad_src;
    LS_TRY(ls_builder_grad(b, node, &grad));
    LS_TRY(new_input_grad(b, node, &grad_src));
    return emit_scale(b, node, grad, grad_src);
}

// --- quantise ------------------------------------------------------------------------------------

static ls_op_desc quantise_desc(const ls_builder *b, const ls_node *node, ls_op op) {
    return (ls_op_desc){ .op = op, .layer = node->layer->name, .attr.quantise = { .shape = input_shape(b, node) } };
}

static ls_status quantise_forward(ls_builder *b, ls_node *node) {
    const ls_op_desc desc = quantise_desc(b, node, LS_OP_FAKE_QUANTISE);
    LS_TRY(new_output(b, node, input_shape(b, node)));
    ls_ref refs[LS_FAKE_QUANTISE_ARGS] = {
        [LS_FAKE_QUANTISE_SRC] = input_ref(b, node),
        [LS_FAKE_QUANTISE_SCALE] = ls_builder_param(b, node, LS_ROLE_GRID_SCALE, LS_PARAM_MASTER),
        [LS_FAKE_QUANTISE_ZERO] = ls_builder_param(b, node, LS_ROLE_GRID_ZERO, LS_PARAM_MASTER),
        [LS_FAKE_QUANTISE_DST] = b->values[node->output].ref,
    };
    return ls_builder_emit(b, &desc, refs, LS_FAKE_QUANTISE_ARGS);
}

static ls_status quantise_backward(ls_builder *b, ls_node *node) {
    const ls_op_desc desc = quantise_desc(b, node, LS_OP_FAKE_QUANTISE_BACKWARD);
    ls_ref refs[LS_FAKE_QUANTISE_BACKWARD_ARGS] = {
        [LS_FAKE_QUANTISE_BACKWARD_SRC] = input_ref(b, node),
        [LS_FAKE_QUANTISE_BACKWARD_SCALE] = ls_builder_param(b, node, LS_ROLE_GRID_SCALE, LS_PARAM_MASTER),
        [LS_FAKE_QUANTISE_BACKWARD_ZERO] = ls_builder_param(b, node, LS_ROLE_GRID_ZERO, LS_PARAM_MASTER),
    };
    LS_TRY(ls_builder_grad(b, node, &refs[LS_FAKE_QUANTISE_BACKWARD_GRAD_DST]));
    LS_TRY(new_input_grad(b, node, &refs[LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC]));
    return ls_builder_emit(b, &desc, refs, LS_FAKE_QUANTISE_BACKWARD_ARGS);
}

static ls_status emit_dropout(ls_builder *b, const ls_node *node, ls_ref src, ls_ref dst) {
    ls_op_desc desc = elementwise_desc(b, node, LS_OP_DROPOUT);
    const ls_nchw s = desc.attr.elementwise.shape;
    desc.attr.elementwise.p = (float)node->layer->attr.dropout.p;
    desc.attr.elementwise.unit = node->layer->kind == LS_LAYER_DROPPATH    ? s.c * s.h * s.w
                                 : node->layer->kind == LS_LAYER_DROPOUT2D ? s.h * s.w
                                                                           : 1;
    desc.attr.elementwise.layer = node->layer_index;
    desc.attr.elementwise.seed = b->options->seed;
    ls_ref refs[LS_DROPOUT_ARGS] = {
        [LS_DROPOUT_SRC] = src,
        [LS_DROPOUT_MICRO] = ls_ref_input(LS_INPUT_MICRO),
        [LS_DROPOUT_DST] = dst,
    };
    return ls_builder_emit(b, &desc, refs, LS_DROPOUT_ARGS);
}

static ls_status dropout_forward(ls_builder *b, ls_node *node) {
    LS_TRY(new_output(b, node, input_shape(b, node)));
    return emit_dropout(b, node, input_ref(b, node), b->values[node->output].ref);
}

static ls_status dropout_backward(ls_builder *b, ls_node *node) {
    ls_ref grad, grad_src;
    LS_TRY(ls_builder_grad(b, node, &grad));
    LS_TRY(new_input_grad(b, node, &grad_src));
    return emit_dropout(b, node, grad, grad_src);
}

const ls_lowering ls_lowerings[LS_LAYER_COUNT] = {
    [LS_LAYER_CONV2D] = { conv_forward, conv_backward, LS_READS_INPUT },
    [LS_LAYER_LINEAR] = { linear_forward, linear_backward, LS_READS_INPUT },
    [LS_LAYER_RELU] = { relu_forward, relu_backward, LS_READS_OUTPUT },
#define ACTIVATION(NAME, name, zero, text) \
    [LS_LAYER_##NAME] = { activation_forward, activation_backward, LS_READS_INPUT },
#include "config/activations.def"
    [LS_LAYER_GROUPNORM] = { group_norm_forward, group_norm_backward, LS_READS_INPUT },
    [LS_LAYER_LAYERNORM] = { group_norm_forward, group_norm_backward, LS_READS_INPUT },
    [LS_LAYER_LAYERSCALE] = { group_norm_forward, group_norm_backward, LS_READS_INPUT },
    [LS_LAYER_BATCHNORM2D] = { norm_forward, norm_backward, LS_READS_INPUT | LS_READS_RELU },
    [LS_LAYER_MAXPOOL2D] = { pool_forward, pool_backward, 0 },
    [LS_LAYER_AVGPOOL2D] = { pool_forward, pool_backward, 0 },
    [LS_LAYER_GLOBALAVGPOOL] = { pool_forward, pool_backward, 0 },
    [LS_LAYER_GLOBALMAXPOOL] = { pool_forward, pool_backward, 0 },
    [LS_LAYER_DROPOUT] = { dropout_forward, dropout_backward, 0 },
    [LS_LAYER_DROPOUT2D] = { dropout_forward, dropout_backward, 0 },
    [LS_LAYER_DROPPATH] = { dropout_forward, dropout_backward, 0 },
    [LS_LAYER_ADD] = { add_forward, add_backward, 0 },
    [LS_LAYER_MULTIPLY] = { multiply_forward, multiply_backward, LS_READS_INPUTS },
    [LS_LAYER_CONCAT] = { concat_forward, concat_backward, 0 },
    [LS_LAYER_SLICE] = { slice_forward, slice_backward, 0 },
    [LS_LAYER_SHORTCUT] = { shortcut_forward, shortcut_backward, 0 },
    [LS_LAYER_FLATTEN] = { 0 }, // becomes no operator (compile.c)
    [LS_LAYER_SCALE] = { scale_forward, scale_backward, 0 },
    [LS_LAYER_QUANTISE] = { quantise_forward, quantise_backward, LS_READS_INPUT },
};
