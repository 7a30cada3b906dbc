// heartbeat.h - keeps the last known activity of every rank, on two of the ranks. Private to dist/.
//
// At least every 4 s, each rank's watchdog sends a record to two monitors: rank 0, and the first rank of another host
// (on one host, rank 1). So one is left if rank 0 or one of several hosts fails. Records are UDP datagrams: sending one
// never waits and needs no connection, whatever state the MPI library is in. Records go to several addresses of the
// monitor's host, so that a living rank is heard even if the network that carries the data is cut. If datagrams do not
// get through (a firewall), a rank is never heard, and nothing is concluded from that. The monitors accept only records
// with the job's random key.
//
// A rank also watches the process of the next rank on its host, and tells the monitors at once when that process ends.
#ifndef LS_DIST_WATCH_HEARTBEAT_H
#define LS_DIST_WATCH_HEARTBEAT_H

#include <stdint.h>
#include "base/status.h"

struct ls_comm;

// This rank and its communicator, as the watchdog needs them: numbers, and functions to exchange data and to abort.
typedef struct {
    int rank, world_size, hosts;
    const char *host; // host of this rank
    struct ls_comm *comm;
    ls_status (*allgather)(struct ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
    void (*abort)(struct ls_comm *comm, int exit_code) __attribute__((noreturn)); // from any thread
} ls_watched_ranks;

enum { LS_HEARTBEAT_TAIL = 4, LS_HEARTBEAT_HOST_BYTES = 64, LS_HEARTBEAT_ERROR_BYTES = 200 };

typedef enum { LS_RANK_COMPUTES, LS_RANK_WAITS, LS_RANK_NAPS } ls_rank_state;
// How a rank ends. STAYS: not yet. LEAVES: in order. REPORTED: it has written why the job ends.
typedef enum { LS_RANK_STAYS, LS_RANK_LEAVES, LS_RANK_REPORTED } ls_rank_end;

typedef struct { // an entry of the flight recorder
    int64_t number, bytes, update;
    int32_t kind, bucket;
    float age_s, seconds; // age_s: since the launch; seconds: duration of the collective; below 0: under way
} ls_heartbeat_entry;

typedef struct {
    uint64_t key;  // key of the job
    int32_t bytes; // size of this record
    int32_t rank;
    int32_t gone; // a rank whose process has ended; -1: no rank
    int32_t end;  // ls_rank_end
    int32_t state, bucket;
    int32_t device_tag; // tag of the last collective that the rank's device completed; -1: no such collective
    int32_t tail_count;
    int64_t update, begun, ended, device_done; // device_done: collectives that the rank's device completed; -1: unknown
    float life_s, phase_s;                     // since the last sign of life; since phase or update changed
    char phase[32], what[40];
    char error[LS_HEARTBEAT_ERROR_BYTES];       // error of the device's collectives; "": no error
    ls_heartbeat_entry tail[LS_HEARTBEAT_TAIL]; // the last collectives that the rank began, oldest first
} ls_heartbeat_record;

typedef struct {
    ls_heartbeat_record last;
    int heard;              // a record has come
    int gone;               // the rank's process has ended
    double silent_s;        // since the last record came
    double gone_s, error_s; // since the end of the rank's process, or its device's error, was seen
} ls_heartbeat_row;

typedef struct {
    char host[LS_HEARTBEAT_HOST_BYTES];
    int pid;
} ls_heartbeat_peer;

typedef struct {
    int rank, world_size; // rank: the owner of the table
    const ls_heartbeat_peer *peer;
    ls_heartbeat_row *row;
} ls_heartbeat_table;

typedef struct ls_heartbeat ls_heartbeat;

// Opens the heartbeat. Collective. If no socket can be opened, the heartbeat still works but sees only this rank.
LS_CHECKED ls_status ls_heartbeat_open(const ls_watched_ranks *ranks, ls_heartbeat **out);
void ls_heartbeat_close(ls_heartbeat *heartbeat); // NULL is allowed
// Returns the table, which ls_heartbeat_wait keeps up to date.
ls_heartbeat_table *ls_heartbeat_get_table(ls_heartbeat *heartbeat);
int ls_heartbeat_monitor(const ls_heartbeat *heartbeat); // 0 or 1: this rank is that monitor; -1: it is no monitor
// Adds the job's key and this rank's number to the record, and sends it to the monitors. Any thread may call it.
void ls_heartbeat_send(const ls_heartbeat *heartbeat, ls_heartbeat_record *record);
// Receives records until `seconds` have passed (below 0: without end), then adds `seconds` to the times in the table.
// Times are not taken from the clock, so a process that was stopped meanwhile has missed nothing. Returns 1 at once if
// wake_fd is readable or the watched process ends.
int ls_heartbeat_wait(ls_heartbeat *heartbeat, double seconds, int wake_fd);

#endif
