// The prefetch ring: every batch in order, whatever the workers; the next epoch, a stop,
// a failure. Run it under ThreadSanitizer too.
#include "data_files.h"

#include "base/clock.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "data/loader.h"

enum { SLOTS_MAX = 8 };

typedef struct {
    ls_loader_options options;
    ls_dataset *dataset;
    ls_slot slots[SLOTS_MAX];
} rig;

static rig make_rig(const ls_config *cfg, int rank, int ranks, int workers, int slots) {
    rig r = { 0 };
    require_ok(ls_dataset_open(cfg, LS_SPLIT_TRAIN, &r.dataset), "dataset");
    const ls_dataset_info *facts = ls_dataset_get_info(r.dataset);
    ls_loader_options *o = &r.options;
    require_ok(ls_batches_plan(cfg, facts->count, rank, ranks, &o->batches), "plan");
    size_t micro = (size_t)o->batches.micro_batch;
    for (int i = 0; i < slots; i++) {
        r.slots[i].pixels = malloc(micro * (size_t)ls_chw_count(facts->shape));
        r.slots[i].labels = malloc(micro * sizeof *r.slots[i].labels);
        r.slots[i].augment = malloc(micro * sizeof *r.slots[i].augment);
    }
    *o = (ls_loader_options){ r.dataset, NULL, o->batches, (uint64_t)cfg->run_seed, 1, { .pad = 2, .flip = 1 }, 0, 0, 1,
        workers, 0, NULL, slots, NULL, NULL };
    return r;
}

static void free_rig(rig *r) {
    for (int i = 0; i < r->options.slot_count; i++) {
        free(r->slots[i].pixels);
        free(r->slots[i].labels);
        free(r->slots[i].augment);
    }
    ls_dataset_free(r->dataset);
}

static ls_config small_config(int samples, int global_batch, int micro_batch) {
    ls_config cfg = config_for(LS_DATASET_SYNTHETIC, "");
    snprintf(cfg.data_shape, sizeof cfg.data_shape, "1x3x5");
    cfg.data_train_samples = samples;
    cfg.train_global_batch = global_batch;
    cfg.train_micro_batch = micro_batch;
    return cfg;
}

// What the batch must hold, made the plain way.
static void check_batch(const rig *r, const ls_batch *batch, const uint32_t *order) {
    const ls_loader_options *o = &r->options;
    const ls_slot *slot = &r->slots[batch->slot];
    enum { BYTES = 15 };
    for (int k = 0; k < o->batches.micro_batch; k++) {
        uint8_t pixels[BYTES] = { 0 };
        int32_t label = 0;
        ls_augment_sample drawn = { 0 };
        if (k < batch->count) {
            int64_t position = batch->window * o->batches.global_batch + (int64_t)batch->position + k;
            int64_t sample = o->shuffle ? order[position] : position;
            require_ok(ls_dataset_read(r->dataset, sample, pixels, &label), "read");
            drawn = ls_augment_draw(&o->augmentation, (ls_chw){ 1, 3, 5 }, o->seed, batch->epoch, sample);
        }
        if (memcmp(pixels, slot->pixels + (size_t)k * BYTES, BYTES) != 0 || label != slot->labels[k] ||
            memcmp(&drawn, &slot->augment[k], sizeof drawn) != 0) {
            fail_msg("epoch %d window %d micro %d: sample %d differs", (int)batch->epoch, (int)batch->window,
                batch->micro, k);
        }
    }
}

typedef struct {
    const char *name;
    int samples, global_batch, micro_batch, rank, ranks, workers, slots, shuffle, epochs, first_epoch, first_window,
        hold;
} order_row;

static const order_row order_rows[] = {
    { "one of each", 10, 4, 0, 0, 1, 1, 1, 1, 3, 0, 0, 1 },
    { "short last window", 103, 20, 5, 0, 1, 2, 4, 1, 4, 0, 0, 1 },
    { "four workers", 500, 32, 4, 0, 1, 4, 3, 1, 6, 0, 0, 2 },
    { "more workers than slots", 200, 8, 4, 0, 1, 8, 2, 1, 5, 0, 0, 1 },
    { "second of two ranks", 103, 20, 5, 1, 2, 3, 4, 1, 4, 0, 0, 3 },
    { "last of four, often empty", 46, 20, 5, 3, 4, 2, 4, 1, 9, 0, 0, 1 },
    { "an epoch is one batch", 4, 4, 4, 0, 1, 3, 4, 1, 50, 0, 0, 1 },
    { "an epoch is one sample", 1, 4, 1, 0, 1, 3, 8, 1, 50, 0, 0, 8 },
    { "in file order", 103, 20, 5, 0, 1, 2, 4, 0, 2, 0, 0, 4 },
    { "resumed", 103, 20, 5, 0, 1, 2, 4, 1, 2, 7, 3, 1 },
    { "resumed at an epoch's end", 103, 20, 5, 0, 1, 2, 4, 1, 2, 7, 6, 1 },
};

