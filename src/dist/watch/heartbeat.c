#include "dist/watch/heartbeat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

enum { ADDRESSES = 8, MONITORS = 2 };

// The message that ranks exchange at the start.
typedef struct {
    uint64_t key;     // rank 0's key is the job's
    uint64_t machine; // equal on two ranks: same host and same process numbers
    char host[LS_HEARTBEAT_HOST_BYTES];
    int32_t pid;
    uint16_t port;               // network order; 0: this rank cannot listen
    uint32_t address[ADDRESSES]; // network order; 0: no further address
} handshake;

typedef struct {
    int rank; // -1: no monitor
    struct sockaddr_in address[ADDRESSES];
    int count;
} monitor;

struct ls_heartbeat {
    ls_heartbeat_table table;
    uint64_t key;
    int socket; // -1: no socket
    monitor monitors[MONITORS];
    int watched_rank, watched_fd; // the next rank on this host and its process; -1: not watched
    atomic_int gone;              // watched_rank after its process has ended; until then -1
};

// --- opening -------------------------------------------------------------------------------------

// Returns a hash of the machine and its process numbers: ranks with the same value can watch each other's process.
static uint64_t machine_id(const char *host) {
    char text[160] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, 40) : 0;
    if (fd >= 0) close(fd);
    size_t used = bytes > 0 ? (size_t)bytes : 0;
    struct stat processes = { 0 };
    if (stat("/proc/self/ns/pid", &processes) != 0) processes.st_ino = 0;
    snprintf(text + used, sizeof text - used, " %lu %.80s", (unsigned long)processes.st_ino, host);
    return ls_hash(text, strlen(text));
}

// Finds the addresses of this host. The first one is the loopback, for ranks on the same host.
static void find_addresses(uint32_t address[ADDRESSES], int one_host) {
    int count = 0;
    address[count++] = htonl(INADDR_LOOPBACK);
    struct ifaddrs *list;
    if (one_host || getifaddrs(&list) != 0) return;
    for (struct ifaddrs *i = list; i && count < ADDRESSES; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET) continue;
        if (!(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK)) continue;
        struct sockaddr_in in;
        memcpy(&in, i->ifa_addr, sizeof in);
        address[count++] = in.sin_addr.s_addr;
    }
    freeifaddrs(list);
}

static void open_socket(ls_heartbeat *heartbeat, int one_host, handshake *mine) {
    heartbeat->socket = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (heartbeat->socket < 0) return;
    struct sockaddr_in address = { .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY) };
    socklen_t bytes = sizeof address;
    if (bind(heartbeat->socket, (struct sockaddr *)&address, bytes) != 0) return;
    if (getsockname(heartbeat->socket, (struct sockaddr *)&address, &bytes) != 0) return;
    mine->port = address.sin_port;
    find_addresses(mine->address, one_host);
}

static void set_monitor(ls_heartbeat *heartbeat, monitor *m, int rank, const handshake *all) {
    m->rank = rank;
    const handshake *its = &all[rank], *mine = &all[heartbeat->table.rank];
    if (its->port == 0 || rank == heartbeat->table.rank) return;
    for (int i = 0; i < ADDRESSES && its->address[i]; i++) {
        if (i == 0 && strcmp(its->host, mine->host) != 0) continue; // the loopback of another host
        m->address[m->count++] =
            (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = its->port, .sin_addr.s_addr = its->address[i] };
    }
}

static void choose_monitors(ls_heartbeat *heartbeat, const handshake *all) {
    int n = heartbeat->table.world_size, second = 1;
    for (int r = n - 1; r > 0; r--)
        if (strcmp(all[r].host, all[0].host) != 0) second = r;
    set_monitor(heartbeat, &heartbeat->monitors[0], 0, all);
    if (n > 1) set_monitor(heartbeat, &heartbeat->monitors[1], second, all);
}

// Watches for the end of the next rank's process on this host. Old kernels and some containers have no pidfd: then only
// the launcher and silence show its end.
static void watch_next_rank(ls_heartbeat *heartbeat, const handshake *all) {
    int n = heartbeat->table.world_size, mine = heartbeat->table.rank, next = (mine + 1) % n;
    while (next != mine && all[next].machine != all[mine].machine) next = (next + 1) % n;
    if (next == mine) return;
    heartbeat->watched_rank = next;
    heartbeat->watched_fd = (int)syscall(SYS_pidfd_open, all[next].pid, 0);
}

static ls_status exchange_addresses(ls_heartbeat *heartbeat, const ls_watched_ranks *ranks, ls_heartbeat_peer *peers) {
    int n = ranks->world_size, one_host = ranks->hosts == 1;
    handshake mine = { .pid = (int32_t)getpid(), .machine = machine_id(ranks->host) };
    snprintf(mine.host, sizeof mine.host, "%s", ranks->host);
    if (getrandom(&mine.key, sizeof mine.key, GRND_NONBLOCK) != sizeof mine.key) mine.key = mine.machine;
    open_socket(heartbeat, one_host, &mine);
    handshake *all = ls_new(n, sizeof *all, "heartbeats of %d ranks", n);
    ls_status status = ranks->allgather(ranks->comm, &mine, all, sizeof mine);
    if (!ls_failed(status)) {
        heartbeat->key = all[0].key;
        for (int r = 0; r < n; r++) {
            memcpy(peers[r].host, all[r].host, sizeof peers[r].host);
            peers[r].pid = all[r].pid;
        }
        choose_monitors(heartbeat, all);
        watch_next_rank(heartbeat, all);
    }
    free(all);
    return status;
}

