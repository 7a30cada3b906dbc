// Inflated files: taken by later starts, which inflate nothing, and never in the place of another content, whatever happened
// to the file; made by one process, which others wait for while it lives; done without where there is no room. And the same of
// MNIST's files.
#include "data_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "data/inflated.h"

enum { BYTES = 5000, PAGE = 4096, HEADER = 64 };

static void fill(uint8_t *bytes, int seed) {
    for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(seed * 31 + i * 7 + i / 256);
}

static int files_in(const char *folder) {
    int count = 0;
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder)) != NULL;) count += entry->d_name[0] != '.';
    if (open_folder) closedir(open_folder);
    return count;
}

static void open_for(const char *folder, const char *cache, ls_inflated *out) {
    ls_input source;
    require_ok(ls_input_open(path_of(folder, "images.gz"), &source), "source");
    ls_inflated_open(path_of(folder, cache), &source, out);
    ls_input_close(&source);
    assert_true(out->path[0]);
}

static void keep_in(const char *folder, const char *cache, int seed) {
    uint8_t bytes[BYTES];
    ls_inflated place;
    fill(bytes, seed);
    open_for(folder, cache, &place);
    require_ok(ls_inflated_keep(&place, bytes, BYTES, (uint64_t)seed), "keep");
    ls_inflated_close(&place);
}

// The seed that the kept bytes have; 0: there are none.
static int kept_in(const char *folder, const char *cache) {
    uint8_t bytes[BYTES];
    ls_inflated place;
    open_for(folder, cache, &place);
    const int seed = place.bytes ? (int)place.hash : 0;
    if (seed) {
        assert_int_equal(BYTES, place.count);
        fill(bytes, seed);
        assert_memory_equal(bytes, place.bytes, BYTES);
    }
    ls_inflated_close(&place);
    return seed;
}

static const char *new_source(void) {
    const char *folder = new_folder();
    put_file(folder, "images.gz", "packed", 6);
    return folder;
}

static void later_starts_take_what_is_kept(void **state) {
    (void)state;
    const char *folder = new_source();
    assert_int_equal(0, kept_in(folder, "new/cache"));
    keep_in(folder, "new/cache", 3);
    assert_int_equal(3, kept_in(folder, "new/cache"));
    assert_int_equal(0, kept_in(folder, "another"));
    assert_int_equal(0, symlink(folder, path_of(folder, "link"))); // the same file by another way
    ls_input source;
    ls_inflated place;
    require_ok(ls_input_open(path_of(folder, "link/images.gz"), &source), "source");
    ls_inflated_open(path_of(folder, "new/cache"), &source, &place);
    assert_non_null(place.bytes);
    ls_inflated_close(&place);
    ls_inflated_close(&place);
    ls_input_close(&source);
    // Another content at the same place; the same content of another time; another content of the same size and time.
    put_file(folder, "images.gz", "packed anew", 11);
    assert_int_equal(0, kept_in(folder, "new/cache"));
    keep_in(folder, "new/cache", 4);
    assert_int_equal(4, kept_in(folder, "new/cache"));
    const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    assert_int_equal(0, utimensat(AT_FDCWD, path_of(folder, "images.gz"), times, 0));
    assert_int_equal(4, kept_in(folder, "new/cache"));
    put_file(folder, "images.gz", "packed ANEW", 11);
    assert_int_equal(0, utimensat(AT_FDCWD, path_of(folder, "images.gz"), times, 0));
    assert_int_equal(0, kept_in(folder, "new/cache"));
    keep_in(folder, "new/cache", 5);
    assert_int_equal(1, files_in(path_of(folder, "new/cache")));
    // What is read before it changes is not kept as what it is then.
    open_for(folder, "new/cache", &place);
    ls_inflated_close(&place);
    put_file(folder, "images.gz", "and again", 9);
    uint8_t bytes[BYTES] = { 0 };
    require_ok(ls_inflated_keep(&place, bytes, BYTES, 6), "keep");
    assert_int_equal(0, kept_in(folder, "new/cache"));
}

