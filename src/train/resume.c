#include "train/snapshots.h"

#include "base/log.h"
#include "base/memory.h"
#include "run/checkpoint_manager.h"
#include "run/manifest.h"
#include "run/run_parts.h"

typedef struct {
    int count;        // number of damaged checkpoints
    ls_status newest; // why the newest damaged checkpoint is damaged
} damage;

static void warn_of_damaged(void *context, ls_status why) {
    damage *damaged = context;
    if (damaged->count++ == 0) damaged->newest = why;
    ls_alert("%s: this checkpoint is left alone, and an older one looked for", why.text);
}

// Checks that the checkpoint belongs to this run. Refuses a checkpoint of another run, or with run.adopt = true makes
// it a checkpoint of this run.
static ls_status check_owner(ls_run_plan *plan, const char *path, int64_t update) {
    ls_run_identity *run = &plan->info.run;
    cJSON *manifest = NULL;
    ls_train_counters counters;
    ls_status read = ls_checkpoint_read_manifest(path, &manifest, &counters);
    if (ls_failed(read))
        return read.code == LS_DEVICE ? read : LS_SUCCESS; // damaged: reported during the search for a good one
    char id[LS_RUN_ID_BYTES];
    snprintf(id, sizeof id, "%s", ls_manifest_run(manifest));
    cJSON_Delete(manifest);
    if (ls_run_identity_owns(run, id, update)) return LS_SUCCESS;
    if (!plan->cfg->run_adopt)
        return ls_fail(LS_USAGE,
            "%s: is a checkpoint of another run (%s; this folder's run is %s): move it elsewhere, or let it be part of "
            "this run by --set run.adopt=true",
            path, id[0] ? id : "without an identity", run->id);
    return ls_run_identity_adopt(run, id, update);
}

static ls_status check_owners(ls_run_plan *plan, const char *folder) {
    int64_t *updates;
    int count;
    LS_TRY(ls_checkpoint_manager_list(folder, &updates, &count));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < count && !ls_failed(status); i++) {
        char path[2 * LS_TEXT_BYTES];
        status = ls_checkpoint_path(folder, updates[i], path, sizeof path);
        LS_THEN(status, check_owner(plan, path, updates[i]));
    }
    ls_run_identity_close(&plan->info.run, count ? updates[count - 1] : 0);
    free(updates);
    return status;
}

static ls_status take_over(ls_run_plan *plan, const ls_checkpoint *checkpoint, ls_snapshot *snapshot) {
    cJSON *changed = cJSON_CreateArray();
    ls_status status = ls_checkpoint_suits(checkpoint, &plan->info, changed);
    if (!ls_json_is_whole(changed)) LS_THEN(status, ls_no_memory(0, "%s", checkpoint->path));
    LS_THEN(status, ls_checkpoint_take(checkpoint, snapshot));
    if (ls_failed(status)) {
        cJSON_Delete(changed);
        return status;
    }
    return ls_run_plan_set_parts(
        plan, ls_run_parts_new(&plan->info, checkpoint->manifest, &checkpoint->counters, changed));
}

// Rank 0: looks for the newest good checkpoint and reads it.
static ls_status find(ls_run_plan *plan, const char *folder, ls_snapshot *snapshot, int32_t *found) {
    ls_checkpoint *checkpoint;
    damage damaged = { 0 };
    LS_TRY(check_owners(plan, folder));
    LS_TRY(ls_checkpoint_manager_newest(folder, warn_of_damaged, &damaged, &checkpoint));
    if (!checkpoint && damaged.count > 0) // a new start would overwrite checkpoints that might still be repaired
        return ls_fail(LS_STORAGE,
            "%s: none of its checkpoints (%d) is good; the newest: %.2000s; to start anew, move this folder away",
            folder, damaged.count, damaged.newest.text);
    if (!checkpoint) return LS_SUCCESS;
    ls_status status = take_over(plan, checkpoint, snapshot);
    *found = !ls_failed(status);
    ls_checkpoint_free(checkpoint);
    return status;
}

ls_status ls_run_find_checkpoint(ls_run_plan *plan, const char *folder, ls_snapshot **out, int *found) {
    int32_t there = 0;
    ls_status status = ls_run_snapshot_new(plan, out);
    if (plan->info.comm->rank == 0) LS_THEN(status, find(plan, folder, *out, &there));
    status = ls_comm_agree(plan->comm, status, NULL);
    LS_THEN(status, ls_comm_broadcast(plan->comm, &there, sizeof there, 0));
    *found = there;
    return status;
}
