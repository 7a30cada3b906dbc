// head.c - the loss, and the last layers of a network that the loss operator computes on some devices.
//
// The loss takes in a scale of the logits at the end of the network (LS_FUSES_SCALE). It takes in the linear layer that
// makes the logits and a global pooling before it (LS_FUSES_HEAD); it then also computes the gradient of the map before
// them. Both happen in training only, because evaluation reads the logits.
#include "program/compile_internal.h"

static int last_layer(const ls_builder *b) {
    return b->graph->layer_count - 1;
}

int ls_builder_joins_loss(const ls_builder *b, int l) {
    const ls_layer *layer = &b->graph->layers[l];
    return b->options->training && b->device->api->fusions & LS_FUSES_SCALE && l == last_layer(b) && !b->teacher &&
           layer->kind == LS_LAYER_SCALE && layer->attr.scale.factor != 0;
}

// Returns the node that computes a value, or NULL if another node than `reader` reads the value, or if it is the
// network's input.
static const ls_node *maker_of(const ls_builder *b, int value, const ls_node *reader) {
    for (int n = 0; n < b->node_count; n++)
        for (int i = 0; i < b->nodes[n].input_count; i++)
            if (b->nodes[n].input[i] == value && &b->nodes[n] != reader) return NULL;
    // values[0] is the network's input; value n is the output of node n - 1.
    return value > 0 ? &b->nodes[value - 1] : NULL;
}

static int pools_whole_map(const ls_builder *b, const ls_node *node) {
    const ls_layer *layer = node->layer;
    if (node->activation != LS_ACTIVATION_NONE || b->values[node->input[0]].biased_by) return 0;
    if (layer->kind == LS_LAYER_GLOBALAVGPOOL || layer->kind == LS_LAYER_GLOBALMAXPOOL) return 1;
    if (layer->kind != LS_LAYER_AVGPOOL2D && layer->kind != LS_LAYER_MAXPOOL2D) return 0;
    const ls_nchw src = b->values[node->input[0]].shape;
    return layer->attr.maxpool2d.kernel.h == src.h && layer->attr.maxpool2d.kernel.w == src.w &&
           layer->attr.maxpool2d.padding.h == 0 && layer->attr.maxpool2d.padding.w == 0;
}

// The head must be the last nodes of the network. Recomputation (recompute.c) then never computes it a second time: it
// lies in the last block, or the pooling ends the block before it and its output is kept.
int ls_builder_find_head(ls_builder *b) {
    const int logits = b->value_of[last_layer(b)];
    const ls_compile_options *o = b->options;
    // then the head's operator can compute the loss (op_loss.h)
    const int fits = !b->teacher && !b->quantises && !o->several && o->focal_gamma == 0;
    if (!o->training || !(b->device->api->fusions & LS_FUSES_HEAD) || !fits) return 0;
    const ls_node *linear = maker_of(b, logits, NULL);
    if (linear != &b->nodes[b->node_count - 1] || linear->layer->kind != LS_LAYER_LINEAR ||
        !b->values[linear->input[0]].needs_grad)
        return 0;
    const ls_nchw src = b->values[linear->input[0]].shape;
    if (src.h * src.w != 1 || !ls_head_fits(src, b->values[logits].shape.c)) return 0;
    b->head = linear;
    const ls_node *pool = maker_of(b, linear->input[0], linear);
    if (pool && pool == linear - 1 && pools_whole_map(b, pool) &&
        ls_head_fits(b->values[pool->input[0]].shape, b->values[logits].shape.c))
        b->head_pool = pool;
    return 1;
}

static ls_op_desc loss_desc(const ls_builder *b) {
    const ls_compile_options *o = b->options;
    const int last = last_layer(b);
    return (ls_op_desc){ .op = LS_OP_LOSS,
        .layer = "loss",
        .attr.loss = { .logits = b->values[b->value_of[last]].shape,
            .smoothing = o->training ? o->label_smoothing : 0.0f,
            .training = o->training,
            .storage = b->store->storage,
            .mixed = ls_augment_mixes(&o->augmentation),
            .weighted = o->training && o->weighted,
            .several = o->several,
            .focal_gamma = o->training ? o->focal_gamma : 0.0f,
            .mean_of = o->training ? o->mean_of : 0,
            .teacher_share = b->teacher ? o->teacher_share : 0,
            .scale = ls_builder_joins_loss(b, last) ? (float)b->graph->layers[last].attr.scale.factor : 0 } };
}

