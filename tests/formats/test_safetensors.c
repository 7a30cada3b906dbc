// Weights files: what is written reads back; what is damaged is refused with the reason; Python's safetensors agrees.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "support/must.h"
#include "formats/safetensors.h"

static char folder[64] = "/tmp/lockstep-safetensors-XXXXXX";
static char path[128];

static int make_folder(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/weights.safetensors", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); // fails when a temporary file was left
}

// Not atomically: hundreds of damaged files need no fsync.
static void put_file(const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void expect_refusal(const char *row, ls_status status, const char *text) {
    if (status.code != LS_STORAGE) fail_msg("%s: code %d, expected %d", row, (int)status.code, (int)LS_STORAGE);
    if (!strstr(status.text, text)) fail_msg("%s: '%s' lacks '%s'", row, status.text, text);
    if (!strstr(status.text, path)) fail_msg("%s: '%s' lacks the path", row, status.text);
}

static const float kernel[2 * 3 * 2 * 2] = { 1, -2, 3, 0.5f, 1e-30f, -0.0f, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
    19, 20, 21, 22, 23, 24 };
static const float vector[3] = { 0.1f, 0.2f, 0.3f }, scalar[1] = { 42 };
static const int64_t counters[2] = { INT64_MIN, 1 };
static const int32_t labels[3] = { -1, 0, 9 };
static const uint8_t pixels[5] = { 0, 1, 127, 128, 255 };
static const ls_safetensors_tensor tensors[] = {
    { "counters", LS_I64, 1, { 2 }, counters },
    { "res1.0.conv.weight", LS_F32, 4, { 2, 3, 2, 2 }, kernel },
    { "a \"quoted\" \\ name", LS_F32, 1, { 3 }, vector },
    { "scalar", LS_F32, 0, { 0 }, scalar },
    { "empty", LS_F32, 2, { 0, 5 }, scalar },
    { "labels", LS_I32, 1, { 3 }, labels },
    { "pixels", LS_U8, 2, { 1, 5 }, pixels },
};
static const ls_metadata_entry notes[] = { { "format", "pt" }, { "epoch", "5" } };
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

static void round_trip(void **state) {
    (void)state;
    ls_safetensors_digest written, read;
    must(ls_safetensors_write(path, tensors, TENSORS, notes, 2, &written));
    ls_safetensors *file = NULL;
    must(ls_safetensors_read(path, &file));
    assert_int_equal(ls_safetensors_count(file), TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        const ls_safetensors_tensor *t = &tensors[i];
        const void *data = NULL;
        must(ls_safetensors_find(file, t, &data));
        size_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= (size_t)t->dim[k];
        assert_memory_equal(data, t->data, count * ls_dtype_bytes(t->dtype));
        assert_int_equal((uintptr_t)data % ls_dtype_bytes(t->dtype), 0);
        ls_safetensors_tensor got;
        assert_true(ls_safetensors_get(file, i, &got));
        assert_string_equal(got.name, t->name);
        assert_int_equal(got.dtype, t->dtype);
        assert_ptr_equal(got.data, data);
    }
    read = ls_safetensors_digest_of(file);
    assert_int_equal(read.bytes, written.bytes);
    assert_int_equal(read.hash, written.hash);
    assert_string_equal(ls_safetensors_name(file, 0), "counters");
    assert_string_equal(ls_safetensors_metadata(file, "format"), "pt");
    assert_string_equal(ls_safetensors_metadata(file, "epoch"), "5");
    assert_null(ls_safetensors_metadata(file, "nothing"));

    const void *data = NULL;
    const ls_safetensors_tensor unknown = { "res1.0.conv.wieght", LS_F32, 4, { 2, 3, 2, 2 }, NULL };
    const ls_safetensors_tensor other = { "res1.0.conv.weight", LS_F32, 4, { 3, 2, 2, 2 }, NULL };
    const ls_safetensors_tensor lower = { "res1.0.conv.weight", LS_F32, 3, { 2, 3, 2 }, NULL };
    expect_refusal("unknown", ls_safetensors_find(file, &unknown, &data),
        "no tensor 'res1.0.conv.wieght'; the nearest is 'res1.0.conv.weight'");
    expect_refusal(
        "other shape", ls_safetensors_find(file, &other, &data), "has shape (2, 3, 2, 2), expected (3, 2, 2, 2)");
    expect_refusal("other rank", ls_safetensors_find(file, &lower, &data), "expected (2, 3, 2)");
    ls_safetensors_free(file);

    char *bytes = NULL;
    size_t size = 0;
    must(ls_read_file(path, &bytes, &size));
    uint64_t length;
    memcpy(&length, bytes, 8);
    assert_int_equal((8 + length) % 64, 0); // the data's alignment
    free(bytes);
}

static void writer_refuses(void **state) {
    (void)state;
    const ls_safetensors_tensor twice[] = { tensors[1], tensors[1] };
    const ls_safetensors_tensor smaller_first[] = { tensors[6], tensors[1] };
    assert_int_equal(ls_safetensors_write(path, smaller_first, 2, NULL, 0, NULL).code, LS_INTERNAL);
    assert_int_equal(ls_safetensors_write(path, twice, 2, NULL, 0, NULL).code, LS_INTERNAL);
    char nowhere[160];
    snprintf(nowhere, sizeof nowhere, "%s/none/weights.safetensors", folder);
    assert_int_equal(ls_safetensors_write(nowhere, tensors, TENSORS, NULL, 0, NULL).code, LS_STORAGE);
}

// Files as other programs may have made or damaged them: header text, bytes of data after it.
#define F32_A "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
static const struct {
    const char *row, *header;
    int data_bytes;
    const char *refusal; // NULL: must read
} cases[] = {
    { "good", F32_A "}", 8, NULL },
    { "good, spaces, odd length", F32_A "}   ", 8, NULL },
    { "good, metadata", F32_A ",\"__metadata__\":{\"k\":\"v\"}}", 8, NULL },
    { "good, a counter", F32_A ",\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]}}", 16, NULL },
    { "good, not in order",
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}," // continues
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        12, NULL },
    { "good, none", "{}", 0, NULL },
    { "no object", "[1]", 0, "does not begin with '{'" },
    { "empty header", "", 0, "does not begin with '{'" },
    { "no JSON", F32_A ",}", 8, "header is no JSON" },
    { "cut JSON", F32_A, 8, "header is no JSON" },
    { "text after JSON", F32_A "} x", 8, "more than spaces after the header's JSON, at byte 63 of the file" },
    { "tensor no object", "{\"a\":3}", 0, "'a' in the header is no object" },
    { "no name", "{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "name has 0 bytes" },
    { "no dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no text 'dtype'" },
    { "dtype a number", "{\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no text 'dtype'" },
    { "unknown dtype", "{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown dtype 'F31'" },
    { "no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "no list 'shape'" },
    { "shape of text", "{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}", 8,
        "dimension 0 of its shape" },
    { "negative", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-2],\"data_offsets\":[0,8]}}", 8,
        "dimension 1 of its shape" },
    { "broken number", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8,
        "dimension 0 of its shape" },
    { "too large", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1000000000,1000000000],\"data_offsets\":[0,8]}}", 8,
        "more than 28147" },
    { "nine dimensions", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1,1,1,1,1,1,1,1],\"data_offsets\":[0,8]}}", 8,
        "more than 8 dimensions" },
    { "no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "no list of two whole numbers" },
    { "three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8, "no list of two" },
    { "backwards", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
        "do not lie within the 8 bytes" },
    { "beyond the end", F32_A "}", 7, "do not lie within the 7 bytes of data" },
    { "shape and offsets differ", "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
        "span 8 bytes, but shape (3) of F32 takes 12" },
    { "overlap", F32_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
        "expected 8: tensors overlap" },
    { "gap", F32_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
        "expected 8: tensors leave a gap" },
    { "bytes left over", F32_A "}", 12, "end at byte 8 of the data, but the file has 12" },
    { "unaligned",
        "{\"n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}," // continues
        "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
        5, "no multiple of its 4-byte elements" },
    { "two of a name", F32_A ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 12,
        "two tensors are called 'a'" },
    { "field twice", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
        "a field twice" },
    { "unknown field", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
        "unknown field 'x'" },
    { "metadata a list", F32_A ",\"__metadata__\":[]}", 8, "'__metadata__' in the header is no object" },
    { "metadata a number", F32_A ",\"__metadata__\":{\"k\":1}}", 8, "'k' of '__metadata__' is no text" },
    { "metadata twice", F32_A ",\"__metadata__\":{},\"__metadata__\":{}}", 8, "'__metadata__' twice" },
};

static void reads_or_refuses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char bytes[1024];
        const uint64_t length = strlen(cases[i].header);
        memcpy(bytes, &length, 8);
        memcpy(bytes + 8, cases[i].header, length);
        const float values[4] = { 1.5f, -2.5f, 3.5f, 4.5f };
        memcpy(bytes + 8 + length, values, (size_t)cases[i].data_bytes);
        put_file(bytes, 8 + length + (size_t)cases[i].data_bytes);
        ls_safetensors *file = NULL;
        const ls_status status = ls_safetensors_read(path, &file);
        if (cases[i].refusal) {
            expect_refusal(cases[i].row, status, cases[i].refusal);
            continue;
        }
        if (ls_failed(status)) fail_msg("%s: %s", cases[i].row, status.text);
        const void *data = NULL;
        if (ls_safetensors_count(file) > 0) {
            must(ls_safetensors_find(file, &(ls_safetensors_tensor){ "a", LS_F32, 1, { 2 }, NULL }, &data));
            const float *v = data;
            if (v[0] != 1.5f || v[1] != -2.5f) fail_msg("%s: values %g %g", cases[i].row, v[0], v[1]);
        }
        if (strcmp(cases[i].row, "good, a counter") == 0) {
            const ls_safetensors_tensor wanted = { "n", LS_F32, 0, { 0 }, NULL };
            expect_refusal(cases[i].row, ls_safetensors_find(file, &wanted, &data), "has dtype I64, expected F32");
        }
        ls_safetensors_free(file);
    }
}

