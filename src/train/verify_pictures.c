// verify_pictures.c - reads and decodes every picture once before the first update, and packs the pictures. The ranks
// and their threads share this work. So broken pictures are known at the start, not at the end of an epoch. All ranks
// use the findings of all ranks. The contents of the files are also known then; they are part of a set's identity.
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/verify.h"
#include "train/startup_check.h"

enum { NAMED_MAX = 20 };
static const double TOLD_EVERY_SECONDS = 5;

typedef struct {
    const ls_run_plan *plan;
    ls_dataset *dataset;
    const char *split;
    // Ranks of a host that see the same files are a group. group: this rank's group; share: this rank's place in it;
    // groups, shares: number of all groups, of ranks in this one.
    int group, groups, share, shares;
    ls_verify_options options;
    uint8_t *broken;
    int64_t *sums;     // for each group: the sum of the hashes of its files' contents
    int64_t *contents; // for each sample: the hash of its file's content
    double told_s;
    int64_t read;  // number of samples read by this rank
    int64_t count; // number of broken samples
} verification;

static void report_reading(void *context, int64_t done, int64_t all) {
    verification *v = context;
    const double now = ls_clock_seconds();
    ls_comm_phase(v->plan->comm, "start-up: verifying pictures", -1);
    if (now - v->told_s < TOLD_EVERY_SECONDS) return;
    v->told_s = now;
    ls_info("data      verifying %s pictures: %lld of %lld%s", v->split, (long long)done, (long long)all,
        v->plan->info.comm->world_size > 1 ? " of this rank's" : "");
}

typedef struct {
    int64_t host;
    uint64_t files;
} sight;

static int sees_the_same(const sight *a, const sight *b) {
    return a->host == b->host && a->files == b->files;
}

// Finds the group of ranks that see the same files on the same host as this rank, and this rank's place in it. Groups
// are numbered in the order of their lowest ranks.
static void find_group(verification *v, const sight *all, int ranks, int rank) {
    for (int r = 0; r < ranks; r++) {
        int lowest = 0;
        while (!sees_the_same(&all[lowest], &all[r])) lowest++;
        if (lowest == r && sees_the_same(&all[r], &all[rank])) v->group = v->groups;
        v->groups += lowest == r;
        v->shares += sees_the_same(&all[r], &all[rank]);
        v->share += r < rank && sees_the_same(&all[r], &all[rank]);
    }
}

static ls_status group_ranks(verification *v) {
    const ls_comm_info *comm = v->plan->info.comm;
    const sight mine = { comm->host_index, ls_dataset_files(v->dataset) };
    sight *all = ls_new(comm->world_size, sizeof *all, "files of the ranks");
    ls_status status = ls_comm_allgather(v->plan->comm, &mine, all, sizeof mine);
    if (!ls_failed(status)) find_group(v, all, comm->world_size, comm->rank);
    free(all);
    return status;
}

// Opens the packed file of pictures; one rank of each group creates it. Pictures without it are decoded in every epoch.
static ls_status pack(verification *v) {
    char folder[LS_TEXT_BYTES];
    const int creates = v->share == 0;
    ls_status packed = LS_SUCCESS, found = ls_dataset_cache_folder(v->plan->cfg, folder, sizeof folder);
    if (!ls_failed(found) && folder[0] && creates) packed = ls_dataset_pack(v->dataset, folder, 1);
    LS_TRY(ls_comm_barrier_napping(v->plan->comm));
    LS_TRY(found);
    if (folder[0] && !creates && ls_failed(ls_dataset_pack(v->dataset, folder, 0))) return LS_SUCCESS;
    if (ls_failed(packed)) ls_warn("%s; pictures are decoded in every epoch", packed.text);
    return LS_SUCCESS;
}

