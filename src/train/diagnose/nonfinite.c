#include "train/diagnose/nonfinite.h"

#include <stdarg.h>
#include <string.h>

const char *ls_nonfinite_cause_name(ls_nonfinite_cause cause) {
    static const char *const names[LS_CAUSES] = { [LS_CAUSE_NOT_REPEATED] = "not repeated",
        [LS_CAUSE_INPUT] = "input",
        [LS_CAUSE_WEIGHT] = "weight",
        [LS_CAUSE_F16] = "fp16 overflow",
        [LS_CAUSE_DIVERGED] = "diverged",
        [LS_CAUSE_SUMS] = "sums",
        [LS_CAUSE_FIXED_POINT] = "fixed point" };
    return names[cause];
}

ls_nonfinite_cause ls_nonfinite_find_cause(const ls_tensor_stats *first) {
    if (!ls_tensor_stats_is_bad(first)) return LS_CAUSE_NOT_REPEATED;
    if (first->beyond) return LS_CAUSE_FIXED_POINT;
    if (first->kind == LS_TENSOR_STATS_WEIGHT && first->storage != LS_F16) return LS_CAUSE_WEIGHT;
    if (first->instruction == 0) return LS_CAUSE_INPUT;
    return first->storage == LS_F16 ? LS_CAUSE_F16 : LS_CAUSE_DIVERGED;
}

// --- in words ------------------------------------------------------------------------------------

typedef struct {
    char *text;
    size_t bytes, used;
} writer;

static void put(writer *w, const char *format, ...) LS_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int wanted = w->used < w->bytes ? vsnprintf(w->text + w->used, w->bytes - w->used, format, args) : 0;
    va_end(args);
    if (wanted > 0) w->used += (size_t)wanted;
}

char *ls_nonfinite_origin(const ls_tensor_stats *stats, char *dst, size_t bytes) {
    writer w = { dst, bytes, 0 };
    char place[96];
    int of_input = strncmp(stats->tensor, "gradient of its", 15) == 0;
    // 1: the tensor is described as "its output" and the like; 0: it has a name
    int own = of_input || stats->kind == LS_TENSOR_STATS_ACTIVATION;
    if (stats->layer[0]) put(&w, "layer '%s' (%s), ", stats->layer, stats->op);
    put(&w, "%s: ",
        stats->instruction < 0 ? "in the sums over micro-batches and ranks"
        : stats->backward      ? "backward"
                               : "forward");
    if (stats->kind == LS_TENSOR_STATS_LOSS) {
        put(&w, "the loss of %lld of %lld samples is %s, though the logits are finite",
            (long long)(stats->nans + stats->infs), (long long)stats->count, stats->nans ? "NaN" : "infinite");
        return dst;
    }
    int64_t bad = stats->nans + stats->infs + stats->beyond;
    const char *whose = stats->kind == LS_TENSOR_STATS_WEIGHT ? "the weight "
                        : own                                 ? "its "
                        : strstr(stats->tensor, "running_")   ? ""
                                                              : "the ";
    put(&w, "%lld of %lld elements of %s%s are ", (long long)bad, (long long)stats->count, whose,
        of_input ? "input's gradient" : stats->tensor);
    if (stats->beyond)
        put(&w, "finite, but more than fixed point holds (largest: %g)",
            stats->max > -stats->min ? stats->max : stats->min);
    else
        put(&w, "not finite (%lld NaN, %lld infinite)", (long long)stats->nans, (long long)stats->infs);
    put(&w, ", the first at %s", ls_tensor_stats_place(stats, place));
    return dst;
}

