#include "program/compile.h"

#include <assert.h>
#include "base/memory.h"
#include "config/values.h"
#include "program/compile_internal.h"

// --- values, slots, instructions -----------------------------------------------------------------

ls_ref ls_ref_input(ls_program_input input) {
    return (ls_ref){ .kind = LS_REF_INPUT, .index = (int)input };
}

// Whether the parameter's gradient is computed: it is trained, and its rate is not 0 in all epochs of this program.
static int wants_grad(const ls_builder *b, int param) {
    const ls_param_rules *rules = b->store->options.rules;
    return ls_param_store_trains(b->store, param) && !(rules && ls_param_rules_ended(rules, param, b->options->epoch));
}

ls_ref ls_builder_param(const ls_builder *b, const ls_node *node, ls_param_role role, ls_param_copy copy) {
    for (int p = node->layer->first_param; p < node->layer->first_param + node->layer->param_count; p++) {
        if (b->graph->params[p].role != role) continue;
        const int has_grad = ls_role_is_statistic(role) ? ls_param_store_changes(b->store, p) : wants_grad(b, p);
        if (copy < LS_PARAM_GRAD || has_grad) return (ls_ref){ .kind = b->params, .index = p, .copy = copy };
    }
    return (ls_ref){ 0 };
}

ls_status ls_builder_slot(ls_builder *b, const char *name, size_t bytes, ls_ref *out) {
    *out = (ls_ref){ .kind = LS_REF_SLOT };
    // the next instruction writes the slot
    return ls_buffer_planner_book(b->program->planner, name, bytes, b->emitted, b->emitted, &out->index);
}

ls_status ls_builder_activation(ls_builder *b, const char *name, ls_nchw shape, ls_ref *out) {
    return ls_builder_slot(b, name, b->device->api->activation_bytes(b->device, shape, b->store->storage), out);
}

// For recomputation: returns the operator's plan of the forward pass. Both passes emit operators in the same order.
static ls_plan *plan_of_first_time(ls_builder *b, const ls_op_desc *desc) {
    const ls_instruction *first = b->program->instructions;
    while (first[b->again_at].plan->desc.op != desc->op || first[b->again_at].plan->desc.layer != desc->layer)
        b->again_at++;
    return first[b->again_at++].plan;
}

static ls_status add_instruction(ls_builder *b, const ls_op_desc *desc, const ls_ref *refs, int count) {
    ls_program *program = b->program;
    program->instructions = ls_grow(program->instructions, program->count, sizeof *program->instructions,
        "program of %d instructions", program->count);
    ls_instruction *instruction = &program->instructions[program->count];
    *instruction = (ls_instruction){ .plan_is_shared = b->again, .arg_count = count };
    if (b->again)
        instruction->plan = plan_of_first_time(b, desc);
    else
        LS_TRY(b->device->api->plan_new(b->device, desc, &instruction->plan));
    if (instruction->plan->workspace_bytes > program->workspace_bytes)
        program->workspace_bytes = instruction->plan->workspace_bytes;
    for (int a = 0; a < count; a++) instruction->refs[a] = refs[a];
    program->count++;
    return LS_SUCCESS;
}

ls_status ls_builder_emit(ls_builder *b, const ls_op_desc *desc, const ls_ref *refs, int count) {
    assert(count == ls_op_args(desc->op));
    for (int a = 0; a < count; a++)
        if (refs[a].kind == LS_REF_SLOT) ls_buffer_planner_extend(b->program->planner, refs[a].index, b->emitted);
    b->emitted++;
    return b->measuring ? LS_SUCCESS : add_instruction(b, desc, refs, count);
}

// --- gradients of values -------------------------------------------------------------------------

static ls_status add_grads(ls_builder *b, ls_value *value, const char *layer) {
    ls_ref sum;
    LS_TRY(ls_builder_activation(b, layer, value->shape, &sum));
    ls_op_desc desc = {
        .op = LS_OP_ADD, .layer = layer, .attr.elementwise = { .shape = value->shape, .storage = b->store->storage }
    };
    ls_ref refs[LS_ADD_ARGS] = { [LS_ADD_A] = value->grads[0], [LS_ADD_B] = value->grads[1], [LS_ADD_DST] = sum };
    LS_TRY(ls_builder_emit(b, &desc, refs, LS_ADD_ARGS));
    value->grads[0] = sum;
    value->grad_count = 1;
    return LS_SUCCESS;
}

