// synthetic.c - makes pictures of any shape by the counter-based generator, for measurements of speed and for tests.
//
// Pixel j of sample i is (b + 16*(label%8))/2 in integers, where b is byte j%4 (little-endian) of word j/4 of the
// stream (seed, LS_PURPOSE_SYNTHETIC, split, i). The label is ls_below(word 2^20 of the stream, classes). So classes
// differ in brightness, and a network that learns shows it. A 3x32x32 picture takes 1.6 to 2.4 us (EPYC, gcc 12), so
// it is not stored.
#include "data/format.h"

#include <endian.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/philox.h"
#include "config/purpose.h"

enum { LABEL_WORD = 1 << 20, TRAIN_SAMPLES = 50000, TEST_SAMPLES = 10000 };

typedef struct {
    uint64_t seed;
    size_t pixel_bytes;
} generator;

static ls_status make_sample(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    const generator *made = dataset->state;
    uint32_t split = (uint32_t)dataset->split, sample = (uint32_t)index;
    uint32_t word = ls_random_word(made->seed, LS_PURPOSE_SYNTHETIC, split, sample, LABEL_WORD);
    *label = (int32_t)ls_below(word, (uint32_t)dataset->facts.classes);
    // Four pixels at once: the halved bytes are below 128 and the sums below 256, so no byte carries into the next one.
    uint32_t brightness = 8u * ((uint32_t)*label % 8u) * 0x01010101u;
    for (size_t at = 0; at < made->pixel_bytes; at += 16) {
        ls_philox_block block = ls_random_block(made->seed, LS_PURPOSE_SYNTHETIC, split, sample, at / 16);
        uint32_t four[4];
        for (int w = 0; w < 4; w++) four[w] = htole32((block.v[w] >> 1 & 0x7f7f7f7fu) + brightness);
        size_t left = made->pixel_bytes - at;
        memcpy(pixels + at, four, left < sizeof four ? left : sizeof four);
    }
    return LS_SUCCESS;
}

ls_status ls_synthetic_open(const ls_config *cfg, ls_dataset *dataset) {
    LS_TRY(ls_shape_parse("data.shape", cfg->data_shape, 3, &dataset->facts.shape));
    int test = dataset->split == LS_SPLIT_TEST;
    int64_t wanted = test ? cfg->data_test_samples : cfg->data_train_samples;
    dataset->facts.count = wanted > 0 ? wanted : test ? TEST_SAMPLES : TRAIN_SAMPLES;
    dataset->facts.classes = (int)cfg->data_classes;
    generator *made = ls_new(1, sizeof *made, "synthetic data set");
    *made = (generator){ (uint64_t)cfg->run_seed, (size_t)ls_chw_count(dataset->facts.shape) };
    dataset->state = made;
    dataset->free_state = free;
    dataset->read = make_sample;
    // All pixels follow from these numbers, so the checksum does not need the pixels.
    const int64_t facts[] = { cfg->run_seed, test, dataset->facts.count, cfg->data_classes, dataset->facts.shape.c,
        dataset->facts.shape.h, dataset->facts.shape.w };
    dataset->facts.checksum = ls_hash(facts, sizeof facts);
    return LS_SUCCESS;
}
