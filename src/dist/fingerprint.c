#include "dist/fingerprint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "dist/rank_groups.h"

// GROUPS_MAX: groups of ranks with a column in the message; further groups are only counted. LAST_LINES: bytes for the
// last lines, which count the rows and groups that were left out.
enum { GROUPS_MAX = 6, COLUMN_GAP = 2, LAST_LINES = 128 };

// Writes the value, or the start of a long one and the hash of all of it.
static void put_value(char dst[LS_FINGERPRINT_TEXT], const char *value) {
    enum { START = LS_FINGERPRINT_TEXT - 24 };
    const size_t bytes = strlen(value);
    if (bytes < LS_FINGERPRINT_TEXT) {
        memcpy(dst, value, bytes + 1);
        return;
    }
    ls_text_cut(dst, START, "%s", value);
    snprintf(dst + strlen(dst), LS_FINGERPRINT_TEXT - strlen(dst), "... %016" PRIx64, ls_hash(value, bytes));
}

static void add(ls_fingerprint *fingerprint, const char *name, int may_differ, const char *format, va_list args) {
    assert(fingerprint->count < LS_FINGERPRINT_FACTS);
    if (fingerprint->count >= LS_FINGERPRINT_FACTS) return;
    int i = fingerprint->count++;
    char whole[LS_TEXT_BYTES];
    vsnprintf(whole, sizeof whole, format, args);
    snprintf(fingerprint->fact[i].name, LS_FINGERPRINT_TEXT, "%s", name);
    put_value(fingerprint->fact[i].value, whole);
    fingerprint->fact[i].may_differ = may_differ;
}

void ls_fingerprint_add(ls_fingerprint *fingerprint, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(fingerprint, name, 0, format, args);
    va_end(args);
}

void ls_fingerprint_note(ls_fingerprint *fingerprint, const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    add(fingerprint, name, 1, format, args);
    va_end(args);
}

static uint64_t hash_of(const ls_fingerprint *f) {
    uint64_t hash = 0;
    for (int i = 0; i < f->count; i++) {
        hash = ls_hash_more(hash, f->fact[i].name, strlen(f->fact[i].name) + 1);
        hash = ls_hash_more(hash, f->fact[i].value, strlen(f->fact[i].value) + 1);
    }
    return hash;
}

static const char *value_of(const ls_fingerprint *f, const char *name) {
    for (int i = 0; i < f->count; i++) {
        if (strcmp(f->fact[i].name, name) == 0) return f->fact[i].value;
    }
    return "(none)";
}

// Returns 1 if b has the facts of a: all of them (all = 1), or only those that must not differ.
static int has_facts(const ls_fingerprint *b, const ls_fingerprint *a, int all) {
    for (int i = 0; i < a->count; i++) {
        if (!all && a->fact[i].may_differ) continue;
        if (strcmp(value_of(b, a->fact[i].name), a->fact[i].value) != 0) return 0;
    }
    return 1;
}

static int same_facts(const ls_fingerprint *a, const ls_fingerprint *b, int all) {
    return has_facts(b, a, all) && has_facts(a, b, all);
}

// The table of differences. Ranks with equal facts are a group; groups are numbered in the order of their lowest ranks.
typedef struct {
    const ls_fingerprint *all; // [world_size]: the facts of each rank
    int world_size;
    uint64_t *group_of;     // [world_size]: the group of each rank
    int groups;             // number of all groups
    int columns;            // number of columns; only the first GROUPS_MAX groups have one
    int lowest[GROUPS_MAX]; // lowest rank of each column's group
    char title[GROUPS_MAX][LS_FINGERPRINT_TEXT];
    size_t width[GROUPS_MAX + 1]; // width of the names' column, then of the others
    int left_out;                 // number of rows that did not fit in the message
} table;

static void group_ranks(table *t) {
    for (int r = 0; r < t->world_size; r++) {
        int lowest = 0; // lowest rank of r's group
        while (!same_facts(&t->all[lowest], &t->all[r], 1)) lowest++;
        if (lowest == r && t->groups < GROUPS_MAX) t->lowest[t->groups] = r;
        t->group_of[r] = lowest == r ? (uint64_t)t->groups++ : t->group_of[lowest];
    }
    t->columns = t->groups < GROUPS_MAX ? t->groups : GROUPS_MAX;
}

static void title_group(table *t, int g) {
    ls_rank_groups_list(t->group_of, t->world_size, (uint64_t)g, t->title[g], sizeof t->title[g]);
    t->width[g + 1] = strlen(t->title[g]);
}

static int differs(const table *t, const char *name) {
    for (int r = 1; r < t->world_size; r++) {
        if (strcmp(value_of(&t->all[r], name), value_of(&t->all[0], name)) != 0) return 1;
    }
    return 0;
}

static void widen(size_t *width, const char *cell) {
    if (strlen(cell) > *width) *width = strlen(cell);
}

