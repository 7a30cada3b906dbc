// cmd_train.c - `train CONFIG.ini`: one run from configuration to summary.

#include <string.h>
#include "base/atomic_file.h"
#include "base/log.h"
#include "base/scope.h"
#include "command/commands.h"
#include "cli/go_on.h"
#include "command/progress.h"
#include "command/report.h"
#include "run/metrics.h"
#include "train/diagnose/nonfinite.h"
#include "run/run_folder.h"
#include "run/summary.h"
#include "run/tensorboard.h"
#include "run/trace_file.h"
#include "train/trainer.h"

// The open folder and files of this run, on rank 0. On other ranks only folder.path is filled in, at the end.
typedef struct {
    ls_run_folder folder;
    ls_metrics *metrics;             // NULL: not open
    ls_tensorboard *tensorboard;     // NULL: log.tensorboard is off
    char checkpoints[LS_TEXT_BYTES]; // path of the folder of checkpoints
} run_files;

static ls_status open_folder(const ls_args *args, ls_trainer *trainer, run_files *files) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    if (info->comm->rank != 0) return LS_SUCCESS;
    LS_TRY(ls_run_folder_open(info->cfg, args->run_dir, &files->folder));
    LS_TRY(ls_trainer_set_folder(trainer, files->folder.path));
    LS_TRY(ls_trainer_set_run(trainer, &files->folder.run));
    return ls_run_folder_file(&files->folder, "checkpoints", files->checkpoints, sizeof files->checkpoints);
}

// Opens the run's files on rank 0. Call it when nothing can be refused any more, because nothing may be written into
// the folder before.
static ls_status begin(const ls_train_info *info, run_files *files) {
    char path[LS_TEXT_BYTES];
    if (info->comm->rank != 0) return LS_SUCCESS;
    LS_TRY(ls_run_folder_begin(&files->folder, info));
    LS_TRY(ls_run_folder_file(&files->folder, "metrics.jsonl", path, sizeof path));
    LS_TRY(ls_metrics_open(path, files->folder.holds_run, info, &files->metrics));
    if (!info->cfg->log_tensorboard) return LS_SUCCESS;
    LS_TRY(ls_run_folder_file(&files->folder, "tensorboard", path, sizeof path));
    return ls_tensorboard_open(path, info, &files->tensorboard);
}

static ls_status refuse_lost(const run_files *files, const ls_run_record *record, const ls_train_info *info) {
    char come[96];
    snprintf(come, sizeof come, "written a checkpoint of update %lld", (long long)record->checkpoint);
    if (record->summary >= 0)
        snprintf(come, sizeof come, "completed %lld updates, of %lld now", (long long)record->summary,
            (long long)info->updates_planned);
    return ls_fail(LS_STORAGE,
        "run folder %s: its run has %s, but no checkpoint is in %s (an unmounted disk? a link to what is not there?): "
        "bring them back, then --resume goes on; to train from the start, choose another folder by --run-dir",
        files->folder.path, come, files->checkpoints);
}

static ls_status refuse_shorter(const run_files *files, const ls_train_info *info) {
    int64_t windows = info->batches.windows, at = info->resumed_at;
    return ls_fail(LS_USAGE,
        "run folder %s: %lld updates are done, but train.epochs and train.max_updates plan %lld only, and a run does "
        "not go back: set train.epochs to %lld at least (and train.max_updates to %lld, to end it here)",
        files->folder.path, (long long)at, (long long)info->updates_planned, (long long)((at + windows - 1) / windows),
        (long long)at);
}

// Rank 0: compares the checkpoint that was found (resumed: whether there is one) with the record of the run so far, and
// refuses a run that has lost its checkpoints, or that has done more updates than are planned now. *complete: 1 if
// nothing is left to do.
static ls_status check_record(const run_files *files, const ls_train_info *info, int resumed, int *complete) {
    ls_run_record record;
    LS_TRY(ls_run_folder_record(&files->folder, &record));
    *complete = record.summary >= info->updates_planned;
    if (*complete) {
        ls_info("run %s is complete: %lld updates are done, of %lld (a larger train.%s would go on, another --run-dir "
                "begins anew)",
            files->folder.path, (long long)record.summary, (long long)info->updates_planned,
            info->stopped_early ? "patience" : "epochs");
        return LS_SUCCESS;
    }
    if (!resumed && (record.summary >= 0 || record.checkpoint >= 0)) return refuse_lost(files, &record, info);
    if (resumed && info->resumed_at > info->updates_planned) return refuse_shorter(files, info);
    if (resumed && record.checkpoint > info->resumed_at)
        ls_alert("run folder %s: a checkpoint of update %lld was written, and is not there or not good: goes on from "
                 "update %lld",
            files->folder.path, (long long)record.checkpoint, (long long)info->resumed_at);
    if (!resumed) ls_info("run       %s has no checkpoint yet: it begins at the start", files->folder.path);
    return LS_SUCCESS;
}

