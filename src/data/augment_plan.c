// augment_plan.c - how a sample is placed in an epoch: a pure function,
// so that every device and rank sees the same pixels.
#include "data/loader.h"

#include "base/philox.h"

ls_augment_sample ls_augment_draw(uint64_t seed, int64_t epoch, int64_t sample, int pad, int flip) {
    ls_augment_sample placement = { (uint8_t)pad, (uint8_t)pad, 0, 0 };
    if (pad == 0 && !flip) return placement;
    // Words 0 to 2 are one block of the stream.
    ls_philox_block words = ls_random_block(seed, LS_PURPOSE_AUGMENT, (uint32_t)epoch, (uint32_t)sample, 0);
    uint32_t places = 2 * (uint32_t)pad + 1;
    placement.dy = (uint8_t)ls_below(words.v[0], places);
    placement.dx = (uint8_t)ls_below(words.v[1], places);
    placement.flip = (uint8_t)(flip ? words.v[2] >> 31 : 0);
    return placement;
}
