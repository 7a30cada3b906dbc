#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/options.h"
#include "config/values.h"

static const struct {
    int option;
    const char *now, *former; // now: a word of the option; NULL: its key is meant
} names[] = {
#define KEY(section, key, former) { LS_OPTION_##section##_##key, NULL, former },
#define WORD(section, key, word, former) { LS_OPTION_##section##_##key, word, former },
#include "config/former_names.def"
};
enum { COUNT = sizeof names / sizeof *names };

// The row in which `word` is the former word of an option; -1: none.
static int find_word(int option, const char *word) {
    for (int i = 0; i < COUNT; i++)
        if (names[i].option == option && names[i].now && strcmp(names[i].former, word) == 0) return i;
    return -1;
}

int ls_option_of_former(ls_config *cfg, const char *section, const char *key) {
    for (int i = 0; i < COUNT; i++) {
        if (names[i].now || strcmp(names[i].former, key) != 0) continue;
        if (strcmp(ls_option_at(names[i].option)->section, section) != 0) continue;
        cfg->former_names |= UINT64_C(1) << i;
        return names[i].option;
    }
    return -1;
}

const char *ls_word_of_former(ls_config *cfg, int option, const char *word) {
    const int row = find_word(option, word);
    if (row >= 0) cfg->former_names |= UINT64_C(1) << row;
    return row < 0 ? word : names[row].now;
}

const char *ls_config_former_key(int index) {
    for (int i = 0; i < COUNT; i++)
        if (names[i].option == index && !names[i].now) return names[i].former;
    return NULL;
}

const char *ls_config_word_now(int index, const char *word) {
    const int row = find_word(index, word);
    return row < 0 ? word : names[row].now;
}

char *ls_config_renamed(const ls_config *cfg, char *dst, size_t bytes) {
    ls_text_room room = { dst, bytes };
    *dst = '\0';
    for (int i = 0; i < COUNT; i++) {
        const ls_option *option = ls_option_at(names[i].option);
        if (!(cfg->former_names >> i & 1)) continue;
        if (*dst) ls_text_put(&room, "; ");
        if (names[i].now)
            ls_text_put(&room, "%s = %s is now %s", option->name, names[i].former, names[i].now);
        else
            ls_text_put(&room, "%s.%s is now %s", option->section, names[i].former, option->name);
    }
    ls_groups groups;
    if (!ls_failed(ls_parse_groups("", cfg->optimizer_groups, &groups)) && groups.former)
        ls_text_put(&room, "%srate= in optimizer.groups is now lr=", *dst ? "; " : "");
    return dst;
}
