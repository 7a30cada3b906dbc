// What is random or placed by sample - dropout and augment - against plain statements of its definition.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "config/purpose.h"
#include "op_harness.h"
#include "ref_device.h"
#include "support/cmocka.h"

// Dropout of samples position..position+n-1 of a window, all values 1.
static double *dropout_of(int unit, int n, uint64_t position, uint32_t update, int layer, uint64_t seed) {
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    ls_nchw shape = { n, 3, 5, 7 };
    op_case *c = case_new(LS_OP_DROPOUT, LS_F32, "dropout", "");
    c->desc.attr.elementwise = (ls_elementwise_attr){
        .shape = shape, .storage = LS_F32, .p = 0.25F, .unit = unit, .layer = layer, .seed = seed
    };
    fill_uniform(c, case_activation(c, LS_DROPOUT_SRC, USE_IN, shape, 0), 1, 1);
    case_micro(c, LS_DROPOUT_MICRO, n);
    *(ls_micro_input *)c->args[LS_DROPOUT_MICRO].host = (ls_micro_input){ n, update, position };
    case_activation(c, LS_DROPOUT_DST, USE_OUT, shape, 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    case_free(c);
    return values[LS_DROPOUT_DST];
}

static double *dropout(int n, uint64_t position, uint32_t update, int layer, uint64_t seed) {
    return dropout_of(1, n, position, update, layer, seed);
}

enum { SAMPLE = 3 * 5 * 7, WINDOW = 12 };

// One number for a channel (35 elements) or a sample, whatever the micro-batch.
static void whole_channels_and_samples_are_dropped(void **unused) {
    (void)unused;
    static const int units[] = { SAMPLE / 3, SAMPLE };
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        double *whole = dropout_of(units[u], WINDOW, 7, 3, 2, 99);
        for (int i = 0; i < WINDOW * SAMPLE; i++) {
            const uint64_t number = (uint64_t)((7 * SAMPLE + i) / units[u]);
            const uint32_t word = ls_random_word(99, LS_PURPOSE_DROPOUT, 2, 3, number);
            const double expected = ls_unit_float(word) >= 0.25F ? (double)(float)(1 / 0.75) : 0;
            if (whole[i] != expected) fail_msg("unit %d, element %d: %.9g, not %.9g", units[u], i, whole[i], expected);
        }
        double *part = dropout_of(units[u], 2, 10, 3, 2, 99);
        assert_memory_equal(part, whole + 3 * SAMPLE, (size_t)2 * SAMPLE * sizeof *part);
        free(part);
        free(whole);
    }
}

static void a_samples_dropout_does_not_depend_on_its_micro_batch(void **unused) {
    (void)unused;
    double *whole = dropout(WINDOW, 0, 3, 2, 99);
    for (int n = 1; n < WINDOW; n++) {
        for (int first = 0; first + n <= WINDOW; first += n) {
            double *part = dropout(n, (uint64_t)first, 3, 2, 99);
            assert_memory_equal(part, whole + first * SAMPLE, (size_t)n * SAMPLE * sizeof *part);
            free(part);
        }
    }
    int dropped = 0;
    for (int i = 0; i < WINDOW * SAMPLE; i++) {
        uint32_t word = ls_random_word(99, LS_PURPOSE_DROPOUT, 2, 3, (uint64_t)i);
        double expected = ls_unit_float(word) >= 0.25F ? (double)(float)(1 / 0.75) : 0;
        if (whole[i] != expected) fail_msg("element %d: %.9g, expected %.9g", i, whole[i], expected);
        dropped += whole[i] == 0;
    }
    // 1260 elements, a quarter dropped: 315, standard deviation 15
    assert_in_range(dropped, 315 - 75, 315 + 75);
    free(whole);
}

static void dropout_differs_by_update_layer_seed_and_position(void **unused) {
    (void)unused;
    const struct {
        uint64_t position;
        uint32_t update;
        int layer;
        uint64_t seed;
    } rows[] = { { 0, 0, 0, 0 }, { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 1, 0 }, { 0, 0, 0, 1 },
        { 0, 0, 0, (uint64_t)1 << 40 }, { (uint64_t)1 << 33, 0, 0, 0 } };
    enum { ROWS = sizeof rows / sizeof *rows };
    double *masks[ROWS];
    for (int i = 0; i < ROWS; i++) {
        masks[i] = dropout(1, rows[i].position, rows[i].update, rows[i].layer, rows[i].seed);
        for (int j = 0; j < i; j++) {
            if (memcmp(masks[i], masks[j], SAMPLE * sizeof(double)) == 0)
                fail_msg("rows %d and %d drop the same", i, j);
        }
    }
    for (int i = 0; i < ROWS; i++) free(masks[i]);
}

