// augment_draw.c - what is done to a sample in an epoch: a pure function, so that every device and rank sees the same pixels.
#include "data/loader.h"

#include "base/philox.h"

_Static_assert(sizeof(ls_augment_sample) == LS_AUGMENT_SAMPLE_BYTES, "a field is not aligned: files would have a gap");

ls_augment_sample ls_augment_draw(
    const ls_augmentation *a, ls_chw picture, uint64_t seed, int64_t epoch, int64_t sample) {
    ls_augment_sample drawn = { .dy = (uint8_t)a->pad, .dx = (uint8_t)a->pad };
    if (a->pad || a->flip) {
        ls_philox_block words = ls_random_block(seed, LS_PURPOSE_AUGMENT, (uint32_t)epoch, (uint32_t)sample, 0);
        uint32_t places = 2 * (uint32_t)a->pad + 1;
        drawn.dy = (uint8_t)ls_below(words.v[0], places);
        drawn.dx = (uint8_t)ls_below(words.v[1], places);
        drawn.flip = (uint8_t)(a->flip ? words.v[2] >> 31 : 0);
    }
    if (a->cutout) {
        ls_philox_block words = ls_random_block(seed, LS_PURPOSE_CUTOUT, (uint32_t)epoch, (uint32_t)sample, 0);
        drawn.cut_y = (uint16_t)ls_below(words.v[0], (uint32_t)picture.h);
        drawn.cut_x = (uint16_t)ls_below(words.v[1], (uint32_t)picture.w);
    }
    return drawn;
}