static ls_status resume(ls_comm *comm, ls_trainer *trainer, run_files *files, int *resumed, int *complete) {
    int done = 0;
    LS_TRY(ls_trainer_resume(trainer, files->checkpoints, resumed));
    ls_status status = LS_SUCCESS;
    if (ls_comm_get_info(comm)->rank == 0) status = check_record(files, ls_trainer_get_info(trainer), *resumed, &done);
    LS_TRY(ls_comm_agree(comm, status, NULL));
    *complete = done;
    return ls_comm_broadcast(comm, complete, sizeof *complete, 0);
}

// Runs the training. Only rank 0 has observers, which write the metrics and show progress.
static ls_status run_observed(
    ls_trainer *trainer, const run_files *files, ls_progress_style style, ls_train_summary *summary) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    if (info->comm->rank != 0) return ls_trainer_run(trainer, NULL, 0, summary);
    ls_progress progress;
    ls_progress_start(&progress, style, info);
    ls_train_observer observers[3] = { ls_metrics_observer(files->metrics), ls_progress_observer(&progress) };
    if (files->tensorboard) observers[2] = ls_tensorboard_observer(files->tensorboard);
    ls_status status = ls_trainer_run(trainer, observers, files->tensorboard ? 3 : 2, summary);
    ls_progress_end(&progress);
    return status;
}

static ls_status save_weights(ls_trainer *trainer, const run_files *files) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_run_folder_file(&files->folder, "weights.safetensors", path, sizeof path));
    return ls_trainer_save_weights(trainer, path);
}

static void put_nonfinite(ls_metrics *metrics, const ls_nonfinite *report) {
    cJSON *event = ls_metrics_event(metrics, "nonfinite", report->update, report->epoch);
    ls_nonfinite_json(report, event);
    ls_metrics_put(metrics, event);
}

// Writes evaluation.json, and then summary.json, which marks the run as complete.
static ls_status write_results(ls_trainer *trainer, const run_files *files, const ls_train_summary *summary) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_run_folder_file(&files->folder, "evaluation.json", path, sizeof path));
    LS_TRY(ls_evaluation_write(path, ls_trainer_details(trainer)));
    LS_TRY(ls_run_folder_file(&files->folder, "summary.json", path, sizeof path));
    return ls_summary_write(path, ls_trainer_get_info(trainer), summary);
}

// Ends the metrics with the outcome so far. Also writes the results, unless the run has failed. Without open metrics,
// as on other ranks than 0, it does nothing.
static ls_status close_files(
    ls_trainer *trainer, run_files *files, const ls_train_summary *summary, ls_status outcome) {
    if (!files->metrics) return outcome;
    const ls_nonfinite *nonfinite = ls_trainer_nonfinite(trainer);
    if (nonfinite) put_nonfinite(files->metrics, nonfinite);
    ls_status closed = ls_metrics_close(files->metrics, outcome);
    ls_keep_first(&closed, ls_tensorboard_close(files->tensorboard));
    files->metrics = NULL;
    files->tensorboard = NULL;
    ls_keep_first(&outcome, closed);
    if (ls_failed(outcome)) return outcome;
    LS_TRY(write_results(trainer, files, summary));
    return ls_run_folder_check(&files->folder);
}

// Writes the weights and the results after the last update.
static ls_status finish(ls_comm *comm, ls_trainer *trainer, run_files *files, ls_train_summary *summary) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    LS_TRY(ls_command_agree(comm, ls_comm_broadcast(comm, files->folder.path, sizeof files->folder.path, 0)));
    ls_comm_phase(comm, "writing weights", -1);
    ls_status status = save_weights(trainer, files);
    LS_TRY(ls_command_agree(comm, close_files(trainer, files, summary, status)));
    if (info->comm->rank == 0) ls_report_end(info, summary, files->folder.path);
    return LS_SUCCESS;
}

// Checks that --trace can be written, before hours of training. It is called twice, at the start and when the run has
// read its inputs, because ls_check_output protects only files that were read before.
static ls_status check_trace(const ls_args *args, const ls_config *cfg, int rank) {
    if (!args->trace || rank != 0) return LS_SUCCESS;
    LS_TRY(ls_command_check_output(cfg, "--trace", args->trace, "timeline of this program", "{\"displayTimeUnit\"*"));
    return ls_trace_file_check(args->trace);
}

static ls_status start_trace(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    if (!args->trace) return LS_SUCCESS;
    return ls_command_agree(comm, ls_trainer_trace(trainer, args->trace_from, args->trace_to));
}

// Tells all ranks whether the folder, which only rank 0 has opened, holds a run to go on with.
static ls_status share_folder(ls_comm *comm, run_files *files, int *holds_run) {
    *holds_run = files->folder.holds_run;
    return ls_comm_broadcast(comm, holds_run, sizeof *holds_run, 0);
}