// --- augment, the long way: pad the whole picture, cut out, mirror -------------------------------

static const struct {
    const char *name;
    ls_chw shape;
    int pad;
    ls_pad_mode mode;
} augment_tests[] = {
    { "no padding", { 1, 4, 5 }, 0, LS_PAD_ZERO },
    { "zero", { 3, 5, 4 }, 2, LS_PAD_ZERO },
    { "zero, padding beyond the picture", { 2, 2, 3 }, 5, LS_PAD_ZERO },
    { "reflect", { 3, 5, 4 }, 2, LS_PAD_REFLECT },
    { "reflect, as far as it goes", { 1, 4, 6 }, 3, LS_PAD_REFLECT },
};

enum { PADDED_MAX = 16 };

static void pad_picture(
    const uint8_t *picture, ls_chw s, int pad, ls_pad_mode mode, uint8_t padded[PADDED_MAX][PADDED_MAX]) {
    memset(padded, 0, PADDED_MAX * PADDED_MAX);
    for (int y = 0; y < s.h; y++) memcpy(&padded[y + pad][pad], picture + y * s.w, (size_t)s.w);
    if (mode == LS_PAD_ZERO) return;
    for (int k = 1; k <= pad; k++) { // columns first, then whole rows, as numpy.pad(mode = "reflect")
        for (int y = pad; y < pad + s.h; y++) {
            padded[y][pad - k] = padded[y][pad + k];
            padded[y][pad + s.w - 1 + k] = padded[y][pad + s.w - 1 - k];
        }
    }
    for (int k = 1; k <= pad; k++) {
        memcpy(padded[pad - k], padded[pad + k], PADDED_MAX);
        memcpy(padded[pad + s.h - 1 + k], padded[pad + s.h - 1 - k], PADDED_MAX);
    }
}

static void augment_test(const char *name, ls_chw s, int pad, ls_pad_mode mode) {
    int places = 2 * pad + 1, samples = places * places * 2;
    ls_nchw shape = ls_batch_of(samples, s);
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    op_case *c = case_new(LS_OP_AUGMENT, LS_F32, name, "");
    c->desc.attr.augment = (ls_augment_attr){ shape, LS_F32, { .pad = pad, .pad_mode = mode }, 0 };
    uint8_t *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)ls_nchw_count(shape), 0)->host;
    for (int64_t i = 0; i < ls_nchw_count(shape); i++) pixels[i] = (uint8_t)(i * 37 % 251 + 1);
    ls_augment_sample *drawn = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)samples * sizeof *drawn, 0)->host;
    for (int n = 0; n < samples; n++) {
        drawn[n] = (ls_augment_sample){
            .dy = (uint8_t)(n / 2 / places), .dx = (uint8_t)(n / 2 % places), .flip = (uint8_t)(n % 2)
        };
    }
    float *table = case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, (size_t)s.c * 256, 0)->host;
    for (int i = 0; i < s.c * 256; i++) table[i] = (float)(i % 256) + 1000 * (float)(i / 256);
    case_activation(c, LS_AUGMENT_DST, USE_OUT, shape, 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    const double *got = values[LS_AUGMENT_DST];
    for (int plane = 0; plane < samples * s.c; plane++) {
        int n = plane / s.c, channel = plane % s.c;
        uint8_t padded[PADDED_MAX][PADDED_MAX];
        pad_picture(pixels + (int64_t)plane * s.h * s.w, s, pad, mode, padded);
        for (int i = 0; i < s.h * s.w; i++) {
            int y = i / s.w, x = drawn[n].flip ? s.w - 1 - i % s.w : i % s.w;
            double expected = padded[y + drawn[n].dy][x + drawn[n].dx] + 1000.0 * channel;
            double value = got[(int64_t)plane * s.h * s.w + i];
            if (value != expected)
                fail_msg("%s: sample %d, channel %d, pixel %d: %g, expected %g", name, n, channel, i, value, expected);
        }
    }
    free(values[LS_AUGMENT_DST]);
    case_free(c);
}

static void augment_places_and_mirrors(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof augment_tests / sizeof *augment_tests; i++) {
        augment_test(augment_tests[i].name, augment_tests[i].shape, augment_tests[i].pad, augment_tests[i].mode);
    }
}

// --- jitter --------------------------------------------------------------------------------------

