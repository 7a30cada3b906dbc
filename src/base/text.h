// text.h - small things with strings.
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

// Edits (insert, delete, replace, swap of neighbours) from a to b; for "did you mean".
int ls_text_distance(const char *a, const char *b);
// The candidate nearest to word, or NULL when none is near (a third or more of its letters differ).
const char *ls_text_nearest(const char *word, const char *const *candidates, int count);
// Are the letters and digits of both the same, without regard to case and to all other characters? "AdamW" and "adamw",
// "one-cycle" and "OneCycle". A word without letters and digits is the same as no other.
int ls_text_same_letters(const char *a, const char *b);
int ls_text_glob(const char *pattern, const char *text); // '*' any run, '?' one character; 1 when it matches
// Where text matches: name, in which what stands for the k-th '*' of pattern takes the place of the k-th '*', into dst; each
// stands for as little as possible. A pattern has at most LS_TEXT_STARS_MAX, and no fewer than name. 0: it does not match.
enum { LS_TEXT_STARS_MAX = 8 };
int ls_text_replace(const char *pattern, const char *name, const char *text, char *dst, size_t bytes);
char *ls_text_trim(char *text); // in place: without white space at both ends
// Returns the text as valid UTF-8, for free(): each byte that is not part of valid UTF-8 becomes \xNN (four
// characters).
char *ls_text_as_utf8(const char *text);
// Prints a text that came from elsewhere (a name, a file's content) into a field of a line: control characters, which
// could forge a field or a line, or steer a terminal, and what is no valid UTF-8 as \t, \n, \r or \xNN, a backslash as \\.
void ls_text_print(FILE *file, const char *text);
// Every control character becomes '?', in place. Names and values in a message are often from a file, which may hold
// line ends that would forge a second message, or escape sequences that a terminal obeys.
void ls_text_replace_controls(char *text);
// The text with every byte that is not printable ASCII as \xNN, cut off at `bytes`, into dst; returns dst.
char *ls_text_escape(char *dst, size_t bytes, const char *text);
// Returns 1 if two different names look the same: one has accented letters (Unicode's NFC), the other has letters followed
// by accents (NFD, as macOS writes names). Accents are found by their width of 0 columns, so different accents on one letter
// count as the same.
int ls_text_looks_alike(const char *a, const char *b);
// Returns 1 if the text has a letter followed by an accent (NFD).
int ls_text_is_decomposed(const char *text);
// RFC 4648, with padding; for free().
char *ls_text_base64(const void *data, size_t bytes);
// "12.3 MiB" into dst (at least 24 bytes); returns dst.
char *ls_text_bytes(char *dst, uint64_t bytes);
// "1.23 G" with unit prefix k, M, G, T into dst (at least 24 bytes); returns dst.
char *ls_text_si(char *dst, double value);

// A text that grows in an array: { array, its bytes }. put appends; what finds no room is cut off,
// and the text ends with its terminator all the same.
typedef struct {
    char *at;
    size_t left; // bytes, with the terminator's
} ls_text_room;
void ls_text_put(ls_text_room *room, const char *format, ...) LS_PRINTF(2, 3);
// snprintf, where what finds no room is meant to be cut off.
void ls_text_cut(char *dst, size_t bytes, const char *format, ...) LS_PRINTF(3, 4);

#endif
