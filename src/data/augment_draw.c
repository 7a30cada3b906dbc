// augment_draw.c - draws the augmentation of a sample in an epoch: a pure function, the same on every device and rank.
#include "data/loader.h"

#include <math.h>
#include "base/philox.h"
#include "config/purpose.h"
#include "base/portable_math.h"

enum {
    FIELD_BYTES = 0
#define FIELD(type, name, most) +sizeof(type)
#include "config/augmentations.def"
};
_Static_assert(sizeof(ls_augment_sample) == FIELD_BYTES, "a field is not aligned: the gap before it has no value");

typedef struct {
    const ls_augmentation *options;
    ls_chw picture;
    uint64_t seed;
    int64_t epoch, sample;
} draw;

static ls_philox_block words_of(const draw *d, ls_purpose purpose, uint64_t index) {
    return ls_random_block(d->seed, purpose, (uint32_t)d->epoch, (uint32_t)d->sample, index);
}

// Returns a number within (0, 1).
static double unit(uint32_t word) {
    return (word + 0.5) * 0x1p-32;
}

// --- shift and mirror ----------------------------------------------------------------------------

// Returns 1 if the sample is mirrored: half are, by chance. LS_FLIP_ALTERNATING: so in epoch 0, then it alternates.
static int is_mirrored(const draw *d) {
    if (d->options->flip == LS_FLIP_NEVER) return 0;
    draw in = *d;
    if (d->options->flip == LS_FLIP_ALTERNATING) in.epoch = 0;
    const int odd = (int)((d->epoch - in.epoch) & 1);
    return (int)(words_of(&in, LS_PURPOSE_AUGMENT, 0).v[2] >> 31) ^ odd;
}

static void draw_placement(const draw *d, ls_augment_sample *out) {
    ls_philox_block words = words_of(d, LS_PURPOSE_AUGMENT, 0);
    uint32_t places = 2 * (uint32_t)d->options->pad + 1;
    out->dy = (uint8_t)ls_below(words.v[0], places);
    out->dx = (uint8_t)ls_below(words.v[1], places);
    out->flip = (uint8_t)is_mirrored(d);
}

// --- resized crop --------------------------------------------------------------------------------

enum { RECTANGLE_TRIES = 10 };

// Sets the crop to the middle of the picture, as large as the greatest ratio of its sides allows.
static void set_middle_crop(const draw *d, double ratio, ls_augment_sample *out) {
    const int h = d->picture.h, w = d->picture.w;
    out->crop_h = (uint16_t)(w < h / ratio ? floor(w * ratio + 0.5) : h);
    out->crop_w = (uint16_t)(w > h * ratio ? floor(h * ratio + 0.5) : w);
    out->crop_y = (uint16_t)((h - out->crop_h) / 2);
    out->crop_x = (uint16_t)((w - out->crop_w) / 2);
}

// Draws the crop as torchvision's RandomResizedCrop: a share of the area, and a ratio of width to height that is
// uniform in its logarithm. If the rectangle does not fit the picture, draws again; after ten tries takes the middle.
static void draw_crop(const draw *d, ls_augment_sample *out) {
    const double least = (double)d->options->crop_scale, ratio = (double)d->options->crop_ratio;
    const double area = (double)d->picture.h * (double)d->picture.w, log_ratio = ls_portable_log(ratio);
    for (int i = 0; i < RECTANGLE_TRIES; i++) {
        const ls_philox_block words = words_of(d, LS_PURPOSE_CROP, (uint64_t)i);
        const double target = area * (least + (1 - least) * unit(words.v[0]));
        const double aspect = ls_portable_exp(log_ratio * (2 * unit(words.v[1]) - 1));
        const double w = floor(sqrt(target * aspect) + 0.5), h = floor(sqrt(target / aspect) + 0.5);
        if (w < 1 || h < 1 || w > d->picture.w || h > d->picture.h) continue;
        out->crop_h = (uint16_t)h;
        out->crop_w = (uint16_t)w;
        out->crop_y = (uint16_t)ls_below(words.v[2], (uint32_t)(d->picture.h - out->crop_h + 1));
        out->crop_x = (uint16_t)ls_below(words.v[3], (uint32_t)(d->picture.w - out->crop_w + 1));
        return;
    }
    set_middle_crop(d, ratio, out);
}

// --- random erasing ------------------------------------------------------------------------------

// Draws a rectangle as torchvision's RandomErasing: a share of the area, and a ratio of height to width that is uniform
// in its logarithm. If the rectangle is not smaller than the picture in both directions, draws again; after ten tries
// nothing is erased. Nothing is erased either if a side is rounded to 0.
static void draw_erasing(const draw *d, ls_augment_sample *out) {
    const double least = 0.02, most = (double)d->options->erase_area;
    const double area = (double)d->picture.h * (double)d->picture.w;
    const double least_ratio = ls_portable_log(0.3), most_ratio = ls_portable_log(3.3);
    if (unit(words_of(d, LS_PURPOSE_ERASE, 0).v[0]) >= (double)d->options->erase) return;
    for (int i = 1; i <= RECTANGLE_TRIES; i++) {
        const ls_philox_block words = words_of(d, LS_PURPOSE_ERASE, (uint64_t)i);
        const double target = area * (least + (most - least) * unit(words.v[0]));
        const double aspect = ls_portable_exp(least_ratio + (most_ratio - least_ratio) * unit(words.v[1]));
        const double h = floor(sqrt(target * aspect) + 0.5), w = floor(sqrt(target / aspect) + 0.5);
        if (h >= d->picture.h || w >= d->picture.w) continue;
        if (h < 1 || w < 1) return;
        out->erase_h = (uint16_t)h;
        out->erase_w = (uint16_t)w;
        out->erase_y = (uint16_t)ls_below(words.v[2], (uint32_t)(d->picture.h - out->erase_h + 1));
        out->erase_x = (uint16_t)ls_below(words.v[3], (uint32_t)(d->picture.w - out->erase_w + 1));
        return;
    }
}

