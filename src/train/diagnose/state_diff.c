#include "train/diagnose/state_diff.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/manifest.h"

enum { NAME_BYTES = 192, VALUE_BYTES = 256 };

// --- one tensor ----------------------------------------------------------------------------------

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

static int one_bit_apart(const uint8_t *a, const uint8_t *b, size_t bytes) {
    int bits = 0;
    for (size_t i = 0; i < bytes; i++) bits += __builtin_popcount((unsigned)(a[i] ^ b[i]));
    return bits == 1;
}

static void add_difference(double a, double b, ls_tensor_difference *d) {
    double absolute = isfinite(a) && isfinite(b) ? fabs(a - b) : INFINITY;
    double larger = fmax(fabs(a), fabs(b));
    double relative = isinf(absolute) ? INFINITY : larger > 0 ? absolute / larger : 0; // 0 for +0 and -0
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
            d->one_bit = one_bit_apart((const uint8_t *)a + at, (const uint8_t *)b + at, bytes);
        }
        add_difference(x, y, d);
    }
}

// --- whole states --------------------------------------------------------------------------------

ls_state ls_state_of_snapshot(const ls_snapshot *s) {
    ls_state state = { .tensors = ls_new(s->count + 1, sizeof *state.tensors, "state"), .own = cJSON_CreateObject() };
    ls_manifest_add_counters(state.own, &s->counters);
    state.facts = state.own;
    for (int i = 0; i < s->count; i++) {
        const ls_snapshot_tensor *from = &s->tensors[i];
        ls_safetensors_tensor *to = &state.tensors[state.count++];
        *to = (ls_safetensors_tensor){ .name = from->name, .dtype = LS_F32, .rank = from->rank, .data = from->values };
        memcpy(to->dim, from->dim, (size_t)from->rank * sizeof *to->dim);
    }
    return state;
}

static void add_file(const ls_safetensors *file, ls_state *out) {
    for (int i = 0; file && i < ls_safetensors_count(file); i++) {
        ls_safetensors_tensor *to = &out->tensors[out->count++];
        if (!ls_safetensors_get(file, i, to)) *to = (ls_safetensors_tensor){ .name = ls_safetensors_name(file, i) };
    }
}

ls_state ls_state_of_files(const ls_safetensors *weights, const ls_safetensors *optimizer, const cJSON *manifest) {
    const int count = ls_safetensors_count(weights) + (optimizer ? ls_safetensors_count(optimizer) : 0);
    ls_state state = { .tensors = ls_new(count + 1, sizeof *state.tensors, "state"), .facts = manifest };
    add_file(weights, &state);
    add_file(optimizer, &state);
    return state;
}

void ls_state_free(ls_state *state) {
    free(state->tensors);
    cJSON_Delete(state->own);
    *state = (ls_state){ 0 };
}

// --- facts ---------------------------------------------------------------------------------------

int ls_fact_same(const cJSON *a, const cJSON *b) {
    // cJSON_Compare treats numbers that differ only in their last bits as equal.
    if (cJSON_IsNumber(a) && cJSON_IsNumber(b)) return a->valuedouble == b->valuedouble;
    return cJSON_Compare(a, b, 1);
}

const char *ls_fact_text(const cJSON *item, char *dst, size_t bytes) {
    char number[LS_JSON_REAL_BYTES];
    char *text = cJSON_IsString(item) || cJSON_IsNumber(item) ? NULL : cJSON_PrintUnformatted(item);
    if (cJSON_IsNumber(item)) ls_json_real_text(number, item->valuedouble);
    ls_text_cut(dst, bytes, "%s",
        text                   ? text
        : cJSON_IsNumber(item) ? number
        : cJSON_IsString(item) ? item->valuestring
                               : "none");
    cJSON_free(text);
    return dst;
}

typedef struct {
    void (*found)(void *context, const ls_state_difference *difference);
    void *context;
    int count;
} report;

static void tell(report *r, ls_state_difference d) {
    r->count++;
    r->found(r->context, &d);
}

static void compare_fact(report *r, const char *section, const char *name, const cJSON *a, const cJSON *b) {
    char full[NAME_BYTES], x[VALUE_BYTES], y[VALUE_BYTES];
    if (strcmp(name, "seconds") == 0) return; // the duration of training is not part of the state
    if (ls_fact_same(a, b)) return;
    ls_text_cut(full, sizeof full, "%s.%s", section, name);
    tell(r, (ls_state_difference){
                .name = full, .a = ls_fact_text(a, x, sizeof x), .b = ls_fact_text(b, y, sizeof y), .note = "" });
}