// Each byte of the header, one at a time; then cut off and prolonged.
static void damage_is_not_taken(void **state) {
    (void)state;
    const char *folder = new_source();
    keep_in(folder, "cache", 7);
    ls_inflated place;
    open_for(folder, "cache", &place);
    ls_inflated_close(&place);
    size_t count;
    uint8_t *whole = get_file("", place.path, &count);
    assert_int_equal(PAGE + BYTES, count);
    for (size_t at = 0; at < HEADER; at++) {
        whole[at] ^= 0x10;
        put_file("", place.path, whole, count);
        if (kept_in(folder, "cache") != 0) fail_msg("taken with byte %zu changed", at);
        whole[at] ^= 0x10;
    }
    static const size_t lengths[] = { 0, 1, HEADER - 1, HEADER, PAGE - 1, PAGE, PAGE + 1, PAGE + BYTES - 1 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_file("", place.path, whole, lengths[i]);
        if (kept_in(folder, "cache") != 0) fail_msg("taken when cut at %zu", lengths[i]);
    }
    uint8_t *longer = calloc(1, count + 1);
    assert_non_null(longer);
    memcpy(longer, whole, count);
    put_file("", place.path, longer, count + 1);
    assert_int_equal(0, kept_in(folder, "cache"));
    free(longer);
    put_file("", place.path, whole, count);
    assert_int_equal(7, kept_in(folder, "cache"));
    free(whole);
    assert_int_equal(0, unlink(place.path));
    assert_int_equal(0, mkdir(place.path, 0777));
    assert_int_equal(0, kept_in(folder, "cache"));
}

static void one_process_writes(void **state) {
    (void)state;
    const char *folder = new_source();
    ls_inflated place;
    char made[LS_INFLATED_PATH_BYTES + 8];
    open_for(folder, "cache", &place);
    snprintf(made, sizeof made, "%s.new", place.path);
    assert_int_equal(0, mkdir(path_of(folder, "cache"), 0777));
    put_file("", made, "what a killed process left", 26);
    const int other = open(made, O_WRONLY | O_CLOEXEC);
    assert_int_equal(0, flock(other, LOCK_EX));
    keep_in(folder, "cache", 8); // while another one writes
    assert_int_equal(0, kept_in(folder, "cache"));
    assert_int_equal(0, close(other));
    keep_in(folder, "cache", 9);
    assert_int_equal(9, kept_in(folder, "cache"));
    assert_int_equal(1, files_in(path_of(folder, "cache")));
}

// The other process: claims the file, is told to go on, and a while later keeps it (seed > 0), ends (0) or is killed (-1).
static _Noreturn void claim_and_end(const char *folder, int seed, int claimed, int go_on) {
    ls_inflated place;
    uint8_t bytes[BYTES];
    char word;
    open_for(folder, "cache", &place);
    ls_inflated_claim(&place, 0);
    if (!place.makes || write(claimed, "c", 1) != 1 || read(go_on, &word, 1) != 1) _exit(1);
    ls_clock_sleep(0.02);
    fill(bytes, seed);
    if (seed < 0) raise(SIGKILL);
    if (seed > 0 && ls_failed(ls_inflated_keep(&place, bytes, BYTES, (uint64_t)seed))) _exit(2);
    _exit(0);
}

static void claim_beside(int seed) {
    const char *folder = new_source();
    int claimed[2], go_on[2], ended;
    char word;
    ls_inflated place;
    assert_int_equal(0, pipe(claimed) | pipe(go_on));
    const pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) claim_and_end(folder, seed, claimed[1], go_on[0]);
    assert_int_equal(1, read(claimed[0], &word, 1));
    open_for(folder, "cache", &place);
    ls_inflated_claim(&place, 0.01); // no longer than that
    assert_false(place.makes || place.bytes);
    assert_int_equal(1, write(go_on[1], "g", 1));
    ls_inflated_claim(&place, 60);
    assert_int_equal(other, waitpid(other, &ended, 0));
    assert_true(seed < 0 ? WIFSIGNALED(ended) : ended == 0);
    assert_int_equal(seed > 0 ? seed : 0, place.bytes ? place.hash : 0);
    assert_int_equal(seed <= 0, place.makes);
    ls_inflated_close(&place);
    assert_int_equal(seed > 0, files_in(path_of(folder, "cache")));
    for (int i = 0; i < 2; i++) close(claimed[i]), close(go_on[i]);
}

static void others_wait_for_the_one_that_inflates(void **state) {
    (void)state;
    claim_beside(5);
    claim_beside(0);
    claim_beside(-1);
}

static void limit_files(rlim_t bytes) {
    const struct rlimit limit = { bytes, RLIM_INFINITY };
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
}

