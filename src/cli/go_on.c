#include "cli/go_on.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "system/signals.h"
#include "base/text.h"
#include "command/launcher.h"

// Appends a word, in quotes if a shell may require them, and a space before it unless it is the first.
static void put_word(ls_text_room *room, const char *word, int first) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    ls_text_put(room, "%s", first ? "" : " ");
    if (word[0] && strspn(word, plain) == strlen(word)) {
        ls_text_put(room, "%s", word);
        return;
    }
    ls_text_put(room, "'");
    for (; *word; word++) ls_text_put(room, *word == '\'' ? "'\\''" : "%c", *word);
    ls_text_put(room, "'");
}

// Appends the words of mpirun's command line that come before the program. Returns 0 if they are not known.
static int put_launcher(ls_text_room *room, const char *program) {
    char words[LS_LAUNCHER_BYTES], *end = words + ls_launcher_command(words);
    const char *at = words;
    int found = 0;
    while (at < end && !(found = strcmp(at, program) == 0)) at += strlen(at) + 1;
    if (!found) return 0;
    for (const char *word = words; word < at; word += strlen(word) + 1) put_word(room, word, word == words);
    return 1;
}

// Appends the words of this process's command line, without --resume and --run-dir.
static void put_words(ls_text_room *room, const ls_args *args, int first) {
    for (int i = 0; i < args->argc; i++) {
        const char *word = args->argv[i];
        if (strcmp(word, "--resume") == 0 || strncmp(word, "--run-dir=", 10) == 0) continue;
        if (strcmp(word, "--run-dir") == 0)
            i++;
        else
            put_word(room, word, first && i == 0);
    }
}

char *ls_go_on_command(const ls_args *args, int world_size, const char *folder, char *dst) {
    ls_text_room room = { dst, LS_GO_ON_BYTES };
    dst[0] = '\0';
    int known = world_size == 1;
    for (int i = 0; i < args->argc; i++) known = known && strcmp(args->argv[i], "--") != 0;
    const int launched = put_launcher(&room, args->argc ? args->argv[0] : "");
    if (launched || known)
        put_words(&room, args, !launched);
    else
        ls_text_put(&room, "the same command with");
    put_word(&room, "--run-dir", 0);
    put_word(&room, folder, 0);
    put_word(&room, "--resume", 0);
    return dst;
}

void ls_go_on_announce(const ls_args *args, int world_size, const char *folder, int has_bar) {
    static char first[256], second[LS_GO_ON_BYTES + 256]; // static: a signal handler prints them later
    char command[LS_GO_ON_BYTES];
    // The message starts on a new line after the "^C" of the terminal, or replaces the bar together with the "^C".
    const char *before = has_bar ? "\r\033[K" : isatty(STDERR_FILENO) ? "\n" : "";
    snprintf(first, sizeof first,
        "%sstopping: a checkpoint is written after this update; another Ctrl-C ends at once\n", before);
    snprintf(second, sizeof second, "%sended at once; from the newest checkpoint it goes on by\n  %s\n", before,
        ls_go_on_command(args, world_size, folder, command));
    ls_signals_say(first, second);
}
