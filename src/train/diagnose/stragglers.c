#include "train/diagnose/stragglers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "dist/rank_groups.h"

// Ranks are named if the other ranks wait for them for at least this share of the time.
static const double LATE_SHARE = 0.1;
static const double INTERVAL_SECONDS = 3;    // between two comparisons
static const double REPEAT_SECONDS = 5 * 60; // between two warnings
static const double LAST_PART = 0.25; // a rank is late if its wait is below min + LAST_PART * (max - min) of all waits
static const double CAUSE_PART = 0.5; // share of the delay that a cause must explain
// Few cores, or a low GPU clock, explain a delay if they are below this fraction of the other ranks' mean.
static const double FEW_PART = 0.75, SLOW_PART = 0.9;
enum { IN_A_ROW = 3, LIST_BYTES = 128 };

// --- who -----------------------------------------------------------------------------------------

typedef double figure(const ls_straggler_info *facts, int rank); // NaN: unknown

static double wait_of(const ls_straggler_info *f, int rank) {
    return f->spent[rank].wait;
}

static double loader_wait_of(const ls_straggler_info *f, int rank) {
    return f->spent[rank].loader_wait;
}

static double core_wait_of(const ls_straggler_info *f, int rank) {
    return f->spent[rank].core_wait;
}

static double clock_of(const ls_straggler_info *f, int rank) {
    return f->gpus && f->gpus[rank].samples ? f->gpus[rank].clock_mhz : NAN;
}

// Returns the mean of a figure over the ranks with is_slow == mark for which the figure is known.
static double mean_of(const ls_straggler_info *f, const uint64_t *is_slow, uint64_t mark, figure *figure_of) {
    double sum = 0;
    int count = 0;
    for (int r = 0; r < f->ranks; r++) {
        double value = is_slow[r] == mark ? figure_of(f, r) : NAN;
        if (isnan(value)) continue;
        sum += value;
        count++;
    }
    return count > 0 ? sum / count : NAN;
}

double ls_stragglers_find(const ls_straggler_info *f, uint64_t *is_slow) {
    double least = INFINITY, most = 0;
    int count = 0;
    for (int r = 0; r < f->ranks; r++) {
        least = fmin(least, wait_of(f, r));
        most = fmax(most, wait_of(f, r));
    }
    for (int r = 0; r < f->ranks; r++) {
        is_slow[r] = wait_of(f, r) < least + LAST_PART * (most - least);
        count += is_slow[r] != 0;
    }
    if (count == 0 || count > f->ranks / 2 || f->seconds <= 0) return 0;
    return (mean_of(f, is_slow, 0, wait_of) - mean_of(f, is_slow, 1, wait_of)) / f->seconds;
}

// --- why -----------------------------------------------------------------------------------------

static double cores_of(const ls_straggler_info *f, int rank) {
    return ls_rank_table_cores(f->places, f->ranks, rank);
}

static void describe_cause(const ls_straggler_info *f, const uint64_t *is_slow, double share, ls_text_room *out) {
    static const struct {
        figure *figure_of;
        const char *format;
    } delays[] = { { loader_wait_of, "; %s loader waits %.2f s: slow data (data.workers, or where the files are)" },
        { core_wait_of, "; %s threads wait %.2f s for cores on which others run" } };
    const char *whose = f->ranks > 0 && ls_rank_groups_size(is_slow, f->ranks, 1) > 1 ? "their" : "its";
    int known = 0;
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        double mine = mean_of(f, is_slow, 1, delays[i].figure_of) / f->seconds;
        double others = mean_of(f, is_slow, 0, delays[i].figure_of) / f->seconds;
        if (!(mine - others >= CAUSE_PART * share)) continue;
        ls_text_put(out, delays[i].format, whose, mine);
        known = 1;
    }
    double cores = mean_of(f, is_slow, 1, cores_of), others_cores = mean_of(f, is_slow, 0, cores_of);
    if (cores < FEW_PART * others_cores) {
        ls_text_put(out, "; %s share of cores is %.3g, the others' %.3g", whose, cores, others_cores);
        known = 1;
    }
    double clock = mean_of(f, is_slow, 1, clock_of), others_clock = mean_of(f, is_slow, 0, clock_of);
    if (clock < SLOW_PART * others_clock) {
        ls_text_put(out, "; %s GPU runs at %.0f MHz, the others' at %.0f", whose, clock, others_clock);
        known = 1;
    }
    if (!known) ls_text_put(out, "; its cause is not among those known here (data, cores, a GPU's clock)");
}

char *ls_stragglers_text(
    const ls_straggler_info *f, const uint64_t *is_slow, double share, char dst[LS_STRAGGLERS_TEXT_BYTES]) {
    ls_text_room out = { dst, LS_STRAGGLERS_TEXT_BYTES };
    char list[LIST_BYTES];
    int count = ls_rank_groups_size(is_slow, f->ranks, 1), first = 0, one_host = 1;
    while (first < f->ranks - 1 && !is_slow[first]) first++;
    const ls_rank_info *place = &f->places[first];
    for (int r = 0; r < f->ranks; r++)
        if (is_slow[r] && strcmp(f->places[r].host, place->host) != 0) one_host = 0;
    ls_text_put(&out, "%s", ls_rank_groups_list(is_slow, f->ranks, 1, list, sizeof list));
    if (one_host)
        ls_text_put(&out, " (host %s%s%s)", place->host, count == 1 && place->cpus[0] ? ", cpus " : "",
            count == 1 ? place->cpus : "");
    ls_text_put(&out, " %s last: the others wait %.2f s of every second for %s", count > 1 ? "arrive" : "arrives",
        share, count > 1 ? "them" : "it");
    describe_cause(f, is_slow, share, &out);
    return dst;
}

