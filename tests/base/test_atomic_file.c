#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka.h"
#include "support/temp.h"

static void expect_text(const char *path, const char *expected) {
    char *data = NULL;
    size_t bytes = 0;
    ls_status status = ls_read_file(path, &data, &bytes);
    if (ls_failed(status)) fail_msg("%s", status.text);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(data, expected, bytes + 1); // with the 0 after it
    free(data);
}

static void expect_failure(ls_status status, ls_code code, const char *format, const char *path) {
    char expected[2048];
    snprintf(expected, sizeof expected, format, path);
    assert_int_equal(status.code, code);
    assert_string_equal(status.text, expected);
}

static void appears_whole(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char path[512];
    snprintf(path, sizeof path, "%s/file", folder.path);
    ls_atomic_file *file = NULL;
    assert_int_equal(ls_atomic_file_open(path, &file).code, LS_OK);
    ls_atomic_file_write(file, "one ", 4);
    ls_atomic_file_write(file, "", 0);
    assert_false(ls_path_exists(path)); // not before commit
    ls_atomic_file_write(file, "two", 3);
    assert_int_equal(ls_atomic_file_commit(file).code, LS_OK);
    expect_text(path, "one two");
    assert_int_equal(temp_count_files(&folder), 1);

    assert_int_equal(ls_atomic_file_open(path, &file).code, LS_OK); // over an old file, given up
    ls_atomic_file_write(file, "three", 5);
    ls_atomic_file_abandon(file);
    expect_text(path, "one two");
    assert_int_equal(temp_count_files(&folder), 1);

    assert_int_equal(ls_write_file(path, "", 0).code, LS_OK);
    expect_text(path, "");
    temp_folder_remove(&folder);
}

static void failures_say_what_and_leave_nothing(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char path[512];
    snprintf(path, sizeof path, "%s/none/file", folder.path);
    expect_failure(ls_write_file(path, "x", 1), LS_STORAGE, "%s: cannot create: open: No such file or directory", path);

    snprintf(path, sizeof path, "%s/folder", folder.path);
    assert_int_equal(mkdir(path, 0777), 0);
    expect_failure(ls_write_file(path, "x", 1), LS_STORAGE, "%s: cannot finish: rename: Is a directory", path);
    assert_int_equal(temp_count_files(&folder), 1);

    // A full disk, as the limit of a file's size.
    const char *old = temp_file(&folder, "old", "old");
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    char data[600] = { 0 };
    ls_atomic_file *file = NULL;
    ls_status opened = ls_atomic_file_open(old, &file);
    for (int i = 0; i < 3; i++) ls_atomic_file_write(file, data, sizeof data);
    ls_status committed = ls_atomic_file_commit(file);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(opened.code, LS_OK);
    expect_failure(committed, LS_STORAGE, "%s: cannot write: write: File too large", old);
    expect_text(old, "old");
    assert_int_equal(temp_count_files(&folder), 2);
    temp_folder_remove(&folder);
}

static void reads_anything(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char *data = NULL, path[512];
    size_t bytes = 0;
    expect_failure(ls_read_file("/nonexistent/x", &data, &bytes), LS_STORAGE,
        "%s: cannot read: open: No such file or directory", "/nonexistent/x");
    expect_failure(
        ls_read_file(folder.path, &data, &bytes), LS_STORAGE, "%s: cannot read: read: Is a directory", folder.path);
    static char large[100000]; // over the first guess when the size is unknown
    memset(large, 'a', sizeof large);
    snprintf(path, sizeof path, "%s/large", folder.path);
    assert_int_equal(ls_write_file(path, large, sizeof large).code, LS_OK);
    assert_int_equal(ls_read_file(path, &data, &bytes).code, LS_OK);
    assert_int_equal(bytes, sizeof large);
    assert_memory_equal(data, large, bytes);
    free(data);
    static const size_t lengths[] = { 0, 1, 4095, 4097, 100000 };
    for (int i = 0; i < 5; i++) { // of a file without end
        char *zeros = NULL;
        assert_int_equal(ls_read_beginning("/dev/zero", lengths[i], &zeros, &bytes).code, LS_OK);
        assert_int_equal(bytes, lengths[i]);
        free(zeros);
    }
    assert_int_equal(ls_read_file("/proc/self/maps", &data, &bytes).code, LS_OK); // stat says 0 bytes
    assert_true(bytes > 100 && strlen(data) == bytes);
    free(data);
    temp_folder_remove(&folder);
}

static void folders(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char path[512];
    snprintf(path, sizeof path, "%s/a//b/c/", folder.path);
    assert_int_equal(ls_make_folders(path).code, LS_OK);
    assert_true(ls_path_exists(path));
    assert_int_equal(ls_make_folders(path).code, LS_OK);
    assert_int_equal(ls_make_folders("/").code, LS_OK);
    const char *file = temp_file(&folder, "file", "");
    snprintf(path, sizeof path, "%s/file/b", folder.path);
    expect_failure(ls_make_folders(path), LS_STORAGE, "%s: cannot create the folder: mkdir: Not a directory", file);
    temp_folder_remove(&folder);
}

static void joins(void **state) {
    (void)state;
    static const struct {
        const char *folder, *name, *expected;
    } rows[] = {
        { "a", "b", "a/b" },
        { "a/", "b", "a/b" },
        { "", "b", "b" },
        { "a", "/b", "/b" },
        { "/", "b", "/b" },
        { "a", "", "a/" },
        { "a", "12345", "a/12345" },
    };
    char dst[8];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ls_path_join(dst, sizeof dst, rows[i].folder, rows[i].name).code, LS_OK);
        assert_string_equal(dst, rows[i].expected);
    }
    expect_failure(ls_path_join(dst, sizeof dst, "a", "123456"), LS_USAGE,
        "path too long (8 characters, at most 7): %s", "a/123456");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_whole),
        cmocka_unit_test(failures_say_what_and_leave_nothing),
        cmocka_unit_test(reads_anything),
        cmocka_unit_test(folders),
        cmocka_unit_test(joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