// (x + U(+-brightness)) * (1 + U(+-contrast)) with levels that end at +-1: they end 1/65536 before it, which moves a value by less than 1e-4.
static void jitter_shifts_then_scales(void **unused) {
    (void)unused;
    enum { LEVELS = 5, N = LEVELS * LEVELS, C = 3, PIXELS = 256 };
    static const uint16_t levels[LEVELS] = { 0, 1, 32767, 50000, 65535 };
    const ls_augmentation a = { .brightness = 0.75F, .contrast = 0.5F };
    const ls_nchw shape = { N, C, 16, 16 };
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    op_case *c = case_new(LS_OP_AUGMENT, LS_F32, "jitter", "");
    c->desc.attr.augment = (ls_augment_attr){ shape, LS_F32, a, 0 };
    uint8_t *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)ls_nchw_count(shape), 0)->host;
    for (int64_t i = 0; i < ls_nchw_count(shape); i++) pixels[i] = (uint8_t)i;
    ls_augment_sample *drawn = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)N * sizeof *drawn, 0)->host;
    for (int n = 0; n < N; n++)
        drawn[n] = (ls_augment_sample){ .brightness = levels[n / LEVELS], .contrast = levels[n % LEVELS] };
    float *table = case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, C * PIXELS, 0)->host;
    for (int i = 0; i < C * PIXELS; i++) table[i] = (float)(i % PIXELS) / 64 - 2 + (float)(i / PIXELS);
    case_activation(c, LS_AUGMENT_DST, USE_OUT, shape, 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (int i = 0; i < N * C * PIXELS; i++) {
        int n = i / (C * PIXELS);
        double shift = 0.75 * (2 * levels[n / LEVELS] / 65535.0 - 1),
               stretch = 0.5 * (2 * levels[n % LEVELS] / 65535.0 - 1);
        double expected = ((double)table[i % (C * PIXELS)] + shift) * (1 + stretch), got = values[LS_AUGMENT_DST][i];
        if (fabs(got - expected) > 1e-4) fail_msg("element %d: %.9g, expected %.9g", i, got, expected);
    }
    free(values[LS_AUGMENT_DST]);
    case_free(c);
}

// --- resized crop --------------------------------------------------------------------------------

// Of the rectangle, as torch.nn.functional.interpolate(mode="bilinear", align_corners=False): shares in 2048ths and a rounded result
// are within 0.7 of it.
static double stretched(const uint8_t *plane, ls_chw s, const ls_augment_sample *d, int y, int x) {
    double at_y = fmax((y + 0.5) * d->crop_h / s.h - 0.5, 0), at_x = fmax((x + 0.5) * d->crop_w / s.w - 0.5, 0),
           sum = 0;
    int y0 = (int)at_y, x0 = (int)at_x;
    for (int i = 0; i < 4; i++) {
        int from_y = y0 + i / 2 < d->crop_h ? y0 + i / 2 : y0, from_x = x0 + i % 2 < d->crop_w ? x0 + i % 2 : x0;
        double share = (i / 2 ? at_y - y0 : 1 - (at_y - y0)) * (i % 2 ? at_x - x0 : 1 - (at_x - x0));
        sum += share * plane[(d->crop_y + from_y) * s.w + d->crop_x + from_x];
    }
    return sum;
}

static void a_rectangle_is_stretched(void **unused) {
    (void)unused;
    static const ls_augment_sample drawn[] = { { .crop_h = 12, .crop_w = 10 },
        { .crop_y = 2, .crop_x = 3, .crop_h = 7, .crop_w = 5 }, { .crop_y = 11, .crop_x = 9, .crop_h = 1, .crop_w = 1 },
        { .crop_h = 3, .crop_w = 10 }, { .crop_y = 5, .crop_h = 7, .crop_w = 9 },
        { .crop_x = 8, .crop_h = 12, .crop_w = 2, .flip = 1 } };
    enum { N = sizeof drawn / sizeof *drawn, C = 2, H = 12, W = 10 };
    const ls_nchw shape = { N, C, H, W };
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    op_case *c = case_new(LS_OP_AUGMENT, LS_F32, "crop", "");
    c->desc.attr.augment = (ls_augment_attr){ shape, LS_F32, { .crop_scale = 0.1F }, 0 };
    uint8_t *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)ls_nchw_count(shape), 0)->host;
    for (int64_t i = 0; i < ls_nchw_count(shape); i++) pixels[i] = (uint8_t)(i * 101 % 256);
    void *samples = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, sizeof drawn, 0)->host;
    memcpy(samples, drawn, sizeof drawn);
    float *table = case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, C * 256, 0)->host;
    for (int i = 0; i < C * 256; i++) table[i] = (float)(i % 256);
    case_activation(c, LS_AUGMENT_DST, USE_OUT, shape, 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (int i = 0; i < N * C * H * W; i++) {
        const ls_augment_sample *d = &drawn[i / (C * H * W)];
        const int x = d->flip ? W - 1 - i % W : i % W;
        double expected = stretched(pixels + i / (H * W) * (H * W), (ls_chw){ C, H, W }, d, i / W % H, x);
        double got = values[LS_AUGMENT_DST][i];
        if (fabs(got - expected) > 0.7) fail_msg("element %d: %g, expected %g", i, got, expected);
        if (i < C * H * W && got != pixels[i])
            fail_msg("element %d of a whole picture: %g, expected %d", i, got, pixels[i]);
    }
    free(values[LS_AUGMENT_DST]);
    case_free(c);
}

