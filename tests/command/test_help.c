// What `train help` prints: complete, true to the tables, on a screen.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/paragraph.h"
#include "command/help/help.h"
#include "support/cmocka.h"
#include "support/must.h"

// What `train help WORD...` prints; free() it.
static char *help_about(const char *const *words, int count) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    must(ls_help_print("./train", words, count, file));
    fclose(file);
    return text;
}

static void check_screen(const char *text, const char *about, int least, int most) {
    int lines = 0;
    for (const char *end; *text; text = end + (*end != '\0'), lines++) {
        end = text + strcspn(text, "\n");
        if (end - text > LS_SCREEN_COLUMNS)
            fail_msg("%s: %d columns: %.*s", about, (int)(end - text), (int)(end - text), text);
        if (end > text && end[-1] == ' ') fail_msg("%s: a space at an end: %.*s", about, (int)(end - text), text);
    }
    if (lines < least || lines > most) fail_msg("%s: %d lines", about, lines);
}

static void needs(const char *text, const char *about, const char *part) {
    if (!strstr(text, part)) fail_msg("help about %s has no '%s'", about, part);
}

static void one_screen_about_all(void **state) {
    (void)state;
    char *text = help_about(NULL, 0), line[64];
    check_screen(text, "train", 24, 40);
    for (int i = 1; i < LS_COMMAND_COUNT; i++) {
        snprintf(line, sizeof line, "\n  %s ", ls_command_at((ls_command)i)->word);
        needs(text, "all", line);
    }
    free(text);
}

static void each_command(void **state) {
    (void)state;
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        const ls_command_row *row = ls_command_at((ls_command)i);
        char *text = help_about(&row->word, 1);
        check_screen(text, row->word, 12, 50);
        needs(text, row->word, row->usage);
        if (strlen(row->purpose) > 64) fail_msg("%s: a purpose of %zu columns", row->word, strlen(row->purpose));
        for (int k = 0; k < ls_command_option_count(); k++) {
            char line[64];
            const ls_command_option *option = ls_command_option_at(k);
            snprintf(line, sizeof line, "\n  %s ", option->name);
            const int there = strstr(text, line) != NULL;
            if (there != ls_command_takes((ls_command)i, option)) fail_msg("%s: %s", row->word, option->name);
        }
        free(text);
    }
}

// The words of a command line, in place, behind the program's name. Returns their number.
static int cut(char *line, char **argv, int most) {
    int count = 0, at_program = 0;
    char *rest;
    for (char *word = strtok_r(line, " ", &rest); word && count < most; word = strtok_r(NULL, " ", &rest)) {
        at_program = at_program || strcmp(word, "./train") == 0;
        if (at_program) argv[count++] = word;
    }
    return count;
}

// Every example is one of its command, as the program itself reads it.
static void examples_are_accepted(void **state) {
    (void)state;
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        char lines[1024], *rest;
        snprintf(lines, sizeof lines, "%s", ls_command_at((ls_command)i)->example);
        assert_true(lines[0]);
        for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
            char *argv[32];
            ls_args args;
            if (strlen(line) > LS_SCREEN_COLUMNS - 2) fail_msg("an example of %zu columns: %s", strlen(line), line);
            const int argc = cut(line, argv, 32);
            ls_status status = ls_args_parse(argc, argv, &args);
            if (ls_failed(status)) fail_msg("example of %s: %s", ls_command_at((ls_command)i)->word, status.text);
            assert_int_equal(args.command, i);
            ls_args_free(&args);
        }
    }
}

// What a table names is there.
static void names_are_known(void **state) {
    (void)state;
    for (int k = 0; k < ls_command_option_count(); k++) {
        char words[256], *rest;
        snprintf(words, sizeof words, "%s", ls_command_option_at(k)->commands);
        if (strcmp(words, "*") == 0) continue;
        for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            if (ls_command_find(word) == LS_COMMAND_COUNT)
                fail_msg("%s: no command %s", ls_command_option_at(k)->name, word);
    }
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        ls_usage_word word;
        for (int w = 0; w < 4 && ls_usage_word_at((ls_command)i, w, &word); w++)
            if (!word.is_action && strcmp(word.noun, "action") == 0)
                fail_msg("%s: '%s' is no WORD row", ls_command_at((ls_command)i)->word, word.name);
    }
}

