#include "dist/watch/hang_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "dist/watch/flight_recorder.h"

typedef enum { GONE, FAILED, SILENT, BEHIND, STUCK, UNHEARD, FINE } trouble;

typedef struct {
    const ls_heartbeat_table *table;
    ls_hang_report_limits limits;
    int waiting;   // the furthest rank that waits; -1: no rank waits
    int64_t begun; // most collectives that a rank has begun
    int heard;     // number of ranks that were heard
    int stuck;     // number of ranks that are stuck (is_stuck); it is a trouble only of fewer than heard / 2 ranks
    char *text;
    size_t used;
} report;

static void __attribute__((format(printf, 2, 3))) put(report *rep, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(rep->text + rep->used, LS_HANG_REPORT_BYTES - rep->used, format, args);
    va_end(args);
    rep->used += bytes > 0 ? (size_t)bytes : 0;
    if (rep->used > LS_HANG_REPORT_BYTES - 1) rep->used = LS_HANG_REPORT_BYTES - 1;
}

static const char *seconds_text(char text[16], double seconds) {
    snprintf(text, 16, seconds < 9.95 ? "%.1f s" : "%.0f s", seconds);
    return text;
}

// --- the trouble of a rank ---------------------------------------------------------------------------

// Returns 1 if the rank waits for a collective that the furthest rank has already completed.
static int is_stuck(const report *rep, const ls_heartbeat_row *row) {
    return row->last.state == LS_RANK_WAITS && row->last.begun < rep->table->row[rep->waiting].last.begun;
}

static trouble trouble_of(const report *rep, int rank) {
    const ls_heartbeat_row *row = &rep->table->row[rank];
    if (row->gone && !row->last.end) return GONE;
    if (row->heard && row->last.error[0]) return FAILED;
    if (!row->heard) return UNHEARD;
    if (row->silent_s >= rep->limits.silent_s) return SILENT;
    // A rank that computes after it has begun all collectives that others wait for does not hold them up: its
    // communication thread does the rest. Sums on a device's queues are not in this count of begun collectives.
    int joined = row->last.begun >= rep->begun && row->last.device_done < 0;
    if (rep->waiting < 0 || joined) return FINE;
    if (row->last.state == LS_RANK_COMPUTES) return BEHIND;
    return is_stuck(rep, row) && rep->stuck < rep->heard / 2 ? STUCK : FINE;
}

static double since(const ls_heartbeat_row *row, trouble is) {
    return is == GONE     ? row->gone_s
           : is == FAILED ? row->error_s
           : is == SILENT ? row->silent_s
                          : (double)row->last.life_s;
}

// Returns 1 if rank a is in worse trouble than rank b. If a has computed for longer than b has been silent, a was in
// trouble first.
static int is_worse(const report *rep, int a, int b) {
    trouble is_a = trouble_of(rep, a), is_b = trouble_of(rep, b);
    const ls_heartbeat_row *row = rep->table->row;
    int both_late = is_a >= SILENT && is_a <= BEHIND && is_b >= SILENT && is_b <= BEHIND;
    if (is_a != is_b && !both_late) return is_a < is_b;
    return since(&row[a], is_a) > since(&row[b], is_b);
}

// Returns 1 if rank a is further than rank b: it has begun more collectives, or as many and has waited longer.
static int is_further(const ls_heartbeat_record *a, const ls_heartbeat_record *b) {
    return a->begun != b->begun ? a->begun > b->begun : a->life_s > b->life_s;
}

static void survey(report *rep) {
    const ls_heartbeat_row *rows = rep->table->row;
    rep->waiting = -1;
    for (int r = 0; r < rep->table->world_size; r++) {
        if (!rows[r].heard) continue;
        rep->heard++;
        if (rows[r].last.begun > rep->begun) rep->begun = rows[r].last.begun;
        if (rows[r].last.state != LS_RANK_WAITS || rows[r].gone || rows[r].silent_s >= rep->limits.silent_s) continue;
        if (rep->waiting < 0 || is_further(&rows[r].last, &rows[rep->waiting].last)) rep->waiting = r;
    }
    for (int r = 0; r < rep->table->world_size && rep->waiting >= 0; r++)
        rep->stuck += rows[r].heard && is_stuck(rep, &rows[r]);
}

