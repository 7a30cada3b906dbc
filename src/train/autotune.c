// autotune.c - device.autotune: measures which algorithms are the fastest, and gives all ranks the same choices.
//
// The lowest rank of each host measures while the other ranks of the host sleep. Ranks that measured at the same time
// would disturb each other and make different choices. Then all ranks take all choices; the choice of the lowest rank
// wins. For a key without a choice, a rank uses the device's rule. This happens if its processor or its number of
// threads differs from those of the measuring rank, or if only its short last micro-batch has this shape.
#include <string.h>
#include "system/cache_folder.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/run_session.h"

// Fewest updates of a run that measures algorithms. Measuring takes about as long as some hundred updates, and saves a
// part of the time of each update. A shorter run uses the choices of earlier runs, and the device's rule otherwise.
enum { WORTH_UPDATES = 1000 };

static int is_worth_measuring(const ls_run_plan *plan) {
    if (plan->cfg->device_autotune == LS_AUTOTUNE_TRUE) return 1;
    return !plan->evaluates && plan->info.updates_planned >= WORTH_UPDATES;
}

ls_status ls_run_session_open_algorithms(ls_run_session *session) {
    char folder[LS_TEXT_BYTES];
    if (session->plan->cfg->device_autotune == LS_AUTOTUNE_FALSE || session->plan->cfg->run_deterministic)
        return LS_SUCCESS;
    return ls_algorithm_cache_open(ls_cache_folder(folder, sizeof folder), "plans", &session->algorithms);
}

// Compiles the programs of whole micro-batches. Unless the cache is settled, compiling measures the algorithms that the
// cache lacks.
static ls_status compile_all(const ls_run_session *session) {
    const ls_session *s = &session->compute;
    for (int p = 0; p < LS_RUN_PROGRAMS; p++) {
        const int whole = session->plan->evaluates ? p == LS_RUN_EVAL_PROGRAM : p < LS_RUN_EVAL_PROGRAM && p % 2 == 0;
        ls_program *program = NULL;
        if (!whole || !s->options[p].micro_batch) continue;
        LS_TRY(ls_compile(s->store, &s->options[p], &program));
        ls_program_free(program);
    }
    return LS_SUCCESS;
}

typedef struct {
    char *mine, *others; // choices as text: this rank's, another rank's
    int64_t *bytes;      // size of each rank's text; 0: the rank has measured nothing
    int64_t most;
} exchange;

static ls_status pack_choices(exchange *e, const ls_run_session *session) {
    size_t bytes = 0;
    e->bytes = ls_new(session->plan->info.comm->world_size, sizeof *e->bytes, "ranks' plans");
    if (session->plan->info.comm->local_rank == 0)
        LS_TRY(ls_algorithm_cache_give(session->algorithms, &e->mine, &bytes));
    e->most = (int64_t)bytes;
    return LS_SUCCESS;
}

// Sends the choices of each rank to all ranks, and takes them over. The lowest rank's come last, so they replace the
// others.
static ls_status take_choices(exchange *e, ls_run_session *session) {
    ls_status status = LS_SUCCESS;
    for (int rank = session->plan->info.comm->world_size - 1; rank >= 0; rank--) {
        const size_t bytes = (size_t)e->bytes[rank];
        if (bytes == 0) continue;
        if (rank == session->plan->info.comm->rank) memcpy(e->others, e->mine, bytes);
        LS_TRY(ls_comm_broadcast(session->plan->comm, e->others, (int64_t)bytes, rank));
        e->others[bytes] = 0;
        LS_THEN(status, ls_algorithm_cache_take(session->algorithms, e->others, bytes));
    }
    return status;
}

static ls_status exchange_choices(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    exchange e = { 0 };
    ls_status status = ls_comm_agree(plan->comm, pack_choices(&e, session), NULL);
    const int64_t mine = e.most;
    LS_THEN(status, ls_comm_allgather(plan->comm, &mine, e.bytes, sizeof mine));
    LS_THEN(status, ls_comm_allreduce(plan->comm, &e.most, 1, LS_I64, LS_REDUCE_MAX));
    e.others = ls_new(e.most + 1, 1, "ranks' plans");
    LS_THEN(status, ls_comm_agree(plan->comm, take_choices(&e, session), NULL));
    free(e.mine);
    free(e.others);
    free(e.bytes);
    return status;
}

// Saves the choices. If that fails, the next start measures again.
static void save_choices(ls_run_session *session, double seconds) {
    const int measured = ls_algorithm_cache_measured(session->algorithms);
    const char *path = ls_algorithm_cache_path(session->algorithms);
    ls_status status = ls_algorithm_cache_save(session->algorithms);
    if (measured > 0)
        ls_info("plans     the algorithms of %d convolutions measured in %.1f s, %s%s", measured, seconds,
            !path               ? "not kept: neither XDG_CACHE_HOME nor HOME is set"
            : ls_failed(status) ? "not kept"
                                : "kept in ",
            path && !ls_failed(status) ? path : "");
    if (ls_failed(status)) ls_warn("plans     the next start will measure again: %s", status.text);
}

ls_status ls_run_session_autotune(ls_run_session *session) {
    const ls_run_plan *plan = session->plan;
    if (!session->compute.device->api->measures) return LS_SUCCESS;
    const int measures = plan->info.comm->local_rank == 0;
    const double start = ls_clock_seconds();
    const char *ignored = measures ? ls_algorithm_cache_ignored(session->algorithms) : NULL;
    ls_status status = LS_SUCCESS;
    if (ignored)
        ls_warn("plans     %s %s: nothing of it is used; what is measured from now on replaces it",
            ls_algorithm_cache_path(session->algorithms), ignored);
    ls_algorithm_cache_settle(session->algorithms, !is_worth_measuring(plan));
    if (measures) status = compile_all(session);
    LS_TRY(ls_comm_barrier_napping(plan->comm));
    const double seconds = ls_clock_seconds() - start;
    LS_TRY(ls_comm_agree(plan->comm, status, NULL));
    if (plan->info.comm->world_size > 1) LS_TRY(exchange_choices(session));
    ls_algorithm_cache_settle(session->algorithms, 1);
    if (measures) save_choices(session, seconds);
    return LS_SUCCESS;
}