static void topics(void **state) {
    (void)state;
    static const struct {
        const char *words[2], *part, *no_part;
    } rows[] = {
        { { "exit-codes" }, "\n  75  stopped", NULL },
        { { "options" }, "\n[optimizer]\n", NULL },
        { { "options", "optimizer" }, "[optimizer]\n  kind ", "[train]" },
        { { "options", "optimizer.lr" }, "[optimizer]\n  lr ", "kind" },
        { { "layers" }, "\n  conv2d          Convolution", "Keys" },
        { { "layers", "conv2d" },
            "\n  out_channels    channels of the output: whole, 1 to 65536, or classes (needed)\n", "linear" },
        { { "layers", "conv2d" }, "(default 1)\n", NULL },
        { { "layers", "relu" },
            "Input: a map or a vector. Output: of the same shape.\n\nExample\n  [name]\n  layer = relu\n", "Keys" },
        { { "config" }, "INI file", NULL },
        { { "stopping" }, "\n  --resume ", NULL },
        { { "environment" }, "  NO_COLOR ", NULL },
        { { "version" }, "compiler", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = help_about(rows[i].words, rows[i].words[1] ? 2 : 1);
        needs(text, rows[i].words[0], rows[i].part);
        if (rows[i].no_part && strstr(text, rows[i].no_part))
            fail_msg("help about %s has '%s'", rows[i].words[0], rows[i].no_part);
        free(text);
    }
}

// What is prose is on a screen; `options` has lines of its own width.
static void topics_are_on_screens(void **state) {
    (void)state;
    int count;
    const ls_help_topic *topics = ls_help_topics(&count);
    assert_true(count <= LS_HELP_TOPICS_MAX);
    for (int i = 0; i < count; i++) {
        if (topics[i].print && strcmp(topics[i].word, "layers") != 0) continue;
        char *text = help_about(&topics[i].word, 1);
        check_screen(text, topics[i].word, 2, 100);
        free(text);
    }
}

// Where the program has another name, nothing on a screen has the one that it has here.
static void by_another_name(void **state) {
    (void)state;
    static const char *const about[] = { NULL, "train", "bench", "config" };
    for (size_t i = 0; i < sizeof about / sizeof about[0]; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *file = open_memstream(&text, &bytes);
        assert_non_null(file);
        must(ls_help_print("lockstep-train", &about[i], about[i] != NULL, file));
        fclose(file);
        needs(text, "the name", "lockstep-train ");
        if (strstr(text, "./train") || strstr(text, "\ntrain ")) fail_msg("of another name: %s", text);
        check_screen(text, "lockstep-train", 12, 50);
        free(text);
    }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *words[3], *message;
    } rows[] = {
        { { "benhc" }, "no help about 'benhc'; did you mean 'bench'?" },
        { { "xyzzy" }, "no help about 'xyzzy'; 'train help' lists commands and topics" },
        { { "exit-code" }, "no help about 'exit-code'; did you mean 'exit-codes'?" },
        { { "bench", "x" }, "'x' is one word too many: train help bench" },
        { { "version", "x" }, "'x' is one word too many: train help version" },
        { { "options", "optimiser" }, "no option or section 'optimiser'; did you mean optimizer?" },
        { { "options", "optimizer.kinds" }, "no option or section 'optimizer.kinds'; did you mean optimizer.kind?" },
        { { "options", "xyzzy" }, "no option or section 'xyzzy'; 'train help options' lists all" },
        { { "layers", "conv2" }, "no kind of layer 'conv2'; did you mean 'conv2d'?" },
        { { "layers", "xyzzy" }, "no kind of layer 'xyzzy'; 'train help layers' lists all" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_status status = ls_help_print("./train", rows[i].words, rows[i].words[1] ? 2 : 1, stdout);
        if (status.code != LS_USAGE || strcmp(status.text, rows[i].message) != 0)
            fail_msg("row %zu: code %d, text '%s'", i, status.code, status.text ? status.text : "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_screen_about_all),
        cmocka_unit_test(each_command),
        cmocka_unit_test(examples_are_accepted),
        cmocka_unit_test(names_are_known),
        cmocka_unit_test(topics),
        cmocka_unit_test(topics_are_on_screens),
        cmocka_unit_test(by_another_name),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