// Calls row for each fact with a different value on some ranks: rank 0's facts, then others of the groups in columns.
static void for_each_difference(
    table *t, ls_text_room *out, void (*row)(table *t, ls_text_room *out, const char *name)) {
    for (int g = 0; g < t->columns; g++) {
        const ls_fingerprint *f = &t->all[t->lowest[g]];
        for (int i = 0; i < f->count; i++) {
            const char *name = f->fact[i].name;
            int seen = 0;
            for (int earlier = 0; earlier < g; earlier++) {
                seen |= strcmp(value_of(&t->all[t->lowest[earlier]], name), "(none)") != 0;
            }
            if (seen || !differs(t, name)) continue;
            row(t, out, name);
        }
    }
}

static void measure_row(table *t, ls_text_room *out, const char *name) {
    (void)out;
    widen(&t->width[0], name);
    for (int g = 0; g < t->columns; g++) widen(&t->width[g + 1], value_of(&t->all[t->lowest[g]], name));
}

static void put_row(table *t, ls_text_room *out, const char *name) {
    size_t bytes = 3 + t->width[0];
    for (int g = 0; g < t->columns; g++) bytes += COLUMN_GAP + t->width[g + 1];
    if (out->left <= bytes + LAST_LINES) {
        t->left_out++;
        return;
    }
    ls_text_put(out, "\n  %-*s", (int)t->width[0], name);
    for (int g = 0; g < t->columns; g++) {
        const char *value = value_of(&t->all[t->lowest[g]], name);
        int width = g + 1 < t->columns ? (int)t->width[g + 1] : 0; // the last column is not padded
        ls_text_put(out, "%*s%-*s", COLUMN_GAP, "", width, value);
    }
}

static void describe(table *t, const char *title, char message[LS_STATUS_TEXT_BYTES]) {
    ls_text_room out = { message, LS_STATUS_TEXT_BYTES };
    group_ranks(t);
    widen(&t->width[0], "fact");
    for (int g = 0; g < t->columns; g++) title_group(t, g);
    for_each_difference(t, &out, measure_row);
    ls_text_put(&out, "%s:\n  %-*s", title, (int)t->width[0], "fact");
    for (int g = 0; g < t->columns; g++) {
        ls_text_put(&out, "%*s%-*s", COLUMN_GAP, "", g + 1 < t->columns ? (int)t->width[g + 1] : 0, t->title[g]);
    }
    for_each_difference(t, &out, put_row);
    if (t->left_out > 0) ls_text_put(&out, "\n  and %d more facts differ", t->left_out);
    if (t->groups > t->columns) ls_text_put(&out, "\n  and %d more groups of ranks", t->groups - t->columns);
}

static ls_status report_differences(table *t, const char *title, char warning[LS_STATUS_TEXT_BYTES]) {
    int same = 1, allowed = 1;
    for (int r = 1; r < t->world_size; r++) {
        same &= same_facts(&t->all[0], &t->all[r], 1);
        allowed &= same_facts(&t->all[0], &t->all[r], 0);
    }
    if (same) return LS_SUCCESS;
    if (allowed) {
        describe(t,
            "ranks differ, which is allowed: updates wait for the slowest, and another set of ranks gives other bits",
            warning);
        return LS_SUCCESS;
    }
    char message[LS_STATUS_TEXT_BYTES];
    describe(t, title, message);
    return ls_fail(LS_COMM, "%s", message);
}

ls_status ls_fingerprint_compare_gathered(
    const ls_fingerprint *all, int world_size, const char *title, char warning[LS_STATUS_TEXT_BYTES]) {
    warning[0] = '\0';
    uint64_t *groups = ls_new(world_size, sizeof *groups, "fingerprints of %d ranks", world_size);
    table t = { .all = all, .world_size = world_size, .group_of = groups };
    ls_status status = report_differences(&t, title, warning);
    free(groups);
    return status;
}

ls_status ls_fingerprint_compare(ls_comm *comm, const ls_fingerprint *mine, char warning[LS_STATUS_TEXT_BYTES]) {
    warning[0] = '\0';
    const ls_comm_info *info = ls_comm_get_info(comm);
    if (info->world_size == 1) return LS_SUCCESS;
    // bound[0] becomes the lowest hash of all ranks, and -1 - bound[1] the highest. If these are equal, all hashes are.
    int64_t hash = (int64_t)hash_of(mine), bound[2] = { hash, -1 - hash };
    LS_TRY(ls_comm_allreduce(comm, bound, 2, LS_I64, LS_REDUCE_MIN));
    if (bound[0] == -1 - bound[1]) return LS_SUCCESS;

    ls_fingerprint *all = ls_new(info->world_size, sizeof *all, "fingerprints of %d ranks", info->world_size);
    ls_status status = ls_comm_allgather(comm, mine, all, sizeof *mine);
    LS_THEN(status,
        ls_fingerprint_compare_gathered(all, info->world_size, "ranks differ before the first update", warning));
    free(all);
    return ls_comm_agree(comm, status, NULL); // so that only one rank reports it
}
