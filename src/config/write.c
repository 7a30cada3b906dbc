#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/options.h"
#include "config/values.h"

enum { LINE_BYTES = 120 }; // of --list, on a terminal

// "samples, 0 to 65536", "true | false", "text": what the option takes.
static char *describe(const ls_option *option, char *dst, size_t bytes) {
    const char *unit = option->unit ? option->unit : "", *comma = *unit ? ", " : "";
    char low[32], high[32];
    switch (option->type) {
    case TYPE_INT:
        snprintf(dst, bytes, "%s%sinteger from %" PRId64 " to %" PRId64 "%s", unit, comma, option->least, option->most,
            option->allows_auto ? ", or auto" : "");
        break;
    case TYPE_REAL:
        snprintf(dst, bytes, "%s%snumber from %s to %s", unit, comma, ls_real_text(low, option->minimum),
            ls_real_text(high, option->maximum));
        break;
    case TYPE_BOOL:
        snprintf(dst, bytes, "true | false");
        break;
    case TYPE_TEXT:
        snprintf(dst, bytes, "%s%stext", unit, comma);
        break;
    case TYPE_CHOICE:
        dst[0] = 0;
        for (int i = 0; option->words[i]; i++) {
            size_t length = strlen(dst);
            snprintf(dst + length, bytes - length, "%s%s", i ? " | " : "", option->words[i]);
        }
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

void ls_config_list(FILE *file) {
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (int i = 0; i < LS_OPTION_COUNT; i++) {
        const ls_option *option = ls_option_at(i);
        char value[LS_TEXT_BYTES], allowed[512], help[1024];
        ls_config_value(&cfg, i, NULL, value, sizeof value);
        if (starts_section(i)) fprintf(file, "%s[%s]\n", i ? "\n" : "", option->section);
        const int used = fprintf(file, "  %-23s= %-18s ", option->key, *value ? value : "(empty)");
        const size_t more = strlen(describe(option, allowed, sizeof allowed));
        fprintf(file, "%s%s\n", (size_t)used + more > LINE_BYTES ? "\n      " : "", allowed);
        fprintf(file, "      %s\n", ls_option_help(i, help, sizeof help));
        write_kinds(option, "        ", file);
    }
}
