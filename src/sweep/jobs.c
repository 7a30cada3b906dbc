#include "sweep/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/files.h"
#include "system/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "system/signals.h"
#include "base/text.h"
#include "command/progress.h"
#include "sweep/child.h"
#include "sweep/folder.h"
#include "sweep/screen.h"
#include "sweep/share.h"
#include "device/gpu/plugin.h"
#include "dist/affinity.h"

enum { FAILURES_MIN = 3, GPU_WORD_BYTES = 64 };
static const double NAP_S = 0.03;

typedef struct {
    int run;           // number of the run in this slot; -1: the slot is free
    pid_t pid;         // its process
    ls_worker *worker; // or its thread
    char **words;      // its command line
    int beside;        // 1: another run of this process has trained beside it
    double started;
    int64_t oom_kills; // the kernel's count of out-of-memory kills when the run started; -1: unknown
    char folder[LS_TEXT_BYTES];
    ls_cpu_mask cpus;          // processors for the run; empty: the same as this process
    char gpus[GPU_WORD_BYTES]; // CUDA_VISIBLE_DEVICES for the run; "": the same as this process
} slot;

typedef struct {
    const ls_sweep_plan *plan;
    ls_sweep_result *results;
    ls_run_words *train; // NULL: runs are processes
    ls_comm *comm;       // the ranks that share the runs
    int claims;          // file whose bytes the ranks lock, one for each run that they take; -1: there is one rank
    int quiet, threads;  // threads: device.threads of each run; 0: not set here
    slot *slots;
    int slot_count, running;
    int open;    // number of slots that runs may take: all at first, fewer if the runs do not fit into the memory
    char *begun; // [runs and stems] 1: this rank has started it, or another rank has it
    int relayed; // 1: the warnings of a run have been printed
    int completed, failed; // numbers of runs that were started here and have completed or failed
    int asked;             // the signal that asked us to stop; 0: no signal
    int stopped;           // 1: a run has stopped early, by a request or a time limit, so no more are started
    int failed_elsewhere;  // number of runs that have failed on other ranks; known at the end
    int first_failed;      // lowest number of a run that failed
    ls_status failure;     // failure of the run `first_failed`
    char failure_text[LS_STATUS_TEXT_BYTES / 2]; // text of `failure`
    ls_sweep_screen screen;
} work;

// --- shares of the machine -----------------------------------------------------------------------

static int may_use_gpus(const ls_config *cfg) {
    return cfg->device_type != LS_DEVICE_TYPE_CPU && cfg->device_type != LS_DEVICE_TYPE_REF;
}

static int count_gpus(void) {
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++) {
        const ls_gpu_vendor *vendor = ls_gpu_plugins[p].vendor;
        if (!vendor->fill || !vendor->missing || vendor->missing(NULL)) continue;
        ls_gpu_machine *machine = ls_new(1, sizeof *machine, "GPUs of this machine");
        vendor->fill(machine);
        const int count = machine->card_count;
        free(machine);
        return count;
    }
    return 0;
}

// Writes the name of the GPU number `index`, among those that this process sees, into dst.
static void name_gpu(int index, char dst[GPU_WORD_BYTES]) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; visible && i < index; i++) {
        const char *comma = strchr(visible, ',');
        visible = comma ? comma + 1 : NULL;
    }
    if (visible)
        ls_text_cut(dst, GPU_WORD_BYTES, "%.*s", (int)strcspn(visible, ","), visible);
    else
        snprintf(dst, GPU_WORD_BYTES, "%d", index);
}

static ls_status share_gpus(work *w, int gpus) {
    if (w->slot_count > gpus)
        return ls_fail(LS_USAGE,
            "--jobs %d: a run takes a GPU, and there %s %d: fewer jobs, or train on the processor by --set "
            "device.type=cpu",
            w->slot_count, gpus == 1 ? "is" : "are", gpus);
    for (int i = 0; i < w->slot_count; i++) name_gpu(i, w->slots[i].gpus);
    return LS_SUCCESS;
}