// --- mixup and cutmix ----------------------------------------------------------------------------

enum { BETA_TRIES = 100 };

// Draws from Beta(a, a), within (0, 1), by algorithm BA of Cheng (1978). It accepts at least one try in four; after
// BETA_TRIES it returns 0.5. Each try takes one block of random words.
static double draw_beta(const draw *d, double a) {
    const double log4 = 1.3862943611198906;
    const double scale = a <= 1 ? 1 / a : sqrt(1 / a), gamma = a + 1 / scale;
    for (int i = 1; i <= BETA_TRIES; i++) {
        const ls_philox_block words = words_of(d, LS_PURPOSE_MIX, (uint64_t)i);
        const double u1 = unit(words.v[0]), u2 = unit(words.v[1]);
        const double v = scale * ls_portable_log(u1 / (1 - u1)), w = a * ls_portable_exp(v);
        if (2 * a * ls_portable_log(2 * a / (a + w)) + gamma * v - log4 >= ls_portable_log(u1 * u1 * u2))
            return w / (a + w);
    }
    return 0.5;
}

static uint16_t share_of(double share) {
    const double level = floor(share * 65536 + 0.5);
    return (uint16_t)(level > UINT16_MAX ? UINT16_MAX : level);
}

static int clipped(int at, int size) {
    return at < 0 ? 0 : at > size ? size : at;
}

// Sets a rectangle of the picture's shape, with `share` of its area, around a random pixel; the edges cut it off.
static void set_rectangle(const draw *d, double share, const ls_philox_block *words, ls_augment_sample *out) {
    const int h = d->picture.h, w = d->picture.w;
    const int half_h = (int)(h * sqrt(share)) / 2, half_w = (int)(w * sqrt(share)) / 2;
    const int y = (int)ls_below(words->v[1], (uint32_t)h), x = (int)ls_below(words->v[2], (uint32_t)w);
    const int top = clipped(y - half_h, h), bottom = clipped(y + half_h, h);
    const int left = clipped(x - half_w, w), right = clipped(x + half_w, w);
    if (bottom == top || right == left) return;
    out->mix_y = (uint16_t)top;
    out->mix_x = (uint16_t)left;
    out->mix_h = (uint16_t)(bottom - top);
    out->mix_w = (uint16_t)(right - left);
    out->mix = share_of((double)out->mix_h * out->mix_w / ((double)h * w));
}

static void draw_mix(const draw *d, ls_augment_sample *out) {
    const ls_augmentation *a = d->options;
    const ls_philox_block words = words_of(d, LS_PURPOSE_MIX, 0);
    const int cuts = a->cutmix > 0 && (a->mixup == 0 || words.v[0] >> 31);
    const double share = 1 - draw_beta(d, (double)(cuts ? a->cutmix : a->mixup));
    if (cuts)
        set_rectangle(d, share, &words, out);
    else
        out->mix = share_of(share);
}

// --- TrivialAugment ------------------------------------------------------------------------------

static void draw_change(const draw *d, ls_augment_sample *out) {
    const ls_philox_block words = words_of(d, LS_PURPOSE_TRIVIAL, 0);
    out->change = (uint8_t)ls_below(words.v[0], LS_TRIVIAL_COUNT);
    const int strength = (int)ls_below(words.v[1], LS_TRIVIAL_STRONGEST + 1);
    const int is_negative = out->change <= LS_TRIVIAL_SHARPNESS && words.v[2] >> 31;
    out->strength = (uint8_t)(LS_TRIVIAL_STRONGEST + (is_negative ? -strength : strength));
}

// --- all draws of a sample -----------------------------------------------------------------------

ls_augment_sample ls_augment_draw(
    const ls_augmentation *a, ls_chw picture, uint64_t seed, int64_t epoch, int64_t sample) {
    const draw d = { a, picture, seed, epoch, sample };
    ls_augment_sample drawn = { .dy = (uint8_t)a->pad, .dx = (uint8_t)a->pad };
    if (a->pad || a->flip) draw_placement(&d, &drawn);
    if (a->cutout) {
        ls_philox_block words = words_of(&d, LS_PURPOSE_CUTOUT, 0);
        drawn.cut_y = (uint16_t)ls_below(words.v[0], (uint32_t)picture.h);
        drawn.cut_x = (uint16_t)ls_below(words.v[1], (uint32_t)picture.w);
    }
    if (a->brightness > 0 || a->contrast > 0) {
        ls_philox_block words = words_of(&d, LS_PURPOSE_JITTER, 0);
        drawn.brightness = (uint16_t)(a->brightness > 0 ? words.v[0] >> 16 : 0);
        drawn.contrast = (uint16_t)(a->contrast > 0 ? words.v[1] >> 16 : 0);
    }
    if (ls_augment_crops(a)) draw_crop(&d, &drawn);
    if (a->erase > 0) draw_erasing(&d, &drawn);
    if (ls_augment_mixes(a)) draw_mix(&d, &drawn);
    if (a->trivial_augment) draw_change(&d, &drawn);
    return drawn;
}
