// run_time.h - where the time of a run went, of one rank, as plain data; and as JSON, in metrics.jsonl and summary.json.
#ifndef LS_FILES_RUN_TIME_H
#define LS_FILES_RUN_TIME_H

#include "base/json.h"
#include "device/op_kind.h"

// Seconds since this process ended its first update: what is made once, at the start, does not count.
typedef struct {
    double seconds; // all of it: the sum of the next five and ls_run_time_other
    double compute, loader_wait, communication, evaluation,
        checkpoint;  // communication: exposed; checkpoint: training held
    int kinds_known; // of compute; else the device runs what is enqueued later, and captured work at one go
    double kind[LS_OP_KIND_COUNT]; // then together compute
    double
        enqueue; // of compute: the host was at work, and did not wait for the device; NAN: operators run at once, or unknown
    double core_wait; // threads that were ready to run, for a core; over all threads, beside the rest
} ls_run_time;

static inline double ls_run_time_other(const ls_run_time *t) {
    return t->seconds - t->compute - t->loader_wait - t->communication - t->evaluation - t->checkpoint;
}

// What other settings would find on a rank.
typedef struct {
    double cores;            // that its threads have, beside those of other ranks; 0: unknown
    int threads;             // that device.threads = 0 takes; 0: unknown
    double memory_bytes;     // left on the device; 0: its memory is the host's
    double resident_bytes;   // that data.loader = resident would take there
    double activation_bytes; // of the programs
    double kept_bytes;       // more, without recomputation
} ls_run_room;

void ls_run_room_json(const ls_run_room *room, cJSON *object);
void ls_run_room_read(const cJSON *object, ls_run_room *room); // what is missing or impossible is 0

// To the microsecond; `other` is what the numbers written leave of `seconds`.
void ls_run_time_json(const ls_run_time *time, cJSON *object);
// The other way. 0: it is no such object, or has a number that is impossible.
int ls_run_time_read(const cJSON *object, ls_run_time *time);

#endif