// Divides the cores among the slots. Each slot gets whole cores, with all their hardware threads.
static void share_cores(work *w) {
    const ls_comm_info *comm = ls_comm_get_info(w->comm);
    ls_cpu_mask mask;
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    const int threads = ls_cpus_threads_per_rank(&cpus, comm->local_size);
    // a launcher that binds its ranks has divided the cores already
    const int sharers = cpus.mask_cpus < cpus.host_cpus ? 1 : comm->local_size, slots = sharers * w->slot_count;
    const int first = sharers > 1 ? comm->local_rank * w->slot_count : 0;
    w->threads = threads / w->slot_count > 1 ? threads / w->slot_count : 1;
    if (w->slot_count > threads)
        ls_info("jobs      %d on %d core%s: they share", w->slot_count, threads, threads == 1 ? "" : "s");
    if (!ls_cpu_mask_of_thread(&mask)) return;
    ls_affinity_view *views = ls_new(slots, sizeof *views, "cores of %d jobs", slots);
    for (int i = 0; i < slots; i++) views[i] = (ls_affinity_view){ .moves = 1, .cpus = mask };
    for (int i = 0; i < w->slot_count; i++) w->slots[i].cpus = ls_affinity_share("", views, slots, first + i);
    free(views);
}

// Chooses the GPU that the runs of this rank share, before any of them opens one.
static ls_status choose_gpu(const work *w, int gpus) {
    char name[GPU_WORD_BYTES];
    if (w->claims < 0) return LS_SUCCESS; // one rank: the first GPU, as for a run started by hand
    name_gpu(ls_comm_get_info(w->comm)->local_rank % gpus, name);
    if (setenv("CUDA_VISIBLE_DEVICES", name, 1) == 0) return LS_SUCCESS;
    return ls_fail(LS_INTERNAL, "setenv of CUDA_VISIBLE_DEVICES: %m");
}

// Divides GPUs or cores among the slots of all ranks. The only slot of a single rank gets everything, as a run started
// by hand would. Runs that are threads of one rank share a GPU, whatever their number.
static ls_status share_machine(work *w) {
    ls_config cfg;
    int gpus = 0;
    if (w->slot_count == 1 && w->claims < 0) return LS_SUCCESS;
    LS_TRY(ls_sweep_config(w->plan, 0, -1, &cfg));
    if (may_use_gpus(&cfg)) gpus = count_gpus();
    if (gpus > 0) return w->train ? choose_gpu(w, gpus) : share_gpus(w, gpus);
    share_cores(w);
    if (cfg.line[LS_OPTION_device_threads]) w->threads = 0; // the configuration sets it
    return LS_SUCCESS;
}

ls_status ls_sweep_together(const ls_sweep_plan *plan, const ls_comm_info *comm, int *jobs) {
    enum { ON_A_GPU = 8 };
    ls_config cfg;
    ls_cpus cpus;
    LS_TRY(ls_sweep_config(plan, 0, -1, &cfg));
    const int on_gpu = cfg.device_type == LS_DEVICE_TYPE_CUDA || (may_use_gpus(&cfg) && count_gpus() > 0);
    if (on_gpu && *jobs != 1 && cfg.train_micro_batch == LS_AUTO)
        return ls_fail(LS_USAGE,
            "--together: train.micro_batch = auto would depend on the memory that other runs leave; set a number");
    if (*jobs) return LS_SUCCESS;
    ls_cpus_detect(&cpus);
    const int threads = ls_cpus_threads_per_rank(&cpus, comm->local_size), most = on_gpu ? ON_A_GPU : LS_SWEEP_JOBS_MAX;
    *jobs = threads < most ? threads : most;
    return LS_SUCCESS;
}

// --- runs ----------------------------------------------------------------------------------------

static int complete_runs(const work *w) {
    int count = 0;
    for (int run = 0; run < w->plan->runs; run++) count += w->results[run].state == LS_SWEEP_COMPLETE;
    return count;
}

// Returns the kernel's count of out-of-memory kills. LOCKSTEP_SYS_ROOT names a folder to use in place of /, for tests.
static int64_t count_oom_kills(void) {
    const char *root = getenv("LOCKSTEP_SYS_ROOT");
    return ls_cpus_oom_kills(root ? root : "");
}

