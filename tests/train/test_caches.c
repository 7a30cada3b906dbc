// Every cache against everything that others may do to its folder: links, pipes, sockets and folders with the names
// of its file and of its temporary files; a file that is cut short or overwritten while it is in use; other starts at
// the same moment. Content is right in every case, nothing waits, no file outside the cache changes, and the next
// start finds the cache mended.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cache_file.h"
#include "system/signals.h"
#include "data/inflated.h"
#include "data/picture_cache.h"
#include "device/algorithm_cache.h"
#include "support/cmocka.h"
#include "support/temp.h"

enum { COUNT = 8, BYTES = 3000, HANG_SECONDS = 120 };

static const char victim_text[] = "the only copy of somebody's work\n";

static uint8_t byte_of(int picture, int at) {
    return (uint8_t)(picture * 31 + at * 7 + at / 256);
}

static void fill(int picture, uint8_t *to) {
    for (int i = 0; i < BYTES; i++) to[i] = byte_of(picture, i);
}

static int is_right(int picture, const uint8_t *bytes) {
    for (int i = 0; i < BYTES; i++)
        if (bytes[i] != byte_of(picture, i)) return 0;
    return 1;
}

// --- the caches: open; how much of the content it has; make and keep the rest; path of the file; close -------------

typedef struct {
    ls_picture_cache *pictures;
    ls_inflated inflated;
    ls_algorithm_cache *plans;
} opened;

typedef struct {
    const char *name;
    int (*open)(const char *folder, opened *o); // 0: there can be no cache now
    int (*has)(opened *o);                      // 1: all content is there, and right; 0: not all; -1: wrong
    void (*make)(opened *o);
    const char *(*path)(const opened *o);
    void (*close)(opened *o);
} cache_kind;

static int open_pictures(const char *folder, opened *o) {
    static const uint64_t stamps[COUNT] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    static uint64_t contents[COUNT]; // as after verification: all are known
    for (int i = 0; i < COUNT; i++) contents[i] = 1000 + stamps[i];
    const ls_picture_cache_options options = { folder, 7, stamps, contents, COUNT, BYTES, 1 };
    return !ls_failed(ls_picture_cache_open(&options, &o->pictures));
}

static int has_pictures(opened *o) {
    uint8_t pixels[BYTES];
    int found = 0;
    for (int i = 0; i < COUNT; i++) {
        if (!ls_picture_cache_get(o->pictures, i, pixels)) continue;
        if (!is_right(i, pixels)) return -1;
        found++;
    }
    return found == COUNT;
}

static void make_pictures(opened *o) {
    uint8_t pixels[BYTES];
    for (int i = 0; i < COUNT; i++) {
        fill(i, pixels);
        ls_picture_cache_put(o->pictures, i, (uint64_t)i + 1, pixels);
    }
    ls_picture_cache_settle(o->pictures);
}

static const char *path_of_pictures(const opened *o) {
    return ls_picture_cache_path(o->pictures);
}

static void close_pictures(opened *o) {
    ls_picture_cache_close(o->pictures);
}

static int open_inflated(const char *folder, opened *o) {
    char source[512];
    ls_input input;
    snprintf(source, sizeof source, "%s/../source.gz", folder);
    assert_false(ls_failed(ls_input_open(source, &input)));
    ls_inflated_open(folder, &input, &o->inflated);
    ls_input_close(&input);
    if (!o->inflated.bytes) ls_inflated_claim(&o->inflated, HANG_SECONDS);
    return 1;
}

static int has_inflated(opened *o) {
    if (!o->inflated.bytes) return 0;
    return o->inflated.count == BYTES && o->inflated.hash == 5 && is_right(5, o->inflated.bytes) ? 1 : -1;
}

static void make_inflated(opened *o) {
    uint8_t bytes[BYTES];
    fill(5, bytes);
    ls_status status = ls_inflated_keep(&o->inflated, bytes, BYTES, 5);
    (void)status; // without a cache the next start inflates again
}

static const char *path_of_inflated(const opened *o) {
    return o->inflated.path;
}

static void close_inflated(opened *o) {
    ls_inflated_close(&o->inflated);
}

static int open_plans(const char *folder, opened *o) {
    return !ls_failed(ls_algorithm_cache_open(folder, "plans", &o->plans));
}

