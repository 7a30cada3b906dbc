// cmd_audit.c - `train audit RUN`: shows that a run has the bits that its record claims. It computes stretches of the
// run again, and compares.
//
// A stretch lies between two neighbouring points of the run: start, checkpoints, and end. It is computed from its first
// point with the options of the parts that the run had there, in a temporary folder. Compared are the tensors
// and counters of the checkpoint at its end, the hashes of all checkpoints on the way, the events of metrics.jsonl, and
// at the end of the run its weights and results; also config.ini, the network, the data, and the weights of model.init
// and distill.weights. The run's folder is only read. LS_NUMERIC: something differs; it is named on standard output.

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "command/commands.h"
#include "config/values.h"
#include "formats/weights.h"
#include "run/manifest.h"
#include "tools/audit/rerun.h"

enum { STRETCHES_PRESET = 3, NUMBER_BYTES = 32, WHAT_BYTES = 128 };

// Stretch i lies between points i and i + 1 of the record.
typedef struct {
    ls_rerun rerun;
    char *chosen;  // rank 0: for each stretch: 1 if it is computed
    int64_t to;    // rank 0: with --from or --to, the update at which to end; else INT64_MAX
    int computed;  // number of stretches that were computed
    char why[512]; // rank 0: why a stretch could not be computed; the last such reason
} audit;

// Writes a number with commas, such as "4,391", into dst. Returns dst.
static const char *number(int64_t value, char dst[NUMBER_BYTES]) {
    char digits[NUMBER_BYTES];
    const int count = snprintf(digits, sizeof digits, "%" PRId64, value);
    int used = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0) dst[used++] = ',';
        dst[used++] = digits[i];
    }
    dst[used] = 0;
    return dst;
}

static int is_first(const audit *a) {
    return ls_comm_get_info(a->rerun.comm)->rank == 0;
}

// --- the command line ----------------------------------------------------------------------------

// Refuses options of --set that are not in `allowed`, because they might change what the run computes.
static ls_status check_sets(const ls_args *args) {
    static const char *const allowed[] = { "data.path=", "data.workers=", "data.prefetch=", "data.loader=",
        "data.cache=", "device.type=", "device.threads=", "device.share=", "device.affinity=", "device.graphs=",
        "dist.backend=", "dist.hierarchy=", "dist.bucket_bytes=", "dist.timeout=" };
    for (int i = 0; i < args->set_count; i++) {
        size_t k = 0;
        while (k < sizeof allowed / sizeof *allowed && strncmp(args->sets[i], allowed[k], strlen(allowed[k])) != 0) k++;
        if (k == sizeof allowed / sizeof *allowed)
            return ls_fail(LS_USAGE,
                "--set %s: train audit takes the run's own options; only data.path, data.workers, data.prefetch, "
                "data.loader, data.cache, device.type (ordered mode), threads, share, affinity, graphs, dist.backend, "
                "hierarchy, bucket_bytes and timeout may differ",
                args->sets[i]);
    }
    return LS_SUCCESS;
}

static ls_status check_choice(const ls_args *args) {
    const int range = args->from || args->to;
    if (!!args->segments + range + args->all + !!args->inspect > 1)
        return ls_fail(LS_USAGE, "train audit: choose one of --segments, --from and --to, --all, --inspect");
    return check_sets(args);
}

static ls_status parse_update(const char *name, const char *text, int64_t least, int64_t otherwise, int64_t *out) {
    char where[LS_TEXT_BYTES];
    *out = otherwise;
    snprintf(where, sizeof where, "%s %.64s", name, text ? text : "");
    return text ? ls_parse_int(where, text, least, LS_JSON_WHOLE_MAX, out) : LS_SUCCESS;
}

// --- choosing stretches --------------------------------------------------------------------------

static int64_t end_of(const audit *a) {
    return a->rerun.record->point[a->rerun.record->count - 1].update;
}

static ls_status choose_range(audit *a, const ls_args *args) {
    const ls_record *r = a->rerun.record;
    int64_t from;
    LS_TRY(parse_update("--from", args->from, 0, 0, &from));
    LS_TRY(parse_update("--to", args->to, 1, end_of(a), &a->to));
    if (a->to > end_of(a) || from >= a->to)
        return ls_fail(LS_USAGE,
            "--from %" PRId64 " --to %" PRId64 ": the run has the updates 0 to %" PRId64 ", and FROM is below TO", from,
            a->to, end_of(a));
    for (int i = 0; i + 1 < r->count; i++) a->chosen[i] = r->point[i + 1].update > from && r->point[i].update < a->to;
    return LS_SUCCESS;
}

