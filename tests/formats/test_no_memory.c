// Where the system has no memory to open a file (ENOMEM) the code is that of memory, whatever the file is: the file
// itself may be good. The same calls with another error keep the code of the file's kind.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/config.h"
#include "config/ini.h"
#include "data/dataset.h"
#include "run/checkpoint.h"
#include "run/run_identity.h"
#include "formats/safetensors.h"
#include "support/cmocka.h"
#include "support/temp.h"

static int failing; // errno of every open; 0: they succeed

int openat(int folder, const char *path, int flags, ...) { // instead of the C library's
    va_list args;
    va_start(args, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    if (failing) return errno = failing, -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(args, unsigned) : 0;
    va_end(args);
    return openat(AT_FDCWD, path, flags, mode);
}

static ls_status read_config(const char *path) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    return ls_config_read_file(&cfg, path);
}

static ls_status read_ini(const char *path) {
    ls_ini *ini = NULL;
    return ls_ini_read(path, &ini);
}

static ls_status read_text(const char *path) {
    char *text;
    size_t bytes;
    return ls_read_file(path, &text, &bytes);
}

static ls_status read_weights(const char *path) {
    ls_safetensors *file;
    return ls_safetensors_read(path, &file);
}

static ls_status read_checkpoint(const char *path) {
    ls_checkpoint *checkpoint;
    return ls_checkpoint_read(path, &checkpoint);
}

static ls_status read_identity(const char *path) {
    ls_run_identity identity;
    int known;
    return ls_run_identity_read(path, &identity, &known);
}

static ls_status write_text(const char *path) {
    return ls_write_file(path, "x", 1);
}

static ls_status open_set(const char *path, int kind) {
    ls_config cfg;
    ls_dataset *set;
    ls_config_defaults(&cfg);
    cfg.data_dataset = kind;
    snprintf(cfg.data_path, sizeof cfg.data_path, "%.*s", (int)(strrchr(path, '/') - path), path);
    return ls_dataset_open(&cfg, LS_SPLIT_TRAIN, &set);
}

static ls_status open_mnist(const char *path) {
    return open_set(path, LS_DATASET_MNIST);
}

static ls_status open_cifar(const char *path) {
    return open_set(path, LS_DATASET_CIFAR10);
}

static const struct {
    const char *what, *name;
    ls_status (*call)(const char *path);
    ls_code otherwise;
} rows[] = {
    { "a configuration", "run.ini", read_config, LS_USAGE },
    { "a network", "net.ini", read_ini, LS_USAGE },
    { "a text", "text", read_text, LS_STORAGE },
    { "weights", "weights.safetensors", read_weights, LS_STORAGE },
    { "a checkpoint", "update-000000000001", read_checkpoint, LS_STORAGE },
    { "a run's identity", "run.json", read_identity, LS_STORAGE },
    { "a result", "result", write_text, LS_STORAGE },
    { "MNIST", "train-images-idx3-ubyte", open_mnist, LS_DATA },
    { "CIFAR", "data_batch_1.bin", open_cifar, LS_DATA },
};

static void no_memory_has_its_own_code(void **state) {
    (void)state;
    static const int errors[] = { ENOMEM, EIO, EMFILE };
    temp_folder folder = temp_folder_new();
    temp_file(&folder, "train-labels-idx1-ubyte", "x");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            const char *path = temp_file(&folder, rows[i].name, "x");
            const ls_code expected = errors[e] == ENOMEM ? LS_DEVICE : rows[i].otherwise;
            failing = errors[e];
            ls_status status = rows[i].call(path);
            failing = 0;
            if (status.code != expected)
                fail_msg("%s, errno %d: code %d, expected %d: %s", rows[i].what, errors[e], status.code, expected,
                    status.text ? status.text : "");
        }
    temp_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_memory_has_its_own_code) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
