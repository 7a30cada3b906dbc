// A data set of class folders. The input's lines are paths below its root; a name that ends with '/' is a folder, any
// other a file with one byte in it. The first byte of the input: the split.
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/dataset.h"
#include "fuzz/target.h"

static int remove_below(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind;
    return where->level == 0 ? 0 : remove(path);
}

// Names that would lead out of the root are left out; what the file system refuses, too.
static void make(const char *line) {
    char path[4096];
    size_t root = (size_t)snprintf(path, sizeof path, "%s/", fuzz_folder());
    if (!*line || *line == '/' || strstr(line, "..") || strlen(line) > 300) return;
    snprintf(path + root, sizeof path - root, "%s", line);
    for (char *slash = path + root; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return;
    if (write(fd, "x", 1) != 1) abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes < 1) return 0;
    char *text = malloc(bytes), *rest = text;
    if (!text) abort();
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    int made = 0;
    for (char *line; (line = strsep(&rest, "\n")) && made < 64; made++) make(line);
    free(text);
    fuzz_dataset(LS_DATASET_FOLDER, data[0] & 1 ? LS_SPLIT_TEST : LS_SPLIT_TRAIN);
    nftw(fuzz_folder(), remove_below, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
