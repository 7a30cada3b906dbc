// Image folders: layouts, splits, labels, and what is refused. PNG files are made here; the JPEG file is one small one.
#include "data_files.h"

#include <endian.h>
#include <fcntl.h>
#include <strings.h>

#include "base/clock.h"
#include "data/image_decode.h"
#include "data/image_resize.h"
#include "data/jpeg_turbo.h"
#include "data/verify.h"

// 8 x 8, baseline, written by stb_image_write; its frame header (SOF0) begins at byte 154.
static const uint8_t small_jpeg[] = { 0xff, 0xd8, 0xff, 0xe0, 0x00, 0x10, 0x4a, 0x46, 0x49, 0x46, 0x00, 0x01, 0x01,
    0x00, 0x00, 0x01, 0x00, 0x01, 0x00, 0x00, 0xff, 0xdb, 0x00, 0x84, 0x00, 0x10, 0x0b, 0x0c, 0x0e, 0x0c, 0x0a, 0x10,
    0x0e, 0x0d, 0x0e, 0x12, 0x11, 0x10, 0x13, 0x18, 0x28, 0x1a, 0x18, 0x16, 0x16, 0x18, 0x31, 0x23, 0x25, 0x1d, 0x28,
    0x3a, 0x33, 0x3d, 0x3c, 0x39, 0x33, 0x38, 0x37, 0x40, 0x48, 0x5c, 0x4e, 0x40, 0x44, 0x57, 0x45, 0x37, 0x38, 0x50,
    0x6d, 0x51, 0x57, 0x5f, 0x62, 0x67, 0x68, 0x67, 0x3e, 0x4d, 0x71, 0x79, 0x70, 0x64, 0x78, 0x5c, 0x65, 0x67, 0x63,
    0x01, 0x11, 0x12, 0x12, 0x18, 0x15, 0x18, 0x2f, 0x1a, 0x1a, 0x2f, 0x63, 0x42, 0x38, 0x42, 0x63, 0x63, 0x63, 0x63,
    0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63,
    0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63,
    0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0x63, 0xff, 0xc0, 0x00, 0x11, 0x08, 0x00, 0x08, 0x00, 0x08, 0x03, 0x01,
    0x22, 0x00, 0x02, 0x11, 0x01, 0x03, 0x11, 0x01, 0xff, 0xc4, 0x01, 0xa2, 0x00, 0x00, 0x01, 0x05, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
    0x09, 0x0a, 0x0b, 0x10, 0x00, 0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00, 0x01,
    0x7d, 0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
    0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72, 0x82,
    0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39,
    0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
    0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
    0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9,
    0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9,
    0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0x01, 0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01,
    0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,
    0x0a, 0x0b, 0x11, 0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01, 0x02, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32,
    0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16,
    0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39,
    0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64,
    0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86,
    0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8,
    0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9,
    0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xff, 0xda, 0x00, 0x0c, 0x03, 0x01, 0x00, 0x02, 0x11,
    0x03, 0x11, 0x00, 0x3f, 0x00, 0x8d, 0x62, 0x8e, 0xda, 0xf7, 0x10, 0x45, 0x19, 0x89, 0xfe, 0x65, 0x09, 0x1a, 0x30,
    0x1e, 0xdf, 0x2a, 0x3e, 0x3f, 0x16, 0xcd, 0x5d, 0xf3, 0x3f, 0xe9, 0x87, 0xfe, 0x40, 0xff, 0x00, 0xed, 0x35, 0x5b,
    0x46, 0xfe, 0x1a, 0xdb, 0xa6, 0x27, 0xa9, 0xff, 0xd9 };

// By stb alone: whatever the machine has, the same pixels.
static ls_status decode(const char *path, ls_chw size, uint8_t *pixels) {
    const ls_image_options options = { .size = size, .decoder = LS_DECODER_STB };
    return ls_image_decode(path, &options, pixels);
}

static uint8_t *put_chunk(uint8_t *to, const char *type, const uint8_t *content, size_t count) {
    uint32_t length = htobe32((uint32_t)count);
    memcpy(to, &length, 4);
    memcpy(to + 4, type, 4);
    if (count > 0) memcpy(to + 8, content, count);
    uint32_t crc = htobe32((uint32_t)crc32(0, to + 4, (uInt)count + 4));
    memcpy(to + 8 + count, &crc, 4);
    return to + 12 + count;
}

// A PNG of this size and number of channels, pixel bytes seed, seed + 5, ...; or the JPEG.
static void put_picture(const char *folder, const char *name, int width, int height, int channels, int seed) {
    const char *dot = strrchr(name, '.');
    if (strcasecmp(dot, ".png") != 0) {
        put_file(folder, name, small_jpeg, sizeof small_jpeg);
        return;
    }
    static const uint8_t colour_type[] = { 0, 0, 4, 2, 6 };
    uint8_t rows[8192], packed[9000], file[10000] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' }, *row = rows;
    for (int y = 0, i = 0; y < height; y++) {
        *row++ = 0; // no filter
        for (int x = 0; x < width * channels; x++, i++) *row++ = (uint8_t)(seed + i * 5);
    }
    uLongf count = sizeof packed;
    assert_int_equal(Z_OK, compress(packed, &count, rows, (uLong)(row - rows)));
    uint8_t header[13] = { 0, 0, 0, (uint8_t)width, 0, 0, 0, (uint8_t)height, 8, colour_type[channels] };
    uint8_t *end = put_chunk(file + 8, "IHDR", header, sizeof header);
    end = put_chunk(end, "IDAT", packed, count);
    end = put_chunk(end, "IEND", NULL, 0);
    put_file(folder, name, file, (size_t)(end - file));
}

static void put_class(const char *root, const char *class_name, int files) {
    char folder[2048];
    snprintf(folder, sizeof folder, "%s/%s", root, class_name);
    require_ok(ls_make_folders(folder), folder);
    for (int i = 0; i < files; i++) {
        static const char *const endings[] = { "png", "jpg", "JPEG", "PNG" };
        char name[64];
        snprintf(name, sizeof name, "%03d.%s", i, endings[i % 4]);
        put_picture(folder, name, 5 + i % 3, 4, 3, i);
    }
}

static ls_config folder_config(const char *folder) {
    ls_config cfg = config_for(LS_DATASET_FOLDER, folder);
    snprintf(cfg.data_image_size, sizeof cfg.data_image_size, "6x8");
    return cfg;
}

static ls_dataset *open_split(const ls_config *cfg, ls_split split) {
    ls_dataset *dataset;
    require_ok(ls_dataset_open(cfg, split, &dataset), "open");
    return dataset;
}

static void count_labels(const ls_dataset *dataset, int *counts) {
    uint8_t pixels[3 * 6 * 8];
    memset(counts, 0, (size_t)ls_dataset_get_info(dataset)->classes * sizeof *counts);
    for (int64_t i = 0; i < ls_dataset_get_info(dataset)->count; i++) {
        int32_t label = -1;
        require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
        assert_true(label >= 0 && label < ls_dataset_get_info(dataset)->classes);
        counts[label]++;
    }
}

