#include "sweep/worker.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/files.h"
#include "base/memory.h"
#include "base/scope.h"
#include "base/thread.h"

struct ls_worker {
    char *const *words;
    ls_run_words *run;
    ls_cpu_mask cpus;
    int bound; // whether the thread keeps to `cpus`
    int log;
    ls_scope *scope;
    pthread_t thread;
    ls_code code; // of the run; valid when it has ended
    atomic_int ended;
};

static ls_status train(const ls_worker *worker) {
    ls_comm *comm;
    if (worker->bound) ls_cpu_mask_bind(&worker->cpus); // if refused, the kernel's scheduler shares the cores
    LS_TRY(ls_comm_self(&comm));
    ls_status status = worker->run(worker->words, comm);
    ls_comm_finish(comm);
    return status;
}

static void *work(void *context) {
    ls_worker *worker = context;
    ls_scope_enter(worker->scope);
    worker->code = train(worker).code;
    atomic_store(&worker->ended, 1);
    return NULL;
}

static void free_worker(ls_worker *worker) {
    if (worker->log >= 0) close(worker->log);
    free(worker->scope);
    free(worker);
}

ls_status ls_worker_start(const ls_child *child, ls_run_words *run, ls_worker **out) {
    const int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0) return ls_fail_io("be written", child->log, "open");
    ls_worker *worker = ls_new(1, sizeof *worker, "a run beside others");
    *worker = (ls_worker){ .words = child->words, .run = run, .bound = child->cpus != NULL, .log = log };
    if (child->cpus) worker->cpus = *child->cpus;
    worker->scope = ls_scope_new(log);
    const int error = ls_thread_start(&worker->thread, work, worker);
    if (error) {
        free_worker(worker);
        return ls_fail(LS_DEVICE, "no thread could be started for a run: pthread_create: %s", strerror(error));
    }
    *out = worker;
    return LS_SUCCESS;
}

int ls_worker_ended(ls_worker *worker, int *exit_code) {
    if (!atomic_load(&worker->ended)) return 0;
    pthread_join(worker->thread, NULL);
    *exit_code = (int)worker->code;
    free_worker(worker);
    return 1;
}
