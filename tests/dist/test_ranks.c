// What every number of ranks must do; alone it runs as one rank, test_ranks_mpi.sh and test_rank_dies.sh start it under mpirun.
//
//   test_dist_ranks                      collectives, sums and agreement, against values known beforehand
//   test_dist_ranks agree RANK           rank RANK has failed (-1: none)
//   test_dist_ranks fingerprint CASE     same | global_batch | gpu | both | many
//   test_dist_ranks fault KIND RANK WAIT TIMEOUT_S FOLDER
//                                        in update 17 rank RANK (-1: all) does KIND (kill | crash | stop | exitCODE |
//                                        quitCODE (without exit handlers) | abort | none | sleep | slow | forever),
//                                        the others WAIT (allreduce | reducer | blocking | nap); FOLDER/pid.RANK gets
//                                        each rank's process number, FOLDER/now is there when it happens
//   test_dist_ranks cost BYTES BUCKET_BYTES OVERLAP MS UPDATES
//                                        exposed time of sums beside MS of computation
//   test_dist_ranks link                 round trip between ranks 0 and 1, and an all-reduce of 1 MB over all ranks
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "dist/comm_backend.h"
#include "dist/fingerprint.h"
#include "dist/reduce/reducer.h"
#include "rank_checks.h"

// A reducer of an array in host memory, cut into buckets.
static ls_reducer *new_reducer(
    ls_comm *comm, ls_slab *slab, size_t offset, ls_dtype dtype, const ls_range *ranges, int count, int overlap) {
    static ls_bucket buckets[1024];
    size_t each = ls_dtype_bytes(dtype);
    for (int b = 0; b < count; b++) {
        size_t first = offset + (size_t)ranges[b].first * each, bytes = (size_t)ranges[b].count * each;
        buckets[b] = (ls_bucket){ ls_buffer_at(slab, first, bytes), ranges[b].count, dtype };
    }
    ls_reducer_options options = { .comm = comm, .buckets = buckets, .bucket_count = count, .overlap = overlap };
    ls_reducer *reducer;
    must(comm, ls_reducer_new(&options, &reducer));
    return reducer;
}

// A value that no two (rank, element) share, positive and negative, far from exact in fp32.
static int64_t value_of(int rank, int64_t i) {
    uint64_t mixed = ((uint64_t)i * 0x9E3779B97F4A7C15u) ^ ((uint64_t)(rank + 1) * 0xD1B54A32D192ED03u);
    return (int64_t)(mixed >> 20) - ((int64_t)1 << 43);
}

static int64_t expected_i64(int world_size, int64_t i, ls_reduce op) {
    int64_t result = value_of(0, i);
    for (int r = 1; r < world_size; r++) {
        int64_t v = value_of(r, i);
        if (op == LS_REDUCE_SUM)
            result += v;
        else if (op == LS_REDUCE_MAX)
            result = v > result ? v : result;
        else
            result = v < result ? v : result;
    }
    return result;
}

