// Hosts, and communicators of some of the ranks; alone it runs as one rank, test_comm_groups_mpi.sh starts it under mpirun.
//
//   test_dist_comm_groups                  facts and sums of all groups; LOCKSTEP_TEST_HOSTS says who is on which host
//   test_dist_comm_groups stop FOLDER      rank 1 stops inside a group of two, the third rank waits outside of it;
//                                     FOLDER/pid.RANK gets each rank's process number
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "dist/comm_backend.h"
#include "dist/allreduce_times.h"
#include "rank_checks.h"

enum { RANKS_MAX = 16 };
// The host of each rank by the environment; without it all are on one.
static int hosts_wanted(int *host) {
    const char *list = getenv("LOCKSTEP_TEST_HOSTS");
    int count = 0;
    while (list && *list && count < RANKS_MAX) {
        char *end;
        host[count++] = (int)strtol(list, &end, 10);
        list = *end ? end + 1 : end;
    }
    for (int i = count; i < RANKS_MAX; i++) host[i] = 0;
    return count;
}

static void check_facts(ls_comm *comm, int ranks) {
    int host[RANKS_MAX], local_rank = 0, local_size = 0, hosts = 0, host_index = 0;
    hosts_wanted(host);
    for (int r = 0; r < ranks; r++) {
        int is_first = 1;
        for (int q = 0; q < r; q++) is_first &= host[q] != host[r];
        hosts += is_first;
        local_size += host[r] == host[world_rank];
        local_rank += host[r] == host[world_rank] && r < world_rank;
        if (host[r] == host[world_rank] && is_first) host_index = hosts - 1;
    }
    const ls_comm_info *f = ls_comm_get_info(comm);
    CHECK(f->world_size == ranks && f->rank == world_rank, "rank %d of %d, expected %d of %d", f->rank, f->world_size,
        world_rank, ranks);
    CHECK(f->local_rank == local_rank && f->local_size == local_size,
        "group of %d: local rank %d of %d, expected %d of %d", ranks, f->local_rank, f->local_size, local_rank,
        local_size);
    CHECK(f->hosts == hosts && f->host_index == host_index, "group of %d: host %d of %d, expected %d of %d", ranks,
        f->host_index, f->hosts, host_index, hosts);
    CHECK(strcmp(f->backend, ranks == 1 ? "self" : "mpi") == 0, "%s", f->backend);
}

// Sums in the background and in the foreground are of this group's ranks only.
static void check_sums(ls_comm *comm) {
    int ranks = ls_comm_get_info(comm)->world_size;
    int64_t want = (int64_t)ranks * (ranks - 1) / 2, sum = world_rank, from = world_rank;
    must(comm, ls_comm_allreduce(comm, &sum, 1, LS_I64, LS_REDUCE_SUM));
    CHECK(sum == want, "group of %d: sum %" PRId64 ", expected %" PRId64, ranks, sum, want);
    must(comm, ls_comm_broadcast(comm, &from, sizeof from, ranks - 1));
    CHECK(from == ranks - 1, "group of %d: broadcast of %" PRId64, ranks, from);
    int failed_rank;
    ls_status mine = world_rank == ranks - 1 ? ls_fail(LS_DATA, "the last one") : LS_SUCCESS;
    ls_status agreed = ls_comm_agree(comm, mine, &failed_rank);
    CHECK(agreed.code == LS_DATA && failed_rank == ranks - 1, "group of %d: code %d of rank %d", ranks, agreed.code,
        failed_rank);
    if (!comm->backend->channel_new) return;
    ls_channel *channel;
    must(comm, comm->backend->channel_new(comm, 2, &channel));
    int64_t sums[2] = { world_rank, 10 * world_rank };
    for (int s = 0; s < 2; s++) must(comm, comm->backend->channel_start(channel, s, &sums[s], 1, LS_I64));
    for (int s = 0; s < 2; s++) {
        for (int done = 0; !done; ls_clock_sleep(1e-4)) must(comm, comm->backend->channel_test(channel, s, &done));
    }
    comm->backend->channel_free(channel);
    CHECK(sums[0] == want && sums[1] == 10 * want, "group of %d: %" PRId64 " and %" PRId64, ranks, sums[0], sums[1]);
}

