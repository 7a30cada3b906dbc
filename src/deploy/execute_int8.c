#include "deploy/execute.h"
#include "deploy/kernels_int8.h"

typedef void kernel(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst);
static kernel *const kernels[LS_STEP_COUNT] = {
    [LS_STEP_CONV] = conv,
    [LS_STEP_DEPTHWISE] = depthwise,
    [LS_STEP_MAX_POOL] = max_pool,
    [LS_STEP_MEAN_POOL] = mean_pool,
    [LS_STEP_ADD] = add,
    [LS_STEP_MULTIPLY] = multiply,
    [LS_STEP_MAP] = map_values,
    [LS_STEP_JOIN] = join,
    [LS_STEP_SHORTCUT] = shortcut, // ls_network_new has refused a group norm
};

static const int8_t *input(const ls_network *n, const ls_step *s, const int8_t *slab, int number) {
    return number < s->input_count ? slab + n->values[s->inputs[number]].offset : NULL;
}

static void run(const ls_network *n, const ls_step *s, const uint8_t *pixels, int8_t *slab, float *logits) {
    int8_t *dst = s->output < 0 ? NULL : slab + n->values[s->output].offset;
    if (s->kind == LS_STEP_NORMALISE)
        normalise(&s->integers, pixels, dst);
    else if (s->kind == LS_STEP_LOGITS)
        write_logits(&s->integers, input(n, s, slab, 0), logits);
    else
        kernels[s->kind](&s->integers, input(n, s, slab, 0), input(n, s, slab, 1), dst);
}

void ls_execute_int8(const ls_network *n, const uint8_t *pixels, int8_t *slab, float *logits) {
    for (int i = 0; i < n->step_count; i++) run(n, &n->steps[i], pixels, slab, logits);
}
