// Files of the IDX and CIFAR families: good ones are read right, and every kind of damage has its message.
// SHOW_MESSAGES=1 prints them.
#include "data_files.h"

#include <errno.h>

enum { M = LS_DATASET_MNIST, C10 = LS_DATASET_CIFAR10, C100 = LS_DATASET_CIFAR100, MAX_EDITS = 3 };
enum { C20 = LS_DATASET_CIFAR100_COARSE };
static const char train_images[] = "train-images-idx3-ubyte", train_labels[] = "train-labels-idx1-ubyte";
static const char train_images_gz[] = "train-images-idx3-ubyte.gz", train_labels_gz[] = "train-labels-idx1-ubyte.gz";

typedef enum { END, POKE, CUT, APPEND, REMOVE, EMPTY, FOLDER, PACK, LOCK, FLIP, PIPE, APPEND_MEMBER } edit_kind;
typedef struct {
    edit_kind kind;
    int at, value; // POKE: byte at (from the end if negative) := value; FLIP: ^= value; CUT: to at bytes (less than now
                   // if negative); APPEND: value bytes; APPEND_MEMBER: value bytes of a gzip member that holds one byte
} edit;

static const uint8_t gzip_of_x[] = { 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xab, 0x00, 0x00, 0x83,
    0x16, 0xdc, 0x8c, 0x01, 0x00, 0x00, 0x00 };

static void apply_edit(const char *folder, const char *name, edit e) {
    const char *path = path_of(folder, name);
    size_t count = 0;
    uint8_t *bytes = NULL;
    if (e.kind == POKE || e.kind == CUT || e.kind == APPEND || e.kind == APPEND_MEMBER || e.kind == FLIP)
        bytes = get_file(folder, name, &count);
    size_t at = e.at < 0 ? count - (size_t)-e.at : (size_t)e.at;
    switch (e.kind) {
    case POKE:
        bytes[at] = (uint8_t)e.value;
        break;
    case FLIP:
        bytes[at] ^= (uint8_t)e.value;
        break;
    case CUT:
        count = at;
        break;
    case APPEND:
        bytes = realloc(bytes, count + (size_t)e.value);
        memset(bytes + count, 0x55, (size_t)e.value);
        count += (size_t)e.value;
        break;
    case APPEND_MEMBER:
        assert_true((size_t)e.value <= sizeof gzip_of_x);
        bytes = realloc(bytes, count + (size_t)e.value);
        memcpy(bytes + count, gzip_of_x, (size_t)e.value);
        count += (size_t)e.value;
        break;
    case EMPTY:
        put_file(folder, name, "", 0);
        break;
    case REMOVE:
        assert_int_equal(0, unlink(path));
        break;
    case FOLDER:
        assert_int_equal(0, unlink(path) || mkdir(path, 0755));
        break;
    case PIPE:
        assert_int_equal(0, unlink(path) || mkfifo(path, 0644));
        break;
    case LOCK:
        assert_int_equal(0, chmod(path, 0));
        break;
    case PACK:
        pack_file(folder, name);
        break;
    case END:
        break;
    }
    if (bytes) put_file(folder, name, bytes, count);
    free(bytes);
}

typedef struct {
    const char *name;
    int dataset;
    const char *file;
    edit edits[MAX_EDITS];
    const char *parts[MAX_PARTS];
} bad_row;