ls_status ls_builder_give_grad(ls_builder *b, int index, ls_ref grad) {
    ls_value *value = &b->values[index];
    if (!value->needs_grad) return LS_SUCCESS;
    if (value->grad_count == LS_GRADS_MAX) LS_TRY(add_grads(b, value, "sum of gradients"));
    value->grads[value->grad_count++] = grad;
    value->sliced_from = value->sliced_end = 0;
    return LS_SUCCESS;
}

ls_status ls_builder_grad(ls_builder *b, const ls_node *node, ls_ref *out) {
    ls_value *value = &b->values[node->output];
    assert(value->grad_count > 0);
    if (value->grad_count == 2) LS_TRY(add_grads(b, value, node->layer->name));
    *out = value->grads[0];
    return LS_SUCCESS;
}

// --- fusion --------------------------------------------------------------------------------------

static void count_readers(ls_builder *b) {
    for (int l = 0; l < b->graph->layer_count; l++)
        for (int i = 0; i < b->graph->layers[l].input_count; i++)
            if (b->graph->layers[l].inputs[i] >= 0) b->readers[b->graph->layers[l].inputs[i]]++;
    b->readers[b->graph->layer_count - 1]++; // the loss reads the network's output
}

// Returns the only layer that reads layer l, or -1.
static int sole_reader(const ls_builder *b, int l) {
    if (b->readers[l] != 1) return -1;
    for (int r = l + 1; r < b->graph->layer_count; r++)
        for (int i = 0; i < b->graph->layers[r].input_count; i++)
            if (b->graph->layers[r].inputs[i] == l) return r;
    return -1;
}

// Returns the only layer that reads layer l if it is of this kind, else -1.
static int only_reader(const ls_builder *b, int l, ls_layer_kind kind) {
    const int reader = sole_reader(b, l);
    return reader >= 0 && b->graph->layers[reader].kind == kind ? reader : -1;
}

// Returns the layer whose node computes layer l, after fusion.
static int anchor(const ls_builder *b, int l) {
    while (l >= 0 && b->absorbed_by[l] >= 0) l = b->absorbed_by[l];
    return l;
}

static int is_square(ls_pair pair) {
    return pair.h == pair.w;
}

// Whether the window suits a fused pooling: it is square, never reaches beyond the padding (no ceil_mode), and is small
// enough for an index of one byte.
static int window_fits(const ls_layer *pool) {
    const ls_layer_pool *a = &pool->attr.maxpool2d;
    return is_square(a->kernel) && is_square(a->stride) && is_square(a->padding) && !a->ceil_mode &&
           a->kernel.h * a->kernel.w < LS_POOL_NONE_U8;
}

// Whether the device can fuse the pooling into the batch norm. Some devices take any window that fits, others only 2x2
// windows that do not overlap and cover the map.
static int norm_takes_pool(const ls_builder *b, const ls_layer *norm, const ls_layer *pool) {
    const ls_layer_pool *a = &pool->attr.maxpool2d;
    if (!window_fits(pool) || ls_param_rules_stored(b->store->options.rules, norm))
        return 0; // with stored statistics the forward operator is that of evaluation, which writes no pooling index
    if (b->device->api->fusions & LS_FUSES_NORM_POOL) return 1;
    return b->device->api->fusions & LS_FUSES_NORM_POOL_2X2 && a->kernel.h == 2 && a->stride.h == 2 &&
           a->padding.h == 0 && norm->out.h % 2 == 0 && norm->out.w % 2 == 0;
}

// Fuses an add into batchnorm2d at layer l, if the add is the only reader of layer `last` and its other operand is
// computed before layer l. Returns 1 if so.
static int takes_add(ls_builder *b, int l, int last, ls_node *node) {
    const ls_layer *layers = b->graph->layers;
    const int add = only_reader(b, last, LS_LAYER_ADD);
    if (add < 0) return 0;
    const int other = layers[add].inputs[0] == last ? layers[add].inputs[1] : layers[add].inputs[0];
    if (other == last || anchor(b, other) >= l) return 0;
    node->residual = 1;
    node->input[node->input_count++] = other < 0 ? 0 : b->value_of[other];
    b->absorbed_by[add] = l;
    return 1;
}

