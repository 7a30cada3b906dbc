#include "deploy/network.h"

#include "base/memory.h"
#include "program/buffer_planner.h"

static int64_t element_bytes(const ls_network *n) {
    return n->integer ? 1 : (int64_t)sizeof(float);
}

// Whether the step makes its output. Further JOINs of a concat write into the output that the first one makes.
static int makes(const ls_network *n, int step) {
    return n->steps[step].output >= 0 && (step == 0 || n->steps[step - 1].output != n->steps[step].output);
}

static void find_lifetimes(ls_network *n) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        if (makes(n, i)) n->values[s->output].first_step = i;
        if (s->output >= 0) n->values[s->output].last_step = i;
        for (int k = 0; k < s->input_count; k++) n->values[s->inputs[k]].last_step = i;
    }
}

// Returns the input in whose bytes the step may write its output, or -1: an addend, or an input that the kernel reads
// element by element, of the same size, which no later step reads.
static int input_in_place(const ls_network *n, int index) {
    const ls_step *s = &n->steps[index];
    const int weighted = s->kind == LS_STEP_CONV || s->kind == LS_STEP_DEPTHWISE;
    const int at = weighted ? 1 : 0, both = s->kind == LS_STEP_ADD;
    if (!weighted && !both && s->kind != LS_STEP_MAP && s->kind != LS_STEP_MULTIPLY) return -1;
    for (int k = at; k < s->input_count && k <= at + both; k++) {
        const int value = s->inputs[k];
        if (n->values[value].last_step != index || ls_network_elements(n, value) != ls_network_elements(n, s->output))
            continue;
        if (weighted && s->inputs[0] == value) continue; // the convolution itself reads it
        if (s->kind == LS_STEP_MULTIPLY && s->inputs[0] == s->inputs[1]) continue;
        return value;
    }
    return -1;
}

// Sets ram_bytes of all steps, and peak_step. slot[v]: the slot of value v. Values that share a slot count once.
static void find_peak(ls_network *n, const ls_buffer_planner *planner, const int *slot) {
    for (int i = 0; i < n->step_count; i++) {
        int64_t *bytes = &n->steps[i].ram_bytes;
        for (int v = 0; v < n->value_count; v++) {
            int counted = n->values[v].first_step > i || n->values[v].last_step < i;
            for (int u = 0; u < v && !counted; u++)
                counted = slot[u] == slot[v] && n->values[u].first_step <= i && n->values[u].last_step >= i;
            if (!counted) *bytes += (int64_t)ls_buffer_planner_slot_bytes(planner, slot[v]);
        }
        if (*bytes > n->steps[n->peak_step].ram_bytes) n->peak_step = i;
    }
}

static ls_status book(ls_network *n, ls_buffer_planner *planner, int *slot) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        if (!makes(n, i)) continue;
        const ls_network_value *value = &n->values[s->output];
        const int shared = input_in_place(n, i);
        if (shared >= 0) {
            slot[s->output] = slot[shared];
            ls_buffer_planner_extend(planner, slot[shared], value->last_step);
            continue;
        }
        const size_t bytes = (size_t)(ls_network_elements(n, s->output) * element_bytes(n));
        LS_TRY(ls_buffer_planner_book(planner, s->name, bytes, value->first_step, value->last_step, &slot[s->output]));
    }
    return LS_SUCCESS;
}

ls_status ls_network_place(ls_network *n) {
    ls_buffer_planner *planner = ls_buffer_planner_new();
    int *slot = ls_new(n->value_count, sizeof *slot, "places of values");
    find_lifetimes(n);
    ls_status status = book(n, planner, slot);
    if (!ls_failed(status)) {
        ls_buffer_planner_fix(planner);
        for (int v = 0; v < n->value_count; v++)
            n->values[v].offset = (int64_t)ls_buffer_planner_offset(planner, slot[v]) / element_bytes(n);
        n->slab_elements = (int64_t)ls_buffer_planner_bytes(planner) / element_bytes(n);
        find_peak(n, planner, slot);
        if (n->slab_elements > INT32_MAX / 8)
            status = ls_fail(LS_USAGE, "%s: its buffers have %lld numbers: in C, sizes must fit into 32 bits",
                n->info->graph->path, (long long)n->slab_elements);
    }
    ls_buffer_planner_free(planner);
    free(slot);
    return status;
}

int64_t ls_network_slab_bytes(const ls_network *n) {
    return n->slab_elements * element_bytes(n);
}

// --- constants -------------------------------------------------------------------------------------

// Bytes of a float_layer and an int8_layer with pointers of 32 bits, as on a microcontroller.
enum { POINTER = 4, FLOAT_LAYER = sizeof(window) + 2 * POINTER + 16, INT8_LAYER = sizeof(window) + 4 * POINTER + 24 };

int64_t ls_step_constant_bytes(const ls_network *n, const ls_step *s) {
    if (!n->integer) return (s->weight_count + s->bias_count) * (int64_t)sizeof(float) + FLOAT_LAYER;
    return s->table_count + 3 * (int64_t)s->number_count * (int64_t)sizeof(int32_t) + INT8_LAYER;
}

int64_t ls_network_constant_bytes(const ls_network *n) {
    int64_t sum = 0;
    for (int i = 0; i < n->step_count; i++) sum += ls_step_constant_bytes(n, &n->steps[i]);
    return sum;
}