static int has_plans(opened *o) {
    const char *choice = ls_algorithm_cache_find(o->plans, "conv 3", NULL);
    return !choice ? 0 : strcmp(choice, "engine 4") == 0 ? 1 : -1;
}

static void make_plans(opened *o) {
    ls_algorithm_cache_put(o->plans, "conv 3", "engine 4");
    ls_status status = ls_algorithm_cache_save(o->plans);
    (void)status; // as above
}

static const char *path_of_plans(const opened *o) {
    return ls_algorithm_cache_path(o->plans);
}

static void close_plans(opened *o) {
    ls_algorithm_cache_free(o->plans);
}

static const cache_kind caches[] = {
    { "pictures", open_pictures, has_pictures, make_pictures, path_of_pictures, close_pictures },
    { "inflated", open_inflated, has_inflated, make_inflated, path_of_inflated, close_inflated },
    { "plans", open_plans, has_plans, make_plans, path_of_plans, close_plans },
};
enum { CACHES = sizeof caches / sizeof *caches };

// --- a start ---------------------------------------------------------------------------------------------------------

typedef struct {
    temp_folder root;
    char cache[400], path[1024], victim[400]; // the cache's folder and file; a file outside it
} place;

// Opens the cache and makes what is missing. Returns 1 if the cache had everything, 0 if not, 2 if there could be none.
static int start(const cache_kind *kind, place *p, const char *what) {
    opened o = { 0 };
    if (!kind->open(p->cache, &o)) return 2;
    snprintf(p->path, sizeof p->path, "%s", kind->path(&o));
    const int has = kind->has(&o);
    if (has < 0) fail_msg("%s, %s: wrong content", kind->name, what);
    if (!has) kind->make(&o);
    kind->close(&o);
    return has;
}

static void make_place(place *p) {
    p->root = temp_folder_new();
    snprintf(p->cache, sizeof p->cache, "%s/cache", p->root.path);
    assert_int_equal(0, mkdir(p->cache, 0755));
    snprintf(p->victim, sizeof p->victim, "%s", temp_file(&p->root, "victim", victim_text));
    temp_file(&p->root, "source.gz", "packed");
}

static void check_victim(const place *p, const char *cache, const char *what) {
    char *text;
    size_t bytes;
    assert_false(ls_failed(ls_read_file(p->victim, &text, &bytes)));
    if (strcmp(text, victim_text) != 0) fail_msg("%s, %s: another file was changed", cache, what);
    free(text);
}

// --- what lies under the names of the cache's file and of its temporary files --------------------------------------

static void plant_pipe(const place *p, const char *path) {
    (void)p;
    assert_int_equal(0, mkfifo(path, 0666));
}

static void plant_folder(const place *p, const char *path) {
    (void)p;
    assert_int_equal(0, mkdir(path, 0777));
}

static void plant_link(const place *p, const char *path) {
    assert_int_equal(0, symlink(p->victim, path));
}

static void plant_link_to_nothing(const place *p, const char *path) {
    char nothing[400];
    snprintf(nothing, sizeof nothing, "%s/nothing", p->root.path);
    assert_int_equal(0, symlink(nothing, path));
}

static void plant_hard_link(const place *p, const char *path) {
    assert_int_equal(0, link(p->victim, path));
}

static void plant_socket(const place *p, const char *path) {
    (void)p;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0 && strlen(path) < sizeof address.sun_path);
    strcpy(address.sun_path, path);
    assert_int_equal(0, bind(fd, (const struct sockaddr *)&address, sizeof address));
    close(fd);
}

static const struct {
    const char *name;
    void (*plant)(const place *p, const char *path);
    int stays; // it cannot be replaced: the cache does without
} planted[] = {
    { "a pipe", plant_pipe, 0 },
    { "a socket", plant_socket, 0 },
    { "a link to another file", plant_link, 0 },
    { "a link to nothing", plant_link_to_nothing, 0 },
    { "a hard link to another file", plant_hard_link, 0 },
    { "a folder", plant_folder, 1 },
};

static void name_planted(const place *p, int which, char name[1100]) {
    if (which == 0) snprintf(name, 1100, "%s", p->path);
    if (which == 1) snprintf(name, 1100, "%s.new", p->path);
    if (which == 2) snprintf(name, 1100, "%s.tmp-%ld", p->path, (long)getpid());
}

