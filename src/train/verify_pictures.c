// verify_pictures.c - every picture is decoded once before the first update, shared out over the ranks and their
// threads: what is broken is known then, and not at the end of an epoch. All ranks do alike with what any of them found.
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/verify.h"
#include "train/trainer_internal.h"

enum { NAMED_MAX = 20, PATH_BYTES = 2 * LS_TEXT_BYTES };
static const double TOLD_EVERY_SECONDS = 5;

typedef struct {
    ls_trainer *t;
    ls_dataset *dataset;
    const char *split;
    uint8_t *known, *broken;
    char memory[PATH_BYTES]; // the file that remembers; "": none
    double told_s;
    int64_t looked; // by this rank
    int64_t count;  // that are broken
} verification;

static void show_life(void *context, int64_t done, int64_t all) {
    verification *v = context;
    const double now = ls_clock_seconds();
    ls_comm_phase(v->t->comm, "start-up: verifying pictures", -1);
    if (now - v->told_s < TOLD_EVERY_SECONDS) return;
    v->told_s = now;
    ls_info("data      verifying %s pictures: %lld of %lld%s", v->split, (long long)done, (long long)all,
        v->t->facts.comm->world_size > 1 ? " of this rank's" : "");
}

// This rank's share.
static ls_status look(verification *v) {
    char folder[LS_TEXT_BYTES];
    const int64_t count = ls_dataset_get_info(v->dataset)->count;
    LS_TRY(LS_NEW(v->known, count, "list of %lld pictures", (long long)count));
    LS_TRY(LS_NEW(v->broken, count, "list of %lld pictures", (long long)count));
    if (ls_cache_folder(folder, sizeof folder)) {
        LS_TRY(ls_verify_path(folder, v->dataset, v->memory, sizeof v->memory));
        ls_verify_recall(v->memory, v->dataset, v->known);
    }
    const ls_comm_info *comm = v->t->facts.comm;
    const ls_verify_options options = { .share = comm->rank,
        .shares = comm->world_size,
        .workers = (int)v->t->cfg->data_workers,
        .known = v->known,
        .alive = show_life,
        .context = v };
    v->told_s = ls_clock_seconds();
    return ls_verify_read(v->dataset, &options, v->broken, &v->looked);
}

// One rank of each host writes. What cannot be remembered costs the next start, no more.
static void remember(const verification *v, int64_t looked) {
    char folder[LS_TEXT_BYTES];
    if (looked == 0 || v->t->facts.comm->local_rank != 0 || !v->memory[0]) return;
    ls_status status = ls_make_folders(ls_cache_folder(folder, sizeof folder));
    LS_THEN(status, ls_verify_remember(v->memory, v->dataset, v->broken));
    if (ls_failed(status)) ls_warn("data      the next start will verify all pictures again: %s", status.text);
}

// On rank 0, by reading them once more.
static void name_broken(const verification *v) {
    const ls_dataset_info *facts = ls_dataset_get_info(v->dataset);
    uint8_t *pixels = malloc((size_t)ls_chw_count(facts->shape));
    int64_t named = 0;
    for (int64_t i = 0; pixels && i < facts->count && named < NAMED_MAX; i++) {
        if (!v->broken[i]) continue;
        int32_t label;
        char name[LS_TEXT_BYTES];
        ls_status status = ls_dataset_read(v->dataset, i, pixels, &label);
        ls_warn("%s", ls_failed(status) ? status.text : ls_dataset_sample_name(v->dataset, i, name, sizeof name));
        named++;
    }
    free(pixels);
    if (v->count > named) ls_warn("and %lld more %s pictures", (long long)(v->count - named), v->split);
}

// What any rank found is broken, on all ranks. Where their sets differ nothing is looked at: ls_startup_check_state
// refuses that.
static ls_status verify(verification *v) {
    ls_comm *comm = v->t->comm;
    const int64_t all = ls_dataset_get_info(v->dataset)->count,
                  set = (int64_t)(ls_dataset_get_info(v->dataset)->checksum >> 1);
    int64_t extremes[2] = { set, -set };
    LS_TRY(ls_comm_allreduce(comm, extremes, 2, LS_I64, LS_REDUCE_MAX));
    if (extremes[0] != -extremes[1]) return LS_SUCCESS;
    ls_status status = look(v);
    LS_TRY(ls_comm_barrier_napping(comm)); // others may have more to do
    LS_TRY(ls_comm_agree(comm, status, NULL));
    int64_t looked = v->looked;
    LS_TRY(ls_comm_allreduce(comm, &looked, 1, LS_I64, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(comm, v->broken, all, LS_U8, LS_REDUCE_MAX));
    remember(v, looked);
    for (int64_t i = 0; i < all; i++) v->count += v->broken[i];
    if (v->count > 0 && v->t->facts.comm->rank == 0) name_broken(v);
    return LS_SUCCESS;
}

static ls_status refuse(int64_t broken, int64_t all) {
    return ls_fail(LS_DATA,
        "%lld of %lld pictures cannot be read; replace them, move them away, or go on without them by data.broken = "
        "skip",
        (long long)broken, (long long)all);
}

static void finish(verification *v) {
    free(v->known);
    free(v->broken);
}

static ls_status verify_training(ls_trainer *t, int64_t *broken) {
    verification v = { .t = t, .dataset = t->train_data, .split = "training" };
    ls_status status = verify(&v);
    *broken = v.count;
    if (!ls_failed(status) && v.count > 0 && t->cfg->data_broken == LS_BROKEN_SKIP) {
        ls_dataset_know_broken(t->train_data, v.broken);
        ls_info("data      %lld of %lld training pictures cannot be read; others of their classes take their places",
            (long long)v.count, (long long)t->facts.train_data->count);
    }
    finish(&v);
    return status;
}

ls_status ls_trainer_verify_test_pictures(ls_trainer *t) {
    if (!ls_dataset_may_break(t->test_data)) return LS_SUCCESS;
    verification v = { .t = t, .dataset = t->test_data, .split = "test" };
    const int64_t all = t->facts.test_data->count;
    int64_t more = 0;
    ls_status status = verify(&v);
    if (!ls_failed(status) && v.count > 0 && t->cfg->data_broken == LS_BROKEN_ERROR) {
        status = verify_training(t, &more); // all that is broken is named at once
        LS_THEN(status, refuse(v.count + more, all + t->facts.train_data->count));
    } else if (!ls_failed(status) && v.count > 0) {
        status = ls_comm_agree(t->comm, ls_dataset_leave_out(t->test_data, v.broken), NULL);
        ls_info(
            "data      %lld of %lld test pictures cannot be read and are left out", (long long)v.count, (long long)all);
    }
    finish(&v);
    return status;
}

ls_status ls_trainer_verify_pictures(ls_trainer *t) {
    if (!ls_dataset_may_break(t->train_data)) return LS_SUCCESS;
    int64_t broken;
    LS_TRY(verify_training(t, &broken));
    if (broken == 0 || t->cfg->data_broken == LS_BROKEN_SKIP) return LS_SUCCESS;
    return refuse(broken, t->facts.train_data->count + t->facts.test_data->count);
}
