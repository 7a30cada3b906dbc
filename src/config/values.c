#include "config/values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/aliases.h"
#include "config/config.h"

enum { LONGEST_SIDE = 65535 };

// Whether text is a decimal integer with an optional '-'. strtoll alone would also accept "+5", " 5" and "5x".
static int read_int(const char *text, int64_t *out) {
    const char *digits = text + (*text == '-');
    if (!*digits || digits[strspn(digits, "0123456789")]) return 0;
    errno = 0;
    *out = strtoll(text, NULL, 10);
    return errno == 0;
}

static int read_real(const char *text, double *out) {
    if (!*text || text[strspn(text, "0123456789+-.eE")]) return 0; // no hexadecimal, no inf, no nan
    char *end;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

char *ls_real_text(char *dst, double value) {
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(dst, 32, "%.*g", precision, value);
        if (strtod(dst, NULL) == value && !strstr(dst, "e+0")) break; // prefer 65536 to 6.5536e+04
    }
    char *exponent = strchr(dst, 'e');
    if (!exponent) return dst;
    char *from = exponent + 1, *to = from; // shortens e-08 to e-8 and e+30 to e30
    if (*from == '-')
        from++, to++;
    else if (*from == '+')
        from++;
    while (*from == '0' && from[1]) from++;
    memmove(to, from, strlen(from) + 1);
    return dst;
}

// Writes a hint such as "; write 0.05 ..." into dst (LS_HINT_BYTES) about a text that is not a number, or "". whole: an
// integer is expected.
static char *hint_number(const char *text, int whole, char *dst) {
    char copy[64];
    int64_t plain;
    double value;
    *dst = 0;
    if (strlen(text) >= sizeof copy) return dst;
    strcpy(copy, text);
    char *comma = strchr(copy, ',');
    if (!comma) {
        if (whole && !read_int(copy, &plain) && read_real(copy, &value) && value == floor(value) && fabs(value) < 1e15)
            snprintf(dst, LS_HINT_BYTES, "; write %.0f", value);
        return dst;
    }
    *comma = '.';
    if (!whole && !strchr(text, '.') && !isspace((unsigned char)comma[1]) && read_real(copy, &value))
        snprintf(dst, LS_HINT_BYTES, "; a decimal point, as %s? Several values are for 'train sweep'", copy);
    else
        snprintf(dst, LS_HINT_BYTES, "; several values are for 'train sweep'");
    return dst;
}

ls_status ls_parse_int(const char *where, const char *text, int64_t minimum, int64_t maximum, int64_t *out) {
    if (read_int(text, out) && *out >= minimum && *out <= maximum) return LS_SUCCESS;
    char hint[LS_HINT_BYTES];
    return ls_fail(LS_USAGE, "%s: expected an integer from %" PRId64 " to %" PRId64 "%s", where, minimum, maximum,
        hint_number(text, 1, hint));
}

ls_status ls_parse_int_or_auto(const char *where, const char *text, int64_t minimum, int64_t maximum, int64_t *out) {
    if (strcmp(text, "auto") == 0) {
        *out = LS_AUTO;
        return LS_SUCCESS;
    }
    if (read_int(text, out) && *out >= minimum && *out <= maximum) return LS_SUCCESS;
    char hint[LS_HINT_BYTES];
    return ls_fail(LS_USAGE, "%s: expected an integer from %" PRId64 " to %" PRId64 ", or auto%s", where, minimum,
        maximum, hint_number(text, 1, hint));
}

ls_status ls_parse_real(const char *where, const char *text, double minimum, double maximum, double *out) {
    if (read_real(text, out) && *out >= minimum && *out <= maximum) return LS_SUCCESS;
    char low[32], high[32], hint[LS_HINT_BYTES];
    return ls_fail(LS_USAGE, "%s: expected a number from %s to %s%s", where, ls_real_text(low, minimum),
        ls_real_text(high, maximum), hint_number(text, 0, hint));
}

ls_status ls_parse_real_or_auto(const char *where, const char *text, double minimum, double maximum, double *out) {
    if (strcmp(text, "auto") == 0) {
        *out = NAN;
        return LS_SUCCESS;
    }
    if (read_real(text, out) && *out >= minimum && *out <= maximum) return LS_SUCCESS;
    char low[32], high[32];
    return ls_fail(LS_USAGE, "%s: expected a number from %s to %s, or auto", where, ls_real_text(low, minimum),
        ls_real_text(high, maximum));
}

ls_status ls_parse_bool(const char *where, const char *text, int *out) {
    *out = strcmp(text, "true") == 0;
    if (*out || strcmp(text, "false") == 0) return LS_SUCCESS;
    static const char *const words[] = { "true", "false" };
    char hint[LS_HINT_BYTES];
    return ls_fail(
        LS_USAGE, "%s: expected true or false%s", where, ls_hint(LS_ALIAS_VALUE, "bool", text, words, 2, "", hint));
}

