// run_time.h - where the time of a run went, of one rank, as plain data; and as JSON, in metrics.jsonl and summary.json.
#ifndef LS_RUN_RUN_TIME_H
#define LS_RUN_RUN_TIME_H

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

// What a rank has to spare: the verdict's suggestions depend on it.
typedef struct {
    double cores;            // for its threads alone, after sharing with other ranks; 0: unknown
    int threads;             // that device.threads = 0 would start; 0: unknown
    double memory_bytes;     // left on the device; 0: the device uses the host's memory
    double activation_bytes; // that its programs take
} ls_run_room;

void ls_run_room_json(const ls_run_room *room, cJSON *object);
void ls_run_room_read(const cJSON *object, ls_run_room *room); // a missing or impossible number becomes 0

// To the microsecond; `other` is what the numbers written leave of `seconds`.
void ls_run_time_json(const ls_run_time *time, cJSON *object);
// The other way. 0: it is no such object, or has a number that is impossible.
int ls_run_time_read(const cJSON *object, ls_run_time *time);

#endif