static void batches_come_in_order(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof order_rows / sizeof order_rows[0]; n++) {
        const order_row *row = &order_rows[n];
        ls_config cfg = small_config(row->samples, row->global_batch, row->micro_batch);
        rig r = make_rig(&cfg, row->rank, row->ranks, row->workers, row->slots);
        ls_loader_options *o = &r.options;
        o->slots = r.slots;
        o->shuffle = row->shuffle;
        o->epochs = row->epochs;
        o->first_epoch = row->first_epoch;
        o->first_window = row->first_window;
        const ls_batches *b = &o->batches;
        ls_loader *loader;
        require_ok(ls_loader_new(o, &loader), row->name);
        ls_batch held[SLOTS_MAX];
        int held_count = 0;
        uint32_t *order = malloc((size_t)row->samples * sizeof *order);
        for (int64_t epoch = row->first_epoch; epoch < row->first_epoch + row->epochs; epoch++) {
            ls_order_shuffle(order, row->samples, o->seed, epoch);
            for (int64_t w = epoch == row->first_epoch ? row->first_window : 0; w < b->windows; w++) {
                for (int j = b->rank * b->per_rank; j < (b->rank + 1) * b->per_rank; j++) {
                    int count = ls_batches_micro_samples(b, w, j);
                    if (count == 0) continue;
                    if (held_count == row->hold) { // give the oldest back
                        ls_loader_release(loader, &held[0]);
                        memmove(held, held + 1, (size_t)--held_count * sizeof *held);
                    }
                    ls_batch batch;
                    require_ok(ls_loader_acquire(loader, &batch), row->name);
                    if (batch.epoch != epoch || batch.window != w || batch.micro != j || batch.count != count ||
                        batch.position != (uint64_t)j * (uint64_t)b->micro_batch) {
                        fail_msg("%s: epoch %d window %d micro %d count %d, expected %d %d %d %d", row->name,
                            (int)batch.epoch, (int)batch.window, batch.micro, batch.count, (int)epoch, (int)w, j,
                            count);
                    }
                    check_batch(&r, &batch, order);
                    held[held_count++] = batch;
                }
            }
        }
        for (int i = 0; i < held_count; i++) ls_loader_release(loader, &held[i]);
        ls_batch batch;
        require_failure(
            row->name, ls_loader_acquire(loader, &batch), LS_INTERNAL, (const char *[MAX_PARTS]){ "after the last" });
        assert_true(ls_loader_wait_seconds(loader) >= 0);
        ls_loader_free(loader);
        free(order);
        free_rig(&r);
    }
}

static void stops_anywhere(void **state) {
    (void)state;
    ls_config cfg = small_config(1000, 16, 4);
    for (int taken = 0; taken < 40; taken++) {
        rig r = make_rig(&cfg, 0, 1, 1 + taken % 4, 1 + taken % 5);
        r.options.slots = r.slots;
        r.options.epochs = 1000;
        ls_loader *loader;
        require_ok(ls_loader_new(&r.options, &loader), "new");
        for (int i = 0; i < taken; i++) {
            ls_batch batch;
            require_ok(ls_loader_acquire(loader, &batch), "acquire");
            if (i < taken - 1) ls_loader_release(loader, &batch);
        }
        ls_loader_free(loader);
        free_rig(&r);
    }
    ls_loader_free(NULL);
}

static void misuse_is_reported(void **state) {
    (void)state;
    ls_config cfg = small_config(100, 4, 0);
    rig r = make_rig(&cfg, 0, 1, 1, 2);
    r.options.slots = r.slots;
    ls_loader *loader;
    require_ok(ls_loader_new(&r.options, &loader), "new");
    ls_batch batch;
    require_ok(ls_loader_acquire(loader, &batch), "first");
    require_ok(ls_loader_acquire(loader, &batch), "second");
    require_failure(
        "no release", ls_loader_acquire(loader, &batch), LS_INTERNAL, (const char *[MAX_PARTS]){ "all 2 slots" });
    ls_loader_free(loader);
    r.options.workers = 0;
    require_failure(
        "no worker", ls_loader_new(&r.options, &loader), LS_INTERNAL, (const char *[MAX_PARTS]){ "0 workers" });
    free_rig(&r);
}

