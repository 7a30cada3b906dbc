#include "tools/audit/rerun.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/version.h"
#include "command/commands.h"
#include "command/progress.h"
#include "run/manifest.h"
#include "run/metrics.h"
#include "run/summary.h"
#include "train/diagnose/nonfinite.h"
#include "train/trainer.h"

static const char metrics_name[] = "metrics.jsonl";

static int is_first(const ls_rerun *a) {
    return ls_comm_get_info(a->comm)->rank == 0;
}

// --- the temporary folder ------------------------------------------------------------------------

static const char *const names[] = { metrics_name, "weights.safetensors", "evaluation.json", "summary.json" };
enum { FILES = sizeof names / sizeof *names };
// Paths for the signal handler, which may only make system calls. The process has one audit.
static char paths[FILES][2 * LS_TEXT_BYTES], made[LS_TEXT_BYTES];
static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
enum { ENDS = sizeof ends / sizeof *ends };
static void (*before_open[ENDS])(int);

static void remove_folder(void) {
    for (int i = 0; i < FILES; i++) unlink(paths[i]);
    rmdir(made);
}

static void remove_folder_and_end(int number) {
    remove_folder();
    signal(number, SIG_DFL);
    raise(number);
}

ls_status ls_rerun_open(ls_rerun *a) {
    const char *base = getenv("TMPDIR");
    if (!is_first(a)) return LS_SUCCESS;
    if (!base || !*base) base = "/tmp";
    if (snprintf(made, sizeof made, "%s/lockstep-audit-XXXXXX", base) >= (int)sizeof made)
        return ls_fail(LS_USAGE, "TMPDIR: a path too long");
    if (!mkdtemp(made))
        return ls_fail(LS_STORAGE, "%s: cannot be made: %s (TMPDIR names another place)", made, strerror(errno));
    strcpy(a->folder, made);
    for (int i = 0; i < FILES; i++) snprintf(paths[i], sizeof paths[i], "%s/%s", made, names[i]);
    for (int i = 0; i < ENDS; i++)
        if ((before_open[i] = signal(ends[i], remove_folder_and_end)) == SIG_IGN) signal(ends[i], SIG_IGN); // nohup
    return LS_SUCCESS;
}

void ls_rerun_close(ls_rerun *a) {
    if (a->folder[0]) remove_folder();
    for (int i = 0; a->folder[0] && i < ENDS; i++) signal(ends[i], before_open[i]);
    ls_snapshot_free(a->state);
}

ls_status ls_rerun_file(const ls_rerun *a, const char *name, char *dst, size_t bytes) {
    return ls_path_join(dst, bytes, a->folder, name);
}

// --- obstacles -----------------------------------------------------------------------------------

static ls_status leg_of(const ls_rerun *a, int64_t at, int64_t to, ls_audit_leg *leg) {
    return ls_record_leg(a->record, at, to, (const char *const *)a->args->sets, a->args->set_count, leg);
}

static void describe_obstacle(const ls_rerun *a, const ls_audit_leg *leg, char *dst, size_t bytes) {
    const char *device = ls_json_get_text(leg->facts, "device");
    const char *here = ls_config_choice("device.type", leg->cfg.device_type);
    const int ranks = ls_comm_get_info(a->comm)->world_size;
    if (leg->other_network)
        ls_text_cut(dst, bytes, "the run went on with another network, and network.ini has only the later one");
    else if (!leg->cfg.run_deterministic && leg->ranks && leg->ranks != ranks)
        ls_text_cut(dst, bytes,
            "in fast mode the bits depend on the number of ranks, which was %d: start mpirun -np %d train audit "
            "(run.deterministic = true makes runs that any number repeats)",
            leg->ranks, leg->ranks);
    else if (!leg->cfg.run_deterministic && device && strcmp(device, here) != 0)
        ls_text_cut(dst, bytes, "in fast mode the bits are those of device.type = %s, not %s", device, here);
}

