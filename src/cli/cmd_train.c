// cmd_train.c - `train CONFIG.ini`: one run from configuration to summary.

#include <string.h>
#include "base/log.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/summary.h"
#include "train/trace_file.h"
#include "train/trainer.h"

// The folder of this run; metrics exist on rank 0 only.
typedef struct {
    ls_run_folder folder;
    ls_metrics *metrics;
} run_files;

static ls_status open_files(const ls_args *args, ls_trainer *trainer, run_files *files) {
    const ls_train_facts *facts = ls_trainer_about(trainer);
    if (facts->comm->rank != 0) return LS_SUCCESS;
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_run_folder_create(facts->cfg, args->run_dir, &files->folder));
    LS_TRY(ls_trainer_set_folder(trainer, files->folder.path));
    LS_TRY(ls_run_folder_file(&files->folder, "metrics.jsonl", path, sizeof path));
    return ls_metrics_open(path, facts, &files->metrics);
}

// Only rank 0 hears of progress.
static ls_status run_observed(ls_trainer *trainer, const run_files *files, int quiet, ls_train_summary *summary) {
    const ls_train_facts *facts = ls_trainer_about(trainer);
    if (facts->comm->rank != 0) return ls_trainer_run(trainer, NULL, 0, summary);
    ls_progress progress;
    ls_progress_start(&progress, ls_progress_choose(facts->cfg, facts->comm, quiet), facts);
    ls_train_observer observers[] = { ls_metrics_observer(files->metrics), ls_progress_observer(&progress) };
    ls_status status = ls_trainer_run(trainer, observers, sizeof observers / sizeof observers[0], summary);
    ls_progress_end(&progress);
    return status;
}

static ls_status save_weights(ls_trainer *trainer, const run_files *files) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_run_folder_file(&files->folder, "weights.safetensors", path, sizeof path));
    return ls_trainer_save_weights(trainer, path);
}

// Ends the metrics with the outcome so far, and writes the summary of a run that has come this far without failure.
static ls_status close_files(
    ls_trainer *trainer, run_files *files, const ls_train_summary *summary, ls_status outcome) {
    if (!files->metrics) return outcome;
    const ls_nonfinite *nonfinite = ls_trainer_nonfinite(trainer);
    if (nonfinite) ls_metrics_nonfinite(files->metrics, nonfinite);
    ls_status closed = ls_metrics_close(files->metrics, outcome);
    files->metrics = NULL;
    ls_keep_first(&outcome, closed);
    if (ls_failed(outcome)) return outcome;
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_run_folder_file(&files->folder, "summary.json", path, sizeof path));
    return ls_summary_write(path, ls_trainer_about(trainer), summary);
}

static ls_status train(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    const ls_train_facts *facts = ls_trainer_about(trainer);
    run_files files = { .metrics = NULL };
    if (args->trace) LS_TRY(ls_command_agree(comm, ls_trainer_trace(trainer, args->trace_from, args->trace_to)));
    ls_train_summary summary = { .status = "" };
    ls_status status = ls_command_agree(comm, open_files(args, trainer, &files));
    LS_TRY(status); // then there are no metrics: opening them is the last step
    if (facts->comm->rank == 0) ls_report_start(facts, files.folder.path);

    status = run_observed(trainer, &files, args->quiet, &summary);
    if (ls_failed(status) && facts->comm->rank == 0) status = close_files(trainer, &files, &summary, status);
    LS_TRY(ls_command_agree_or_abort(comm, status));

    ls_status traced = args->trace ? ls_trainer_write_trace(trainer, args->trace) : LS_SUCCESS;
    LS_TRY(ls_command_agree(comm, ls_comm_broadcast(comm, files.folder.path, sizeof files.folder.path, 0)));
    ls_comm_phase(comm, "writing weights", -1);
    status = save_weights(trainer, &files);
    LS_TRY(ls_command_agree(comm, close_files(trainer, &files, &summary, status)));
    if (facts->comm->rank == 0) ls_report_end(facts, &summary, files.folder.path);
    return ls_command_agree(comm, traced); // the run is whole in any case
}

static ls_status print_plan(const ls_trainer *trainer) {
    if (ls_trainer_about(trainer)->comm->rank == 0) ls_trainer_print_plan(trainer, stdout);
    return fflush(stdout) == 0 ? LS_SUCCESS : ls_fail(LS_STORAGE, "standard output: cannot be written");
}

static ls_status print_config(const ls_config *cfg, int rank) {
    if (rank == 0) ls_config_write(cfg, stdout, 0);
    return fflush(stdout) == 0 ? LS_SUCCESS : ls_fail(LS_STORAGE, "standard output: cannot be written");
}

// Before hours of training, not after.
static ls_status check_trace(const ls_args *args, int rank) {
    return args->trace && rank == 0 ? ls_trace_file_check(args->trace) : LS_SUCCESS;
}

ls_status ls_cmd_train(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    if (args->print_config) return ls_command_agree(comm, print_config(&cfg, ls_comm_about(comm)->rank));

    ls_trainer *trainer = NULL;
    LS_TRY(ls_command_agree(comm, check_trace(args, ls_comm_about(comm)->rank)));
    LS_TRY(ls_command_agree(comm, ls_trainer_new(&cfg, comm, &trainer)));
    ls_status status = args->dry_run ? ls_command_agree(comm, print_plan(trainer)) : train(args, comm, trainer);
    ls_trainer_free(trainer);
    return status;
}