static void lengths_that_lie(void **state) {
    (void)state;
    static const struct {
        const char *row;
        uint64_t length;
        size_t bytes; // of the file
        const char *refusal;
    } files[] = {
        { "empty file", 0, 0, "0 bytes are no safetensors file" },
        { "seven bytes", 0, 7, "7 bytes are no safetensors file" },
        { "header beyond the end", 100, 20, "promise a header of 100 bytes, but 12 follow" },
        { "another kind of file", UINT64_MAX, 20, "promise a header of 18446744073709551615 bytes" },
        { "overflow", UINT64_MAX - 4, 20, "promise a header" },
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char bytes[32] = { 0 };
        memcpy(bytes, &files[i].length, 8);
        put_file(bytes, files[i].bytes);
        ls_safetensors *file = NULL;
        expect_refusal(files[i].row, ls_safetensors_read(path, &file), files[i].refusal);
    }
    unlink(path);
    ls_safetensors *file = NULL;
    expect_refusal("missing", ls_safetensors_read(path, &file), "No such file");
}

// 60,000 empty tensors are read, and each is found; what is no tensor's header is refused before it is parsed.
static void many_and_too_many(void **state) {
    (void)state;
    enum { MANY = 60000, VALUES = 2100000, WIDE = 17 << 20 };
    char *text = malloc(WIDE + 16);
    assert_non_null(text);
    size_t used = 8;
    text[used++] = '{';
    for (int i = 0; i < MANY; i++)
        used += (size_t)sprintf(
            text + used, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i);
    text[used++] = '}';
    const uint64_t length = used - 8, wide = WIDE;
    memcpy(text, &length, 8);
    put_file(text, used);
    ls_safetensors *file = NULL;
    must(ls_safetensors_read(path, &file));
    assert_int_equal(ls_safetensors_count(file), MANY);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_string_equal(ls_safetensors_name(file, ls_safetensors_index(file, name)), name);
    }
    assert_int_equal(ls_safetensors_index(file, "t60000"), -1);
    ls_safetensors_free(file);

    const uint64_t values = 2 * VALUES;
    memcpy(text, &values, 8);
    memset(text + 8, ' ', values);
    memcpy(text + 8, "{\"t\":[", 6);
    for (int i = 4; i < VALUES; i++) memcpy(text + 8 + 2 * i, "0,", 2);
    put_file(text, 8 + values);
    expect_refusal("values", ls_safetensors_read(path, &file), "has more than 2000000 JSON values");
    memcpy(text, &wide, 8);
    put_file(text, 8 + WIDE);
    expect_refusal("wide", ls_safetensors_read(path, &file), "promise a header of 17825792 bytes");
    free(text);
}