ls_status ls_rerun_obstacle(const ls_rerun *a, int64_t from, int64_t to, char *dst, size_t bytes) {
    ls_audit_leg leg;
    dst[0] = 0;
    for (int64_t at = from; at < to && !dst[0]; at = leg.to) {
        LS_TRY(leg_of(a, at, to, &leg));
        describe_obstacle(a, &leg, dst, bytes);
    }
    return LS_SUCCESS;
}

// --- what the run began with ---------------------------------------------------------------------

// Appends the paths of files in the folder that changed after `since` (seconds since 1970). Looks at ctime, which only
// the system sets.
static void list_changed(const char *folder, double since, ls_text_room *room) {
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[2 * LS_TEXT_BYTES];
        struct stat info;
        if (entry->d_name[0] == '.' || ls_failed(ls_path_join(path, sizeof path, folder, entry->d_name)) ||
            stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            list_changed(path, since, room);
        else if ((double)info.st_ctim.tv_sec + 1e-9 * (double)info.st_ctim.tv_nsec > since)
            ls_text_put(room, " %s", path);
    }
    if (dir) closedir(dir);
}

// The data are not those of the run: adds the files that changed since the run began, if the file system tells.
static ls_status name_changed(const ls_rerun *a, const ls_config *cfg, ls_status status) {
    char list[LS_STATUS_TEXT_BYTES / 4] = "", folder[LS_TEXT_BYTES];
    ls_text_room room = { list, sizeof list };
    const ls_audit_line *first = a->record->lines.count ? &a->record->lines.line[0] : NULL;
    const double since = first ? cJSON_GetNumberValue(ls_json_get(first->json, "time")) : 0;
    if (status.code != LS_DATA || !cfg->data_path[0]) return status;
    LS_TRY(ls_config_path(cfg, LS_OPTION_data_path, folder, sizeof folder));
    if (since > 0) list_changed(folder, since, &room);
    return list[0] ? ls_fail(LS_DATA, "%s; changed since the run began:%s", status.text, list) : status;
}

// Compares the data with the identities in the start event, which alone has them if the run has no checkpoint.
static ls_status compare_identities(const ls_train_info *info, const cJSON *start) {
    const struct {
        const char *name;
        const ls_dataset_info *facts;
    } sets[] = { { "train_data", info->train_data }, { "val_data", info->val_data }, { "test_data", info->test_data } };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char here[17];
        const char *then = ls_json_get_text(start, sets[i].name);
        if (!then || !sets[i].facts || !sets[i].facts->source) continue;
        ls_hash_text(sets[i].facts->source, here);
        if (strcmp(then, here) != 0)
            return ls_fail(
                LS_DATA, "%s: the run began with %s, here are %s: bring the old files back", sets[i].name, then, here);
    }
    const char *teacher = ls_json_get_text(ls_json_get(start, "teacher"), "hash");
    char here[17] = "none";
    if (info->teacher.path[0]) ls_hash_text(info->teacher.hash, here);
    if (!start || strcmp(teacher ? teacher : "none", here) == 0) return LS_SUCCESS;
    return ls_fail(LS_DATA,
        "distill.weights: the run began with the teacher of hash %s, here is %s: bring the old file back",
        teacher ? teacher : "none", here);
}

// Tells what differs here from the run, though it need not change a bit.
static void note_changes(ls_rerun *a, const ls_audit_leg *leg, const cJSON *changed) {
    const char *version = ls_json_get_text(leg->facts, "version");
    const cJSON *change;
    if (a->noted == leg->part && leg->part) return;
    a->noted = leg->part;
    if (version && strcmp(version, ls_version()) != 0)
        ls_alert("another version of the program computed the run: %s, this is %s", version, ls_version());
    cJSON_ArrayForEach(change, changed) {
        const char *name = ls_json_get_text(change, "option");
        const char *before = ls_json_get_text(change, "before"), *now = ls_json_get_text(change, "now");
        if (name && before && now && strncmp(name, "the ", 4) == 0)
            ls_alert("%s is not that of the run: %s, was %s", name, now, before);
    }
}