// Shares of the area and logarithms of the ratio are uniform, as far as rounding to pixels allows; places are uniform over what fits.
static void rectangles_are_as_torchvision_draws_them(void **unused) {
    (void)unused;
    enum { SIDE = 400, SAMPLES = 20000 };
    const ls_augmentation a = { .crop_scale = 0.1F, .crop_ratio = 1.3333333F };
    double area = 0, ratio = 0, squares = 0, place = 0;
    for (int n = 0; n < SAMPLES; n++) {
        const ls_augment_sample d = ls_augment_draw(&a, (ls_chw){ 1, SIDE, SIDE }, 7, 1, n);
        const double share = (double)d.crop_h * d.crop_w / (SIDE * SIDE), log_ratio = log((double)d.crop_w / d.crop_h);
        assert_true(share > 0.099 && share <= 1 && fabs(log_ratio) < log(4.0 / 3) + 0.01);
        if (share > 0.7) continue; // above, some do not fit
        area += share;
        ratio += log_ratio;
        squares += log_ratio * log_ratio;
        place += 1;
        assert_true(d.crop_y + d.crop_h <= SIDE && d.crop_x + d.crop_w <= SIDE);
    }
    const double most = log(4.0 / 3);
    if (fabs(area / place - 0.4) > 0.007) fail_msg("mean share %g, expected 0.4", area / place);
    if (fabs(ratio / place) > 0.007) fail_msg("mean logarithm of the ratio %g", ratio / place);
    if (fabs(squares / place - most * most / 3) > 0.001)
        fail_msg("its mean square %g, expected %g", squares / place, most * most / 3);
    // a long picture, of which no such rectangle is so large: its middle
    const ls_augmentation whole = { .crop_scale = 0.99F, .crop_ratio = 1.5F };
    const ls_augment_sample d = ls_augment_draw(&whole, (ls_chw){ 1, 20, 101 }, 7, 1, 0);
    assert_int_equal(d.crop_h, 20);
    assert_int_equal(d.crop_w, 30);
    assert_int_equal(d.crop_y, 0);
    assert_int_equal(d.crop_x, 35);
}

// --- mixup and cutmix ----------------------------------------------------------------------------

// Of Beta(a, a): mean 1/2, second moment about it 1 / (4 (2a + 1)), fourth 3 / (16 (2a + 1) (2a + 3)).
static void shares_are_of_beta(void **unused) {
    (void)unused;
    static const float alphas[] = { 0.2F, 0.5F, 1, 2, 7.5F };
    enum { SAMPLES = 20000 };
    for (int i = 0; i < 5; i++) {
        const double a = (double)alphas[i],
                     expected[3] = { 0, 1 / (4 * (2 * a + 1)), 3 / (16 * (2 * a + 1) * (2 * a + 3)) };
        double moment[3] = { 0 };
        for (int n = 0; n < SAMPLES; n++) {
            const ls_augment_sample d =
                ls_augment_draw(&(ls_augmentation){ .mixup = alphas[i] }, (ls_chw){ 1, 8, 8 }, 3, 0, n);
            const double off = d.mix / 65536.0 - 0.5;
            assert_int_equal(d.mix_h, 0);
            moment[0] += off / SAMPLES;
            moment[1] += off * off / SAMPLES;
            moment[2] += off * off * off * off / SAMPLES;
        }
        for (int k = 0; k < 3; k++) // deviations of the means: below 0.5, 0.125 and 0.035 over the root of 20000
            if (fabs(moment[k] - expected[k]) > (k == 0 ? 5 * 0.0036 : k == 1 ? 5 * 0.0009 : 5 * 0.00025))
                fail_msg("alpha %g, moment %d: %g, expected %g", a, k, moment[k], expected[k]);
    }
}