static void note_failure(work *w, int run, ls_code code, const char *how) {
    char name[LS_SWEEP_NAME_BYTES], text[sizeof w->failure_text];
    ls_text_cut(text, sizeof text, "%s failed%s", ls_sweep_run_name(w->plan, run, name), how);
    ls_sweep_screen_clear(&w->screen);
    ls_alert("%s", text);
    if (w->failed++ > 0 && run > w->first_failed) return;
    w->first_failed = run;
    memcpy(w->failure_text, text, sizeof text);
    w->failure = (ls_status){ code, w->failure_text };
}

static void free_slot(slot *s) {
    ls_sweep_words_free(s->words);
    s->words = NULL;
    s->run = -1;
}

static ls_status start_in(const work *w, slot *s) {
    char log[LS_TEXT_BYTES];
    const int bound = ls_cpu_mask_first(&s->cpus) >= 0;
    LS_TRY(ls_path_join(log, sizeof log, s->folder, "log.txt"));
    LS_TRY(ls_make_folders(s->folder));
    LS_TRY(ls_sweep_begin_with_stem(w->plan, s->run));
    LS_TRY(ls_sweep_words(w->plan, s->run, w->threads, 0, &s->words));
    const ls_child child = { s->words, log, bound ? &s->cpus : NULL, s->gpus[0] ? s->gpus : NULL };
    return w->train ? ls_worker_start(&child, w->train, &s->worker) : ls_child_start(&child, &s->pid);
}

// Starts a run. A run that cannot be started has failed, like one that fails later.
static void start(work *w, slot *s, int run) {
    s->run = run;
    s->oom_kills = count_oom_kills();
    s->started = ls_clock_seconds();
    s->beside = w->train && w->running > 0;
    for (int i = 0; i < w->slot_count && s->beside; i++)
        if (w->slots[i].run >= 0) w->slots[i].beside = 1;
    ls_status status = ls_sweep_run_folder(w->plan, run, s->folder);
    LS_THEN(status, start_in(w, s));
    w->running += !ls_failed(status);
    if (!ls_failed(status)) return;
    char how[LS_STATUS_TEXT_BYTES / 4];
    ls_text_cut(how, sizeof how, " (exit %d): %s", status.code, status.text);
    note_failure(w, run, status.code, how);
    free_slot(s);
}

static int goes_on(const work *w) {
    const int enough = w->slot_count > FAILURES_MIN ? w->slot_count : FAILURES_MIN;
    return !w->asked && !w->stopped && (w->completed > 0 || w->failed < enough);
}

// Takes the run for this rank until the sweep ends, by a lock on its byte of `claims`. Returns 0 if another rank has
// it. The lock belongs to the open file, and the kernel releases it when the rank dies.
static int claim(const work *w, int run) {
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = run, .l_len = 1 };
    return w->claims < 0 || fcntl(w->claims, F_OFD_SETLK, &lock) == 0;
}

// Returns 1 for an incomplete run, and for an incomplete stem that such a run begins with, directly or by other stems.
static int is_needed(const work *w, int run) {
    if (w->results[run].state == LS_SWEEP_COMPLETE) return 0;
    int needed = run < w->plan->runs;
    for (int i = 0; i < ls_sweep_runs_and_stems(w->plan) && !needed; i++)
        needed = ls_sweep_parent(w->plan, i) == run && is_needed(w, i);
    return needed;
}

static int is_ready(const work *w, int run) {
    const int parent = ls_sweep_parent(w->plan, run);
    return !w->begun[run] && (parent < 0 || w->results[parent].state == LS_SWEEP_COMPLETE) && is_needed(w, run);
}

// Takes the next run that can start here: stems first, because runs wait for them. Returns -1 if no run can start here.
static int take_next(work *w) {
    const int all = ls_sweep_runs_and_stems(w->plan), stems = all - w->plan->runs;
    for (int i = 0; i < all; i++) {
        const int run = i < stems ? w->plan->runs + i : i - stems;
        if (!is_ready(w, run)) continue;
        w->begun[run] = 1;
        if (claim(w, run)) return run;
    }
    return -1;
}

