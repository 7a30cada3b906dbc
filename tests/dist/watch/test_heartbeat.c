// Heartbeats: what two ranks of a host send to each other by datagrams, and that nothing else is taken in.
#include <arpa/inet.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "dist/watch/heartbeat.h"
#include "support/cmocka.h"
#include "support/must.h"

enum { RANKS = 2, GREETING_MAX = 1024, DESCRIPTORS = 64 };
static const double MOMENT_S = 0.02;

static pthread_barrier_t meeting;
static uint8_t handshakes[RANKS][GREETING_MAX];

struct ls_comm { // one rank of the test
    int rank;
};

static ls_status gather(struct ls_comm *comm, const void *mine, void *all, int64_t bytes_each) {
    assert_true(bytes_each <= GREETING_MAX);
    memcpy(handshakes[comm->rank], mine, (size_t)bytes_each);
    pthread_barrier_wait(&meeting);
    for (int r = 0; r < RANKS; r++)
        memcpy((uint8_t *)all + (size_t)bytes_each * (size_t)r, handshakes[r], (size_t)bytes_each);
    return LS_SUCCESS;
}

typedef struct {
    struct ls_comm comm;
    ls_heartbeat *heartbeat;
    ls_status status;
} member;

static void *open_heartbeat(void *context) {
    member *m = context;
    const ls_watched_ranks ranks = {
        .rank = m->comm.rank, .world_size = RANKS, .hosts = 1, .host = "here", .comm = &m->comm, .allgather = gather
    };
    m->status = ls_heartbeat_open(&ranks, &m->heartbeat);
    return NULL;
}

static void open_heartbeats(member members[RANKS]) {
    pthread_t threads[RANKS];
    pthread_barrier_init(&meeting, NULL, RANKS);
    for (int r = 0; r < RANKS; r++) {
        memset(&members[r], 0, sizeof members[r]);
        members[r].comm.rank = r;
        assert_int_equal(pthread_create(&threads[r], NULL, open_heartbeat, &members[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        must(members[r].status);
    }
    pthread_barrier_destroy(&meeting);
}

static void close_heartbeats(member members[RANKS]) {
    for (int r = 0; r < RANKS; r++) ls_heartbeat_close(members[r].heartbeat);
}

static ls_heartbeat_record from_rank_1(void) {
    ls_heartbeat_record record = { .gone = -1, .bucket = 7, .update = 42, .tail_count = 1 };
    strcpy(record.phase, "reducing gradients");
    record.tail[0].number = 99;
    return record;
}

static void a_record_arrives(void **state) {
    (void)state;
    member members[RANKS];
    open_heartbeats(members);
    ls_heartbeat *heartbeat = members[0].heartbeat;
    for (int r = 0; r < RANKS; r++) assert_int_equal(ls_heartbeat_monitor(members[r].heartbeat), r);
    const ls_heartbeat_row *row = &ls_heartbeat_get_table(heartbeat)->row[1];
    assert_int_equal(ls_heartbeat_wait(heartbeat, MOMENT_S, -1), 0);
    assert_false(row->heard);
    assert_true(row->silent_s == MOMENT_S);
    ls_heartbeat_record record = from_rank_1();
    ls_heartbeat_send(members[1].heartbeat, &record);
    assert_int_equal(ls_heartbeat_wait(heartbeat, MOMENT_S, -1), 0);
    assert_true(row->heard);
    assert_int_equal(row->last.rank, 1);
    assert_int_equal(row->last.update, 42);
    assert_int_equal(row->last.bucket, 7);
    assert_int_equal(row->last.tail[0].number, 99);
    assert_string_equal(row->last.phase, "reducing gradients");
    assert_true(row->silent_s == MOMENT_S); // counted from the record on
    assert_false(row->gone);
    assert_string_equal(ls_heartbeat_get_table(heartbeat)->peer[1].host, "here");
    assert_int_equal(ls_heartbeat_get_table(heartbeat)->peer[1].pid, getpid());
    close_heartbeats(members);
}

// To every port of this process.
static void send_raw(const void *bytes, size_t count) {
    int ports[DESCRIPTORS], found = 0;
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        struct sockaddr_in address;
        socklen_t size = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 && address.sin_family == AF_INET)
            ports[found++] = address.sin_port;
    }
    assert_int_equal(found, RANKS);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    for (int i = 0; i < found; i++) {
        struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = (in_port_t)ports[i], .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
        };
        assert_int_equal(sendto(fd, bytes, count, 0, (const struct sockaddr *)&to, sizeof to), count);
    }
    close(fd);
}

