// Packed pictures: taken again by a later or another process, and nothing but what was packed, whatever happened to the
// file; known by the contents of their files; copied where the list changed; given up where there is no room.
#include "data_files.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "data/picture_cache.h"

enum { COUNT = 6, BYTES = 1000, PAGE = 4096, ROW = 24 };

static const uint64_t stamps[COUNT] = { 11, 22, 33, 44, 55, 66 };

static uint64_t contents[COUNT]; // of the list that was opened last

static uint64_t content_of(uint64_t stamp) {
    return stamp * 1000;
}

// As after verification: all contents are known.
static ls_status open_list(
    const char *folder, const uint64_t *list, int count, uint64_t kind, int creates, ls_picture_cache **out) {
    for (int i = 0; i < count; i++) contents[i] = content_of(list[i]);
    const ls_picture_cache_options options = { folder, kind, list, contents, count, BYTES, creates };
    return ls_picture_cache_open(&options, out);
}

static ls_picture_cache *open_all(const char *folder) {
    ls_picture_cache *cache;
    require_ok(open_list(folder, stamps, COUNT, 7, 1, &cache), "open");
    return cache;
}

static void fill(uint64_t stamp, uint8_t *pixels) {
    for (int i = 0; i < BYTES; i++) pixels[i] = (uint8_t)(stamp * 31 + (uint64_t)i * 7 + (uint64_t)i / 256);
}

static void put(ls_picture_cache *cache, int picture, uint64_t stamp) {
    uint8_t pixels[BYTES];
    fill(stamp, pixels);
    ls_picture_cache_put(cache, picture, stamp, pixels);
}

// Which pictures are there, as bits; what is there must be right.
static unsigned found(ls_picture_cache *cache, const uint64_t *list, int count) {
    unsigned bits = 0;
    for (int i = 0; i < count; i++) {
        uint8_t pixels[BYTES], wanted[BYTES];
        if (!ls_picture_cache_get(cache, i, pixels)) continue;
        fill(list[i], wanted);
        assert_memory_equal(wanted, pixels, BYTES);
        bits |= 1u << i;
    }
    return bits;
}

static void later_processes_take_what_is_packed(void **state) {
    (void)state;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/new/cache", new_folder());
    ls_picture_cache *cache;
    require_failure("none", open_list(folder, stamps, COUNT, 7, 0, &cache), LS_STORAGE,
        (const char *[MAX_PARTS]){ folder, "not there" });
    cache = open_all(folder);
    assert_int_equal(0, found(cache, stamps, COUNT));
    for (int i = 0; i < COUNT; i += 2) put(cache, i, stamps[i]);
    assert_int_equal(0x15, found(cache, stamps, COUNT));
    // One beside it, before and after each knows of the other.
    ls_picture_cache *beside;
    require_ok(open_list(folder, stamps, COUNT, 7, 0, &beside), "beside");
    for (int i = 1; i < COUNT; i += 2) put(beside, i, stamps[i]);
    assert_int_equal(0x3f, found(beside, stamps, COUNT));
    assert_int_equal(0x15, found(cache, stamps, COUNT));
    ls_picture_cache_settle(cache);
    assert_int_equal(0x3f, found(cache, stamps, COUNT));
    ls_picture_cache_close(beside);
    ls_picture_cache_close(cache);
    cache = open_all(folder);
    assert_int_equal(0x3f, found(cache, stamps, COUNT));
    assert_true(ls_picture_cache_has(cache, 5));
    ls_picture_cache_close(cache);
    require_failure("another kind", open_list(folder, stamps, COUNT, 8, 0, &cache), LS_STORAGE,
        (const char *[MAX_PARTS]){ "not there" });
}