// Divides the reading of pictures among the ranks of a group. If nothing is packed, the groups share the decoding.
static ls_verify_options share_out(verification *v) {
    const int packs = strcmp(v->plan->cfg->data_cache, "off") != 0, workers = (int)v->plan->cfg->data_workers;
    return (ls_verify_options){ .share = v->share,
        .shares = v->shares,
        .group = packs ? 0 : v->group,
        .groups = packs ? 1 : v->groups,
        .workers = workers > v->plan->info.threads ? workers : v->plan->info.threads,
        .alive = report_reading,
        .context = v };
}

static ls_status read_pictures(verification *v) {
    const int64_t count = ls_dataset_get_info(v->dataset)->count;
    LS_TRY(ls_try_new(&v->broken, count, sizeof *v->broken, "list of %lld pictures", (long long)count));
    LS_TRY(ls_try_new(&v->contents, count, sizeof *v->contents, "list of %lld pictures", (long long)count));
    v->sums = ls_new(v->groups, sizeof *v->sums, "sums of %d groups of ranks", v->groups);
    v->options = share_out(v);
    v->told_s = ls_clock_seconds();
    return ls_verify_read(v->dataset, &v->options, v->broken, &v->read);
}

// Combines the hashes of file contents that the groups have read; each group has read all its files. If all groups
// agree, each rank gets the hashes that the first group found. Otherwise the comparison of ranks ends the run.
static ls_status share_contents(verification *v) {
    const ls_comm_info *comm = v->plan->info.comm;
    const int64_t count = ls_dataset_get_info(v->dataset)->count;
    int same = 1;
    v->sums[v->group] = (int64_t)ls_verify_contents(v->dataset, &v->options, v->group == 0 ? v->contents : NULL);
    LS_TRY(ls_comm_allreduce(v->plan->comm, v->sums, v->groups, LS_I64, LS_REDUCE_SUM));
    ls_dataset_set_content(v->dataset, (uint64_t)v->sums[v->group]);
    for (int g = 1; g < v->groups; g++) same &= v->sums[g] == v->sums[0];
    if (comm->world_size == 1 || !same) return LS_SUCCESS;
    LS_TRY(ls_comm_allreduce(v->plan->comm, v->contents, count, LS_I64, LS_REDUCE_SUM));
    for (int64_t i = 0; i < count; i++) ls_dataset_know_content(v->dataset, i, (uint64_t)v->contents[i]);
    return LS_SUCCESS;
}

// Rank 0: names broken pictures in messages, by reading them once more.
static void name_broken(const verification *v) {
    const ls_dataset_info *facts = ls_dataset_get_info(v->dataset);
    uint8_t *pixels = malloc((size_t)ls_chw_count(facts->shape));
    int64_t named = 0;
    for (int64_t i = 0; pixels && i < facts->count && named < NAMED_MAX; i++) {
        if (!v->broken[i]) continue;
        int32_t label;
        char name[LS_TEXT_BYTES];
        ls_status status = ls_dataset_read(v->dataset, i, pixels, &label);
        if (ls_failed(status))
            ls_warn("%s", status.text);
        else
            ls_warn("%s: could not be read, and now it can: start again, or look at the disk",
                ls_dataset_sample_name(v->dataset, i, name, sizeof name));
        named++;
    }
    free(pixels);
    if (v->count > named) ls_warn("and %lld more %s pictures", (long long)(v->count - named), v->split);
}

