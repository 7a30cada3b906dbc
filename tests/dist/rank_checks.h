// rank_checks.h - for tests that are processes of one MPI job: checks that go on, and what has to succeed.
#ifndef TESTS_DIST_RANK_CHECKS_H
#define TESTS_DIST_RANK_CHECKS_H

#include <stdio.h>
#include <stdlib.h>
#include "dist/comm.h"

static int failures, world_rank; // world_rank: for main to set

#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            failures++; \
            fprintf(stderr, "rank %d: %s:%d: %s: ", world_rank, __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
        } \
    } while (0)

// comm: NULL where there is none yet.
static inline void must(ls_comm *comm, ls_status status) {
    if (!ls_failed(status)) return;
    fprintf(stderr, "rank %d: %s\n", world_rank, status.text);
    if (comm) ls_comm_abort(comm, status.code);
    exit(status.code);
}

#endif