// Rank 0: compares data, network and machine with the record of the run.
static ls_status check_origin(ls_rerun *a, const ls_audit_leg *leg, const ls_train_info *info) {
    cJSON *changed = cJSON_CreateArray();
    const cJSON *change;
    ls_status status = leg->manifest ? ls_manifest_suits(a->record->side->path, leg->manifest, info, changed)
                                     : compare_identities(info, leg->start);
    status = name_changed(a, &leg->cfg, status);
    cJSON_ArrayForEach(change, changed) {
        if (ls_failed(status) || strcmp(ls_json_get_text(change, "option"), "the network") != 0) continue;
        status = ls_fail(LS_NUMERIC, "%s/network.ini: is not the network of the run: %s, was %s", a->record->side->path,
            ls_json_get_text(change, "now"), ls_json_get_text(change, "before"));
    }
    if (!ls_failed(status)) note_changes(a, leg, changed);
    cJSON_Delete(changed);
    return status;
}

// --- states --------------------------------------------------------------------------------------

// Copies a state of another part of the run, which may have other tensors.
static ls_status copy_state(const ls_snapshot *from, ls_snapshot *to) {
    for (int i = 0; i < to->count; i++) {
        int k = 0;
        while (k < from->count && strcmp(from->tensors[k].name, to->tensors[i].name) != 0) k++;
        if (k == from->count || from->tensors[k].elements != to->tensors[i].elements)
            return ls_fail(LS_STORAGE, "tensor '%s' is new in a later part of the run", to->tensors[i].name);
        memcpy(to->tensors[i].values, from->tensors[k].values, (size_t)to->tensors[i].elements * sizeof(float));
    }
    to->counters = from->counters;
    return LS_SUCCESS;
}

// Rank 0: fills in the state after `update` updates, from the last computation or from the checkpoint.
static ls_status find_state(const ls_rerun *a, int64_t update, ls_snapshot *out) {
    ls_checkpoint *checkpoint;
    for (int i = 0; i < a->record->count; i++) {
        const ls_audit_point *point = &a->record->point[i];
        if (point->update != update || !point->path[0] || ls_failed(ls_checkpoint_read(point->path, &checkpoint)))
            continue;
        ls_status status = ls_checkpoint_take(checkpoint, out);
        ls_checkpoint_free(checkpoint);
        return status;
    }
    if (a->state && a->state->counters.update == update) return copy_state(a->state, out);
    return ls_fail(LS_INTERNAL, "%s: no state of update %" PRId64, a->record->side->path, update);
}

// Gives the trainer the state after `at` updates.
static ls_status begin_at(ls_rerun *a, ls_trainer *trainer, int64_t at) {
    ls_snapshot *state = NULL;
    if (at == 0) return ls_command_agree(a->comm, ls_trainer_init_from_file(trainer));
    ls_status status = ls_trainer_snapshot_new(trainer, &state);
    if (is_first(a)) LS_THEN(status, find_state(a, at, state));
    status = ls_command_agree(a->comm, status);
    LS_THEN(status, ls_command_agree_or_abort(a->comm, ls_trainer_restore(trainer, state)));
    ls_snapshot_free(state);
    return status;
}

// Keeps the state that the trainer has reached, on all ranks.
static ls_status keep_state(ls_rerun *a, ls_trainer *trainer) {
    ls_snapshot_free(a->state);
    a->state = NULL;
    LS_TRY(ls_command_agree(a->comm, ls_trainer_snapshot_new(trainer, &a->state)));
    return ls_command_agree_or_abort(a->comm, ls_trainer_snapshot(trainer, a->state));
}

// --- one part ------------------------------------------------------------------------------------

typedef struct {
    ls_trainer *trainer;
    ls_metrics *metrics; // rank 0
    ls_progress progress;
    ls_train_observer observers[2];
    int observer_count;
    ls_train_summary summary;
} leg_run;