// --- over a run ----------------------------------------------------------------------------------

struct ls_stragglers {
    ls_comm *comm;
    ls_straggler_info facts;
    // [ranks], since the start: now; at the first record; at the last comparison; spent: from one of these to now
    ls_rank_time *now, *first, *last, *spent;
    // training time at these three moments; warned_s: at the last warning, -INFINITY if there was no warning
    double now_s, first_s, last_s, warned_s;
    uint64_t *is_slow, *is_slow_before;
    int records, in_a_row;
    char text[LS_STRAGGLERS_TEXT_BYTES];
};

ls_status ls_stragglers_new(ls_comm *comm, const ls_rank_info *places, ls_stragglers **out) {
    size_t ranks = (size_t)ls_comm_get_info(comm)->world_size;
    *out = NULL;
    if (ranks == 1) return LS_SUCCESS;
    ls_stragglers *s = ls_new(1, sizeof *s, "times of %zu ranks", ranks);
    s->now = ls_new(4 * ranks, sizeof *s->now, "times of %zu ranks", ranks);
    s->is_slow = ls_new(2 * ranks, sizeof *s->is_slow, "times of %zu ranks", ranks);
    s->comm = comm;
    s->first = s->now + ranks;
    s->last = s->first + ranks;
    s->spent = s->last + ranks;
    s->is_slow_before = s->is_slow + ranks;
    s->warned_s = -INFINITY;
    s->facts = (ls_straggler_info){ .ranks = (int)ranks, .spent = s->spent, .places = places };
    *out = s;
    return LS_SUCCESS;
}

void ls_stragglers_free(ls_stragglers *s) {
    if (!s) return;
    free(s->now);
    free(s->is_slow);
    free(s);
}

static double find_since(ls_stragglers *s, const ls_rank_time *then, double then_s) {
    for (int r = 0; r < s->facts.ranks; r++)
        s->spent[r] = (ls_rank_time){ .wait = s->now[r].wait - then[r].wait,
            .loader_wait = s->now[r].loader_wait - then[r].loader_wait,
            .core_wait = s->now[r].core_wait - then[r].core_wait };
    s->facts.seconds = s->now_s - then_s;
    return ls_stragglers_find(&s->facts, s->is_slow);
}

// Ends an interval of comparison. Returns the text of a warning that is due, or NULL.
static const char *find_straggler(ls_stragglers *s) {
    size_t bytes = (size_t)s->facts.ranks * sizeof *s->is_slow;
    double share = find_since(s, s->last, s->last_s);
    int same = memcmp(s->is_slow, s->is_slow_before, bytes) == 0;
    s->in_a_row = share < LATE_SHARE ? 0 : same ? s->in_a_row + 1 : 1;
    memcpy(s->is_slow_before, s->is_slow, bytes);
    if (s->in_a_row < IN_A_ROW || s->now_s - s->warned_s < REPEAT_SECONDS) return NULL;
    s->warned_s = s->now_s;
    return ls_stragglers_text(&s->facts, s->is_slow, share, s->text);
}

ls_status ls_stragglers_report(ls_stragglers *s, const ls_rank_time *mine, double seconds, const ls_gpu_sample *gpus,
    const ls_rank_time **times, const char **warning) {
    *times = NULL;
    *warning = NULL;
    if (!s) return LS_SUCCESS;
    LS_TRY(ls_comm_allgather(s->comm, mine, s->now, sizeof *mine));
    *times = s->now;
    s->now_s = seconds;
    s->facts.gpus = gpus;
    size_t bytes = (size_t)s->facts.ranks * sizeof *s->now;
    int begins = s->records++ == 0; // the time before the first record is left out, because it includes the start
    if (begins) {
        memcpy(s->first, s->now, bytes);
        s->first_s = seconds;
    }
    if (!begins && seconds - s->last_s < INTERVAL_SECONDS) return LS_SUCCESS;
    if (!begins && ls_comm_get_info(s->comm)->rank == 0) *warning = find_straggler(s);
    memcpy(s->last, s->now, bytes);
    s->last_s = seconds;
    return LS_SUCCESS;
}

const char *ls_stragglers_sum_up(ls_stragglers *s, double *share) {
    if (!s || s->now_s - s->first_s < INTERVAL_SECONDS) return NULL;
    s->facts.gpus = NULL; // the samples of the last record do not describe the whole run
    *share = find_since(s, s->first, s->first_s);
    return *share < LATE_SHARE ? NULL : ls_stragglers_text(&s->facts, s->is_slow, *share, s->text);
}
