#include "deploy/execute.h"
#include "deploy/kernels_float.h"

#define ACTIVATION(NAME, name, zero, text) \
    _Static_assert((int)LS_ACTIVATION_##NAME == (int)NAME, "kernels_float.h has another number for " #name);
#include "config/activations.def"

typedef void kernel(const float_layer *l, const float *a, const float *b, float *dst);
static kernel *const kernels[LS_STEP_COUNT] = {
    [LS_STEP_CONV] = conv,
    [LS_STEP_DEPTHWISE] = depthwise,
    [LS_STEP_MAX_POOL] = max_pool,
    [LS_STEP_MEAN_POOL] = mean_pool,
    [LS_STEP_ADD] = add,
    [LS_STEP_MULTIPLY] = multiply,
    [LS_STEP_MAP] = map_values,
    [LS_STEP_JOIN] = join,
    [LS_STEP_SHORTCUT] = shortcut,
    [LS_STEP_GROUP_NORM] = group_norm,
};

static const float *input(const ls_network *n, const ls_step *s, const float *slab, int number) {
    return number < s->input_count ? slab + n->values[s->inputs[number]].offset : NULL;
}

static void run(const ls_network *n, const ls_step *s, const uint8_t *pixels, float *slab, float *logits) {
    float *dst = s->output < 0 ? NULL : slab + n->values[s->output].offset;
    if (s->kind == LS_STEP_NORMALISE)
        normalise(&s->floats, pixels, dst);
    else if (s->kind == LS_STEP_LOGITS)
        write_logits(&s->floats, input(n, s, slab, 0), logits);
    else
        kernels[s->kind](&s->floats, input(n, s, slab, 0), input(n, s, slab, 1), dst);
}

// Whether the step completes its output. The steps of a concat share one output, which the last of them completes.
static int completes(const ls_network *n, int step) {
    const int output = n->steps[step].output;
    return output >= 0 && n->steps[step + 1].output != output;
}

void ls_execute_float(
    const ls_network *n, const uint8_t *pixels, float *slab, float *logits, const ls_step_observer *observer) {
    for (int i = 0; i < n->step_count; i++) {
        const ls_step *s = &n->steps[i];
        run(n, s, pixels, slab, logits);
        if (observer && completes(n, i)) observer->observe(observer->context, i, slab + n->values[s->output].offset);
    }
}
