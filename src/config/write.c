#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"
#include "config/options.h"
#include "config/values.h"

enum { LINE_BYTES = 120 }; // width of `train help options`

// Writes the words that the option accepts, with `cut` between them, such as "true | false"; "" if its value is not a
// word.
static void put_words(const ls_option *option, const char *cut, char *dst, size_t bytes) {
    static const char *const booleans[] = { "true", "false", NULL };
    const char *const *words = option->type == TYPE_BOOL ? booleans : option->words;
    ls_text_room room = { dst, bytes };
    dst[0] = '\0';
    for (int i = 0; words && words[i]; i++) ls_text_put(&room, "%s%s", i ? cut : "", words[i]);
}

char *ls_config_words(int index, char *dst, size_t bytes) {
    put_words(ls_option_at(index), " ", dst, bytes);
    return dst;
}

// Writes the values that the option accepts: "samples, integer from 0 to 65536", "true | false" or "text".
static char *describe(const ls_option *option, char *dst, size_t bytes) {
    const char *unit = option->unit ? option->unit : "", *comma = *unit ? ", " : "";
    char low[32], high[32];
    switch (option->type) {
    case TYPE_INT:
        snprintf(dst, bytes, "%s%sinteger from %" PRId64 " to %" PRId64 "%s", unit, comma, option->least, option->most,
            option->allows_auto ? ", or auto" : "");
        break;
    case TYPE_REAL:
        snprintf(dst, bytes, "%s%snumber from %s to %s%s", unit, comma, ls_real_text(low, option->minimum),
            ls_real_text(high, option->maximum), option->allows_auto ? ", or auto" : "");
        break;
    case TYPE_TEXT:
        snprintf(dst, bytes, "%s%stext", unit, comma);
        break;
    case TYPE_BOOL:
    case TYPE_CHOICE:
        put_words(option, " | ", dst, bytes);
        break;
    }
    return dst;
}

static void write_kinds(const ls_option *option, const char *margin, FILE *file) {
    for (int k = 0; option->kinds && option->words[k]; k++)
        fprintf(file, "%s%-15s %s\n", margin, option->words[k], option->kinds[k].what);
}

static int starts_section(int index) {
    return index == 0 || strcmp(ls_option_at(index - 1)->section, ls_option_at(index)->section) != 0;
}

void ls_config_write(const ls_config *cfg, FILE *file, int with_help) {
    if (with_help)
        fputs("; Every option of Lockstep with its default. A configuration names only what differs.\n"
              "; Generated from src/config/options.def; tests/config/test_config.c checks it and renews it.\n",
            file);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option *option = ls_option_at(i);
        char value[LS_TEXT_BYTES], allowed[512], help[1024];
        ls_config_value(cfg, i, NULL, value, sizeof value);
        if (starts_section(i)) fprintf(file, "%s[%s]\n", i || with_help ? "\n" : "", option->section);
        if (with_help && !starts_section(i)) fputc('\n', file);
        if (with_help)
            fprintf(file, "; %s\n;   %s\n", ls_option_help(i, help, sizeof help),
                describe(option, allowed, sizeof allowed));
        if (with_help) write_kinds(option, ";     ", file);
        fprintf(file, "%s =%s%s\n", option->key, *value ? " " : "", value);
    }
}

static void list_option(const ls_config *cfg, int index, FILE *file) {
    const ls_option *option = ls_option_at(index);
    char value[LS_TEXT_BYTES], allowed[512], help[1024];
    ls_config_value(cfg, index, NULL, value, sizeof value);
    const int used = fprintf(file, "  %-23s= %-18s ", option->key, *value ? value : "(empty)");
    const size_t more = strlen(describe(option, allowed, sizeof allowed));
    fprintf(file, "%s%s\n", (size_t)used + more > LINE_BYTES ? "\n      " : "", allowed);
    fprintf(file, "      %s\n", ls_option_help(index, help, sizeof help));
    write_kinds(option, "        ", file);
}

int ls_config_list(FILE *file, const char *which) {
    ls_config cfg;
    const char *section = "";
    int count = 0;
    ls_config_defaults(&cfg);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option *option = ls_option_at(i);
        if (which && strcmp(which, option->section) != 0 && strcmp(which, option->name) != 0) continue;
        if (strcmp(section, option->section) != 0) fprintf(file, "%s[%s]\n", count ? "\n" : "", option->section);
        section = option->section;
        list_option(&cfg, i, file);
        count++;
    }
    return count;
}