static double get(const void *data, ls_dtype dtype, int64_t i) {
    switch (dtype) {
    case LS_F32:
        return (double)((const float *)data)[i];
    case LS_F64:
        return ((const double *)data)[i];
    case LS_I32:
        return ((const int32_t *)data)[i];
    case LS_U8:
        return ((const uint8_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static void set(void *data, ls_dtype dtype, int64_t i, int value) {
    switch (dtype) {
    case LS_F32:
        ((float *)data)[i] = (float)value;
        break;
    case LS_F64:
        ((double *)data)[i] = value;
        break;
    case LS_I32:
        ((int32_t *)data)[i] = value;
        break;
    case LS_U8:
        ((uint8_t *)data)[i] = (uint8_t)value;
        break;
    default:
        ((int64_t *)data)[i] = value;
        break;
    }
}

static void check_allreduce(ls_comm *comm) {
    static const struct {
        ls_dtype dtype;
        ls_reduce op;
    } rows[] = { { LS_F32, LS_REDUCE_SUM }, { LS_F64, LS_REDUCE_SUM }, { LS_I32, LS_REDUCE_SUM },
        { LS_I64, LS_REDUCE_SUM }, { LS_U8, LS_REDUCE_SUM }, { LS_F32, LS_REDUCE_MAX }, { LS_I64, LS_REDUCE_MAX },
        { LS_F64, LS_REDUCE_MIN }, { LS_I32, LS_REDUCE_MIN }, { LS_U8, LS_REDUCE_MAX } };
    static const int counts[] = { 0, 1, 7, 1000 };
    int rank = ls_comm_get_info(comm)->rank, n = ls_comm_get_info(comm)->world_size;
    char data[1000 * 8];
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            ls_dtype dtype = rows[row].dtype;
            for (int i = 0; i < counts[c]; i++) set(data, dtype, i, (rank * 7 + i) % 31);
            must(comm, ls_comm_allreduce(comm, data, counts[c], dtype, rows[row].op));
            for (int i = 0; i < counts[c]; i++) {
                int want = i % 31;
                for (int r = 1; r < n; r++) {
                    int v = (r * 7 + i) % 31;
                    if (rows[row].op == LS_REDUCE_SUM)
                        want += v;
                    else if (rows[row].op == LS_REDUCE_MAX)
                        want = v > want ? v : want;
                    else
                        want = v < want ? v : want;
                }
                double is = get(data, dtype, i);
                CHECK((int)is == want, "row %zu, count %d, [%d]: is %g, expected %d", row, counts[c], i, is, want);
                if ((int)is != want) break;
            }
        }
    }
}

static void check_others(ls_comm *comm) {
    int rank = ls_comm_get_info(comm)->rank, n = ls_comm_get_info(comm)->world_size;
    int64_t all[64];
    for (int root = 0; root < n; root++) {
        int64_t sent[3] = { rank, rank * 10, 5 };
        must(comm, ls_comm_broadcast(comm, sent, sizeof sent, root));
        CHECK(sent[0] == root && sent[1] == root * 10, "broadcast from %d: %" PRId64, root, sent[0]);
    }
    int64_t mine = 100 + rank;
    must(comm, ls_comm_allgather(comm, &mine, all, sizeof mine));
    for (int r = 0; r < n; r++) CHECK(all[r] == 100 + r, "all-gather [%d]: is %" PRId64, r, all[r]);
    must(comm, ls_comm_barrier(comm));
    must(comm, ls_comm_barrier_napping(comm));
    int failed_rank = 99;
    must(comm, ls_comm_agree(comm, LS_SUCCESS, &failed_rank));
    CHECK(failed_rank == -1, "is %d", failed_rank);
    const ls_comm_info *facts = ls_comm_get_info(comm);
    CHECK(facts->local_size == n && facts->local_rank == rank, "%d of %d", facts->local_rank, facts->local_size);
    CHECK(strcmp(facts->backend, n == 1 ? "self" : "mpi") == 0, "%s", facts->backend);

    ls_comm *alone;
    must(comm, ls_comm_self(&alone));
    int32_t one = rank;
    must(comm, ls_comm_allreduce(alone, &one, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(one == rank && ls_comm_get_info(alone)->world_size == 1, "%d", one);
    ls_comm_finish(alone);
}

// Equal bits on all ranks, for floats; the exact sum, for integers.
static void check_sum(ls_comm *comm, const char *row, const void *data, ls_dtype dtype, int64_t count, int update) {
    int n = ls_comm_get_info(comm)->world_size, wrong = 0;
    int64_t bound[2] = { (int64_t)ls_hash(data, (size_t)count * ls_dtype_bytes(dtype)), 0 };
    bound[1] = -1 - bound[0];
    must(comm, ls_comm_allreduce(comm, bound, 2, LS_I64, LS_REDUCE_MIN));
    CHECK(bound[0] == -1 - bound[1], "%s, update %d: the sums differ between ranks", row, update);
    for (int64_t i = 0; i < count && !wrong; i++) {
        int64_t want = expected_i64(n, i + update, LS_REDUCE_SUM);
        if (dtype == LS_I64) {
            int64_t is = ((const int64_t *)data)[i];
            wrong = is != want;
            CHECK(!wrong, "%s, update %d, [%" PRId64 "]: is %" PRId64 ", expected %" PRId64, row, update, i, is, want);
        } else {
            // each of n terms and n-1 sums is rounded once, relative to at most n * 2^43
            double is = (double)((const float *)data)[i], limit = ldexp(1.0, 43 - 24) * 2 * n * n;
            wrong = fabs(is - (double)want) > limit;
            CHECK(!wrong, "%s, update %d, [%" PRId64 "]: is %.9g, expected %.9g", row, update, i, is, (double)want);
        }
    }
}

static void fill(void *data, ls_dtype dtype, int64_t first, int64_t count, int rank, int update) {
    for (int64_t i = first; i < first + count; i++) {
        if (dtype == LS_I64)
            ((int64_t *)data)[i] = value_of(rank, i + update);
        else
            ((float *)data)[i] = (float)value_of(rank, i + update);
    }
}

static void check_reducer(ls_comm *comm) {
    static const struct {
        const char *name;
        ls_dtype dtype;
        int overlap, buckets, updates;
        int64_t per_bucket;
    } rows[] = {
        { "fp32, overlap", LS_F32, 1, 5, 20, 3001 },
        { "fp32, no overlap", LS_F32, 0, 5, 3, 3001 },
        { "int64, overlap", LS_I64, 1, 7, 20, 1001 },
        { "int64, no overlap", LS_I64, 0, 7, 3, 1001 },
        { "fp32, large buckets", LS_F32, 1, 3, 2, 300001 },
        { "int64, large buckets", LS_I64, 1, 3, 2, 150001 },
        { "many small buckets", LS_F32, 1, 60, 10, 3 },
        { "empty buckets", LS_F32, 1, 2, 2, 0 },
        { "one bucket", LS_F32, 1, 1, 50, 65 },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        int buckets = rows[row].buckets, rank = ls_comm_get_info(comm)->rank;
        int64_t each = rows[row].per_bucket, count = each * buckets;
        size_t bytes = (size_t)count * ls_dtype_bytes(rows[row].dtype);
        void *memory;
        must(comm, ls_memory_new(bytes + 128, "sums", &memory));
        ls_slab slab = { .host_visible = 1, .address = memory, .bytes = bytes + 128 };
        ls_range ranges[64];
        for (int b = 0; b < buckets; b++) ranges[b] = (ls_range){ b * each, each };
        ls_reducer *reducer = new_reducer(comm, &slab, 128, rows[row].dtype, ranges, buckets, rows[row].overlap);
        char *data = (char *)memory + 128;
        for (int update = 0; update < rows[row].updates; update++) {
            // as the backward pass: a bucket's values appear, then it is launched; every third update in another order
            for (int i = 0; i < buckets; i++) {
                int b = update % 3 == 2 ? buckets - 1 - i : i;
                fill(data, rows[row].dtype, b * each, each, rank, update);
                if (rank == i % 3 && i % 4 == 1) ls_clock_sleep(1e-3); // ranks are not in step
                ls_reducer_launch(reducer, b);
            }
            if (update % 2 == 0) ls_clock_sleep(1e-3);
            must(comm, ls_reducer_wait(reducer, (ls_buffer){ 0 }));
            check_sum(comm, rows[row].name, data, rows[row].dtype, count, update);
        }
        double exposed_s = ls_reducer_count(reducer).exposed_seconds, busy_s = ls_reducer_count(reducer).busy_seconds;
        int many = ls_comm_get_info(comm)->world_size > 1;
        CHECK(many ? busy_s > 0 : busy_s == 0 && exposed_s == 0, "%s: busy %g s", rows[row].name, busy_s);
        // no upper bound: a wait that ends a sum includes the wake-up, which takes what the machine's load makes of it
        CHECK(exposed_s >= 0, "%s: exposed %g s", rows[row].name, exposed_s);
        ls_reducer_free(reducer);
        ls_memory_free(memory);
    }
}

static int end(ls_comm *comm, ls_status status) {
    int rank = ls_comm_get_info(comm)->rank;
    if (rank == 0 && ls_failed(status)) printf("%s\n", status.text);
    fflush(stdout);
    ls_comm_finish(comm);
    return ls_failed(status) ? (int)status.code : failures > 0;
}

static int run_checks(ls_comm *comm) {
    check_allreduce(comm);
    check_others(comm);
    check_reducer(comm);
    ls_status mine = failures ? ls_fail(LS_INTERNAL, "%d checks failed", failures) : LS_SUCCESS;
    return end(comm, ls_comm_agree(comm, mine, NULL));
}

// A failure that was agreed on stays its rank's while all pass it on. Where it did no harm, the same may happen again.
static void check_passed_on(ls_comm *comm, int failing, ls_status agreed) {
    int rank = ls_comm_get_info(comm)->rank, failed_rank = 99;
    ls_status passed = ls_comm_agree(comm, agreed, &failed_rank);
    CHECK(failed_rank == failing && strcmp(passed.text, agreed.text) == 0, "%s, %d", passed.text, failed_rank);
    int other = failing == 0 ? ls_comm_get_info(comm)->world_size - 1 : 0;
    passed = ls_comm_agree(comm, rank == other ? agreed : LS_SUCCESS, &failed_rank);
    CHECK(passed.code == agreed.code && strcmp(passed.text, agreed.text) == 0, "%d: %s", passed.code, passed.text);
    CHECK(ls_comm_agreed(comm, agreed), "agreed on is not known as agreed on");
    must(comm, ls_comm_agree(comm, LS_SUCCESS, &failed_rank));
    CHECK(!ls_comm_agreed(comm, agreed), "an old failure is taken for a new one");
}

static int run_agree(ls_comm *comm, int failing) {
    int rank = ls_comm_get_info(comm)->rank, failed_rank = 99;
    ls_status mine = rank == failing ? ls_fail(LS_DATA, "rank %d cannot read %%s train.gz", rank) : LS_SUCCESS;
    ls_status status = ls_comm_agree(comm, mine, &failed_rank);
    CHECK(failed_rank == failing, "is %d", failed_rank);
    CHECK(failing < 0 || strcmp(status.text, "") != 0, "no text");
    if (failing >= 0) check_passed_on(comm, failing, status);
    // ls_comm_agree may fail twice; the lowest rank's failure is the one
    ls_status both =
        ls_comm_agree(comm, rank >= failing ? ls_fail(LS_STORAGE, "of rank %d", rank) : LS_SUCCESS, &failed_rank);
    int first = failing < 0 ? 0 : failing;
    char want[32];
    snprintf(want, sizeof want, "of rank %d", first);
    CHECK(both.code == LS_STORAGE && failed_rank == first && strcmp(both.text, want) == 0, "%s, %d", both.text,
        failed_rank);
    return end(comm, failures ? ls_fail(LS_INTERNAL, "%d checks failed", failures) : status);
}

static int run_fingerprint(ls_comm *comm, const char *which) {
    static ls_fingerprint mine;
    char warning[LS_STATUS_TEXT_BYTES];
    int rank = ls_comm_get_info(comm)->rank, odd = rank % 2;
    ls_fingerprint_add(&mine, "version", "%s", "0.1.0");
    if (strcmp(which, "global_batch") == 0) {
        ls_fingerprint_add(&mine, "train.global_batch", "%d", odd ? 64 : 128);
        if (odd) ls_fingerprint_add(&mine, "only.odd", "%s", "here");
        ls_fingerprint_add(&mine, "train.epochs", "%s", odd ? "five" : "an even rank's much longer value");
    } else if (strcmp(which, "gpu") == 0) {
        ls_fingerprint_note(&mine, "GPU", "%s", odd ? "A100" : "H100");
        ls_fingerprint_note(&mine, "driver", "%s", "CUDA 13.0");
    } else if (strcmp(which, "both") == 0) {
        ls_fingerprint_note(&mine, "GPU", "%s", odd ? "A100" : "H100");
        ls_fingerprint_add(&mine, "NCCL", "%s", rank == 2 ? "2.27" : "2.28");
    } else if (strcmp(which, "long") == 0) {
        ls_fingerprint_add(&mine, "optimizer.groups", "%0300d", odd);
    } else if (strcmp(which, "many") == 0) {
        for (int i = 0; i < 120; i++) {
            char name[64];
            snprintf(name, sizeof name, "section.key%d", i);
            ls_fingerprint_add(&mine, name, "%090d", i * 100 + rank);
        }
    }
    ls_fingerprint_add(&mine, "weights", "%s", "3b5d");
    ls_status status = ls_fingerprint_compare(comm, &mine, warning);
    if (rank == 0 && warning[0]) printf("%s\n", warning);
    ls_status again = LS_SUCCESS; // the same text everywhere
    if (ls_failed(status)) {
        uint64_t hash = ls_hash(status.text, strlen(status.text)), hash0 = hash;
        must(comm, ls_comm_broadcast(comm, &hash0, sizeof hash0, 0));
        CHECK(hash == hash0, "another text than rank 0's: %s", status.text);
        if (failures) again = ls_fail(LS_INTERNAL, "texts differ");
        again = ls_comm_agree(comm, again, NULL);
    }
    return end(comm, ls_failed(again) ? again : status);
}

static void wait_for_peers(ls_comm *comm, const char *how, ls_reducer *reducer, double slow_s) {
    int32_t sum = 1;
    if (strcmp(how, "allreduce") == 0)
        must(comm, ls_comm_allreduce(comm, &sum, 1, LS_I32, LS_REDUCE_SUM));
    else if (strcmp(how, "nap") == 0)
        must(comm, ls_comm_barrier_napping(comm));
    else {
        for (int b = 0; b < 4; b++) {
            if (slow_s > 0) ls_clock_sleep(slow_s);
            ls_reducer_launch(reducer, b);
        }
        must(comm, ls_reducer_wait(reducer, (ls_buffer){ 0 }));
    }
}

static void write_number(ls_comm *comm, const char *folder, const char *name, int number) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file) must(comm, ls_fail(LS_STORAGE, "cannot write %s", path));
    if (!file) return;
    fprintf(file, "%d\n", number);
    fclose(file);
}

static void misbehave(ls_comm *comm, const char *kind, double timeout_s) {
    if (strcmp(kind, "kill") == 0) raise(SIGKILL);
    if (strcmp(kind, "crash") == 0) raise(SIGSEGV);
    if (strcmp(kind, "stop") == 0) raise(SIGSTOP);
    if (strncmp(kind, "exit", 4) == 0) exit(atoi(kind + 4));
    if (strncmp(kind, "quit", 4) == 0) _exit(atoi(kind + 4));
    if (strcmp(kind, "sleep") == 0) ls_clock_sleep(2 * timeout_s);
    if (strcmp(kind, "forever") == 0) ls_clock_sleep(1e4);
    if (strcmp(kind, "abort") == 0) {
        ls_comm_claim_end(comm);
        fprintf(stderr, "error: no room\n");
        ls_comm_abort(comm, LS_STORAGE);
    }
}

// The others wait for a rank that is stopped from then on, so that nothing has been heard of it for as long.
static void wait_until_it_stops(const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/now", folder);
    while (access(path, F_OK) != 0) ls_clock_sleep(1e-3);
}

static int run_fault(ls_comm *comm, char **argv) {
    const char *kind = argv[0], *wait = argv[2], *folder = argv[4];
    int victim = atoi(argv[1]), rank = ls_comm_get_info(comm)->rank;
    double timeout_s = strtod(argv[3], NULL);
    char name[32];
    snprintf(name, sizeof name, "pid.%d", rank);
    write_number(comm, folder, name, (int)getpid());

    static float memory[4 * 1000];
    ls_slab slab = { .host_visible = 1, .address = (char *)memory, .bytes = sizeof memory };
    ls_range ranges[4];
    for (int b = 0; b < 4; b++) ranges[b] = (ls_range){ 1000 * b, 1000 };
    ls_reducer *reducer = new_reducer(comm, &slab, 0, LS_F32, ranges, 4, strcmp(wait, "blocking") != 0);
    ls_comm_set_timeout(comm, timeout_s);
    for (int update = 0; update < 20; update++) {
        ls_comm_phase(comm, "training", update);
        if (update == 17 && (rank == victim || victim < 0)) {
            if (comm->watchdog) ls_watchdog_notify(comm->watchdog); // the monitors hear of update 17
            ls_clock_sleep(0.4);                                    // the others wait
            write_number(comm, folder, "now", rank);
            misbehave(comm, kind, timeout_s);
        }
        if (update == 17 && rank != victim && strcmp(kind, "stop") == 0) wait_until_it_stops(folder);
        int slow = update == 17 && rank == victim && strcmp(kind, "slow") == 0;
        wait_for_peers(comm, wait, reducer, slow ? 0.3 * timeout_s : 0); // four times
    }
    ls_reducer_free(reducer);
    return end(comm, LS_SUCCESS);
}

static double cpu_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compute(int64_t steps) {
    static volatile double x = 1;
    for (int64_t i = 0; i < steps; i++) x = x * 1.0000001 + 1e-9;
}

// By this thread's own time, so that other load does not count.
static double steps_per_ms(void) {
    compute(10000000);
    double start = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    compute(20000000);
    return 20000000 / (1e3 * (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - start));
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

static int run_cost(ls_comm *comm, char **argv) {
    enum { TENSOR = 1024, UPDATES_MAX = 2000 };
    static double wall[UPDATES_MAX], exposed[UPDATES_MAX], busy[UPDATES_MAX], other[UPDATES_MAX];
    size_t bytes = (size_t)atoll(argv[0]), bucket_bytes = (size_t)atoll(argv[1]);
    int overlap = atoi(argv[2]), updates = atoi(argv[4]), tensors = (int)(bytes / 4 / TENSOR);
    if (updates > UPDATES_MAX) updates = UPDATES_MAX;
    void *memory;
    must(comm, ls_memory_new(bytes, "sums", &memory));
    int64_t *offsets = calloc((size_t)tensors, 8), *elements = calloc((size_t)tensors, 8);
    ls_range *ranges = calloc((size_t)tensors, sizeof *ranges);
    if (!offsets || !elements || !ranges) abort();
    for (int i = 0; i < tensors; i++) offsets[i] = i * TENSOR, elements[i] = TENSOR;
    int buckets = ls_buckets_cut(offsets, elements, tensors, 4, bucket_bytes, ranges);
    ls_slab slab = { .host_visible = 1, .address = memory, .bytes = bytes };
    ls_reducer *reducer = new_reducer(comm, &slab, 0, LS_F32, ranges, buckets, overlap);
    double ms = strtod(argv[3], NULL);
    int64_t steps = (int64_t)(ms * steps_per_ms());
    must(comm, ls_comm_barrier(comm));
    for (int update = -5; update < updates; update++) {
        int u = update < 0 ? 0 : update;
        exposed[u] = -ls_reducer_count(reducer).exposed_seconds, busy[u] = -ls_reducer_count(reducer).busy_seconds;
        wall[u] = -ls_clock_seconds(),
        other[u] = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        compute(steps / 3); // forward
        for (int b = 0; b < buckets; b++) {
            compute(steps * 2 / 3 / buckets);
            ls_reducer_launch(reducer, b);
        }
        must(comm, ls_reducer_wait(reducer, (ls_buffer){ 0 }));
        wall[u] += ls_clock_seconds(), exposed[u] += ls_reducer_count(reducer).exposed_seconds;
        busy[u] += ls_reducer_count(reducer).busy_seconds;
        other[u] += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    }
    if (ls_comm_get_info(comm)->rank == 0) {
        printf("%8zu bytes, %2d buckets, overlap %d, compute %g ms; medians: update %.2f, exposed %.2f, busy %.2f, "
               "other threads' cpu "
               "%.2f ms\n",
            bytes, buckets, overlap, ms, 1e3 * median(wall, updates), 1e3 * median(exposed, updates),
            1e3 * median(busy, updates), 1e3 * median(other, updates));
    }
    ls_reducer_free(reducer);
    ls_memory_free(memory);
    free(offsets);
    free(elements);
    free(ranges);
    return end(comm, LS_SUCCESS);
}

static int run_link(ls_comm *comm) {
    enum { REPEATS = 9 };
    double trip[REPEATS], sum[REPEATS];
    size_t bytes = 1 << 20;
    void *memory;
    must(comm, ls_memory_new(bytes, "sums", &memory));
    memset(memory, 0, bytes);
    for (int i = -3; i < REPEATS; i++) {
        int at = i < 0 ? 0 : i, token = i;
        must(comm, ls_comm_barrier(comm));
        double start_s = ls_clock_seconds();
        must(comm, ls_comm_broadcast(comm, &token, sizeof token, 0));
        must(comm, ls_comm_broadcast(comm, &token, sizeof token, 1));
        trip[at] = ls_clock_seconds() - start_s;
        must(comm, ls_comm_barrier(comm));
        start_s = ls_clock_seconds();
        must(comm, ls_comm_allreduce(comm, memory, (int64_t)(bytes / 4), LS_F32, LS_REDUCE_SUM));
        sum[at] = ls_clock_seconds() - start_s;
    }
    const ls_comm_info *facts = ls_comm_get_info(comm);
    if (facts->rank == 0) {
        printf("%d ranks, medians: round trip %.3f ms, all-reduce of 1 MiB %.2f ms\n", facts->world_size,
            1e3 * median(trip, REPEATS), 1e3 * median(sum, REPEATS));
    }
    ls_memory_free(memory);
    return end(comm, LS_SUCCESS);
}

int main(int argc, char **argv) {
    ls_comm *comm = NULL;
    must(NULL, ls_comm_start(&argc, &argv, "test", &comm));
    world_rank = ls_comm_get_info(comm)->rank;
    if (argc > 1 && getenv("SHOW_START") && ls_comm_get_info(comm)->rank == 0) {
        fprintf(stderr, "started %.0f ms after the process\n", 1e3 * ls_clock_since_start());
    }
    if (argc == 1) return run_checks(comm);
    if (argc == 3 && strcmp(argv[1], "agree") == 0) return run_agree(comm, atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "fingerprint") == 0) return run_fingerprint(comm, argv[2]);
    if (argc == 7 && strcmp(argv[1], "fault") == 0) return run_fault(comm, argv + 2);
    if (argc == 7 && strcmp(argv[1], "cost") == 0) return run_cost(comm, argv + 2);
    if (argc == 2 && strcmp(argv[1], "link") == 0 && ls_comm_get_info(comm)->world_size > 1) return run_link(comm);
    fprintf(stderr, "usage: see the head of %s\n", __FILE__);
    ls_comm_abort(comm, LS_USAGE);
}