// Finds all pictures that are broken on any rank, and tells all ranks. If the ranks' lists of files differ, nothing is
// read: ls_startup_check_state refuses the run.
static ls_status verify(verification *v) {
    ls_comm *comm = v->plan->comm;
    const int64_t all = ls_dataset_get_info(v->dataset)->count,
                  set = (int64_t)(ls_dataset_get_info(v->dataset)->checksum >> 1);
    int64_t extremes[2] = { set, -set };
    LS_TRY(ls_comm_allreduce(comm, extremes, 2, LS_I64, LS_REDUCE_MAX));
    if (extremes[0] != -extremes[1]) return LS_SUCCESS;
    LS_TRY(group_ranks(v));
    LS_TRY(ls_comm_agree(comm, pack(v), NULL));
    ls_status status = read_pictures(v);
    LS_TRY(ls_comm_barrier_napping(comm)); // other ranks may have more pictures to read
    LS_TRY(ls_comm_agree(comm, status, NULL));
    LS_TRY(ls_comm_allreduce(comm, v->broken, all, LS_U8, LS_REDUCE_MAX));
    LS_TRY(share_contents(v));
    ls_dataset_settle(v->dataset);
    if (v->read > 0 && ls_dataset_packed_at(v->dataset)[0])
        ls_info("data      %s pictures are packed in %s", v->split, ls_dataset_packed_at(v->dataset));
    for (int64_t i = 0; i < all; i++) v->count += v->broken[i];
    if (v->count > 0 && v->plan->info.comm->rank == 0) name_broken(v);
    return LS_SUCCESS;
}

static ls_status refuse(int64_t broken, int64_t all) {
    return ls_fail(LS_DATA,
        "%lld of %lld pictures cannot be read; replace them, move them away, or go on without them by data.broken = "
        "skip",
        (long long)broken, (long long)all);
}

static void finish(verification *v) {
    free(v->broken);
    free(v->contents);
    free(v->sums);
}

static ls_status verify_training(ls_run_plan *plan, int64_t *broken) {
    verification v = { .plan = plan, .dataset = plan->train_data, .split = "training" };
    ls_status status = verify(&v);
    *broken = v.count;
    if (!ls_failed(status) && v.count > 0 && plan->cfg->data_broken == LS_BROKEN_SKIP) {
        ls_dataset_know_broken(plan->train_data, v.broken);
        ls_info("data      %lld of %lld training pictures cannot be read; others of their classes take their places",
            (long long)v.count, (long long)plan->info.train_data->count);
    }
    finish(&v);
    return status;
}

// Verifies a set for evaluations (test or validation). With data.broken = skip, its broken pictures are left out.
static ls_status verify_evaluated(
    ls_run_plan *plan, ls_dataset *dataset, const char *split, int64_t *broken, int64_t *all) {
    if (!dataset || !ls_dataset_may_break(dataset)) return LS_SUCCESS;
    verification v = { .plan = plan, .dataset = dataset, .split = split };
    const int64_t count = ls_dataset_get_info(dataset)->count;
    ls_status status = verify(&v);
    *broken += v.count;
    *all += count;
    if (!ls_failed(status) && v.count > 0 && plan->cfg->data_broken == LS_BROKEN_SKIP) {
        status = ls_comm_agree(plan->comm, ls_dataset_leave_out(dataset, v.broken), NULL);
        ls_info("data      %lld of %lld %s pictures cannot be read and are left out", (long long)v.count,
            (long long)count, split);
    }
    finish(&v);
    return status;
}

ls_status ls_run_plan_verify_test_pictures(ls_run_plan *plan) {
    int64_t broken = 0, more = 0, all = plan->info.train_data->count;
    LS_TRY(verify_evaluated(plan, plan->test_data, "test", &broken, &all));
    LS_TRY(verify_evaluated(plan, plan->val_data, "validation", &broken, &all));
    if (broken == 0 || plan->cfg->data_broken == LS_BROKEN_SKIP) return LS_SUCCESS;
    LS_TRY(verify_training(plan, &more)); // so that one message names all broken pictures
    return refuse(broken + more, all);
}

ls_status ls_run_plan_verify_pictures(ls_run_plan *plan) {
    if (!ls_dataset_may_break(plan->train_data)) return LS_SUCCESS;
    int64_t broken;
    LS_TRY(verify_training(plan, &broken));
    LS_TRY(ls_startup_check_data(plan));
    if (broken == 0 || plan->cfg->data_broken == LS_BROKEN_SKIP) return LS_SUCCESS;
    return refuse(broken, plan->info.train_data->count + plan->info.test_data->count +
                              (plan->info.val_data ? plan->info.val_data->count : 0));
}
