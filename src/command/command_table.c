#include "command/command_table.h"

#include <stdio.h>
#include <string.h>
#include "config/file_type.h"

enum { PRINTS, KEEPS_ON };
enum { ALL = LS_RANKS_ALL, FIRST = LS_RANKS_FIRST };

static const ls_command_row commands[LS_COMMAND_COUNT] = {
#define COMMAND(ID, NAME, word_, usage_, lines_, ranks_, purpose_, more_, example_, exits_) \
    { .word = word_, \
        .usage = usage_, \
        .purpose = purpose_, \
        .more = more_, \
        .example = example_, \
        .exits = exits_, \
        .keeps_on = lines_, \
        .ranks = (ls_command_ranks)ranks_ },
#include "command/commands.def"
};

// The offset of a field of ls_args. Does not compile if the field has another type.
#define OFFSET(field, type) _Generic(((ls_args *)0)->field, type : offsetof(ls_args, field))

static const struct {
    const char *name;
    size_t offset;
    const char *noun, *suffixes;
    unsigned accepts;
} words[] = {
#define IS(type) (1u << LS_FILE_TYPE_##type)
#define ANY (~0u)
#define NO_PATH 0
#define WORD(name, field, noun, files, accepts) \
    { name, _Generic(((ls_args *)0)->field, const char * : 0, const char ** : 0) + offsetof(ls_args, field), noun, \
        files, accepts },
#include "command/commands.def"
};

enum { SHARED, ALONE };
#define FLAG(field) .kind = LS_VALUE_FLAG, .offset = OFFSET(field, int)
#define TEXT(field) .kind = LS_VALUE_TEXT, .offset = OFFSET(field, const char *)
#define LIST(field, count, most_, advice) \
    .kind = LS_VALUE_LIST, .offset = OFFSET(field, const char **), .second = OFFSET(count, int), .most = most_, \
    .text = advice
#define WHOLE(field, preset_, least_, most_) \
    .kind = LS_VALUE_WHOLE, .offset = offsetof(ls_args, field), \
    .size = _Generic(((ls_args *)0)->field, int \
                     : sizeof(int), int64_t \
                     : sizeof(int64_t)), \
    .preset = preset_, .least = least_, .most = most_
#define REAL(field, preset_, least_, most_) \
    .kind = LS_VALUE_REAL, .offset = OFFSET(field, double), .preset = preset_, .least = least_, .most = most_
#define CHOICE(field) .kind = LS_VALUE_CHOICE, .offset = OFFSET(field, int)
#define RANGE(from, to) .kind = LS_VALUE_RANGE, .offset = OFFSET(from, int64_t), .second = OFFSET(to, int64_t)
#define TOPIC(topic) .kind = LS_VALUE_TOPIC, .text = topic

static const ls_command_option options[] = {
#define OPTION(name_, argument_, value_, ranks_, commands_, help_) \
    { .name = name_, .argument = argument_, .alone = ranks_, .commands = commands_, .help = help_, value_ },
#include "command/command_options.def"
};

const ls_command_row *ls_command_at(ls_command command) {
    return &commands[command];
}

char *ls_command_text(ls_command command, char *dst) {
    snprintf(dst, LS_COMMAND_TEXT_BYTES, "train%s%s", command ? " " : "", command ? commands[command].word : "");
    return dst;
}

ls_command ls_command_find(const char *word) {
    int i = 0;
    while (i < LS_COMMAND_COUNT && strcmp(commands[i].word, word) != 0) i++;
    return (ls_command)i;
}

int ls_word_index(const char *list, char cut, const char *word) {
    const size_t length = strlen(word);
    for (int i = 0; *list; i++) {
        const char *end = strchr(list, cut);
        const size_t size = end ? (size_t)(end - list) : strlen(list);
        if (size == length && strncmp(list, word, length) == 0) return i;
        list += size + (end != NULL);
    }
    return -1;
}

// Copies the next word of a usage, with its brackets and dots, into dst and moves *at past it. Returns 0 at the end.
static int next_word(const char **at, char *dst, size_t bytes) {
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, " ");
    snprintf(dst, bytes, "%.*s", (int)length, *at);
    *at += length;
    return length > 0;
}

static void explain(ls_usage_word *word) {
    word->is_action = strchr(word->name, '|') != NULL;
    word->noun = "action";
    word->suffixes = "";
    word->offset = offsetof(ls_args, action);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].name, word->name) != 0) continue;
        word->noun = words[i].noun;
        word->suffixes = words[i].suffixes;
        word->accepts = words[i].accepts;
        word->offset = words[i].offset;
    }
    word->is_files = word->offset == offsetof(ls_args, files);
}

// Takes a word of a usage apart: "[TOPIC...]" is the name TOPIC, optional, and may be repeated.
static void unwrap(char *text, ls_usage_word *out) {
    size_t length = strlen(text);
    out->optional = text[0] == '[';
    if (out->optional) text[--length] = '\0';
    out->many = length > 3 && strcmp(text + length - 3, "...") == 0;
    if (out->many) text[length - 3] = '\0';
    snprintf(out->name, sizeof out->name, "%s", text + out->optional);
}

int ls_usage_word_at(ls_command command, int index, ls_usage_word *out) {
    const char *at = commands[command].usage;
    char text[sizeof out->name];
    *out = (ls_usage_word){ 0 };
    for (int i = 0; i <= index && !out->many; i++) {
        if (!next_word(&at, text, sizeof text) || text[0] == '-') return 0;
        unwrap(text, out);
    }
    explain(out);
    return 1;
}

int ls_command_option_count(void) {
    return sizeof options / sizeof options[0];
}

const ls_command_option *ls_command_option_at(int index) {
    return &options[index];
}

int ls_command_takes(ls_command command, const ls_command_option *option) {
    return strcmp(option->commands, "*") == 0 || ls_word_index(option->commands, ' ', commands[command].word) >= 0;
}

int ls_command_needs(ls_command command, const ls_command_option *option) {
    return ls_word_index(commands[command].usage, ' ', option->name) >= 0;
}
