// man.c - the man page, in the macros of man(7).
#include <ctype.h>
#include <string.h>
#include "base/version.h"
#include "cli/help/help.h"

// Text as roff shows it: no character of it is a request or an escape.
static void put(FILE *file, const char *text, const char *name) {
    char named[LS_HELP_NAMED_BYTES];
    const char *at = ls_help_named(text, name, named);
    for (int begins = 1; *at; begins = *at++ == '\n') {
        if (begins && strchr(".'", *at)) fputs("\\&", file);
        if (*at == '\\' || *at == '-') fputc('\\', file);
        fputc(*at == '\\' ? 'e' : *at, file);
    }
}

// Paragraphs that a newline cuts.
static void put_paragraphs(FILE *file, const char *text, const char *name) {
    for (; *text; text++) {
        if (*text != '\n') {
            char line[2048];
            const size_t length = strcspn(text, "\n");
            snprintf(line, sizeof line, "%.*s", (int)length, text);
            put(file, line, name);
            text += length - 1;
        } else {
            fputs("\n.PP\n", file);
        }
    }
    fputc('\n', file);
}

static void put_row(FILE *file, const char *left, const char *right, const char *name) {
    fputs(".TP\n.B ", file);
    put(file, left, name);
    fputc('\n', file);
    put(file, right, name);
    fputc('\n', file);
}

static void put_options(FILE *file, ls_command command, int of_all, const char *name) {
    for (int i = 0; i < ls_command_option_count(); i++) {
        const ls_command_option *option = ls_command_option_at(i);
        char left[LS_HELP_TEXT_BYTES], text[LS_HELP_TEXT_BYTES];
        if (!ls_command_takes(command, option) || (option->kind == LS_VALUE_TOPIC) != of_all) continue;
        put_row(
            file, ls_help_option_left(option, left, sizeof left), ls_help_option_text(option, text, sizeof text), name);
    }
}

static void put_usage(FILE *file, const char *macro, ls_command command, const char *name) {
    char text[LS_HELP_TEXT_BYTES];
    const ls_command_row *row = ls_command_at(command);
    snprintf(text, sizeof text, "%s%s%s%s%s", name, command ? " " : "", command ? row->word : "",
        row->usage[0] ? " " : "", row->usage);
    fprintf(file, "%s ", macro);
    put(file, text, name);
    fputc('\n', file);
}

static void put_command(FILE *file, ls_command command, const char *name) {
    const ls_command_row *row = ls_command_at(command);
    const char *exits = row->exits;
    char code[16], text[LS_HELP_TEXT_BYTES];
    put_usage(file, ".SS", command, name);
    put(file, ls_help_purpose(row, text, sizeof text), name);
    fputs("\n.PP\n", file);
    put_paragraphs(file, row->more, name);
    put_options(file, command, 0, name);
    if (exits[0]) fputs(".PP\nExit status:\n", file);
    while (ls_help_next_exit(&exits, code, text)) put_row(file, code + (code[0] == ' '), text, name);
    fputs(".PP\n.EX\n", file);
    put(file, row->example, name);
    fputs("\n.EE\n", file);
}

static void put_topic(FILE *file, const ls_help_topic *topic, const char *name) {
    fprintf(file, ".SH %s\n", topic->heading);
    if (topic->text) put_paragraphs(file, topic->text, name);
    for (const ls_help_row *row = topic->rows; row && row->left; row++) put_row(file, row->left, row->right, name);
}

void ls_help_man(FILE *file, const char *name) {
    int count;
    const ls_help_topic *topics = ls_help_topics(&count);
    fputs(".TH ", file);
    for (const char *c = name; *c; c++) fputc(toupper((unsigned char)*c), file);
    fprintf(file, " 1 \"\" \"Lockstep %s\" \"Lockstep\"\n.SH NAME\n", ls_version());
    put(file, name, name);
    fputs(" \\- train convolutional networks in step on many devices\n.SH SYNOPSIS\n.nf\n", file);
    for (int i = 0; i < LS_COMMAND_COUNT; i++) put_usage(file, ".B", (ls_command)i, name);
    fputs(
        ".fi\n.SH DESCRIPTION\nLockstep trains convolutional networks by synchronous data parallelism: one process "
        "(rank) for each "
        "device, with the same weights on every rank after every update. Alone it is one rank; N ranks are\n.PP\n.EX\n",
        file);
    put(file, "mpirun -np N ./train CONFIG.ini", name);
    fputs("\n.EE\n.SH COMMANDS\n", file);
    for (int i = 0; i < LS_COMMAND_COUNT; i++) put_command(file, (ls_command)i, name);
    fputs(".SH OPTIONS OF ALL COMMANDS\n", file);
    put_options(file, LS_COMMAND_TRAIN, 1, name);
    for (int i = 0; i < count; i++)
        if (topics[i].heading) put_topic(file, &topics[i], name);
}
