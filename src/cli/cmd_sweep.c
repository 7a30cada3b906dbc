// cmd_sweep.c - `train sweep CONFIG.ini --seeds 1-25 --set key=value,value`: many runs of one kind, and a table of
// their results.
//
// This process starts each run, as a process of one rank or as a thread (sweep/jobs.h). With --task this process is
// itself one of the runs, on all ranks that were started, like `train` with that run's command line. --table and
// --dry-run start no run.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/text.h"
#include "command/commands.h"
#include "sweep/folder.h"
#include "sweep/jobs.h"
#include "sweep/prove.h"
#include "sweep/share.h"
#include "sweep/table.h"

// --- --dry-run -----------------------------------------------------------------------------------

// Prints a word of a command line, in quotes if a shell requires them.
static void print_word(const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+@%~";
    if (word[0] && word[0] != '~' && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) *word == '\'' ? (void)fputs("'\\''", stdout) : (void)putchar(*word);
    putchar('\'');
}

// Prints a line for each run, with tabs between its number, its state and its command line:
// "3	new	train c.ini --set optimizer.lr=0.05 ...".
static ls_status list_runs(const ls_sweep_plan *plan, const ls_sweep_result *results) {
    static const char *const states[] = { "new", "begun", "complete" };
    for (int run = 0; run < plan->runs; run++) {
        char **words;
        LS_TRY(ls_sweep_words(plan, run, 0, 0, &words));
        printf("%d\t%s\t", run + 1, states[results[run].state]);
        for (int i = 0; words[i]; i++) {
            if (i) putchar(' ');
            print_word(words[i]);
        }
        putchar('\n');
        ls_sweep_words_free(words);
    }
    if (plan->stem_count > 0) ls_info("shared    %d runs for the work of %.1f (--share)", plan->runs, plan->work);
    ls_info("%d run%s: %d setting%s, %d seed%s, in %s", plan->runs, plan->runs == 1 ? "" : "s", plan->settings,
        plan->settings == 1 ? "" : "s", plan->seed_count, plan->seed_count == 1 ? "" : "s", plan->folder);
    return ls_command_flush(stdout);
}

// --- the table -----------------------------------------------------------------------------------

static ls_status print_table(const ls_sweep_table *table) {
    if (table->complete == 0)
        return ls_fail(
            LS_STORAGE, "sweep folder %s: none of these %d runs is complete", table->plan->folder, table->plan->runs);
    ls_status status = ls_sweep_table_write(table);
    if (!ls_failed(status)) ls_info("results   %s/settings.csv, runs.csv and results.json", table->plan->folder);
    ls_keep_first(&status, ls_sweep_table_print(table, stdout));
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

static ls_status report(const ls_sweep_plan *plan, const ls_sweep_result *results) {
    ls_sweep_table table = ls_sweep_table_new(plan, results);
    ls_status status = print_table(&table);
    ls_sweep_table_free(&table);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static int has_complete(const ls_sweep_plan *plan, const ls_sweep_result *results) {
    for (int run = 0; run < plan->runs; run++)
        if (results[run].state == LS_SWEEP_COMPLETE) return 1;
    return 0;
}

// Trains one run of the sweep from the words of its command line. Collective.
static ls_status train_words(char *const *words, ls_comm *comm) {
    int count = 0;
    ls_args args;
    while (words[count]) count++;
    ls_status status = ls_command_agree(comm, ls_args_parse(count, words, &args));
    LS_THEN(status, ls_cmd_train(&args, comm));
    ls_args_free(&args);
    return status;
}

static ls_status choose_jobs(
    const ls_args *args, const ls_sweep_plan *plan, ls_comm *comm, ls_sweep_jobs_options *options) {
    *options = (ls_sweep_jobs_options){ .jobs = args->jobs ? args->jobs : 1, .quiet = args->quiet, .comm = comm };
    if (!args->together) return LS_SUCCESS;
    options->train = train_words;
    char *end = "";
    const int is_auto = strcmp(args->together, "auto") == 0;
    const long number = is_auto ? 0 : strtol(args->together, &end, 10);
    if (!is_auto && (!isdigit((unsigned char)args->together[0]) || *end || number < 1 || number > LS_SWEEP_JOBS_MAX))
        return ls_fail(
            LS_USAGE, "--together %s: a whole number from 1 to %d, or auto", args->together, LS_SWEEP_JOBS_MAX);
    options->jobs = (int)number;
    return ls_sweep_together(plan, ls_comm_get_info(comm), &options->jobs);
}

// Trains the runs that are not complete, on all ranks. Then rank 0 prints the table, unless the sweep was stopped or no
// run is complete. Collective.
static ls_status run_all(const ls_args *args, const ls_sweep_plan *plan, ls_sweep_result *results, ls_comm *comm) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    ls_sweep_jobs_options options;
    int lock = -1;
    ls_status status = choose_jobs(args, plan, comm, &options);
    if (info->rank == 0) LS_THEN(status, ls_sweep_folder_open(plan, LS_SWEEP_ALONE, &lock));
    status = ls_comm_agree(comm, status, NULL);
    if (info->world_size == 1) ls_comm_leave_launch();
    LS_THEN(status, ls_comm_agree(comm, ls_sweep_jobs(plan, results, &options), NULL));
    if (args->prove) LS_THEN(status, ls_sweep_prove(plan, results, &options));
    if (lock >= 0 && status.code != LS_STOPPED && has_complete(plan, results))
        ls_keep_first(&status, report(plan, results));
    if (lock >= 0) close(lock);
    return status;
}

static ls_status all_runs(const ls_args *args, const ls_sweep_plan *plan, ls_comm *comm) {
    ls_sweep_result *results = NULL;
    ls_status status = ls_comm_agree(comm, ls_sweep_look_all(plan, &results), NULL);
    if (args->dry_run) LS_THEN(status, ls_sweep_folder_open(plan, LS_SWEEP_ALONE, NULL));
    if (args->dry_run)
        LS_THEN(status, list_runs(plan, results));
    else if (args->table)
        LS_THEN(status, report(plan, results));
    else
        LS_THEN(status, run_all(args, plan, results, comm));
    free(results);
    return status;
}

static ls_status check_ranks(const ls_args *args, const ls_comm_info *comm) {
    if (comm->world_size == 1 || args->task || args->together) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "train sweep starts its runs itself, of one rank each: start it alone (--jobs N: so many at a time), or with "
        "--together K, so many on each rank; runs of %d ranks one by one: mpirun -np %d ... train sweep ... --task K",
        comm->world_size, comm->world_size);
}