static const bad_row bad_rows[] = {
    // IDX, raw
    { "images empty", M, train_images, { { EMPTY, 0, 0 } }, { train_images, "empty", "fetch" } },
    { "images without a header", M, train_images, { { CUT, 10, 0 } }, { train_images, "10 bytes", "header of 16" } },
    { "images' header alone", M, train_images, { { CUT, 16, 0 } },
        { train_images, "16 bytes", "promises 76", "cut off" } },
    { "images cut off", M, train_images, { { CUT, -1, 0 } }, { train_images, "75 bytes", "promises 76", "cut off" } },
    { "images too long", M, train_images, { { APPEND, 0, 3 } },
        { train_images, "79 bytes", "promises 76", "too long" } },
    { "images' magic wrong", M, train_images, { { POKE, 3, 99 } },
        { train_images, "magic number 2147", "byte 0", "expected 2051" } },
    { "labels in place of images", M, train_images, { { POKE, 3, 1 } }, { "2049", "expected 2051", "file of labels" } },
    { "images in place of labels", M, train_labels, { { POKE, 3, 3 } },
        { train_labels, "2051", "expected 2049", "file of images" } },
    { "no images promised", M, train_images, { { POKE, 7, 0 } }, { train_images, "0 samples" } },
    { "no rows", M, train_images, { { POKE, 11, 0 } }, { train_images, "0 rows and 3 columns", "1 to 4096" } },
    { "columns impossible", M, train_images, { { POKE, 12, 1 } },
        { train_images, "4 rows and 16777219 columns", "4096" } },
    { "huge count", M, train_images, { { POKE, 4, 255 } }, { train_images, "76 bytes", "promises 51338281036" } },
    { "labels cut off", M, train_labels, { { CUT, -2, 0 } }, { train_labels, "11 bytes", "promises 13" } },
    { "labels too long", M, train_labels, { { APPEND, 0, 1 } }, { train_labels, "14 bytes", "promises 13" } },
    { "fewer labels than images", M, train_labels, { { POKE, 7, 4 }, { CUT, -1, 0 } },
        { train_labels, "4 labels", train_images, "5 images" } },
    { "images that are promised and not there", M, train_images, { { POKE, 7, 9 }, { PACK, 0, 0 }, { FLIP, -8, 1 } },
        { train_labels, "5 labels", train_images_gz, "9 images" } }, // compared before anything is inflated
    { "label out of range", M, train_labels, { { POKE, -2, 10 } }, { train_labels, "record 3", "label 10", "0 to 9" } },
    { "labels missing", M, train_labels, { { REMOVE, 0, 0 } }, { train_labels, train_labels_gz, "fetch" } },
    { "images missing", M, train_images, { { REMOVE, 0, 0 } }, { train_images, train_images_gz, "fetch" } },
    { "images a folder", M, train_images, { { FOLDER, 0, 0 } }, { train_images, "is a folder", "expected a file" } },
    { "labels a pipe", M, train_labels, { { PIPE, 0, 0 } }, { train_labels, "pipe", "regular file" } },
    { "images locked", M, train_images, { { LOCK, 0, 0 } }, { train_images, "Permission denied", "readable" } },
    // IDX, gzip: the edits after PACK are of the .gz
    { "gzip empty", M, train_images, { { PACK, 0, 0 }, { EMPTY, 0, 0 } }, { train_images_gz, "empty" } },
    { "gzip of one byte", M, train_images, { { PACK, 0, 0 }, { CUT, 1, 0 } },
        { train_images_gz, "not a gzip file", "1f 00" } },
    { "no gzip", M, train_images, { { PACK, 0, 0 }, { POKE, 0, 60 } },
        { train_images_gz, "not a gzip file", "3c 8b", "1f 8b" } },
    { "gzip's method wrong", M, train_images, { { PACK, 0, 0 }, { POKE, 2, 7 } },
        { train_images_gz, "damaged", "unknown compression method" } },
    { "gzip cut in its header", M, train_labels, { { PACK, 0, 0 }, { CUT, 6, 0 } },
        { train_labels_gz, "cut off", "ends at byte 6" } },
    { "gzip cut in the stream", M, train_images, { { PACK, 0, 0 }, { CUT, -20, 0 } },
        { train_images_gz, "cut off", "inflated bytes" } },
    { "gzip cut in its trailer", M, train_images, { { PACK, 0, 0 }, { CUT, -3, 0 } },
        { train_images_gz, "cut off", "76 of 76" } },
    { "gzip's CRC wrong", M, train_images, { { PACK, 0, 0 }, { FLIP, -8, 1 } },
        { train_images_gz, "damaged", "incorrect data check" } },
    { "gzip's length wrong", M, train_images, { { PACK, 0, 0 }, { FLIP, -4, 1 } },
        { train_images_gz, "damaged", "incorrect length check" } },
    { "gzip's stream damaged", M, train_images, { { PACK, 0, 0 }, { FLIP, 10, 0x04 } },
        { train_images_gz, "damaged at byte", "invalid block type" } },
    { "gzip with garbage behind", M, train_images, { { PACK, 0, 0 }, { APPEND, 0, 7 } },
        { train_images_gz, "7 bytes stand after", "end of the gzip" } },
    { "gzip, second member cut off", M, train_images, { { PACK, 0, 0 }, { APPEND_MEMBER, 0, 6 } },
        { train_images_gz, "cut off", "76 of 76" } },
    { "gzip, second member too much", M, train_images, { { PACK, 0, 0 }, { APPEND_MEMBER, 0, 21 } },
        { train_images_gz, "more than the 76 bytes" } },
    { "gzip of too many bytes", M, train_images, { { APPEND, 0, 1 }, { PACK, 0, 0 } },
        { train_images_gz, "more than the 76 bytes" } },
    { "gzip of too few bytes", M, train_images, { { CUT, -1, 0 }, { PACK, 0, 0 } },
        { train_images_gz, "inflates to 75", "promises 76" } },
    { "gzip of half a header", M, train_images, { { CUT, 15, 0 }, { PACK, 0, 0 } },
        { train_images_gz, "15 bytes", "header of 16" } },
    { "gzip with a huge promise", M, train_images, { { POKE, 4, 255 }, { PACK, 0, 0 } },
        { train_images_gz, "promises 51338281036", "compressed bytes" } },
    { "gzip, wrong magic inside", M, train_labels, { { POKE, 3, 3 }, { PACK, 0, 0 } },
        { train_labels_gz, "2051", "expected 2049" } },
    { "gzip, label out of range", M, train_labels, { { POKE, -1, 77 }, { PACK, 0, 0 } },
        { train_labels_gz, "record 4", "label 77" } },
    // CIFAR
    { "batch missing", C10, "data_batch_3.bin", { { REMOVE, 0, 0 } }, { "data_batch_3.bin", "No such file" } },
    { "first batch missing", C10, "data_batch_1.bin", { { REMOVE, 0, 0 } }, { "data_batch_1.bin", "No such file" } },
    { "batch empty", C10, "data_batch_2.bin", { { EMPTY, 0, 0 } }, { "data_batch_2.bin", "empty" } },
    { "batch cut off", C10, "data_batch_5.bin", { { CUT, -1, 0 } },
        { "data_batch_5.bin", "6145 bytes", "1 records of 3073", "byte 3073" } },
    { "batch too long", C10, "data_batch_5.bin", { { APPEND, 0, 1 } },
        { "data_batch_5.bin", "6147 bytes", "1 bytes over", "byte 6146" } },
    { "batch's label wrong", C10, "data_batch_4.bin", { { POKE, 3073, 10 } },
        { "data_batch_4.bin", "record 1", "label 10", "0 to 9" } },
    { "batch a folder", C10, "data_batch_1.bin", { { FOLDER, 0, 0 } },
        { "data_batch_1.bin", "is a folder", "move the folder elsewhere" } },
    { "batch locked", C10, "data_batch_2.bin", { { LOCK, 0, 0 } }, { "data_batch_2.bin", "Permission denied" } },
    { "CIFAR-100 cut off", C100, "train.bin", { { CUT, 100, 0 } }, { "train.bin", "100 bytes", "0 records of 3074" } },
    { "fine label wrong", C100, "train.bin", { { POKE, 1, 100 } },
        { "train.bin", "record 0", "label 100", "0 to 99" } },
    { "coarse label wrong", C100, "train.bin", { { POKE, 3074, 20 } },
        { "train.bin", "record 1", "coarse label 20", "0 to 19" } },
    { "coarse label wrong, of coarse ones", C20, "train.bin", { { POKE, 3074, 20 } },
        { "train.bin", "record 1", "label 20", "0 to 19" } },
    { "fine label wrong, of coarse ones", C20, "train.bin", { { POKE, 1, 100 } },
        { "train.bin", "record 0", "fine label 100", "0 to 99" } },
    { "CIFAR-10 read as CIFAR-100", C100, "train.bin", { { CUT, -2, 0 } }, { "train.bin", "whole records" } },
};

