// The cache of timed choices: what is put is found again, by other processes too; a file that is damaged, foreign or
// from a newer version is as good as none; processes that write at once leave a whole file.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/algorithm_cache.h"
#include "support/cmocka.h"
#include "support/temp.h"

static void succeed(ls_status status) {
    if (ls_failed(status)) fail_msg("%s", status.text);
}

static ls_algorithm_cache *open_in(const temp_folder *folder) {
    ls_algorithm_cache *cache = NULL;
    succeed(ls_algorithm_cache_open(folder->path, "test.plans", &cache));
    return cache;
}

static void put_and_save(ls_algorithm_cache *cache, const char *key, const char *choice) {
    ls_algorithm_cache_put(cache, key, choice);
    succeed(ls_algorithm_cache_save(cache));
}

static void choices_are_found_again(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    char below[512];
    snprintf(below, sizeof below, "%s/a/b", folder.path);
    ls_algorithm_cache *cache = NULL;
    succeed(ls_algorithm_cache_open(below, "test.plans", &cache)); // the folder is not there yet
    assert_null(ls_algorithm_cache_find(cache, "conv 1", NULL));
    char key[32];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "conv %d", i);
        ls_algorithm_cache_put(cache, key, "engine 1");
    }
    ls_algorithm_cache_put(cache, "conv 7", "engine 38 2=1");
    succeed(ls_algorithm_cache_save(cache));
    assert_string_equal(ls_algorithm_cache_find(cache, "conv 7", NULL), "engine 38 2=1");
    ls_algorithm_cache_free(cache);

    succeed(ls_algorithm_cache_open(below, "test.plans", &cache));
    assert_null(ls_algorithm_cache_ignored(cache));
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "conv %d", i);
        const char *choice = ls_algorithm_cache_find(cache, key, NULL),
                   *expected = i == 7 ? "engine 38 2=1" : "engine 1";
        if (!choice || strcmp(choice, expected) != 0)
            fail_msg("%s: %s, expected %s", key, choice ? choice : "(none)", expected);
    }
    assert_null(ls_algorithm_cache_find(cache, "conv", NULL));
    ls_algorithm_cache_free(cache);
    temp_folder_remove(&folder);
}

