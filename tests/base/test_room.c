// How much room a file system has: what it reports, and file systems that report nothing. fstatvfs is this file's.
#include <sys/statvfs.h>

#include "base/files.h"
#include "support/cmocka.h"

static struct statvfs reported;

int fstatvfs(int fd, struct statvfs *out) {
    (void)fd;
    *out = reported;
    return 0;
}

static void room_is_what_the_file_system_reports(void **state) {
    (void)state;
    enum { UNKNOWN = -1 };
    static const struct {
        const char *name;
        unsigned long blocks, available, fragment, block;
        int64_t unused; // UNKNOWN: not reported
        int fits;       // 1 MiB and what a file system adds
    } rows[] = {
        { "empty disk", 1000000, 1000000, 4096, 4096, 4096000000, 1 },
        { "full disk", 1000000, 0, 4096, 4096, 0, 0 },
        { "nearly full disk", 1000000, 100, 4096, 4096, 409600, 0 },
        { "fragments", 1000000, 300, 4096, 1 << 20, 1228800, 1 },
        { "no size of a fragment", 1000000, 300, 0, 4096, 1228800, 1 },
        { "no blocks", 0, 0, 4096, 4096, UNKNOWN, 1 },
        { "nothing", 0, 0, 0, 0, UNKNOWN, 1 },
        { "no size of a block", 1000000, 300, 0, 0, UNKNOWN, 1 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint64_t unused = 0, all = 0;
        reported = (struct statvfs){ .f_blocks = rows[r].blocks,
            .f_bfree = rows[r].available,
            .f_bavail = rows[r].available,
            .f_frsize = rows[r].fragment,
            .f_bsize = rows[r].block };
        const int known = ls_path_room(".", &unused, &all);
        if (known != (rows[r].unused != UNKNOWN) || (known && (int64_t)unused != rows[r].unused))
            fail_msg("%s: known %d, %lld bytes", rows[r].name, known, (long long)unused);
        const ls_status status = ls_check_room(".", "run", "a checkpoint needs", 1 << 20, 1);
        if (status.code != (rows[r].fits ? LS_OK : LS_STORAGE)) fail_msg("%s: %d", rows[r].name, status.code);
    }
    uint64_t unused, all;
    assert_false(ls_path_room("no/such/folder", &unused, &all));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(room_is_what_the_file_system_reports) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