static void bad_files_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_rows / sizeof bad_rows[0]; i++) {
        const bad_row *row = &bad_rows[i];
        const char *folder = new_folder();
        put_sets(folder);
        char name[64];
        snprintf(name, sizeof name, "%s", row->file);
        int locked = 0;
        for (int k = 0; k < MAX_EDITS; k++) {
            apply_edit(folder, name, row->edits[k]);
            if (row->edits[k].kind == PACK) strcat(name, ".gz");
            locked |= row->edits[k].kind == LOCK;
        }
        // Root may read everything: such a row runs as nobody.
        int change = locked && geteuid() == 0;
        if (change) assert_int_equal(0, seteuid(65534));
        ls_config cfg = config_for(row->dataset, folder);
        ls_dataset *dataset = NULL;
        ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
        if (change) assert_int_equal(0, seteuid(0));
        require_failure(row->name, status, LS_DATA, row->parts);
        assert_null(dataset);
        // The other split does not look at these files.
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TEST, &dataset), row->name);
        ls_dataset_free(dataset);
    }
}

static void check_mnist(const ls_dataset *dataset) {
    const ls_dataset_info *facts = ls_dataset_get_info(dataset);
    assert_int_equal(MNIST_SAMPLES, facts->count);
    assert_int_equal(10, facts->classes);
    assert_true(ls_chw_equal(facts->shape, (ls_chw){ 1, MNIST_ROWS, MNIST_COLUMNS }));
    for (int i = 0; i < MNIST_SAMPLES; i++) {
        uint8_t pixels[MNIST_ROWS * MNIST_COLUMNS];
        int32_t label = -1;
        require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
        assert_int_equal(mnist_label(i), label);
        for (int k = 0; k < MNIST_ROWS * MNIST_COLUMNS; k++) assert_int_equal(mnist_pixel(i, k), pixels[k]);
    }
}