static void no_room_is_said(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN); // as the program does
    const char *folder = new_source();
    uint8_t bytes[BYTES] = { 0 };
    ls_inflated place;
    open_for(folder, "cache", &place);
    limit_files(PAGE + 100);
    ls_status status = ls_inflated_keep(&place, bytes, BYTES, 1);
    limit_files(RLIM_INFINITY);
    require_failure("no room", status, LS_STORAGE, (const char *[MAX_PARTS]){ place.path });
    assert_int_equal(0, files_in(path_of(folder, "cache")));
    put_file(folder, "file", "x", 1);
    open_for(folder, "file", &place);
    require_failure(
        "no folder", ls_inflated_keep(&place, bytes, BYTES, 1), LS_STORAGE, (const char *[MAX_PARTS]){ "file" });
    ls_input source;
    require_ok(ls_input_open(path_of(folder, "images.gz"), &source), "source");
    char *folder_of_4000 = malloc(4001);
    assert_non_null(folder_of_4000);
    memset(folder_of_4000, 'a', 4000), folder_of_4000[4000] = 0;
    ls_inflated_open(folder_of_4000, &source, &place);
    assert_false(place.path[0]);
    free(folder_of_4000);
    ls_input_close(&source);
}

// --- MNIST's files ---------------------------------------------------------------------------------------

enum { SAMPLES = 1400, SIDE = 28, PIXELS = SIDE * SIDE };
static const char images_name[] = "train-images-idx3-ubyte", labels_name[] = "train-labels-idx1-ubyte";

static uint8_t large_images[16 + SAMPLES * PIXELS] = { 0, 0, 8, 3, 0, 0, SAMPLES >> 8, SAMPLES & 255, 0, 0, 0, SIDE, 0,
    0, 0, SIDE };

static void put_large_mnist(const char *folder, int seed) {
    uint8_t *images = large_images;
    uint8_t labels[8 + SAMPLES] = { 0, 0, 8, 1, 0, 0, SAMPLES >> 8, SAMPLES & 255 };
    for (int i = 0; i < SAMPLES * PIXELS; i++) images[16 + i] = (uint8_t)(i / PIXELS + i % 13 + seed);
    for (int i = 0; i < SAMPLES; i++) labels[8 + i] = (uint8_t)((i + seed) % 10);
    const char *const names[] = { images_name, labels_name };
    put_file(folder, images_name, images, sizeof large_images);
    put_file(folder, labels_name, labels, sizeof labels);
    for (int i = 0; i < 2; i++) {
        char packed[64];
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        unlink(path_of(folder, packed)); // members are appended
        pack_file(folder, names[i]);
    }
}

// Without packing it.
static void store_file(const char *folder, const char *name) {
    char packed[64];
    snprintf(packed, sizeof packed, "%s.gz", name);
    gzFile file = gzopen(path_of(folder, packed), "wb0");
    assert_non_null(file);
    assert_int_equal(sizeof large_images, gzwrite(file, large_images, sizeof large_images));
    assert_int_equal(Z_OK, gzclose(file));
}

typedef struct {
    uint64_t checksum;
    int kept; // were its pixels kept by another start?
    char note[320];
} opened;

static int labels_seed; // beside that of the images

static opened open_mnist(const char *folder, const char *cache, int seed, int64_t samples) {
    ls_config cfg = config_for(LS_DATASET_MNIST, folder);
    snprintf(cfg.data_cache, sizeof cfg.data_cache, "%s", cache);
    cfg.data_train_samples = samples;
    ls_dataset *set;
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &set), "open");
    const ls_dataset_info *facts = ls_dataset_get_info(set);
    opened o = { .checksum = facts->checksum, .kept = ls_dataset_is_kept(set) };
    memcpy(o.note, facts->note, sizeof o.note);
    assert_int_equal(samples ? samples : SAMPLES, facts->count);
    assert_int_equal(SIDE, facts->shape.h);
    for (int64_t i = 0; i < facts->count; i++) {
        uint8_t pixels[PIXELS];
        int32_t label;
        require_ok(ls_dataset_read(set, i, pixels, &label), "read");
        assert_int_equal((i + seed + labels_seed) % 10, label);
        for (int k = 0; k < PIXELS; k++) assert_int_equal((uint8_t)(i + (i * PIXELS + k) % 13 + seed), pixels[k]);
    }
    ls_dataset_free(set);
    return o;
}

