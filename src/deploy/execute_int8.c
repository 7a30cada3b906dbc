#include "deploy/execute.h"
#include "deploy/kernels_int8.h"

// --- convolutions with vectors: the same integers, because all sums fit into int32 -----------------------------------
//
// A patch has the inputs of one window. A VNNI instruction multiplies uint8 by int8, so 128 is added to the inputs, and
// the sums start with less to make up for it. AVX2 multiplies int16, so its patches are wide. Padding becomes the zero
// point. The compiler makes the instructions of the loops in `dot`.
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define FOR(processor) __attribute__((target(processor), optimize("O3"), flatten))
#define INLINE static inline __attribute__((always_inline))

enum { PATCH_MAX = 8192, OUTS_MAX = 2048 }; // most inputs of a window and outputs of a group, on the stack

typedef union {
    uint8_t narrow[PATCH_MAX];
    int16_t wide[PATCH_MAX];
} patch_of_inputs;

INLINE int32_t dot(const patch_of_inputs *patch, int wide, const int8_t *restrict weights, int count) {
    const uint8_t *restrict narrow = patch->narrow;
    const int16_t *restrict words = patch->wide;
    int32_t sum = 0;
    if (wide)
        for (int i = 0; i < count; i++) sum += words[i] * weights[i];
    else
        for (int i = 0; i < count; i++) sum += narrow[i] * weights[i];
    return sum;
}

INLINE void take_patch(const int8_layer *l, const int8_t *a, int at, int first, patch_of_inputs *patch, int wide) {
    const window *w = &l->w;
    const int ins = w->in_c / w->groups;
    for (int k = 0; k < w->kernel_h * w->kernel_w; k++) {
        const int from = position(w, at, k);
        for (int i = 0; i < ins; i++) {
            const int input = (from < 0 ? l->a : a[from * w->in_c + first + i]) + 128;
            if (wide)
                patch->wide[k * ins + i] = (int16_t)input;
            else
                patch->narrow[k * ins + i] = (uint8_t)input;
        }
    }
}

INLINE void conv_by_patches(const int8_layer *l, const int8_t *a, int8_t *dst, int wide) {
    const window *w = &l->w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, each = w->kernel_h * w->kernel_w * ins;
    patch_of_inputs patch;
    int32_t start[OUTS_MAX];
    for (int first = 0; first < w->out_c; first += outs) {
        for (int o = 0; o < outs; o++) {
            int32_t total = 0;
            for (int i = 0; i < each; i++) total += l->weight[(first + o) * each + i];
            start[o] = l->bias[first + o] - total * (l->a + 128);
        }
        for (int at = 0; at < w->out_h * w->out_w; at++) {
            take_patch(l, a, at, first / outs * ins, &patch, wide);
            for (int o = first; o < first + outs; o++) {
                const int32_t sum = start[o - first] + dot(&patch, wide, l->weight + o * each, each);
                dst[at * w->out_c + o] = clamped(l, rescale(sum, l->multiplier[o], l->shift[o]));
            }
        }
    }
}

FOR("avx512f,avx512bw,avx512vl,avx512vnni") static void conv_vnni(const int8_layer *l, const int8_t *a, int8_t *dst) {
    conv_by_patches(l, a, dst, 0);
}

FOR("avx2") static void conv_avx2(const int8_layer *l, const int8_t *a, int8_t *dst) {
    conv_by_patches(l, a, dst, 1);
}

static void conv_here(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int outs = l->w.out_c / l->w.groups, each = l->w.kernel_h * l->w.kernel_w * (l->w.in_c / l->w.groups);
    const int suits = each <= PATCH_MAX && outs <= OUTS_MAX;
    if (suits && __builtin_cpu_supports("avx512vnni"))
        conv_vnni(l, a, dst);
    else if (suits && __builtin_cpu_supports("avx2"))
        conv_avx2(l, a, dst);
    else
        conv(l, a, b, dst);
}
#else
#define conv_here conv
#endif

typedef void kernel(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst);
static kernel *const kernels[LS_STEP_COUNT] = {
    [LS_STEP_CONV] = conv_here,
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
