// Sums by hosts and by all ranks at once, and sums of bf16; alone it runs as one rank, test_hierarchy_mpi.sh starts it
// under mpirun. LOCKSTEP_TEST_HOSTS says who is on which host.
//
//   test_dist_reduce_hierarchy               sums in every mode, against values known beforehand
//   test_dist_reduce_hierarchy order MODE    on 4 ranks: whether hosts {0,2} and {1,3} were summed first; prints "by hosts"
//   test_dist_reduce_hierarchy time MODE BYTES REPEATS
//                                     median times of a sum: in the foreground, in 1 MB buckets in the background
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "base/half.h"
#include "base/hash.h"
#include "config/config.h"
#include "dist/comm_backend.h"
#include "dist/rank_checks.h"

static const char *const modes[] = { "auto", "on", "off" }; // as LS_HIERARCHY_*
enum { MODES = 3, SLOTS = 6 };
// Integers small enough for sums of 16 ranks to be exact in bf16's 8 bits, if `small`; else such that fp32 rounds.
static int64_t value_of(int rank, int64_t i, int small) {
    uint64_t mixed = ((uint64_t)i * 0x9E3779B97F4A7C15u) ^ ((uint64_t)(rank + 1) * 0xD1B54A32D192ED03u);
    mixed ^= mixed >> 29;
    return small ? (int64_t)(mixed % 16) - 8 : (int64_t)(mixed >> 20) - ((int64_t)1 << 43);
}

static void fill(void *data, ls_dtype dtype, int64_t count, int64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        int64_t v = value_of(world_rank, i + seed, dtype == LS_BF16);
        if (dtype == LS_I64)
            ((int64_t *)data)[i] = v;
        else
            ls_store_float(data, dtype, i, (float)v);
    }
}

static void check_sum(ls_comm *comm, const char *what, const void *data, ls_dtype dtype, int64_t count, int64_t seed) {
    int n = ls_comm_get_info(comm)->world_size;
    int64_t hash[2] = { (int64_t)ls_hash(data, (size_t)count * ls_dtype_bytes(dtype)), 0 };
    hash[1] = -1 - hash[0];
    must(comm, ls_comm_allreduce(comm, hash, 2, LS_I64, LS_REDUCE_MIN));
    CHECK(hash[0] == -1 - hash[1], "%s: the sums differ between ranks", what);
    for (int64_t i = 0; i < count; i++) {
        int64_t want = 0;
        for (int r = 0; r < n; r++) want += value_of(r, i + seed, dtype == LS_BF16);
        if (dtype == LS_I64) {
            int64_t is = ((const int64_t *)data)[i];
            CHECK(is == want, "%s [%" PRId64 "]: is %" PRId64 ", expected %" PRId64, what, i, is, want);
            if (is != want) return;
        } else {
            // each of n terms and n-1 sums is rounded once, relative to at most n * 2^43
            double is = (double)ls_load_float(data, dtype, i),
                   limit = dtype == LS_BF16 ? 0 : ldexp(2.0 * n * n, 43 - 24);
            int wrong = !(fabs(is - (double)want) <= limit);
            CHECK(!wrong, "%s [%" PRId64 "]: is %.9g, expected %.9g", what, i, is, (double)want);
            if (wrong) return;
        }
    }
}

static const ls_dtype dtypes[] = { LS_F32, LS_I64, LS_BF16 };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

static void check_foreground(ls_comm *comm, const char *mode, char *data) {
    // below and above what goes by hosts; one piece, several, more than are in flight at once
    static const int64_t bytes[] = { 0, 8, 4096, 65536, (1 << 20) + 8, (5 << 20) + 24 };
    for (int d = 0; d < DTYPES; d++) {
        for (size_t b = 0; b < sizeof bytes / sizeof *bytes; b++) {
            if (bytes[b] > 2 << 20 && (d != 0 || strcmp(mode, "on") != 0)) continue; // once will do
            int64_t count = bytes[b] / (int64_t)ls_dtype_bytes(dtypes[d]);
            char what[96];
            snprintf(what, sizeof what, "%s, %s, %" PRId64 " bytes", mode, ls_dtype_name(dtypes[d]), bytes[b]);
            fill(data, dtypes[d], count, d);
            must(comm, ls_comm_allreduce(comm, data, count, dtypes[d], LS_REDUCE_SUM));
            check_sum(comm, what, data, dtypes[d], count, d);
        }
    }
}