// Turns the loss operator into the head operator, and books the gradient of the head's input.
static ls_status join_head(ls_builder *b, ls_op_desc *desc, ls_ref *refs) {
    const ls_node *linear = b->head, *pool = b->head_pool;
    const ls_value *src = &b->values[pool ? pool->input[0] : linear->input[0]];
    desc->op = LS_OP_HEAD;
    desc->layer = linear->layer->name;
    desc->attr.loss.src = src->shape;
    desc->attr.loss.max_pool =
        pool && (pool->layer->kind == LS_LAYER_MAXPOOL2D || pool->layer->kind == LS_LAYER_GLOBALMAXPOOL);
    desc->attr.loss.has_bias = linear->layer->attr.linear.bias;
    refs[LS_HEAD_SRC] = src->ref;
    refs[LS_HEAD_WEIGHT] = ls_builder_param(b, linear, LS_ROLE_WEIGHT, LS_PARAM_WORKING);
    refs[LS_HEAD_BIAS] = ls_builder_param(b, linear, LS_ROLE_BIAS, LS_PARAM_WORKING);
    if (pool) refs[LS_HEAD_POOLED] = b->values[pool->output].ref;
    return ls_builder_activation(b, linear->layer->name, src->shape, &refs[LS_HEAD_GRAD_SRC]);
}

// Emits the teacher's part of the loss. It adds to the gradient of the logits, which the loss has written.
static ls_status emit_distill(ls_builder *b, const ls_value *logits, ls_ref grad) {
    const ls_builder *t = b->teacher;
    const ls_compile_options *o = b->options;
    if (!t) return LS_SUCCESS;
    const ls_op_desc desc = { .op = LS_OP_DISTILL,
        .layer = "loss",
        .attr.distill = { .logits = logits->shape,
            .temperature = o->temperature,
            .share = o->teacher_share,
            .storage = b->store->storage,
            .mean_of = o->mean_of } };
    const ls_ref refs[LS_DISTILL_ARGS] = {
        [LS_DISTILL_LOGITS] = logits->ref,
        [LS_DISTILL_TEACHER] = t->values[t->value_of[last_layer(t)]].ref,
        [LS_DISTILL_MICRO] = ls_ref_input(LS_INPUT_MICRO),
        [LS_DISTILL_STATE] = ls_ref_input(LS_INPUT_STATE),
        [LS_DISTILL_RESULT] = ls_ref_input(LS_INPUT_RESULT),
        [LS_DISTILL_GRAD_LOGITS] = grad,
    };
    return ls_builder_emit(b, &desc, refs, LS_DISTILL_ARGS);
}

ls_status ls_builder_emit_loss(ls_builder *b) {
    const int value = b->value_of[last_layer(b)];
    const ls_value *logits = &b->values[value];
    b->program->logits = logits->ref;
    b->program->logits_shape = logits->shape;
    ls_op_desc desc = loss_desc(b);
    ls_ref refs[LS_HEAD_ARGS] = {
        [LS_LOSS_LOGITS] = logits->ref,
        [LS_LOSS_LABELS] = ls_ref_input(LS_INPUT_LABELS),
        [LS_LOSS_MICRO] = ls_ref_input(LS_INPUT_MICRO),
        [LS_LOSS_STATE] = ls_ref_input(LS_INPUT_STATE),
        [LS_LOSS_RESULT] = ls_ref_input(LS_INPUT_RESULT),
        [LS_LOSS_SAMPLE] = desc.attr.loss.mixed ? ls_ref_input(LS_INPUT_AUGMENT) : (ls_ref){ 0 },
        [LS_LOSS_WEIGHTS] = desc.attr.loss.weighted ? ls_ref_input(LS_INPUT_CLASS_WEIGHTS) : (ls_ref){ 0 },
        [LS_LOSS_SETS] = desc.attr.loss.several ? ls_ref_input(LS_INPUT_LABEL_SETS) : (ls_ref){ 0 },
    };
    ls_ref *grad = &refs[LS_LOSS_GRAD_LOGITS];
    if (b->options->training) LS_TRY(ls_builder_activation(b, "loss gradient", logits->shape, grad));
    if (b->head) LS_TRY(join_head(b, &desc, refs));
    LS_TRY(ls_builder_emit(b, &desc, refs, ls_op_args(desc.op)));
    if (!b->options->training) return LS_SUCCESS;
    LS_TRY(emit_distill(b, logits, *grad));
    if (b->head)
        LS_TRY(ls_builder_give_grad(b, (b->head_pool ? b->head_pool : b->head)->input[0], refs[LS_HEAD_GRAD_SRC]));
    return ls_builder_give_grad(b, value, *grad);
}
