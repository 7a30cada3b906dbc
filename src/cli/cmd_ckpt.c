// cmd_ckpt.c - `train ckpt verify|show PATH...`: verifies checkpoints; ckpt_show.c shows them. Nothing here changes a
// file, because a run may be writing at the same time.
#include <stdio.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/memory.h"
#include "cli/ckpt.h"
#include "run/checkpoint.h"
#include "command/commands.h"

// --- verify --------------------------------------------------------------------------------------

// Prints the state of one checkpoint. A damaged one is counted in *damaged; only other failures, such as too little
// memory, are returned.
static ls_status verify_one(const char *path, int *damaged) {
    ls_checkpoint *checkpoint = NULL;
    ls_status status = ls_checkpoint_read(path, &checkpoint);
    ls_checkpoint_free(checkpoint);
    if (ls_failed(status) && status.code != LS_STORAGE) return status;
    if (ls_failed(status))
        printf("%s\tdamaged\t%s\n", path, status.text);
    else
        printf("%s\tgood\n", path);
    *damaged += ls_failed(status);
    return LS_SUCCESS;
}

ls_status ls_ckpt_verify(const char *const *paths, int count) {
    int damaged = 0, seen = 0;
    for (int p = 0; p < count; p++) {
        ls_checkpoint_list list;
        LS_TRY(ls_checkpoint_list_find(paths[p], &list));
        ls_status status = LS_SUCCESS;
        for (int i = 0; i < list.count && !ls_failed(status); i++) status = verify_one(list.paths[i], &damaged);
        seen += list.count;
        ls_checkpoint_list_free(&list);
        LS_TRY(status);
    }
    if (!damaged) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%d of %d checkpoint%s damaged", damaged, seen, seen == 1 ? " is" : "s are");
}

static ls_status work(const ls_args *args) {
    ls_status status = args->action == LS_CKPT_VERIFY ? ls_ckpt_verify(args->files, args->file_count)
                                                      : ls_ckpt_show(args->files, args->file_count);
    ls_keep_first(&status, ls_command_flush(stdout));
    return status;
}

ls_status ls_cmd_ckpt(const ls_args *args, ls_comm *comm) {
    return ls_command_agree(comm, ls_comm_get_info(comm)->rank == 0 ? work(args) : LS_SUCCESS);
}