// A folder of pictures, a class of which cannot be read: batches before it are good, the batch that has it fails, and
// again when asked again.
static void failure_comes_with_its_batch(void **state) {
    (void)state;
    static const uint8_t png[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0,
        0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0, 10, 'I', 'D', 'A', 'T', 0x78, 0x9c, 0x63,
        0x68, 0, 0, 0, 0x82, 0, 0x81, 0x77, 0xcd, 0x72, 0xb6, 0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82 };
    const char *folder = new_folder();
    require_ok(ls_make_folders(path_of(folder, "a")), "a");
    require_ok(ls_make_folders(path_of(folder, "b")), "b");
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "a/%02d.png", i);
        put_file(folder, name, png, sizeof png);
        snprintf(name, sizeof name, "b/%02d.png", i);
        put_file(folder, name, png, 40);
    }
    for (int workers = 1; workers <= 4; workers++) {
        ls_config cfg = config_for(LS_DATASET_FOLDER, folder);
        snprintf(cfg.data_image_size, sizeof cfg.data_image_size, "1x5");
        cfg.data_test_fraction = 0;
        cfg.train_global_batch = 1;
        rig r = make_rig(&cfg, 0, 1, workers, 2); // ahead of the failing batch there is a good one alone
        r.options.slots = r.slots;
        r.options.shuffle = 0;
        ls_loader *loader;
        require_ok(ls_loader_new(&r.options, &loader), "new");
        ls_batch batch;
        require_ok(ls_loader_acquire(loader, &batch), "before the broken one"); // sample 1 is b/00.png
        assert_int_equal(0, batch.window);
        ls_loader_release(loader, &batch);
        const char *const parts[MAX_PARTS] = { "no training picture of class b can be read" };
        require_failure("broken", ls_loader_acquire(loader, &batch), LS_DATA, parts);
        for (int i = 0; i < 40; i++) ls_fail(LS_INTERNAL, "the ring of messages turns");
        require_failure("broken, again", ls_loader_acquire(loader, &batch), LS_DATA, parts);
        ls_loader_free(loader);
        free_rig(&r);
    }
}

// What is counted as waiting for two batches, asked for after a pause.
static double waited_after(double pause_s) {
    ls_config cfg = small_config(4000, 2000, 0);
    rig r = make_rig(&cfg, 0, 1, 1, 2);
    r.options.slots = r.slots;
    ls_loader *loader;
    require_ok(ls_loader_new(&r.options, &loader), "new");
    ls_clock_sleep(pause_s);
    ls_batch batch;
    require_ok(ls_loader_acquire(loader, &batch), "first");
    require_ok(ls_loader_acquire(loader, &batch), "second");
    double waited_s = ls_loader_wait_seconds(loader);
    ls_loader_free(loader);
    free_rig(&r);
    return waited_s;
}

// Batches that were filled long ago are not waited for. How long that takes depends on who else uses the machine.
static void waiting_time_is_counted(void **state) {
    (void)state;
    double pause_s = 0.2;
    while (pause_s < 30 && waited_after(pause_s) >= pause_s / 2) pause_s *= 2;
    assert_true(pause_s < 30);
}

// Each drawn number lies within its row of augmentations.def.
static ls_augment_sample draw(const ls_augmentation *a, ls_chw picture, int64_t sample) {
    const ls_augment_sample is = ls_augment_draw(a, picture, 5, 3, sample), *drawn = &is;
#define FIELD(type, name, most) \
    if (drawn->name > (most)) fail_msg("sample %d: " #name " is %d of up to %d", (int)sample, drawn->name, most);
#include "config/augmentations.def"
    return is;
}

static void crops_and_flips(void **state) {
    (void)state;
    static const struct { int pad, flip; } rows[] = { { 0, 0 }, { 4, 0 }, { 0, 1 }, { 4, 1 }, { 127, 1 } };
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        int pad = rows[n].pad, flip = rows[n].flip, seen_dy[256] = { 0 }, seen_dx[256] = { 0 }, flips = 0;
        enum { SAMPLES = 20000 };
        for (int64_t i = 0; i < SAMPLES; i++) {
            ls_augment_sample p = draw(&(ls_augmentation){ .pad = pad, .flip = flip }, (ls_chw){ 3, 32, 32 }, i);
            uint32_t word[3];
            for (uint64_t k = 0; k < 3; k++) word[k] = ls_random_word(5, LS_PURPOSE_AUGMENT, 3, (uint32_t)i, k);
            assert_int_equal(ls_below(word[0], (uint32_t)(2 * pad + 1)), p.dy);
            assert_int_equal(ls_below(word[1], (uint32_t)(2 * pad + 1)), p.dx);
            assert_int_equal(flip ? word[2] >> 31 : 0, p.flip);
            seen_dy[p.dy]++;
            seen_dx[p.dx]++;
            flips += p.flip;
        }
        for (int k = 0; k < 256; k++)
            assert_true((seen_dy[k] > 0) == (k <= 2 * pad) && (seen_dx[k] > 0) == (k <= 2 * pad));
        if (flip) assert_true(abs(flips - SAMPLES / 2) < 500); // seven standard deviations
    }
}