static int find_culprit(const report *rep) {
    int worst = 0;
    for (int r = 1; r < rep->table->world_size; r++)
        if (is_worse(rep, r, worst)) worst = r;
    return trouble_of(rep, worst) <= STUCK ? worst : -1;
}

// --- the line ------------------------------------------------------------------------------------

static void put_rank(report *rep, int rank) {
    put(rep, "rank %d on %s (pid %d)", rank, rep->table->peer[rank].host, rep->table->peer[rank].pid);
}

// Writes the name of a sum into text: "bucket 3". Tags from 1 << 20 on are sums that are not buckets (reducer_queue.c);
// they are written as "the last bucket".
static const char *tag_text(char text[24], int tag) {
    snprintf(text, 24, tag < 1 << 20 ? "bucket %d" : "the last bucket", tag);
    return text;
}

static const char *wait_text(char text[64], const ls_heartbeat_record *record) {
    char tag[24];
    if (record->bucket >= 0)
        snprintf(text, 64, "bucket %d", record->bucket);
    else if (record->device_tag >= 0)
        snprintf(text, 64, "%.30s, after %s", record->what, tag_text(tag, record->device_tag));
    else
        snprintf(text, 64, "%s", record->what);
    return text;
}

static void put_place(report *rep, const ls_heartbeat_record *record) {
    put(rep, "\"%s\"", record->phase);
    if (record->update >= 0) put(rep, " of update %lld", (long long)record->update);
}

static void put_last_heard(report *rep, const ls_heartbeat_record *record) {
    char wait[64];
    put(rep, "; when last heard, it was in ");
    put_place(rep, record);
    if (record->state == LS_RANK_WAITS) put(rep, ", waiting for %s", wait_text(wait, record));
}

static void put_behind(report *rep, const ls_heartbeat_record *record) {
    char wait[64], time[16];
    const ls_heartbeat_record *other = &rep->table->row[rep->waiting].last;
    put(rep, " is alive but has not joined %s", wait_text(wait, other));
    if (other->update >= 0) put(rep, " of update %lld", (long long)other->update);
    put(rep, ": it has been in ");
    put_place(rep, record);
    if (record->state == LS_RANK_WAITS) put(rep, ", waiting for %s,", wait_text(wait, record));
    put(rep, " for %s", seconds_text(time, (double)record->phase_s));
}

static int others_in(const report *rep, trouble is, int rank) {
    int count = 0;
    for (int r = 0; r < rep->table->world_size; r++) count += r != rank && trouble_of(rep, r) == is;
    return count;
}

static void put_waiters(report *rep) {
    if (rep->waiting < 0) return;
    char time[16];
    seconds_text(time, (double)rep->table->row[rep->waiting].last.life_s);
    put(rep, "; rank %d has waited for %s (dist.timeout = %g s)", rep->waiting, time, rep->limits.timeout_s);
}

static void put_culprit(report *rep, int rank) {
    const ls_heartbeat_row *row = &rep->table->row[rank];
    char time[24];
    trouble is = trouble_of(rep, rank);
    put(rep, "error: ");
    put_rank(rep, rank);
    if (is == GONE) {
        put(rep, " is gone: its process was killed or crashed, or it left the run");
        if (row->heard) put_last_heard(rep, &row->last);
    } else if (is == FAILED) {
        put(rep, ": %s; it is in ", row->last.error);
        put_place(rep, &row->last);
        if (row->last.device_tag >= 0) put(rep, ", after %s", tag_text(time, row->last.device_tag));
    } else if (is == SILENT) {
        put(rep, " has been silent for %s: stopped, dead, or its host or network is gone",
            seconds_text(time, row->silent_s));
        put_last_heard(rep, &row->last);
    } else {
        put_behind(rep, &row->last);
    }
    int more = others_in(rep, is, rank);
    if (more > 0) put(rep, "; and %d more rank%s like it", more, more == 1 ? "" : "s");
    if (is >= SILENT) put_waiters(rep);
    if (is == BEHIND) put(rep, "; raise dist.timeout if it is only slow");
    put(rep, "\n");
}