static void one_tree_is_split(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_class(folder, "dog", 10);
    put_class(folder, "ant", 7);
    put_class(folder, "cat", 1);
    put_class(folder, "Zebra", 2);
    put_file(folder, "README", "text", 4); // beside class folders: allowed
    put_file(folder, "ant/.hidden", "x", 1);
    require_ok(ls_make_folders(path_of(folder, ".cache")), "hidden");
    static const struct {
        double fraction;
        int train[4], test[4];
    } rows[] = {
        // Zebra, ant, cat, dog
        { 0.2, { 1, 6, 1, 8 }, { 1, 1, 0, 2 } },
        { 0.5, { 1, 3, 1, 5 }, { 1, 4, 0, 5 } },
        { 0.9, { 1, 1, 1, 1 }, { 1, 6, 0, 9 } },
        { 0.01, { 1, 6, 1, 9 }, { 1, 1, 0, 1 } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ls_config cfg = folder_config(folder);
        cfg.data_test_fraction = rows[r].fraction;
        ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN), *test = open_split(&cfg, LS_SPLIT_TEST);
        assert_int_equal(4, ls_dataset_get_info(train)->classes);
        static const char *const names[] = { "Zebra", "ant", "cat", "dog" };
        int train_counts[4], test_counts[4];
        count_labels(train, train_counts);
        count_labels(test, test_counts);
        for (int c = 0; c < 4; c++) {
            assert_string_equal(names[c], ls_dataset_class(train, c));
            assert_string_equal(names[c], ls_dataset_class(test, c));
            if (train_counts[c] != rows[r].train[c] || test_counts[c] != rows[r].test[c]) {
                fail_msg("fraction %g class %s: %d and %d, expected %d and %d", rows[r].fraction, names[c],
                    train_counts[c], test_counts[c], rows[r].train[c], rows[r].test[c]);
            }
        }
        // The first samples have all classes in turn.
        for (int64_t i = 0; i < 4; i++) {
            uint8_t pixels[3 * 6 * 8];
            int32_t label;
            require_ok(ls_dataset_read(train, i, pixels, &label), "read");
            assert_int_equal(i, label);
        }
        ls_dataset_free(train);
        ls_dataset_free(test);
    }
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    ls_dataset *dataset;
    require_failure("no test set", ls_dataset_open(&cfg, LS_SPLIT_TEST, &dataset), LS_USAGE,
        (const char *[MAX_PARTS]){ "data.test_fraction = 0", "no test pictures" });
}

static void two_trees(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_class(folder, "train/b", 5);
    put_class(folder, "train/a", 3);
    put_class(folder, "train/c", 1);
    put_class(folder, "test/c", 4);
    put_class(folder, "test/b", 2);
    ls_config cfg = folder_config(folder);
    ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN), *test = open_split(&cfg, LS_SPLIT_TEST);
    int counts[3];
    count_labels(train, counts);
    assert_true(counts[0] == 3 && counts[1] == 5 && counts[2] == 1);
    count_labels(test, counts); // numbered as in train/
    assert_true(counts[0] == 0 && counts[1] == 2 && counts[2] == 4);
    assert_string_equal("c", ls_dataset_class(test, 2));
    ls_dataset_free(test);
    put_class(folder, "test/d", 2);
    require_failure("new class", ls_dataset_open(&cfg, LS_SPLIT_TEST, &test), LS_DATA,
        (const char *[MAX_PARTS]){ "test/d", "train does not have" });
    // A link is what it points to; the checksum sees names and sizes even before files are verified.
    uint64_t before = ls_dataset_get_info(train)->checksum;
    ls_dataset_free(train);
    assert_int_equal(0, symlink(path_of(folder, "train/a/000.png"), path_of(folder, "train/c/link.png")));
    assert_int_equal(0, symlink(path_of(folder, "train/a"), path_of(folder, "train/alias")));
    train = open_split(&cfg, LS_SPLIT_TRAIN);
    assert_int_equal(9 + 1 + 3, ls_dataset_get_info(train)->count);
    assert_true(before != ls_dataset_get_info(train)->checksum);
    ls_dataset_free(train);
}

// root/train with root/val, root/test, or both; and what is said of what has no effect.
static void layouts_with_val(void **state) {
    (void)state;
    static const struct {
        int val, test, fraction_line; // pictures of each class; where data.test_fraction is set
        int tested;
        const char *note;
    } rows[] = {
        { 2, 0, 0, 2, "" },
        { 2, 3, 0, 3, "" },
        { 0, 3, 7, 3, "data.test_fraction has no effect, for there is test/" },
        { 2, 0, -1, 2, "data.test_fraction has no effect, for there is val/" },
        { 2, 3, -1, 3, "data.test_fraction has no effect, for there is test/" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *folder = new_folder();
        put_class(folder, "train/a", 4);
        put_class(folder, "train/b", 4);
        for (int c = 0; c < 2; c++) {
            if (rows[r].val) put_class(folder, c ? "val/b" : "val/a", rows[r].val);
            if (rows[r].test) put_class(folder, c ? "test/b" : "test/a", rows[r].test);
        }
        ls_config cfg = folder_config(folder);
        cfg.line[LS_OPTION_data_test_fraction] = rows[r].fraction_line;
        ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN), *test = open_split(&cfg, LS_SPLIT_TEST);
        assert_int_equal(8, ls_dataset_get_info(train)->count);
        assert_int_equal(2 * rows[r].tested, ls_dataset_get_info(test)->count);
        assert_string_equal(rows[r].note, ls_dataset_get_info(train)->note);
        const ls_dataset *held = ls_dataset_held_out(train); // val/ beside test/
        assert_int_equal(rows[r].val && rows[r].test ? 4 : 0, held ? ls_dataset_get_info(held)->count : 0);
        ls_dataset_free(train);
        ls_dataset_free(test);
    }
    const char *folder = new_folder(); // a class of this name is none of a split
    put_class(folder, "val", 5);
    put_class(folder, "other", 5);
    ls_config cfg = folder_config(folder);
    cfg.line[LS_OPTION_data_test_fraction] = 3;
    ls_dataset *train = open_split(&cfg, LS_SPLIT_TRAIN);
    assert_int_equal(8, ls_dataset_get_info(train)->count);
    assert_string_equal("", ls_dataset_get_info(train)->note);
    ls_dataset_free(train);
}

// Every name that a split's folder may have, what is beside them, and what is no layout.
static void names_of_splits(void **state) {
    (void)state;
    static const struct {
        const char *folders[4]; // with class folders
        int tested, validated;  // pictures; -1: refused
        const char *part;       // of the note or message
    } rows[] = {
        { { "train", "valid", "test" }, 4, 4, "" },
        { { "train", "validation", "test" }, 4, 4, "" },
        { { "train", "valid" }, 4, 0, "" },
        { { "train", "validation" }, 4, 0, "" },
        { { "Train", "Test" }, 4, 0, "" },
        { { "training", "testing" }, 4, 0, "" },
        { { "TRAIN", "VAL", "TEST" }, 4, 4, "" },
        { { "train", "test", "unlabeled" }, 4, 0, "beside train/ and test/ these are not used: unlabeled/" },
        { { "train", "valid", "extra", "more" }, 4, 0, "beside train/ and valid/ these are not used: extra/, more/" },
        { { "train", "test", "val", "valid" }, -1, 0, "both val/ and valid/ are for validation pictures" },
        { { "train", "Train", "test" }, -1, 0, "both Train/ and train/ are for training pictures" },
        { { "train" }, -1, 0, "there is train/ with folders in it, but no test/ or val/ beside it" },
        { { "train", "dev" }, -1, 0, "root/train/<class>/<image> and root/test/<class>/<image> (or root/val/" },
        { { "test", "valid" }, -1, 0, "but no train/ beside it" },
        { { "images", "labels" }, -1, 0, "root/train/<class>/<image> and root/test/<class>/<image> (or root/val/" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *folder = new_folder();
        char name[64];
        for (int i = 0; i < 4 && rows[r].folders[i]; i++)
            for (int c = 0; c < 2; c++) {
                snprintf(name, sizeof name, "%s/%s", rows[r].folders[i], c ? "a" : "b");
                put_class(folder, name, i == 0 ? 3 : 2);
            }
        ls_config cfg = folder_config(folder);
        ls_dataset *train = NULL;
        if (rows[r].tested < 0) {
            for (cfg.data_broken = LS_BROKEN_ERROR; cfg.data_broken <= LS_BROKEN_SKIP; cfg.data_broken++) {
                if (cfg.data_broken == LS_BROKEN_SKIP && strcmp(rows[r].folders[0], "images") == 0) continue;
                require_failure(rows[r].folders[0], ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &train), LS_DATA,
                    (const char *[MAX_PARTS]){ rows[r].part });
            }
            continue;
        }
        train = open_split(&cfg, LS_SPLIT_TRAIN);
        ls_dataset *test = open_split(&cfg, LS_SPLIT_TEST);
        const ls_dataset *held = ls_dataset_held_out(train);
        assert_int_equal(6, ls_dataset_get_info(train)->count);
        assert_int_equal(rows[r].tested, ls_dataset_get_info(test)->count);
        assert_int_equal(rows[r].validated, held ? ls_dataset_get_info(held)->count : 0);
        assert_string_equal(rows[r].part, ls_dataset_get_info(train)->note);
        ls_dataset_free(train);
        ls_dataset_free(test);
    }
    const char *folder = new_folder();
    put_class(folder, "train/caf\xc3\xa9", 3);
    put_class(folder, "train/tea", 3);
    put_class(folder, "test/cafe\xcc\x81", 3);
    put_class(folder, "test/tea", 3);
    ls_config cfg = folder_config(folder);
    ls_dataset *test;
    require_failure("NFC and NFD", ls_dataset_open(&cfg, LS_SPLIT_TEST, &test), LS_DATA,
        (const char *[MAX_PARTS]){ "does not have", "'cafe\\xcc\\x81' here", "'caf\\xc3\\xa9' there", "Unicode" });
}

