// cuda_ranks.h - for tests of several ranks on the CUDA device without MPI: forks a process for each, and gives back
// how they ended and what they wrote to stderr. The test program itself must not have opened the device.
#ifndef TESTS_DEVICE_CUDA_RANKS_H
#define TESTS_DEVICE_CUDA_RANKS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "device/cuda_device.h"

enum { RANKS_MAX = 4, RANKS_TEXT = 8192 };

typedef struct { // memory that all ranks of a test see
    atomic_int id_made, flags[8];
    uint8_t id[LS_COLLECTIVE_ID_BYTES];
} ranks_shared;

typedef struct {
    int rank, world_size;
    int index;            // of its GPU
    const char *settings; // LOCKSTEP_EMULATION of all ranks
    ranks_shared *shared;
    ls_device *device;
    const ls_device_api *api;
    const ls_collective_api *collectives;
    ls_collective *collective;
    ls_queue *compute, *gradients;
} ranks_job;

typedef struct {
    int codes[RANKS_MAX]; // exit codes; 128 + a signal's number
    char text[RANKS_TEXT];
} ranks_result;

static inline void ranks_must(ls_status status) {
    if (!ls_failed(status)) return;
    fprintf(stderr, "%s\n", status.text);
    fflush(NULL);
    _exit(1);
}

#define RANKS_CHECK(job, condition, ...) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: rank %d: ", __FILE__, __LINE__, (job)->rank); \
            fprintf(stderr, __VA_ARGS__); \
            fprintf(stderr, "\n"); \
            fflush(NULL); \
            _exit(1); \
        } \
    } while (0)

static inline void ranks_wait(atomic_int *flag, int value) {
    for (int i = 0; atomic_load(flag) < value; i++) {
        if (i > 200000) _exit(3); // 200 s
        ls_clock_sleep(1e-3);
    }
}

// Device, queues and communicator of this rank; the status of the last.
static inline ls_status ranks_open(ranks_job *job, double timeout_s) {
    char text[256];
    snprintf(text, sizeof text, "devices=4%s%s", job->settings[0] ? "," : "", job->settings);
    setenv("LOCKSTEP_EMULATION", text, 1);
    ranks_must(ls_device_open("cuda", &(ls_device_options){ .index = job->index }, &job->device, NULL));
    job->api = job->device->api;
    job->collectives = job->api->collective;
    ranks_must(job->api->queue_new(job->device, "compute", &job->compute));
    ranks_must(job->api->queue_new(job->device, "gradients", &job->gradients));
    if (job->rank == 0) {
        ranks_must(job->collectives->make_id(job->shared->id));
        atomic_store(&job->shared->id_made, 1);
    }
    ranks_wait(&job->shared->id_made, 1);
    return job->collectives->open(
        job->device, job->shared->id, job->rank, job->world_size, timeout_s, &job->collective);
}

// Everything but the communicator, which is closed before the memory that it adopted is freed.
static inline void ranks_end(ranks_job *job) {
    job->api->queue_free(job->compute);
    job->api->queue_free(job->gradients);
    ls_device_close(job->device);
}

typedef void ranks_body(ranks_job *job);

static inline int ranks_code(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void ranks_child(ranks_job *job, ranks_body *body, int to) {
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }; // cmocka would go on with its next test
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) signal(faults[i], SIG_DFL);
    dup2(to, STDERR_FILENO);
    alarm(300);
    body(job);
    fflush(NULL);
    exit(0); // so that the sanitizers' checks at the end are made
}

// What the ranks write, until the last of them has ended.
static inline void ranks_read(int from, char *text, size_t bytes) {
    size_t got = 0;
    for (;;) {
        char rest[512];
        int full = got >= bytes - 1;
        ssize_t n = full ? read(from, rest, sizeof rest) : read(from, text + got, bytes - 1 - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!full) got += (size_t)n;
    }
    text[got] = 0;
}

static inline ranks_result ranks_run(int world_size, const char *settings, ranks_body *body) {
    ranks_result result = { .codes = { 0 } };
    ranks_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    pid_t children[RANKS_MAX];
    if (shared == MAP_FAILED || pipe(ends) != 0) abort();
    fflush(NULL);
    for (int r = 0; r < world_size; r++) {
        children[r] = fork();
        if (children[r] < 0) abort();
        if (children[r] > 0) continue;
        close(ends[0]);
        ranks_job job = { .rank = r, .world_size = world_size, .index = r, .settings = settings, .shared = shared };
        ranks_child(&job, body, ends[1]);
    }
    close(ends[1]);
    ranks_read(ends[0], result.text, sizeof result.text);
    for (int r = 0; r < world_size; r++) {
        int status = 0;
        while (waitpid(children[r], &status, 0) < 0 && errno == EINTR) {}
        result.codes[r] = ranks_code(status);
    }
    close(ends[0]);
    munmap(shared, sizeof *shared);
    return result;
}

// All ranks ended well.
#define RANKS_PASS(row, result, world_size) \
    do { \
        for (int r_ = 0; r_ < (world_size); r_++) \
            if ((result).codes[r_] != 0) \
                fail_msg( \
                    "%s: rank %d of %d ended with %d: %s", row, r_, world_size, (result).codes[r_], (result).text); \
    } while (0)

#endif
