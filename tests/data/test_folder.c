// Image folders: layouts, splits, labels, and what is refused. Pictures are written here by stb_image_write.
#include "data_files.h"

#include <strings.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

#include "data/image_decode.h"
#include "data/image_resize.h"

static void put_picture(const char *path, int width, int height, int channels, int seed) {
    uint8_t *pixels = malloc((size_t)(width * height * channels));
    for (int i = 0; i < width * height * channels; i++) pixels[i] = (uint8_t)(seed + i * 5);
    const char *dot = strrchr(path, '.');
    int jpeg = strcasecmp(dot, ".png") != 0;
    assert_true(jpeg ? stbi_write_jpg(path, width, height, channels, pixels, 90)
                     : stbi_write_png(path, width, height, channels, pixels, width * channels));
    free(pixels);
}

static void put_class(const char *root, const char *class_name, int files) {
    char folder[2048];
    snprintf(folder, sizeof folder, "%s/%s", root, class_name);
    require_ok(ls_make_folders(folder), folder);
    for (int i = 0; i < files; i++) {
        static const char *const endings[] = { "png", "jpg", "JPEG", "PNG" };
        char name[64];
        snprintf(name, sizeof name, "%03d.%s", i, endings[i % 4]);
        put_picture(path_of(folder, name), 5 + i % 3, 4, 3, i);
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
    memset(counts, 0, (size_t)ls_dataset_about(dataset)->classes * sizeof *counts);
    for (int64_t i = 0; i < ls_dataset_about(dataset)->count; i++) {
        int32_t label = -1;
        require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
        assert_true(label >= 0 && label < ls_dataset_about(dataset)->classes);
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
        assert_int_equal(4, ls_dataset_about(train)->classes);
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
    // A link is what it points to; the checksum sees names and sizes.
    uint64_t before = ls_dataset_about(train)->checksum;
    ls_dataset_free(train);
    assert_int_equal(0, symlink(path_of(folder, "train/a/000.png"), path_of(folder, "train/c/link.png")));
    assert_int_equal(0, symlink(path_of(folder, "train/a"), path_of(folder, "train/alias")));
    train = open_split(&cfg, LS_SPLIT_TRAIN);
    assert_int_equal(9 + 1 + 3, ls_dataset_about(train)->count);
    assert_true(before != ls_dataset_about(train)->checksum);
    ls_dataset_free(train);
}

typedef enum { NOTHING, PUT, PUT_EMPTY, MAKE_FOLDER, BREAK_LINK, CLEAR } damage_kind;

static void bad_folders_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        damage_kind damage;
        const char *path, *parts[MAX_PARTS];
    } rows[] = {
        { "text in a class", PUT, "cat/notes.txt", { "cat/notes.txt", "no image", ".png" } },
        { "no ending", PUT, "cat/picture", { "cat/picture", "no image" } },
        { "GIF", PUT, "cat/picture.gif", { "cat/picture.gif", "no image" } },
        { "empty image", PUT_EMPTY, "dog/zero.jpg", { "dog/zero.jpg", "empty" } },
        { "folder in a class", MAKE_FOLDER, "dog/more", { "dog/more", "is a folder" } },
        { "folder called image", MAKE_FOLDER, "dog/more.png", { "dog/more.png", "is a folder" } },
        { "empty class", MAKE_FOLDER, "emu", { "emu", "without images" } },
        { "broken link", BREAK_LINK, "cat/link.png", { "cat/link.png", "No such file" } },
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
        case PUT_EMPTY:
            put_file(folder, rows[i].path, "", 0);
            break;
        case MAKE_FOLDER:
            assert_int_equal(0, mkdir(path, 0755));
            break;
        case BREAK_LINK:
            assert_int_equal(0, symlink("nowhere", path));
            break;
        case CLEAR:
            folder = new_folder();
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
        { "PNG, signature changed", "x.png", 0, 1, { "x.png", "neither JPEG nor PNG" } },
        { "JPEG cut in its scan", "x.jpg", -20, 0, { "x.jpg", "cut off", "end marker" } },
        { "JPEG without its end", "x.jpg", -2, 0, { "x.jpg", "cut off", "end marker" } },
        { "JPEG cut in its tables", "x.jpg", 100, 0, { "x.jpg", "cut off at byte 100" } },
        { "JPEG of two bytes", "x.jpg", 2, 0, { "x.jpg", "cut off at byte 2" } },
        { "JPEG of one byte", "x.jpg", 1, 0, { "x.jpg", "neither JPEG nor PNG" } },
        { "JPEG, marker changed", "x.jpg", 0, 1, { "x.jpg", "neither JPEG nor PNG" } },
        { "JPEG, precision changed", "x.jpg", 0, 158, { "x.jpg", "broken image", "stb_image" } },
    };
    const char *folder = new_folder();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = path_of(folder, rows[i].file);
        put_picture(path, 40, 30, 3, 3);
        size_t count;
        uint8_t *bytes = get_file(folder, rows[i].file, &count);
        if (rows[i].cut < 0) count -= (size_t)-rows[i].cut;
        if (rows[i].cut > 0) count = (size_t)rows[i].cut;
        if (rows[i].at) bytes[rows[i].at] ^= 0x40;
        put_file(folder, rows[i].file, bytes, count);
        free(bytes);
        uint8_t pixels[3 * 4 * 4];
        require_failure(rows[i].name, ls_image_decode(path, (ls_chw){ 3, 4, 4 }, pixels), LS_DATA, rows[i].parts);
    }
    uint8_t pixels[3 * 4 * 4];
    require_failure("missing", ls_image_decode(path_of(folder, "none.png"), (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ "none.png", "No such file" });
}

static void channels_are_converted(void **state) {
    (void)state;
    const char *folder = new_folder();
    const char *path = path_of(folder, "x.png");
    for (int channels = 1; channels <= 4; channels++) {
        put_picture(path, 4, 3, channels, 9);
        uint8_t pixels[3 * 3 * 4];
        require_ok(ls_image_decode(path, (ls_chw){ 3, 3, 4 }, pixels), "decode"); // its own size: unchanged
        for (int at = 0; at < 12; at++) {
            for (int c = 0; c < 3; c++) {
                int want = 9 + 5 * (at * channels + (channels >= 3 ? c : 0)); // gray three times; alpha dropped
                if (pixels[c * 12 + at] != (uint8_t)want)
                    fail_msg("%d channels: [%d][%d] = %d", channels, c, at, pixels[c * 12 + at]);
            }
        }
    }
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
        require_ok(ls_image_resize(src, h, w, size, dst), "resize");
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
        require_ok(ls_image_resize(src, h, w, size, dst), "resize");
        for (int i = 0; i < 3 * size.h * size.w; i++) assert_int_equal(255, dst[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_tree_is_split, remove_folders),
        cmocka_unit_test_teardown(two_trees, remove_folders),
        cmocka_unit_test_teardown(bad_folders_are_refused, remove_folders),
        cmocka_unit_test_teardown(broken_images_are_refused, remove_folders),
        cmocka_unit_test_teardown(channels_are_converted, remove_folders),
        cmocka_unit_test(resizing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
