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

enum { WORD_BYTES = 64 };

// Copies the next word of a row's `theirs` into name and moves *at past it. Returns 0 if no word is left.
static int next_word(const char **at, char name[WORD_BYTES]) {
    const char *begin = *at + strspn(*at, " ");
    *at = begin + strcspn(begin, " ");
    snprintf(name, WORD_BYTES, "%.*s", (int)(*at - begin), begin);
    return name[0] != 0;
}

int ls_alias_names(const ls_alias *alias, const char *word) {
    char name[WORD_BYTES];
    for (const char *at = alias->theirs; next_word(&at, name);)
        if (ls_text_same_letters(name, word)) return 1;
    return 0;
}

const ls_alias *ls_alias_find(ls_alias_kind kind, const char *scope, const char *word) {
    for (int i = 0; i < COUNT; i++)
        if (rows[i].kind == kind && strcmp(rows[i].scope, scope) == 0 && ls_alias_names(&rows[i], word))
            return &rows[i];
    return NULL;
}

const ls_alias *ls_alias_nearest(ls_alias_kind kind, const char *scope, const char *word) {
    const ls_alias *nearest = NULL;
    char name[WORD_BYTES];
    int best = 0;
    for (int i = 0; i < COUNT; i++) {
        if (rows[i].kind != kind || strcmp(rows[i].scope, scope) != 0) continue;
        for (const char *at = rows[i].theirs; next_word(&at, name);) {
            const int edits = ls_text_distance(word, name);
            if (!ls_text_nearest(word, (const char *const[]){ name }, 1) || (nearest && edits >= best)) continue;
            nearest = &rows[i];
            best = edits;
        }
    }
    return nearest;
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
    const char *meant = NULL, *nearest = ls_text_nearest(word, candidates, count);
    if (!alias && !nearest) alias = ls_alias_nearest(kind, scope, word);
    for (int i = 0; i < count && !meant; i++)
        if (candidates[i] && ls_text_same_letters(candidates[i], word)) meant = candidates[i];
    if (!meant && alias && (!alias->ours[0] || is_candidate(alias->ours, candidates, count)))
        return ls_hint_of(alias, quotes, dst);
    if (!meant) meant = nearest;
    *dst = 0;
    return meant ? suggest(meant, quotes, "", dst) : dst;
}
