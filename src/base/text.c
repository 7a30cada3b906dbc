#include "base/text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include "base/memory.h"

enum { LONGEST_WORD = 127 };

static int smaller(int a, int b) {
    return a < b ? a : b;
}

// Computes the optimal string alignment distance with three rows of its table. Words that are too long for the rows
// count as entirely different.
int ls_text_distance(const char *a, const char *b) {
    int length_a = (int)strlen(a), length_b = (int)strlen(b);
    if (length_a > LONGEST_WORD || length_b > LONGEST_WORD) return length_a > length_b ? length_a : length_b;
    int rows[3][LONGEST_WORD + 1];
    int *before = rows[0], *last = rows[1], *row = rows[2];
    for (int j = 0; j <= length_b; j++) last[j] = j;
    for (int i = 1; i <= length_a; i++) {
        row[0] = i;
        for (int j = 1; j <= length_b; j++) {
            row[j] = smaller(smaller(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
        int *free_row = before;
        before = last, last = row, row = free_row;
    }
    return last[length_b];
}

const char *ls_text_nearest(const char *word, const char *const *candidates, int count) {
    const char *nearest = NULL;
    int best = 0;
    for (int i = 0; i < count; i++) {
        int length = (int)strlen(candidates[i] ? candidates[i] : "");
        if (length == 0) continue;
        int edits = ls_text_distance(word, candidates[i]);
        if (edits * 3 >= length) continue; // one edit of three letters is too far: gpu is not cpu
        if (!nearest || edits < best) nearest = candidates[i], best = edits;
    }
    return nearest;
}

int ls_text_same_letters(const char *a, const char *b) {
    for (int seen = 0;; seen = 1, a++, b++) {
        while (*a && !isalnum((unsigned char)*a)) a++;
        while (*b && !isalnum((unsigned char)*b)) b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
        if (!*a) return seen;
    }
}

typedef struct {
    const char *at;
    size_t length;
} span;

// Whether the text matches. stars (may be NULL): the part of the text that each '*' matches; the first ones are as
// short as possible. After a mismatch, only the match of the last '*' is extended: it can take everything that an
// earlier '*' could. So the time is at most the product of the two lengths.
static int match(const char *pattern, const char *text, span *stars) {
    const char *after = NULL, *start = NULL; // for the last '*': the rest of the pattern, and the start of its match
    const char *end = NULL;                  // end of the match of the last '*'
    int count = 0;
    while (*text || *pattern == '*') {
        if (*pattern == '*') {
            if (stars && count) stars[count - 1] = (span){ start, (size_t)(end - start) };
            count++;
            after = ++pattern;
            start = end = text;
        } else if (*pattern && (*pattern == '?' || *pattern == *text)) {
            pattern++, text++;
        } else if (after) {
            pattern = after;
            text = ++end;
        } else {
            return 0;
        }
    }
    if (*pattern) return 0;
    if (stars && count) stars[count - 1] = (span){ start, (size_t)(end - start) };
    return 1;
}

int ls_text_glob(const char *pattern, const char *text) {
    return match(pattern, text, NULL);
}

int ls_text_replace(const char *pattern, const char *name, const char *text, char *dst, size_t bytes) {
    span stars[LS_TEXT_STARS_MAX], *star = stars;
    ls_text_room room = { dst, bytes };
    if (!match(pattern, text, stars)) return 0;
    dst[0] = '\0';
    for (; *name; name++) {
        const span one = *name == '*' ? *star++ : (span){ name, 1 };
        ls_text_put(&room, "%.*s", (int)one.length, one.at);
    }
    return 1;
}

void ls_text_replace_controls(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 32 || *text == 127) *text = '?';
}

char *ls_text_trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1])) text[--length] = 0;
    return text;
}

// Returns the length in bytes of the UTF-8 character at `at`; 0: it is not valid. Source: Unicode 15, table 3-7.
static int utf8_bytes(const unsigned char *at) {
    const unsigned lead = at[0];
    if (lead < 0x80) return 1;
    const int more = lead >= 0xc2 && lead <= 0xdf   ? 1
                     : lead >= 0xe0 && lead <= 0xef ? 2
                     : lead >= 0xf0 && lead <= 0xf4 ? 3
                                                    : 0;
    const unsigned lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;  // second byte: no overlong forms
    const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf; // no surrogates, nothing above U+10FFFF
    for (int i = 1; i <= more; i++)
        if (at[i] < (i == 1 ? lowest : 0x80) || at[i] > (i == 1 ? highest : 0xbf)) return 0;
    return more ? more + 1 : 0;
}

char *ls_text_as_utf8(const char *text) {
    char *copy = ls_new(4 * strlen(text) + 1, 1, "a text in UTF-8"), *to = copy;
    while (*text) {
        const int bytes = utf8_bytes((const unsigned char *)text);
        to += bytes ? sprintf(to, "%.*s", bytes, text) : sprintf(to, "\\x%02x", (unsigned char)*text);
        text += bytes ? bytes : 1;
    }
    *to = 0;
    return copy;
}