static void idx_files_raw_and_packed(void **state) {
    (void)state;
    uint64_t checksums[6];
    for (int i = 0; i < 6; i++) { // which of the two files is packed; then both, in members of 7 and 30 bytes
        const size_t member_bytes = i < 4 ? SIZE_MAX : i == 4 ? 7 : 30;
        const char *folder = new_folder();
        put_sets(folder);
        if (i & 1 || i > 3) pack_members(folder, train_images, member_bytes);
        if (i & 2 || i > 3) pack_members(folder, train_labels, member_bytes);
        if (i == 0) put_file(folder, train_images_gz, "broken", 6); // not looked at: raw goes first
        ls_config cfg = config_for(M, folder);
        ls_dataset *dataset;
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), "open");
        check_mnist(dataset);
        checksums[i] = ls_dataset_get_info(dataset)->checksum;
        assert_int_equal(checksums[0], checksums[i]);
        assert_string_equal("mnist", ls_dataset_get_info(dataset)->name);
        assert_string_equal("7", ls_dataset_class(dataset, 7));
        assert_string_equal("?", ls_dataset_class(dataset, 10));
        ls_dataset_free(dataset);
    }
}

static void cifar_files(void **state) {
    (void)state;
    static const struct {
        int dataset, split, count, classes, first;
        const char *subfolder, *class_7;
    } rows[] = {
        { C10, LS_SPLIT_TRAIN, 5 * CIFAR_RECORDS, 10, 0, "", "horse" },
        { C10, LS_SPLIT_TRAIN, 5 * CIFAR_RECORDS, 10, 0, "cifar-10-batches-bin", "horse" },
        { C10, LS_SPLIT_TEST, CIFAR_RECORDS, 10, 100, "", "horse" },
        { C100, LS_SPLIT_TRAIN, CIFAR_RECORDS, 100, 0, "", "beetle" },
        { C100, LS_SPLIT_TEST, CIFAR_RECORDS, 100, 100, "cifar-100-binary", "beetle" },
        { C20, LS_SPLIT_TRAIN, CIFAR_RECORDS, 20, 0, "", "insects" },
        { C20, LS_SPLIT_TEST, CIFAR_RECORDS, 20, 100, "cifar-100-binary", "insects" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *folder = new_folder();
        char files[512];
        snprintf(files, sizeof files, "%s", path_of(folder, rows[r].subfolder));
        mkdir(files, 0755);
        put_sets(files);
        ls_config cfg = config_for(rows[r].dataset, folder);
        ls_dataset *dataset;
        require_ok(ls_dataset_open(&cfg, rows[r].split ? LS_SPLIT_TEST : LS_SPLIT_TRAIN, &dataset), folder);
        const ls_dataset_info *facts = ls_dataset_get_info(dataset);
        assert_int_equal(rows[r].count, facts->count);
        assert_int_equal(rows[r].classes, facts->classes);
        assert_true(ls_chw_equal(facts->shape, (ls_chw){ 3, 32, 32 }));
        assert_string_equal(rows[r].class_7, ls_dataset_class(dataset, 7));
        for (int i = 0; i < rows[r].count; i++) {
            uint8_t pixels[3072];
            int32_t label = -1;
            require_ok(ls_dataset_read(dataset, i, pixels, &label), "read");
            assert_int_equal((rows[r].first + i) % rows[r].classes, label);
            for (int k = 0; k < 3072; k++) assert_int_equal(cifar_pixel(rows[r].first + i, k), pixels[k]);
        }
        ls_dataset_free(dataset);
    }
}

static void missing_set_says_where_and_how(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int dataset, split;
        const char *path, *parts[MAX_PARTS];
    } rows[] = {
        { "no path", M, 0, "",
            { "no training set", "data/mnist", train_images, train_labels_gz, "scripts/fetch-data.sh mnist" } },
        { "no path, test", M, 1, "",
            { "no test set", "data/mnist", "t10k-images-idx3-ubyte", "scripts/fetch-data.sh mnist" } },
        { "path", C10, 0, "nowhere",
            { "looked in some/nowhere or some/nowhere/cifar-10-batches-bin for", "data_batch_5.bin",
                "fetch-data.sh cifar10", "data.path" } },
        { "path, absolute", C100, 1, "/nowhere",
            { "looked in /nowhere or /nowhere/cifar-100-binary for test.bin;", "cifar100" } },
        { "no path, coarse labels", C20, 0, "",
            { "looked in data/cifar100-coarse or data/cifar100-coarse/cifar-100-binary or data/cifar100 or "
              "data/cifar100/cifar-100-binary for train.bin;",
                "fetch-data.sh cifar100-coarse" } },
        { "folder", LS_DATASET_FOLDER, 0, "nowhere", { "no folder some/nowhere;", "data.path" } },
    };
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(0, chdir(new_folder())); // where there is no data/
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg = config_for(rows[i].dataset, rows[i].path);
        snprintf(cfg.folder, sizeof cfg.folder, "some");
        ls_dataset *dataset;
        require_failure(rows[i].name, ls_dataset_open(&cfg, rows[i].split ? LS_SPLIT_TEST : LS_SPLIT_TRAIN, &dataset),
            LS_DATA, rows[i].parts);
    }
    assert_int_equal(0, chdir(here));
}