typedef enum { NOTHING, PUT, MAKE_FOLDER, CLEAR, TWINS, TWINS_HANGUL } damage_kind;

static void bad_folders_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        damage_kind damage;
        const char *path, *parts[MAX_PARTS];
    } rows[] = {
        { "text in a class", PUT, "cat/notes.txt", { "cat/notes.txt", "no image", ".png" } },
        { "no ending", PUT, "cat/picture", { "cat/picture", "no image" } },
        { "another kind of file", PUT, "cat/picture.mp4", { "cat/picture.mp4", "no image", "data.broken = skip" } },
        { "folder in a class", MAKE_FOLDER, "dog/more",
            { "dog/more", "is a folder", "root/train/<class>", "root/val/" } },
        { "names in NFC and NFD", TWINS, "", { "look the same", "'caf\\xc3\\xa9'", "'cafe\\xcc\\x81'", "Unicode" } },
        { "names in NFC and NFD, Hangul", TWINS_HANGUL, "", { "look the same", "'\\xea\\xb0\\x80'", "Unicode" } },
        { "folder called image", MAKE_FOLDER, "dog/more.png", { "dog/more.png", "is a folder", "move it away" } },
        { "empty class", MAKE_FOLDER, "emu", { "emu", "without images" } },
        { "image beside classes", PUT, "stray.jpg", { "stray.jpg", "outside a class folder" } },
        { "no classes", CLEAR, "", { "0 class folders", "root/<class>/<image>" } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *folder = new_folder();
        put_class(folder, "cat", 2);
        put_class(folder, "dog", 2);
        const char *path = path_of(folder, rows[i].path);
        switch (rows[i].damage) {
        case PUT:
            put_file(folder, rows[i].path, "hello", 5);
            break;
        case MAKE_FOLDER:
            assert_int_equal(0, mkdir(path, 0755));
            break;
        case CLEAR:
            folder = new_folder();
            break;
        case TWINS:
            put_class(folder, "caf\xc3\xa9", 2);
            put_class(folder, "cafe\xcc\x81", 2);
            break;
        case TWINS_HANGUL:
            put_class(folder, "\xea\xb0\x80", 2);
            put_class(folder, "\xe1\x84\x80\xe1\x85\xa1", 2);
            break;
        default:
            break;
        }
        ls_config cfg = folder_config(folder);
        ls_dataset *dataset = NULL;
        require_failure(rows[i].name, ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_DATA, rows[i].parts);
        assert_null(dataset);
    }
    ls_config cfg = folder_config("/");
    snprintf(cfg.data_image_size, sizeof cfg.data_image_size, "0x5");
    ls_dataset *dataset;
    require_failure("size", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_USAGE,
        (const char *[MAX_PARTS]){ "data.image_size = 0x5", "HxW" });
}

// With data.broken = skip, what is no picture by its name is left out and counted; an empty file and a link to nowhere
// are pictures that cannot be read, whatever data.broken is.
static void others_are_left_out(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_class(folder, "cat", 2);
    put_class(folder, "dog", 3);
    put_file(folder, "cat/notes.txt", "hello", 5);
    require_ok(ls_make_folders(path_of(folder, "dog/more.png")), "folder");
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    ls_dataset *dataset;
    require_failure("error", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_DATA,
        (const char *[MAX_PARTS]){ "cat/notes.txt", "no image" });
    cfg.data_broken = LS_BROKEN_SKIP;
    dataset = open_split(&cfg, LS_SPLIT_TRAIN);
    assert_int_equal(5, ls_dataset_get_info(dataset)->count);
    assert_string_equal(
        "2 in class folders are no pictures and left out, as cat/notes.txt", ls_dataset_get_info(dataset)->note);
    ls_dataset_free(dataset);
    require_ok(ls_make_folders(path_of(folder, "emu")), "folder"); // with nothing but other files
    put_file(folder, "emu/notes.txt", "hello", 5);
    require_failure("no pictures", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_DATA,
        (const char *[MAX_PARTS]){ "emu", "without images" });
    assert_int_equal(0, remove(path_of(folder, "emu/notes.txt")) | remove(path_of(folder, "emu")));
    assert_int_equal(0, remove(path_of(folder, "cat/notes.txt")) | remove(path_of(folder, "dog/more.png")));

    put_file(folder, "cat/zero.jpg", "", 0);
    assert_int_equal(0, symlink("nowhere", path_of(folder, "dog/link.png")));
    for (cfg.data_broken = LS_BROKEN_ERROR; cfg.data_broken <= LS_BROKEN_SKIP; cfg.data_broken++) {
        dataset = open_split(&cfg, LS_SPLIT_TRAIN);
        assert_int_equal(7, ls_dataset_get_info(dataset)->count);
        int refused = 0;
        for (int64_t i = 0; i < 7; i++) {
            uint8_t pixels[3 * 6 * 8];
            int32_t label;
            char name[64];
            ls_status status = ls_dataset_read(dataset, i, pixels, &label);
            if (!ls_failed(status)) continue;
            ls_dataset_sample_name(dataset, i, name, sizeof name);
            const int empty = strcmp(name, "cat/zero.jpg") == 0;
            require_failure(name, status, LS_DATA,
                (const char *[MAX_PARTS]){ name, empty ? "is empty (0 bytes)" : "No such file" });
            refused++;
        }
        assert_int_equal(2, refused);
        ls_dataset_free(dataset);
    }
}