char *ls_nonfinite_advice(
    ls_nonfinite_cause cause, const ls_tensor_stats *stats, float loss_scale, char *dst, size_t bytes) {
    writer w = { dst, bytes, 0 };
    switch (cause) {
    case LS_CAUSE_INPUT:
        put(&w, "the pictures are so once they are normalised: check data.mean and data.std");
        break;
    case LS_CAUSE_WEIGHT:
        put(&w, "the weight was so before this update, so this is no overflow: weights that were read were damaged, or "
                "the machine's memory is");
        break;
    case LS_CAUSE_F16:
        put(&w, "its operands are finite, fp16 holds up to 65504: an overflow of fp16, ");
        if (stats->kind == LS_TENSOR_STATS_WEIGHT)
            put(&w, "of the weight itself; try train.precision = bf16 or fp32");
        else if (stats->backward)
            put(&w,
                "at loss scale %g; try a lower loss_scale.minimum or loss_scale.initial, train.precision = bf16 or "
                "fp32, or a lower optimizer.lr",
                (double)loss_scale);
        else
            put(&w, "in the forward pass, which no loss scale mends; try train.precision = bf16 or fp32, or a lower "
                    "optimizer.lr");
        break;
    case LS_CAUSE_DIVERGED:
        put(&w, "its operands are finite: the network diverged (this is no overflow of the loss scale); lower "
                "optimizer.lr, or set train.clip_norm or a warm-up");
        break;
    case LS_CAUSE_SUMS:
        put(&w, "every micro-batch's own gradient is finite: their sum is more than %s holds; %s",
            stats->storage == LS_BF16 ? "bf16" : "fp32",
            stats->storage == LS_BF16 ? "try dist.reduce_dtype = fp32, or a lower optimizer.lr"
                                      : "lower optimizer.lr, or set train.clip_norm or a warm-up");
        break;
    case LS_CAUSE_FIXED_POINT:
        put(&w,
            "this is no NaN: run.deterministic = true sums gradients below 2^10 (statistics of batch norm below 2^14) "
            "in magnitude; lower optimizer.lr, take a smaller train.micro_batch, or set run.deterministic = false");
        break;
    default:
        put(&w, "computing its micro-batches again found nothing that is not finite: a fault of the machine, or what "
                "computed it is not repeatable");
    }
    return dst;
}

static void put_samples(writer *w, const ls_nonfinite *r) {
    int told = r->bad.bad_samples >= 0; // 1: the samples with bad elements are known
    int all = told ? r->bad.bad_samples : r->count, shown = r->sample_count < 4 ? r->sample_count : 4;
    if (!shown) return;
    put(w, "; %s%s ", told ? "in sample" : "the micro-batch's sample", all == 1 ? "" : "s");
    for (int i = 0; i < shown; i++)
        put(w, "%s%lld%s%s%s", i ? ", " : "", (long long)r->samples[i], r->names[i][0] ? " (" : "", r->names[i],
            r->names[i][0] ? ")" : "");
    if (all > shown) put(w, " and %d more", all - shown);
}

ls_status ls_nonfinite_failure(const ls_nonfinite *r, const ls_config *cfg) {
    char text[LS_STATUS_TEXT_BYTES / 2], part[1024];
    writer w = { text, sizeof text, 0 };
    put(&w, "update %lld (epoch %lld): ", (long long)r->update, (long long)r->epoch);
    if (r->bad_losses)
        put(&w, "the loss of %lld sample%s is not finite", (long long)r->bad_losses, r->bad_losses == 1 ? "" : "s");
    else if (cfg->train_precision == LS_PRECISION_FP16)
        put(&w, "%d update%s in a row %s (loss_scale.max_skips = %lld), the loss scale was %g", r->skipped_in_row,
            r->skipped_in_row == 1 ? "" : "s", r->cause == LS_CAUSE_F16 ? "overflowed in fp16" : "had to be skipped",
            (long long)cfg->loss_scale_max_skips, (double)r->loss_scale);
    else if (r->cause == LS_CAUSE_FIXED_POINT)
        put(&w, "the gradient is finite, but not in the range of ordered mode");
    else
        put(&w, "the gradient is not finite");
    if (r->rank >= 0)
        put(&w, "; it began on rank %d of %d (%s), micro-batch %d of %d, ", r->rank, r->world_size, r->host, r->micro,
            r->micro_batches);
    else
        put(&w, "; ");
    if (ls_tensor_stats_is_bad(&r->bad)) put(&w, "%s", ls_nonfinite_origin(&r->bad, part, sizeof part));
    put_samples(&w, r);
    put(&w, "%s%s", ls_tensor_stats_is_bad(&r->bad) ? "; " : "",
        ls_nonfinite_advice(r->cause, &r->bad, r->loss_scale, part, sizeof part));
    if (r->later)
        put(&w,
            "; by the time the host knew, %lld more update%s had been applied, and this was found with the weights of "
            "then",
            (long long)r->later, r->later == 1 ? "" : "s");
    if (r->folder[0]) put(&w, "; train audit %s --inspect nonfinite shows its tensors", r->folder);
    return ls_fail(LS_NUMERIC, "%s", text);
}