// Epoch 0 as random flip has it, then both sides in turn; the crop is that of random flip in every epoch.
static void alternating_flip_shows_both_sides(void **state) {
    (void)state;
    const ls_augmentation random = { .pad = 2, .flip = LS_FLIP_RANDOM },
                          alternating = { .pad = 2, .flip = LS_FLIP_ALTERNATING };
    int mirrored = 0;
    for (int64_t sample = 0; sample < 2000; sample++) {
        const int first = ls_augment_draw(&random, (ls_chw){ 3, 32, 32 }, 5, 0, sample).flip;
        mirrored += first;
        for (int64_t epoch = 0; epoch < 4; epoch++) {
            ls_augment_sample expected = ls_augment_draw(&random, (ls_chw){ 3, 32, 32 }, 5, epoch, sample);
            expected.flip = (uint8_t)(epoch % 2 ? !first : first);
            ls_augment_sample drawn = ls_augment_draw(&alternating, (ls_chw){ 3, 32, 32 }, 5, epoch, sample);
            assert_memory_equal(&drawn, &expected, sizeof drawn);
        }
    }
    assert_in_range(mirrored, 1000 - 150, 1000 + 150); // standard deviation 22
}

// Jitter's levels come from words of their own and are uniform: a sixteenth of 20000 is 1250, standard deviation 34.
static void jitter_draws_its_own_numbers(void **state) {
    (void)state;
    const ls_augmentation without = { .pad = 4, .flip = LS_FLIP_RANDOM, .cutout = 3 };
    ls_augmentation both = without, one = without;
    both.brightness = both.contrast = one.contrast = 0.1F;
    int brightness[16] = { 0 }, contrast[16] = { 0 };
    for (int64_t i = 0; i < 20000; i++) {
        ls_augment_sample plain = draw(&without, (ls_chw){ 3, 32, 32 }, i),
                          drawn = draw(&both, (ls_chw){ 3, 32, 32 }, i);
        assert_int_equal(drawn.brightness, ls_random_word(5, LS_PURPOSE_JITTER, 3, (uint32_t)i, 0) >> 16);
        assert_int_equal(drawn.contrast, ls_random_word(5, LS_PURPOSE_JITTER, 3, (uint32_t)i, 1) >> 16);
        assert_int_equal(draw(&one, (ls_chw){ 3, 32, 32 }, i).contrast, drawn.contrast);
        brightness[drawn.brightness >> 12]++;
        contrast[drawn.contrast >> 12]++;
        drawn.brightness = drawn.contrast = 0;
        assert_memory_equal(&drawn, &plain, sizeof plain);
    }
    for (int k = 0; k < 16; k++) {
        assert_in_range(brightness[k], 1250 - 200, 1250 + 200);
        assert_in_range(contrast[k], 1250 - 200, 1250 + 200);
    }
}

// TrivialAugment's change comes from words of its own: a fourteenth of 28000 is 2000 (deviation 43); a strength of 0 comes
// as often as another one and its negative together.
static void trivial_augment_draws_its_own_numbers(void **state) {
    (void)state;
    enum { SAMPLES = 28000 };
    const ls_augmentation without = { .pad = 4, .flip = LS_FLIP_RANDOM, .cutout = 3 };
    ls_augmentation with = without;
    with.trivial_augment = 1;
    int changes[LS_TRIVIAL_COUNT] = { 0 }, strengths[2 * LS_TRIVIAL_STRONGEST + 1] = { 0 };
    for (int64_t i = 0; i < SAMPLES; i++) {
        const ls_augment_sample plain = draw(&without, (ls_chw){ 3, 32, 32 }, i);
        ls_augment_sample drawn = draw(&with, (ls_chw){ 3, 32, 32 }, i);
        uint32_t word[3];
        for (uint64_t k = 0; k < 3; k++) word[k] = ls_random_word(5, LS_PURPOSE_TRIVIAL, 3, (uint32_t)i, k);
        const int strength = (int)ls_below(word[1], 31), has_sign = drawn.change >= 1 && drawn.change <= 9;
        assert_int_equal(drawn.change, ls_below(word[0], 14));
        if (has_sign || drawn.change > 9)
            assert_int_equal(drawn.strength - 30, has_sign && word[2] >> 31 ? -strength : strength);
        changes[drawn.change]++;
        if (has_sign) strengths[drawn.strength]++;
        drawn.change = drawn.strength = 0;
        assert_memory_equal(&drawn, &plain, sizeof plain);
    }
    for (int k = 0; k < LS_TRIVIAL_COUNT; k++) assert_in_range(changes[k], 2000 - 300, 2000 + 300);
    for (int k = 0; k < 61; k++) { // of 18000 with a sign
        const int expected = k == 30 ? 18000 / 31 : 9000 / 31;
        assert_in_range(strengths[k], expected - 150, expected + 150);
    }
}

