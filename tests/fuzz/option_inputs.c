// option_inputs.c - writes what fuzzing of configurations begins with, from the table of options (config/options.def): a
// dictionary for libFuzzer and an input with every option, for the targets `config` and `set`.
//
//   option_inputs FOLDER     writes FOLDER/config.dict, set.dict, corpus/config/every-option.ini and corpus/set/every-option
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "config/config.h"

enum { PATH_BYTES = 4096, WORDS_BYTES = 4096 };

static FILE *create(const char *folder, const char *name) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static void close_all(FILE **files, int count) {
    int failed = 0;
    for (int i = 0; i < count; i++) failed |= fclose(files[i]) != 0;
    if (!failed) return;
    perror("option_inputs");
    exit(1);
}

// Writes each word that the option takes as an entry of both dictionaries.
static void put_words(int option, FILE *first, FILE *second) {
    char words[WORDS_BYTES], *rest = ls_config_words(option, words, sizeof words);
    for (char *word; (word = strsep(&rest, " "));) {
        if (!word[0]) continue;
        fprintf(first, "\"%s\"\n", word);
        fprintf(second, "\"%s\"\n", word);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: option_inputs FOLDER\n", stderr);
        return 2;
    }
    enum { CONFIG_DICT, SET_DICT, INI, SET, FILES };
    FILE *files[FILES] = { create(argv[1], "config.dict"), create(argv[1], "set.dict"),
        create(argv[1], "corpus/config/every-option.ini"), create(argv[1], "corpus/set/every-option") };
    ls_config cfg;
    ls_config_defaults(&cfg);
    const char *name;
    char value[LS_TEXT_BYTES], section[LS_TEXT_BYTES] = "";
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++) {
        const int length = (int)strcspn(name, ".");
        if ((int)strlen(section) != length || strncmp(section, name, (size_t)length) != 0) {
            snprintf(section, sizeof section, "%.*s", length, name);
            fprintf(files[CONFIG_DICT], "\"\\x0a[%s]\\x0a\"\n", section);
            fprintf(files[INI], "[%s]\n", section);
        }
        fprintf(files[CONFIG_DICT], "\"%s = \"\n", name + length + 1);
        fprintf(files[SET_DICT], "\"\\x0a%s=\"\n", name);
        fprintf(files[INI], "%s = %s\n", name + length + 1, value);
        fprintf(files[SET], "%s=%s\n", name, value);
        put_words(i, files[CONFIG_DICT], files[SET_DICT]);
    }
    close_all(files, FILES);
    return 0;
}
