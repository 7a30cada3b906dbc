// cmd_verify_resume.c - `train verify-resume CONFIG.ini [--updates K]`: does a run that goes on from a checkpoint give
// the same bits as the uninterrupted run?
//
// It trains three times, on the ranks, device and options of a real run: 2K updates without a break; K updates, saved
// to files; and K more updates by a new trainer that resumes from those files. The states after 2K updates must agree
// bit for bit. If they differ, the uninterrupted training is repeated: a device or a sum over ranks that gives other
// bits each time is no fault of the checkpoint, and the message says so. The files lie in a temporary folder ($TMPDIR
// or /tmp) on rank 0's host, which is removed at the end.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/text.h"
#include "command/commands.h"
#include "run/checkpoint_manager.h"
#include "train/diagnose/state_diff.h"
#include "train/trainer.h"

typedef struct {
    const ls_config *cfg;
    ls_comm *comm;
    int64_t updates;            // K: updates before the checkpoint, and after it
    char folder[LS_TEXT_BYTES]; // rank 0: temporary folder for the checkpoint
    // Rank 0: states after 2K updates of the uninterrupted, the resumed and the repeated uninterrupted training.
    ls_snapshot *straight, *resumed, *again;
} verification;

static int is_first(const verification *v) {
    return ls_comm_get_info(v->comm)->rank == 0;
}

// Copies the state of the training into *out on rank 0. Collective.
static ls_status take(const verification *v, ls_trainer *trainer, ls_snapshot **out) {
    ls_status status = is_first(v) ? ls_trainer_snapshot_new(trainer, out) : LS_SUCCESS;
    LS_TRY(ls_command_agree(v->comm, status));
    return ls_command_agree_or_abort(v->comm, ls_trainer_snapshot(trainer, *out));
}

static ls_status advance(const verification *v, ls_trainer *trainer, int64_t updates) {
    return ls_command_agree_or_abort(v->comm, ls_trainer_updates(trainer, updates, NULL));
}

static ls_status train_straight(const verification *v, ls_trainer *trainer, ls_snapshot **out) {
    LS_TRY(advance(v, trainer, 2 * v->updates));
    return take(v, trainer, out);
}

static ls_status write_checkpoint(const verification *v, const ls_trainer *trainer, const ls_snapshot *snapshot) {
    char path[2 * LS_TEXT_BYTES];
    if (!is_first(v)) return LS_SUCCESS;
    LS_TRY(ls_checkpoint_path(v->folder, v->updates, path, sizeof path));
    return ls_checkpoint_write(path, snapshot, ls_trainer_get_info(trainer), NULL, NULL);
}

static ls_status train_and_save(const verification *v, ls_trainer *trainer, ls_snapshot **unused) {
    (void)unused;
    ls_snapshot *snapshot = NULL;
    LS_TRY(advance(v, trainer, v->updates));
    ls_status status = take(v, trainer, &snapshot);
    LS_THEN(status, ls_command_agree(v->comm, write_checkpoint(v, trainer, snapshot)));
    ls_snapshot_free(snapshot);
    return status;
}

static ls_status resume_and_train(const verification *v, ls_trainer *trainer, ls_snapshot **out) {
    int resumed = 0;
    LS_TRY(ls_command_agree(v->comm, ls_trainer_resume(trainer, v->folder, &resumed)));
    ls_status found =
        resumed ? LS_SUCCESS : ls_fail(LS_STORAGE, "%s: the checkpoint that was just written is not good", v->folder);
    LS_TRY(ls_command_agree(v->comm, found));
    LS_TRY(advance(v, trainer, v->updates));
    return take(v, trainer, out);
}

static ls_status with_new_trainer(verification *v,
    ls_status (*work)(const verification *v, ls_trainer *trainer, ls_snapshot **out), ls_snapshot **out) {
    ls_trainer *trainer = NULL;
    LS_TRY(ls_command_agree(v->comm, ls_trainer_new(v->cfg, v->comm, &trainer)));
    ls_status status = ls_command_agree(v->comm, ls_trainer_init_from_file(trainer));
    LS_THEN(status, work(v, trainer, out));
    ls_trainer_free(trainer);
    return status;
}

// The first tensor that differs between two states, as text, or if all tensors agree the first counter that differs.
typedef struct {
    int is_tensor;
    char text[LS_STATUS_TEXT_BYTES / 2]; // "": nothing differs
} first_difference;

