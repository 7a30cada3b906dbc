#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
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
    expect_failure(
        ls_write_file(path, "x", 1), LS_STORAGE, "%s: cannot write: is a folder, expected the name of a file", path);
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
    expect_failure(ls_read_file(folder.path, &data, &bytes), LS_STORAGE,
        "%s: cannot read: is a folder, expected a regular file", folder.path);
    static char large[100000]; // over the first guess when the size is unknown
    memset(large, 'a', sizeof large);
    snprintf(path, sizeof path, "%s/large", folder.path);
    assert_int_equal(ls_write_file(path, large, sizeof large).code, LS_OK);
    assert_int_equal(ls_read_file(path, &data, &bytes).code, LS_OK);
    assert_int_equal(bytes, sizeof large);
    assert_memory_equal(data, large, bytes);
    free(data);
    static const size_t lengths[] = { 0, 1, 4095, 4097, 100000, 100001 };
    for (int i = 0; i < 6; i++) {
        assert_int_equal(ls_read_beginning(path, lengths[i], &data, &bytes).code, LS_OK);
        assert_int_equal(bytes, lengths[i] < sizeof large ? lengths[i] : sizeof large);
        free(data);
    }
    assert_int_equal(ls_read_file("/proc/self/maps", &data, &bytes).code, LS_OK); // stat says 0 bytes
    assert_true(bytes > 100 && strlen(data) == bytes);
    free(data);
    temp_folder_remove(&folder);
}

// None of them waits, and none has its memory eaten.
static void reads_regular_files_only(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char pipe[512], large[512], *data;
    size_t bytes;
    ls_input input;
    snprintf(pipe, sizeof pipe, "%s/pipe", folder.path);
    assert_int_equal(mkfifo(pipe, 0666), 0);
    const struct {
        const char *path, *what;
    } rows[] = { { pipe, "a pipe" }, { "/dev/zero", "a device" }, { folder.path, "a folder" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, "%%s: cannot read: is %s, expected a regular file", rows[i].what);
        expect_failure(ls_read_file(rows[i].path, &data, &bytes), LS_STORAGE, expected, rows[i].path);
        expect_failure(ls_read_beginning(rows[i].path, 10, &data, &bytes), LS_STORAGE, expected, rows[i].path);
        expect_failure(ls_input_open(rows[i].path, &input), LS_STORAGE, expected, rows[i].path);
        assert_int_equal(input.fd, -1);
    }
    snprintf(large, sizeof large, "%s", temp_file(&folder, "large", "x"));
    assert_int_equal(truncate(large, LS_READ_BYTES_MAX), 0);
    assert_int_equal(ls_read_file(large, &data, &bytes).code, LS_OK);
    free(data);
    assert_int_equal(truncate(large, (off_t)1 << 40), 0);
    expect_failure(ls_read_file(large, &data, &bytes), LS_STORAGE,
        "%s: cannot read: has more than 67108864 bytes, the limit for such a file", large);
    const char *small = temp_file(&folder, "small", "0123456789");
    assert_int_equal(ls_input_open(small, &input).code, LS_OK);
    assert_int_equal(input.bytes, 10);
    char part[4];
    assert_int_equal(ls_input_read(&input, 3, part, sizeof part).code, LS_OK);
    assert_memory_equal(part, "3456", 4);
    expect_failure(ls_input_read(&input, 8, part, sizeof part), LS_STORAGE,
        "%s: cannot read: ends at byte 10, expected 12: cut off while it was read", small);
    ls_input_close(&input);
    ls_input_close(&input);
    temp_folder_remove(&folder);
}

static struct stat info_of(const char *path) {
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    return info;
}

static void links_are_followed(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char file[512], link[512], second[512], loop[512];
    snprintf(file, sizeof file, "%s/sub/file", folder.path);
    temp_file(&folder, "sub/other", "");
    snprintf(link, sizeof link, "%s/link", folder.path);
    snprintf(second, sizeof second, "%s/second", folder.path);
    snprintf(loop, sizeof loop, "%s/loop", folder.path);
    assert_int_equal(symlink("sub/file", link) | symlink(link, second) | symlink("loop", loop), 0);
    const char *names[] = { link, second, file }; // the first leads to a file that is not there yet
    for (int i = 0; i < 3; i++) {
        char text[] = { (char)('a' + i), 0 };
        assert_int_equal(ls_atomic_file_check(names[i]).code, LS_OK);
        assert_int_equal(ls_write_file(names[i], text, 1).code, LS_OK);
        expect_text(file, text);
        assert_true(S_ISLNK(info_of(link).st_mode) && S_ISLNK(info_of(second).st_mode));
    }
    expect_failure(
        ls_write_file(loop, "x", 1), LS_STORAGE, "%s: cannot create: stat: Too many levels of symbolic links", loop);
    assert_int_equal(temp_count_files(&folder), 4); // no temporary
    temp_folder_remove(&folder);
}

