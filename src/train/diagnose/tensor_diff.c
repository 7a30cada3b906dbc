#include "train/diagnose/tensor_diff.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/half.h"

static double value_of(ls_dtype dtype, const void *array, int64_t i) {
    switch (dtype) {
    case LS_F64:
        return ((const double *)array)[i];
    case LS_I64:
        return (double)((const int64_t *)array)[i];
    case LS_I32:
        return (double)((const int32_t *)array)[i];
    case LS_U8:
        return (double)((const uint8_t *)array)[i];
    default:
        return (double)ls_load_float(array, dtype, i);
    }
}

static void add_difference(double a, double b, ls_tensor_difference *d) {
    double absolute = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
    double larger = fmax(fabs(a), fabs(b));
    double relative = isinf(absolute) ? INFINITY : larger > 0 ? absolute / larger : 0; // 0: +0 and -0
    d->differing++;
    d->largest_absolute = fmax(d->largest_absolute, absolute);
    d->largest_relative = fmax(d->largest_relative, relative);
}

void ls_tensor_compare(ls_dtype dtype, int64_t elements, const void *a, const void *b, ls_tensor_difference *d) {
    const size_t bytes = ls_dtype_bytes(dtype);
    *d = (ls_tensor_difference){ .elements = elements, .first = -1 };
    if (memcmp(a, b, (size_t)elements * bytes) == 0) return;
    for (int64_t i = 0; i < elements; i++) {
        const size_t at = (size_t)i * bytes;
        if (memcmp((const char *)a + at, (const char *)b + at, bytes) == 0) continue;
        double x = value_of(dtype, a, i), y = value_of(dtype, b, i);
        if (d->first < 0) {
            d->first = i;
            d->first_a = x;
            d->first_b = y;
        }
        add_difference(x, y, d);
    }
}

int64_t ls_safetensors_elements(const ls_safetensors_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) elements *= tensor->dim[i];
    return elements;
}

const char *ls_tensor_difference_text(const ls_tensor_difference *d, char *dst, size_t bytes) {
    snprintf(dst, bytes,
        "[%" PRId64 "] is %.9g and %.9g; %" PRId64 " of %" PRId64 " elements differ, at most by %.3g (relative %.3g)",
        d->first, d->first_a, d->first_b, d->differing, d->elements, d->largest_absolute, d->largest_relative);
    return dst;
}

int ls_snapshot_compare(const ls_snapshot *a, const ls_snapshot *b, ls_tensor_difference *d) {
    for (int i = 0; i < a->count; i++) {
        const ls_snapshot_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        ls_tensor_compare(LS_F32, x->elements, x->values, y->values, d);
        if (d->differing) return i;
    }
    return -1;
}

void ls_counters_compare(const ls_train_counters *a, const ls_train_counters *b, char *dst, size_t bytes) {
    const struct {
        const char *name;
        double a, b; // whole numbers below 2^53
    } rows[] = {
#define ROW(name, field) { name, (double)a->field, (double)b->field }
        ROW("epoch", epoch),
        ROW("window", window),
        ROW("update", update),
        ROW("samples", samples),
        ROW("updates applied", applied),
        ROW("updates skipped", skipped),
        ROW("finite updates in a row", finite_in_row),
        ROW("skipped updates in a row", skipped_in_row),
        ROW("loss scale", loss_scale),
        ROW("loss since the last report", since_report.loss_sum),
        ROW("correct since the last report", since_report.correct),
        ROW("samples since the last report", since_report.count),
        ROW("loss of the epoch", of_epoch.loss_sum),
        ROW("correct of the epoch", of_epoch.correct),
        ROW("samples of the epoch", of_epoch.count),
        ROW("loss of the last epoch", last_epoch_loss),
        ROW("update of the evaluation", evaluation.update),
        ROW("validation loss", evaluation.val_loss),
        ROW("validation accuracy", evaluation.val_accuracy),
        ROW("validation samples", evaluation.val_samples),
        ROW("best validation accuracy", evaluation.best_accuracy),
        ROW("update of the best validation", evaluation.best_update),
        ROW("evaluations without improvement", evaluation.without_improvement),
        ROW("test loss", evaluation.test_loss),
        ROW("test accuracy", evaluation.test_accuracy),
        ROW("test samples", evaluation.test_samples),
#undef ROW
    };
    size_t used = 0;
    dst[0] = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && used < bytes; i++) {
        if (memcmp(&rows[i].a, &rows[i].b, sizeof rows[i].a) == 0) continue;
        int more = snprintf(
            dst + used, bytes - used, "%s%s %.17g and %.17g", used ? "; " : "", rows[i].name, rows[i].a, rows[i].b);
        if (more > 0) used += (size_t)more;
    }
}
