// values.h - parses values from texts, as options and network files contain them. The whole text must be consumed.
//
// Errors are LS_USAGE. `where` is the start of the message: "configs/x.ini:12: data.shape = 3x32"; the message
// continues with ": expected ...".
#ifndef LS_CONFIG_VALUES_H
#define LS_CONFIG_VALUES_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

LS_CHECKED ls_status ls_parse_int(const char *where, const char *text, int64_t minimum, int64_t maximum, int64_t *out);
// Parses an integer, or the word auto, which gives LS_AUTO.
LS_CHECKED ls_status ls_parse_int_or_auto(
    const char *where, const char *text, int64_t minimum, int64_t maximum, int64_t *out);
LS_CHECKED ls_status ls_parse_real(const char *where, const char *text, double minimum, double maximum, double *out);
// Parses a number, or the word auto, which gives NAN.
LS_CHECKED ls_status ls_parse_real_or_auto(
    const char *where, const char *text, double minimum, double maximum, double *out);
LS_CHECKED ls_status ls_parse_bool(const char *where, const char *text, int *out);     // true | false
LS_CHECKED ls_status ls_parse_chw(const char *where, const char *text, ls_chw *out);   // "3x32x32", each 1 to 65535
LS_CHECKED ls_status ls_parse_hw(const char *where, const char *text, int *h, int *w); // "64x64"
// Parses "0.5, 1, 2e-3" into out[0..*count), at most `capacity` numbers; "" is an empty list.
LS_CHECKED ls_status ls_parse_reals(const char *where, const char *text, double *out, int capacity, int *count);

// Resolution by epoch: "0:24, 3:28, 6:32x40" gives the side of a square, or height x width, from an epoch on. The first
// epoch must be 0, and epochs must rise. "" is an empty list.
enum { LS_RESOLUTION_LIMIT = 8, LS_RESOLUTION_SIDE_MAX = 32768 };
typedef struct {
    int64_t epoch;
    int h, w;
} ls_resolution;
typedef struct {
    ls_resolution step[LS_RESOLUTION_LIMIT];
    int count;
} ls_resolutions;
LS_CHECKED ls_status ls_parse_resolutions(const char *where, const char *text, ls_resolutions *out);
// Returns the index of an epoch's resolution. A resolution that occurs twice has the index of its first occurrence. The
// list must not be empty.
int ls_resolutions_find(const ls_resolutions *resolutions, int64_t epoch);

// Parameter groups: "*.bias decay=0; head.* lr=10 decay=1e-4 kind=sgd; conv1.* frozen".
enum { LS_GROUP_LIMIT = 32, LS_GROUP_PATTERN_BYTES = 64 };
typedef struct {
    char pattern[LS_GROUP_PATTERN_BYTES]; // for ls_text_glob on a parameter's name
    double lr;                            // factor of the scheduled rate; 1 if not given
    double decay, momentum;               // NAN if not given: the configuration's values apply
    double end;          // epoch at which the rate has fallen linearly to 0; NAN: the rate follows the schedule
    double frozen_after; // epoch from which the rate is 0; NAN: never
    int kind;            // LS_OPTIMIZER_*; -1 if not given: the configuration's optimizer applies
    int frozen;          // 1: the group's parameters are not trained at all
} ls_group;
typedef struct {
    ls_group group[LS_GROUP_LIMIT];
    int count;
} ls_groups;
LS_CHECKED ls_status ls_parse_groups(const char *where, const char *text, ls_groups *out);

// Writes the shortest decimal text that reads back to value, such as 0.1, 1e-8 or 65536, into dst (at least 32 bytes).
// Returns dst.
char *ls_real_text(char *dst, double value);

#endif