static void broken_images_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *file;
        int cut, at; // cut to this many bytes; byte `at` changes (negative: from the end)
        const char *parts[MAX_PARTS];
    } rows[] = {
        { "PNG cut in its data", "x.png", -30, 0, { "x.png", "cut off", "end chunk" } },
        { "PNG without its end", "x.png", -12, 0, { "x.png", "cut off", "end chunk" } },
        { "PNG, signature only", "x.png", 8, 0, { "x.png", "cut off at byte 8" } },
        { "PNG, data changed", "x.png", 0, 60, { "x.png", "CRC", "chunk at byte 33" } },
        { "PNG, size changed", "x.png", 0, 19, { "x.png", "CRC", "chunk at byte 8" } },
        { "PNG, signature changed", "x.png", 0, 1, { "x.png", "no picture that is known" } },
        { "JPEG cut in its scan", "x.jpg", -20, 0, { "x.jpg", "cut off", "end marker" } },
        { "JPEG without its end", "x.jpg", -2, 0, { "x.jpg", "cut off", "end marker" } },
        { "JPEG cut in its tables", "x.jpg", 100, 0, { "x.jpg", "cut off at byte 100" } },
        { "JPEG of two bytes", "x.jpg", 2, 0, { "x.jpg", "cut off at byte 2" } },
        { "JPEG of one byte", "x.jpg", 1, 0, { "x.jpg", "no picture that is known" } },
        { "JPEG, marker changed", "x.jpg", 0, 1, { "x.jpg", "no picture that is known" } },
        { "JPEG, precision changed", "x.jpg", 0, 158, { "x.jpg", "broken image", "stb_image" } },
    };
    const char *folder = new_folder();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = path_of(folder, rows[i].file);
        put_picture(folder, rows[i].file, 40, 30, 3, 3);
        size_t count;
        uint8_t *bytes = get_file(folder, rows[i].file, &count);
        if (rows[i].cut < 0) count -= (size_t)-rows[i].cut;
        if (rows[i].cut > 0) count = (size_t)rows[i].cut;
        if (rows[i].at) bytes[rows[i].at] ^= 0x40;
        put_file(folder, rows[i].file, bytes, count);
        free(bytes);
        uint8_t pixels[3 * 4 * 4];
        require_failure(rows[i].name, decode(path, (ls_chw){ 3, 4, 4 }, pixels), LS_DATA, rows[i].parts);
    }
    uint8_t pixels[3 * 4 * 4];
    static const char *const bombs[] = { "header-of-2-to-the-28-pixels.jpg", "header-of-2-to-the-28-pixels.png",
        "header-of-2-to-the-28-pixels-progressive.jpg" };
    for (int i = 0; i < 3; i++)
        require_failure(bombs[i], decode(path_of("tests/fuzz/corpus/image", bombs[i]), (ls_chw){ 3, 4, 4 }, pixels),
            LS_DATA, (const char *[MAX_PARTS]){ bombs[i], "promises 16384 x 16384 pixels", "bytes can hold" });
    static const char codes[] = "257-huffman-codes.jpg"; // stb would write behind its tables
    require_failure(codes, decode(path_of("tests/fuzz/corpus/image", codes), (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ codes, "Huffman table at byte", "more than 256 codes" });
    require_failure("missing", decode(path_of(folder, "none.png"), (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ "none.png", "No such file" });
}

static void channels_are_converted(void **state) {
    (void)state;
    const char *folder = new_folder();
    const char *path = path_of(folder, "x.png");
    for (int channels = 1; channels <= 4; channels++) {
        put_picture(folder, "x.png", 4, 3, channels, 9);
        uint8_t pixels[3 * 3 * 4];
        require_ok(decode(path, (ls_chw){ 3, 3, 4 }, pixels), "decode"); // its own size: unchanged
        for (int at = 0; at < 12; at++) {
            for (int c = 0; c < 3; c++) {
                int want = 9 + 5 * (at * channels + (channels >= 3 ? c : 0)); // gray three times; alpha dropped
                if (pixels[c * 12 + at] != (uint8_t)want)
                    fail_msg("%d channels: [%d][%d] = %d", channels, c, at, pixels[c * 12 + at]);
            }
        }
    }
}

// Pillow's convert("L"), of a planar picture.
static uint8_t luma(const uint8_t *rgb, int plane, int at) {
    return (uint8_t)((rgb[at] * 19595 + rgb[plane + at] * 38470 + rgb[2 * plane + at] * 7471 + 0x8000) >> 16);
}

static void colours_become_gray(void **state) {
    (void)state;
    const char *folder = new_folder();
    const char *path = path_of(folder, "x.png");
    static const ls_chw sizes[] = { { 1, 3, 4 }, { 1, 5, 7 }, { 1, 2, 2 } }; // the first: as it is
    for (int channels = 1; channels <= 4; channels++)
        for (int s = 0; s < 3; s++) {
            const ls_chw size = sizes[s], colours = { 3, size.h, size.w };
            uint8_t rgb[3 * 5 * 7], gray[5 * 7];
            put_picture(folder, "x.png", 4, 3, channels, 9);
            require_ok(decode(path, colours, rgb), "colours");
            require_ok(decode(path, size, gray), "gray");
            for (int at = 0; at < size.h * size.w; at++) {
                const int want = luma(rgb, size.h * size.w, at);
                if (gray[at] != want)
                    fail_msg("%d channels, size %d: [%d] = %d, not %d", channels, s, at, gray[at], want);
                if (channels <= 2 && gray[at] != rgb[at]) fail_msg("gray %d became %d", rgb[at], gray[at]);
            }
        }
}

static void all_kinds_of_colours_become_gray(void **state) {
    (void)state;
    enum { SIDE = 64, PLANE = SIDE * SIDE };
    static const char header[] = "P6\n64 64\n255\n";
    const char *folder = new_folder();
    static uint8_t file[sizeof header - 1 + 3 * PLANE], gray[PLANE];
    memcpy(file, header, sizeof header - 1);
    uint8_t *colours = file + sizeof header - 1;
    for (uint32_t i = 0, word = 1; i < 3 * PLANE; i++) {
        word = word * 1664525 + 1013904223;
        colours[i] = (uint8_t)(word >> 24);
    }
    put_file(folder, "x.ppm", file, sizeof file);
    require_ok(decode(path_of(folder, "x.ppm"), (ls_chw){ 1, SIDE, SIDE }, gray), "gray");
    for (int at = 0; at < PLANE; at++) assert_int_equal(gray[at], luma(colours + 3 * at, 1, 0));
}

// Against the definition in double: within one of it (two roundings), and exact where it must be.
static double exact_resize(const uint8_t *src, int h, int w, ls_chw size, int c, int y, int x) {
    double sy = (double)h / size.h, sx = (double)w / size.w, fy = sy < 1 ? 1 : sy, fx = sx < 1 ? 1 : sx, sum = 0,
           weights = 0;
    for (int i = 0; i < h; i++) {
        for (int k = 0; k < w; k++) {
            double dy = (i + 0.5 - (y + 0.5) * sy) / fy, dx = (k + 0.5 - (x + 0.5) * sx) / fx;
            dy = dy < 0 ? 1 + dy : 1 - dy;
            dx = dx < 0 ? 1 + dx : 1 - dx;
            if (dy <= 0 || dx <= 0) continue;
            sum += dy * dx * src[(i * w + k) * 3 + c];
            weights += dy * dx;
        }
    }
    return sum / weights;
}

static void resizing(void **state) {
    (void)state;
    static const int rows[][4] = { { 30, 40, 30, 40 }, { 30, 40, 7, 9 }, { 5, 3, 20, 31 }, { 1, 1, 4, 4 },
        { 1, 50, 3, 3 }, { 64, 2, 1, 1 }, { 33, 17, 16, 32 } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int h = rows[r][0], w = rows[r][1];
        ls_chw size = { 3, rows[r][2], rows[r][3] };
        uint8_t src[3 * 64 * 50], dst[3 * 40 * 40];
        for (int i = 0; i < 3 * h * w; i++) src[i] = (uint8_t)(i * 7919 >> 3);
        const ls_picture picture = ls_picture_turned(src, h, w, 1, 1);
        require_ok(ls_image_resize(&picture, LS_RESIZE_STRETCH, size, dst), "resize");
        for (int c = 0; c < 3; c++) {
            for (int y = 0; y < size.h; y++) {
                for (int x = 0; x < size.w; x++) {
                    double want = exact_resize(src, h, w, size, c, y, x), got = dst[(c * size.h + y) * size.w + x];
                    if (got - want > 1.01 || want - got > 1.01)
                        fail_msg("row %zu [%d][%d][%d]: %g, expected %g", r, c, y, x, got, want);
                }
            }
        }
        memset(src, 255, sizeof src);
        require_ok(ls_image_resize(&picture, LS_RESIZE_STRETCH, size, dst), "resize");
        for (int i = 0; i < 3 * size.h * size.w; i++) assert_int_equal(255, dst[i]);
    }
}

// Checksums of Pillow 13's own output: Image.resize((w, h), BILINEAR), planes one after the other.
static void resizing_as_pillow(void **state) {
    (void)state;
    static const struct {
        int h, w, to_h, to_w;
        uint32_t crc;
    } rows[] = { { 30, 40, 7, 9, 0x2249b7c5 }, { 64, 32, 40, 20, 0x76d3dd40 }, { 20, 30, 41, 33, 0x65f7718b },
        // columns first
        { 60, 10, 20, 30, 0x5f9995f1 }, { 61, 33, 9, 8, 0x1c49b300 }, { 64, 33, 9, 7, 0x4bfe08f5 },
        { 33, 17, 16, 32, 0x91c5338a } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const ls_chw size = { 3, rows[r].to_h, rows[r].to_w };
        uint8_t src[3 * 64 * 50], dst[3 * 60 * 60];
        for (int i = 0; i < 3 * rows[r].h * rows[r].w; i++) src[i] = (uint8_t)(i * 7919 >> 3);
        const ls_picture picture = ls_picture_turned(src, rows[r].h, rows[r].w, 1, 1);
        require_ok(ls_image_resize(&picture, LS_RESIZE_STRETCH, size, dst), "resize");
        const uint32_t crc = (uint32_t)crc32(0, dst, (uInt)ls_chw_count(size));
        if (crc != rows[r].crc) fail_msg("row %zu: %08x, Pillow has %08x", r, crc, rows[r].crc);
    }
}

// An Exif block of one entry, Orientation, after one that is none of it; 38 bytes.
static void put_exif(uint8_t *to, int big_endian, int orientation) {
    static const uint8_t little[] = { 'I', 'I', '*', 0, 8, 0, 0, 0, 2, 0, 0x0f, 1, 2, 0, 1, 0, 0, 0, 'x', 0, 0, 0, 0x12,
        1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    static const uint8_t big[] = { 'M', 'M', 0, '*', 0, 0, 0, 8, 0, 2, 1, 0x0f, 0, 2, 0, 0, 0, 1, 'x', 0, 0, 0, 1, 0x12,
        0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 };
    memcpy(to, big_endian ? big : little, sizeof big);
    to[big_endian ? 31 : 30] = (uint8_t)orientation;
}

enum { EXIF_BYTES = 38 };

// Behind the first `at` bytes of a file: PNG's eXIf chunk, or JPEG's APP1.
static void insert_exif(const char *folder, const char *name, size_t at, int big_endian, int orientation) {
    uint8_t exif[6 + EXIF_BYTES] = { 'E', 'x', 'i', 'f', 0, 0 }, segment[64];
    size_t count, added;
    put_exif(exif + 6, big_endian, orientation);
    if (at == 2) {
        memcpy(segment, (const uint8_t[]){ 0xff, 0xe1, 0, sizeof exif + 2 }, 4);
        memcpy(segment + 4, exif, sizeof exif);
        added = sizeof exif + 4;
    } else {
        added = (size_t)(put_chunk(segment, "eXIf", exif + 6, EXIF_BYTES) - segment);
    }
    uint8_t *bytes = get_file(folder, name, &count);
    bytes = realloc(bytes, count + added);
    assert_non_null(bytes);
    memmove(bytes + at + added, bytes + at, count - at);
    memcpy(bytes + at, segment, added);
    put_file(folder, name, bytes, count + added);
    free(bytes);
}

// Where the pixel comes from that is seen at (y, x) of a picture of h x w: Exif's table of orientations, as Pillow's
// ImageOps.exif_transpose has it.
static void seen_from(int orientation, int h, int w, int y, int x, int *from_y, int *from_x) {
    const int rows[8][2] = { { y, x }, { y, w - 1 - x }, { h - 1 - y, w - 1 - x }, { h - 1 - y, x }, { x, y },
        { h - 1 - x, y }, { h - 1 - x, w - 1 - y }, { x, w - 1 - y } };
    *from_y = rows[orientation - 1][0];
    *from_x = rows[orientation - 1][1];
}

static void pictures_are_turned_upright(void **state) {
    (void)state;
    const char *folder = new_folder();
    for (int i = 0; i < 2 * 2 * 10; i++) { // JPEG or PNG, byte order, orientation 0 to 9
        const int jpeg = i / 20, big_endian = i / 10 % 2, orientation = i % 10, h = jpeg ? 8 : 4, w = jpeg ? 8 : 5;
        const char *name = jpeg ? "x.jpg" : "x.png";
        const int effective = orientation >= 1 && orientation <= 8 ? orientation : 1;
        const int seen_h = effective >= 5 ? w : h, seen_w = effective >= 5 ? h : w;
        uint8_t flat[3 * 64], turned[3 * 64];
        put_picture(folder, name, w, h, 3, 3);
        require_ok(decode(path_of(folder, name), (ls_chw){ 3, h, w }, flat), "decode");
        insert_exif(folder, name, jpeg ? 2 : 33, big_endian, orientation);
        require_ok(decode(path_of(folder, name), (ls_chw){ 3, seen_h, seen_w }, turned), "decode");
        for (int at = 0; at < 3 * h * w; at++) {
            int y, x;
            seen_from(effective, h, w, at % (h * w) / seen_w, at % seen_w, &y, &x);
            if (turned[at] != flat[at / (h * w) * h * w + y * w + x])
                fail_msg("%s, orientation %d: byte %d is wrong", name, orientation, at);
        }
    }
}

static void break_picture(const char *folder, const char *name) {
    put_file(folder, name, "\x89PNG\r\n\x1a\n", 8);
}

// a/000 to a/003 and b/000 to b/003 as PNG, samples 0, 2, 4, 6 and 1, 3, 5, 7; seeds 0 to 7 in that order.
static ls_dataset *put_eight(const char *folder, const char *broken) {
    for (int i = 0; i < 8; i++) {
        char name[32];
        require_ok(ls_make_folders(path_of(folder, i < 4 ? "a" : "b")), "class");
        snprintf(name, sizeof name, "%s/%03d.png", i < 4 ? "a" : "b", i % 4);
        put_picture(folder, name, 8, 6, 3, 2 * i + 1);
    }
    for (const char *at = broken; *at; at += 2) {
        char name[32];
        snprintf(name, sizeof name, "%c/00%c.png", at[0], at[1]);
        break_picture(folder, name);
    }
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    return open_split(&cfg, LS_SPLIT_TRAIN);
}

static void check_sample(const ls_dataset *dataset, int64_t index, int expected) {
    uint8_t pixels[3 * 6 * 8];
    int32_t label = -1;
    require_ok(ls_dataset_read_whole(dataset, index, pixels, &label), "read");
    const int seed = 2 * (expected % 2 * 4 + expected / 2) + 1;
    if (pixels[0] != seed || label != expected % 2)
        fail_msg("sample %lld: pixel %d, label %d; expected those of sample %d", (long long)index, pixels[0], label,
            expected);
}

static void others_take_the_places_of_broken_ones(void **state) {
    (void)state;
    static const struct {
        const char *broken;
        int in_place[8]; // of each sample; -1: none can be
    } rows[] = {
        { "", { 0, 1, 2, 3, 4, 5, 6, 7 } },
        { "a1", { 0, 1, 4, 3, 4, 5, 6, 7 } },
        { "a3b0", { 0, 3, 2, 3, 4, 5, 0, 7 } },
        { "b0b1b2", { 0, 7, 2, 7, 4, 7, 6, 7 } },
        { "a0a1a2a3", { -1, 1, -1, 3, -1, 5, -1, 7 } },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ls_dataset *dataset = put_eight(new_folder(), rows[r].broken);
        assert_true(ls_dataset_may_break(dataset));
        for (int i = 0; i < 8; i++) {
            uint8_t pixels[3 * 6 * 8];
            int32_t label;
            if (rows[r].in_place[i] >= 0)
                check_sample(dataset, i, rows[r].in_place[i]);
            else
                require_failure("none", ls_dataset_read_whole(dataset, i, pixels, &label), LS_DATA,
                    (const char *[MAX_PARTS]){ "no training picture of class a" });
        }
        ls_dataset_free(dataset);
    }
    // Marked on all ranks alike, though this one could read it.
    ls_dataset *dataset = put_eight(new_folder(), "");
    ls_dataset_know_broken(dataset, (const uint8_t[8]){ [2] = 1 });
    assert_int_equal(1, ls_dataset_get_info(dataset)->broken);
    check_sample(dataset, 2, 4);
    ls_dataset_free(dataset);
    // Left out, the others move up; the files are those that they were.
    dataset = put_eight(new_folder(), "");
    const uint64_t checksum = ls_dataset_get_info(dataset)->checksum;
    require_ok(ls_dataset_leave_out(dataset, (const uint8_t[8]){ 1, 0, 0, 1 }), "leave out");
    assert_int_equal(6, ls_dataset_get_info(dataset)->count);
    assert_int_equal(2, ls_dataset_get_info(dataset)->broken);
    assert_true(checksum == ls_dataset_get_info(dataset)->checksum);
    static const int left[6] = { 1, 2, 4, 5, 6, 7 };
    for (int i = 0; i < 6; i++) check_sample(dataset, i, left[i]);
    require_failure("all", ls_dataset_leave_out(dataset, (const uint8_t[8]){ 1, 1, 1, 1, 1, 1 }), LS_DATA,
        (const char *[MAX_PARTS]){ "no training picture can be read" });
    ls_dataset_free(dataset);
}

typedef enum {
    NO_CHANGE,
    TOUCHED,             // another time, the same bytes
    COPIED,              // another file of the same bytes and times
    SPOILT_IN_PLACE,     // the same file, size and times
    SPOILT_AND_REPLACED, // another file of the same size and times
    OTHER_PICTURE,       // a good one of the same size and times
    EXCHANGED,           // with the one before it
    MISSING_LINK         // a link to nothing
} file_change;
enum { OTHER_SEED = 99 };

// Size and times of `name` as they were.
static void put_replacement(const char *folder, const char *name, const uint8_t *bytes, size_t count, int in_place) {
    char path[1024], other[1024];
    struct stat before;
    snprintf(path, sizeof path, "%s", path_of(folder, name));
    snprintf(other, sizeof other, "%s", in_place ? path : path_of(folder, ".other"));
    assert_int_equal(0, stat(path, &before));
    const int fd = open(other, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    const struct timespec times[2] = { before.st_atim, before.st_mtim };
    assert_int_equal(0, futimens(fd, times));
    close(fd);
    if (!in_place) assert_int_equal(0, rename(other, path));
}

static void change_file(const char *folder, const char *name, file_change change) {
    size_t count, other_count = 0;
    uint8_t *bytes = get_file(folder, name, &count), *other = NULL;
    char path[1024], before[1024];
    snprintf(path, sizeof path, "%s", path_of(folder, name));
    snprintf(before, sizeof before, "%s", path_of(folder, "a/001.png"));
    switch (change) {
    case NO_CHANGE:
        break;
    case TOUCHED:
        assert_int_equal(
            0, utimensat(AT_FDCWD, path, (const struct timespec[2]){ { .tv_sec = 1 }, { .tv_sec = 1 } }, 0));
        break;
    case COPIED:
        put_replacement(folder, name, bytes, count, 0);
        break;
    case SPOILT_IN_PLACE:
    case SPOILT_AND_REPLACED:
        memset(bytes, 's', 6);
        put_replacement(folder, name, bytes, count, change == SPOILT_IN_PLACE);
        break;
    case OTHER_PICTURE:
        put_picture(folder, "other.png", 8, 6, 3, OTHER_SEED);
        other = get_file(folder, "other.png", &other_count);
        put_replacement(folder, name, other, other_count, 0);
        remove(path_of(folder, "other.png"));
        break;
    case EXCHANGED:
        assert_int_equal(0, rename(path, path_of(folder, ".other")));
        assert_int_equal(0, rename(before, path));
        assert_int_equal(0, rename(path_of(folder, ".other"), before));
        break;
    case MISSING_LINK:
        remove(path);
        assert_int_equal(0, symlink("nothing", path));
        break;
    }
    free(other);
    free(bytes);
}

static int first_pixel(const ls_dataset *dataset, int64_t index) {
    uint8_t pixels[3 * 6 * 8];
    int32_t label;
    require_ok(ls_dataset_read(dataset, index, pixels, &label), "read");
    return pixels[0];
}

// Looks at all, in so many shares and threads; returns how many were looked at.
static int64_t verify_all(const ls_dataset *dataset, int shares, int workers, uint8_t *broken) {
    int64_t sum = 0;
    memset(broken, 0, 8);
    for (int share = 0; share < shares; share++) {
        const ls_verify_options options = { .share = share, .shares = shares, .groups = 1, .workers = workers };
        int64_t looked;
        require_ok(ls_verify_read(dataset, &options, broken, &looked), "verify");
        sum += looked;
    }
    return sum;
}

// Until a stamp shows every later change.
static void let_files_age(void) {
    ls_clock_sleep(2.1);
}

// data.channels = 1: decoded, packed and read back; the normalisation has the mean of the colours' numbers.
static void a_gray_folder(void **state) {
    (void)state;
    enum { SAMPLES = 6, PLANE = 6 * 8 };
    const char *folder = new_folder(), *cache = new_folder();
    require_ok(ls_make_folders(path_of(folder, "a")), "a");
    require_ok(ls_make_folders(path_of(folder, "b")), "b");
    for (int i = 0; i < SAMPLES; i++) {
        char name[16];
        snprintf(name, sizeof name, "%c/%d.png", 'a' + i % 2, i / 2);
        put_picture(folder, name, 9, 7, 3, 20 * i);
    }
    let_files_age();
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    ls_dataset *colours = open_split(&cfg, LS_SPLIT_TRAIN);
    require_ok(ls_config_set(&cfg, "data.channels=1"), "channels");
    for (int packed = 0; packed < 3; packed++) {
        uint8_t broken[8], rgb[3 * PLANE], gray[PLANE];
        int32_t label;
        ls_dataset *dataset = open_split(&cfg, LS_SPLIT_TRAIN);
        const ls_dataset_info *info = ls_dataset_get_info(dataset);
        assert_int_equal(info->shape.c, 1);
        assert_true(info->mean[0] == 0.449F && info->std[0] == 0.226F);
        if (packed) require_ok(ls_dataset_pack(dataset, cache, 1), "pack");
        if (packed == 1) verify_all(dataset, 1, 1, broken);
        for (int i = 0; i < SAMPLES; i++) {
            assert_int_equal(packed > 0, ls_dataset_is_packed(dataset, i));
            require_ok(ls_dataset_read(colours, i, rgb, &label), "colours");
            require_ok(ls_dataset_read(dataset, i, gray, &label), "gray");
            for (int at = 0; at < PLANE; at++) assert_int_equal(gray[at], luma(rgb, PLANE, at));
        }
        ls_dataset_settle(dataset);
        ls_dataset_free(dataset);
    }
    ls_dataset_free(colours);
}

static void pictures_are_verified_and_packed(void **state) {
    (void)state;
    static const uint8_t nothing[8] = { 0 }, wanted[8] = { [1] = 1, [6] = 1 };
    const char *folder = new_folder(), *cache = new_folder();
    ls_dataset *dataset = put_eight(folder, "a3b0");
    let_files_age();
    uint8_t broken[8];
    for (int shares = 1; shares <= 9; shares += 4)
        for (int workers = 1; workers <= 3; workers++) {
            assert_int_equal(8, verify_all(dataset, shares, workers, broken));
            assert_memory_equal(wanted, broken, 8);
        }
    assert_string_equal("", ls_dataset_packed_at(dataset));
    require_ok(ls_dataset_pack(dataset, cache, 1), "pack");
    assert_int_equal(8, verify_all(dataset, 1, 2, broken));
    assert_memory_equal(wanted, broken, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(!wanted[i], ls_dataset_is_packed(dataset, i));
    assert_int_equal(2, verify_all(dataset, 2, 1, broken)); // what was broken may have been mended
    assert_memory_equal(wanted, broken, 8);
    ls_dataset_free(dataset);

    // The first ones of the list and what is left of it are the same files; pixels do not need theirs.
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    cfg.data_train_samples = 5;
    dataset = open_split(&cfg, LS_SPLIT_TRAIN);
    require_ok(ls_dataset_pack(dataset, cache, 0), "pack");
    require_ok(ls_dataset_leave_out(dataset, (const uint8_t[8]){ [1] = 1, [2] = 1 }), "leave out");
    put_picture(folder, "x.png", 2, 2, 3, 0);
    for (int i = 0; i < 3; i++) {
        static const int left[] = { 0, 3, 4 };
        assert_true(ls_dataset_is_packed(dataset, i));
        check_sample(dataset, i, left[i]);
    }
    ls_dataset_free(dataset);
    remove(path_of(folder, "x.png"));

    // Of another size, another way to it, another decoder or split there is nothing; other options do not matter.
    for (int i = 0; i < 6; i++) {
        cfg = folder_config(folder);
        cfg.data_test_fraction = i == 3 ? 0.5 : 0;
        if (i == 0) snprintf(cfg.data_image_size, sizeof cfg.data_image_size, "8x6");
        if (i == 1) cfg.data_resize = LS_RESIZE_CROP;
        if (i == 2) cfg.data_decoder = LS_DECODER_STB;
        if (i == 4) cfg.data_flip = 1, cfg.data_train_samples = 3;
        dataset = open_split(&cfg, i == 3 ? LS_SPLIT_TEST : LS_SPLIT_TRAIN);
        const int same = i >= 4 || (i == 2 && !ls_jpeg_turbo_version());
        const ls_status status = ls_dataset_pack(dataset, cache, 0);
        if (same != !ls_failed(status)) fail_msg("row %d: %s", i, ls_failed(status) ? status.text : "packed already");
        ls_dataset_free(dataset);
    }

    // Changed files are read again, whatever of their size and time is kept; the pixels of the others are copied.
    dataset = put_eight(folder, "");
    require_ok(ls_dataset_pack(dataset, cache, 1), "pack");
    assert_int_equal(8, verify_all(dataset, 1, 1, broken)); // written anew: changed later
    assert_memory_equal(nothing, broken, 8);
    ls_dataset_settle(dataset);
    ls_dataset_free(dataset);
    put_picture(folder, "a/000.png", 9, 6, 3, 1);                                             // sample 0
    assert_int_equal(0, rename(path_of(folder, "a/001.png"), path_of(folder, "a/001x.png"))); // 2
    change_file(folder, "a/002.png", SPOILT_IN_PLACE);                                        // 4
    change_file(folder, "a/003.png", OTHER_PICTURE);                                          // 6
    cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    dataset = open_split(&cfg, LS_SPLIT_TRAIN);
    require_ok(ls_dataset_pack(dataset, cache, 1), "pack");
    assert_int_equal(8, verify_all(dataset, 2, 2, broken));
    for (int i = 0; i < 8; i++) assert_int_equal(i == 4, broken[i]);
    static const int unchanged[] = { 1, 2, 3, 5, 7 };
    for (int i = 0; i < 5; i++) check_sample(dataset, unchanged[i], unchanged[i]);
    assert_int_equal(OTHER_SEED, first_pixel(dataset, 6));
    ls_dataset_free(dataset);
}

// The identity of a set that is verified and, where there is a folder for it, packed; *known: of so many files the
// content followed from their stamps.
static uint64_t identify(const char *folder, const char *cache, int *known) {
    ls_config cfg = folder_config(folder);
    cfg.data_test_fraction = 0;
    ls_dataset *dataset = open_split(&cfg, LS_SPLIT_TRAIN);
    const ls_verify_options options = { .shares = 1, .groups = 1, .workers = 1 };
    uint8_t broken[8];
    *known = 0;
    if (cache) require_ok(ls_dataset_pack(dataset, cache, 1), "pack");
    for (int i = 0; i < 8; i++) *known += ls_dataset_content(dataset, i) != 0;
    verify_all(dataset, 1, 1, broken);
    ls_dataset_set_content(dataset, ls_verify_contents(dataset, &options, NULL));
    ls_dataset_settle(dataset);
    const uint64_t identity = ls_dataset_identity(ls_dataset_get_info(dataset));
    assert_true(ls_dataset_get_info(dataset)->source == identity);
    ls_dataset_free(dataset);
    return identity;
}

// Every change of a file's bytes is another data set, with packed pictures and without; a second start reads what has
// changed alone.
static void a_set_is_identified_by_contents(void **state) {
    (void)state;
    static const struct {
        file_change change;
        int same, known; // identity as before; known: files that are not read again
    } rows[] = {
        { NO_CHANGE, 1, 8 },
        { TOUCHED, 1, 7 },
        { COPIED, 1, 7 },
        { SPOILT_IN_PLACE, 0, 7 },
        { SPOILT_AND_REPLACED, 0, 7 },
        { OTHER_PICTURE, 0, 7 },
        { EXCHANGED, 0, 6 },
        { MISSING_LINK, 0, 7 },
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const char *folders[ROWS], *caches[ROWS];
    for (int r = 0; r < ROWS; r++) {
        folders[r] = new_folder();
        caches[r] = new_folder();
        ls_dataset_free(put_eight(folders[r], ""));
    }
    let_files_age();
    for (int r = 0; r < ROWS; r++) {
        int known;
        const uint64_t before = identify(folders[r], caches[r], &known);
        assert_int_equal(0, known);
        assert_true(identify(folders[r], NULL, &known) == before);
        change_file(folders[r], "a/002.png", rows[r].change);
        const uint64_t after = identify(folders[r], caches[r], &known);
        if (known != rows[r].known || (after == before) != rows[r].same)
            fail_msg("row %d: %d files known, %s identity", r, known, after == before ? "the same" : "another");
        assert_true(identify(folders[r], NULL, &known) == after);
        assert_int_equal(0, known);
    }
    // The same pictures elsewhere are the same data; in another order they are not.
    int known;
    const char *other = new_folder();
    ls_dataset_free(put_eight(other, ""));
    assert_true(identify(other, NULL, &known) == identify(folders[0], NULL, &known));
}

// A file whose bytes change in the tick of the clock in which they were hashed keeps its stamp.
static void a_young_file_is_read_again(void **state) {
    (void)state;
    const char *folder = new_folder(), *cache = new_folder();
    int known;
    ls_dataset_free(put_eight(folder, ""));
    const uint64_t before = identify(folder, cache, &known);
    assert_true(identify(folder, cache, &known) == before);
    assert_int_equal(0, known);
    let_files_age();
    assert_true(identify(folder, cache, &known) == before);
    assert_int_equal(0, known);
    assert_true(identify(folder, cache, &known) == before);
    assert_int_equal(8, known);
}

// Of a run that has begun: packed pictures are those of its start; without them a changed file is refused, and another
// takes its place.
static void files_that_change_during_a_run(void **state) {
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        const char *folder = new_folder();
        ls_dataset *dataset = put_eight(folder, "");
        uint8_t broken[8], pixels[3 * 6 * 8];
        int32_t label;
        if (packed) require_ok(ls_dataset_pack(dataset, new_folder(), 1), "pack");
        assert_int_equal(8, verify_all(dataset, 1, 1, broken));
        change_file(folder, "a/002.png", OTHER_PICTURE); // sample 4
        if (!packed)
            require_failure("changed", ls_dataset_read(dataset, 4, pixels, &label), LS_DATA,
                (const char *[MAX_PARTS]){ "a/002.png", "has changed since the run began", "bring the old file back" });
        check_sample(dataset, 4, packed ? 4 : 6);
        ls_dataset_free(dataset);
    }
}

// Hosts that pack nothing share the decoding, and each of them reads every file.
static void hosts_share_the_decoding(void **state) {
    (void)state;
    uint8_t broken[8];
    uint64_t sums[3];
    const char *folder = new_folder();
    ls_dataset_free(put_eight(folder, "a3b0")); // samples 6 and 1
    for (int host = 0; host < 3; host++) {
        sums[host] = 0;
        memset(broken, 0, 8);
        ls_config cfg = folder_config(folder);
        cfg.data_test_fraction = 0;
        ls_dataset *dataset = open_split(&cfg, LS_SPLIT_TRAIN);
        for (int share = 0; share < 2; share++) {
            const ls_verify_options options = { .share = share, .shares = 2, .group = host, .groups = 3, .workers = 1 };
            int64_t looked, contents[8] = { 0 };
            require_ok(ls_verify_read(dataset, &options, broken, &looked), "verify");
            assert_int_equal(share == 0 ? 5 : 3, looked);
            sums[host] += ls_verify_contents(dataset, &options, contents);
            for (int i = 0; i < 8; i++) assert_int_equal(i / 3 % 2 == share, contents[i] != 0);
        }
        assert_true(sums[host] == sums[0]);
        for (int i = 0; i < 8; i++) assert_int_equal(i % 3 == host && (i == 1 || i == 6), broken[i]);
        ls_dataset_free(dataset);
    }
}

// A gray JPEG of so many scans without content: each refines what is not there, for stb takes zeros for missing data.
static void put_scans(const char *folder, const char *name, int side, int progressive, int scans) {
    enum { PADDING = 60000 };
    static uint8_t file[PADDING + 4096];
    const uint8_t s = (uint8_t)(side >> 8);
    const uint8_t begin[] = { 0xff, 0xd8, 0xff, progressive ? 0xc2 : 0xc0, 0, 11, 8, s, 0, s, 0, 1, 1, 0x11, 0 };
    const uint8_t scan[] = { 0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0x10 };
    const uint8_t padding[] = { 0xff, 0xfe, PADDING >> 8, PADDING & 255 }, end[] = { 0xff, 0xd9 };
    // Tables: quantisation by 1, and of each class of codes one of one bit.
    static const uint8_t quantisation[] = { 0xff, 0xdb, 0, 67, 0 }, codes[] = { 0xff, 0xc4, 0, 38 };
    uint8_t *at = memcpy(file, begin, sizeof begin);
    at += sizeof begin;
    at = (uint8_t *)memcpy(at, quantisation, sizeof quantisation) + sizeof quantisation;
    at = (uint8_t *)memset(at, 1, 64) + 64;
    at = (uint8_t *)memcpy(at, codes, sizeof codes) + sizeof codes;
    memset(at, 0, 36);
    at[1] = at[19] = 1;
    at[18] = 0x10;
    at += 36;
    at = (uint8_t *)memcpy(at, padding, sizeof padding) + PADDING + 2;
    for (int i = 0; i < scans; i++, at += sizeof scan) memcpy(at, scan, sizeof scan);
    memcpy(at, end, sizeof end);
    put_file(folder, name, file, (size_t)(at - file) + sizeof end);
}

static void scans_are_counted(void **state) {
    (void)state;
    static const struct {
        int side, progressive, scans, good;
    } rows[] = {
        { 2048, 1, 40, 1 }, // 24 times, and 2^20 blocks that are always allowed
        { 2048, 1, 41, 0 },
        { 256, 1, 300, 1 }, // takes no time
        { 7936, 0, 3, 0 },
    };
    const char *folder = new_folder();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint8_t pixels[3 * 4 * 4];
        put_scans(folder, "x.jpg", rows[r].side, rows[r].progressive, rows[r].scans);
        ls_status status = decode(path_of(folder, "x.jpg"), (ls_chw){ 3, 4, 4 }, pixels);
        if (rows[r].good)
            require_ok(status, "scans");
        else
            require_failure("scans", status, LS_DATA, (const char *[MAX_PARTS]){ "x.jpg", "scans", "save it anew" });
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_tree_is_split, remove_folders),
        cmocka_unit_test_teardown(two_trees, remove_folders),
        cmocka_unit_test_teardown(layouts_with_val, remove_folders),
        cmocka_unit_test_teardown(names_of_splits, remove_folders),
        cmocka_unit_test_teardown(bad_folders_are_refused, remove_folders),
        cmocka_unit_test_teardown(others_are_left_out, remove_folders),
        cmocka_unit_test_teardown(broken_images_are_refused, remove_folders),
        cmocka_unit_test_teardown(channels_are_converted, remove_folders),
        cmocka_unit_test_teardown(colours_become_gray, remove_folders),
        cmocka_unit_test_teardown(all_kinds_of_colours_become_gray, remove_folders),
        cmocka_unit_test_teardown(a_gray_folder, remove_folders),
        cmocka_unit_test_teardown(pictures_are_turned_upright, remove_folders),
        cmocka_unit_test_teardown(others_take_the_places_of_broken_ones, remove_folders),
        cmocka_unit_test_teardown(pictures_are_verified_and_packed, remove_folders),
        cmocka_unit_test_teardown(a_set_is_identified_by_contents, remove_folders),
        cmocka_unit_test_teardown(a_young_file_is_read_again, remove_folders),
        cmocka_unit_test_teardown(files_that_change_during_a_run, remove_folders),
        cmocka_unit_test_teardown(hosts_share_the_decoding, remove_folders),
        cmocka_unit_test_teardown(scans_are_counted, remove_folders),
        cmocka_unit_test(resizing),
        cmocka_unit_test(resizing_as_pillow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