// Fuses an activation into batchnorm2d at layer l, if it is the only reader and its value at 0 is 0 (padding stays 0).
static void takes_activation(ls_builder *b, int l, ls_node *node) {
    const int reader = sole_reader(b, l);
    if (reader < 0) return;
    double parameter;
    const ls_activation kind = ls_layer_applies(&b->graph->layers[reader], &parameter);
    if (kind == LS_ACTIVATION_NONE || !ls_activation_keeps_zero(kind)) return;
    node->activation = kind;
    node->parameter = parameter;
    b->absorbed_by[reader] = l;
}

// Fuses layers into batchnorm2d at layer l: the add that reads it, the relu after that, and after the relu, if the
// device can, a max pooling (or an add, if no add came before the relu). Alternatively another activation.
static void fuse_norm(ls_builder *b, int l, ls_node *node) {
    const ls_layer *layers = b->graph->layers;
    const int last = takes_add(b, l, l, node) ? only_reader(b, l, LS_LAYER_ADD) : l;
    int relu = only_reader(b, last, LS_LAYER_RELU);
    if (relu >= 0) {
        node->activation = LS_ACTIVATION_RELU;
        b->absorbed_by[relu] = l;
        if (b->device->api->fusions & LS_FUSES_RELU_ADD && !node->residual)
            node->adds_last = takes_add(b, l, relu, node);
        int pool = only_reader(b, relu, LS_LAYER_MAXPOOL2D);
        if (pool >= 0 && norm_takes_pool(b, &layers[l], &layers[pool])) {
            node->pool = &layers[pool];
            b->absorbed_by[pool] = l;
        }
    }
    // Another activation after an add is not fused: its gradient would need the residual a second time.
    if (relu < 0 && !node->residual) takes_activation(b, l, node);
}

static int is_max_pool(ls_layer_kind kind) {
    return kind == LS_LAYER_MAXPOOL2D || kind == LS_LAYER_GLOBALMAXPOOL;
}

// Whether a max pooling is the only reader of this relu. The pooling computes the relu, unless a batch norm does.
static int joins_pooling(const ls_builder *b, int relu) {
    return only_reader(b, relu, LS_LAYER_MAXPOOL2D) >= 0 || only_reader(b, relu, LS_LAYER_GLOBALMAXPOOL) >= 0;
}

static int fuses_bias(const ls_builder *b) {
    return (b->device->api->fusions & LS_FUSES_BIAS) != 0;
}

// Whether the max pooling after this convolution adds its bias. A relu may lie in between.
static int bias_joins_pooling(const ls_builder *b, int conv) {
    if (!fuses_bias(b) || !b->graph->layers[conv].attr.conv2d.bias) return 0;
    const int relu = only_reader(b, conv, LS_LAYER_RELU), last = relu >= 0 ? relu : conv;
    return only_reader(b, last, LS_LAYER_MAXPOOL2D) >= 0 || only_reader(b, last, LS_LAYER_GLOBALMAXPOOL) >= 0;
}

static int value_of_input(const ls_builder *b, int layer) {
    return layer < 0 ? 0 : b->value_of[layer];
}

// Turns layer l into a node with a value of its own, or into nothing: then it shares another layer's value.
static void add_layer(ls_builder *b, int l) {
    const ls_layer *layer = &b->graph->layers[l];
    if (b->absorbed_by[l] >= 0) {
        b->value_of[l] = b->value_of[b->absorbed_by[l]];
        return;
    }
    int input = value_of_input(b, layer->inputs[0]);
    const int drops =
        layer->kind == LS_LAYER_DROPOUT || layer->kind == LS_LAYER_DROPOUT2D || layer->kind == LS_LAYER_DROPPATH;
    const int drops_none = drops && (!b->options->training || layer->attr.dropout.p == 0);
    int vanishes = layer->kind == LS_LAYER_FLATTEN || drops_none ||
                   (layer->kind == LS_LAYER_RELU && joins_pooling(b, l)) || ls_builder_joins_loss(b, l);
    if (vanishes) {
        b->value_of[l] = input;
        return;
    }
    ls_node *node = &b->nodes[b->node_count++];
    *node = (ls_node){ .layer = layer, .layer_index = l, .input_count = layer->input_count };
    for (int i = 0; i < layer->input_count; i++) node->input[i] = value_of_input(b, layer->inputs[i]);
    if (layer->kind == LS_LAYER_BATCHNORM2D) fuse_norm(b, l, node);
    if (is_max_pool(layer->kind) && layer->inputs[0] >= 0 && b->graph->layers[layer->inputs[0]].kind == LS_LAYER_RELU &&
        b->absorbed_by[layer->inputs[0]] < 0 && joins_pooling(b, layer->inputs[0]))
        node->activation = LS_ACTIVATION_RELU;
    node->output = b->value_count++;
    b->value_of[l] = node->output;
    ls_value *value = &b->values[node->output];
    if (layer->kind == LS_LAYER_CONV2D && bias_joins_pooling(b, l)) value->biased_by = node;
    value->rectified = layer->kind == LS_LAYER_LINEAR && layer->attr.linear.bias && fuses_bias(b) &&
                       only_reader(b, l, LS_LAYER_RELU) >= 0;
}