static void rectangles_of_cutmix(void **unused) {
    (void)unused;
    enum { H = 24, W = 32, SAMPLES = 20000 };
    const ls_augmentation both = { .mixup = 1, .cutmix = 1 }, cuts = { .cutmix = 1 };
    int cut = 0;
    double share = 0;
    for (int n = 0; n < SAMPLES; n++) {
        const ls_augment_sample d = ls_augment_draw(&cuts, (ls_chw){ 1, H, W }, 3, 0, n);
        assert_true(d.mix_y + d.mix_h <= H && d.mix_x + d.mix_w <= W && !d.mix_h == !d.mix_w);
        const double area = (double)d.mix_h * d.mix_w / (H * W);
        if (fabs(d.mix / 65536.0 - area) > 1 / 65536.0)
            fail_msg("sample %d: a share of %g, area %g", n, d.mix / 65536.0, area);
        share += area;
        cut += ls_augment_draw(&both, (ls_chw){ 1, H, W }, 3, 0, n).mix_h > 0;
    }
    assert_in_range(cut, SAMPLES * 0.45, SAMPLES * 0.5); // half of them, but for rectangles of no pixel
    // Uniform shares of 1/2 in the mean; a side of r is clipped to r (1 - r/4) in the mean: E[r^2 (1 - r/4)^2], r^2 uniform, is
    // 1/2 - 1/5 + 1/48 = 0.321; whole pixels take some of it
    if (fabs(share / SAMPLES - 0.31) > 0.015) fail_msg("mean share %g, expected 0.31", share / SAMPLES);
}

// In both pictures' values: what comes of a mixed batch is what comes of the batch and of its reverse, mixed.
static void pictures_are_mixed_with_the_reversed_batch(void **unused) {
    (void)unused;
    enum { N = 5, C = 3, H = 6, W = 7, WHOLE = C * H * W };
    const ls_nchw shape = { N, C, H, W };
    double *values[2][LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    ls_augment_sample drawn[N];
    for (int n = 0; n < N; n++)
        drawn[n] = (ls_augment_sample){
            .dy = (uint8_t)n, .dx = 1, .flip = (uint8_t)(n % 2), .brightness = (uint16_t)(9999 * n), .cut_y = 2
        };
    for (int mixed = 0; mixed < 2; mixed++) {
        op_case *c = case_new(LS_OP_AUGMENT, LS_F32, "mixed", "");
        c->desc.attr.augment = (ls_augment_attr){ shape, LS_F32,
            { .pad = 2, .cutout = 2, .brightness = 0.5F, .mixup = 1, .cutmix = 1 }, 0 };
        uint8_t *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, N * WHOLE, 0)->host;
        for (int i = 0; i < N * WHOLE; i++) pixels[i] = (uint8_t)(i * 101 % 256);
        ls_augment_sample *samples = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, sizeof drawn, 0)->host;
        memcpy(samples, drawn, sizeof drawn);
        for (int n = 0; mixed && n < N; n++) samples[n].mix = (uint16_t)(n < 3 ? 16384 * n : 1);
        for (int n = 3; mixed && n < N; n++)
            samples[n].mix_y = 1, samples[n].mix_x = 2, samples[n].mix_h = (uint16_t)(n - 1), samples[n].mix_w = 5;
        float *table = case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, C * 256, 0)->host;
        for (int i = 0; i < C * 256; i++) table[i] = (float)i / 256;
        case_activation(c, LS_AUGMENT_DST, USE_OUT, shape, 0);
        assert_int_equal(case_run(ref, c, values[mixed], counts).code, LS_OK);
        case_free(c);
    }
    const double *plain = values[0][LS_AUGMENT_DST], *got = values[1][LS_AUGMENT_DST];
    for (int i = 0; i < N * WHOLE; i++) {
        const int n = i / WHOLE, y = i / W % H, x = i % W;
        double share = n < 3 ? n / 4.0 : y >= 1 && y < n && x >= 2;
        double expected = (1 - share) * plain[i] + share * plain[(N - 1 - n) * WHOLE + i % WHOLE];
        if (fabs(got[i] - expected) > 1e-6)
            fail_msg("sample %d, element %d: %g, expected %g", n, i % WHOLE, got[i], expected);
    }
    for (int k = 0; k < 2; k++) free(values[k][LS_AUGMENT_DST]);
}