static void locked_folder_is_not_a_missing_set(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_sets(folder);
    ls_config cfg = config_for(M, folder);
    ls_dataset *dataset;
    assert_int_equal(0, chmod(folder, 0));
    int change = geteuid() == 0; // root may go everywhere
    if (change) assert_int_equal(0, seteuid(65534));
    ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
    if (change) assert_int_equal(0, seteuid(0));
    assert_int_equal(0, chmod(folder, 0755));
    require_failure("locked folder", status, LS_DATA, (const char *[MAX_PARTS]){ train_labels, "Permission denied" });
}

static void folders_are_searched_in_order(void **state) {
    (void)state;
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    const char *folder = new_folder();
    assert_int_equal(0, chdir(folder));
    static const char *const places[] = { "there/sets", "sets",
        "data/mnist" }; // below the config's folder, here, by default
    for (int i = 0; i < 3; i++) {
        require_ok(ls_make_folders(places[i]), places[i]);
        put_sets(places[i]);
        put_file(places[i], i == 0 ? train_images : "other", "x",
            1); // the first one is broken: it must be the one that is taken
    }
    ls_config cfg = config_for(M, "sets");
    snprintf(cfg.folder, sizeof cfg.folder, "there");
    ls_dataset *dataset;
    require_failure("config's folder", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_DATA,
        (const char *[MAX_PARTS]){ "there/sets/train-images" });
    require_ok(ls_config_set(&cfg, "data.path=sets"), "--set");
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), "current folder, as --set means it");
    ls_dataset_free(dataset);
    cfg.data_path[0] = 0;
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), "default folder");
    ls_dataset_free(dataset);
    assert_int_equal(0, chdir(here));
}

static void limits(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_sets(folder);
    ls_config cfg = config_for(M, folder);
    ls_dataset *all, *some;
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &all), "all");
    cfg.data_train_samples = 3;
    require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &some), "some");
    assert_int_equal(3, ls_dataset_get_info(some)->count);
    assert_true(ls_dataset_get_info(all)->checksum != ls_dataset_get_info(some)->checksum);
    uint8_t pixels[12];
    int32_t label;
    assert_int_equal(LS_INTERNAL, ls_dataset_read(some, 3, pixels, &label).code);
    assert_int_equal(LS_INTERNAL, ls_dataset_read(some, -1, pixels, &label).code);
    ls_dataset_free(some);
    ls_dataset_free(all);
    cfg.data_train_samples = 6;
    require_failure("too many", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &some), LS_USAGE,
        (const char *[MAX_PARTS]){ "data.train_samples = 6", "5 training samples" });
}