static int trained_params(const ls_builder *b, const ls_layer *layer) {
    int count = 0;
    for (int p = layer->first_param; p < layer->first_param + layer->param_count; p++)
        count += ls_param_store_trains(b->store, p);
    return count;
}

static void mark_needs_grad(ls_builder *b) {
    for (int n = 0; n < b->node_count; n++) {
        const ls_node *node = &b->nodes[n];
        const int first = node->layer->first_param;
        int needs = 0;
        for (int p = first; p < first + node->layer->param_count; p++) needs |= wants_grad(b, p);
        for (int i = 0; i < node->input_count; i++) needs |= b->values[node->input[i]].needs_grad;
        b->values[node->output].needs_grad = needs && b->options->training;
    }
}

// --- the whole -----------------------------------------------------------------------------------

// Emits TrivialAugment if it is on. The changed pictures then take the place of *pixels, and *index becomes absent.
static ls_status emit_trivial_augment(ls_builder *b, ls_op_desc *augment, ls_ref *pixels, ls_ref *index) {
    ls_op_desc desc = *augment;
    ls_ref refs[LS_TRIVIAL_AUGMENT_ARGS] = { [LS_TRIVIAL_AUGMENT_PIXELS] = *pixels,
        [LS_TRIVIAL_AUGMENT_SAMPLE] = ls_ref_input(LS_INPUT_AUGMENT),
        [LS_TRIVIAL_AUGMENT_INDEX] = *index };
    if (!desc.attr.augment.augmentation.trivial_augment) return LS_SUCCESS;
    desc.op = LS_OP_TRIVIAL_AUGMENT;
    desc.attr.augment.storage = LS_F32;
    const size_t bytes = (size_t)ls_nchw_count(desc.attr.augment.shape);
    LS_TRY(ls_builder_slot(b, "changed pictures", bytes, &refs[LS_TRIVIAL_AUGMENT_DST]));
    augment->attr.augment.indexed = 0;
    *pixels = refs[LS_TRIVIAL_AUGMENT_DST];
    *index = (ls_ref){ 0 };
    return ls_builder_emit(b, &desc, refs, LS_TRIVIAL_AUGMENT_ARGS);
}

static ls_status emit_augment(ls_builder *b) {
    ls_value *input = &b->values[0];
    input->shape = ls_batch_of(b->options->micro_batch, b->store->graph->input);
    ls_op_desc desc = { .op = LS_OP_AUGMENT,
        .layer = "input",
        .attr.augment = { .shape = input->shape,
            .storage = b->store->storage,
            .augmentation = b->options->augmentation,
            .indexed = b->options->indexed } };
    ls_ref refs[LS_AUGMENT_ARGS] = {
        [LS_AUGMENT_PIXELS] = ls_ref_input(LS_INPUT_PIXELS),
        [LS_AUGMENT_SAMPLE] = ls_ref_input(LS_INPUT_AUGMENT),
        [LS_AUGMENT_TABLE] = ls_ref_input(LS_INPUT_TABLE),
        [LS_AUGMENT_INDEX] = b->options->indexed ? ls_ref_input(LS_INPUT_INDEX) : (ls_ref){ 0 },
    };
    LS_TRY(emit_trivial_augment(b, &desc, &refs[LS_AUGMENT_PIXELS], &refs[LS_AUGMENT_INDEX]));
    LS_TRY(ls_builder_activation(b, "input", input->shape, &input->ref));
    refs[LS_AUGMENT_DST] = input->ref;
    return ls_builder_emit(b, &desc, refs, LS_AUGMENT_ARGS);
}

_Static_assert(
    (int)LS_RESOLUTION_SIDE_MAX == (int)LS_RESIZE_SIDE_MAX, "config/values.h allows what the operator can do");