// Loss and gradient are linear in the target.
static void targets_are_mixed_as_pictures_are(void **unused) {
    (void)unused;
    enum { N = 6, CLASSES = 5, MIX = 20000 };
    static const int32_t labels[N] = { 0, 4, 2, 2, 1, 3 };
    double *values[3][LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    for (int k = 0; k < 3; k++) { // with the labels, with the partners', mixed
        op_case *c = case_new(LS_OP_LOSS, LS_F32, "mixed", "");
        c->desc.attr.loss = (ls_loss_attr){
            .logits = { N, CLASSES, 1, 1 }, .smoothing = 0.1F, .training = 1, .storage = LS_F32, .mixed = k == 2
        };
        fill_uniform(c, case_activation(c, LS_LOSS_LOGITS, USE_IN, c->desc.attr.loss.logits, 0), -3, 3);
        int32_t *own = case_raw(c, LS_LOSS_LABELS, USE_IN, LS_I32, N, 0)->host;
        for (int n = 0; n < N; n++) own[n] = labels[k == 1 ? N - 1 - n : n];
        case_micro(c, LS_LOSS_MICRO, N);
        case_state(c, LS_LOSS_STATE, USE_IN)->loss_scale = 1;
        case_set(c, LS_LOSS_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result));
        case_activation(c, LS_LOSS_GRAD_LOGITS, USE_OUT, c->desc.attr.loss.logits, 0);
        ls_augment_sample *sample = case_raw(c, LS_LOSS_SAMPLE, USE_IN, LS_U8, N * sizeof *sample, 0)->host;
        for (int n = 0; n < N; n++) sample[n].mix = MIX;
        assert_int_equal(case_run(ref, c, values[k], counts).code, LS_OK);
        case_free(c);
    }
    const double share = MIX / 65536.0;
    for (int i = 0; i < N * CLASSES; i++) {
        double expected = (1 - share) * values[0][LS_LOSS_GRAD_LOGITS][i] + share * values[1][LS_LOSS_GRAD_LOGITS][i];
        if (fabs(values[2][LS_LOSS_GRAD_LOGITS][i] - expected) > 1e-6)
            fail_msg("gradient %d: %g, expected %g", i, values[2][LS_LOSS_GRAD_LOGITS][i], expected);
    }
    const double expected = (1 - share) * values[0][LS_LOSS_RESULT][0] + share * values[1][LS_LOSS_RESULT][0];
    if (fabs(values[2][LS_LOSS_RESULT][0] - expected) > 0x1p-24) // each of the three is rounded to 2^-24
        fail_msg("loss %.9g, expected %.9g", values[2][LS_LOSS_RESULT][0], expected);
    assert_true(fabs(values[0][LS_LOSS_RESULT][0] - values[1][LS_LOSS_RESULT][0]) > 0.1);
    assert_true(values[2][LS_LOSS_RESULT][1] == values[0][LS_LOSS_RESULT][1]); // right by the label itself
    for (int k = 0; k < 3; k++) free(values[k][LS_LOSS_GRAD_LOGITS]), free(values[k][LS_LOSS_RESULT]);
}

// --- cutout --------------------------------------------------------------------------------------

// Augments n pictures without a zero: elements are 0 where a value was cut or erased.
static double *cut_pictures(ls_nchw shape, ls_augmentation augmentation, const ls_augment_sample *drawn) {
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    op_case *c = case_new(LS_OP_AUGMENT, LS_F32, "cutout", "");
    c->desc.attr.augment = (ls_augment_attr){ shape, LS_F32, augmentation, 0 };
    uint8_t *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)ls_nchw_count(shape), 0)->host;
    for (int64_t i = 0; i < ls_nchw_count(shape); i++) pixels[i] = (uint8_t)(i * 37 % 251);
    void *samples = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)shape.n * sizeof *drawn, 0)->host;
    memcpy(samples, drawn, (size_t)shape.n * sizeof *drawn);
    float *table = case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, (size_t)shape.c * 256, 0)->host;
    for (int i = 0; i < shape.c * 256; i++) table[i] = (float)(i + 1);
    case_activation(c, LS_AUGMENT_DST, USE_OUT, shape, 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (int64_t i = 0; i < ls_nchw_count(shape); i++) {
        double kept = (double)(i * 37 % 251 + 1 + 256 * (i / (shape.h * shape.w) % shape.c)),
               got = values[LS_AUGMENT_DST][i];
        if (got != 0 && got != kept) fail_msg("element %d: %g, neither 0 nor %g", (int)i, got, kept);
    }
    case_free(c);
    return values[LS_AUGMENT_DST];
}