// Every cut of a good file is refused, none crashes the reader.
static void every_truncation(void **state) {
    (void)state;
    must(ls_safetensors_write(path, tensors, TENSORS, notes, 2, NULL));
    char *bytes = NULL;
    size_t size = 0;
    must(ls_read_file(path, &bytes, &size));
    for (size_t cut = 0; cut < size; cut += 3) {
        put_file(bytes, cut);
        ls_safetensors *file = NULL;
        if (ls_safetensors_read(path, &file).code != LS_STORAGE) fail_msg("cut at byte %zu of %zu was read", cut, size);
    }
    free(bytes);
}

static void python_agrees(void **state) {
    (void)state;
    if (system("python3 -c 'import safetensors.numpy' 2>/dev/null") != 0) {
        print_message("skipped: python3 has no package safetensors with numpy\n");
        skip();
    }
    must(ls_safetensors_write(path, tensors, TENSORS, notes, 2, NULL));
    char command[1024];
    snprintf(command, sizeof command,
        "python3 -c \"\nfrom safetensors.numpy import load_file, save_file\n"
        "t = load_file('%s')\nassert t['res1.0.conv.weight'].shape == (2, 3, 2, 2)\n"
        "assert t['res1.0.conv.weight'][1, 2, 1, 1] == 24 and t['scalar'] == 42 and len(t) == 7\n"
        "assert t['pixels'][0, 4] == 255 and t['labels'][0] == -1 and t['counters'][0] == -2**63\n"
        "save_file(t, '%s')\n\"",
        path, path);
    assert_int_equal(system(command), 0);
    ls_safetensors *file = NULL;
    must(ls_safetensors_read(path, &file));
    const void *data = NULL;
    must(ls_safetensors_find(file, &tensors[1], &data));
    assert_memory_equal(data, kernel, sizeof kernel);
    ls_safetensors_free(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(reads_or_refuses),
        cmocka_unit_test(lengths_that_lie),
        cmocka_unit_test(many_and_too_many),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(python_agrees),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
