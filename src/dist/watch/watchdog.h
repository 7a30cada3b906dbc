// watchdog.h - ends the job when its ranks have waited for each other for longer than the timeout,
// and names the rank at fault. Private to dist/.
//
// Every rank has a watchdog thread. On every tick it sends its rank's state to the two monitors (heartbeat.h).
// It fires
//
//   on a monitor   when a rank has waited for longer than the timeout without progress, when a rank's device reports a
//                  failed collective, when a rank is silent for the timeout while this one waits or naps, and, without
//                  ending the job at once, when a rank's process is gone: that is the launcher's to end
//   elsewhere      when its own rank has waited, or failed: it has no other rank's state
//
// The first monitor fires at once, the second 2 s later unless the first is silent, the others from 4 s on, so that a
// job ends with one message; where the launcher no longer reaches the ranks, each host writes its own.
//
// It watches waiting, not computing: a rank that computes for an hour ends nothing, unless others wait for it. Time is
// counted in ticks of at most a quarter second, not by the clock: a job that was stopped as a whole (SIGTSTP to the
// launcher, a suspended machine) and goes on is not late. The thread never enters MPI, except to end the job.
#ifndef LS_DIST_WATCH_WATCHDOG_H
#define LS_DIST_WATCH_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/status.h"
#include "device/collective.h"
#include "dist/watch/flight_recorder.h"
#include "dist/watch/heartbeat.h"

typedef enum { LS_ENDED_BY_NONE, LS_ENDED_BY_PROGRAM, LS_ENDED_BY_WATCHDOG } ls_ended_by;

// What this rank is doing. Written by the thread that calls the collectives (progress: also by the reducer's thread).
typedef struct {
    atomic_uint_fast64_t sequence; // odd while waiting for peers; changes with every sign of life
    _Atomic(const char *) phase;   // string constants
    _Atomic(const char *) what;    // "barrier", "all-reduce of bucket"
    atomic_int bucket;             // -1: no bucket
    atomic_int_fast64_t update;    // -1: none
    atomic_int naps;               // waits, but may do so without limit
    atomic_int leaves;             // has called ls_comm_finish
} ls_life;

void ls_life_wait_begins(ls_life *life, const char *what, int bucket);
void ls_life_wait_ends(ls_life *life);
void ls_life_progress(ls_life *life, int bucket); // a wait goes on, but a bucket was completed
// Process-wide, as the end of a job is: 1: the caller prints why the job ends; 0: another thread already does.
int ls_life_claim_end(ls_ended_by by);
int ls_life_end_claimed(void);

typedef struct ls_watchdog ls_watchdog;

// All ranks call it. life, recorder: this rank's, borrowed.
LS_CHECKED ls_status ls_watchdog_new(
    const ls_watched_ranks *ranks, ls_life *life, ls_flight_recorder *recorder, ls_watchdog **out);
void ls_watchdog_set_timeout(ls_watchdog *watchdog, double timeout_s); // 0: no limit
// Also polls the device's collectives; NULL, NULL: no longer.
LS_CHECKED ls_status ls_watchdog_set_device(
    ls_watchdog *watchdog, const ls_collective_api *api, ls_collective *collective);
void ls_watchdog_notify(ls_watchdog *watchdog); // sends to the monitors now: this rank has written why the job ends
void ls_watchdog_free(ls_watchdog *watchdog);   // NULL is allowed

#endif