// The long way: paint the square on paper with a wide margin, and cut the picture out of it.
static void cutout_is_a_clipped_square(void **unused) {
    (void)unused;
    enum { H = 5, W = 8, C = 2, MARGIN = 8, PAPER = 3 * MARGIN };
    for (int side = 1; side <= H; side++) {
        ls_augment_sample drawn[H * W] = { 0 };
        for (int n = 0; n < H * W; n++)
            drawn[n] = (ls_augment_sample){ .cut_y = (uint16_t)(n / W), .cut_x = (uint16_t)(n % W) };
        double *got = cut_pictures((ls_nchw){ H * W, C, H, W }, (ls_augmentation){ .cutout = side }, drawn);
        for (int n = 0; n < H * W; n++) {
            int paper[PAPER][PAPER] = { 0 };
            for (int i = 0; i < side * side; i++)
                paper[MARGIN + n / W - side / 2 + i / side][MARGIN + n % W - side / 2 + i % side] = 1;
            for (int i = 0; i < C * H * W; i++) {
                int y = i / W % H, x = i % W;
                if ((got[n * C * H * W + i] == 0) != paper[MARGIN + y][MARGIN + x])
                    fail_msg("side %d around %d, %d: pixel %d, %d is wrong", side, n / W, n % W, y, x);
            }
        }
        free(got);
    }
}

// Of `size` indices, how many middles bring index `at` into the square.
static int middles_that_cut(int at, int size, int side) {
    int count = 0;
    for (int middle = 0; middle < size; middle++) count += at >= middle - side / 2 && at < middle - side / 2 + side;
    return count;
}

// Drawn as a run draws them: middles are uniform over the picture, and a pixel is cut as often as that says, less at the edges.
static void cutout_is_uniform_over_the_picture(void **unused) {
    (void)unused;
    enum { H = 9, W = 7, SIDE = 4, SAMPLES = 300 * H * W };
    const ls_augmentation a = { .cutout = SIDE };
    ls_augment_sample *drawn = malloc(SAMPLES * sizeof *drawn);
    int middles[H * W] = { 0 }, cuts[H * W] = { 0 };
    for (int n = 0; n < SAMPLES; n++) {
        drawn[n] = ls_augment_draw(&a, (ls_chw){ 1, H, W }, 11, 2, n);
        middles[drawn[n].cut_y * W + drawn[n].cut_x]++;
    }
    double chi_square = 0, area = 0, expected_area = 0;
    for (int i = 0; i < H * W; i++) chi_square += (middles[i] - 300.0) * (middles[i] - 300.0) / 300;
    // 62 degrees of freedom: 62, standard deviation 11.1; a generator that is too even is wrong, too
    if (chi_square < 62 - 45 || chi_square > 62 + 67) fail_msg("chi square of the middles is %g", chi_square);
    double *got = cut_pictures((ls_nchw){ SAMPLES, 1, H, W }, a, drawn);
    for (int64_t i = 0; i < (int64_t)SAMPLES * H * W; i++) cuts[i % (H * W)] += got[i] == 0;
    for (int i = 0; i < H * W; i++) {
        double p = middles_that_cut(i / W, H, SIDE) * middles_that_cut(i % W, W, SIDE) / (double)(H * W);
        double sigma = sqrt(SAMPLES * p * (1 - p));
        if (fabs(cuts[i] - SAMPLES * p) > 5 * sigma)
            fail_msg("pixel %d, %d was cut %d times, expected %g, standard deviation %g", i / W, i % W, cuts[i],
                SAMPLES * p, sigma);
        area += cuts[i] / (double)SAMPLES;
        expected_area += p;
    }
    // An area is at most 16 with a standard deviation below 4: that of the mean of 18900 is below 0.03.
    assert_true(expected_area < SIDE * SIDE - 1); // clipping shows
    if (fabs(area - expected_area) > 5 * 0.03) fail_msg("mean area %g, expected %g", area, expected_area);
    free(got);
    free(drawn);
}

// --- random erasing ------------------------------------------------------------------------------