static void put_no_culprit(report *rep) {
    char wait[64], time[16];
    int me = rep->table->rank, unheard = others_in(rep, UNHEARD, me);
    int from = rep->waiting >= 0 ? rep->waiting : me;
    const ls_heartbeat_record *waits = &rep->table->row[from].last;
    seconds_text(time, (double)waits->life_s);
    put(rep, "error: ");
    put_rank(rep, from);
    put(rep, " has waited for its peers for %s (dist.timeout = %g s) in ", time, rep->limits.timeout_s);
    put_place(rep, waits);
    put(rep, ", for %s: ", wait_text(wait, waits));
    if (unheard > 0)
        put(rep, "a rank died, hangs or lost its network; raise dist.timeout if it is only slow\n");
    else
        put(rep, "all ranks are alive and wait for each other: the network that carries the data, or the library that "
                 "does, hangs\n");
}

// --- the table -----------------------------------------------------------------------------------

static int alike(const report *rep, int a, int b) {
    const ls_heartbeat_record *x = &rep->table->row[a].last, *y = &rep->table->row[b].last;
    return trouble_of(rep, a) == trouble_of(rep, b) && x->state == y->state && x->update == y->update &&
           x->begun == y->begun && x->ended == y->ended && x->bucket == y->bucket && x->device_done == y->device_done &&
           strcmp(x->phase, y->phase) == 0 && strcmp(x->what, y->what) == 0;
}

typedef struct {
    int first, count; // ranks that are alike: the lowest, and their number
} group;

// Fills in at most LS_HANG_REPORT_ROWS groups, first the culprit's. *rest: the number of ranks without a group.
static int make_groups(const report *rep, int culprit, group *groups, int *rest) {
    int count = 0, one_each = rep->table->world_size <= LS_HANG_REPORT_ROWS;
    if (culprit >= 0) groups[count++] = (group){ culprit, 1 };
    *rest = 0;
    for (int r = 0; r < rep->table->world_size; r++) {
        if (r == culprit) continue;
        int g = 0;
        while (g < count && (one_each || !alike(rep, groups[g].first, r))) g++;
        if (g < count)
            groups[g].count++;
        else if (count < LS_HANG_REPORT_ROWS)
            groups[count++] = (group){ r, 1 };
        else
            (*rest)++;
    }
    return count;
}

// Returns 1 if group a comes before group b in the table: ranks in trouble come first, then smaller groups.
static int comes_before(const report *rep, group a, group b) {
    int a_is_last = trouble_of(rep, a.first) > STUCK, b_is_last = trouble_of(rep, b.first) > STUCK;
    return a_is_last != b_is_last ? b_is_last : a.count < b.count;
}

static void sort_groups(const report *rep, group *groups, int count) {
    for (int i = 1; i < count; i++) {
        group moved = groups[i];
        int at = i;
        for (; at > 0 && comes_before(rep, moved, groups[at - 1]); at--) groups[at] = groups[at - 1];
        groups[at] = moved;
    }
}

static const char *doing_text(char text[96], const report *rep, int rank) {
    const ls_heartbeat_row *row = &rep->table->row[rank];
    char wait[64], time[16];
    seconds_text(time, (double)row->last.life_s);
    trouble is = trouble_of(rep, rank);
    if (is == GONE)
        snprintf(text, 96, "gone");
    else if (is == UNHEARD)
        snprintf(text, 96, "not known");
    else if (is == SILENT)
        snprintf(text, 96, "silent for %s", seconds_text(time, row->silent_s));
    else if (row->last.end)
        snprintf(text, 96, "ends");
    else if (row->last.state == LS_RANK_WAITS)
        snprintf(text, 96, "waits %s: %s", time, wait_text(wait, &row->last));
    else
        snprintf(text, 96, row->last.state == LS_RANK_NAPS ? "naps" : "computes for %s", time);
    return text;
}

