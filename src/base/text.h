// text.h - functions for strings.
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Returns the number of edits (insert, delete, replace, swap of neighbours) from a to b; for "did you mean".
int ls_text_distance(const char *a, const char *b);
// Returns the candidate nearest to word. A candidate is too far away if the edits (ls_text_distance) are a third or
// more of the candidate's length. Returns NULL if all candidates are too far away. NULL entries are skipped.
const char *ls_text_nearest(const char *word, const char *const *candidates, int count);
// Whether both texts have the same letters and digits, ignoring case and all other characters: "AdamW" and "adamw",
// "one-cycle" and "OneCycle". A word without letters and digits is the same as no other.
int ls_text_same_letters(const char *a, const char *b);
int ls_text_glob(const char *pattern, const char *text); // '*' matches any text, '?' one byte; returns 1 on a match
// If text matches pattern: writes `name` to dst, in which the k-th '*' is replaced by the part of text that the k-th
// '*' of pattern matches; all '*' but the last match as little as possible. A pattern has at most LS_TEXT_STARS_MAX
// stars, and `name` has no more than the pattern. Returns 0 if text does not match.
enum { LS_TEXT_STARS_MAX = 8 };
int ls_text_replace(const char *pattern, const char *name, const char *text, char *dst, size_t bytes);
char *ls_text_trim(char *text); // removes white space at both ends, in place; returns the new start
// Returns the text as valid UTF-8, for free(): each byte that is not part of valid UTF-8 becomes \xNN (four
// characters).
char *ls_text_as_utf8(const char *text);
// Prints a text from an external source (a name, the content of a file) into a field of a line. Control characters,
// which could forge a field or steer a terminal, and invalid UTF-8 become \t, \n, \r or \xNN. A backslash becomes \\.
void ls_text_print(FILE *file, const char *text);
// Replaces every ASCII control character by '?', in place. Names and values in messages often come from files. Line
// ends in them could forge a second message, and terminals obey escape sequences.
void ls_text_replace_controls(char *text);
// Writes the text to dst, with every byte that is not printable ASCII as \xNN, cut off at `bytes`; returns dst.
char *ls_text_escape(char *dst, size_t bytes, const char *text);
// Whether two different names look the same: one has accented letters (Unicode's NFC), the other has letters followed
// by accents (NFD, as macOS writes names). Accents are recognised by their width of 0 columns, so different accents on
// the same letter count as equal.
int ls_text_looks_alike(const char *a, const char *b);
// Returns 1 if the text has a letter followed by an accent (NFD).
int ls_text_is_decomposed(const char *text);
// Returns the data in base64 (RFC 4648, with padding), for free().
char *ls_text_base64(const void *data, size_t bytes);
// Writes "12.3 MiB" into dst (at least 24 bytes); returns dst.
char *ls_text_bytes(char *dst, uint64_t bytes);
// Writes "1.23 G" with unit prefix k, M, G, T or P into dst (at least 24 bytes); returns dst.
char *ls_text_si(char *dst, double value);

// The free room of a text that grows in an array; start with { array, its bytes }. ls_text_put appends. Text that does
// not fit is cut off, and the terminator is always written.
typedef struct {
    char *at;
    size_t left; // free bytes, including the terminator
} ls_text_room;
void ls_text_put(ls_text_room *room, const char *format, ...) LS_PRINTF(2, 3);
// Returns the length of the text; if it is over `most`, the most bytes up to `most` that end with a whole character
// (UTF-8).
size_t ls_text_whole(const char *text, size_t most);
// Returns the columns that the text takes up on a terminal: its UTF-8 characters without escape sequences.
int ls_text_columns(const char *text);
// Like snprintf, for texts that are meant to be cut off if they do not fit.
void ls_text_cut(char *dst, size_t bytes, const char *format, ...) LS_PRINTF(3, 4);

#endif
