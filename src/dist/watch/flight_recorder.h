// flight_recorder.h - records a rank's last collectives, for the table of a job that ends badly. Private to dist/.
//
// The threads that enqueue collectives (the main thread and the reducer's) write it, and the watchdog reads it
// meanwhile. There are no locks and no allocation: a collective costs two readings of the clock and some ten stores.
// Collectives are numbered from 0. All ranks enqueue the same ones, so numbers agree, and a rank that has begun fewer
// is late.
#ifndef LS_DIST_WATCH_FLIGHT_RECORDER_H
#define LS_DIST_WATCH_FLIGHT_RECORDER_H

#include <stdatomic.h>
#include <stdint.h>

enum { LS_FLIGHT_RECORDER_ENTRIES = 64 };

typedef enum { LS_IN_BUCKET, LS_IN_ALLREDUCE, LS_IN_BROADCAST, LS_IN_ALLGATHER, LS_IN_BARRIER } ls_collective_kind;

typedef struct {
    int64_t number;
    ls_collective_kind kind;
    int bucket;                 // -1: not a bucket
    int64_t bytes, update;      // update -1: unknown
    double launched_s, ended_s; // readings of ls_clock_seconds; ended_s 0: under way
} ls_flight_recorder_entry;

typedef struct {
    atomic_int_fast64_t number; // -1: empty, or being written
    atomic_int kind, bucket;
    atomic_int_fast64_t bytes, update;
    _Atomic(double) launched_s, ended_s;
} ls_flight_recorder_slot;

typedef struct {
    atomic_int_fast64_t begun, ended; // how many collectives have begun, and ended, since the start
    ls_flight_recorder_slot slot[LS_FLIGHT_RECORDER_ENTRIES];
} ls_flight_recorder;

void ls_flight_recorder_init(ls_flight_recorder *recorder);
// Records that a collective begins. Returns its number, for ls_flight_recorder_ends.
int64_t ls_flight_recorder_begins(
    ls_flight_recorder *recorder, ls_collective_kind kind, int bucket, int64_t bytes, int64_t update);
void ls_flight_recorder_ends(ls_flight_recorder *recorder, int64_t number);
// Records that the collective under way with this bucket ends, for callers that do not know its number.
void ls_flight_recorder_bucket_ends(ls_flight_recorder *recorder, int bucket);
// Copies the entry of collective `number`. Returns 0 if the entry was never written, or is overwritten.
int ls_flight_recorder_read(ls_flight_recorder *recorder, int64_t number, ls_flight_recorder_entry *entry);
// Writes "bucket 3" or "all-reduce" into text. kind may come from another process, so it is checked.
const char *ls_flight_recorder_describe(char *text, int bytes, int kind, int bucket);

#endif
