#include "dist/watch/init_timeout.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/memory.h"
#include "system/ticker.h"

static const double default_s = 300, tick_s = 0.25;
// Seconds of a turn: rank 0 gives up first, rank 1 one turn later, others two turns later: one message ends the job.
static const double turn_s = 2;

struct ls_init_timeout {
    ls_ticker *ticker;
    double waited_s, limit_s;
    ls_launcher launcher;
};

double ls_init_timeout_seconds(void) {
    const char *text = getenv("LOCKSTEP_START_TIMEOUT");
    return text && *text ? strtod(text, NULL) : default_s;
}

static void give_up(const ls_init_timeout *timeout) {
    char host[256] = "?", of[32] = "";
    if (timeout->launcher.size > 0) snprintf(of, sizeof of, " of %d", timeout->launcher.size);
    gethostname(host, sizeof host - 1);
    fprintf(stderr,
        "error: rank %d%s on %s (pid %d) has waited %g s for the others while MPI starts: a rank hangs, is stopped, or "
        "its host cannot be reached (LOCKSTEP_START_TIMEOUT in the environment gives more seconds; 0: no limit)\n",
        timeout->launcher.rank, of, host, (int)getpid(), timeout->limit_s);
    _exit(LS_COMM);
}

static void watch(void *context) {
    ls_init_timeout *timeout = context;
    if (timeout->waited_s >= timeout->limit_s) give_up(timeout);
    timeout->waited_s += tick_s;
}

ls_status ls_init_timeout_new(const ls_launcher *launcher, ls_init_timeout **out) {
    *out = NULL;
    double limit_s = ls_init_timeout_seconds();
    if (!(limit_s > 0)) return LS_SUCCESS;
    ls_init_timeout *timeout = ls_new(1, sizeof *timeout, "watch over MPI's start");
    timeout->waited_s = -turn_s * (launcher->rank < 2 ? launcher->rank : 2);
    timeout->limit_s = limit_s;
    timeout->launcher = *launcher;
    ls_status status = ls_ticker_start("watch over MPI's start", tick_s, watch, timeout, &timeout->ticker);
    return LS_GIVE_OR_FREE(status, timeout, out, ls_init_timeout_free);
}

void ls_init_timeout_free(ls_init_timeout *timeout) {
    if (!timeout) return;
    ls_ticker_stop(timeout->ticker);
    free(timeout);
}