static const char *entry_text(char text[64], const ls_heartbeat_record *record) {
    char name[32], time[16];
    if (record->tail_count == 0) return "-";
    const ls_heartbeat_entry *last = &record->tail[record->tail_count - 1];
    ls_flight_recorder_describe(name, sizeof name, last->kind, last->bucket);
    snprintf(text, 64, "%s, %s%s", name, seconds_text(time, (double)(last->seconds < 0 ? last->age_s : last->seconds)),
        last->seconds < 0 ? " so far" : "");
    return text;
}

static void put_row(report *rep, int rank) {
    const ls_heartbeat_row *row = &rep->table->row[rank];
    char doing[96], entry[64], heard[16], update[24];
    snprintf(update, sizeof update, "%lld", (long long)row->last.update);
    put(rep, "  %4d  %-12.24s  %8d  %-34s", rank, rep->table->peer[rank].host, rep->table->peer[rank].pid,
        doing_text(doing, rep, rank));
    if (row->heard) {
        put(rep, "  %6s  %-21s  %6lld  %6lld  %-22s  %s ago", row->last.update < 0 ? "-" : update, row->last.phase,
            (long long)row->last.begun, (long long)row->last.ended, entry_text(entry, &row->last),
            seconds_text(heard, row->silent_s));
    }
    put(rep, "\n");
}

static void put_table(report *rep, int culprit) {
    group groups[LS_HANG_REPORT_ROWS];
    int rest, count = make_groups(rep, culprit, groups, &rest), known = culprit >= 0;
    sort_groups(rep, groups + known, count - known);
    put(rep, "  %4s  %-12s  %8s  %-34s  %6s  %-21s  %6s  %6s  %-22s  %s\n", "rank", "host", "pid", "does", "update",
        "phase", "begun", "ended", "last collective", "heard");
    for (int g = 0; g < count; g++) {
        put_row(rep, groups[g].first);
        if (groups[g].count > 1)
            put(rep, "        and %d rank%s like rank %d\n", groups[g].count - 1, groups[g].count == 2 ? "" : "s",
                groups[g].first);
    }
    if (rest > 0) put(rep, "        and %d other ranks\n", rest);
}

static void put_tail(report *rep, int rank) {
    const ls_heartbeat_record *record = &rep->table->row[rank].last;
    if (!rep->table->row[rank].heard || record->tail_count == 0) return;
    put(rep, "  last collectives of rank %d:", rank);
    for (int i = 0; i < record->tail_count; i++) {
        const ls_heartbeat_entry *e = &record->tail[i];
        char name[32], bytes[32];
        put(rep, "%s %s (%s", i ? "," : "", ls_flight_recorder_describe(name, sizeof name, e->kind, e->bucket),
            ls_text_bytes(bytes, (size_t)e->bytes));
        if (e->update >= 0) put(rep, ", update %lld", (long long)e->update);
        if (e->seconds < 0)
            put(rep, ") under way");
        else
            put(rep, ") %.2g ms", 1e3 * (double)e->seconds);
    }
    put(rep, "\n");
}

int ls_hang_report_write(
    const ls_heartbeat_table *table, ls_hang_report_limits limits, char text[LS_HANG_REPORT_BYTES]) {
    report rep = { .table = table, .limits = limits, .text = text };
    survey(&rep);
    int culprit = find_culprit(&rep);
    if (culprit >= 0)
        put_culprit(&rep, culprit);
    else
        put_no_culprit(&rep);
    if (rep.heard > 1) put_table(&rep, culprit);
    if (culprit >= 0) put_tail(&rep, culprit);
    return (int)rep.used;
}