// Each differs in one thing from a record of rank 1, which is taken in.
static const struct {
    const char *name;
    int rank, bytes_more, key_more, sent_less;
    int heard_rank; // -1: nobody
} rows[] = {
    { "rank 1's own", 1, 0, 0, 0, 1 },
    { "the rank that reads it", 0, 0, 0, 0, -1 },
    { "a rank that is not there", RANKS, 0, 0, 0, -1 },
    { "no rank", -1, 0, 0, 0, -1 },
    { "of another build", 1, 8, 0, 0, -1 },
    { "of another job", 1, 0, 1, 0, -1 },
    { "cut off", 1, 0, 0, 8, -1 },
};

static void only_records_of_the_job_are_taken_in(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        member members[RANKS];
        open_heartbeats(members);
        ls_heartbeat_record record = from_rank_1();
        ls_heartbeat_send(members[1].heartbeat, &record); // fills in key and length
        ls_heartbeat *heartbeat = members[0].heartbeat;
        assert_int_equal(ls_heartbeat_wait(heartbeat, MOMENT_S, -1), 0);
        ls_heartbeat_row *row = ls_heartbeat_get_table(heartbeat)->row;
        for (int r = 0; r < RANKS; r++) row[r].heard = 0;
        record.rank = rows[i].rank;
        record.bytes += rows[i].bytes_more;
        record.key += (uint64_t)rows[i].key_more;
        send_raw(&record, sizeof record - (size_t)rows[i].sent_less);
        assert_int_equal(ls_heartbeat_wait(heartbeat, MOMENT_S, -1), 0);
        for (int r = 0; r < RANKS; r++)
            if (row[r].heard != (r == rows[i].heard_rank)) fail_msg("%s: row %d", rows[i].name, r);
        close_heartbeats(members);
    }
}

// What a record says is kept within bounds: texts end, entries are as many as fit, a rank that is gone exists.
static void wild_values_are_bounded(void **state) {
    (void)state;
    member members[RANKS];
    open_heartbeats(members);
    ls_heartbeat_record record = from_rank_1();
    ls_heartbeat_send(members[1].heartbeat, &record);
    memset(record.phase, 'p', sizeof record.phase);
    memset(record.what, 'w', sizeof record.what);
    memset(record.error, 'e', sizeof record.error);
    ls_heartbeat_row *row = &ls_heartbeat_get_table(members[0].heartbeat)->row[1];
    static const int counts[] = { -1, 0, LS_HEARTBEAT_TAIL, LS_HEARTBEAT_TAIL + 1 },
                     kept[] = { 0, 0, LS_HEARTBEAT_TAIL, 0 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        record.tail_count = counts[i];
        record.gone = i % 2 ? -1 : RANKS;
        send_raw(&record, sizeof record);
        assert_int_equal(ls_heartbeat_wait(members[0].heartbeat, MOMENT_S, -1), 0);
        assert_int_equal(row->last.tail_count, kept[i]);
        assert_int_equal(strlen(row->last.phase), sizeof record.phase - 1);
        assert_int_equal(strlen(row->last.what), sizeof record.what - 1);
        assert_int_equal(strlen(row->last.error), sizeof record.error - 1);
        for (int r = 0; r < RANKS; r++) assert_false(ls_heartbeat_get_table(members[0].heartbeat)->row[r].gone);
    }
    assert_true(row->error_s > MOMENT_S); // since the first record with an error
    record.gone = 1;
    send_raw(&record, sizeof record);
    assert_int_equal(ls_heartbeat_wait(members[0].heartbeat, MOMENT_S, -1), 0);
    assert_true(row->gone);
    assert_true(row->gone_s == MOMENT_S);
    close_heartbeats(members);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_arrives),
        cmocka_unit_test(only_records_of_the_job_are_taken_in),
        cmocka_unit_test(wild_values_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