static void compare_facts(report *r, const cJSON *a, const cJSON *b) {
    static const char *const sections[] = { "network", "data", "random", "cursor", "update", "sums", "evaluation" };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const cJSON *x = ls_json_get(a, sections[i]), *y = ls_json_get(b, sections[i]), *item;
        if (cJSON_IsArray(x) || cJSON_IsArray(y)) continue; // not written by any version of Lockstep
        cJSON_ArrayForEach(item, x) {
            if (strcmp(item->string, "seconds") != 0)
                compare_fact(r, sections[i], item->string, item, ls_json_get(y, item->string));
        }
        cJSON_ArrayForEach(item, y) {
            if (!ls_json_get(x, item->string)) compare_fact(r, sections[i], item->string, NULL, item);
        }
    }
}

// Writes the type and shape, such as "fp32 (8, 3, 3, 3)", into dst. Returns dst.
static const char *shape_text(const ls_safetensors_tensor *t, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    dst[0] = 0;
    ls_text_put(&room, "%s (", t->data ? ls_dtype_name(t->dtype) : "a type that is not compared");
    for (int d = 0; d < t->rank; d++) ls_text_put(&room, "%s%" PRId64, d ? ", " : "", t->dim[d]);
    ls_text_put(&room, ")");
    return dst;
}

static int same_shape(const ls_safetensors_tensor *a, const ls_safetensors_tensor *b) {
    return a->data && b->data && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

static void compare_values(report *r, const ls_safetensors_tensor *a, const ls_safetensors_tensor *b) {
    char x[VALUE_BYTES], y[VALUE_BYTES], note[VALUE_BYTES];
    int64_t elements = 1;
    ls_tensor_difference d;
    for (int i = 0; i < a->rank; i++) elements *= a->dim[i];
    ls_tensor_compare(a->dtype, elements, a->data, b->data, &d);
    if (!d.differing) return;
    ls_text_cut(x, sizeof x, "[%" PRId64 "] is %.9g", d.first, d.first_a);
    ls_text_cut(y, sizeof y, "%.9g", d.first_b);
    ls_text_cut(note, sizeof note, "%s%" PRId64 " of %" PRId64 " elements differ, at most by %.3g, relative %.3g",
        d.one_bit ? "one bit apart; " : "", d.differing, d.elements, d.largest_absolute, d.largest_relative);
    tell(r, (ls_state_difference){ 1, a->name, x, y, note });
}

// Reports a tensor that differs. NULL: the state lacks the tensor.
static void compare_tensor(report *r, const ls_safetensors_tensor *a, const ls_safetensors_tensor *b) {
    char x[VALUE_BYTES], y[VALUE_BYTES];
    if (a && b && same_shape(a, b)) {
        compare_values(r, a, b);
        return;
    }
    const ls_safetensors_tensor *any = a ? a : b;
    tell(r, (ls_state_difference){
                1, any->name, a ? shape_text(a, x, sizeof x) : "none", b ? shape_text(b, y, sizeof y) : "none", "" });
}

// Finds a tensor by name. The index `likely` is tried first: states of one network have the same order.
static const ls_safetensors_tensor *find(const ls_state *state, const char *name, int likely) {
    if (likely < state->count && strcmp(state->tensors[likely].name, name) == 0) return &state->tensors[likely];
    for (int i = 0; i < state->count; i++)
        if (strcmp(state->tensors[i].name, name) == 0) return &state->tensors[i];
    return NULL;
}

int ls_state_diff(const ls_state *a, const ls_state *b,
    void (*found)(void *context, const ls_state_difference *difference), void *context) {
    report r = { found, context, 0 };
    if (a->facts && b->facts) compare_facts(&r, a->facts, b->facts);
    for (int i = 0; i < a->count; i++) compare_tensor(&r, &a->tensors[i], find(b, a->tensors[i].name, i));
    for (int i = 0; i < b->count; i++)
        if (!find(a, b->tensors[i].name, i)) compare_tensor(&r, NULL, &b->tensors[i]);
    return r.count;
}