static void start_more(work *w) {
    for (int i = 0; i < w->slot_count && w->running < w->open && goes_on(w); i++) {
        if (w->slots[i].run >= 0) continue;
        const int run = take_next(w);
        if (run >= 0) start(w, &w->slots[i], run);
    }
}

// Asks all runs under way to save and end. Threads see the signals of this process, so SIGTERM is raised here
// unless a signal has been received.
static void end_all(const work *w) {
    if (w->train && !ls_signals_received()) raise(SIGTERM);
    for (int i = 0; i < w->slot_count && !w->train; i++)
        if (w->slots[i].run >= 0) kill(w->slots[i].pid, SIGTERM);
}

// --- ends of runs --------------------------------------------------------------------------------

// Returns the code of a failed run. A run that a signal ended has no exit code: SIGKILL comes from outside (the kernel,
// a person, another program), any other signal is a bug of ours.
static ls_code code_of(int exit_code, int signal) {
    if (signal) return signal == SIGKILL ? LS_DEVICE : LS_INTERNAL;
    return (ls_code)exit_code;
}

// Returns a text about who may have sent SIGKILL to the run, guessed from the kernel's count of out-of-memory kills.
static const char *killer(const slot *s) {
    const int64_t now = count_oom_kills();
    if (now < 0 || s->oom_kills < 0)
        return ": by a person or a program, or by the kernel for lack of memory (dmesg knows)";
    return now > s->oom_kills
               ? ": meanwhile the kernel ended a process of this group for lack of memory"
               : ": by a person or a program; the kernel has ended no process of this group for lack of memory";
}

static void explain_end(work *w, const slot *s, int exit_code, int signal) {
    char how[192], log[LS_TEXT_BYTES], text[sizeof w->failure_text];
    snprintf(how, sizeof how, "exit %d", exit_code);
    if (signal)
        snprintf(how, sizeof how, "ended by signal %d (%s)%s", signal, strsignal(signal),
            signal == SIGKILL ? killer(s) : "");
    snprintf(log, sizeof log, "%.*s/log.txt", LS_TEXT_BYTES - 16, s->folder);
    char *line = signal ? NULL : ls_sweep_last_line(log, "error: ");
    ls_text_cut(text, sizeof text, " (%s)%s%.1200s; its lines are in %s", how, line ? ": " : "",
        line ? line + strlen("error: ") : "", log);
    free(line);
    note_failure(w, s->run, code_of(exit_code, signal), text);
}

// Prints the warnings at the beginning of a run's log. Called only for the first run that completes, because most
// warnings are the same for all runs. Leaves out warnings that begin with "run folder", such as that a run goes on from
// its stem's checkpoint.
static void relay_warnings(const slot *s, const char *name) {
    enum { BEGINNING_BYTES = 16384 };
    static const char begins[] = "warning: ", stem[] = "warning: run folder ";
    char log[LS_TEXT_BYTES + 16], *text, *rest, *line;
    size_t bytes;
    snprintf(log, sizeof log, "%s/log.txt", s->folder);
    if (ls_failed(ls_read_beginning(log, BEGINNING_BYTES, &text, &bytes))) return;
    rest = text;
    while ((line = strsep(&rest, "\n")) && rest)
        if (strncmp(line, begins, strlen(begins)) == 0 && strncmp(line, stem, strlen(stem)) != 0)
            ls_alert("%s: %s", name, line + strlen(begins));
    free(text);
}

static void report_complete(work *w, const slot *s) {
    const ls_sweep_result *r = &w->results[s->run];
    char name[LS_SWEEP_NAME_BYTES], took[32];
    w->completed++;
    ls_sweep_run_name(w->plan, s->run, name);
    ls_progress_duration(took, sizeof took, r->seconds);
    ls_sweep_screen_clear(&w->screen);
    if (ls_sweep_stem_at(w->plan, s->run)) {
        ls_info("shared    %s, %s", name, took);
        return;
    }
    ls_info("%d of %d  %s: test accuracy %.2f %%, %s", complete_runs(w), w->plan->runs, name,
        100 * r->accuracy[LS_SWEEP_TEST], took);
    if (!w->relayed) relay_warnings(s, name);
    w->relayed = 1;
}