// Parses "AxBxC" into out[0..count).
static int read_sides(const char *text, int count, int *out) {
    for (int i = 0; i < count; i++) {
        size_t length = strspn(text, "0123456789");
        if (length < 1 || length > 5) return 0;
        long side = strtol(text, NULL, 10);
        if (side < 1 || side > LONGEST_SIDE) return 0;
        out[i] = (int)side;
        text += length;
        if (*text != (i < count - 1 ? 'x' : 0)) return 0;
        text++;
    }
    return 1;
}

ls_status ls_parse_chw(const char *where, const char *text, ls_chw *out) {
    int side[3];
    if (!read_sides(text, 3, side))
        return ls_fail(
            LS_USAGE, "%s: expected channels x height x width, each from 1 to %d, as 3x32x32", where, LONGEST_SIDE);
    *out = (ls_chw){ side[0], side[1], side[2] };
    if (ls_chw_count(*out) <= INT32_MAX) return LS_SUCCESS;
    return ls_fail(
        LS_USAGE, "%s: expected at most %d elements, these are %" PRId64, where, INT32_MAX, ls_chw_count(*out));
}

ls_status ls_parse_hw(const char *where, const char *text, int *h, int *w) {
    int side[2];
    if (!read_sides(text, 2, side))
        return ls_fail(LS_USAGE, "%s: expected height x width, each from 1 to %d, as 64x64", where, LONGEST_SIDE);
    *h = side[0];
    *w = side[1];
    return LS_SUCCESS;
}

ls_status ls_parse_reals(const char *where, const char *text, double *out, int capacity, int *count) {
    *count = 0;
    if (!*text) return LS_SUCCESS;
    for (;;) {
        char number[64];
        size_t length = strcspn(text, ",");
        snprintf(number, sizeof number, "%.*s", (int)length, text);
        const char *trimmed = ls_text_trim(number);
        double value;
        if (length >= sizeof number || !read_real(trimmed, &value))
            return ls_fail(LS_USAGE, "%s: '%s' is no number; expected numbers with commas between, as 0.5, 1, 2e-3",
                where, trimmed);
        if (*count == capacity) return ls_fail(LS_USAGE, "%s: expected at most %d numbers", where, capacity);
        out[(*count)++] = value;
        if (!text[length]) return LS_SUCCESS;
        text += length + 1;
    }
}

// Parses "3:28" or "3:28x32". Writes zeros into `text`.
static int read_resolution(char *text, ls_resolution *out) {
    char *size = strchr(text, ':');
    if (!size) return 0;
    *size++ = '\0';
    int side[2];
    if (!read_int(ls_text_trim(text), &out->epoch)) return 0;
    size = ls_text_trim(size);
    if (!read_sides(size, 2, side)) {
        if (!read_sides(size, 1, side)) return 0;
        side[1] = side[0];
    }
    out->h = side[0];
    out->w = side[1];
    return 1;
}

ls_status ls_parse_resolutions(const char *where, const char *text, ls_resolutions *out) {
    out->count = 0;
    if (!*text) return LS_SUCCESS;
    for (;;) {
        char one[64];
        const size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (out->count == LS_RESOLUTION_LIMIT)
            return ls_fail(LS_USAGE, "%s: expected at most %d resolutions", where, LS_RESOLUTION_LIMIT);
        ls_resolution *step = &out->step[out->count];
        if (length >= sizeof one || !read_resolution(one, step))
            return ls_fail(LS_USAGE, "%s: expected epoch:pixels with commas between, as 0:24, 3:28, 6:32x40", where);
        if (step->h > LS_RESOLUTION_SIDE_MAX || step->w > LS_RESOLUTION_SIDE_MAX)
            return ls_fail(LS_USAGE, "%s: pictures of %d x %d; expected sides of at most %d pixels", where, step->h,
                step->w, LS_RESOLUTION_SIDE_MAX);
        if (out->count == 0 ? step->epoch != 0 : step->epoch <= step[-1].epoch)
            return ls_fail(LS_USAGE,
                "%s: epoch %" PRId64 "; expected the first to be 0, and each to be above the one before", where,
                step->epoch);
        out->count++;
        if (!text[length]) return LS_SUCCESS;
        text += length + 1;
    }
}

int ls_resolutions_find(const ls_resolutions *r, int64_t epoch) {
    int last = 0, first = 0;
    while (last + 1 < r->count && r->step[last + 1].epoch <= epoch) last++;
    while (r->step[first].h != r->step[last].h || r->step[first].w != r->step[last].w) first++;
    return first;
}

