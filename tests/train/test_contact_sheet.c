// Contact sheets: pixels as augmentation is defined, the same on all devices and for any number of threads; PNG files that
// read back to them.
#include "data/image_decode.h"
#include "data/loader.h"
#include "data/png.h"
#include "device/cuda_device.h"
#include "support/temp.h"
#include "train/contact_sheet.h"
#include "train/whole_run.h"

enum { ROWS = 5, COLUMNS = 4, SIDE = 8, SCALE = LS_CONTACT_SHEET_CELL / SIDE };

static ls_config configured(const char *shape, const char *const *options) {
    ls_config cfg;
    char text[64];
    ls_config_defaults(&cfg);
    snprintf(text, sizeof text, "data.shape=%s", shape);
    must(ls_config_set(&cfg, "data.dataset=synthetic"));
    must(ls_config_set(&cfg, "data.train_samples=5"));
    must(ls_config_set(&cfg, text));
    for (int i = 0; options[i]; i++) must(ls_config_set(&cfg, options[i]));
    must(ls_config_check(&cfg));
    return cfg;
}

static ls_contact_sheet sheet_of(const ls_config *cfg) {
    ls_contact_sheet sheet;
    must(
        ls_contact_sheet_new(cfg, &(ls_contact_sheet_options){ .rows = ROWS, .columns = COLUMNS, .epoch = 3 }, &sheet));
    return sheet;
}

// What a shifted and mirrored picture has at (y, x).
static uint8_t expected_pixel(const uint8_t *plane, const ls_augment_sample *d, int pad, int y, int x) {
    const int from_y = y + d->dy - pad, from_x = (d->flip ? SIDE - 1 - x : x) + d->dx - pad;
    const int inside = from_y >= 0 && from_y < SIDE && from_x >= 0 && from_x < SIDE;
    return inside ? plane[from_y * SIDE + from_x] : 0;
}

static void check_cell(
    const ls_contact_sheet *sheet, int row, int column, const uint8_t *picture, const ls_augment_sample *d, int pad) {
    const size_t plane = (size_t)sheet->shape.h * (size_t)sheet->shape.w;
    for (int i = 0; i < 3 * LS_CONTACT_SHEET_CELL * LS_CONTACT_SHEET_CELL; i++) {
        const int c = i / (LS_CONTACT_SHEET_CELL * LS_CONTACT_SHEET_CELL),
                  y = i / LS_CONTACT_SHEET_CELL % LS_CONTACT_SHEET_CELL, x = i % LS_CONTACT_SHEET_CELL;
        const uint8_t expected = expected_pixel(picture + c * SIDE * SIDE, d, pad, y / SCALE, x / SCALE);
        const size_t at = (size_t)c * plane + ls_contact_sheet_at(sheet, row, column) +
                          (size_t)y * (size_t)sheet->shape.w + (size_t)x;
        if (sheet->pixels[at] != expected)
            fail_msg("row %d, column %d, channel %d, pixel %d, %d: %d, expected %d", row, column, c, y, x,
                sheet->pixels[at], expected);
    }
}

static void pixels_are_those_of_the_epochs(void **state) {
    (void)state;
    static const char *const options[] = { "device.type=cpu", "data.pad=2", "data.flip=alternating", "run.seed=9",
        NULL };
    const ls_config cfg = configured("3x8x8", options);
    const ls_augmentation augmentation = ls_config_augmentation(&cfg);
    ls_contact_sheet sheet = sheet_of(&cfg);
    ls_dataset *data;
    must(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &data));
    int gray = 0;
    for (int64_t i = 0; i < ls_chw_count(sheet.shape); i++) gray += sheet.pixels[i] == 128;
    assert_true(gray >= ls_chw_count(sheet.shape) - (int64_t)ROWS * (COLUMNS + 1) * ls_chw_count(sheet.cell));
    for (int row = 0; row < ROWS; row++) {
        uint8_t picture[3 * SIDE * SIDE];
        int32_t label;
        must(ls_dataset_read(data, row, picture, &label));
        check_cell(&sheet, row, 0, picture, &(ls_augment_sample){ 0 }, 0);
        for (int column = 1; column <= COLUMNS; column++) {
            const ls_augment_sample drawn =
                ls_augment_draw(&augmentation, (ls_chw){ 3, SIDE, SIDE }, 9, 3 + column - 1, row);
            check_cell(&sheet, row, column, picture, &drawn, 2);
        }
    }
    ls_dataset_free(data);
    ls_contact_sheet_free(&sheet);
}

