#include <math.h>

#include "base/json.h"
#include "support/cmocka.h"
#include "support/temp.h"

static void numbers_are_exact(void **state) {
    (void)state;
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_int(tree, "least", INT64_MIN);
    ls_json_add_int(tree, "most", INT64_MAX);
    ls_json_add_real(tree, "tenth", 0.1);
    ls_json_add_real(tree, "third", 1.0 / 3);
    ls_json_add_real(tree, "next", nextafter(1, 2));
    ls_json_add_real(tree, "whole", 3);
    ls_json_add_real(tree, "nan", NAN);
    ls_json_add_real(tree, "inf", INFINITY);
    ls_json_add_hash(tree, "hash", 0xAB);
    char *text = cJSON_PrintUnformatted(tree);
    assert_string_equal(text,
        "{\"least\":-9223372036854775808,\"most\":9223372036854775807,\"tenth\":0.1,"
        "\"third\":0.3333333333333333,\"next\":1.0000000000000002,\"whole\":3,\"nan\":null,\"inf\":null,"
        "\"hash\":\"00000000000000ab\"}");
    cJSON_free(text);
    cJSON_Delete(tree);
}

// What a file holds, as a tree of ours: cJSON reads more than JSON is.
static void copies_can_be_written(void **state) {
    (void)state;
    static const char from[] =
        "{\"a\":[1,0.1,1e999,true,null,\"x\xff\\u0001\"],\"\xfe\":{\"b\":-9007199254740991},\"c\":01,\"d\":[[]]}";
    cJSON *tree = cJSON_Parse(from), *copy = ls_json_copy(tree);
    assert_non_null(tree);
    char *text = ls_json_text(copy, 0);
    assert_string_equal(text,
        "{\"a\":[1,0.1,null,true,null,\"x\\\\xff\\u0001\"],\"\\\\xfe\":{\"b\":-9007199254740991},\"c\":1,\"d\":[[]]}");
    cJSON_free(text);
    cJSON_Delete(copy);
    cJSON_Delete(tree);
}

static void members_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t most, value; // -1: none
    } rows[] = {
        { "nought", 5, 0 },
        { "five", 5, 5 },
        { "five", 4, -1 },
        { "half", 5, -1 },
        { "below", 5, -1 },
        { "exact", LS_JSON_WHOLE_MAX, LS_JSON_WHOLE_MAX },
        { "beyond", LS_JSON_WHOLE_MAX, -1 },
        { "endless", LS_JSON_WHOLE_MAX, -1 },
        { "digit", 5, -1 },
        { "missing", 5, -1 },
    };
    cJSON *tree = cJSON_Parse("{\"nought\":0,\"five\":5,\"half\":0.5,\"below\":-1,\"exact\":9007199254740992,"
                              "\"beyond\":9007199254740994,\"endless\":1e999,\"digit\":\"5\"}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value = -1;
        int whole = ls_json_whole(ls_json_get(tree, rows[i].name), rows[i].most, &value);
        if (whole != (rows[i].value >= 0) || (whole && value != rows[i].value))
            fail_msg("%s: %d, %lld", rows[i].name, whole, (long long)value);
    }
    assert_string_equal(ls_json_get_text(tree, "digit"), "5");
    assert_null(ls_json_get_text(tree, "five"));
    assert_null(ls_json_get_text(tree, "missing"));
    assert_null(ls_json_get(NULL, "five"));
    cJSON_Delete(tree);
}

static void files(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char path[512];
    snprintf(path, sizeof path, "%s/x.json", folder.path);
    cJSON *tree = cJSON_CreateObject(), *back = NULL;
    ls_json_add_int(tree, "updates", 7);
    assert_int_equal(ls_json_write_file(path, tree).code, LS_OK);
    assert_int_equal(ls_json_read_file(path, &back).code, LS_OK);
    assert_int_equal(cJSON_GetObjectItem(back, "updates")->valueint, 7);
    cJSON_Delete(back);

    FILE *file = fopen(path, "w");
    assert_int_equal(ls_json_write_line(file, path, tree).code, LS_OK);
    assert_int_equal(ls_json_write_line(file, path, tree).code, LS_OK);
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(ls_read_file(path, &data, &bytes).code, LS_OK); // before the close: it was flushed
    assert_string_equal(data, "{\"updates\":7}\n{\"updates\":7}\n");
    free(data);
    fclose(file);

    file = fopen("/dev/full", "w");
    assert_non_null(file);
    ls_status status = ls_json_write_line(file, "metrics.jsonl", tree);
    fclose(file);
    assert_int_equal(status.code, LS_STORAGE);
    assert_string_equal(status.text, "metrics.jsonl: cannot write a line: No space left on device");

    const char *bad = temp_file(&folder, "bad.json", "{\"a\": }");
    status = ls_json_read_file(bad, &back);
    assert_int_equal(status.code, LS_STORAGE);
    char expected[600];
    snprintf(expected, sizeof expected, "%s: no valid JSON at byte 6 of 7", bad);
    assert_string_equal(status.text, expected);
    assert_int_equal(ls_write_file(bad, "{}\0{}", 5).code, LS_OK); // cJSON would end at the zero byte
    status = ls_json_read_file(bad, &back);
    assert_int_equal(status.code, LS_STORAGE);
    snprintf(expected, sizeof expected, "%s: no valid JSON at byte 2 of 5", bad);
    assert_string_equal(status.text, expected);
    cJSON_Delete(tree);
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(copies_can_be_written),
        cmocka_unit_test(members_are_read),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