// Resizes the augmented pictures if the network has another resolution. Augmentation runs at their own size.
static ls_status emit_resize(ls_builder *b) {
    ls_value *input = &b->values[0];
    if (ls_chw_equal(b->graph->input, b->store->graph->input)) return LS_SUCCESS;
    const ls_nchw resized = ls_batch_of(b->options->micro_batch, b->graph->input);
    ls_op_desc desc = { .op = LS_OP_RESIZE,
        .layer = "input",
        .attr.resize = { .src = input->shape, .dst = resized, .storage = b->store->storage } };
    ls_ref refs[LS_RESIZE_ARGS] = { [LS_RESIZE_SRC] = input->ref };
    LS_TRY(ls_builder_activation(b, "resized input", resized, &refs[LS_RESIZE_DST]));
    input->shape = resized;
    input->ref = refs[LS_RESIZE_DST];
    return ls_builder_emit(b, &desc, refs, LS_RESIZE_ARGS);
}

static ls_status emit_forward(ls_builder *b) {
    for (int n = 0; n < b->node_count; n++) {
        ls_node *node = &b->nodes[n];
        LS_TRY(ls_lowerings[node->layer->kind].forward(b, node));
    }
    return LS_SUCCESS;
}

// Emits the teacher's forward pass on the augmented pictures.
static ls_status emit_teacher(ls_builder *b) {
    ls_builder *t = b->teacher;
    if (!t) return LS_SUCCESS;
    t->values[0] = b->values[0];
    t->emitted = b->emitted;
    t->measuring = b->measuring;
    LS_TRY(emit_forward(t));
    b->emitted = t->emitted;
    return LS_SUCCESS;
}

void ls_builder_completes(ls_builder *b, const ls_node *node) {
    b->completed += trained_params(b, node->layer);
    if (!b->measuring) b->program->instructions[b->program->count - 1].completes = b->completed;
}

void ls_builder_reduces(ls_builder *b, int arg, size_t count) {
    if (b->measuring) return;
    ls_instruction *instruction = &b->program->instructions[b->program->count - 1];
    instruction->reduce_arg = arg;
    instruction->reduce_count = (int64_t)count;
}

static ls_status emit_backward(ls_builder *b) {
    for (int block = b->block_count - 1; block >= 0; block--) {
        int first = block ? b->block_end[block - 1] : 0, end = b->block_end[block];
        // The last block's activations are still in memory.
        if (block < b->block_count - 1) LS_TRY(ls_builder_recompute(b, first, end));
        for (int n = end - 1; n >= first; n--) {
            ls_node *node = &b->nodes[n];
            const int completed = b->completed;
            if (b->values[node->output].needs_grad) LS_TRY(ls_lowerings[node->layer->kind].backward(b, node));
            // Trained parameters whose rate has ended: their gradients stay 0 and are complete without an instruction.
            if (b->completed == completed && trained_params(b, node->layer) > 0) ls_builder_completes(b, node);
        }
    }
    assert(b->completed == b->store->trained_params);
    return LS_SUCCESS;
}

static void make_nodes(ls_builder *b) {
    count_readers(b);
    for (int l = 0; l < b->graph->layer_count; l++) b->absorbed_by[l] = -1;
    b->value_count = 1;
    for (int l = 0; l < b->graph->layer_count; l++) add_layer(b, l);
    mark_needs_grad(b);
    b->block_end[0] = b->node_count;
    b->block_count = 1;
}

static ls_status emit_all(ls_builder *b) {
    ls_buffer_planner_free(b->program->planner);
    b->program->planner = ls_buffer_planner_new();
    b->emitted = 0;
    b->completed = 0;
    for (int v = 0; v < b->value_count; v++) b->values[v].grad_count = 0;
    LS_TRY(emit_augment(b));
    LS_TRY(emit_teacher(b));
    LS_TRY(emit_resize(b));
    LS_TRY(emit_forward(b));
    LS_TRY(ls_builder_emit_loss(b));
    return b->options->training ? emit_backward(b) : LS_SUCCESS;
}

void ls_builder_place(ls_builder *b) {
    ls_buffer_planner_fix(b->program->planner);
    b->program->activation_bytes = ls_buffer_planner_bytes(b->program->planner);
}

ls_status ls_builder_emit_program(ls_builder *b) {
    LS_TRY(emit_all(b));
    ls_builder_place(b);
    return LS_SUCCESS;
}

ls_status ls_builder_emit_unplaced(ls_builder *b, size_t *bytes) {
    LS_TRY(emit_all(b));
    *bytes = ls_buffer_planner_peak(b->program->planner);
    return LS_SUCCESS;
}

