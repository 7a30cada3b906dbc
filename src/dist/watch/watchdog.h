// watchdog.h - ends the job when its ranks have waited for each other for longer than the timeout, and names the rank
// at fault. Private to dist/.
//
// On every rank a watchdog thread sends the rank's state to two monitors, at least every 4 s (heartbeat.h). It fires
//
// - on a monitor: if a rank has waited for longer than the timeout without progress; if a rank's device reports a
//   failed collective; if a rank is silent for the timeout while this one waits or naps; if a rank's process is gone
//   (then it gives the launcher time to end the job)
// - elsewhere: if its own rank has waited that long or has failed; it does not know the state of other ranks
//
// The first monitor fires at once, the second one 2 s later unless the first is silent, other ranks 4 to 8 s later, so
// that a job ends with one message. If the launcher no longer reaches the ranks, each host writes its own.
//
// It watches waiting, not computing: a rank may compute for an hour, unless others wait for it. Time is counted in
// ticks of at most a quarter second, not by the clock: a job that was stopped as a whole (SIGTSTP to the launcher, a
// suspended machine) and goes on is not late. The thread enters MPI only to end the job.
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
    atomic_int_fast64_t update;    // -1: not in an update
    atomic_int naps;               // in a wait that may last without limit
    atomic_int leaves;             // this rank has called ls_comm_finish
} ls_life;

void ls_life_wait_begins(ls_life *life, const char *what, int bucket);
void ls_life_wait_ends(ls_life *life);
void ls_life_progress(ls_life *life, int bucket); // a bucket is complete; the wait goes on, for `bucket`
// Claims the message that ends the job. 1: the caller must write it. 0: the other one of ls_ended_by has claimed it.
int ls_life_claim_end(ls_ended_by by);
int ls_life_end_claimed(void);

typedef struct ls_watchdog ls_watchdog;

// Starts the watchdog's thread. Collective. life, recorder: the state of this rank; borrowed.
LS_CHECKED ls_status ls_watchdog_new(
    const ls_watched_ranks *ranks, ls_life *life, ls_flight_recorder *recorder, ls_watchdog **out);
void ls_watchdog_set_timeout(ls_watchdog *watchdog, double timeout_s); // 0: no limit
// Makes the watchdog also poll the device's collectives for failures. api and collective NULL: stops the polling.
LS_CHECKED ls_status ls_watchdog_set_device(
    ls_watchdog *watchdog, const ls_collective_api *api, ls_collective *collective);
void ls_watchdog_notify(ls_watchdog *watchdog); // sends this rank's state to the monitors now
void ls_watchdog_free(ls_watchdog *watchdog);   // NULL is allowed

#endif