// Whether the character at `at` is a control character: C0, DEL or C1 (U+0080 to U+009F); some terminals obey C1 as
// well.
static int is_control(const unsigned char *at) {
    return at[0] < 32 || at[0] == 127 || (at[0] == 0xc2 && at[1] < 0xa0);
}

void ls_text_print(FILE *file, const char *text) {
    static const char letters[] = { ['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r', ['\\'] = '\\' };
    while (*text) {
        const unsigned char *at = (const unsigned char *)text;
        const int bytes = utf8_bytes(at), whole = bytes ? bytes : 1;
        if (*at < sizeof letters && letters[*at])
            fprintf(file, "\\%c", letters[*at]);
        else if (bytes && !is_control(at))
            fwrite(text, 1, (size_t)bytes, file);
        else
            for (int i = 0; i < whole; i++) fprintf(file, "\\x%02x", at[i]);
        text += whole;
    }
}

char *ls_text_escape(char *dst, size_t bytes, const char *text) {
    ls_text_room room = { dst, bytes };
    dst[0] = 0;
    for (; *text; text++) ls_text_put(&room, *text >= ' ' && *text <= '~' ? "%c" : "\\x%02x", (unsigned char)*text);
    return dst;
}

// Returns the end of the letter at `at` and of the accents after it, which have no width. *parts: the number of
// characters.
static const char *letter_end(const char *at, int *parts) {
    mbstate_t state = { 0 };
    wchar_t character;
    for (*parts = 0; *at; ++*parts) {
        const size_t length = mbrtowc(&character, at, strlen(at), &state);
        if (length == 0 || length > strlen(at)) return *parts > 0 ? at : at + 1; // not UTF-8
        if (*parts > 0 && wcwidth(character) != 0) break;
        at += length;
    }
    return at;
}

static int looks_alike(const char *a, const char *b) {
    while (*a && *b) {
        int a_parts, b_parts;
        const char *a_end = letter_end(a, &a_parts), *b_end = letter_end(b, &b_parts);
        const int same = a_end - a == b_end - b && memcmp(a, b, (size_t)(a_end - a)) == 0;
        if (!same && !(a_parts == 1 && b_parts > 1 && (*a & 0x80)) && !(b_parts == 1 && a_parts > 1 && (*b & 0x80)))
            return 0;
        a = a_end;
        b = b_end;
    }
    return !*a && !*b;
}

static int is_decomposed(const char *text, const char *unused) {
    (void)unused;
    for (int parts; *text;) {
        text = letter_end(text, &parts);
        if (parts > 1) return 1;
    }
    return 0;
}

// Returns question(a, b), called in a UTF-8 locale. Returns 0 if the system has no such locale.
static int in_utf8(int (*question)(const char *a, const char *b), const char *a, const char *b) {
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) return 0;
    const locale_t before = uselocale(utf8);
    const int answer = question(a, b);
    uselocale(before);
    freelocale(utf8);
    return answer;
}

int ls_text_looks_alike(const char *a, const char *b) {
    return strcmp(a, b) != 0 && in_utf8(looks_alike, a, b);
}

int ls_text_is_decomposed(const char *text) {
    return in_utf8(is_decomposed, text, "");
}

char *ls_text_base64(const void *data, size_t bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *from = data;
    char *text = ls_new((bytes + 2) / 3 * 4 + 1, 1, "a text in base64"), *to = text;
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        const unsigned second = left > 1 ? from[i + 1] : 0, third = left > 2 ? from[i + 2] : 0;
        const unsigned bits = (unsigned)from[i] << 16 | second << 8 | third;
        *to++ = digits[bits >> 18];
        *to++ = digits[bits >> 12 & 63];
        *to++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[bits & 63] : '=';
    }
    *to = '\0';
    return text;
}

char *ls_text_bytes(char *dst, uint64_t bytes) {
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1023.95 && unit < 6) value /= 1024, unit++;
    snprintf(dst, 24, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return dst;
}

char *ls_text_si(char *dst, double value) {
    static const char *const units[] = { "", "k", "M", "G", "T", "P" };
    int unit = 0;
    while (fabs(value) >= 999.5 && unit < 5) value /= 1000, unit++;
    double size = fabs(value);
    int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    if (!unit && value == floor(value)) decimals = 0;
    snprintf(dst, 24, "%.*f%s%s", decimals, value, unit ? " " : "", units[unit]);
    return dst;
}

void ls_text_put(ls_text_room *room, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(room->at, room->left, format, args);
    va_end(args);
    size_t moved = bytes < 0 ? 0 : (size_t)bytes < room->left ? (size_t)bytes : room->left - 1;
    room->at += moved;
    room->left -= moved;
}

void ls_text_cut(char *dst, size_t bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(dst, bytes, format, args);
    va_end(args);
}

size_t ls_text_whole(const char *text, size_t most) {
    size_t length = strnlen(text, most);
    while (length && ((unsigned char)text[length] & 0xc0) == 0x80) length--; // the next byte continues a character
    return length;
}

int ls_text_columns(const char *text) {
    int columns = 0;
    for (; *text; text++) {
        if (*text == '\033')
            text += strcspn(text, "mK");
        else
            columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}
