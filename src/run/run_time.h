// run_time.h - the time of one rank by purpose, as plain data and as JSON for metrics.jsonl and summary.json.
#ifndef LS_RUN_RUN_TIME_H
#define LS_RUN_RUN_TIME_H

#include "base/json.h"
#include "device/op_kind.h"

// Seconds since this process ended its first update. Work that is done once at the start does not count.
typedef struct {
    double seconds; // the whole time: the sum of the next five and ls_run_time_other
    // communication: only the part that computation did not hide. checkpoint: training waited for it.
    double compute, loader_wait, communication, evaluation, checkpoint;
    // 1: kind[] is set, and its sum is compute. 0: unknown, because the device runs work later than it is enqueued.
    int kinds_known;
    double kind[LS_OP_KIND_COUNT];
    // The part of compute in which the host enqueued work and did not wait for the device. NAN: unknown, or operators
    // have run when their call returns.
    double enqueue;
    double core_wait; // threads that were ready to run waited for a core; summed over threads, not a part of seconds
} ls_run_time;

static inline double ls_run_time_other(const ls_run_time *t) {
    return t->seconds - t->compute - t->loader_wait - t->communication - t->evaluation - t->checkpoint;
}

// The unused capacity of a rank. The verdict's suggestions depend on it.
typedef struct {
    double cores;            // cores for this rank's threads, after sharing with other ranks; 0: unknown
    int threads;             // threads that device.threads = 0 would start; 0: unknown
    double memory_bytes;     // memory of the device that the run leaves free; 0: no memory of its own, or unknown
    double activation_bytes; // size of the activations of the rank's programs
} ls_run_room;

void ls_run_room_json(const ls_run_room *room, cJSON *object);
void ls_run_room_read(const cJSON *object, ls_run_room *room); // sets missing or impossible numbers to 0

// Writes the times, rounded to microseconds; `other` is computed from the rounded times, so that all add up.
void ls_run_time_json(const ls_run_time *time, cJSON *object);
// Reads the times that ls_run_time_json wrote. Returns 0 if `seconds` is missing or a number is impossible.
int ls_run_time_read(const cJSON *object, ls_run_time *time);

#endif
