#include "dist/clock_align.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

enum { ROUND_TRIPS = 10 };

// Returns a hash that only processes with the same CLOCK_MONOTONIC share; 0: unknown.
static uint64_t clock_key(void) {
    char boot[64] = "", space[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t bytes = read(fd, boot, sizeof boot - 1);
    close(fd);
    if (bytes <= 0) return 0;
    ssize_t length = readlink("/proc/self/ns/time", space, sizeof space); // older kernels have no time namespace
    return ls_hash_more(ls_hash(boot, (size_t)bytes), space, length > 0 ? (size_t)length : 0);
}

// Rank 0 and `rank` read their clocks in turns. Collective, because all messages are broadcasts. On rank 0, *offset
// becomes the offset of the shortest round trip.
static ls_status ping_pong(ls_comm *comm, int rank, double (*clock)(void), ls_clock_offset *offset) {
    const int me = ls_comm_get_info(comm)->rank;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        char request = 0;
        double there = 0, before = clock();
        LS_TRY(ls_comm_broadcast(comm, &request, sizeof request, 0));
        if (me == rank) there = clock();
        LS_TRY(ls_comm_broadcast(comm, &there, sizeof there, rank));
        double after = clock(), error = (after - before) / 2;
        if (i > 0 && error >= offset->error_s) continue;
        *offset = (ls_clock_offset){ .offset_s = (before + after) / 2 - there, .error_s = error, .measured = 1 };
    }
    return LS_SUCCESS;
}

// Returns the lowest rank with this rank's clock, or this rank itself if its clock is not known.
static int same_clock(const uint64_t *keys, int rank) {
    int first = 0;
    while (first < rank && (keys[rank] == 0 || keys[first] != keys[rank])) first++;
    return first;
}

static ls_status measure(ls_comm *comm, double (*clock)(void), uint64_t *keys, ls_clock_offset *offsets) {
    const ls_comm_info *about = ls_comm_get_info(comm);
    uint64_t key = clock ? 0 : clock_key();
    LS_TRY(ls_comm_allgather(comm, &key, keys, sizeof key));
    for (int rank = 1; rank < about->world_size; rank++) {
        int first = same_clock(keys, rank);
        if (first < rank)
            offsets[rank] = offsets[first];
        else
            LS_TRY(ping_pong(comm, rank, clock ? clock : ls_clock_seconds, &offsets[rank]));
    }
    return ls_comm_broadcast(comm, offsets, about->world_size * (int64_t)sizeof *offsets, 0);
}

ls_status ls_clock_align(ls_comm *comm, double (*clock)(void), ls_clock_offset *mine) {
    const ls_comm_info *about = ls_comm_get_info(comm);
    *mine = (ls_clock_offset){ .offset_s = 0 };
    if (about->world_size == 1) return LS_SUCCESS;
    uint64_t *keys = ls_new(about->world_size, sizeof *keys, "clocks of the ranks");
    ls_clock_offset *offsets = ls_new(about->world_size, sizeof *offsets, "clocks of the ranks");
    ls_status status = measure(comm, clock, keys, offsets);
    if (!ls_failed(status)) *mine = offsets[about->rank];
    free(keys);
    free(offsets);
    return status;
}