static const struct {
    const char *key;
    size_t at; // offset of the double in ls_group
    double most;
} group_numbers[] = {
    { "lr", offsetof(ls_group, lr), 1e6 },
    { "decay", offsetof(ls_group, decay), 1e6 },
    { "momentum", offsetof(ls_group, momentum), 0.9999999 },
    { "end", offsetof(ls_group, end), 1e6 },
    { "frozen_after", offsetof(ls_group, frozen_after), 1e6 },
};
enum { GROUP_NUMBERS = sizeof group_numbers / sizeof *group_numbers };

static const char *const group_kinds[] = {
#define X(NAME, word, what, kept, reads) word,
#include "config/optimizers.def"
};

// Parses "key=number", "kind=word" or "frozen" into the group. Returns 0 for any other word or number.
static int read_group_word(const char *word, ls_group *out) {
    const size_t length = strcspn(word, "=");
    if (strcmp(word, "frozen") == 0) return out->frozen = 1;
    if (word[length] != '=') return 0;
    const char *value = word + length + 1;
    for (size_t k = 0; length == 4 && !strncmp(word, "kind", 4) && k < sizeof group_kinds / sizeof *group_kinds; k++)
        if (strcmp(value, group_kinds[k]) == 0) {
            out->kind = (int)k;
            return 1;
        }
    for (int n = 0; n < GROUP_NUMBERS; n++) {
        if (strlen(group_numbers[n].key) != length || strncmp(word, group_numbers[n].key, length) != 0) continue;
        double *number = (double *)(void *)((char *)out + group_numbers[n].at);
        return read_real(value, number) && *number >= 0 && *number <= group_numbers[n].most;
    }
    return 0;
}

#define GROUP_WORDS "lr=, decay=, momentum=, end= or frozen_after= with a number, kind= with an optimizer, or frozen"

// Writes a hint such as "; did you mean lr=?" about a word of a group into dst, or "".
static char *hint_group_word(const char *word, char *dst) {
    const char *equals = strchr(word, '=');
    char key[32] = "";
    *dst = 0;
    if (!equals) return dst;
    snprintf(key, sizeof key, "%.*s", (int)(equals - word), word);
    if (!strcmp(key, "kind"))
        return ls_hint(LS_ALIAS_VALUE, "optimizer.kind", equals + 1, group_kinds,
            sizeof group_kinds / sizeof *group_kinds, "", dst);
    const ls_alias *alias = ls_alias_find(LS_ALIAS_OPTION, "", key);
    const char *dot = alias ? strchr(alias->ours, '.') : NULL;
    const char *own = dot ? dot + 1 : key;
    for (int n = 0; n < GROUP_NUMBERS; n++)
        if (!strcmp(group_numbers[n].key, own) && strcmp(own, key) != 0)
            snprintf(dst, LS_HINT_BYTES, "; did you mean %s=?", own);
    return dst;
}

// Parses one group, "pattern lr=factor decay=value ...". Writes zeros into `text`.
static ls_status parse_group(const char *where, char *text, ls_groups *groups) {
    ls_group *out = &groups->group[groups->count];
    char *rest = text, *word = strsep(&rest, " \t");
    *out = (ls_group){ .lr = 1, .decay = NAN, .momentum = NAN, .end = NAN, .frozen_after = NAN, .kind = -1 };
    if (strchr(word, '=') || strlen(word) >= sizeof out->pattern)
        return ls_fail(LS_USAGE,
            "%s: '%s': expected a name pattern of at most %d characters, as *.bias, before lr= and the others", where,
            word, LS_GROUP_PATTERN_BYTES - 1);
    strcpy(out->pattern, word);
    char hint[LS_HINT_BYTES];
    int given = 0;
    while ((word = strsep(&rest, " \t"))) {
        if (!*word) continue;
        if (!read_group_word(word, out))
            return ls_fail(LS_USAGE, "%s: '%s' after '%s': expected " GROUP_WORDS "%s", where, word, out->pattern,
                hint_group_word(word, hint));
        given++;
    }
    if (given) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "%s: '%s': expected after the pattern " GROUP_WORDS, where, out->pattern);
}

ls_status ls_parse_groups(const char *where, const char *text, ls_groups *out) {
    out->count = 0;
    for (;;) {
        char one[256];
        size_t length = strcspn(text, ";");
        if (length >= sizeof one)
            return ls_fail(LS_USAGE, "%s: a group of more than %zu characters", where, sizeof one - 1);
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        char *trimmed = ls_text_trim(one);
        if (*trimmed) {
            if (out->count == LS_GROUP_LIMIT)
                return ls_fail(LS_USAGE, "%s: expected at most %d groups", where, LS_GROUP_LIMIT);
            LS_TRY(parse_group(where, trimmed, out));
            out->count++;
        }
        if (!text[length]) return LS_SUCCESS;
        text += length + 1;
    }
}