static void mnist_is_inflated_once(void **state) {
    (void)state;
    const char *folder = new_folder();
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    put_large_mnist(folder, 1);
    const opened off = open_mnist(folder, "off", 1, 0), part = open_mnist(folder, "off", 1, 99);
    assert_int_equal(0, files_in(cache));
    const opened first = open_mnist(folder, cache, 1, 0), second = open_mnist(folder, cache, 1, 0);
    assert_false(off.kept || first.kept);
    assert_true(second.kept);
    assert_true(off.checksum == first.checksum && off.checksum == second.checksum);
    assert_true(open_mnist(folder, cache, 1, 99).checksum == part.checksum);
    assert_int_equal(1, files_in(cache));
    // Other images; then other labels beside the same images.
    put_large_mnist(folder, 2);
    assert_false(open_mnist(folder, cache, 2, 0).kept);
    assert_true(open_mnist(folder, cache, 2, 0).kept);
    const char *other = new_folder();
    put_large_mnist(other, 2 + 3);
    labels_seed = 3;
    size_t count;
    uint8_t *labels = get_file(other, "train-labels-idx1-ubyte.gz", &count);
    put_file(folder, "train-labels-idx1-ubyte.gz", labels, count);
    assert_false(open_mnist(folder, cache, 2, 0).kept);
    assert_true(open_mnist(folder, cache, 2, 0).kept);
    free(labels);
    // A folder that cannot be used is named; the user's own is not.
    assert_non_null(strstr(open_mnist(folder, "/dev/null/cache", 2, 0).note, "inflated at each start"));
    assert_int_equal(0, setenv("XDG_CACHE_HOME", "/dev/null", 1));
    assert_string_equal("", open_mnist(folder, "auto", 2, 0).note);
    assert_int_equal(0, unsetenv("XDG_CACHE_HOME"));
    labels_seed = 0;
}

// Some bytes of pixels and the numbers of rows and columns.
static void damaged_pixels_are_inflated_again(void **state) {
    (void)state;
    const char *folder = new_folder();
    char cache[128], path[512];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    put_large_mnist(folder, 3);
    open_mnist(folder, cache, 3, 0);
    DIR *listing = opendir(cache);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        if (entry->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
    closedir(listing);
    static const size_t places[] = { PAGE, PAGE + 3, PAGE + 7, PAGE + 11, PAGE + 15, PAGE + 16, PAGE + 500000,
        PAGE + 15 + SAMPLES * PIXELS };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        size_t count;
        uint8_t *whole = get_file("", path, &count);
        assert_int_equal(PAGE + 16 + SAMPLES * PIXELS, count);
        whole[places[i]] ^= 0x04;
        put_file("", path, whole, count);
        free(whole);
        if (open_mnist(folder, cache, 3, 0).kept) fail_msg("taken with byte %zu changed", places[i]);
        assert_true(open_mnist(folder, cache, 3, 0).kept);
    }
    size_t count; // 14 x 56: as many pixels
    uint8_t *whole = get_file("", path, &count);
    whole[PAGE + 11] = SIDE / 2, whole[PAGE + 15] = SIDE * 2;
    put_file("", path, whole, count);
    free(whole);
    assert_false(open_mnist(folder, cache, 3, 0).kept);
}

// The file is packed to a size for which ranks wait. One of them inflates it.
static void ranks_may_start_together(void **state) {
    (void)state;
    const char *folder = new_folder();
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    put_large_mnist(folder, 4);
    store_file(folder, images_name);
    pid_t ranks[4];
    for (int i = 0; i < 4; i++) {
        ranks[i] = fork();
        assert_true(ranks[i] >= 0);
        if (ranks[i] > 0) continue;
        _exit(open_mnist(folder, cache, 4, 0).kept ? 10 : 11);
    }
    int inflated = 0;
    for (int i = 0; i < 4; i++) {
        int ended = -1;
        assert_int_equal(ranks[i], waitpid(ranks[i], &ended, 0));
        assert_true(WIFEXITED(ended) && (WEXITSTATUS(ended) == 10 || WEXITSTATUS(ended) == 11));
        inflated += WEXITSTATUS(ended) == 11;
    }
    assert_int_equal(1, inflated);
    assert_true(open_mnist(folder, cache, 4, 0).kept);
    assert_int_equal(1, files_in(cache));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(later_starts_take_what_is_kept, remove_folders),
        cmocka_unit_test_teardown(damage_is_not_taken, remove_folders),
        cmocka_unit_test_teardown(one_process_writes, remove_folders),
        cmocka_unit_test_teardown(others_wait_for_the_one_that_inflates, remove_folders),
        cmocka_unit_test_teardown(no_room_is_said, remove_folders),
        cmocka_unit_test_teardown(mnist_is_inflated_once, remove_folders),
        cmocka_unit_test_teardown(damaged_pixels_are_inflated_again, remove_folders),
        cmocka_unit_test_teardown(ranks_may_start_together, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