// Returns the next update at which the run has written a checkpoint, or `to` if that comes first.
static int64_t next_stop(const ls_rerun *a, int64_t done, int64_t to) {
    int64_t stop = to;
    for (int i = 0; is_first(a) && i < a->record->lines.count; i++) {
        const ls_audit_line *line = &a->record->lines.line[i];
        if (ls_audit_is(line, "checkpoint") && line->update > done && line->update < stop) stop = line->update;
    }
    return stop;
}

// Writes a checkpoint event if the run wrote a checkpoint at this update.
static void put_checkpoint(const ls_rerun *a, leg_run *run) {
    char path[2 * LS_TEXT_BYTES];
    const ls_train_counters *c = &a->state->counters;
    if (!is_first(a) || !ls_audit_lines_find(&a->record->lines, "checkpoint", c->update)) return;
    if (ls_failed(ls_checkpoint_path("", c->update, path, sizeof path))) return;
    run->observers[0].checkpoint(run->metrics,
        &(ls_train_checkpoint){
            .path = path, .update = c->update, .epoch = c->epoch, .weights_hash = ls_snapshot_weights_hash(a->state) });
}

// Trains up to `to`, and stops where the run has written checkpoints.
static ls_status train(ls_rerun *a, leg_run *run, int64_t at, int64_t to) {
    while (at < to) {
        int64_t stop = next_stop(a, at, to);
        LS_TRY(ls_command_agree(a->comm, ls_comm_broadcast(a->comm, &stop, sizeof stop, 0)));
        ls_status status = ls_trainer_run_until(run->trainer, stop, run->observers, run->observer_count, &run->summary);
        const ls_nonfinite *report = ls_trainer_nonfinite(run->trainer);
        if (report) a->nonfinite = report->update;
        if (report && is_first(a)) {
            cJSON *event = ls_metrics_event(run->metrics, "nonfinite", report->update, report->epoch);
            ls_nonfinite_json(report, event);
            ls_metrics_put(run->metrics, event);
        }
        if (report) return LS_SUCCESS;
        LS_TRY(ls_command_agree_or_abort(a->comm, status));
        LS_TRY(keep_state(a, run->trainer));
        if (a->state->counters.update <= at) return LS_SUCCESS; // the options end the run here
        at = a->state->counters.update;
        put_checkpoint(a, run);
    }
    return LS_SUCCESS;
}

static ls_status write_results(const ls_rerun *a, const leg_run *run) {
    char path[2 * LS_TEXT_BYTES];
    LS_TRY(ls_rerun_file(a, "evaluation.json", path, sizeof path));
    LS_TRY(ls_evaluation_write(path, ls_trainer_details(run->trainer)));
    LS_TRY(ls_rerun_file(a, "summary.json", path, sizeof path));
    return ls_summary_write(path, ls_trainer_get_info(run->trainer), &run->summary);
}

// At the end of the run: writes its weights and results.
static ls_status finish(const ls_rerun *a, const leg_run *run) {
    char path[2 * LS_TEXT_BYTES] = "";
    const ls_train_info *info = ls_trainer_get_info(run->trainer);
    if (a->nonfinite >= 0 || (a->state->counters.update < info->updates_planned && !run->summary.stopped_early))
        return LS_SUCCESS;
    if (is_first(a)) LS_TRY(ls_rerun_file(a, "weights.safetensors", path, sizeof path));
    LS_TRY(ls_command_agree(a->comm, ls_trainer_save_weights(run->trainer, path)));
    return ls_command_agree(a->comm, is_first(a) ? write_results(a, run) : LS_SUCCESS);
}