static void checksum_sees_every_byte(void **state) {
    (void)state;
    static const struct {
        int dataset;
        const char *file;
        int at;
    } rows[] = { { M, train_images, 16 }, { M, train_images, -1 }, { M, train_labels, 8 },
        { C10, "data_batch_5.bin", -1 }, { C10, "data_batch_1.bin", 0 }, { C100, "train.bin", 1 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *folder = new_folder();
        put_sets(folder);
        ls_config cfg = config_for(rows[i].dataset, folder);
        ls_dataset *before, *after;
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &before), "before");
        apply_edit(folder, rows[i].file, (edit){ FLIP, rows[i].at, 1 });
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &after), "after");
        if (ls_dataset_get_info(before)->checksum == ls_dataset_get_info(after)->checksum)
            fail_msg("row %zu: same checksum", i);
        ls_dataset_free(before);
        ls_dataset_free(after);
    }
}

static void normalisation(void **state) {
    (void)state;
    const char *folder = new_folder();
    put_sets(folder);
    static const struct {
        const char *mean, *std;
        float want_mean[3], want_std[3];
    } rows[] = {
        { "", "", { 0.4914f, 0.4822f, 0.4465f }, { 0.2470f, 0.2435f, 0.2616f } },
        { "0.5, 0.25,0", "1,2, 3", { 0.5f, 0.25f, 0 }, { 1, 2, 3 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg = config_for(C10, folder);
        snprintf(cfg.data_mean, sizeof cfg.data_mean, "%s", rows[i].mean);
        snprintf(cfg.data_std, sizeof cfg.data_std, "%s", rows[i].std);
        ls_dataset *dataset;
        require_ok(ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), "open");
        float table[3 * 256];
        ls_dataset_table(dataset, table);
        for (int c = 0; c < 3; c++) {
            assert_true(ls_dataset_get_info(dataset)->mean[c] == rows[i].want_mean[c]);
            assert_true(ls_dataset_get_info(dataset)->std[c] == rows[i].want_std[c]);
            for (int v = 0; v < 256; v++) {
                float want = (float)((v / 255.0 - (double)rows[i].want_mean[c]) / (double)rows[i].want_std[c]);
                if (table[c * 256 + v] != want) fail_msg("row %zu: table[%d][%d]", i, c, v);
            }
        }
        ls_dataset_free(dataset);
    }
    static const struct {
        const char *mean, *std, *parts[MAX_PARTS];
    } bad[] = {
        { "0.5", "", { "data.mean = 0.5", "3 numbers" } },
        { "0.5,0.5,0.5,0.5", "", { "data.mean", "3 numbers" } },
        { "0.5,0.5,half", "", { "data.mean", "half" } },
        { "0.5,0.5,nan", "", { "data.mean", "nan" } },
        { "", "0.5,0,0.5", { "data.std", "number 2", "more than 0" } },
        { "", "0.5,0.5,-1", { "data.std", "number 3" } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ls_config cfg = config_for(C10, folder);
        snprintf(cfg.data_mean, sizeof cfg.data_mean, "%s", bad[i].mean);
        snprintf(cfg.data_std, sizeof cfg.data_std, "%s", bad[i].std);
        ls_dataset *dataset = NULL;
        require_failure("normalisation", ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset), LS_USAGE, bad[i].parts);
    }
    for (int i = 0; i < 2; i++) { // of 1 / 0.25 at most
        ls_config cfg = config_for(C10, folder);
        snprintf(cfg.data_std, sizeof cfg.data_std, "0.5,0.25,0.5");
        cfg.data_brightness = i ? 4.5 : 4;
        ls_dataset *dataset = NULL;
        const ls_status status = ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &dataset);
        if (i)
            require_failure("brightness", status, LS_USAGE,
                (const char *[MAX_PARTS]){ "data.brightness = 4.5", "at most 4", "divide", "255" });
        else
            require_ok(status, "brightness");
        ls_dataset_free(dataset);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(bad_files_are_refused, remove_folders),
        cmocka_unit_test_teardown(idx_files_raw_and_packed, remove_folders),
        cmocka_unit_test_teardown(cifar_files, remove_folders),
        cmocka_unit_test_teardown(missing_set_says_where_and_how, remove_folders),
        cmocka_unit_test_teardown(locked_folder_is_not_a_missing_set, remove_folders),
        cmocka_unit_test_teardown(folders_are_searched_in_order, remove_folders),
        cmocka_unit_test_teardown(limits, remove_folders),
        cmocka_unit_test_teardown(checksum_sees_every_byte, remove_folders),
        cmocka_unit_test_teardown(normalisation, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
