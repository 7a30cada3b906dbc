#include "command/help/help.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include "base/paragraph.h"
#include "base/text.h"
#include "config/aliases.h"
#include "config/config.h"
#include "model/graph.h"

enum { TEXT_BYTES = 512, NAMED_BYTES = 4096 };
enum { INDENT = 2, OPTION_COLUMNS = 26, COMMAND_COLUMNS = 15, CODE_COLUMNS = 4, TOPIC_COLUMNS = 24 };

// ---- parts ----

// Writes the option's help, with its default in parentheses, into dst. Returns dst.
static const char *option_text(const ls_command_option *option, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    ls_text_put(&room, "%s", option->help);
    if (option->kind == LS_VALUE_WHOLE || option->kind == LS_VALUE_REAL)
        ls_text_put(&room, " (default %g)", option->preset);
    if (option->kind == LS_VALUE_CHOICE)
        ls_text_put(&room, " (default %.*s)", (int)strcspn(option->argument, "|"), option->argument);
    return dst;
}

// Writes the option and its argument, "--seconds S", into dst. Returns dst.
static const char *option_left(const ls_command_option *option, char *dst, size_t bytes) {
    snprintf(dst, bytes, "%s%s%s", option->name, option->argument[0] ? " " : "", option->argument);
    return dst;
}

// Writes a command's purpose as a sentence into dst: with a capital and a full stop. Returns dst.
static const char *purpose_of(const ls_command_row *row, char *dst, size_t bytes) {
    const size_t length = strlen(row->purpose);
    snprintf(dst, bytes, "%s%s", row->purpose, length && row->purpose[length - 1] == '?' ? "" : ".");
    dst[0] = (char)toupper((unsigned char)dst[0]);
    return dst;
}

// Copies a text of the tables, which call the program "./train", into dst (NAMED_BYTES) with `program` in its place.
// Returns dst.
static const char *named_text(const char *text, const char *program, char *dst) {
    static const char own[] = "./train";
    ls_text_room room = { dst, NAMED_BYTES };
    dst[0] = '\0';
    for (const char *next; (next = strstr(text, own)); text = next + strlen(own))
        ls_text_put(&room, "%.*s%s", (int)(next - text), text, program);
    ls_text_put(&room, "%s", text);
    return dst;
}

// Splits the next line of `exits` (commands.def) into code and text, and moves *at past it. Returns 0 at the end.
static int next_exit(const char **at, char code[16], char text[TEXT_BYTES]) {
    if (!**at) return 0;
    const size_t digits = strcspn(*at, " "), length = strcspn(*at, "\n");
    snprintf(code, 16, "%2.*s", (int)digits, *at);
    snprintf(text, TEXT_BYTES, "%.*s", (int)(length - digits - 1), *at + digits + 1);
    *at += length + ((*at)[length] != '\0');
    return 1;
}

static void print_options(FILE *file, ls_command command, int of_all) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        char left[TEXT_BYTES], text[TEXT_BYTES];
        if (!ls_command_takes(command, option) || (option->kind == LS_VALUE_TOPIC) != of_all) continue;
        option_left(option, left, sizeof left);
        ls_paragraph_row(file, left, option_text(option, text, sizeof text), INDENT, OPTION_COLUMNS);
    }
}

static void print_exits(FILE *file, const char *exits) {
    char code[16], text[TEXT_BYTES];
    while (next_exit(&exits, code, text)) ls_paragraph_row(file, code, text, INDENT, CODE_COLUMNS);
}

static void print_examples(FILE *file, const char *text, const char *program) {
    char named[NAMED_BYTES];
    const char *lines = named_text(text, program, named);
    fputs(strchr(lines, '\n') ? "\nExamples\n" : "\nExample\n", file);
    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines != '\0')
        fprintf(file, "%*s%.*s\n", INDENT, "", (int)strcspn(lines, "\n"), lines);
}

// ---- commands ----

static void print_command(FILE *file, ls_command command, const char *program) {
    static const char *const ranks[] = { [LS_RANKS_ALL] = "All ranks work that mpirun or srun starts.",
        [LS_RANKS_FIRST] = "One rank works; more would wait for it." };
    const ls_command_row *row = ls_command_at(command);
    const char *name = program + 2 * (strncmp(program, "./", 2) == 0);
    fprintf(file, "%s%s%s%s%s [OPTION]...\n\n", name, command ? " " : "", command ? row->word : "",
        row->usage[0] ? " " : "", row->usage);
    char purpose[TEXT_BYTES];
    fprintf(file, "%s\n", purpose_of(row, purpose, sizeof purpose));
    ls_paragraph(file, row->more, 0, 0);
    fprintf(file, "%s\n\nOptions\n", ranks[row->ranks]);
    print_options(file, command, 0);
    print_options(file, command, 1);
    print_examples(file, row->example, program);
    fputs("\nExit codes (others: train help exit-codes)\n", file);
    if (row->exits[0] != '0') print_exits(file, "0 completed");
    print_exits(file, row->exits);
}

static void print_overview(FILE *file, const char *program) {
    fprintf(file,
        "Lockstep trains convolutional networks in step on many devices: one process\n"
        "(rank) for each.\n\n"
        "  mpirun -np N %s CONFIG.ini      N ranks; alone it is one\n\n"
        "Commands\n",
        program);
    for (int i = 0; i < LS_COMMAND_COUNT; i++) {
        const ls_command_row *row = ls_command_at((ls_command)i);
        ls_paragraph_row(file, i ? row->word : row->usage, row->purpose, INDENT, COMMAND_COLUMNS);
    }
    fputs("\nOptions of a training run\n", file);
    print_options(file, LS_COMMAND_TRAIN, 0);
    char line[TEXT_BYTES];
    fprintf(file, "\n%s COMMAND --help is about a command, help TOPIC about a topic:\n", program);
    ls_text_room room = { line, sizeof line };
    int count;
    const ls_help_topic *topics = ls_help_topics(&count);
    for (int i = 0; i < count; i++) ls_text_put(&room, "%s%s", topics[i].word, i < count - 1 ? ", " : "");
    fprintf(file, "%*s", INDENT, "");
    ls_paragraph(file, line, INDENT, INDENT);
}