// Chooses stretches at random. The one from the start may be most of the run, so it is chosen here only if the run has
// no other stretch.
static ls_status choose_at_random(audit *a, const ls_args *args) {
    const int count = a->rerun.record->count - 1, first = count > 1;
    int64_t wanted;
    LS_TRY(parse_update("--segments", args->segments, 1, STRETCHES_PRESET, &wanted));
    const double now = ls_clock_unix_seconds();
    uint64_t random = ls_hash_more((uint64_t)getpid(), &now, sizeof now);
    for (int i = first; i < count; i++) {
        random = ls_hash_more(random, &i, sizeof i);
        a->chosen[i] = random % (uint64_t)(count - i) < (uint64_t)wanted;
        wanted -= a->chosen[i];
    }
    return LS_SUCCESS;
}

static int is_readable(const ls_audit_point *point) {
    ls_checkpoint *checkpoint;
    if (point->update == 0) return 1;
    if (!point->path[0] || ls_failed(ls_checkpoint_read(point->path, &checkpoint))) return 0;
    ls_checkpoint_free(checkpoint);
    return 1;
}

static ls_status choose(audit *a, const ls_args *args) {
    const ls_record *r = a->rerun.record;
    char x[NUMBER_BYTES], y[NUMBER_BYTES], path[2 * LS_TEXT_BYTES];
    int64_t updates = 0, stretches = 0;
    a->chosen = ls_new(r->count + 1, 1, "stretches of a run");
    a->to = INT64_MAX;
    if (r->count == 1) return ls_fail(LS_STORAGE, "%s: the run has done no update yet", r->side->path);
    if (args->all)
        memset(a->chosen, 1, (size_t)r->count);
    else
        LS_TRY(args->from || args->to ? choose_range(a, args) : choose_at_random(a, args));
    // a stretch that begins with a damaged checkpoint needs the one before it
    for (int i = r->count - 2; i > 0; i--)
        if (a->chosen[i] && !is_readable(&r->point[i])) a->chosen[i - 1] = 1;
    for (int i = 0; i + 1 < r->count; i++) {
        stretches += a->chosen[i];
        const int64_t end = r->point[i + 1].update < a->to ? r->point[i + 1].update : a->to;
        if (a->chosen[i]) updates += end - r->point[i].update;
    }
    printf("%s: %" PRId64 " of %d stretches, %s of %s updates\n", r->side->path, stretches, r->count - 1,
        number(updates, x), number(end_of(a), y));
    if (r->side->saved_count == 0)
        printf("the run kept no checkpoint: it is one stretch, from its start%s\n",
            r->final >= 0 ? " to weights.safetensors" : "; only its events can be compared");
    if (r->begins)
        printf("metrics.jsonl begins after update %s: the folder of another run has the earlier events, which are not "
               "compared (train sweep --share: the stem)\n",
            number(r->begins, x));
    LS_TRY(ls_path_join(path, sizeof path, r->side->path, "weights.safetensors"));
    if (r->final < 0 && ls_path_exists(path))
        printf("the run is not complete: its weights.safetensors is not compared\n");
    return LS_SUCCESS;
}

// --- without computing ---------------------------------------------------------------------------

static void take_option(void *context, const char *name, const char *file, const char *manifest) {
    ls_finding(context, "config.ini: %s is %s, but the newest checkpoint was made with %s", name,
        file[0] ? file : "empty", manifest[0] ? manifest : "empty");
}

// Compares the weights file of an option with `then`, the hash that the run recorded. Does nothing if `then` is NULL.
// *same: 0 if the file has another hash or cannot be read, which is a finding.
static ls_status check_weights(audit *a, int option, const char *name, const char *then, int *same) {
    const ls_record *r = a->rerun.record;
    char named[2 * LS_TEXT_BYTES], path[2 * LS_TEXT_BYTES], hash[17];
    ls_safetensors *file;
    *same = 1;
    if (!then) return LS_SUCCESS;
    ls_status status = ls_config_path(r->side->config, option, named, sizeof named);
    LS_THEN(status, ls_weights_locate(named, path, sizeof path));
    LS_THEN(status, ls_safetensors_read(path, &file));
    *same = !ls_failed(status);
    if (!*same) {
        ls_finding(&a->rerun.findings, "%s: %s", name, status.text);
        return LS_SUCCESS;
    }
    ls_hash_text(ls_safetensors_digest_of(file).hash, hash);
    ls_safetensors_free(file);
    *same = strcmp(hash, then) == 0;
    if (!*same) ls_finding(&a->rerun.findings, "%s: %s has the hash %s, the run began with %s", name, path, hash, then);
    return LS_SUCCESS;
}