// Each byte of the header, some of the table and of the pixels, one at a time; then cut off at many places.
static void damage_costs_what_is_damaged(void **state) {
    (void)state;
    const char *folder = new_folder();
    ls_picture_cache *cache = open_all(folder);
    for (int i = 0; i < COUNT; i++) put(cache, i, stamps[i]);
    const char *name = strrchr(ls_picture_cache_path(cache), '/') + 1;
    char path[1024];
    snprintf(path, sizeof path, "%s", name);
    ls_picture_cache_close(cache);
    size_t count;
    uint8_t *whole = get_file(folder, path, &count), *bytes = malloc(count);
    assert_non_null(bytes);
    assert_int_equal(2 * PAGE + COUNT * BYTES, count);
    for (size_t at = 0; at < count; at += at < 80 ? 9 : at < PAGE + COUNT * ROW ? 8 : 251) {
        memcpy(bytes, whole, count);
        bytes[at] ^= 0x20;
        put_file(folder, path, bytes, count);
        cache = open_all(folder);
        unsigned wanted = 0x3f;
        if (at < 72)
            wanted = 0; // made anew
        else if (at >= PAGE && at < PAGE + COUNT * ROW)
            wanted &= ~((at - PAGE) % ROW < 8 ? 0 : 1u << (at - PAGE) / ROW); // the stamp is not looked at
        else if (at >= 2 * PAGE)
            wanted &= ~(1u << (at - 2 * PAGE) / BYTES);
        const unsigned got = found(cache, stamps, COUNT);
        if (got != wanted) fail_msg("byte %zu: %x, expected %x", at, got, wanted);
        for (int i = 0; i < COUNT; i++)
            if (!(got >> i & 1)) put(cache, i, stamps[i]);
        assert_int_equal(0x3f, found(cache, stamps, COUNT));
        ls_picture_cache_close(cache);
    }
    for (size_t cut = 0; cut < count; cut += 97) {
        put_file(folder, path, whole, cut);
        cache = open_all(folder);
        const unsigned got = found(cache, stamps, COUNT);
        const unsigned fits = cut <= 2 * PAGE ? 0 : (unsigned)((1u << (cut - 2 * PAGE) / BYTES) - 1);
        if (got != fits) fail_msg("cut at %zu: %x, expected %x", cut, got, fits);
        for (int i = 0; i < COUNT; i++) put(cache, i, stamps[i]);
        assert_int_equal(0x3f, found(cache, stamps, COUNT));
        ls_picture_cache_close(cache);
    }
    free(whole);
    free(bytes);
}

static int files_in(const char *folder) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(open_folder);
    return count;
}

static void a_changed_list_takes_over_what_is_the_same(void **state) {
    (void)state;
    const char *folder = new_folder();
    ls_picture_cache *cache = open_all(folder);
    for (int i = 0; i < COUNT - 1; i++) put(cache, i, stamps[i]);
    ls_picture_cache_close(cache);
    static const uint64_t list[] = { 77, 55, 22, 66, 11, 23 }; // new, kept, kept, never packed, kept, changed
    require_ok(open_list(folder, list, 6, 7, 1, &cache), "open");
    put_file(folder, "packed-other", "x", 1);
    for (int i = 0; i < 6; i++) assert_false(ls_picture_cache_has(cache, i));
    assert_int_equal(0x16, found(cache, list, 6));
    assert_int_equal(3, files_in(folder));
    ls_picture_cache_settle(cache);
    assert_int_equal(2, files_in(folder));
    assert_int_equal(0x16, found(cache, list, 6));
    ls_picture_cache_close(cache);
    // Neither one of another kind nor a damaged one.
    require_ok(open_list(folder, stamps, COUNT, 8, 1, &cache), "open");
    assert_int_equal(0, found(cache, stamps, COUNT));
    char former[1024];
    snprintf(former, sizeof former, "%s", strrchr(ls_picture_cache_path(cache), '/') + 1);
    put(cache, 1, 22);
    ls_picture_cache_settle(cache);
    assert_int_equal(3, files_in(folder)); // that of kind 7 stays
    ls_picture_cache_close(cache);
    size_t count;
    uint8_t *whole = get_file(folder, former, &count);
    char renamed[1024]; // of another kind, whatever its name says
    snprintf(renamed, sizeof renamed, "packed-%016x%s", 9, strrchr(former, '-'));
    put_file(folder, renamed, whole, count);
    require_ok(open_list(folder, list, 6, 9, 1, &cache), "open");
    assert_int_equal(0, found(cache, list, 6));
    ls_picture_cache_close(cache);
    for (int i = 0; i < 4; i++) {
        static const size_t cuts[] = { 0, 50, PAGE + 20, 2 * PAGE + BYTES + 10 };
        put_file(folder, former, whole, cuts[i]);
        require_ok(open_list(folder, list, 6, 8, 1, &cache), "open");
        assert_int_equal(0, found(cache, list, 6));
        char path[1024];
        snprintf(path, sizeof path, "%s", ls_picture_cache_path(cache));
        ls_picture_cache_close(cache);
        assert_int_equal(0, unlink(path));
    }
    free(whole);
}

