// heartbeat.h - what every rank was doing last, held by two of the ranks. Private to dist/.
//
// Each rank's watchdog sends a small record to two monitors, on every tick: rank 0, and the first rank of another host
// (on one host rank 1), so that one is left when rank 0 or its host is at fault. The records are UDP datagrams:
// sending one never waits and needs no connection, whatever state the MPI library is in.
// They take every network that the monitor's host has: a rank that is alive is seen to be so even when the network
// that carries the data is cut. Where datagrams do not get through (a firewall), a rank is never heard of, and nothing
// is concluded from that. The monitors' ports take records with the job's random key only.
//
// A rank also watches the process of the next rank on its host, and sends to the monitors at once when it is gone.
#ifndef LS_DIST_WATCH_HEARTBEAT_H
#define LS_DIST_WATCH_HEARTBEAT_H

#include <stdint.h>
#include "base/status.h"

struct ls_comm;

// The ranks that watch each other, and what their communicator does for that.
typedef struct {
    int rank, world_size, hosts;
    const char *host; // this rank's
    struct ls_comm *comm;
    ls_status (*allgather)(struct ls_comm *comm, const void *mine, void *all, int64_t bytes_each);
    void (*abort)(struct ls_comm *comm, int exit_code) __attribute__((noreturn)); // from any thread
} ls_watched_ranks;

enum { LS_HEARTBEAT_TAIL = 4, LS_HEARTBEAT_HOST_BYTES = 64, LS_HEARTBEAT_ERROR_BYTES = 200 };

typedef enum { LS_RANK_COMPUTES, LS_RANK_WAITS, LS_RANK_NAPS } ls_rank_state;
// LEAVES: in order; REPORTED: its message has named why the job ends.
typedef enum { LS_RANK_STAYS, LS_RANK_LEAVES, LS_RANK_REPORTED } ls_rank_end;

typedef struct { // of the flight recorder
    int64_t number, bytes, update;
    int32_t kind, bucket;
    float age_s, seconds; // since launched; that it took, below 0: under way
} ls_heartbeat_entry;

typedef struct {
    uint64_t key;  // of the job
    int32_t bytes; // of this record
    int32_t rank;
    int32_t gone; // a rank whose process has ended; -1: none
    int32_t end;  // ls_rank_end
    int32_t state, bucket;
    int32_t device_tag; // of the collective that its device completed last; -1: none
    int32_t tail_count;
    int64_t update, begun, ended, device_done;
    float life_s, phase_s; // since the last sign of life; since it has been in this phase of this update
    char phase[32], what[40];
    char error[LS_HEARTBEAT_ERROR_BYTES];       // that the device's collectives report
    ls_heartbeat_entry tail[LS_HEARTBEAT_TAIL]; // the last ones that it began, oldest first
} ls_heartbeat_record;

typedef struct {
    ls_heartbeat_record last;
    int heard;              // there is a record
    int gone;               // its process has ended
    double silent_s;        // since the last record came
    double gone_s, error_s; // since that was seen
} ls_heartbeat_row;

typedef struct {
    char host[LS_HEARTBEAT_HOST_BYTES];
    int pid;
} ls_heartbeat_peer;

typedef struct {
    int rank, world_size; // rank: whose table it is
    const ls_heartbeat_peer *peer;
    ls_heartbeat_row *row;
} ls_heartbeat_table;

typedef struct ls_heartbeat ls_heartbeat;

// All ranks of the communicator call it. Without a socket there is one, too: it has this rank alone.
LS_CHECKED ls_status ls_heartbeat_open(const ls_watched_ranks *ranks, ls_heartbeat **out);
void ls_heartbeat_close(ls_heartbeat *heartbeat); // NULL is allowed
// The table; kept up to date by wait.
ls_heartbeat_table *ls_heartbeat_get_table(ls_heartbeat *heartbeat);
int ls_heartbeat_monitor(const ls_heartbeat *heartbeat); // 0 or 1: this rank is the first, the second monitor; -1: none
// Fills in what makes the record this job's, and sends it to the monitors. From any thread.
void ls_heartbeat_send(const ls_heartbeat *heartbeat, ls_heartbeat_record *record);
// Takes in what comes until `seconds` have passed (below 0: no end), or wake_fd is readable: then returns 1. Counts
// the seconds, which are not the clock's: a process that was stopped meanwhile has missed nothing.
int ls_heartbeat_wait(ls_heartbeat *heartbeat, double seconds, int wake_fd);

#endif
