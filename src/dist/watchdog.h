// watchdog.h - ends the job when this rank has waited for its peers for longer than the timeout. Private to dist/.
//
// It watches waiting, not computing: a rank that computes for an hour is not ended by its own watchdog (its peers' may
// be, they wait for it). Time is counted in ticks of at most a quarter second in which the same wait went on without
// progress, not by the clock: a job that was stopped as a whole (SIGTSTP to the launcher) and goes on is not late. Of
// all ranks that wait, rank 0 fires first, rank r 2r s later (at most 8 s), so that a job ends with one line; where
// the launcher no longer reaches the ranks, each says its own.
#ifndef LS_DIST_WATCHDOG_H
#define LS_DIST_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/status.h"

struct ls_comm;

// What this rank is doing. Written by the thread that calls the collectives (progress: also by the reducer's thread).
typedef struct {
    atomic_uint_fast64_t sequence; // odd while waiting for peers; changes with every sign of life
    _Atomic(const char *) phase;   // string constants
    _Atomic(const char *) what;    // "barrier", "all-reduce of bucket"
    atomic_int bucket;             // -1: no bucket
    atomic_int_fast64_t update;    // -1: none
} ls_life;

void ls_life_wait_begins(ls_life *life, const char *what, int bucket);
void ls_life_wait_ends(ls_life *life);
void ls_life_progress(ls_life *life, int bucket); // a wait goes on, but a bucket was completed

typedef struct ls_watchdog ls_watchdog;

LS_CHECKED ls_status ls_watchdog_new(struct ls_comm *comm, ls_watchdog **out);
void ls_watchdog_set_timeout(ls_watchdog *watchdog, double timeout_s); // 0: sleeps
void ls_watchdog_free(ls_watchdog *watchdog);                          // NULL is allowed

// A thread that takes no signals: they are for the program's own threads. 0 or an errno.
int ls_quiet_thread(pthread_t *thread, void *(*run)(void *), void *context);

#endif