static void test_until_done(ls_comm *comm, ls_channel *channel, int slot) {
    for (int done = 0;;) {
        must(comm, comm->backend->channel_test(channel, slot, &done));
        if (done) return;
        ls_clock_sleep(2e-5);
    }
}

// Sums are started in one order everywhere, and looked at in another one on each rank: all of them in turn, or one
// until it is done (which must not depend on the others being looked at).
static void check_background(ls_comm *comm, const char *mode, char *data) {
    enum { BYTES = 40000, ROUNDS = 6 };
    ls_channel *channel;
    must(comm, comm->backend->channel_new(comm, SLOTS, &channel));
    for (int round = 0; round < ROUNDS; round++) {
        ls_dtype dtype = dtypes[round % DTYPES];
        int64_t count[SLOTS], each = BYTES / (int64_t)ls_dtype_bytes(dtype);
        for (int i = 0; i < SLOTS; i++) {
            int slot = (i * 5 + round) % SLOTS;
            count[slot] = slot == 2 ? 0 : slot == 4 ? 1 : each - slot;
            fill(data + (size_t)slot * BYTES, dtype, count[slot], slot + round);
            if ((world_rank + i) % 3 == 0) ls_clock_sleep(2e-4); // ranks are not in step
            must(comm, comm->backend->channel_start(channel, slot, data + (size_t)slot * BYTES, count[slot], dtype));
        }
        int left = SLOTS;
        for (int done[SLOTS] = { 0 }; left > 0 && round % 2 == 0; ls_clock_sleep(2e-5)) {
            for (int i = 0; i < SLOTS; i++) {
                if (done[i]) continue;
                must(comm, comm->backend->channel_test(channel, i, &done[i]));
                left -= done[i];
            }
        }
        for (int i = 0; i < left; i++) test_until_done(comm, channel, (SLOTS - 1 - i + world_rank) % SLOTS);
        for (int slot = 0; slot < SLOTS; slot++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %s in the background, round %d, slot %d", mode, ls_dtype_name(dtype),
                round, slot);
            check_sum(comm, what, data + (size_t)slot * BYTES, dtype, count[slot], slot + round);
        }
    }
    comm->backend->channel_free(channel);
}

// All values of one rank, against several of the other: every addition is that of fp32, rounded to nearest even.
static void check_bf16(ls_comm *world) {
    enum { ALL = 65536 };
    static const uint16_t others[] = { 0x0000, 0x8000, 0x3F80, 0xBF81, 0x0001, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x4380,
        0x3B80, 0x00FF };
    ls_comm *two = NULL;
    uint16_t *data = malloc(ALL * sizeof *data);
    if (!data) abort();
    if (ls_comm_get_info(world)->world_size > 1) must(world, ls_comm_first(world, 2, &two));
    for (size_t o = 0; two && o < sizeof others / sizeof *others; o++) {
        for (int i = 0; i < ALL; i++) data[i] = world_rank == 0 ? (uint16_t)i : others[o];
        must(two, ls_comm_allreduce(two, data, ALL, LS_BF16, LS_REDUCE_SUM));
        for (int i = 0; i < ALL; i++) {
            float want = ls_float_from_bf16((uint16_t)i) + ls_float_from_bf16(others[o]);
            uint16_t bits = isnan(want) ? 0x7FC0 : ls_bf16_from_float(want);
            CHECK(data[i] == bits, "%04x + %04x: is %04x, expected %04x", (unsigned)i, others[o], data[i], bits);
            if (data[i] != bits) break;
        }
    }
    if (two) {
        ls_status status = ls_comm_allreduce(two, data, 1, LS_BF16, LS_REDUCE_MAX);
        CHECK(status.code == LS_INTERNAL, "maximum of bf16: code %d", status.code);
        ls_comm_finish(two);
    }
    free(data);
}

// A communicator of all ranks in this mode.
static ls_comm *in_mode(ls_comm *world, int mode) {
    ls_comm *comm;
    ls_comm_set_hierarchy(world, mode);
    must(world, ls_comm_first(world, ls_comm_get_info(world)->world_size, &comm));
    return comm;
}

static int run_checks(ls_comm *world) {
    char *data = malloc(8 << 20);
    if (!data) abort();
    check_bf16(world);
    for (int mode = 0; mode < MODES; mode++) {
        ls_comm *comm = in_mode(world, mode);
        check_foreground(comm, modes[mode], data);
        if (comm->backend->channel_new) check_background(comm, modes[mode], data);
        ls_comm_finish(comm);
    }
    free(data);
    ls_status mine = failures ? ls_fail(LS_INTERNAL, "%d checks failed", failures) : LS_SUCCESS;
    ls_status status = ls_comm_agree(world, mine, NULL);
    ls_comm_finish(world);
    return ls_failed(status);
}