ls_status ls_heartbeat_open(const ls_watched_ranks *ranks, ls_heartbeat **out) {
    size_t n = (size_t)ranks->world_size;
    ls_heartbeat *heartbeat = ls_new(1, sizeof *heartbeat, "heartbeats of %zu ranks", n);
    heartbeat->socket = heartbeat->watched_rank = heartbeat->watched_fd = -1;
    atomic_store(&heartbeat->gone, -1);
    for (int m = 0; m < MONITORS; m++) heartbeat->monitors[m].rank = -1;
    heartbeat->table = (ls_heartbeat_table){ .rank = ranks->rank, .world_size = ranks->world_size };
    heartbeat->table.row = ls_new(n, sizeof *heartbeat->table.row, "heartbeats of %zu ranks", n);
    ls_heartbeat_peer *peers = ls_new(n, sizeof *peers, "heartbeats of %zu ranks", n);
    heartbeat->table.peer = peers;
    ls_status status = exchange_addresses(heartbeat, ranks, peers);
    return LS_GIVE_OR_FREE(status, heartbeat, out, ls_heartbeat_close);
}

void ls_heartbeat_close(ls_heartbeat *heartbeat) {
    if (!heartbeat) return;
    if (heartbeat->socket >= 0) close(heartbeat->socket);
    if (heartbeat->watched_fd >= 0) close(heartbeat->watched_fd);
    free((void *)heartbeat->table.peer);
    free(heartbeat->table.row);
    free(heartbeat);
}

ls_heartbeat_table *ls_heartbeat_get_table(ls_heartbeat *heartbeat) {
    return &heartbeat->table;
}

int ls_heartbeat_monitor(const ls_heartbeat *heartbeat) {
    for (int m = 0; m < MONITORS; m++)
        if (heartbeat->monitors[m].rank == heartbeat->table.rank) return m;
    return -1;
}

// --- records -------------------------------------------------------------------------------------

void ls_heartbeat_send(const ls_heartbeat *heartbeat, ls_heartbeat_record *record) {
    record->key = heartbeat->key;
    record->bytes = (int32_t)sizeof *record;
    record->rank = heartbeat->table.rank;
    record->gone = atomic_load(&heartbeat->gone);
    for (int m = 0; m < MONITORS && heartbeat->socket >= 0; m++) {
        for (int i = 0; i < heartbeat->monitors[m].count; i++) {
            const struct sockaddr_in *to = &heartbeat->monitors[m].address[i];
            ssize_t sent = sendto(heartbeat->socket, record, sizeof *record, MSG_DONTWAIT | MSG_NOSIGNAL,
                (const struct sockaddr *)to, sizeof *to);
            (void)sent; // the next tick sends another record
        }
    }
}

static void note_gone(ls_heartbeat *heartbeat, int rank) {
    if (rank < 0 || rank >= heartbeat->table.world_size || heartbeat->table.row[rank].gone) return;
    heartbeat->table.row[rank].gone = 1;
    heartbeat->table.row[rank].gone_s = 0;
}

static void accept_record(ls_heartbeat *heartbeat, ls_heartbeat_record *record) {
    ls_heartbeat_row *row = &heartbeat->table.row[record->rank];
    record->phase[sizeof record->phase - 1] = record->what[sizeof record->what - 1] = 0;
    record->error[sizeof record->error - 1] = 0;
    if (record->tail_count < 0 || record->tail_count > LS_HEARTBEAT_TAIL) record->tail_count = 0;
    note_gone(heartbeat, record->gone);
    row->last = *record;
    row->heard = 1;
    row->silent_s = 0;
}

static void receive(ls_heartbeat *heartbeat) {
    ls_heartbeat_record record;
    for (;;) {
        ssize_t bytes = recv(heartbeat->socket, &record, sizeof record, MSG_DONTWAIT | MSG_TRUNC);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return; // no more records, or the error of an earlier datagram
        if (bytes != sizeof record || record.key != heartbeat->key || record.bytes != (int32_t)sizeof record) continue;
        if (record.rank < 0 || record.rank >= heartbeat->table.world_size || record.rank == heartbeat->table.rank)
            continue;
        accept_record(heartbeat, &record);
    }
}

static void count_seconds(ls_heartbeat *heartbeat, double seconds) {
    for (int r = 0; r < heartbeat->table.world_size; r++) {
        ls_heartbeat_row *row = &heartbeat->table.row[r];
        row->silent_s += seconds;
        if (row->gone) row->gone_s += seconds;
        row->error_s = row->last.error[0] ? row->error_s + seconds : 0;
    }
}

int ls_heartbeat_wait(ls_heartbeat *heartbeat, double seconds, int wake_fd) {
    double end_s = ls_clock_seconds() + seconds;
    for (;;) {
        struct pollfd fds[] = { { .fd = wake_fd, .events = POLLIN }, { .fd = heartbeat->socket, .events = POLLIN },
            { .fd = heartbeat->watched_fd, .events = POLLIN } };
        double left_s = end_s - ls_clock_seconds();
        int left_ms = seconds < 0 ? -1 : left_s > 0 ? (int)(left_s * 1e3) + 1 : 0;
        if (poll(fds, sizeof fds / sizeof *fds, left_ms) == 0) break;
        if (fds[1].revents) receive(heartbeat);
        if (fds[2].revents) {
            close(heartbeat->watched_fd);
            heartbeat->watched_fd = -1;
            atomic_store(&heartbeat->gone, heartbeat->watched_rank);
            note_gone(heartbeat, heartbeat->watched_rank);
            return 1; // so that the monitors are told now
        }
        if (fds[0].revents) return 1;
    }
    count_seconds(heartbeat, seconds);
    return 0;
}
