#include "command/paths.h"

#include <stdio.h>
#include <string.h>
#include "config/file_type.h"
#include "command/command_table.h"

enum { WORDS_MAX = 3 };

// A path of the command line and the word of the usage that it belongs to.
typedef struct {
    const char *path;
    const ls_usage_word *word;
} named;

static int accepts(const ls_usage_word *word, ls_file_type type) {
    return type == LS_FILE_TYPE_UNKNOWN || word->accepts >> type & 1;
}

int ls_path_is_export(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".onnx") == 0 || strcmp(dot, ".c") == 0);
}

// Refuses two words that would fit only in the other order, as in `train predict boot.png runs/first`. A path that the
// command writes need not exist yet.
static ls_status check_order(ls_command command, const named *a, const named *b) {
    char text[LS_COMMAND_TEXT_BYTES];
    const ls_file_type first = ls_file_type_of(a->path), second = ls_file_type_of(b->path);
    const int is_output = b->word->accepts == 0;
    if (accepts(a->word, first) && (is_output || accepts(b->word, second))) return LS_SUCCESS;
    if (second == LS_FILE_TYPE_UNKNOWN || second == LS_FILE_TYPE_MISSING || !accepts(a->word, second))
        return LS_SUCCESS;
    if (is_output ? !ls_path_is_export(a->path) : first == LS_FILE_TYPE_MISSING || !accepts(b->word, first))
        return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s and %s are in the wrong order; did you mean %s %s %s?", a->path, b->path,
        ls_command_text(command, text), b->path, a->path);
}

static ls_status check_path(const named *n) {
    char expected[160];
    if (!n->word->accepts) return LS_SUCCESS; // the command does not read this path
    snprintf(expected, sizeof expected, "%s, a %s", n->word->name, n->word->noun);
    return ls_expect_file_type(n->path, n->word->accepts, expected);
}

static const char *const *field(const ls_args *args, const ls_usage_word *word) {
    return (const char *const *)(const void *)((const char *)args + word->offset);
}

// Checks the paths of the command line: collects one path for each word of the usage, checks their order and each path,
// then the rest of args->files.
ls_status ls_paths_check(const ls_args *args) {
    ls_usage_word words[WORDS_MAX];
    named paths[WORDS_MAX];
    int count = 0, files = 0;
    for (int i = 0; i < WORDS_MAX && ls_usage_word_at(args->command, i, &words[count]); i++) {
        if (words[count].is_action) continue;
        if (args->command == LS_COMMAND_REPORT) words[count].accepts |= 1u << LS_FILE_TYPE_SWEEP; // shows its runs
        const char *path = !words[count].is_files     ? *field(args, &words[count])
                           : files < args->file_count ? args->files[files++]
                                                      : NULL;
        if (!path) break;
        paths[count] = (named){ path, &words[count] };
        count++;
    }
    if (count >= 2) LS_TRY(check_order(args->command, &paths[0], &paths[1]));
    for (int i = 0; i < count; i++) LS_TRY(check_path(&paths[i]));
    for (int i = files; count && i < args->file_count; i++)
        LS_TRY(check_path(&(named){ args->files[i], &words[count - 1] }));
    if (!args->files_from || strcmp(args->files_from, "-") == 0) return LS_SUCCESS;
    return ls_expect_file_type(args->files_from, ~(1u << LS_FILE_TYPE_MISSING), "a file of names (--files-from)");
}