static void nothing_planted_is_followed_or_waited_for(void **state) {
    (void)state;
    for (int c = 0; c < CACHES; c++)
        for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
            for (int which = 0; which < 3; which++) {
                place p;
                char name[1100], what[128];
                snprintf(
                    what, sizeof what, "%s in place of the %s", planted[i].name, which ? "temporary file" : "file");
                make_place(&p);
                start(&caches[c], &p, what);
                assert_int_equal(0, unlink(p.path));
                name_planted(&p, which, name);
                planted[i].plant(&p, name);
                alarm(HANG_SECONDS);
                const int at_first = start(&caches[c], &p, what), again = start(&caches[c], &p, what);
                alarm(0);
                check_victim(&p, caches[c].name, what);
                if (at_first == 1) fail_msg("%s, %s: was taken", caches[c].name, what);
                if (!planted[i].stays && again != 1) fail_msg("%s, %s: is not mended", caches[c].name, what);
                temp_folder_remove(&p.root);
            }
}

// The target is a cache file itself, of which the second half is missing: filling that would write to it.
static void a_link_to_another_cache_is_not_filled(void **state) {
    (void)state;
    for (int c = 0; c < CACHES; c++) {
        place p;
        char *before, *after;
        size_t bytes, bytes_after;
        make_place(&p);
        start(&caches[c], &p, "first");
        assert_false(ls_failed(ls_read_file(p.path, &before, &bytes)));
        bytes /= 2;
        assert_false(ls_failed(ls_write_file(p.victim, before, bytes)));
        assert_int_equal(0, unlink(p.path));
        assert_int_equal(0, symlink(p.victim, p.path));
        start(&caches[c], &p, "by a link");
        assert_false(ls_failed(ls_read_file(p.victim, &after, &bytes_after)));
        if (bytes_after != bytes || memcmp(before, after, bytes) != 0) fail_msg("%s: written to", caches[c].name);
        assert_int_equal(1, start(&caches[c], &p, "again"));
        free(before);
        free(after);
        temp_folder_remove(&p.root);
    }
}

// In a folder that everybody may write to, another user may have put the file there.
static uid_t pretended;
uid_t geteuid(void) { // instead of the C library's
    return pretended ? pretended : getuid();
}

static void files_of_others_do_not_count_in_a_folder_of_everybody(void **state) {
    (void)state;
    static const mode_t modes[] = { 0755, 0775, 0777, 01777 };
    for (int c = 0; c < CACHES; c++)
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
            place p;
            make_place(&p);
            start(&caches[c], &p, "first");
            assert_int_equal(0, chmod(p.cache, modes[i]));
            assert_int_equal(1, start(&caches[c], &p, "own"));
            if (getuid() == 0) // root's own files count for everybody
                assert_int_equal(0, chown(p.path, 65534, 65534));
            else
                pretended = getuid() + 1;
            const int fd = ls_cache_file_open(p.path, O_RDONLY);
            pretended = 0;
            if ((fd >= 0) != !(modes[i] & S_IWOTH)) fail_msg("%s, mode %o: %d", caches[c].name, modes[i], fd);
            if (fd >= 0) close(fd);
            temp_folder_remove(&p.root);
        }
}

static void the_folder_may_be_a_link(void **state) {
    (void)state;
    for (int c = 0; c < CACHES; c++) {
        place p;
        char link_path[400];
        make_place(&p);
        snprintf(link_path, sizeof link_path, "%s/link", p.root.path);
        assert_int_equal(0, symlink(p.cache, link_path));
        snprintf(p.cache, sizeof p.cache, "%s", link_path);
        assert_int_equal(0, start(&caches[c], &p, "by a link"));
        assert_int_equal(1, start(&caches[c], &p, "by a link"));
        temp_folder_remove(&p.root);
    }
}

// --- a file that changes while it is in use ------------------------------------------------------------------------

static void cut(const char *path) {
    assert_int_equal(0, truncate(path, 4096 - 100));
}

static void empty(const char *path) {
    assert_int_equal(0, truncate(path, 0));
}

static void overwrite(const char *path) {
    struct stat info;
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    for (off_t at = 0; at < info.st_size; at++) assert_int_equal(1, pwrite(fd, "\xff", 1, at));
    assert_int_equal(0, close(fd));
}

static void remove_it(const char *path) {
    assert_int_equal(0, unlink(path));
}

