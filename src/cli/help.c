#include "cli/help.h"

#include <ctype.h>
#include <string.h>
#include "base/text.h"
#include "base/version.h"
#include "cli/command_table.h"
#include "config/config.h"
#include "dist/comm.h"

enum { INDENT = 2, LEFT_COLUMNS = 26, TEXT_BYTES = 512 };

// ---- paragraphs ----

// Words of `text` from column `at` on (where the cursor stands) in lines of LS_HELP_COLUMNS, each indented by `indent`; a newline in the
// text begins a line.
static void wrap(FILE *file, const char *text, int at, int indent) {
    int column = at, first = 1;
    for (; *text; first = 0) {
        const int length = (int)strcspn(text, " \n");
        const int space = !first && column > indent;
        if (column > indent && column + space + length > LS_HELP_COLUMNS) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (space) {
            fputc(' ', file);
            column++;
        }
        fprintf(file, "%.*s", length, text);
        column += length;
        text += length;
        if (*text == '\n') {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        }
        text += *text != '\0';
    }
    fputc('\n', file);
}

// "  left        right", right in lines of its own column.
static void print_row(FILE *file, const char *left, int columns, const char *right) {
    int at = fprintf(file, "%*s%s", INDENT, "", left);
    const int indent = INDENT + columns;
    if (at >= indent) {
        fputc('\n', file);
        at = 0;
    }
    fprintf(file, "%*s", indent - at, "");
    wrap(file, right, indent, indent);
}

static void print_paragraphs(FILE *file, const char *text) {
    for (const char *end; *text; text = end + (*end != '\0')) {
        char paragraph[2048];
        end = text + strcspn(text, "\n");
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        wrap(file, paragraph, 0, 0);
    }
}

static void print_lines(FILE *file, const char *lines) {
    for (const char *end; *lines; lines = end + (*end != '\0')) {
        end = lines + strcspn(lines, "\n");
        fprintf(file, "%*s%.*s\n", INDENT, "", (int)(end - lines), lines);
    }
}

// ---- commands ----

// "so many updates (default 10)"
static const char *option_help(const ls_command_option *option, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    ls_text_put(&room, "%s", option->help);
    if (option->kind == LS_VALUE_WHOLE || option->kind == LS_VALUE_REAL)
        ls_text_put(&room, " (default %g)", option->preset);
    if (option->kind == LS_VALUE_CHOICE)
        ls_text_put(&room, " (default %.*s)", (int)strcspn(option->argument, "|"), option->argument);
    return dst;
}

static void print_options(FILE *file, ls_command command, int of_all) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        char left[TEXT_BYTES], help[TEXT_BYTES];
        if (!ls_command_takes(command, option) || (option->kind == LS_VALUE_TOPIC) != of_all) continue;
        snprintf(left, sizeof left, "%s%s%s", option->name, option->argument[0] ? " " : "", option->argument);
        print_row(file, left, LEFT_COLUMNS, option_help(option, help, sizeof help));
    }
}

static void print_exits(FILE *file, const char *exits) {
    for (const char *end; *exits; exits = end + (*end != '\0')) {
        char code[16], text[TEXT_BYTES];
        const size_t digits = strcspn(exits, " ");
        end = exits + strcspn(exits, "\n");
        snprintf(code, sizeof code, "%2.*s", (int)digits, exits);
        snprintf(text, sizeof text, "%.*s", (int)(end - exits - (ptrdiff_t)digits - 1), exits + digits + 1);
        print_row(file, code, 4, text);
    }
}

static void print_command(FILE *file, ls_command command) {
    static const char *const ranks[] = { [LS_RANKS_ALL] = "All ranks work that mpirun or srun starts.",
        [LS_RANKS_FIRST] = "One rank works; more ranks would wait for it.",
        [LS_RANKS_ONE] = "For one rank: without mpirun." };
    const ls_command_row *row = ls_command_at(command);
    char text[LS_COMMAND_TEXT_BYTES];
    fprintf(file, "%s%s%s [OPTION]...\n\n", ls_command_text(command, text), row->usage[0] ? " " : "", row->usage);
    fprintf(file, "%c%s.\n", toupper((unsigned char)row->purpose[0]), row->purpose + 1);
    print_paragraphs(file, row->more);
    fprintf(file, "%s\n\nOptions\n", ranks[row->ranks]);
    print_options(file, command, 0);
    print_options(file, command, 1);
    fputs(strchr(row->example, '\n') ? "\nExamples\n" : "\nExample\n", file);
    print_lines(file, row->example);
    fputs("\nExit codes (others: train help exit-codes)\n", file);
    if (row->exits[0] != '0') print_exits(file, "0 completed");
    print_exits(file, row->exits);
}

static void print_overview(FILE *file) {
    fputs("Lockstep trains convolutional networks in step on many devices: one process\n"
          "(rank) per device.\n\n"
          "  mpirun -np N ./train CONFIG.ini    N ranks; alone, ./train CONFIG.ini is one\n\n"
          "Commands\n",
        file);
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        const ls_command_row *row = ls_command_at((ls_command)i);
        print_row(file, i ? row->word : row->usage, 14, row->purpose);
    }
    fputs("\nOptions of a training run\n", file);
    print_options(file, LS_COMMAND_TRAIN, 0);
    fputs("\ntrain COMMAND --help is about a command, train help TOPIC about a topic.\n", file);
}

// ---- topics ----

static void print_exit_codes(FILE *file) {
#define EXIT_LINE(name, exit_code, meaning) print_exits(file, #exit_code " " meaning);
    LS_CODES(EXIT_LINE)
#undef EXIT_LINE
}

static void print_version(FILE *file) {
    fprintf(file, "lockstep %s\ncompiler   %s\nlibraries  %s, %s\n", ls_version(), ls_version_compiler(),
        ls_version_libraries(), ls_comm_library());
}

static const struct {
    const char *word;
    void (*print)(FILE *file);
} topics[] = { { "exit-codes", print_exit_codes }, { "options", ls_config_list }, { "version", print_version } };
enum { TOPICS = sizeof topics / sizeof topics[0] };

static ls_status unknown_topic(const char *word) {
    const char *known[LS_COMMAND_COUNT + TOPICS];
    int count = 0;
    for (; count < LS_COMMAND_COUNT; count++) known[count] = ls_command_at((ls_command)count)->word;
    for (int i = 0; i < TOPICS; i++) known[count++] = topics[i].word;
    const char *nearest = ls_text_nearest(word, known, count);
    if (nearest) return ls_fail(LS_USAGE, "no help about '%s'; did you mean '%s'?", word, nearest);
    return ls_fail(LS_USAGE, "no help about '%s'; 'train help' lists commands and topics", word);
}

ls_status ls_help_print(const char *const *words, int count, FILE *file) {
    if (count == 0) {
        print_overview(file);
        return LS_SUCCESS;
    }
    if (count > 1) return ls_fail(LS_USAGE, "'%s' is one word too many: train help %s", words[1], words[0]);
    const ls_command command = ls_command_find(words[0]);
    if (command != LS_COMMAND_COUNT) {
        print_command(file, command);
        return LS_SUCCESS;
    }
    for (int i = 0; i < TOPICS; i++) {
        if (strcmp(topics[i].word, words[0]) != 0) continue;
        topics[i].print(file);
        return LS_SUCCESS;
    }
    return unknown_topic(words[0]);
}