// What others have put since this one read the file stays; for one key the later put stays.
static void two_processes_share_a_file(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    ls_algorithm_cache *one = open_in(&folder), *two = open_in(&folder);
    put_and_save(one, "a", "1");
    put_and_save(one, "both", "of one");
    put_and_save(two, "b", "2");
    put_and_save(two, "both", "of two");
    put_and_save(one, "c", "3");
    ls_algorithm_cache *three = open_in(&folder);
    static const struct {
        const char *key, *choice;
    } rows[] = { { "a", "1" }, { "b", "2" }, { "c", "3" }, { "both", "of two" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *choice = ls_algorithm_cache_find(three, rows[i].key, NULL);
        if (!choice || strcmp(choice, rows[i].choice) != 0)
            fail_msg("%s: %s, expected %s", rows[i].key, choice ? choice : "(none)", rows[i].choice);
    }
    ls_algorithm_cache_free(one);
    ls_algorithm_cache_free(two);
    ls_algorithm_cache_free(three);
    temp_folder_remove(&folder);
}

// Every way of spoiling a good file: it counts as empty, and the next put replaces it.
static void damage_is_ignored_and_replaced(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    ls_algorithm_cache *cache = open_in(&folder);
    ls_algorithm_cache_put(cache, "conv a", "engine 1");
    put_and_save(cache, "conv b", "engine 2");
    ls_algorithm_cache_free(cache);
    char path[512], *good = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/test.plans", folder.path);
    succeed(ls_read_file(path, &good, &bytes));
    for (size_t cut = 0; cut <= bytes + 3; cut++) { // every length, every byte changed, and other files
        char spoilt[512];
        memcpy(spoilt, good, bytes);
        size_t length = bytes;
        const char *what = "one byte changed";
        if (cut < bytes) {
            spoilt[cut] ^= 1;
        } else if (cut == bytes) {
            length = (size_t)snprintf(spoilt, sizeof spoilt, "[section]\nkey\tvalue\n");
            what = "another kind of file";
        } else if (cut == bytes + 1) {
            length = 0;
            what = "empty";
        } else if (cut == bytes + 2) {
            length = bytes - 5;
            what = "cut short";
        } else {
            memset(spoilt, 0, length);
            what = "zeros";
        }
        succeed(ls_write_file(path, spoilt, length));
        cache = open_in(&folder);
        if (ls_algorithm_cache_find(cache, "conv a", NULL) || ls_algorithm_cache_find(cache, "conv b", NULL))
            fail_msg("%s (%zu): an entry of it is used", what, cut);
        const char *ignored = ls_algorithm_cache_ignored(cache);
        if (!ignored) fail_msg("%s (%zu): nothing says that it is not used", what, cut);
        if (cut < bytes) {
            assert_string_equal(ignored, cut < 15   ? "is not a file of measured plans"
                                         : cut < 17 ? "is of another version of this program"
                                                    : "is damaged");
        }
        assert_null(ls_algorithm_cache_ignored(cache)); // it is said once
        if (cut % 16 == 0 || cut >= bytes) {            // fsync is slow
            put_and_save(cache, "conv c", "engine 3");
            ls_algorithm_cache *again = open_in(&folder);
            const char *choice = ls_algorithm_cache_find(again, "conv c", NULL);
            if (!choice) fail_msg("%s (%zu): not replaced by the next put", what, cut);
            ls_algorithm_cache_free(again);
        }
        ls_algorithm_cache_free(cache);
    }
    free(good);
    temp_folder_remove(&folder);
}

// A folder that is a file: an error to whoever puts, nothing to whoever opens, and the choice holds in memory.
static void a_folder_that_cannot_be_written(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    const char *path = temp_file(&folder, "file", "not a folder");
    ls_algorithm_cache *cache = NULL;
    succeed(ls_algorithm_cache_open(path, "test.plans", &cache));
    ls_algorithm_cache_put(cache, "conv", "engine 1");
    assert_int_equal(ls_algorithm_cache_save(cache).code, LS_STORAGE);
    assert_string_equal(ls_algorithm_cache_find(cache, "conv", NULL), "engine 1");
    ls_algorithm_cache_free(cache);
    temp_folder_remove(&folder);
}

// Four processes write and this one reads: every read finds a whole file, so what was once there stays readable.
static void writers_never_leave_half_a_file(void **state) {
    (void)state;
    enum { WRITERS = 4, PUTS = 25 };
    temp_folder folder = temp_folder_new();
    ls_algorithm_cache *cache = open_in(&folder);
    put_and_save(cache, "first", "engine 0");
    ls_algorithm_cache_free(cache);
    pid_t writers[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        if (writers[w] != 0) continue;
        ls_algorithm_cache *own = NULL;
        ls_status status = ls_algorithm_cache_open(folder.path, "test.plans", &own);
        char key[32];
        for (int i = 0; i < PUTS && !ls_failed(status); i++) {
            snprintf(key, sizeof key, "writer %d conv %d", w, i);
            ls_algorithm_cache_put(own, key, "engine 5 with a rather long text of knobs 1=2 3=4");
            status = ls_algorithm_cache_save(own);
        }
        _exit(ls_failed(status));
    }
    int left = WRITERS, reads = 0;
    while (left) {
        int code = 0;
        if (waitpid(-1, &code, WNOHANG) > 0) {
            left--;
            assert_int_equal(code, 0);
        }
        cache = open_in(&folder);
        if (!ls_algorithm_cache_find(cache, "first", NULL)) fail_msg("read %d: the file is not whole", reads);
        ls_algorithm_cache_free(cache);
        reads++;
        usleep(1000);
    }
    assert_int_equal(temp_count_files(&folder), 1); // no temporary is left
    temp_folder_remove(&folder);
}

static void expect(ls_algorithm_cache *cache, const char *key, const char *expected, const char *expected_how) {
    const char *how = "(none)", *choice = ls_algorithm_cache_find(cache, key, &how);
    if (!choice || strcmp(choice, expected) != 0 || strcmp(how, expected_how) != 0)
        fail_msg("%s: %s, %s; expected %s, %s", key, choice ? choice : "(none)", how, expected, expected_how);
}

// What one process has found or put counts in another that takes it, and is kept there, too;
// what it never asked for does not travel.
static void another_process_takes_the_choices(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    ls_algorithm_cache *one = open_in(&folder), *two = NULL;
    ls_algorithm_cache_put(one, "old", "1");
    put_and_save(one, "never asked for", "1");
    ls_algorithm_cache_free(one);
    one = open_in(&folder);
    expect(one, "old", "1", LS_CHOSEN_BEFORE);
    ls_algorithm_cache_put(one, "new", "2");
    expect(one, "new", "2", LS_CHOSEN_NOW);
    assert_int_equal(ls_algorithm_cache_measured(one), 1);
    char *text;
    size_t bytes;
    succeed(ls_algorithm_cache_give(one, &text, &bytes));
    assert_string_equal(text, "old\t1\nnew\t2\n");
    ls_algorithm_cache_free(one);

    succeed(ls_algorithm_cache_open(NULL, "test.plans", &two)); // without a file
    ls_algorithm_cache_put(two, "new", "of two");
    succeed(ls_algorithm_cache_take(two, text, bytes));
    free(text);
    expect(two, "old", "1", LS_CHOSEN_BEFORE);
    expect(two, "new", "2", LS_CHOSEN_BEFORE);
    assert_null(ls_algorithm_cache_find(two, "never asked for", NULL));
    succeed(ls_algorithm_cache_save(two));
    assert_null(ls_algorithm_cache_path(two));
    ls_algorithm_cache_free(two);
    temp_folder_remove(&folder);
}

// A choice that was used stays as it is, whatever another process saves meanwhile; the file keeps the newest entries.
static void the_file_is_bounded(void **state) {
    (void)state;
    temp_folder folder = temp_folder_new();
    ls_algorithm_cache *cache = open_in(&folder);
    char key[32];
    for (int i = 0; i < 1100; i++) {
        snprintf(key, sizeof key, "conv %d", i);
        ls_algorithm_cache_put(cache, key, "1");
    }
    succeed(ls_algorithm_cache_save(cache));
    ls_algorithm_cache_free(cache);
    cache = open_in(&folder);
    assert_null(ls_algorithm_cache_find(cache, "conv 75", NULL));
    expect(cache, "conv 90", "1", LS_CHOSEN_BEFORE);
    ls_algorithm_cache *other = open_in(&folder);
    put_and_save(other, "conv 90", "2");
    put_and_save(cache, "another", "3");
    expect(cache, "conv 90", "1", LS_CHOSEN_BEFORE);
    ls_algorithm_cache_free(other);
    other = open_in(&folder);
    expect(other, "conv 90", "2", LS_CHOSEN_BEFORE);
    expect(other, "another", "3", LS_CHOSEN_BEFORE);
    ls_algorithm_cache_free(other);
    ls_algorithm_cache_free(cache);
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_found_again),
        cmocka_unit_test(two_processes_share_a_file),
        cmocka_unit_test(damage_is_ignored_and_replaced),
        cmocka_unit_test(a_folder_that_cannot_be_written),
        cmocka_unit_test(another_process_takes_the_choices),
        cmocka_unit_test(the_file_is_bounded),
        cmocka_unit_test(writers_never_leave_half_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