static void a_file_may_change_while_it_is_in_use(void **state) {
    (void)state;
    static void (*const changes[])(const char *path) = { cut, empty, overwrite, remove_it };
    for (int c = 0; c < CACHES; c++)
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            place p;
            opened o = { 0 };
            make_place(&p);
            start(&caches[c], &p, "first");
            assert_true(caches[c].open(p.cache, &o));
            assert_int_equal(1, caches[c].has(&o));
            changes[i](p.path);
            if (caches[c].has(&o) < 0) fail_msg("%s, change %zu: wrong content", caches[c].name, i);
            caches[c].close(&o);
            start(&caches[c], &p, "after a change");
            assert_int_equal(1, start(&caches[c], &p, "again"));
            temp_folder_remove(&p.root);
        }
}

// --- other starts --------------------------------------------------------------------------------------------------

static void starts_at_once_do_not_disturb_each_other(void **state) {
    (void)state;
    enum { STARTS = 6, ROUNDS = 10 };
    for (int c = 0; c < CACHES; c++)
        for (int round = 0; round < ROUNDS; round++) {
            place p;
            int go[2];
            char word;
            pid_t started[STARTS];
            make_place(&p);
            assert_int_equal(0, pipe(go));
            for (int i = 0; i < STARTS; i++) {
                started[i] = fork();
                assert_true(started[i] >= 0);
                if (started[i] > 0) continue;
                close(go[1]);
                if (read(go[0], &word, 1) != 0) _exit(3);
                _exit(start(&caches[c], &p, "with others"));
            }
            close(go[0]), close(go[1]); // go
            for (int i = 0; i < STARTS; i++) {
                int ended;
                assert_int_equal(started[i], waitpid(started[i], &ended, 0));
                if (!WIFEXITED(ended) || WEXITSTATUS(ended) > 1) fail_msg("%s: %d", caches[c].name, ended);
            }
            assert_int_equal(1, start(&caches[c], &p, "after others"));
            temp_folder_remove(&p.root);
        }
}

static void temporaries_of_others_stay_until_they_are_old(void **state) {
    (void)state;
    for (int c = 0; c < CACHES; c++) {
        place p;
        char young[1100], old[1100];
        make_place(&p);
        start(&caches[c], &p, "first");
        assert_int_equal(0, unlink(p.path));
        snprintf(young, sizeof young, "%s.tmp-1", p.path);
        snprintf(old, sizeof old, "%s.tmp-2-3", p.path);
        for (int i = 0; i < 2; i++) close(open(i ? old : young, O_WRONLY | O_CREAT, 0666));
        struct stat info;
        assert_int_equal(0, stat(old, &info));
        const struct timespec times[2] = { { info.st_mtime - 4000, 0 }, { info.st_mtime - 4000, 0 } };
        assert_int_equal(0, utimensat(AT_FDCWD, old, times, 0));
        start(&caches[c], &p, "second");
        if (access(young, F_OK) != 0) fail_msg("%s: removed another start's temporary", caches[c].name);
        if (c != 1 && access(old, F_OK) == 0)
            fail_msg("%s: left an old temporary", caches[c].name); // 1: has no such names
        assert_int_equal(1, start(&caches[c], &p, "third"));
        temp_folder_remove(&p.root);
    }
}

// A process that waits for another one's inflated file still stops.
static void a_request_to_stop_ends_waiting(void **state) {
    (void)state;
    place p;
    char made[1100];
    make_place(&p);
    start(&caches[1], &p, "first");
    assert_int_equal(0, unlink(p.path));
    snprintf(made, sizeof made, "%s.new", p.path);
    const int other = open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    assert_int_equal(0, flock(other, LOCK_EX));
    assert_false(ls_failed(ls_signals_listen()));
    raise(SIGTERM);
    alarm(HANG_SECONDS / 2); // less than it would wait
    assert_int_equal(0, start(&caches[1], &p, "stopped"));
    alarm(0);
    ls_signals_ignore();
    close(other);
    temp_folder_remove(&p.root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_planted_is_followed_or_waited_for),
        cmocka_unit_test(a_link_to_another_cache_is_not_filled),
        cmocka_unit_test(files_of_others_do_not_count_in_a_folder_of_everybody),
        cmocka_unit_test(the_folder_may_be_a_link),
        cmocka_unit_test(a_file_may_change_while_it_is_in_use),
        cmocka_unit_test(starts_at_once_do_not_disturb_each_other),
        cmocka_unit_test(temporaries_of_others_stay_until_they_are_old),
        cmocka_unit_test(a_request_to_stop_ends_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