static void take_first(void *context, const ls_state_difference *d) {
    first_difference *first = context;
    if (first->text[0] && (first->is_tensor || !d->is_tensor)) return;
    first->is_tensor = d->is_tensor;
    ls_text_cut(first->text, sizeof first->text, "%s '%s' differs: %s | %s%s%s%s", d->is_tensor ? "tensor" : "counter",
        d->name, d->a, d->b, d->note[0] ? " (" : "", d->note, d->note[0] ? ")" : "");
}

static first_difference find_first(const ls_snapshot *a, const ls_snapshot *b) {
    first_difference first = { 0 };
    ls_state x = ls_state_of_snapshot(a), y = ls_state_of_snapshot(b);
    ls_state_diff(&x, &y, take_first, &first);
    ls_state_free(&x);
    ls_state_free(&y);
    return first;
}

// Rank 0: prints the outcome, and fails if the states differ. first: the first difference between the resumed and the
// uninterrupted run.
static ls_status report(const verification *v, const first_difference *first) {
    long long k = (long long)v->updates;
    if (!first->text[0]) {
        printf("the same, bit for bit: %lld updates without a break, and %lld + a checkpoint + %lld (%d tensors)\n",
            2 * k, k, k, v->straight->count);
        return ls_command_flush(stdout);
    }
    const first_difference repeated = find_first(v->straight, v->again);
    if (repeated.text[0])
        return ls_fail(LS_NUMERIC,
            "these ranks and this device are not reproducible: %lld updates, done twice without a checkpoint, differ; "
            "the first %s%s",
            2 * k, repeated.text, v->cfg->run_deterministic ? "" : " (run.deterministic = true makes them so)");
    return ls_fail(LS_NUMERIC,
        "a resumed run is not the uninterrupted one: after %lld updates, and %lld + a checkpoint + %lld, the first %s",
        2 * k, k, k, first->text);
}

static ls_status compare(verification *v) {
    first_difference first = { 0 };
    if (is_first(v)) first = find_first(v->straight, v->resumed);
    int differs = first.text[0] != 0;
    LS_TRY(ls_command_agree(v->comm, ls_comm_broadcast(v->comm, &differs, sizeof differs, 0)));
    if (differs) LS_TRY(with_new_trainer(v, train_straight, &v->again));
    return ls_command_agree(v->comm, is_first(v) ? report(v, &first) : LS_SUCCESS);
}

static ls_status make_folder(verification *v) {
    const char *base = getenv("TMPDIR");
    if (!is_first(v)) return LS_SUCCESS;
    if (!base || !*base) base = "/tmp";
    if (snprintf(v->folder, sizeof v->folder, "%s/lockstep-verify-XXXXXX", base) >= (int)sizeof v->folder)
        return ls_fail(LS_USAGE, "TMPDIR: a path too long");
    if (mkdtemp(v->folder)) return LS_SUCCESS;
    ls_status status =
        ls_fail(LS_STORAGE, "%s: cannot be made: %s (TMPDIR names another place)", v->folder, strerror(errno));
    v->folder[0] = 0;
    return status;
}

static void remove_folder(const verification *v) {
    char path[2 * LS_TEXT_BYTES];
    if (!is_first(v) || !v->folder[0]) return;
    ls_status status = ls_checkpoint_path(v->folder, v->updates, path, sizeof path);
    LS_THEN(status, ls_checkpoint_remove(path));
    if (ls_failed(status) || rmdir(v->folder) != 0) ls_warn("%s: could not be removed", v->folder);
}

static ls_status verify(verification *v) {
    LS_TRY(with_new_trainer(v, train_straight, &v->straight));
    LS_TRY(with_new_trainer(v, train_and_save, NULL));
    LS_TRY(with_new_trainer(v, resume_and_train, &v->resumed));
    return compare(v);
}

ls_status ls_cmd_verify_resume(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    verification v = { .cfg = &cfg, .comm = comm, .updates = args->updates };
    ls_status status = ls_command_agree(comm, make_folder(&v));
    LS_THEN(status, verify(&v));
    remove_folder(&v);
    ls_snapshot_free(v.straight);
    ls_snapshot_free(v.resumed);
    ls_snapshot_free(v.again);
    return status;
}