static ls_status open_observers(const ls_rerun *a, leg_run *run, int appends) {
    char path[2 * LS_TEXT_BYTES];
    const ls_train_info *info = ls_trainer_get_info(run->trainer);
    if (!is_first(a)) return LS_SUCCESS;
    LS_TRY(ls_rerun_file(a, metrics_name, path, sizeof path));
    LS_TRY(ls_metrics_open(path, appends, info, &run->metrics));
    ls_progress_start(&run->progress, ls_progress_choose(info->cfg, info->comm, a->args->quiet), info);
    run->observers[0] = ls_metrics_observer(run->metrics);
    run->observers[1] = ls_progress_observer(&run->progress);
    run->observer_count = 2;
    return LS_SUCCESS;
}

static ls_status compute(ls_rerun *a, const ls_audit_leg *leg, leg_run *run, int64_t at, int appends) {
    LS_TRY(begin_at(a, run->trainer, at));
    if (leg->to <= at) return LS_SUCCESS;
    LS_TRY(ls_command_agree(a->comm, open_observers(a, run, appends)));
    ls_status status = train(a, run, at, leg->to);
    if (is_first(a)) ls_progress_end(&run->progress);
    LS_THEN(status, finish(a, run));
    const ls_status closed = run->metrics ? ls_metrics_close(run->metrics, LS_SUCCESS) : LS_SUCCESS;
    return ls_failed(status) ? status : ls_command_agree(a->comm, closed);
}

// Rank 0: compares the start event that the computation has just written.
static ls_status compare_start(ls_rerun *a, const ls_audit_leg *leg) {
    char path[2 * LS_TEXT_BYTES];
    ls_audit_lines lines = { .redone = 1 }; // starts after the first one do not say that they continue
    const cJSON *start = NULL;
    LS_TRY(ls_rerun_file(a, metrics_name, path, sizeof path));
    ls_status status = ls_audit_lines_read(path, &lines);
    for (int i = 0; i < lines.count; i++)
        if (ls_audit_is(&lines.line[i], "start")) start = lines.line[i].json;
    if (!ls_failed(status)) ls_findings_start(&a->findings, a->record, leg, start);
    ls_audit_lines_free(&lines);
    return status;
}

static ls_status compute_leg(ls_rerun *a, const ls_audit_leg *leg, int64_t at, int appends, int inspects) {
    leg_run run = { .summary = { .status = "" } };
    ls_config cfg = leg->cfg;
    cfg.run_cross_check = 0; // it changes no bit, and an audit may have one rank
    ls_comm_set_timeout(a->comm, leg->cfg.dist_timeout);
    ls_comm_set_hierarchy(a->comm, leg->cfg.dist_hierarchy);
    LS_TRY(ls_command_agree(a->comm, ls_trainer_new(&cfg, a->comm, &run.trainer)));
    const ls_train_info *info = ls_trainer_get_info(run.trainer);
    ls_status status = ls_command_agree(a->comm, ls_trainer_verify_pictures(run.trainer));
    LS_THEN(status, ls_command_agree(a->comm, is_first(a) ? check_origin(a, leg, info) : LS_SUCCESS));
    LS_THEN(status, compute(a, leg, &run, at, appends));
    if (inspects) LS_THEN(status, ls_command_agree_or_abort(a->comm, ls_trainer_inspect(run.trainer, stdout)));
    if (!inspects) LS_THEN(status, ls_command_agree(a->comm, is_first(a) ? compare_start(a, leg) : LS_SUCCESS));
    ls_trainer_free(run.trainer);
    return status;
}

ls_status ls_rerun_updates(ls_rerun *a, int64_t from, int64_t to, int inspects) {
    ls_audit_leg leg;
    int64_t at = from;
    a->nonfinite = -1;
    do {
        LS_TRY(ls_command_agree(a->comm, is_first(a) ? leg_of(a, at, to + inspects, &leg) : LS_SUCCESS));
        LS_TRY(ls_command_agree(a->comm, ls_comm_broadcast(a->comm, &leg, sizeof leg, 0)));
        if (leg.to > to) leg.to = to;
        LS_TRY(compute_leg(a, &leg, at, at > from, inspects && leg.to == to));
        at = leg.to;
    } while (at < to && a->nonfinite < 0);
    return LS_SUCCESS;
}
