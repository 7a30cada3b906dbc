#include "config/aliases.h"

#include <stdio.h>
#include <string.h>
#include "base/text.h"

static const ls_alias rows[] = {
#define X(KIND, scope, theirs, ours, note) { LS_ALIAS_##KIND, scope, theirs, ours, note },
#include "config/aliases.def"
};
enum { COUNT = sizeof rows / sizeof *rows };

const ls_alias *ls_alias_at(int index) {
    return index >= 0 && index < COUNT ? &rows[index] : NULL;
}

int ls_alias_names(const ls_alias *alias, const char *word) {
    char name[64];
    for (const char *at = alias->theirs; *at; at += strspn(at, " ")) {
        const int length = (int)strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", length, at);
        if (ls_text_same_letters(name, word)) return 1;
        at += length;
    }
    return 0;
}

const ls_alias *ls_alias_find(ls_alias_kind kind, const char *scope, const char *word) {
    for (int i = 0; i < COUNT; i++)
        if (rows[i].kind == kind && strcmp(rows[i].scope, scope) == 0 && ls_alias_names(&rows[i], word))
            return &rows[i];
    return NULL;
}

static char *suggest(const char *word, const char *quotes, const char *note, char *dst) {
    snprintf(dst, LS_HINT_BYTES, "; did you mean %.1s%s%s?%s%s%s", quotes, word, *quotes ? quotes + 1 : "",
        *note ? " (" : "", note, *note ? ")" : "");
    return dst;
}

char *ls_hint_of(const ls_alias *alias, const char *quotes, char *dst) {
    if (alias->ours[0]) return suggest(alias->ours, quotes, alias->note, dst);
    snprintf(dst, LS_HINT_BYTES, "; %s", alias->note);
    return dst;
}

static int is_candidate(const char *word, const char *const *candidates, int count) {
    for (int i = 0; i < count; i++)
        if (candidates[i] && strcmp(candidates[i], word) == 0) return 1;
    return 0;
}

char *ls_hint(ls_alias_kind kind, const char *scope, const char *word, const char *const *candidates, int count,
    const char *quotes, char *dst) {
    const ls_alias *alias = ls_alias_find(kind, scope, word);
    const char *meant = NULL;
    for (int i = 0; i < count && !meant; i++)
        if (candidates[i] && ls_text_same_letters(candidates[i], word)) meant = candidates[i];
    if (!meant && alias && (!alias->ours[0] || is_candidate(alias->ours, candidates, count)))
        return ls_hint_of(alias, quotes, dst);
    if (!meant) meant = ls_text_nearest(word, candidates, count);
    *dst = 0;
    return meant ? suggest(meant, quotes, "", dst) : dst;
}
