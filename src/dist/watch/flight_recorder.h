// flight_recorder.h - a rank's last collectives, for the table of a job that ends badly. Private to dist/.
//
// Filled by the threads that enqueue collectives (main thread, the reducer's), read by the watchdog while they go on.
// No locks and no allocation: a collective costs two readings of the clock and some ten stores. Collectives are
// numbered from 0, on all ranks alike, because all ranks enqueue the same ones: a rank that has begun fewer is behind.
#ifndef LS_DIST_WATCH_FLIGHT_RECORDER_H
#define LS_DIST_WATCH_FLIGHT_RECORDER_H

#include <stdatomic.h>
#include <stdint.h>

enum { LS_FLIGHT_RECORDER_ENTRIES = 64 };

typedef enum { LS_IN_BUCKET, LS_IN_ALLREDUCE, LS_IN_BROADCAST, LS_IN_ALLGATHER, LS_IN_BARRIER } ls_collective_kind;

typedef struct {
    int64_t number;
    ls_collective_kind kind;
    int bucket;                 // -1: none
    int64_t bytes, update;      // update -1: none
    double launched_s, ended_s; // ls_clock_seconds; ended_s 0: under way
} ls_flight_recorder_entry;

typedef struct {
    atomic_int_fast64_t number; // -1: none, or being written
    atomic_int kind, bucket;
    atomic_int_fast64_t bytes, update;
    _Atomic(double) launched_s, ended_s;
} ls_flight_recorder_slot;

typedef struct {
    atomic_int_fast64_t begun, ended; // collectives since the start
    ls_flight_recorder_slot slot[LS_FLIGHT_RECORDER_ENTRIES];
} ls_flight_recorder;

void ls_flight_recorder_init(ls_flight_recorder *recorder);
// Returns the collective's number, for ends.
int64_t ls_flight_recorder_begins(
    ls_flight_recorder *recorder, ls_collective_kind kind, int bucket, int64_t bytes, int64_t update);
void ls_flight_recorder_ends(ls_flight_recorder *recorder, int64_t number);
// The one under way that has this bucket; for callers without its number.
void ls_flight_recorder_bucket_ends(ls_flight_recorder *recorder, int bucket);
// 0: not there (any more).
int ls_flight_recorder_read(ls_flight_recorder *recorder, int64_t number, ls_flight_recorder_entry *entry);
// "bucket 3", "all-reduce"; kind may come from another process.
const char *ls_flight_recorder_describe(char *text, int bytes, int kind, int bucket);

#endif