// Lets a run begin again later, beside fewer runs, as it may have lacked the memory that they take.
static void begin_again(work *w, const slot *s) {
    char name[LS_SWEEP_NAME_BYTES], log[LS_TEXT_BYTES];
    if (w->open > 1) w->open--;
    w->begun[s->run] = 0;
    snprintf(log, sizeof log, "%.*s/log.txt", LS_TEXT_BYTES - 16, s->folder);
    char *line = ls_sweep_last_line(log, "error: ");
    ls_sweep_screen_clear(&w->screen);
    ls_info("memory    %s begins again later, and from now on %d run%s at a time: %s",
        ls_sweep_run_name(w->plan, s->run, name), w->open, w->open == 1 ? "" : "s",
        line ? line + strlen("error: ") : "the device failed");
    free(line);
}

static ls_status take_end(work *w, const slot *s, int exit_code, int signal) {
    w->running--;
    if (exit_code == LS_DEVICE && s->beside && !w->asked) {
        begin_again(w, s);
        return LS_SUCCESS;
    }
    // If our request to stop arrives before the run handles signals, the signal ends the run.
    const int stopped = exit_code == LS_STOPPED || (signal && w->asked);
    ls_status looked = ls_sweep_look(w->plan, s->run, &w->results[s->run]); // the tables show a failed run as begun
    if (exit_code != LS_OK || signal) {
        if (stopped)
            w->stopped = 1;
        else
            explain_end(w, s, exit_code, signal);
        return LS_SUCCESS;
    }
    LS_TRY(looked);
    if (w->results[s->run].state == LS_SWEEP_COMPLETE)
        report_complete(w, s);
    else
        explain_end(w, s, LS_INTERNAL, 0);
    return ls_sweep_check_data(w->plan, w->results);
}

static ls_status look_for_ends(work *w) {
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < w->slot_count && !ls_failed(status); i++) {
        slot *s = &w->slots[i];
        int exit_code, signal = 0;
        if (s->run < 0) continue;
        if (w->train ? !ls_worker_ended(s->worker, &exit_code) : !ls_child_ended(s->pid, &exit_code, &signal)) continue;
        status = take_end(w, s, exit_code, signal);
        free_slot(s);
    }
    return status;
}

// --- status lines --------------------------------------------------------------------------------

// Returns the columns of the names of the runs under way: those of the longest name, but at most half of `all`.
static int name_columns(const work *w, int all) {
    char name[LS_SWEEP_NAME_BYTES];
    int most = 0;
    for (int i = 0; i < w->slot_count; i++) {
        if (w->slots[i].run < 0) continue;
        const int length = (int)strlen(ls_sweep_run_name(w->plan, w->slots[i].run, name));
        if (length > most) most = length;
    }
    return most < all / 2 ? most : all / 2;
}

static void show(work *w) {
    if (!ls_sweep_screen_is_due(&w->screen)) return;
    ls_sweep_screen_clear(&w->screen);
    const int columns = ls_sweep_screen_columns(), left = name_columns(w, columns);
    ls_sweep_screen_line(&w->screen, "%d of %d runs complete, %d under way%s", complete_runs(w), w->plan->runs,
        w->running, w->asked ? ": saving" : "");
    for (int i = 0; i < w->slot_count; i++) {
        const slot *s = &w->slots[i];
        char name[LS_SWEEP_NAME_BYTES], at[LS_PROGRESS_TEXT_BYTES];
        if (s->run < 0) continue;
        ls_sweep_run_name(w->plan, s->run, name);
        name[ls_text_whole(name, (size_t)left)] = 0;
        ls_sweep_progress_text(s->folder, columns - left - 3, at);
        ls_sweep_screen_line(&w->screen, "%-*s  %s", left, name, at[0] ? at : "starts");
    }
}

static void heed_signals(work *w) {
    if (w->asked || !ls_signals_received()) return;
    w->asked = ls_signals_received();
    ls_sweep_screen_clear(&w->screen);
    ls_info("%s: %d run%s under way will save and end (Ctrl-C again ends all at once)", ls_signals_name(w->asked),
        w->running, w->running == 1 ? "" : "s");
    end_all(w);
}