static int mode_of(const char *word) {
    for (int mode = 0; mode < MODES; mode++) {
        if (strcmp(modes[mode], word) == 0) return mode;
    }
    fprintf(stderr, "mode %s\n", word);
    exit(LS_USAGE);
}

// fp32 drops 1 beside 1e8: only (1e8 - 1e8) + (1 + 1) is 2.
static int run_order(ls_comm *world, const char *word) {
    enum { COUNT = 65536 };
    static float foreground[COUNT], background[1];
    static const float terms[4] = { 1e8F, 1, -1e8F, 1 };
    ls_comm *comm = in_mode(world, mode_of(word));
    for (int i = 0; i < COUNT; i++) foreground[i] = terms[world_rank % 4];
    background[0] = terms[world_rank % 4];
    must(comm, ls_comm_allreduce(comm, foreground, COUNT, LS_F32, LS_REDUCE_SUM));
    ls_channel *channel;
    must(comm, comm->backend->channel_new(comm, 1, &channel));
    must(comm, comm->backend->channel_start(channel, 0, background, 1, LS_F32));
    test_until_done(comm, channel, 0);
    comm->backend->channel_free(channel);
    if (world_rank == 0) {
        printf("%s, %s\n", foreground[COUNT - 1] == 2 ? "by hosts" : "at once",
            background[0] == 2 ? "by hosts" : "at once");
        fflush(stdout);
    }
    ls_comm_finish(comm);
    ls_comm_finish(world);
    return 0;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_time(ls_comm *world, char **argv) {
    enum { REPEATS_MAX = 1000, BUCKET = 1 << 20, BUCKETS_MAX = 256 };
    static double took[2][REPEATS_MAX];
    int mode = mode_of(argv[0]), repeats = atoi(argv[2]);
    int64_t bytes = atoll(argv[1]), buckets = (bytes + BUCKET - 1) / BUCKET;
    if (repeats < 1 || repeats > REPEATS_MAX || bytes < 4 || buckets > BUCKETS_MAX) exit(LS_USAGE);
    char *data = calloc((size_t)bytes, 1);
    if (!data) abort();
    ls_comm *comm = in_mode(world, mode);
    ls_channel *channel;
    must(comm, comm->backend->channel_new(comm, (int)buckets, &channel));
    for (int i = -1; i < repeats; i++) { // the first one warms up
        must(comm, ls_comm_barrier(comm));
        double start_s = ls_clock_seconds();
        must(comm, ls_comm_allreduce(comm, data, bytes / 4, LS_F32, LS_REDUCE_SUM));
        took[0][i < 0 ? 0 : i] = ls_clock_seconds() - start_s;
        must(comm, ls_comm_barrier(comm));
        start_s = ls_clock_seconds();
        for (int b = 0; b < buckets; b++) {
            int64_t first = (int64_t)b * BUCKET, part = bytes - first < BUCKET ? bytes - first : BUCKET;
            must(comm, comm->backend->channel_start(channel, b, data + first, part / 4, LS_F32));
        }
        for (int b = 0; b < buckets; b++) test_until_done(comm, channel, b);
        took[1][i < 0 ? 0 : i] = ls_clock_seconds() - start_s;
    }
    comm->backend->channel_free(channel);
    for (int k = 0; k < 2; k++) qsort(took[k], (size_t)repeats, sizeof(double), by_size);
    double median[2] = { took[0][repeats / 2], took[1][repeats / 2] };
    must(comm, ls_comm_allreduce(comm, median, 2, LS_F64, LS_REDUCE_MAX));
    if (world_rank == 0) printf("%s,%" PRId64 ",%.3f,%.3f\n", argv[0], bytes, 1e3 * median[0], 1e3 * median[1]);
    fflush(stdout);
    free(data);
    ls_comm_finish(comm);
    ls_comm_finish(world);
    return 0;
}

int main(int argc, char **argv) {
    ls_comm *world = NULL;
    if (ls_failed(ls_comm_start(&argc, &argv, "test", &world))) return 1;
    world_rank = ls_comm_get_info(world)->rank;
    if (argc == 3 && strcmp(argv[1], "order") == 0) return run_order(world, argv[2]);
    if (argc == 5 && strcmp(argv[1], "time") == 0) return run_time(world, argv + 2);
    return run_checks(world);
}
