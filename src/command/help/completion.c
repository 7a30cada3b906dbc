// completion.c - the words that a shell offers as the next word of a command line. The scripts for the shells
// (scripts/completion) ask the program, so the offers always belong to the installed version.
#include <ctype.h>
#include <string.h>
#include "base/text.h"
#include "command/help/help.h"
#include "config/config.h"

enum { WORD_BYTES = 256, WORDS_BYTES = 4096 };

typedef struct {
    FILE *file;
    const char *prefix;  // first part of the word at the cursor, printed before each offer: "--set="
    const char *current; // rest of the word at the cursor, as typed so far; only offers that begin with it are printed
} offers;

static void offer(const offers *o, const char *word, const char *suffix, const char *what) {
    if (strncmp(word, o->current, strlen(o->current)) != 0) return;
    fprintf(o->file, "%s%s%s%s%s\n", o->prefix, word, suffix, what[0] ? "\t" : "", what);
}

// Offers each of `words`, which are separated by one of the characters in `cuts`.
static void offer_words(const offers *o, const char *words, const char *cuts) {
    while (*words) {
        char word[WORD_BYTES];
        const size_t length = strcspn(words, cuts);
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        offer(o, word, "", "");
        words += length + (words[length] != '\0');
    }
}

static void offer_files(const offers *o, const char *suffixes) {
    fprintf(o->file, ":files %s\n", suffixes);
}

static void offer_commands(const offers *o, int from) {
    for (int i = from; i < LS_COMMAND_COUNT; i++)
        offer(o, ls_command_at((ls_command)i)->word, "", ls_command_at((ls_command)i)->purpose);
}

static void offer_options(const offers *o, ls_command command) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        if (ls_command_takes(command, option)) offer(o, option->name, "", option->help);
    }
}

// Offers the options of the configuration with the text `suffix` after each, or its sections if `sections` is 1.
static void offer_config(const offers *o, const char *suffix, int sections) {
    ls_config cfg;
    char value[LS_TEXT_BYTES], section[WORD_BYTES] = "";
    const char *name;
    ls_config_defaults(&cfg);
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++) {
        const size_t length = strcspn(name, ".");
        if (!sections) {
            offer(o, name, suffix, "");
        } else if (strlen(section) != length || strncmp(section, name, length) != 0) {
            snprintf(section, sizeof section, "%.*s", (int)length, name);
            offer(o, section, "", "");
        }
    }
}

// Completes section.key=value: before the "=" it offers names, after it the words that the option takes.
static void offer_setting(const offers *o) {
    const char *equals = strchr(o->current, '='), *name;
    ls_config cfg;
    char words[WORDS_BYTES], prefix[WORD_BYTES], value[LS_TEXT_BYTES];
    if (!equals) {
        fputs(":nospace\n", o->file);
        offer_config(o, "=", 0);
        return;
    }
    const size_t length = (size_t)(equals - o->current);
    snprintf(prefix, sizeof prefix, "%s%.*s=", o->prefix, (int)length, o->current);
    const offers values = { o->file, prefix, equals + 1 };
    ls_config_defaults(&cfg);
    for (int i = 0; ls_config_value(&cfg, i, &name, value, sizeof value); i++)
        if (strlen(name) == length && strncmp(name, o->current, length) == 0)
            offer_words(&values, ls_config_words(i, words, sizeof words), " ");
}

// Offers values for an option, by the name of its argument: section.key=value, strong|weak, DIR, FILE or CONFIG.ini.
// Other arguments are numbers or free texts, for which nothing is offered.
static void offer_value(const offers *o, const ls_command_option *option) {
    const char *argument = option->argument, *dot = strchr(argument, '.');
    char suffixes[WORD_BYTES];
    if (strcmp(argument, "section.key=value") == 0)
        offer_setting(o);
    else if (strchr(argument, '|'))
        offer_words(o, argument, "|");
    else if (strcmp(argument, "DIR") == 0)
        offer_files(o, "/");
    else if (strcmp(argument, "FILE") == 0)
        offer_files(o, "*");
    else if (isupper((unsigned char)argument[0]) && dot) {
        snprintf(suffixes, sizeof suffixes, "%s", dot + 1);
        offer_files(o, suffixes);
    }
}

// Offers the words of `train help`: at place 0 commands and topics, at place 1 the words that `topic` takes.
static void offer_topics(const offers *o, const char *topic, int place) {
    int count;
    const ls_help_topic *topics = ls_help_topics(&count);
    if (place == 0) {
        offer_commands(o, 0);
        for (int i = 0; i < count; i++) offer(o, topics[i].word, "", topics[i].purpose);
    } else if (place == 1 && strcmp(topic, "options") == 0) {
        offer_config(o, "", strchr(o->current, '.') == NULL);
    } else if (place == 1 && strcmp(topic, "layers") == 0) {
#define X(NAME, name, type, field) offer(o, #name, "", "");
#include "model/layers.def"
#undef X
    }
}

static void offer_place(const offers *o, ls_command command, int place, const char *before) {
    ls_usage_word word;
    if (command == LS_COMMAND_HELP) {
        offer_topics(o, before, place);
        return;
    }
    if (command == LS_COMMAND_TRAIN && place == 0) offer_commands(o, 1);
    if (!ls_usage_word_at(command, place, &word)) return;
    if (word.is_action)
        offer_words(o, word.name, "|");
    else
        offer_files(o, word.suffixes[0] ? word.suffixes : "*");
}

static const ls_command_option *find_option(const char *word, size_t length) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        if (strlen(option->name) == length && strncmp(option->name, word, length) == 0) return option;
    }
    return NULL;
}

void ls_help_complete(FILE *file, const char *const *words, int count) {
    ls_command command = count > 1 ? ls_command_find(words[0]) : LS_COMMAND_TRAIN;
    if (command == LS_COMMAND_COUNT) command = LS_COMMAND_TRAIN;
    const char *current = count > 0 ? words[count - 1] : "", *before = "";
    const ls_command_option *option = NULL; // the option whose value the next word is; NULL: the next word is no value
    int place = 0;
    for (int i = command != LS_COMMAND_TRAIN; i < count - 1; i++) {
        const int was_value = option != NULL;
        option = was_value ? NULL : find_option(words[i], strlen(words[i]));
        if (option && !option->argument[0]) option = NULL;
        if (was_value || words[i][0] == '-') continue;
        before = words[i];
        place++;
    }
    char prefix[WORD_BYTES] = "";
    const char *equals = current[0] == '-' ? strchr(current, '=') : NULL;
    if (equals && !option) {
        option = find_option(current, (size_t)(equals - current));
        snprintf(prefix, sizeof prefix, "%.*s=", (int)(equals - current), current);
        current = equals + 1;
    }
    const offers o = { file, prefix, current };
    if (option)
        offer_value(&o, option);
    else if (current[0] == '-')
        offer_options(&o, command);
    else
        offer_place(&o, command, place, before);
}
