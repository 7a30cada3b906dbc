// TrivialAugment's changes of pictures against torchvision's, bit for bit: every kind at every strength
// (tests/golden/trivial-augment.json, scripts/make_trivial_golden.py).
#include "base/json.h"
#include "device/op_harness.h"
#include "device/ref_device.h"
#include "support/cmocka.h"

enum { MOST = 2 * LS_TRIVIAL_STRONGEST + 1 };

// As in scripts/make_trivial_golden.py.
static void fill_picture(ls_chw s, uint8_t *pixels) {
    for (int64_t c = 0; c < s.c; c++)
        for (int64_t i = 0; i < (int64_t)s.h * s.w; i++)
            *pixels++ = (uint8_t)(20 + (i * i * 7 + i * 13 + c * 5) % (200 - 40 * c));
}

static uint32_t hash_of(const double *pixels, int64_t count) {
    uint32_t hash = 0x811C9DC5;
    for (int64_t i = 0; i < count; i++) hash = (hash ^ (uint32_t)pixels[i]) * 0x01000193;
    return hash;
}

// Changes one picture by one kind, at all strengths from `first` on, as one batch.
static void check_kind(ls_chw s, int kind, const char *name, const cJSON *hashes) {
    const int count = cJSON_GetArraySize(hashes), first = count == MOST ? 0 : LS_TRIVIAL_STRONGEST;
    const int64_t picture = ls_chw_count(s);
    double *values[LS_OP_ARGS_MAX] = { 0 };
    size_t counts[LS_OP_ARGS_MAX];
    assert_int_equal(count, kind >= LS_TRIVIAL_SHEAR_X && kind <= LS_TRIVIAL_SHARPNESS ? MOST : MOST / 2 + 1);
    op_case *c = case_new(LS_OP_TRIVIAL_AUGMENT, LS_F32, name, "");
    c->desc.attr.augment = (ls_augment_attr){ ls_batch_of(count, s), LS_F32, { .trivial_augment = 1 }, 1 };
    fill_picture(s, case_raw(c, LS_TRIVIAL_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)picture, 0)->host);
    ls_augment_sample *drawn =
        case_raw(c, LS_TRIVIAL_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)count * sizeof *drawn, 0)->host;
    for (int n = 0; n < count; n++)
        drawn[n] = (ls_augment_sample){ .change = (uint8_t)kind, .strength = (uint8_t)(first + n) };
    case_raw(c, LS_TRIVIAL_AUGMENT_INDEX, USE_IN, LS_I32, (size_t)count, 0); // picture 0 for all
    case_raw(c, LS_TRIVIAL_AUGMENT_DST, USE_OUT, LS_U8, (size_t)(count * picture), 0);
    assert_int_equal(case_run(ref, c, values, counts).code, LS_OK);
    for (int n = 0; n < count; n++) {
        const uint32_t got = hash_of(values[LS_TRIVIAL_AUGMENT_DST] + n * picture, picture);
        const uint32_t expected = (uint32_t)cJSON_GetArrayItem(hashes, n)->valuedouble;
        if (got != expected)
            fail_msg("%dx%dx%d, %s, strength %d: hash %u, torchvision's %u", s.c, s.h, s.w, name,
                first + n - LS_TRIVIAL_STRONGEST, got, expected);
    }
    free(values[LS_TRIVIAL_AUGMENT_DST]);
    case_free(c);
}

static void changes_are_torchvisions(void **state) {
    (void)state;
    cJSON *golden;
    const ls_status status = ls_json_read_file("tests/golden/trivial-augment.json", &golden);
    if (ls_failed(status)) fail_msg("%s", status.text);
    const cJSON *row;
    int rows = 0;
    cJSON_ArrayForEach(row, golden) {
        const cJSON *shape = cJSON_GetObjectItem(row, "shape"), *kinds = cJSON_GetObjectItem(row, "kinds");
        const ls_chw s = { cJSON_GetArrayItem(shape, 0)->valueint, cJSON_GetArrayItem(shape, 1)->valueint,
            cJSON_GetArrayItem(shape, 2)->valueint };
        assert_int_equal(cJSON_GetArraySize(kinds), LS_TRIVIAL_COUNT);
        for (int kind = 0; kind < LS_TRIVIAL_COUNT; kind++)
            check_kind(s, kind, cJSON_GetArrayItem(kinds, kind)->valuestring,
                cJSON_GetArrayItem(cJSON_GetObjectItem(row, "hashes"), kind));
        rows++;
    }
    assert_int_equal(rows, 3);
    cJSON_Delete(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(changes_are_torchvisions) };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