// Without the first weights the run's first stretch cannot be computed.
static ls_status check_init(audit *a) {
    const ls_record *r = a->rerun.record;
    const cJSON *parts = ls_json_get(r->side->manifest ? r->side->manifest : r->side->summary, "parts");
    const char *then = ls_json_get_text(ls_json_get(cJSON_GetArrayItem(parts, 0), "init"), "hash");
    int same;
    if (!r->side->config->model_init[0]) return LS_SUCCESS;
    LS_TRY(check_weights(a, LS_OPTION_model_init, "model.init", then, &same));
    if (same) return LS_SUCCESS;
    a->chosen[0] = 0;
    snprintf(a->why, sizeof a->why, "its first weights, of model.init, are not there");
    return LS_SUCCESS;
}

// Without the teacher no stretch can be computed.
static ls_status check_teacher(audit *a) {
    const ls_record *r = a->rerun.record;
    const cJSON *record = r->side->manifest ? r->side->manifest : r->side->summary;
    int same;
    LS_TRY(check_weights(a, LS_OPTION_distill_weights, "distill.weights",
        ls_json_get_text(ls_json_get(record, "teacher"), "hash"), &same));
    if (same) return LS_SUCCESS;
    memset(a->chosen, 0, (size_t)r->count);
    snprintf(a->why, sizeof a->why, "its teacher, of distill.weights, is not there");
    return LS_SUCCESS;
}

static ls_status check_files(audit *a) {
    ls_findings *f = &a->rerun.findings;
    const ls_record *r = a->rerun.record;
    LS_TRY(ls_record_check_config(r, take_option, f));
    LS_TRY(check_init(a));
    LS_TRY(check_teacher(a));
    if (r->lines.damaged) ls_finding(f, "metrics.jsonl, line %" PRId64 ": is not an event", r->lines.damaged);
    if (f->here) ls_findings_print(f, "files of the run");
    return LS_SUCCESS;
}

// --- one stretch ---------------------------------------------------------------------------------

typedef struct {
    int64_t from, to;
    int computes; // 0: it cannot be computed
} stretch;

static ls_status describe(audit *a, int i, stretch *s) {
    const ls_record *r = a->rerun.record;
    char x[NUMBER_BYTES], y[NUMBER_BYTES], why[sizeof a->why];
    *s = (stretch){ .from = r->point[i].update, .to = r->point[i + 1].update };
    if (s->to > a->to) s->to = a->to;
    LS_TRY(ls_rerun_obstacle(&a->rerun, s->from, s->to, why, sizeof why));
    s->computes = !why[0];
    if (s->computes) return LS_SUCCESS;
    snprintf(a->why, sizeof a->why, "%s", why);
    printf("updates %s to %s: not computed: %s\n", number(s->from, x), number(s->to, y), why);
    return LS_SUCCESS;
}

static ls_status compare(audit *a, int i, const stretch *s) {
    const ls_record *r = a->rerun.record;
    const ls_audit_point *end = &r->point[i + 1];
    ls_findings *f = &a->rerun.findings;
    char path[2 * LS_TEXT_BYTES];
    ls_audit_lines computed = { .redone = 1 };
    LS_TRY(ls_rerun_file(&a->rerun, "metrics.jsonl", path, sizeof path));
    ls_status status = ls_audit_lines_read(path, &computed);
    const int64_t from = s->from > r->begins ? s->from : r->begins;
    if (!ls_failed(status)) ls_findings_lines(f, &r->lines, &computed, from, s->to);
    ls_audit_lines_free(&computed);
    LS_TRY(status);
    const int ended = a->rerun.nonfinite >= 0 || a->rerun.state->counters.update < s->to;
    if (ended && a->rerun.nonfinite + 1 != s->to)
        ls_finding(f, "the computation ends before update %" PRId64 "%s", s->to,
            a->rerun.nonfinite >= 0 ? " with a value that is not finite" : ", as its options say");
    if (ended || s->to != end->update) return LS_SUCCESS;
    if (end->path[0]) LS_TRY(ls_findings_checkpoint(f, end, a->rerun.state));
    return s->to == r->final ? ls_findings_results(f, r->side->path, a->rerun.folder) : LS_SUCCESS;
}

static ls_status compare_and_print(audit *a, int i, const stretch *s) {
    char x[NUMBER_BYTES], y[NUMBER_BYTES], what[WHAT_BYTES];
    LS_TRY(compare(a, i, s));
    snprintf(what, sizeof what, "updates %s to %s", number(s->from, x), number(s->to, y));
    ls_findings_print(&a->rerun.findings, what);
    return ls_command_flush(stdout);
}

