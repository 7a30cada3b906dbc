// augment_draw.c - what is done to a sample in an epoch: a pure function, so that every device and rank sees the same pixels.
#include "data/loader.h"

#include "base/philox.h"

_Static_assert(sizeof(ls_augment_sample) == LS_AUGMENT_SAMPLE_BYTES, "a field is not aligned: files would have a gap");

// Half of all samples.
static int is_mirrored(const ls_augmentation *a, uint64_t seed, int64_t epoch, int64_t sample) {
    if (a->flip == LS_FLIP_NEVER) return 0;
    const int64_t drawn_in = a->flip == LS_FLIP_ALTERNATING ? 0 : epoch;
    const int odd = (int)((epoch - drawn_in) & 1);
    return (int)(ls_random_word(seed, LS_PURPOSE_AUGMENT, (uint32_t)drawn_in, (uint32_t)sample, 2) >> 31) ^ odd;
}

ls_augment_sample ls_augment_draw(
    const ls_augmentation *a, ls_chw picture, uint64_t seed, int64_t epoch, int64_t sample) {
    ls_augment_sample drawn = { .dy = (uint8_t)a->pad, .dx = (uint8_t)a->pad };
    if (a->pad || a->flip) {
        ls_philox_block words = ls_random_block(seed, LS_PURPOSE_AUGMENT, (uint32_t)epoch, (uint32_t)sample, 0);
        uint32_t places = 2 * (uint32_t)a->pad + 1;
        drawn.dy = (uint8_t)ls_below(words.v[0], places);
        drawn.dx = (uint8_t)ls_below(words.v[1], places);
        drawn.flip = (uint8_t)is_mirrored(a, seed, epoch, sample);
    }
    if (a->cutout) {
        ls_philox_block words = ls_random_block(seed, LS_PURPOSE_CUTOUT, (uint32_t)epoch, (uint32_t)sample, 0);
        drawn.cut_y = (uint16_t)ls_below(words.v[0], (uint32_t)picture.h);
        drawn.cut_x = (uint16_t)ls_below(words.v[1], (uint32_t)picture.w);
    }
    if (a->brightness > 0 || a->contrast > 0) {
        ls_philox_block words = ls_random_block(seed, LS_PURPOSE_JITTER, (uint32_t)epoch, (uint32_t)sample, 0);
        drawn.brightness = (uint16_t)(a->brightness > 0 ? words.v[0] >> 16 : 0);
        drawn.contrast = (uint16_t)(a->contrast > 0 ? words.v[1] >> 16 : 0);
    }
    return drawn;
}
