#include "config/ini.h"

#include <unistd.h>

#include "support/cmocka.h"
#include "support/temp.h"

static void reads(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    const char *path = temp_file(&folder, "x.ini",
        "\xEF\xBB\xBF; comment\r\n"
        "# comment\r\n"
        "  [ network ] ; comment\r\n"
        "\r\n"
        "input=1x28x28\r\n"
        "\tpath  =  a b;c#d  # comment\r\n"
        "equals = a=b\r\n"
        "none = ; nothing\r\n"
        "[empty]\n"
        "[conv1]\n"
        "name = \xC3\xA4"); // no end of line
    ls_ini *ini = NULL;
    ls_status status = ls_ini_read(path, &ini);
    if (ls_failed(status)) fail_msg("%s", status.text);
    static const struct {
        const char *section, *key, *value;
        int line;
    } rows[] = {
        { "network", "input", "1x28x28", 5 },
        { "network", "path", "a b;c#d", 6 },
        { "network", "equals", "a=b", 7 },
        { "network", "none", "", 8 },
        { "conv1", "name", "\xC3\xA4", 11 },
    };
    assert_string_equal(ini->path, path);
    assert_int_equal(ini->entry_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(ini->entries[i].section, rows[i].section);
        assert_string_equal(ini->entries[i].key, rows[i].key);
        assert_string_equal(ini->entries[i].value, rows[i].value);
        assert_int_equal(ini->entries[i].line, rows[i].line);
    }
    static const ls_ini_section sections[] = { { "network", 3, 0, 4 }, { "empty", 9, 4, 0 }, { "conv1", 10, 4, 1 } };
    assert_int_equal(ini->section_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(ini->sections[i].name, sections[i].name);
        assert_int_equal(ini->sections[i].line, sections[i].line);
        assert_int_equal(ini->sections[i].first_entry, sections[i].first_entry);
        assert_int_equal(ini->sections[i].entry_count, sections[i].entry_count);
    }
    ls_ini_free(ini);
    temp_folder_remove(&folder);
}

// Lines and names far beyond what usual readers keep.
static void long_lines(void **state) {
    (void)state;
    enum { LONG = 5000 };
    char text[3 * LONG], name[LONG + 1];
    memset(name, 'n', LONG);
    name[LONG] = 0;
    snprintf(text, sizeof text, "[%.500s]\n%.300s = %s\n", name, name, name);
    temp_folder folder = temp_folder_new();
    ls_ini *ini = NULL;
    assert_int_equal(ls_ini_read(temp_file(&folder, "x.ini", text), &ini).code, LS_OK);
    assert_int_equal(strlen(ini->sections[0].name), 500);
    assert_int_equal(strlen(ini->entries[0].key), 300);
    assert_int_equal(strlen(ini->entries[0].value), LONG);
    ls_ini_free(ini);
    temp_folder_remove(&folder);
}

static void many_sections(void **state) {
    (void)state;
    enum { MANY = 300 };
    static char text[MANY * 40];
    size_t length = 0;
    for (int i = 0; i < MANY; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "[s%d]\na = %d\nb = %d\n", i, i, -i);
    temp_folder folder = temp_folder_new();
    ls_ini *ini = NULL;
    assert_int_equal(ls_ini_read(temp_file(&folder, "x.ini", text), &ini).code, LS_OK);
    assert_int_equal(ini->section_count, MANY);
    assert_int_equal(ini->entry_count, 2 * MANY);
    for (int i = 0; i < MANY; i++) {
        int64_t b = 0;
        assert_int_equal(ini->sections[i].first_entry, 2 * i);
        assert_int_equal(ls_ini_int(ini, &ini->entries[2 * i + 1], -MANY, 0, &b).code, LS_OK);
        assert_int_equal(b, -i);
    }
    ls_ini_free(ini);
    temp_folder_remove(&folder);
}

static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *message; // after the path
    } rows[] = {
        { "epochs = 5\n", ":1: 'epochs = 5': outside any section; put a [section] line before it" },
        { "[train]\n\nepochs 5 ; x\n", ":3: 'epochs 5': expected [section] or key = value" },
        { "[train]\nepochs: 5\n", ":2: 'epochs: 5': expected [section] or key = value" },
        { "[train]\n = 5\n", ":2: '= 5': expected [section] or key = value" },
        { "[train\n", ":1: '[train': expected [section], the ']' is missing" },
        { "[train] x\n", ":1: '[train] x': expected [section], the ']' is missing" },
        { "[]\n", ":1: '[]': expected a section's name" },
        { "[ ]\n", ":1: '[]': expected a section's name" },
        { "[[train]]\n", ":1: '[[train]]': expected a section's name" },
        { "[a]\nk = 1\n[b]\n[a]\n", ":4: [a]: this section is already at line 1; put its keys together" },
        { "[a]\nk = 1\nj = 2\nk = 3\n", ":4: a.k = 3: this key is already set at line 2; keep one of them" },
    };
    temp_folder folder = temp_folder_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = temp_file(&folder, "x.ini", rows[i].text);
        ls_ini *ini = NULL;
        ls_status status = ls_ini_read(path, &ini);
        if (status.code != LS_USAGE || strcmp(status.text + strlen(path), rows[i].message) != 0)
            fail_msg("row %zu: %d, %s", i, status.code, status.text ? status.text : "accepted");
    }
    ls_ini *ini = NULL;
    ls_status status = ls_ini_read("/nonexistent.ini", &ini);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text, "/nonexistent.ini: cannot read: open: No such file or directory");
    char path[512], expected[600];
    snprintf(path, sizeof path, "%s/zero.ini", folder.path);
    assert_int_equal(ls_write_file(path, "[a]\nb\0c\n", 8).code, LS_OK);
    status = ls_ini_read(path, &ini);
    snprintf(expected, sizeof expected, "%s: a zero byte at offset 5: not a text file", path);
    assert_string_equal(status.text, expected);
    temp_folder_remove(&folder);
}