static void devices_and_threads_show_the_same(void **state) {
    (void)state;
    static const char *const shapes[] = { "3x11x14", "1x9x9" }, *const machines[][2] = { { "device.type=ref",
                                                                                             "device.threads=1" },
        { "device.type=ref", "device.threads=3" }, { "device.type=cpu", "device.threads=1" },
        { "device.type=cpu", "device.threads=4" }, { "device.type=cuda", "device.tf32=false" } };
    for (int i = 0; i < 2; i++) {
        ls_contact_sheet first = { 0 };
        for (int m = 0; m < 5; m++) {
            const char *options[] = { machines[m][0], machines[m][1], "data.pad=2", "data.pad_mode=reflect",
                "data.flip=true", "data.cutout=4", "data.brightness=0.3", "data.contrast=0.4", "data.crop_scale=0.1",
                "data.erase=0.5", "data.mixup=0.8", "data.cutmix=1", "data.trivial_augment=true",
                "train.resolution=0:9, 4:7, 5:9x6", NULL };
            if (m == 4 && !getenv("LOCKSTEP_CUDA_PLUGIN") && !cuda_is_real()) continue;
            const ls_config cfg = configured(shapes[i], options);
            ls_contact_sheet sheet = sheet_of(&cfg);
            if (m == 0) {
                first = sheet;
                continue;
            }
            if (memcmp(first.pixels, sheet.pixels, (size_t)ls_chw_count(first.shape)) != 0)
                fail_msg("%s, %s: another sheet than ref's", machines[m][0], shapes[i]);
            ls_contact_sheet_free(&sheet);
        }
        ls_contact_sheet_free(&first);
    }
}

static void a_file_reads_back(void **state) {
    (void)state;
    const temp_folder folder = temp_folder_new();
    for (int channels = 1; channels <= 3; channels += 2) {
        enum { H = 13, W = 31 };
        const ls_chw shape = { channels, H, W };
        uint8_t pixels[3 * H * W], decoded[3 * H * W];
        char path[320];
        for (int i = 0; i < 3 * H * W; i++) pixels[i] = (uint8_t)(i * i * 7 + i / 5);
        snprintf(path, sizeof path, "%s/%d.png", folder.path, channels);
        must(ls_png_write(path, shape, pixels));
        must(ls_image_decode(path, &(ls_image_options){ .size = shape }, decoded));
        assert_memory_equal(decoded, pixels, (size_t)(channels * H * W));
        snprintf(path, sizeof path, "%s/none/a.png", folder.path);
        assert_int_equal(ls_png_write(path, shape, pixels).code, LS_STORAGE);
    }
    temp_folder_remove(&folder);
}

static void what_cannot_be_shown_is_refused(void **state) {
    (void)state;
    static const char *const options[] = { "device.type=cpu", NULL };
    ls_config cfg = configured("3x8x8", options);
    ls_contact_sheet sheet;
    ls_status status = ls_contact_sheet_new(&cfg, &(ls_contact_sheet_options){ .rows = 6, .columns = 1 }, &sheet);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "--rows 6: data.dataset = synthetic has 5 training pictures");
    cfg = configured("2x8x8", options);
    status = ls_contact_sheet_new(&cfg, &(ls_contact_sheet_options){ .rows = 1, .columns = 1 }, &sheet);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "data.dataset = synthetic: pictures of 2 channels; a contact sheet shows 1 or 3");
}

int main(void) {
    if (cuda_choose()) unsetenv("LOCKSTEP_CUDA_PLUGIN"); // then without the emulated GPU
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_those_of_the_epochs),
        cmocka_unit_test(devices_and_threads_show_the_same),
        cmocka_unit_test(a_file_reads_back),
        cmocka_unit_test(what_cannot_be_shown_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