// Devices, pipes and the rest keep their places.
static void what_is_no_file_stays(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char pipe[512], link[512], open_file[64], text[8];
    snprintf(pipe, sizeof pipe, "%s/pipe", folder.path);
    snprintf(link, sizeof link, "%s/link", folder.path);
    assert_int_equal(mkfifo(pipe, 0666) | symlink("/dev/null", link), 0);
    assert_int_equal(ls_atomic_file_check(pipe).code, LS_OK);
    expect_failure(ls_write_file(pipe, "x", 1), LS_STORAGE,
        "%s: cannot write: is a pipe that no process reads: start its reader first", pipe);
    pid_t late = fork(); // a reader that comes after the writer
    if (late == 0) {
        alarm(20); // where nothing is written, it must not outlive the test
        ls_clock_sleep(0.2);
        int end = open(pipe, O_RDONLY);
        _exit(read(end, text, sizeof text) == 4 && !memcmp(text, "late", 4) ? 0 : 1);
    }
    assert_int_equal(ls_write_file(pipe, "late", 4).code, LS_OK);
    int left;
    assert_int_equal(waitpid(late, &left, 0), late);
    assert_int_equal(left, 0);
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    assert_int_equal(ls_write_file(pipe, "one", 3).code, LS_OK);
    assert_int_equal(ls_atomic_file_check(pipe).code, LS_OK);
    assert_int_equal(ls_write_file(pipe, "two", 3).code, LS_OK);
    assert_int_equal(read(reader, text, sizeof text), 6);
    assert_memory_equal(text, "onetwo", 6);
    close(reader);
    assert_true(S_ISFIFO(info_of(pipe).st_mode));

    assert_int_equal(ls_write_file(link, "x", 1).code, LS_OK);
    assert_true(S_ISLNK(info_of(link).st_mode));
    char device[512]; // one that may be lost if this goes wrong
    snprintf(device, sizeof device, "%s/device", folder.path);
    if (mknod(device, S_IFCHR | 0666, makedev(1, 7)) == 0) { // as /dev/full; root alone makes them
        ls_status full = ls_write_file(device, "x", 1);
        if (strstr(full.text, "No space left")) // else this file system has no devices
            expect_failure(full, LS_STORAGE, "%s: cannot write: write: No space left on device", device);
        assert_true(S_ISCHR(info_of(device).st_mode));
        assert_int_equal(unlink(device), 0);
    }
    // /dev/stdout is such a link; what was there before stays.
    const char *old = temp_file(&folder, "old", "old ");
    int fd = open(old, O_WRONLY);
    ino_t number = info_of(old).st_ino;
    snprintf(open_file, sizeof open_file, "/dev/fd/%d", fd);
    assert_int_equal(ls_write_file(open_file, "new", 3).code, LS_OK);
    close(fd);
    expect_text(old, "old new");
    assert_int_equal(info_of(old).st_ino, number);
    assert_int_equal(temp_count_files(&folder), 3);
    temp_folder_remove(&folder);
}

// What lies under a temporary's name is another process's, or a trap.
static void temporaries_are_new(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    const char *victim = temp_file(&folder, "victim", "precious");
    char path[300], planted[400], left[500];
    snprintf(path, sizeof path, "%s/file", folder.path);
    snprintf(planted, sizeof planted, "%s.tmp-%ld", path, (long)getpid());
    snprintf(left, sizeof left, "%s-1", planted);
    assert_int_equal(symlink(victim, planted), 0);
    temp_file(&folder, strrchr(left, '/') + 1, "half");
    assert_int_equal(ls_write_file(path, "whole", 5).code, LS_OK);
    expect_text(path, "whole");
    expect_text(victim, "precious");
    expect_text(left, "half");
    ls_atomic_file_clean(path);
    expect_text(victim, "precious");
    assert_int_equal(temp_count_files(&folder), 2);
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
        cmocka_unit_test(reads_regular_files_only),
        cmocka_unit_test(links_are_followed),
        cmocka_unit_test(what_is_no_file_stays),
        cmocka_unit_test(temporaries_are_new),
        cmocka_unit_test(folders),
        cmocka_unit_test(joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
