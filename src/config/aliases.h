// aliases.h - "did you mean" hints: from other programs' words (aliases.def), other spellings and near words.
#ifndef LS_CONFIG_ALIASES_H
#define LS_CONFIG_ALIASES_H

#include <stddef.h>

typedef enum {
    LS_ALIAS_ARGUMENT,
    LS_ALIAS_COMMAND,
    LS_ALIAS_OUTPUT,
    LS_ALIAS_SECTION,
    LS_ALIAS_OPTION,
    LS_ALIAS_VALUE,
    LS_ALIAS_LAYER,
    LS_ALIAS_LAYER_KEY,
    LS_ALIAS_INIT
} ls_alias_kind;

typedef struct {
    ls_alias_kind kind;
    const char *scope, *theirs, *ours, *note; // as in aliases.def
} ls_alias;

const ls_alias *ls_alias_at(int index);                      // NULL: there is no such row
int ls_alias_names(const ls_alias *alias, const char *word); // whether the word is one of alias->theirs
// Returns the first row with `word` among its `theirs`, or NULL. scope is "" except for VALUE.
const ls_alias *ls_alias_find(ls_alias_kind kind, const char *scope, const char *word);
// Returns the row that `word` may be a misspelling of, or NULL.
const ls_alias *ls_alias_nearest(ls_alias_kind kind, const char *scope, const char *word);

enum { LS_HINT_BYTES = 512 };
// Writes the end of a message about the wrong word `word` into dst (LS_HINT_BYTES), and returns dst:
// "; did you mean 'relu'? (NOTE)", "; NOTE" or "". candidates: the words that are valid here, some may be NULL; an
// alias whose `ours` is not a candidate is ignored. quotes, put around the suggested word: "''", "[]" or "".
char *ls_hint(ls_alias_kind kind, const char *scope, const char *word, const char *const *candidates, int count,
    const char *quotes, char *dst);
// Writes the end of a message for one alias, "; did you mean 'relu'? (NOTE)" or "; NOTE", into dst (LS_HINT_BYTES).
// Returns dst.
char *ls_hint_of(const ls_alias *alias, const char *quotes, char *dst);

#endif