// --- for programs --------------------------------------------------------------------------------

static void add_bad_tensor(const ls_tensor_stats *stats, cJSON *object) {
    const char *direction = stats->instruction < 0 ? "sums" : stats->backward ? "backward" : "forward";
    ls_json_add_text(object, "direction", direction);
    ls_json_add_text(object, "layer", stats->layer);
    ls_json_add_text(object, "operator", stats->op);
    ls_json_add_int(object, "instruction", stats->instruction);
    ls_json_add_text(object, "tensor", stats->tensor);
    ls_json_add_text(object, "kind", ls_tensor_stats_kind_name((ls_tensor_stats_kind)stats->kind));
    ls_json_add_text(object, "dtype", ls_dtype_name((ls_dtype)stats->storage));
    cJSON *shape = ls_json_add_array(object, "shape");
    for (int d = 0; d < stats->rank; d++) ls_json_append(shape, cJSON_CreateNumber((double)stats->dim[d]));
    ls_json_add_int(object, "elements", stats->count);
    ls_json_add_int(object, "nan", stats->nans);
    ls_json_add_int(object, "infinite", stats->infs);
    ls_json_add_int(object, "beyond_fixed_point", stats->beyond);
    ls_json_add_int(object, "first", stats->first);
}

static void add_samples(const ls_nonfinite *r, cJSON *object) {
    cJSON *samples = ls_json_add_array(object, "samples"), *names = NULL;
    for (int i = 0; i < r->sample_count; i++) ls_json_append(samples, cJSON_CreateNumber((double)r->samples[i]));
    for (int i = 0; i < r->sample_count && r->names[0][0]; i++) {
        if (!names) names = ls_json_add_array(object, "files");
        ls_json_append(names, ls_json_string(r->names[i]));
    }
    ls_json_add_int(object, "samples_of_micro_batch", r->count);
    if (r->bad.bad_samples >= 0) ls_json_add_int(object, "bad_samples", r->bad.bad_samples);
}

void ls_nonfinite_json(const ls_nonfinite *r, cJSON *object) {
    ls_json_add_int(object, "failed_update", r->update);
    ls_json_add_int(object, "failed_epoch", r->epoch);
    ls_json_add_int(object, "window", r->window);
    ls_json_add_text(object, "cause", ls_nonfinite_cause_name(r->cause));
    ls_json_add_real(object, "loss_scale", (double)r->loss_scale);
    ls_json_add_int(object, "bad_losses", r->bad_losses);
    ls_json_add_int(object, "skipped_in_row", r->skipped_in_row);
    ls_json_add_int(object, "later_updates", r->later);
    ls_json_add_int(object, "world_size", r->world_size);
    if (r->rank >= 0) {
        ls_json_add_int(object, "rank", r->rank);
        ls_json_add_text(object, "host", r->host);
        ls_json_add_int(object, "micro_batch", r->micro);
        ls_json_add_int(object, "micro_batches", r->micro_batches);
        ls_json_add_int(object, "position", (int64_t)r->position);
        add_samples(r, object);
    }
    if (ls_tensor_stats_is_bad(&r->bad)) add_bad_tensor(&r->bad, object);
}