// --- the sweep -----------------------------------------------------------------------------------

static ls_status run_all(work *w) {
    for (;;) {
        heed_signals(w);
        start_more(w);
        if (w->running == 0) return LS_SUCCESS;
        show(w);
        ls_clock_sleep(NAP_S);
        LS_TRY(look_for_ends(w));
    }
}

static ls_status outcome(const work *w) {
    const int complete = complete_runs(w), all = w->plan->runs, failed = w->failed + w->failed_elsewhere;
    if (w->asked)
        return ls_fail(LS_STOPPED, "stopped by %s: %d of %d runs are complete; the same command goes on",
            ls_signals_name(w->asked), complete, all);
    if (w->failed > 0)
        return ls_fail(w->failure.code, "%d of %d runs are complete, %d failed%s: %s", complete, all, failed,
            complete + failed < all ? ", and no more were started" : "", w->failure.text);
    if (w->stopped)
        return ls_fail(LS_STOPPED,
            "%d of %d runs are complete; a time limit has stopped one, and no more were started: the same command goes "
            "on",
            complete, all);
    return LS_SUCCESS;
}

// Waits for the other ranks, learns how many of their runs failed, and looks at the runs that they may have completed.
static ls_status meet(work *w) {
    LS_TRY(ls_comm_barrier_napping(w->comm));
    int32_t failed = w->failed;
    LS_TRY(ls_comm_allreduce(w->comm, &failed, 1, LS_I32, LS_REDUCE_SUM));
    w->failed_elsewhere = failed - w->failed;
    for (int run = 0; run < w->plan->runs; run++)
        if (w->results[run].state != LS_SWEEP_COMPLETE) LS_TRY(ls_sweep_look(w->plan, run, &w->results[run]));
    return ls_sweep_check_data(w->plan, w->results);
}

static ls_status open_claims(work *w) {
    char path[LS_TEXT_BYTES];
    w->claims = -1;
    if (ls_comm_get_info(w->comm)->world_size == 1) return LS_SUCCESS;
    LS_TRY(ls_sweep_folder_file(w->plan, "sweep.json", path));
    w->claims = open(path, O_RDWR | O_CLOEXEC);
    return w->claims >= 0 ? LS_SUCCESS : ls_fail_io("be opened", path, "open");
}

static ls_status work_in(work *w) {
    ls_status status = open_claims(w);
    w->open = w->slot_count;
    for (int i = 0; i < w->slot_count; i++) w->slots[i].run = -1;
    LS_THEN(status, share_machine(w));
    LS_TRY(ls_comm_agree(w->comm, status, NULL));
    ls_sweep_screen_start(&w->screen, w->quiet || ls_comm_get_info(w->comm)->rank > 0);
    status = run_all(w);
    ls_sweep_screen_clear(&w->screen);
    if (ls_failed(status)) end_all(w);   // a process that does not save in time ends together with this one
    while (w->train && w->running > 0) { // After a failure, wait for the threads.
        ls_clock_sleep(NAP_S);
        ls_status more = look_for_ends(w);
        (void)more; // the first failure is told
    }
    if (w->claims >= 0) ls_keep_first(&status, meet(w));
    LS_TRY(status);
    return outcome(w);
}

ls_status ls_sweep_jobs(const ls_sweep_plan *plan, ls_sweep_result *results, const ls_sweep_jobs_options *options) {
    work w = { .plan = plan,
        .results = results,
        .train = options->train,
        .comm = options->comm,
        .quiet = options->quiet,
        .slot_count = options->jobs };
    w.slots = ls_new(options->jobs, sizeof *w.slots, "%d jobs", options->jobs);
    w.begun = ls_new(ls_sweep_runs_and_stems(plan), 1, "runs of a sweep");
    ls_status status = work_in(&w);
    if (w.claims >= 0) close(w.claims);
    for (int i = 0; i < w.slot_count; i++) ls_sweep_words_free(w.slots[i].words);
    free(w.slots);
    free(w.begun);
    return status;
}