// The ranks of one host, and the lowest of each: sums of their numbers in the whole.
static void check_levels(ls_comm *world) {
    int host[RANKS_MAX], ranks = ls_comm_get_info(world)->world_size, inside = 0, between = 0, is_leader = 1;
    hosts_wanted(host);
    for (int r = 0; r < ranks; r++) {
        int is_first = 1;
        for (int q = 0; q < r; q++) is_first &= host[q] != host[r];
        if (is_first) between += r;
        if (host[r] == host[world_rank]) inside += r;
        is_leader &= r >= world_rank || host[r] != host[world_rank];
    }
    ls_comm *group;
    int32_t sum = world_rank;
    must(world, ls_comm_of_host(world, &group));
    must(world, ls_comm_allreduce(group, &sum, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(sum == inside, "inside: sum %d, expected %d", sum, inside);
    CHECK(ls_comm_get_info(group)->hosts == 1 && ls_comm_get_info(group)->job_rank == world_rank,
        "inside: %d hosts, rank %d", ls_comm_get_info(group)->hosts, ls_comm_get_info(group)->job_rank);
    ls_comm_finish(group);
    must(world, ls_comm_of_leaders(world, &group));
    CHECK((group != NULL) == is_leader, "leader: expected %d", is_leader);
    if (!group) return;
    sum = world_rank;
    must(world, ls_comm_allreduce(group, &sum, 1, LS_I32, LS_REDUCE_SUM));
    CHECK(sum == between, "between: sum %d, expected %d", sum, between);
    const ls_comm_info *f = ls_comm_get_info(group);
    CHECK(f->local_size == 1 && f->rank == ls_comm_get_info(world)->host_index && f->job_rank == world_rank,
        "between: rank %d, rank %d of the job", f->rank, f->job_rank);
    ls_comm_finish(group);
}

// All ranks get the same samples, of at least the four smallest sizes, and a fit of them.
static void check_measuring(ls_comm *world) {
    static ls_allreduce_samples samples; // static: padding is 0, too
    must(world, ls_allreduce_measure(world, 0.05, &samples));
    int64_t hash[2] = { (int64_t)ls_hash(&samples, sizeof samples), 0 };
    hash[1] = -1 - hash[0];
    must(world, ls_comm_allreduce(world, hash, 2, LS_I64, LS_REDUCE_MIN));
    CHECK(hash[0] == -1 - hash[1], "ranks measured differently");
    const int several = ls_comm_get_info(world)->world_size > 1;
    CHECK(several ? samples.count >= 4 : samples.count == 0, "%d samples", samples.count);
    for (int i = 0; i < samples.count; i++) {
        const ls_allreduce_sample *s = &samples.sample[i];
        CHECK(s->seconds > 0 && s->spread >= 0 && s->repeats >= 3 && s->bytes >= 8, "sample %d: %g s, %d repeats", i,
            s->seconds, s->repeats);
        CHECK(i == 0 || s->bytes > samples.sample[i - 1].bytes, "sample %d: sizes do not rise", i);
    }
    const ls_allreduce_fit fit = ls_allreduce_fit_of(&samples);
    CHECK(fit.known == several && fit.latency_s >= 0, "fit known: %d, latency %g s", fit.known, fit.latency_s);
}

static int run_checks(ls_comm *world) {
    int ranks = ls_comm_get_info(world)->world_size;
    check_facts(world, ranks);
    check_levels(world);
    check_measuring(world);
    ls_comm *group[RANKS_MAX + 1] = { NULL };
    for (int n = 1; n <= ranks; n++) {
        must(world, ls_comm_first(world, n, &group[n]));
        CHECK((group[n] != NULL) == (world_rank < n), "group of %d", n);
    }
    // several at a time; a rank outside waits for those inside as long as it must
    for (int n = ranks; n >= 1; n--) {
        if (group[n]) {
            check_facts(group[n], n);
            check_sums(group[n]);
        }
    }
    must(world, ls_comm_barrier_napping(world));
    for (int n = 1; n <= ranks; n++) {
        ls_comm *smaller = NULL;
        if (group[n] && n > 1) must(world, ls_comm_first(group[n], n - 1, &smaller));
        if (smaller) {
            check_facts(smaller, n - 1);
            check_sums(smaller);
            ls_comm_finish(smaller);
        }
        if (group[n]) ls_comm_finish(group[n]);
    }
    check_sums(world);
    static const int refused[] = { 0, -1, RANKS_MAX + 1 };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ls_comm *none;
        ls_status status = ls_comm_first(world, refused[i], &none);
        CHECK(status.code == LS_INTERNAL && !none, "the first %d ranks: code %d", refused[i], status.code);
    }
    ls_status mine = failures ? ls_fail(LS_INTERNAL, "%d checks failed", failures) : LS_SUCCESS;
    ls_status status = ls_comm_agree(world, mine, NULL);
    ls_comm_finish(world);
    return ls_failed(status);
}

static int run_stop(ls_comm *world, const char *folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/pid.%d", folder, world_rank);
    FILE *file = fopen(path, "w");
    if (!file) return 1;
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    ls_comm_set_timeout(world, 1.0);
    ls_comm *two;
    must(world, ls_comm_first(world, 2, &two));
    if (two) {
        ls_comm_phase(two, "training", 3);
        must(two, ls_comm_barrier(two));
        if (world_rank == 1) raise(SIGSTOP);
        must(two, ls_comm_barrier(two));
    }
    must(world, ls_comm_barrier_napping(world));
    return 0;
}

int main(int argc, char **argv) {
    ls_comm *world = NULL;
    must(NULL, ls_comm_start(&argc, &argv, "test", &world));
    world_rank = ls_comm_get_info(world)->rank;
    if (argc == 3 && strcmp(argv[1], "stop") == 0) return run_stop(world, argv[2]);
    return run_checks(world);
}