// ---- topics ----

// Prints the list of topics, for `train help help`.
static void print_topics(FILE *file) {
    int count;
    const ls_help_topic *topics = ls_help_topics(&count);
    fputs("\nTopics\n", file);
    for (int i = 0; i < count; i++) {
        char left[TEXT_BYTES];
        snprintf(left, sizeof left, "%s%s%s", topics[i].word, topics[i].usage[0] ? " " : "", topics[i].usage);
        ls_paragraph_row(file, left, topics[i].purpose, INDENT, TOPIC_COLUMNS);
    }
}

static void print_prose(FILE *file, const ls_help_topic *topic, const char *program) {
    char left[NAMED_BYTES];
    int columns = 0;
    if (topic->text) ls_paragraph(file, topic->text, 0, 0);
    if (topic->text && topic->rows) fputc('\n', file);
    for (const ls_help_row *row = topic->rows; row && row->left; row++) {
        const int length = (int)strlen(named_text(row->left, program, left));
        if (length > columns) columns = length;
    }
    for (const ls_help_row *row = topic->rows; row && row->left; row++)
        ls_paragraph_row(file, named_text(row->left, program, left), row->right, INDENT, columns + 2);
}

static int is_section(const char *word) {
    const char *name;
    char value[LS_TEXT_BYTES];
    const size_t length = strlen(word);
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++)
        if (strncmp(name, word, length) == 0 && name[length] == '.') return 1;
    return 0;
}

// Returns the kind of layer that a word means, in any spelling or in another program's word; or NULL.
static const char *find_layer(const char *word) {
    const ls_alias *alias = ls_alias_find(LS_ALIAS_LAYER, "", word);
    for (int k = 0; k < LS_LAYER_COUNT; k++)
        if (ls_text_same_letters(ls_layer_kind_name((ls_layer_kind)k), word))
            return ls_layer_kind_name((ls_layer_kind)k);
    return alias && alias->ours[0] ? alias->ours : NULL;
}

static ls_status unknown_topic(const char *word) {
    const char *known[LS_COMMAND_COUNT + LS_HELP_TOPICS_MAX], *ours;
    char hint[LS_HINT_BYTES];
    int count = 0, topic_count;
    const ls_help_topic *topics = ls_help_topics(&topic_count);
    for (; count < LS_COMMAND_COUNT; count++) known[count] = ls_command_at((ls_command)count)->word;
    for (int i = 0; i < topic_count; i++) known[count++] = topics[i].word;
    if (is_section(word))
        return ls_fail(LS_USAGE, "no help about '%s'; did you mean 'train help options %s'?", word, word);
    const char *layer = find_layer(word);
    if (layer) return ls_fail(LS_USAGE, "no help about '%s'; did you mean 'train help layers %s'?", word, layer);
    if (*ls_hint(LS_ALIAS_COMMAND, "", word, known, count, "''", hint))
        return ls_fail(LS_USAGE, "no help about '%s'%s", word, hint);
    const char *option = ls_config_option_of_word(word, &ours);
    if (option)
        return ls_fail(LS_USAGE, "no help about '%s'; %s = %s is explained by 'train help options %s'", word, option,
            ours, option);
    option = ls_config_meant(word);
    if (option) return ls_fail(LS_USAGE, "no help about '%s'; did you mean 'train help options %s'?", word, option);
    return ls_fail(LS_USAGE, "no help about '%s'; 'train help' lists commands and topics", word);
}

static ls_status too_many(const char *topic, const char *word) {
    return ls_fail(LS_USAGE, "'%s' is one word too many: train help %s", word, topic);
}

// Returns the most words that may follow a topic's own word; INT_MAX: no limit.
static int words_of(const char *usage) {
    int count = usage[0] != '\0';
    if (strstr(usage, "...")) return INT_MAX;
    for (; *usage; usage++) count += *usage == ' ';
    return count;
}

static ls_status print_topic(const char *program, const char *const *words, int count, FILE *file) {
    int topic_count;
    const ls_help_topic *topics = ls_help_topics(&topic_count);
    for (int i = 0; i < topic_count; i++) {
        if (strcmp(topics[i].word, words[0]) != 0) continue;
        const int most = words_of(topics[i].usage);
        if (count - 1 > most) return too_many(words[0], words[1 + most]);
        if (topics[i].print) return topics[i].print(file, words + 1, count - 1);
        print_prose(file, &topics[i], program);
        return LS_SUCCESS;
    }
    return unknown_topic(words[0]);
}

ls_status ls_help_print(const char *program, const char *const *words, int count, FILE *file) {
    const ls_command command = count > 0 ? ls_command_find(words[0]) : LS_COMMAND_COUNT;
    if (count == 0)
        print_overview(file, program);
    else if (command == LS_COMMAND_COUNT)
        return print_topic(program, words, count, file);
    else if (count > 1)
        return too_many(words[0], words[1]);
    else
        print_command(file, command, program);
    if (command == LS_COMMAND_HELP) print_topics(file);
    return LS_SUCCESS;
}