static ls_picture_cache *open_unread(const char *folder, const uint64_t *list) {
    ls_picture_cache *cache;
    const ls_picture_cache_options options = { folder, 7, list, contents, COUNT, BYTES, 1 };
    memset(contents, 0, sizeof contents);
    require_ok(ls_picture_cache_open(&options, &cache), "open");
    return cache;
}

static void check_contents(const uint64_t *wanted) {
    for (int i = 0; i < COUNT; i++) assert_true(contents[i] == wanted[i]);
}

// A file that has its stamp has its content. One whose stamp does not say so is read; what is packed of its content is
// taken.
static void a_stamp_tells_the_content(void **state) {
    (void)state;
    const char *folder = new_folder();
    ls_picture_cache *cache = open_all(folder);
    uint8_t pixels[BYTES];
    for (int i = 0; i < COUNT; i++) {
        fill(stamps[i], pixels);
        ls_picture_cache_put(cache, i, i == 2 ? 0 : stamps[i], pixels);
    }
    ls_picture_cache_close(cache);
    const uint64_t known[] = { 11000, 22000, 0, 44000, 55000, 66000 };
    cache = open_unread(folder, stamps);
    check_contents(known);
    assert_int_equal(0x3b, found(cache, stamps, COUNT));
    assert_false(ls_picture_cache_has(cache, 2));
    contents[2] = 33001; // read, and not what was packed
    assert_false(ls_picture_cache_get(cache, 2, pixels));
    contents[2] = 33000;
    ls_picture_cache_settle(cache);
    assert_int_equal(0x3f, found(cache, stamps, COUNT));
    ls_picture_cache_close(cache);
    // In another list: the same stamp, the same content under another stamp, and neither.
    static const uint64_t list[] = { 66, 12, 22, 77, 33, 44 };
    const uint64_t known_there[] = { 66000, 0, 22000, 0, 0, 44000 };
    cache = open_unread(folder, list);
    check_contents(known_there);
    contents[1] = 11000;
    contents[3] = 77000;
    contents[4] = 33001;
    static const uint64_t pixels_of[] = { 66, 11, 22, 77, 33, 44 };
    assert_int_equal(0x27, found(cache, pixels_of, COUNT));
    ls_picture_cache_settle(cache);
    ls_picture_cache_close(cache);
    cache = open_unread(folder, list); // what was copied by its stamp is known by it
    check_contents(known_there);
    ls_picture_cache_close(cache);
}

static void limit_files(rlim_t bytes) {
    const struct rlimit limit = { bytes, RLIM_INFINITY };
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

// Where writing fails from some byte on, as on a full disk.
static void no_room_costs_what_has_none(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN); // as the program does
    const char *folder = new_folder();
    ls_picture_cache *cache = open_all(folder);
    limit_files(2 * PAGE + 2 * BYTES + 500);
    for (int i = 0; i < COUNT; i++) put(cache, i, stamps[i]); // warns once
    assert_int_equal(0x3, found(cache, stamps, COUNT));
    ls_picture_cache_settle(cache);
    ls_picture_cache_close(cache);
    static const uint64_t others[COUNT] = { 1, 2, 3, 4, 5, 6 };
    require_failure("no room", open_list(folder, others, COUNT, 7, 1, &cache), LS_STORAGE,
        (const char *[MAX_PARTS]){ folder, "no room for 13.9 KiB" });
    limit_files(RLIM_INFINITY);
    cache = open_all(folder);
    assert_int_equal(0x3, found(cache, stamps, COUNT));
    for (int i = 0; i < COUNT; i++) put(cache, i, stamps[i]);
    assert_int_equal(0x3f, found(cache, stamps, COUNT));
    ls_picture_cache_close(cache);
    put_file(folder, "file", "x", 1);
    require_failure("no folder", open_list(path_of(folder, "file"), others, COUNT, 7, 1, &cache), LS_STORAGE,
        (const char *[MAX_PARTS]){ "file" });
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(later_processes_take_what_is_packed, remove_folders),
        cmocka_unit_test_teardown(damage_costs_what_is_damaged, remove_folders),
        cmocka_unit_test_teardown(a_changed_list_takes_over_what_is_the_same, remove_folders),
        cmocka_unit_test_teardown(a_stamp_tells_the_content, remove_folders),
        cmocka_unit_test_teardown(no_room_costs_what_has_none, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