static ls_status check_together(const ls_args *args) {
    const char *other = args->jobs      ? "--jobs, which makes a process of each run"
                        : args->task    ? "--task, which is about one run"
                        : args->table   ? "--table, which starts no run"
                        : args->dry_run ? "--dry-run, which starts no run"
                                        : NULL;
    if (!args->together || !other) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--together %s: not with %s", args->together, other);
}

static ls_status check_share(const ls_args *args, const ls_comm_info *comm) {
    const char *other = args->task    ? "--task, which is about one run"
                        : args->table ? "--table, which starts no run"
                                      : NULL;
    if (args->prove && !args->share)
        return ls_fail(LS_USAGE, "--prove: only with --share, whose runs it compares with runs alone");
    if (args->prove && args->dry_run) return ls_fail(LS_USAGE, "--prove: not with --dry-run, which starts no run");
    if (args->share && other) return ls_fail(LS_USAGE, "--share: not with %s", other);
    if (args->share && comm->world_size > 1)
        return ls_fail(LS_USAGE,
            "--share: runs wait for what they share, which only one rank sees: start it alone, with --jobs N or "
            "--together K");
    return LS_SUCCESS;
}

static ls_status check_task(const ls_args *args, const ls_sweep_plan *plan) {
    if (args->table || args->dry_run)
        return ls_fail(
            LS_USAGE, "--task %d: with %s, which is about all runs", args->task, args->table ? "--table" : "--dry-run");
    if (args->task <= plan->runs) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "--task %d: the sweep has %d run%s, counted from 1 (--dry-run lists them)", args->task,
        plan->runs, plan->runs == 1 ? "" : "s");
}

// Rank 0: checks that the folder belongs to this sweep and that the run's own folder holds no run with another
// configuration; makes and locks the sweep's folder.
static ls_status prepare_task(const ls_sweep_plan *plan, int run, int *lock) {
    ls_sweep_result result;
    LS_TRY(ls_sweep_look(plan, run, &result));
    return ls_sweep_folder_open(plan, LS_SWEEP_TOGETHER, lock);
}

static ls_status one_run(const ls_args *args, const ls_sweep_plan *plan, ls_comm *comm) {
    const int run = args->task - 1, first = ls_comm_get_info(comm)->rank == 0;
    char **words = NULL;
    int lock = -1;
    LS_TRY(ls_command_agree(comm, first ? prepare_task(plan, run, &lock) : LS_SUCCESS));
    ls_status status = ls_command_agree(comm, ls_sweep_words(plan, run, 0, args->quiet, &words));
    LS_THEN(status, train_words(words, comm));
    ls_sweep_words_free(words);
    if (lock >= 0) close(lock);
    return status;
}

ls_status ls_cmd_sweep(const ls_args *args, ls_comm *comm) {
    ls_sweep_plan plan = { 0 };
    ls_status status = check_ranks(args, ls_comm_get_info(comm));
    LS_THEN(status, check_together(args));
    LS_THEN(status, check_share(args, ls_comm_get_info(comm)));
    LS_THEN(status, ls_sweep_plan_new(args, &plan));
    if (args->share) LS_THEN(status, ls_sweep_share(&plan));
    if (args->task) LS_THEN(status, check_task(args, &plan));
    status = ls_command_agree(comm, status);
    if (!ls_failed(status) && args->task)
        status = one_run(args, &plan, comm);
    else
        LS_THEN(status, ls_command_agree(comm, all_runs(args, &plan, comm)));
    ls_sweep_plan_free(&plan);
    return status;
}
