// data_files.h - what the tests of this room share: a temporary folder,
// small data sets in it, and edits that break them.
#ifndef TESTS_DATA_DATA_FILES_H
#define TESTS_DATA_DATA_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/atomic_file.h"
#include "config/config.h"
#include "data/dataset.h"
#include "support/cmocka.h"

enum { MNIST_SAMPLES = 5, MNIST_ROWS = 4, MNIST_COLUMNS = 3, CIFAR_RECORDS = 2, MAX_PARTS = 5 };

static char *made_folders[256];
static int made_count;

static inline void require_ok(ls_status status, const char *where) {
    if (ls_failed(status)) fail_msg("%s: %s", where, status.text);
}

static inline const char *new_folder(void) {
    char *folder = strdup("/tmp/lockstep-data-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(0, chmod(folder, 0755));
    assert_true(made_count < 256);
    return made_folders[made_count++] = folder;
}

static inline int remove_folders(void **state) {
    (void)state;
    char command[256];
    for (int i = 0; i < made_count; i++) {
        snprintf(command, sizeof command, "rm -rf '%s'", made_folders[i]);
        if (system(command) != 0) fprintf(stderr, "cannot remove %s\n", made_folders[i]);
        free(made_folders[i]);
    }
    made_count = 0;
    return 0;
}

static inline const char *path_of(const char *folder, const char *name) {
    static char path[4][4096];
    static int next;
    char *made = path[next++ % 4];
    snprintf(made, sizeof path[0], "%s/%s", folder, name);
    return made;
}

static inline void put_file(const char *folder, const char *name, const void *bytes, size_t count) {
    FILE *file = fopen(path_of(folder, name), "wb");
    assert_non_null(file);
    assert_int_equal(count, fwrite(bytes, 1, count, file));
    assert_int_equal(0, fclose(file));
}

static inline uint8_t *get_file(const char *folder, const char *name, size_t *count) {
    char *bytes;
    require_ok(ls_read_file(path_of(folder, name), &bytes, count), name);
    return (uint8_t *)bytes;
}

static inline uint8_t mnist_pixel(int sample, int at) {
    return (uint8_t)(sample * 50 + at * 7);
}
static inline uint8_t mnist_label(int sample) {
    return (uint8_t)(sample * 2 % 10);
}

// The two IDX files of a split; MNIST_SAMPLES pictures of MNIST_ROWS x MNIST_COLUMNS.
static inline void put_mnist(const char *folder, const char *images, const char *labels) {
    enum { PIXELS = MNIST_ROWS * MNIST_COLUMNS };
    uint8_t image_file[16 + MNIST_SAMPLES * PIXELS] = { 0, 0, 8, 3, 0, 0, 0, MNIST_SAMPLES, 0, 0, 0, MNIST_ROWS, 0, 0,
        0, MNIST_COLUMNS };
    uint8_t label_file[8 + MNIST_SAMPLES] = { 0, 0, 8, 1, 0, 0, 0, MNIST_SAMPLES };
    for (int i = 0; i < MNIST_SAMPLES; i++) {
        label_file[8 + i] = mnist_label(i);
        for (int k = 0; k < PIXELS; k++) image_file[16 + i * PIXELS + k] = mnist_pixel(i, k);
    }
    put_file(folder, images, image_file, sizeof image_file);
    put_file(folder, labels, label_file, sizeof label_file);
}

static inline uint8_t cifar_pixel(int record, int at) {
    return (uint8_t)(record * 31 + at + at / 256);
}

// CIFAR_RECORDS records; record numbers go on from `first`. One or two label bytes.
static inline void put_cifar(const char *folder, const char *name, int label_bytes, int first) {
    enum { PIXELS = 3072 };
    uint8_t file[CIFAR_RECORDS * (2 + PIXELS)], *at = file;
    for (int i = first; i < first + CIFAR_RECORDS; i++) {
        if (label_bytes == 2) *at++ = (uint8_t)(i % 20);
        *at++ = (uint8_t)(label_bytes == 2 ? i % 100 : i % 10);
        for (int k = 0; k < PIXELS; k++) *at++ = cifar_pixel(i, k);
    }
    put_file(folder, name, file, (size_t)(at - file));
}

static inline void put_sets(const char *folder) {
    put_mnist(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
    put_mnist(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        put_cifar(folder, name, 1, i * CIFAR_RECORDS);
    }
    put_cifar(folder, "test_batch.bin", 1, 100);
    put_cifar(folder, "train.bin", 2, 0);
    put_cifar(folder, "test.bin", 2, 100);
}

// folder/name becomes folder/name.gz (with gzip's own header), of members that hold so many bytes each.
static inline void pack_members(const char *folder, const char *name, size_t member_bytes) {
    size_t count;
    uint8_t *bytes = get_file(folder, name, &count);
    char packed[256];
    snprintf(packed, sizeof packed, "%s.gz", name);
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < member_bytes ? count - at : member_bytes;
        gzFile file = gzopen(path_of(folder, packed), "ab");
        assert_non_null(file);
        assert_int_equal((int)some, gzwrite(file, bytes + at, (unsigned)some));
        assert_int_equal(Z_OK, gzclose(file));
    }
    free(bytes);
    assert_int_equal(0, unlink(path_of(folder, name)));
}

static inline void pack_file(const char *folder, const char *name) {
    pack_members(folder, name, SIZE_MAX);
}

static inline ls_config config_for(int dataset, const char *path) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    cfg.data_dataset = dataset;
    snprintf(cfg.data_path, sizeof cfg.data_path, "%s", path);
    return cfg;
}

// Fails the test, naming the row, unless the status has the code and its text all parts and one line only.
static inline void require_failure(
    const char *row, ls_status status, ls_code code, const char *const parts[MAX_PARTS]) {
    if (status.code != code)
        fail_msg("%s: code %d, expected %d: %s", row, status.code, code, status.text ? status.text : "ok");
    for (int i = 0; i < MAX_PARTS && parts[i]; i++) {
        if (!strstr(status.text, parts[i])) fail_msg("%s: message lacks '%s': %s", row, parts[i], status.text);
    }
    if (strchr(status.text, '\n')) fail_msg("%s: more than one line: %s", row, status.text);
    if (getenv("SHOW_MESSAGES")) printf("%-28s %s\n", row, status.text);
}

#endif
