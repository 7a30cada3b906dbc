// replay.c - main of a fuzz target that runs given inputs once: each argument is an input,
// or a folder of inputs. Fails where there is none.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "fuzz/target.h"

// The input has a memory of its own size, so that reading past its end is seen.
static int replay_file(const char *path) {
    char *text;
    size_t bytes;
    ls_status status = ls_read_file(path, &text, &bytes);
    if (ls_failed(status)) {
        fprintf(stderr, "%s\n", status.text);
        return 0;
    }
    uint8_t *input = malloc(bytes ? bytes : 1);
    if (!input) abort();
    memcpy(input, text, bytes);
    free(text);
    fprintf(stderr, "%s\n", path); // shown by ctest when what follows fails
    LLVMFuzzerTestOneInput(input, bytes);
    free(input);
    return 1;
}

static int replay(const char *path) {
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode)) return replay_file(path);
    struct dirent **entries;
    int found = scandir(path, &entries, NULL, alphasort), inputs = 0;
    for (int i = 0; i < found; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') inputs += replay_file(file);
        free(entries[i]);
    }
    if (found >= 0) free(entries);
    return inputs;
}

int main(int argc, char **argv) {
    static const uint8_t nothing[1];
    LLVMFuzzerTestOneInput(nothing, 0);
    int missing = argc < 2;
    for (int i = 1; i < argc; i++) {
        int inputs = replay(argv[i]);
        printf("%s: %d inputs\n", argv[i], inputs);
        missing += inputs == 0;
    }
    if (missing) fprintf(stderr, "expected inputs, or folders with inputs\n");
    return missing != 0;
}