// What would take long or much memory is refused at a limit: "[1]", "[2]", ... and "1=", "2=", ...
static void limits(void **state) {
    (void)state;
    static const struct {
        const char *first, *line;
        int most;
        const char *message; // after the path
    } rows[] = {
        { "", "[%d]\n", LS_INI_SECTIONS_MAX, ":4097: [4097]: more than 4096 sections" },
        { "[a]\n", "%d=\n", LS_INI_KEYS_MAX, ":1026: [a] has more than 1024 keys" },
    };
    static char text[16 * LS_INI_SECTIONS_MAX];
    temp_folder folder = temp_folder_new();
    ls_ini *ini = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int more = 0; more < 2; more++) {
            size_t length = (size_t)snprintf(text, sizeof text, "%s", rows[i].first);
            for (int k = 1; k <= rows[i].most + more; k++)
                length += (size_t)snprintf(text + length, sizeof text - length, rows[i].line, k);
            const char *path = temp_file(&folder, "x.ini", text);
            ls_status status = ls_ini_read(path, &ini);
            if (!more && ls_failed(status)) fail_msg("row %zu: at the limit: %s", i, status.text);
            if (!more) ls_ini_free(ini);
            if (more && (status.code != LS_USAGE || strcmp(status.text + strlen(path), rows[i].message) != 0))
                fail_msg("row %zu: %d, %s", i, status.code, status.text ? status.text : "accepted");
        }
    }
    const char *sparse = temp_file(&folder, "sparse.ini", "");
    assert_int_equal(truncate(sparse, (off_t)1 << 40), 0);
    ls_status status = ls_ini_read(sparse, &ini);
    assert_int_equal(status.code, LS_USAGE);
    assert_string_equal(status.text + strlen(sparse), ": more than 1048576 bytes: no INI file");
    temp_folder_remove(&folder);
}

static void typed_values(void **state) {
    (void)state;
    const ls_ini ini = { .path = "m.ini" };
    static const struct {
        const char *kind, *value;
        double expected; // when message is NULL
        const char *message;
    } rows[] = {
        { "int", "3", 3, NULL },
        { "int", "-3", -3, NULL },
        { "int", "10", 10, NULL },
        { "int", "11", 0, "m.ini:7: conv1.kernel = 11: expected an integer from -5 to 10" },
        { "int", "-6", 0, "m.ini:7: conv1.kernel = -6: expected an integer from -5 to 10" },
        { "int", "", 0, "m.ini:7: conv1.kernel = : expected an integer from -5 to 10" },
        { "int", "3x", 0, "m.ini:7: conv1.kernel = 3x: expected an integer from -5 to 10" },
        { "int", "+3", 0, "m.ini:7: conv1.kernel = +3: expected an integer from -5 to 10; write 3" },
        { "int", "3.0", 0, "m.ini:7: conv1.kernel = 3.0: expected an integer from -5 to 10; write 3" },
        { "int", "99999999999999999999", 0,
            "m.ini:7: conv1.kernel = 99999999999999999999: expected an integer from -5 to 10" },
        { "real", "2.5", 2.5, NULL },
        { "real", "1e-3", 1e-3, NULL },
        { "real", "-5", -5, NULL },
        { "real", "inf", 0, "m.ini:7: conv1.kernel = inf: expected a number from -5 to 1e30" },
        { "real", "nan", 0, "m.ini:7: conv1.kernel = nan: expected a number from -5 to 1e30" },
        { "real", "0x10", 0, "m.ini:7: conv1.kernel = 0x10: expected a number from -5 to 1e30" },
        { "real", "1e999", 0, "m.ini:7: conv1.kernel = 1e999: expected a number from -5 to 1e30" },
        { "real", "1e", 0, "m.ini:7: conv1.kernel = 1e: expected a number from -5 to 1e30" },
        { "bool", "true", 1, NULL },
        { "bool", "false", 0, NULL },
        { "bool", "yes", 0, "m.ini:7: conv1.kernel = yes: expected true or false; did you mean true?" },
        { "bool", "", 0, "m.ini:7: conv1.kernel = : expected true or false" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const ls_ini_entry entry = { "conv1", "kernel", rows[i].value, 7 };
        int64_t integer = 0;
        int flag = 0;
        double got = 0;
        ls_status status;
        switch (rows[i].kind[0]) {
        case 'i':
            status = ls_ini_int(&ini, &entry, -5, 10, &integer), got = (double)integer;
            break;
        case 'r':
            status = ls_ini_real(&ini, &entry, -5, 1e30, &got);
            break;
        default:
            status = ls_ini_bool(&ini, &entry, &flag), got = flag;
        }
        int wrong = rows[i].message ? status.code != LS_USAGE || strcmp(status.text, rows[i].message) != 0
                                    : ls_failed(status) || got != rows[i].expected;
        if (wrong)
            fail_msg("%s '%s': %g, %s", rows[i].kind, rows[i].value, got, status.text ? status.text : "accepted");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(many_sections),
        cmocka_unit_test(refuses),
        cmocka_unit_test(limits),
        cmocka_unit_test(typed_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