// All rectangles of a small picture, the empty one, too.
static void erasing_clears_a_rectangle(void **unused) {
    (void)unused;
    enum { H = 4, W = 5, C = 2, COUNT = H * W * (H + 1) * (W + 1) };
    static ls_augment_sample drawn[COUNT];
    int n = 0;
    for (int i = 0; i < COUNT; i++) {
        const int y = i % H, x = i / H % W, h = i / (H * W) % (H + 1), w = i / (H * W * (H + 1));
        if (y + h > H || x + w > W || !h != !w) continue;
        drawn[n++] = (ls_augment_sample){
            .erase_y = (uint16_t)y, .erase_x = (uint16_t)x, .erase_h = (uint16_t)h, .erase_w = (uint16_t)w
        };
    }
    double *got = cut_pictures((ls_nchw){ n, C, H, W }, (ls_augmentation){ .erase = 1 }, drawn);
    for (int i = 0; i < n * C * H * W; i++) {
        const ls_augment_sample *d = &drawn[i / (C * H * W)];
        const int y = i / W % H, x = i % W;
        const int erased =
            y >= d->erase_y && y < d->erase_y + d->erase_h && x >= d->erase_x && x < d->erase_x + d->erase_w;
        if ((got[i] == 0) != erased)
            fail_msg("%d x %d at %d, %d: pixel %d, %d is wrong", d->erase_h, d->erase_w, d->erase_y, d->erase_x, y, x);
    }
    free(got);
}

// In a large picture every rectangle fits. Shares of the area and logarithms of the ratio are then uniform, as are
// places among those that fit.
static void rectangles_are_as_torchvision_erases_them(void **unused) {
    (void)unused;
    enum { H = 500, W = 400, SAMPLES = 40000 };
    const ls_augmentation a = { .erase = 0.25F, .erase_area = 0.2F };
    const double log_most = log(3.3), log_least = log(0.3), log_mean = (log_most + log_least) / 2;
    double area = 0, ratio = 0, squares = 0, down = 0, across = 0, count = 0;
    for (int n = 0; n < SAMPLES; n++) {
        const ls_augment_sample d = ls_augment_draw(&a, (ls_chw){ 1, H, W }, 7, 1, n);
        if (d.erase_h == 0) continue;
        const double share = (double)d.erase_h * d.erase_w / (H * W), log_ratio = log((double)d.erase_h / d.erase_w);
        assert_true(share > 0.019 && share < 0.203 && log_ratio > log_least - 0.04 && log_ratio < log_most + 0.04);
        count++;
        area += share;
        ratio += log_ratio - log_mean;
        squares += (log_ratio - log_mean) * (log_ratio - log_mean);
        down += (double)d.erase_y / (H - d.erase_h);
        across += (double)d.erase_x / (W - d.erase_w);
    }
    const double width = log_most - log_least;
    if (fabs(count - SAMPLES / 4) > 5 * 87) fail_msg("%g of %d pictures", count, SAMPLES);
    if (fabs(area / count - 0.11) > 5 * 0.0006) fail_msg("mean share %g, expected 0.11", area / count);
    if (fabs(ratio / count) > 5 * 0.007) fail_msg("mean logarithm of the ratio is off by %g", ratio / count);
    if (fabs(squares / count - width * width / 12) > 5 * 0.0045)
        fail_msg("its mean square %g, expected %g", squares / count, width * width / 12);
    if (fabs(down / count - 0.5) > 5 * 0.003 || fabs(across / count - 0.5) > 5 * 0.003)
        fail_msg("mean place %g, %g, expected the middle", down / count, across / count);
    // No such rectangle is lower than a row: nothing is erased.
    for (int n = 0; n < 100; n++)
        assert_int_equal(
            ls_augment_draw(&(ls_augmentation){ .erase = 1, .erase_area = 0.33F }, (ls_chw){ 1, 1, 40 }, 7, 1, n)
                .erase_w,
            0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_channels_and_samples_are_dropped),
        cmocka_unit_test(a_samples_dropout_does_not_depend_on_its_micro_batch),
        cmocka_unit_test(dropout_differs_by_update_layer_seed_and_position),
        cmocka_unit_test(augment_places_and_mirrors),
        cmocka_unit_test(jitter_shifts_then_scales),
        cmocka_unit_test(a_rectangle_is_stretched),
        cmocka_unit_test(rectangles_are_as_torchvision_draws_them),
        cmocka_unit_test(shares_are_of_beta),
        cmocka_unit_test(rectangles_of_cutmix),
        cmocka_unit_test(pictures_are_mixed_with_the_reversed_batch),
        cmocka_unit_test(targets_are_mixed_as_pictures_are),
        cmocka_unit_test(cutout_is_a_clipped_square),
        cmocka_unit_test(cutout_is_uniform_over_the_picture),
        cmocka_unit_test(erasing_clears_a_rectangle),
        cmocka_unit_test(rectangles_are_as_torchvision_erases_them),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