// Prints the start of the run for people and returns the style of the progress display. If rank 0 shows a bar, the
// lines of the other ranks appear on the same terminal, so these ranks prepare for it (ls_log_beside_bar).
static ls_progress_style announce(const ls_args *args, const ls_train_info *info, const run_files *files) {
    const ls_progress_style style = ls_progress_choose(info->cfg, info->comm, args->quiet);
    const int has_bar = style.display == LS_DISPLAY_BAR;
    if (info->comm->rank != 0) {
        if (has_bar) ls_log_beside_bar();
        return style;
    }
    if (!args->quiet && !ls_scope_is_of_run())
        ls_go_on_announce(args, info->comm->world_size, files->folder.path, has_bar);
    ls_report_start(info, files->folder.path);
    return style;
}

static void report_stop(const ls_args *args, const ls_train_info *info, const run_files *files) {
    char command[LS_GO_ON_BYTES];
    if (info->comm->rank == 0)
        ls_info("go on by  %s", ls_go_on_command(args, info->comm->world_size, files->folder.path, command));
}

static ls_status train_into(const ls_args *args, ls_comm *comm, ls_trainer *trainer, run_files *files) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    int complete = 0, resumes, resumed = 0;
    LS_TRY(ls_command_agree(comm, share_folder(comm, files, &resumes)));
    if (resumes) LS_TRY(ls_command_agree(comm, resume(comm, trainer, files, &resumed, &complete)));
    if (complete) return LS_SUCCESS;
    if (!resumed) LS_TRY(ls_command_agree(comm, ls_trainer_init_from_file(trainer)));
    if (info->cfg->run_resume != LS_RESUME_OFF) LS_TRY(start_trace(args, comm, trainer)); // the first update is known
    LS_TRY(ls_command_agree(comm, check_trace(args, info->cfg, info->comm->rank)));
    LS_TRY(ls_command_agree(comm, ls_trainer_save_into(trainer, files->checkpoints)));
    ls_status status = ls_trainer_read_ahead(trainer); // reads pictures while the files are written
    LS_THEN(status, begin(info, files));
    if (ls_failed(status)) status = close_files(trainer, files, NULL, status);
    LS_TRY(ls_command_agree(comm, status));
    const ls_progress_style style = announce(args, info, files);

    ls_train_summary summary = { .status = "" };
    status = run_observed(trainer, files, style, &summary);
    if (ls_failed(status) && info->comm->rank == 0) status = close_files(trainer, files, &summary, status);
    status = ls_command_agree_or_abort(comm, status);
    if (status.code == LS_STOPPED) report_stop(args, info, files);
    LS_TRY(status);
    ls_status traced = args->trace ? ls_trainer_write_trace(trainer, args->trace) : LS_SUCCESS;
    LS_TRY(finish(comm, trainer, files, &summary));
    return ls_command_agree(comm, traced); // the run is complete even if its trace is not
}

static ls_status train(const ls_args *args, ls_comm *comm, ls_trainer *trainer, run_files *files) {
    // Without --resume (run.resume), --trace-updates is checked before anything is created, else when the first update
    // is known.
    if (ls_trainer_get_info(trainer)->cfg->run_resume == LS_RESUME_OFF) LS_TRY(start_trace(args, comm, trainer));
    LS_TRY(ls_command_agree(comm, open_folder(args, trainer, files)));
    return train_into(args, comm, trainer, files);
}

static ls_status print_plan(ls_trainer *trainer) {
    if (ls_trainer_get_info(trainer)->cfg->run_resume == LS_RESUME_OFF) LS_TRY(ls_trainer_init_from_file(trainer));
    if (ls_trainer_get_info(trainer)->comm->rank == 0) ls_report_options(ls_trainer_get_info(trainer));
    if (ls_trainer_get_info(trainer)->comm->rank == 0) ls_trainer_print_plan(trainer, stdout);
    return ls_command_flush(stdout);
}

static ls_status print_config(const ls_config *cfg, int rank) {
    if (rank == 0) ls_config_write(cfg, stdout, 0);
    return ls_command_flush(stdout);
}

ls_status ls_cmd_train(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    if (args->print_config) return ls_command_agree(comm, print_config(&cfg, ls_comm_get_info(comm)->rank));

    ls_trainer *trainer = NULL;
    LS_TRY(ls_command_agree(comm, check_trace(args, &cfg, ls_comm_get_info(comm)->rank))); // again in train_into
    LS_TRY(ls_command_agree(comm, ls_trainer_new(&cfg, comm, &trainer)));
    run_files files = { .folder.lock = -1 };
    ls_status status = ls_command_agree(comm, ls_trainer_verify_pictures(trainer));
    LS_THEN(status, args->dry_run ? ls_command_agree(comm, print_plan(trainer)) : train(args, comm, trainer, &files));
    ls_trainer_free(trainer); // before the folder is closed: a checkpoint may still be on its way into it
    ls_run_folder_close(&files.folder);
    return status;
}