static ls_status audit_stretch(audit *a, int i) {
    ls_comm *comm = a->rerun.comm;
    stretch s;
    LS_TRY(ls_command_agree(comm, is_first(a) ? describe(a, i, &s) : LS_SUCCESS));
    LS_TRY(ls_command_agree(comm, ls_comm_broadcast(comm, &s, sizeof s, 0)));
    if (!s.computes) return LS_SUCCESS;
    LS_TRY(ls_rerun_updates(&a->rerun, s.from, s.to, 0));
    a->computed++;
    return ls_command_agree(comm, is_first(a) ? compare_and_print(a, i, &s) : LS_SUCCESS);
}

static ls_status audit_stretches(audit *a) {
    for (int i = 0;; i++) {
        int next = -1;
        if (is_first(a))
            for (int k = a->rerun.record->count - 2; k >= i; k--)
                if (a->chosen[k]) next = k;
        LS_TRY(ls_command_agree(a->rerun.comm, ls_comm_broadcast(a->rerun.comm, &next, sizeof next, 0)));
        if (next < 0) return LS_SUCCESS;
        i = next;
        LS_TRY(audit_stretch(a, i));
    }
}

// --- inspecting ----------------------------------------------------------------------------------

// Finds s->to, the update to inspect, and s->from, the newest readable point at or before it.
static ls_status choose_inspected(const audit *a, const ls_args *args, stretch *s) {
    const ls_record *r = a->rerun.record;
    *s = (stretch){ .to = -1 };
    if (strcmp(args->inspect, "nonfinite") != 0) LS_TRY(parse_update("--inspect", args->inspect, 0, 0, &s->to));
    for (int i = 0; i < r->lines.count && s->to < 0; i++)
        if (ls_audit_is(&r->lines.line[i], "nonfinite")) s->to = r->lines.line[i].update;
    if (s->to < 0) return ls_fail(LS_USAGE, "--inspect nonfinite: every value of the run was finite; name an update");
    if (s->to >= end_of(a))
        return ls_fail(
            LS_USAGE, "--inspect %s: the run has done %" PRId64 " updates, numbered from 0", args->inspect, end_of(a));
    for (int i = 0; i < r->count && r->point[i].update <= s->to; i++)
        if (is_readable(&r->point[i])) s->from = r->point[i].update;
    char why[sizeof a->why];
    LS_TRY(ls_rerun_obstacle(&a->rerun, s->from, s->to + 1, why, sizeof why));
    return why[0] ? ls_fail(LS_USAGE, "--inspect %s: %s", args->inspect, why) : LS_SUCCESS;
}

static ls_status inspect(audit *a, const ls_args *args) {
    ls_comm *comm = a->rerun.comm;
    stretch s;
    LS_TRY(ls_command_agree(comm, is_first(a) ? choose_inspected(a, args, &s) : LS_SUCCESS));
    LS_TRY(ls_command_agree(comm, ls_comm_broadcast(comm, &s, sizeof s, 0)));
    LS_TRY(ls_rerun_updates(&a->rerun, s.from, s.to, 1));
    return ls_command_agree(comm, ls_command_flush(stdout));
}

// --- the whole -----------------------------------------------------------------------------------

static ls_status begin(audit *a, const ls_args *args) {
    LS_TRY(check_choice(args));
    if (!is_first(a)) return LS_SUCCESS;
    LS_TRY(ls_record_read(args->files[0], &a->rerun.record));
    LS_TRY(ls_rerun_open(&a->rerun));
    if (args->inspect) return LS_SUCCESS;
    LS_TRY(choose(a, args));
    return check_files(a);
}

static ls_status outcome(const audit *a) {
    const ls_findings *f = &a->rerun.findings;
    const char *run = a->rerun.record->side->path;
    if (f->total)
        return ls_fail(
            LS_NUMERIC, "%s: %d difference%s; the first: %s", run, f->total, f->total == 1 ? "" : "s", f->first);
    if (!a->computed) return ls_fail(LS_USAGE, "%s: nothing was computed: %s", run, a->why);
    return LS_SUCCESS;
}

ls_status ls_cmd_audit(const ls_args *args, ls_comm *comm) {
    audit a = { .rerun = { .args = args, .comm = comm } };
    setvbuf(stdout, NULL, _IOLBF, 0); // in a pipe, too, its lines come before an error
    ls_status status = ls_command_agree(comm, begin(&a, args));
    if (args->inspect)
        LS_THEN(status, inspect(&a, args));
    else
        LS_THEN(status, audit_stretches(&a));
    if (!args->inspect) LS_THEN(status, ls_command_agree(comm, is_first(&a) ? outcome(&a) : LS_SUCCESS));
    ls_rerun_close(&a.rerun);
    ls_record_free(a.rerun.record);
    free(a.chosen);
    return status;
}
