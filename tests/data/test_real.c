// The published sets themselves, where this machine has them: in data/, in Debian's package, or in a folder `shared`
// beside the repository. Their published figures: counts, class counts, and normalisation's mean and deviation.
#include "data_files.h"

#include <dirent.h>
#include <math.h>

#include "data/image_decode.h"

static int looked_at; // how many sets there were

static const char mnist_beside[] = "../shared/data/mnist", images_beside[] = "../shared/data/images",
                  odd_beside[] = "../shared/data/odd-images";

static void check_statistics(const char *name, const ls_dataset *dataset) {
    const ls_dataset_info *facts = ls_dataset_get_info(dataset);
    size_t bytes = (size_t)ls_chw_count(facts->shape), plane = bytes / (size_t)facts->shape.c;
    uint8_t *pixels = malloc(bytes);
    double sum[3] = { 0 }, squares[3] = { 0 };
    for (int64_t i = 0; i < facts->count; i++) {
        int32_t label;
        require_ok(ls_dataset_read(dataset, i, pixels, &label), name);
        for (int c = 0; c < facts->shape.c; c++) {
            uint32_t s = 0, q = 0; // exact: a plane has at most 1024 pixels
            for (size_t k = 0; k < plane; k++) {
                uint32_t v = pixels[(size_t)c * plane + k];
                s += v;
                q += v * v;
            }
            sum[c] += s;
            squares[c] += q;
        }
    }
    free(pixels);
    double n = (double)facts->count * (double)plane;
    for (int c = 0; c < facts->shape.c; c++) {
        double mean = sum[c] / n / 255, std = sqrt(squares[c] / n / 255 / 255 - mean * mean);
        if (fabs(mean - (double)facts->mean[c]) > 1e-4 || fabs(std - (double)facts->std[c]) > 1e-4) {
            fail_msg("%s, channel %d: mean %.5f and deviation %.5f, normalisation takes %.4f and %.4f", name, c, mean,
                std, (double)facts->mean[c], (double)facts->std[c]);
        }
    }
}

static void published_sets(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int dataset;
        const char *beside;
        int train, test, first_labels[5], of_class_0;
    } rows[] = {
        { "mnist", LS_DATASET_MNIST, mnist_beside, 60000, 10000, { 5, 0, 4, 1, 9 }, 5923 },
        { "fashion-mnist", LS_DATASET_FASHION_MNIST, "", 60000, 10000, { 9, 0, 0, 3, 0 }, 6000 },
        { "cifar10", LS_DATASET_CIFAR10, "", 50000, 10000, { 6, 9, 9, 4, 1 }, 5000 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg = config_for(rows[i].dataset, rows[i].beside);
        ls_dataset *train, *test;
        ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &train);
        if (ls_failed(status)) {
            assert_non_null(strstr(status.text, "no training set found")); // missing is all that may be wrong
            print_message("%s: not here\n", rows[i].name);
            continue;
        }
        looked_at++;
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TEST, &test), rows[i].name);
        assert_int_equal(rows[i].train, ls_dataset_get_info(train)->count);
        assert_int_equal(rows[i].test, ls_dataset_get_info(test)->count);
        uint8_t pixels[3072];
        int of_class_0 = 0;
        for (int64_t k = 0; k < rows[i].train; k++) {
            int32_t label;
            require_ok(ls_dataset_read(train, k, pixels, &label), rows[i].name);
            if (k < 5) assert_int_equal(rows[i].first_labels[k], label);
            of_class_0 += label == 0;
        }
        assert_int_equal(rows[i].of_class_0, of_class_0);
        check_statistics(rows[i].name, train);
        ls_dataset_free(train);
        ls_dataset_free(test);
    }
}

static void photographs(void **state) {
    (void)state;
    if (!ls_path_exists(images_beside)) {
        print_message("photographs: not here\n");
        return;
    }
    looked_at++;
    ls_config cfg = config_for(LS_DATASET_FOLDER, images_beside);
    ls_dataset *train, *test;
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &train), images_beside);
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TEST, &test), images_beside);
    assert_int_equal(400, ls_dataset_get_info(train)->count);
    assert_int_equal(100, ls_dataset_get_info(test)->count);
    assert_int_equal(10, ls_dataset_get_info(train)->classes);
    assert_string_equal("Leopards", ls_dataset_class(train, 0));
    uint8_t pixels[3 * 64 * 64];
    for (int64_t i = 0; i < 500; i++) {
        const ls_dataset *split = i < 400 ? train : test;
        int32_t label;
        require_ok(ls_dataset_read(split, i < 400 ? i : i - 400, pixels, &label), images_beside);
    }
    ls_dataset_free(train);
    ls_dataset_free(test);
}

// All of them show one picture, so what comes out must be near to what the plain PNG gives.
static void odd_images(void **state) {
    (void)state;
    DIR *folder = opendir(odd_beside);
    if (!folder) {
        print_message("odd images: not here\n");
        return;
    }
    looked_at++;
    enum { SIDE = 24, PIXELS = SIDE * SIDE };
    uint8_t plain[3 * PIXELS], odd[3 * PIXELS];
    require_ok(
        ls_image_decode(path_of(odd_beside, "interlaced.png"), &(ls_image_options){ .size = { 3, SIDE, SIDE } }, plain),
        "interlaced.png");
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (name[0] == '.') continue;
        files++;
        require_ok(
            ls_image_decode(path_of(odd_beside, name), &(ls_image_options){ .size = { 3, SIDE, SIDE } }, odd), name);
        int gray = strstr(name, "gray") || strstr(name, "bilevel"), difference = 0;
        for (int k = 0; k < PIXELS; k++) {
            int luminance = (299 * plain[k] + 587 * plain[PIXELS + k] + 114 * plain[2 * PIXELS + k]) / 1000;
            for (int c = 0; c < 3; c++)
                difference += abs(odd[c * PIXELS + k] - (gray ? luminance : plain[c * PIXELS + k]));
        }
        // Other pictures: one pixel, and a differently cropped or turned one. Few colours: farther off.
        double mean = (double)difference / (3 * PIXELS);
        int other = strstr(name, "one-1x1") || strstr(name, "exif") || strstr(name, "odd-33x17");
        int coarse = strstr(name, "bilevel") || strstr(name, "palette") || strstr(name, "cmyk");
        if (getenv("SHOW_MESSAGES")) printf("%-28s %.2f\n", name, mean);
        if (!other && mean > (coarse ? 25 : 6)) fail_msg("%s: %.2f off on average", name, mean);
    }
    closedir(folder);
    assert_true(files >= 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_sets),
        cmocka_unit_test(photographs),
        cmocka_unit_test(odd_images),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed || looked_at) return failed;
    print_message("skipped: no published set is here; scripts/fetch-data.sh brings them\n");
    return 77;
}
