#include "deploy/execute.h"
#include "deploy/kernels_int8.h"

// --- convolutions with vectors: the same integers, because all sums fit into int32 -----------------------------------
//
// A patch has the inputs of one window, less their zero point, so padding is 0. AVX2 and AVX-512 VNNI have instructions
// for products of int16 that are summed to int32. The compiler makes them of the loop in `dot`.
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define INLINE static inline __attribute__((always_inline))
#define FOR(processor) __attribute__((target(processor), optimize("O3")))

enum { PATCH_MAX = 8192 }; // most inputs of a window, on the stack

INLINE int32_t dot(const int16_t *restrict a, const int8_t *restrict weights, int count) {
    int32_t sum = 0;
    for (int i = 0; i < count; i++) sum += a[i] * weights[i];
    return sum;
}

INLINE void take_patch(const int8_layer *l, const int8_t *a, int at, int first, int ins, int16_t *patch) {
    const window *w = &l->w;
    for (int k = 0; k < w->kernel_h * w->kernel_w; k++, patch += ins) {
        const int from = position(w, at, k);
        for (int i = 0; i < ins; i++) patch[i] = (int16_t)(from < 0 ? 0 : a[from * w->in_c + first + i] - l->a);
    }
}

INLINE void conv_by_patches(const int8_layer *l, const int8_t *a, int8_t *dst) {
    const window *w = &l->w;
    const int ins = w->in_c / w->groups, outs = w->out_c / w->groups, each = w->kernel_h * w->kernel_w * ins;
    int16_t patch[PATCH_MAX];
    for (int at = 0; at < w->out_h * w->out_w; at++)
        for (int o = 0; o < w->out_c; o++) {
            if (o % outs == 0) take_patch(l, a, at, o / outs * ins, ins, patch);
            const int32_t sum = l->bias[o] + dot(patch, l->weight + o * each, each);
            dst[at * w->out_c + o] = clamped(l, rescale(sum, l->multiplier[o], l->shift[o]));
        }
}

FOR("avx512f,avx512bw,avx512vl,avx512vnni") static void conv_vnni(const int8_layer *l, const int8_t *a, int8_t *dst) {
    conv_by_patches(l, a, dst);
}

FOR("avx2") static void conv_avx2(const int8_layer *l, const int8_t *a, int8_t *dst) {
    conv_by_patches(l, a, dst);
}

static void conv_here(const int8_layer *l, const int8_t *a, const int8_t *b, int8_t *dst) {
    const int suits = l->w.kernel_h * l->w.kernel_w * (l->w.in_c / l->w.groups) <= PATCH_MAX;
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