// From words of its own, so that it leaves crop and flip as they are without it; up to the largest picture.
static void cutout_draws_its_own_numbers(void **state) {
    (void)state;
    static const ls_chw pictures[] = { { 1, 1, 1 }, { 3, 32, 32 }, { 1, 7, 300 }, { 3, 65535, 65535 } };
    for (size_t n = 0; n < sizeof pictures / sizeof pictures[0]; n++) {
        const ls_augmentation without = { .pad = 4, .flip = 1 };
        ls_augmentation with = without;
        with.cutout = 1;
        for (int64_t i = 0; i < 2000; i++) {
            ls_augment_sample plain = draw(&without, pictures[n], i), cut = draw(&with, pictures[n], i);
            uint32_t y = ls_random_word(5, LS_PURPOSE_CUTOUT, 3, (uint32_t)i, 0);
            uint32_t x = ls_random_word(5, LS_PURPOSE_CUTOUT, 3, (uint32_t)i, 1);
            assert_int_equal(cut.cut_y, ls_below(y, (uint32_t)pictures[n].h));
            assert_int_equal(cut.cut_x, ls_below(x, (uint32_t)pictures[n].w));
            cut.cut_y = cut.cut_x = 0;
            assert_memory_equal(&cut, &plain, sizeof plain);
        }
    }
}

// The coin is word 0. The rectangle follows from the words of the first block whose rectangle fits.
static void erasing_draws_its_own_numbers(void **state) {
    (void)state;
    static const ls_chw pictures[] = { { 1, 1, 1 }, { 3, 32, 32 }, { 1, 7, 300 }, { 3, 65535, 65535 } };
    enum { SAMPLES = 2000 };
    for (size_t n = 0; n < sizeof pictures / sizeof pictures[0]; n++) {
        const ls_augmentation without = { .pad = 4, .flip = 1, .cutout = 1, .mixup = 1 };
        ls_augmentation with = without;
        with.erase = 0.25F;
        with.erase_area = 1;
        int erased = 0;
        for (int64_t i = 0; i < SAMPLES; i++) {
            ls_augment_sample plain = draw(&without, pictures[n], i), drawn = draw(&with, pictures[n], i);
            const uint32_t coin = ls_random_word(5, LS_PURPOSE_ERASE, 3, (uint32_t)i, 0);
            const int there = drawn.erase_h > 0;
            assert_int_equal(there, drawn.erase_w > 0);
            if (coin >> 30) assert_int_equal(there, 0);
            erased += there;
            drawn.erase_y = drawn.erase_x = drawn.erase_h = drawn.erase_w = 0;
            assert_memory_equal(&drawn, &plain, sizeof plain);
        }
        if (n == 0) assert_int_equal(erased, 0);                                             // no rectangle is smaller
        if (n == 1 || n == 3) assert_in_range(erased, SAMPLES / 4 - 100, SAMPLES / 4 + 100); // five deviations
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_order),
        cmocka_unit_test(stops_anywhere),
        cmocka_unit_test(misuse_is_reported),
        cmocka_unit_test_teardown(failure_comes_with_its_batch, remove_folders),
        cmocka_unit_test(waiting_time_is_counted),
        cmocka_unit_test(crops_and_flips),
        cmocka_unit_test(alternating_flip_shows_both_sides),
        cmocka_unit_test(trivial_augment_draws_its_own_numbers),
        cmocka_unit_test(cutout_draws_its_own_numbers),
        cmocka_unit_test(erasing_draws_its_own_numbers),
        cmocka_unit_test(jitter_draws_its_own_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