static ls_status build(ls_builder *b, int with_plans) {
    make_nodes(b);
    if (b->teacher) make_nodes(b->teacher);
    b->measuring = 1;
    LS_TRY(ls_builder_emit_program(b));
    if (ls_builder_find_head(b)) LS_TRY(ls_builder_emit_program(b));
    b->program->all_kept_bytes = b->program->activation_bytes;
    if (b->options->training && b->options->recompute) LS_TRY(ls_builder_choose_blocks(b));
    b->program->blocks = b->block_count;
    b->measuring = !with_plans;
    return ls_builder_emit_program(b);
}

// Makes the tables of a builder that adds to the program.
static void begin_builder(ls_builder *b, const ls_graph *graph, ls_program *program) {
    const int layers = graph->layer_count;
    b->graph = graph;
    b->device = b->store->device;
    b->quantises = ls_graph_is_quantised(graph);
    b->program = program;
    b->values = ls_new(layers + 1, sizeof *b->values, "%s", graph->path);
    b->value_of = ls_new(layers, sizeof *b->value_of, "%s", graph->path);
    b->readers = ls_new(layers, sizeof *b->readers, "%s", graph->path);
    b->absorbed_by = ls_new(layers, sizeof *b->absorbed_by, "%s", graph->path);
    b->nodes = ls_new(layers, sizeof *b->nodes, "%s", graph->path);
    b->block_end = ls_new(layers, sizeof *b->block_end, "%s", graph->path);
}

static void end_builder(ls_builder *b) {
    free(b->values);
    free(b->value_of);
    free(b->readers);
    free(b->absorbed_by);
    free(b->nodes);
    free(b->block_end);
}

static ls_status check_storage(const ls_builder *b) {
    if (!b->quantises || b->store->storage == LS_F32) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: its quantise layers compute in fp32, not in %s: set train.precision = fp32",
        b->graph->path, ls_dtype_name(b->store->storage));
}

static ls_status compile(
    const ls_param_store *store, const ls_compile_options *options, int with_plans, ls_program **out) {
    const ls_compile_options forward = { .micro_batch = options->micro_batch };
    ls_builder t = { .store = options->teacher, .options = &forward, .params = LS_REF_TEACHER };
    ls_builder b = { .store = store, .options = options, .params = LS_REF_PARAM };
    ls_program *program = ls_new(1, sizeof *program, "%s", store->graph->path);
    program->device = store->device;
    program->store = store;
    program->storage = store->storage;
    begin_builder(&b, options->graph ? options->graph : store->graph, program);
    if (options->training && options->teacher) {
        program->teacher = options->teacher;
        begin_builder(&t, options->teacher->graph, program);
        b.teacher = &t;
    }
    ls_status status = check_storage(&b);
    if (b.teacher) LS_THEN(status, check_storage(&t));
    LS_THEN(status, build(&b, with_plans));
    end_builder(&b);
    end_builder(&t);
    return LS_GIVE_OR_FREE(status, program, out, ls_program_free);
}

float ls_gradient_mean_of(const ls_config *cfg) {
    const int mean = ls_config_storage(cfg) == LS_F16 && cfg->train_loss_reduction == LS_LOSS_MEAN;
    return mean ? (float)cfg->train_global_batch : 0;
}

ls_compile_options ls_compile_options_of(const ls_config *cfg, int micro_batch) {
    return (ls_compile_options){
        .micro_batch = micro_batch,
        .training = 1,
        .label_smoothing = (float)cfg->train_label_smoothing,
        .weighted = cfg->train_class_weights[0] != 0,
        .focal_gamma = (float)cfg->train_focal_gamma,
        .several = ls_config_several_labels(cfg),
        .mean_of = ls_gradient_mean_of(cfg),
        .seed = (uint64_t)cfg->run_seed,
        .teacher_share = (float)cfg->distill_share,
        .temperature = (float)cfg->distill_temperature,
        .augmentation = ls_config_augmentation(cfg),
        .recompute = cfg->train_recompute == LS_RECOMPUTE_BLOCKS,
    };
}

ls_status ls_compile(const ls_param_store *store, const ls_compile_options *options, ls_program **out) {
    return compile(store, options, 1, out);
}

ls_status ls_compile_measure(const ls_param_store *store, const ls_compile_options *options, size_t *activation_bytes) {
    ls_program *program;
    LS_TRY(compile(store, options, 0, &program));
    *activation_bytes = program->activation_bytes;
    ls_program_free(program);
    return LS_SUCCESS;
}
