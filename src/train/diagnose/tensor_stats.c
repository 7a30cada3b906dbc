#include "train/diagnose/tensor_stats.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "base/half.h"
#include "base/memory.h"
#include "train/update.h"

typedef enum { OUT_ACTIVATION, OUT_FEATURES, OUT_GRADIENT, OUT_GATE, OUT_PARAM, OUT_SAVED, OUT_SUMS } output_kind;

// The tensors that operators write. `shape` is the offset of the tensor's shape in the descriptor. OUT_FEATURES: (N,
// out_features) of a linear layer. OUT_GATE: a gradient of (N, C). Pooling indices are left out.
#define SHAPE(field) offsetof(ls_op_desc, attr.field)
static const struct {
    ls_op op;
    int arg;
    output_kind kind;
    size_t shape;
    const char *name;
} outputs[] = {
    { LS_OP_AUGMENT, LS_AUGMENT_DST, OUT_ACTIVATION, SHAPE(augment.shape), "output" },
    { LS_OP_RESIZE, LS_RESIZE_DST, OUT_ACTIVATION, SHAPE(resize.dst), "output" },
    { LS_OP_CONV_FORWARD, LS_CONV_FORWARD_DST, OUT_ACTIVATION, SHAPE(conv.dst), "output" },
    { LS_OP_CONV_BACKWARD_DATA, LS_CONV_BACKWARD_DATA_GRAD_SRC, OUT_GRADIENT, SHAPE(conv.src),
        "gradient of its input" },
    { LS_OP_CONV_BACKWARD_WEIGHT, LS_CONV_BACKWARD_WEIGHT_GRAD_WEIGHT, OUT_PARAM, 0, NULL },
    { LS_OP_CONV_BACKWARD_WEIGHT, LS_CONV_BACKWARD_WEIGHT_GRAD_BIAS, OUT_PARAM, 0, NULL },
    { LS_OP_LINEAR_FORWARD, LS_LINEAR_FORWARD_DST, OUT_FEATURES, SHAPE(linear.src), "output" },
    { LS_OP_LINEAR_BACKWARD_DATA, LS_LINEAR_BACKWARD_DATA_GRAD_SRC, OUT_GRADIENT, SHAPE(linear.src),
        "gradient of its input" },
    { LS_OP_LINEAR_BACKWARD_WEIGHT, LS_LINEAR_BACKWARD_WEIGHT_GRAD_WEIGHT, OUT_PARAM, 0, NULL },
    { LS_OP_LINEAR_BACKWARD_WEIGHT, LS_LINEAR_BACKWARD_WEIGHT_GRAD_BIAS, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_FORWARD, LS_NORM_FORWARD_SAVED, OUT_SAVED, SHAPE(norm.shape), "mean and 1/deviation of its input" },
    { LS_OP_NORM_FORWARD, LS_NORM_FORWARD_SUM_MEAN, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_FORWARD, LS_NORM_FORWARD_SUM_VAR, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_FORWARD, LS_NORM_FORWARD_DST, OUT_ACTIVATION, SHAPE(norm.shape), "output" },
    { LS_OP_NORM_INFERENCE, LS_NORM_INFERENCE_DST, OUT_ACTIVATION, SHAPE(norm.shape), "output" },
    { LS_OP_NORM_BACKWARD, LS_NORM_BACKWARD_GRAD_GAMMA, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_BACKWARD, LS_NORM_BACKWARD_GRAD_BETA, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_BACKWARD, LS_NORM_BACKWARD_GRAD_RESIDUAL, OUT_GRADIENT, SHAPE(norm.shape),
        "gradient of its residual input" },
    { LS_OP_NORM_BACKWARD, LS_NORM_BACKWARD_GRAD_SRC, OUT_GRADIENT, SHAPE(norm.shape), "gradient of its input" },
    { LS_OP_NORM_SUMS, LS_NORM_SUMS_SUMS, OUT_SUMS, SHAPE(norm.shape), "sums of its input" },
    { LS_OP_NORM_APPLY, LS_NORM_FORWARD_SAVED, OUT_SAVED, SHAPE(norm.shape), "mean and 1/deviation of all inputs" },
    { LS_OP_NORM_APPLY, LS_NORM_FORWARD_SUM_MEAN, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_APPLY, LS_NORM_FORWARD_SUM_VAR, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_APPLY, LS_NORM_FORWARD_DST, OUT_ACTIVATION, SHAPE(norm.shape), "output" },
    { LS_OP_NORM_BACKWARD_SUMS, LS_NORM_BACKWARD_GRAD_GAMMA, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_BACKWARD_SUMS, LS_NORM_BACKWARD_GRAD_BETA, OUT_PARAM, 0, NULL },
    { LS_OP_NORM_BACKWARD_SUMS, LS_NORM_BACKWARD_SUMS_SUMS, OUT_SUMS, SHAPE(norm.shape), "sums of its gradient" },
    { LS_OP_NORM_BACKWARD_APPLY, LS_NORM_BACKWARD_GRAD_RESIDUAL, OUT_GRADIENT, SHAPE(norm.shape),
        "gradient of its residual input" },
    { LS_OP_NORM_BACKWARD_APPLY, LS_NORM_BACKWARD_GRAD_SRC, OUT_GRADIENT, SHAPE(norm.shape), "gradient of its input" },
    { LS_OP_POOL_FORWARD, LS_POOL_FORWARD_DST, OUT_ACTIVATION, SHAPE(pool.dst), "output" },
    { LS_OP_POOL_BACKWARD, LS_POOL_BACKWARD_GRAD_SRC, OUT_GRADIENT, SHAPE(pool.src), "gradient of its input" },
#define OF_DST OUT_ACTIVATION
#define OF_GRAD_SRC OUT_GRADIENT
#define NAME_OF_DST "output"
#define NAME_OF_GRAD_SRC "gradient of its input"
#define LOGITS_GRADIENT "gradient of the logits"
#define ELEMENTWISE(NAME, name, text, output, flops) \
    { LS_OP_##NAME, LS_##NAME##_##output, OF_##output, SHAPE(elementwise.shape), NAME_OF_##output },
#include "device/ops.def"
    { LS_OP_DROPOUT, LS_DROPOUT_DST, OUT_ACTIVATION, SHAPE(elementwise.shape), "output" },
    { LS_OP_GATE, LS_GATE_DST, OUT_ACTIVATION, SHAPE(gate.shape), "output" },
    { LS_OP_FAKE_QUANTISE, LS_FAKE_QUANTISE_DST, OUT_ACTIVATION, SHAPE(quantise.shape), "output" },
    { LS_OP_FAKE_QUANTISE_BACKWARD, LS_FAKE_QUANTISE_BACKWARD_GRAD_SRC, OUT_GRADIENT, SHAPE(quantise.shape),
        "gradient of its input" },
    { LS_OP_GATE_BACKWARD, LS_GATE_BACKWARD_GRAD_GATE, OUT_GATE, SHAPE(gate.shape), "gradient of its gate" },
    { LS_OP_COPY_CHANNELS, LS_COPY_CHANNELS_DST, OUT_ACTIVATION, SHAPE(channels.dst), "output" },
    { LS_OP_GROUP_NORM_FORWARD, LS_GROUP_NORM_FORWARD_DST, OUT_ACTIVATION, SHAPE(group_norm.shape), "output" },
    { LS_OP_GROUP_NORM_BACKWARD, LS_GROUP_NORM_BACKWARD_GRAD_GAMMA, OUT_PARAM, 0, NULL },
    { LS_OP_GROUP_NORM_BACKWARD, LS_GROUP_NORM_BACKWARD_GRAD_BETA, OUT_PARAM, 0, NULL },
    { LS_OP_GROUP_NORM_BACKWARD, LS_GROUP_NORM_BACKWARD_GRAD_SRC, OUT_GRADIENT, SHAPE(group_norm.shape),
        "gradient of its input" },
    { LS_OP_LOSS, LS_LOSS_GRAD_LOGITS, OUT_GRADIENT, SHAPE(loss.logits), LOGITS_GRADIENT },
    { LS_OP_DISTILL, LS_DISTILL_GRAD_LOGITS, OUT_GRADIENT, SHAPE(distill.logits), LOGITS_GRADIENT },
    { LS_OP_HEAD, LS_LOSS_LOGITS, OUT_ACTIVATION, SHAPE(loss.logits), "output" },
    { LS_OP_HEAD, LS_LOSS_GRAD_LOGITS, OUT_GRADIENT, SHAPE(loss.logits), LOGITS_GRADIENT },
    { LS_OP_HEAD, LS_HEAD_GRAD_SRC, OUT_GRADIENT, SHAPE(loss.src), "gradient of its input" },
};
enum { OUTPUTS = sizeof outputs / sizeof outputs[0] };
#undef SHAPE

typedef struct {
    const ls_tensor_stats_list *o;
    const ls_device_api *api;
    ls_device *device;
    ls_slab *records, *host; // state and result on the device; the same, and room for sums, in pinned memory
    float *values;           // values of one tensor
    char *weight_seen;       // for each parameter: 1 if it has been examined
    int loss_at;             // number of the loss instruction
    ls_tensor_stats *first;
    int harmed;
} inspector;

enum { RECORD_BYTES = 128, RESULT_AT = RECORD_BYTES, SUMS_AT = 2 * RECORD_BYTES };

const char *ls_tensor_stats_kind_name(ls_tensor_stats_kind kind) {
    static const char *const names[LS_TENSOR_STATS_KINDS] = { [LS_TENSOR_STATS_ACTIVATION] = "activation",
        [LS_TENSOR_STATS_GRADIENT] = "gradient",
        [LS_TENSOR_STATS_WEIGHT] = "weight",
        [LS_TENSOR_STATS_WEIGHT_GRADIENT] = "weight gradient",
        [LS_TENSOR_STATS_STATISTIC] = "statistic",
        [LS_TENSOR_STATS_LOSS] = "loss" };
    return names[kind];
}

char *ls_tensor_stats_place(const ls_tensor_stats *stats, char *dst) {
    int64_t at[4] = { 0 }, rest = stats->first;
    for (int d = stats->rank - 1; d >= 0; d--) {
        at[d] = rest % stats->dim[d];
        rest /= stats->dim[d];
    }
    int used = snprintf(dst, 96, "[");
    for (int d = 0; d < stats->rank; d++)
        used += snprintf(dst + used, 96 - (size_t)used, "%s%lld", d ? ", " : "", (long long)at[d]);
    snprintf(dst + used, 96 - (size_t)used, "]");
    return dst;
}

// --- counting ------------------------------------------------------------------------------------

static void count_values(ls_tensor_stats *stats, const float *values) {
    double sum = 0;
    int64_t finite = 0, last_sample = -1;
    stats->first = -1;
    stats->bad_samples = stats->samples ? 0 : -1;
    stats->min = INFINITY;
    stats->max = -INFINITY;
    for (int64_t i = 0; i < stats->count; i++) {
        double v = (double)values[i];
        if (isfinite(v)) {
            finite++;
            sum += v;
            if (v < stats->min) stats->min = v;
            if (v > stats->max) stats->max = v;
            continue;
        }
        if (isnan(v))
            stats->nans++;
        else
            stats->infs++;
        if (stats->first < 0) stats->first = i;
        if (!stats->samples) continue;
        int64_t sample = i / (stats->count / stats->dim[0]);
        if (sample == last_sample) continue; // elements are in the order of samples
        last_sample = sample;
        if (stats->bad_samples < LS_TENSOR_STATS_SAMPLES_MAX) stats->bad_sample[stats->bad_samples] = (int32_t)sample;
        stats->bad_samples++;
    }
    if (!finite) stats->min = stats->max = 0;
    stats->mean = finite ? sum / (double)finite : 0;
}

static void report(inspector *in, const ls_tensor_stats *stats) {
    if (in->o->seen) in->o->seen(in->o->context, stats);
    if (!ls_tensor_stats_is_bad(stats) || stats->inert) return;
    if (!ls_tensor_stats_is_bad(in->first)) *in->first = *stats;
    if (stats->beyond || stats->kind == LS_TENSOR_STATS_LOSS || stats->kind == LS_TENSOR_STATS_WEIGHT_GRADIENT)
        in->harmed = 1;
    if (stats->kind == LS_TENSOR_STATS_STATISTIC && in->o->ordered)
        in->harmed = 1; // statistics are rounded to fixed point like gradients
}

// Returns the name of the layer. A head (op_loss.h) belongs to its linear layer, but the loss in it does not.
static const char *layer_of(const ls_op_desc *desc, ls_tensor_stats_kind kind, const char *tensor) {
    const int loss = kind == LS_TENSOR_STATS_LOSS || strcmp(tensor, LOGITS_GRADIENT) == 0;
    return desc->op == LS_OP_HEAD && loss ? "loss" : desc->layer;
}

// Returns statistics for a tensor of an instruction, still without shape and counts.
static ls_tensor_stats new_stats(const inspector *in, int number, ls_tensor_stats_kind kind, const char *tensor) {
    const ls_program *program = in->o->program;
    int behind = number == program->count; // 1: the tensor belongs to the rounding to fixed point, after the program
    const ls_op_desc *desc = behind ? NULL : &program->instructions[number].plan->desc;
    ls_tensor_stats stats = { .instruction = number,
        .backward = number > in->loss_at || (number == in->loss_at && kind == LS_TENSOR_STATS_GRADIENT),
        .kind = (int32_t)kind,
        .storage =
            kind == LS_TENSOR_STATS_ACTIVATION || kind == LS_TENSOR_STATS_GRADIENT ? (int32_t)program->storage : LS_F32,
        .first = -1,
        .bad_samples = -1 };
    snprintf(stats.layer, sizeof stats.layer, "%s", behind ? "" : layer_of(desc, kind, tensor));
    snprintf(stats.op, sizeof stats.op, "%s", behind ? ls_op_name(LS_OP_TO_FIXED_POINT) : ls_op_name(desc->op));
    snprintf(stats.tensor, sizeof stats.tensor, "%s", tensor);
    return stats;
}

static void shape_activation(ls_tensor_stats *stats, ls_nchw s) {
    stats->samples = 1;
    stats->rank = s.h == 1 && s.w == 1 ? 2 : 4;
    stats->dim[0] = s.n;
    stats->dim[1] = s.c;
    stats->dim[2] = s.h;
    stats->dim[3] = s.w;
    stats->count = ls_nchw_count(s);
}

static void shape_param(ls_tensor_stats *stats, const ls_param *param) {
    stats->rank = param->rank;
    for (int d = 0; d < param->rank; d++) stats->dim[d] = param->file_dim[d];
    stats->count = ls_param_count(&param->shape);
}

static void shape_vectors(ls_tensor_stats *stats, int vectors, int channels) {
    stats->rank = 2;
    stats->dim[0] = vectors;
    stats->dim[1] = channels;
    stats->count = (int64_t)vectors * channels;
}

// --- weights, before the first instruction that reads them ---------------------------------------

static void measure_weight(inspector *in, int number, const ls_ref *ref) {
    const ls_program *program = in->o->program;
    const int taught = ref->kind == LS_REF_TEACHER;
    const ls_param_store *store = taught ? program->teacher : program->store;
    const ls_param *param = &store->graph->params[ref->index];
    char *seen = &in->weight_seen[ref->index + (taught ? program->store->graph->param_count : 0)];
    if (*seen) return;
    *seen = 1;
    ls_tensor_stats stats = new_stats(in, number, LS_TENSOR_STATS_WEIGHT, param->name);
    shape_param(&stats, param);
    in->api->param_export(in->device, &param->shape, ls_param_store_weight(store, ref->index), in->values);
    count_values(&stats, in->values);
    if (!ls_tensor_stats_is_bad(&stats) && ref->copy == LS_PARAM_WORKING && store->storage != LS_F32) {
        // the master is good, so the rounded copy that operators read is examined
        stats.storage = (int32_t)store->storage;
        for (int64_t i = 0; i < stats.count; i++)
            ls_store_float(in->values, LS_F32, i,
                store->storage == LS_F16 ? ls_float_from_f16(ls_f16_from_float(in->values[i]))
                                         : ls_float_from_bf16(ls_bf16_from_float(in->values[i])));
        count_values(&stats, in->values);
    }
    report(in, &stats);
}

static void measure_weights(inspector *in, int number) {
    const ls_instruction *instruction = &in->o->program->instructions[number];
    for (int a = 0; a < instruction->arg_count; a++)
        if (instruction->refs[a].kind >= LS_REF_PARAM && instruction->refs[a].copy < LS_PARAM_GRAD)
            measure_weight(in, number, &instruction->refs[a]);
}

// --- tensors that an instruction writes ----------------------------------------------------------

static void measure_param(inspector *in, int number, const ls_ref *ref) {
    const ls_param_store *store = in->o->program->store;
    const ls_param *param = &store->graph->params[ref->index];
    int statistic = ls_role_is_statistic(param->role);
    char name[LS_TENSOR_STATS_NAME_BYTES + 16];
    snprintf(name, sizeof name, statistic ? "%s of this micro-batch" : "gradient of %s", param->name);
    ls_tensor_stats stats =
        new_stats(in, number, statistic ? LS_TENSOR_STATS_STATISTIC : LS_TENSOR_STATS_WEIGHT_GRADIENT, name);
    stats.inert = statistic && !in->o->ordered;
    shape_param(&stats, param);
    in->api->param_export(in->device, &param->shape, ls_param_store_grad(store, ref->index), in->values);
    count_values(&stats, in->values);
    report(in, &stats);
}

static void measure_activation(inspector *in, int number, int row, ls_nchw shape, ls_buffer buffer) {
    int gradient = outputs[row].kind == OUT_GRADIENT || outputs[row].kind == OUT_GATE;
    ls_tensor_stats stats =
        new_stats(in, number, gradient ? LS_TENSOR_STATS_GRADIENT : LS_TENSOR_STATS_ACTIVATION, outputs[row].name);
    // After the loss, `add` and elementwise operators compute gradients, unless the instruction recomputes.
    if (number > in->loss_at && !gradient && !in->o->program->instructions[number].plan_is_shared) {
        int sum = in->o->program->instructions[number].plan->desc.op == LS_OP_ADD;
        stats.kind = LS_TENSOR_STATS_GRADIENT;
        snprintf(stats.tensor, sizeof stats.tensor, sum ? "sum of its two gradients" : "gradient of its input");
    }
    shape_activation(&stats, shape);
    in->api->activation_export(in->device, shape, in->o->program->storage, buffer, in->values);
    count_values(&stats, in->values);
    report(in, &stats);
}

static void measure_saved(inspector *in, int number, int row, ls_nchw shape, ls_buffer buffer) {
    ls_param_shape vector = { LS_PARAM_VECTOR, { shape.c, 1, 1, 1 }, 1 };
    size_t half = in->api->param_elements(in->device, &vector) * sizeof(float);
    ls_tensor_stats stats = new_stats(in, number, LS_TENSOR_STATS_STATISTIC, outputs[row].name);
    shape_vectors(&stats, 2, shape.c);
    for (int i = 0; i < 2; i++)
        in->api->param_export(in->device, &vector, ls_buffer_at(buffer.slab, buffer.offset + (size_t)i * half, half),
            in->values + (size_t)i * (size_t)shape.c);
    count_values(&stats, in->values);
    report(in, &stats);
}

static ls_status measure_sums(inspector *in, int number, int row, ls_nchw shape, ls_buffer buffer) {
    ls_param_shape vector = { LS_PARAM_VECTOR, { shape.c, 1, 1, 1 }, 1 };
    size_t elements = in->api->param_elements(in->device, &vector), bytes = 2 * elements * sizeof(double);
    ls_buffer host = ls_buffer_at(in->host, SUMS_AT, bytes);
    ls_tensor_stats stats = new_stats(in, number, LS_TENSOR_STATS_STATISTIC, outputs[row].name);
    shape_vectors(&stats, 2, shape.c);
    in->api->copy(host, ls_buffer_at(buffer.slab, buffer.offset, bytes), bytes, in->o->queue);
    LS_TRY(in->api->queue_sync(in->o->queue));
    const double *sums = ls_buffer_host(host);
    for (int i = 0; i < 2; i++)
        for (int c = 0; c < shape.c; c++) {
            double sum = sums[(size_t)i * elements + (size_t)c]; // a finite sum may be too large for a float
            in->values[i * shape.c + c] = (float)(isfinite(sum) ? fmax(fmin(sum, FLT_MAX), -FLT_MAX) : sum);
        }
    count_values(&stats, in->values);
    report(in, &stats);
    return LS_SUCCESS;
}

static ls_status measure_loss(inspector *in, int number) {
    ls_buffer host = ls_buffer_at(in->host, RESULT_AT, sizeof(ls_micro_result));
    in->api->copy(
        host, ls_buffer_at(in->records, RESULT_AT, sizeof(ls_micro_result)), sizeof(ls_micro_result), in->o->queue);
    LS_TRY(in->api->queue_sync(in->o->queue));
    const ls_micro_result *result = ls_buffer_host(host);
    ls_tensor_stats stats = new_stats(in, number, LS_TENSOR_STATS_LOSS, "loss");
    stats.rank = 1;
    stats.count = stats.dim[0] = result->count;
    double mean = result->count ? result->loss_sum / (double)result->count : 0;
    stats.min = stats.max = stats.mean = isfinite(mean) ? mean : 0;
    if (isnan(result->loss_sum))
        stats.nans = result->bad;
    else
        stats.infs = result->bad;
    if (result->bad) stats.first = 0;
    report(in, &stats);
    return LS_SUCCESS;
}

static ls_status measure_output(inspector *in, int number, int row, ls_buffer buffer) {
    const ls_instruction *instruction = &in->o->program->instructions[number];
    const ls_op_desc *desc = &instruction->plan->desc;
    const char *at = (const char *)desc + outputs[row].shape;
    ls_nchw shape = { 0 };
    if (outputs[row].kind != OUT_PARAM) memcpy(&shape, at, sizeof shape);
    if (outputs[row].kind == OUT_FEATURES) shape = (ls_nchw){ shape.n, desc->attr.linear.out_features, 1, 1 };
    if (outputs[row].kind == OUT_GATE) shape.h = shape.w = 1;
    int pooled = desc->op == LS_OP_NORM_FORWARD || desc->op == LS_OP_NORM_APPLY || desc->op == LS_OP_NORM_INFERENCE;
    switch (outputs[row].kind) {
    case OUT_PARAM:
        measure_param(in, number, &instruction->refs[outputs[row].arg]);
        return LS_SUCCESS;
    case OUT_SAVED:
        measure_saved(in, number, row, shape, buffer);
        return LS_SUCCESS;
    case OUT_SUMS:
        return measure_sums(in, number, row, shape, buffer);
    default:
        if (pooled && desc->attr.norm.pool_kernel) shape = desc->attr.norm.pooled;
        measure_activation(in, number, row, shape, buffer);
        return LS_SUCCESS;
    }
}

static ls_status measure_outputs(inspector *in, int number, const ls_buffer *args) {
    ls_op op = in->o->program->instructions[number].plan->desc.op;
    LS_TRY(in->api->queue_sync(in->o->queue));
    if (op == LS_OP_LOSS || op == LS_OP_DISTILL) LS_TRY(measure_loss(in, number));
    for (int row = 0; row < OUTPUTS; row++) {
        if (outputs[row].op != op || !args[outputs[row].arg].slab) continue;
        LS_TRY(measure_output(in, number, row, args[outputs[row].arg]));
        if (op == LS_OP_HEAD && outputs[row].arg == LS_LOSS_LOGITS) LS_TRY(measure_loss(in, number));
    }
    return LS_SUCCESS;
}

// In ordered mode, finds elements of a gradient or statistic that TO_FIXED_POINT (op_update.h) would refuse.
static void measure_fixed(inspector *in, int p) {
    const ls_param_store *store = in->o->program->store;
    const ls_param *param = &store->graph->params[p];
    int statistic = ls_role_is_statistic(param->role);
    const float mean_of = in->o->program->instructions[in->loss_at].plan->desc.attr.loss.mean_of;
    double scale = statistic ? 1 : (double)LS_GRADIENT_SCALE(in->o, mean_of), limit = ldexp(1, 62 - LS_FIXED_RANK_BITS);
    int bits = statistic ? LS_STATISTIC_FRACTION_BITS : LS_GRADIENT_FRACTION_BITS;
    char name[LS_TENSOR_STATS_NAME_BYTES + 16];
    snprintf(name, sizeof name, statistic ? "%s of this micro-batch" : "gradient of %s", param->name);
    ls_tensor_stats stats = new_stats(
        in, in->o->program->count, statistic ? LS_TENSOR_STATS_STATISTIC : LS_TENSOR_STATS_WEIGHT_GRADIENT, name);
    snprintf(stats.layer, sizeof stats.layer, "%s", store->graph->layers[param->layer].name);
    shape_param(&stats, param);
    in->api->param_export(in->device, &param->shape, ls_param_store_grad(store, p), in->values);
    count_values(&stats, in->values);
    if (ls_tensor_stats_is_bad(&stats)) return; // already reported at the instruction that wrote the tensor
    for (int64_t i = 0; i < stats.count; i++) {
        if (fabs(nearbyint(ldexp((double)in->values[i], bits) / scale)) < limit) continue;
        stats.beyond++;
        if (stats.first < 0) stats.first = i;
    }
    if (stats.beyond) report(in, &stats);
}

// --- the whole -----------------------------------------------------------------------------------

static int64_t largest_param(const ls_param_store *store, int64_t most) {
    for (int p = 0; store && p < store->graph->param_count; p++)
        if (ls_param_count(&store->graph->params[p].shape) > most)
            most = ls_param_count(&store->graph->params[p].shape);
    return most;
}

static int64_t largest_tensor(const ls_program *program) {
    int64_t most = largest_param(program->teacher, largest_param(program->store, 1));
    for (int i = 0; i < program->count; i++) {
        const ls_op_desc *desc = &program->instructions[i].plan->desc;
        for (int row = 0; row < OUTPUTS; row++) {
            if (outputs[row].op != desc->op || outputs[row].kind == OUT_PARAM) continue;
            ls_nchw shape;
            memcpy(&shape, (const char *)desc + outputs[row].shape, sizeof shape);
            if (outputs[row].kind == OUT_FEATURES) shape = (ls_nchw){ shape.n, desc->attr.linear.out_features, 1, 1 };
            int64_t count = outputs[row].kind >= OUT_SAVED ? 2 * (int64_t)shape.c : ls_nchw_count(shape);
            if (count > most) most = count;
        }
    }
    return most;
}

static size_t largest_sums(const ls_program *program) {
    int64_t most = 0;
    for (int i = 0; i < program->count; i++)
        if (program->instructions[i].reduce_count > most) most = program->instructions[i].reduce_count;
    return (size_t)most * sizeof(double);
}

static ls_status prepare(inspector *in) {
    const ls_program *program = in->o->program;
    size_t host_bytes = SUMS_AT + largest_sums(program);
    LS_TRY(ls_try_new(&in->values, largest_tensor(program), sizeof *in->values, "inspection of tensors"));
    const int params =
        program->store->graph->param_count + (program->teacher ? program->teacher->graph->param_count : 0);
    in->weight_seen = ls_new(params + 1, sizeof *in->weight_seen, "inspection of tensors");
    LS_TRY(in->api->slab_new(in->device, LS_MEMORY_DEVICE, 2 * RECORD_BYTES, "records of an inspection", &in->records));
    LS_TRY(in->api->slab_new(in->device, LS_MEMORY_PINNED, host_bytes, "records of an inspection (host)", &in->host));
    *(ls_train_state *)ls_buffer_host(ls_buffer_at(in->host, 0, sizeof(ls_train_state))) =
        (ls_train_state){ .loss_scale = in->o->loss_scale };
    in->api->copy(ls_buffer_at(in->records, 0, 2 * RECORD_BYTES), ls_buffer_at(in->host, 0, 2 * RECORD_BYTES),
        2 * RECORD_BYTES, in->o->queue);
    ls_slab *grad = program->store->grad;
    in->api->zero(ls_buffer_at(grad, 0, grad->bytes), grad->bytes, in->o->queue);
    while (ls_op_family_of(program->instructions[in->loss_at].plan->desc.op) != LS_FAMILY_loss) in->loss_at++;
    return in->api->queue_sync(in->o->queue);
}

static ls_status run_instruction(inspector *in, const ls_program_inputs *inputs, int number) {
    const ls_program *program = in->o->program;
    const ls_instruction *instruction = &program->instructions[number];
    int measures = in->o->seen || !in->harmed;
    ls_buffer args[LS_OP_ARGS_MAX];
    if (in->o->comm) ls_comm_phase(in->o->comm, "looking for what is not finite", -1); // shows that this rank is alive
    ls_instruction_args(instruction, inputs, args);
    if (measures) measure_weights(in, number);
    ls_plan_run(instruction->plan, args, program->workspace, in->o->queue);
    if (instruction->plan->desc.op == LS_OP_CONV_BACKWARD_WEIGHT) ls_param_store_widen(program->store, in->o->queue);
    if (measures) LS_TRY(measure_outputs(in, number, args));
    if (!instruction->reduce_count || !in->o->reduce) return LS_SUCCESS;
    return in->o->reduce(in->o->context, args[instruction->reduce_arg], instruction->reduce_count);
}

static ls_status run_program(inspector *in) {
    const ls_program *program = in->o->program;
    ls_program_inputs inputs = *in->o->inputs;
    inputs.buffer[LS_INPUT_STATE] = ls_buffer_at(in->records, 0, sizeof(ls_train_state));
    inputs.buffer[LS_INPUT_RESULT] = ls_buffer_at(in->records, RESULT_AT, sizeof(ls_micro_result));
    for (int i = 0; i < program->count; i++) LS_TRY(run_instruction(in, &inputs, i));
    LS_TRY(in->api->queue_sync(in->o->queue));
    for (int p = 0; in->o->ordered && p < program->store->graph->param_count; p++) measure_fixed(in, p);
    return in->api->queue_sync(in->o->queue);
}

ls_status ls_tensor_stats_run(const ls_tensor_stats_list *inspection, ls_tensor_stats *first, int *harmed) {
    ls_device *device = inspection->program->device;
    inspector in = { .o = inspection, .device = device, .api = device->api, .first = first };
    *first = (ls_tensor_stats){ .first = -1 };
    ls_status status = prepare(&in);
    LS_THEN(status, run_program(&in));
    ls_slab *slabs[] = { in.records, in.host };
    for (size_t s = 0; s < sizeof slabs / sizeof *slabs; s++)
        if (slabs[s]) in.api->slab_free(slabs[s]);
    free(in.values);
    free(in.weight_seen);
    *harmed = in.harmed;
    return status;
}
