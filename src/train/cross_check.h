// cross_check.h - finds a rank whose device computes wrong gradients (run.cross_check).
//
// Every rank trusts its own device, and a device with a permanent fault repeats its mistakes. So another device must
// compute the same. Every run.cross_check updates, each rank also computes the first micro-batch of its neighbour, rank
// r that of rank r + 1. Before any sum over ranks, the ranks exchange hashes of these gradients. The gradient of a
// micro-batch has the same bits on all devices of a kind (startup_check.c compares the kinds), so a difference means
// that one of two ranks is wrong. Then a third rank computes the micro-batch, rank r + 2, and the majority decides.
// With two ranks both compute it once more, which only finds a rank that does not repeat its own value.
//
// If the run continues, the update is repeated. Another rank computes the wrong rank's micro-batches and sends it their
// sums, so the update has the bits of an undisturbed one. The next run.cross_check updates are all checked, because the
// fault may be permanent. A check covers forward and backward pass of one micro-batch. It does not cover sums over
// ranks or the optimizer's step (diagnose/replicas.h does), or the micro-batches between two checks. An input pipeline
// of its own reads the neighbour's pictures one check ahead. Each check starts a loader, which allocates. Other updates
// cost nothing.
#ifndef LS_TRAIN_CROSS_CHECK_H
#define LS_TRAIN_CROSS_CHECK_H

#include "train/run_progress.h"
#include "train/run_session.h"

typedef struct ls_cross_check ls_cross_check;

// Allocates memory for the checks. Call it after ls_update_new and the inputs. *out is NULL if no update is checked.
LS_CHECKED ls_status ls_cross_check_new(ls_run_session *session, ls_cross_check **out);
// Returns the bytes that ls_cross_check_new allocates on the device.
size_t ls_cross_check_device_bytes(const ls_run_session *session);
void ls_cross_check_free(ls_cross_check *check); // NULL is allowed

// Returns 1 if this window's update is checked; the same on all ranks. Only whole windows are. check NULL: returns 0.
int ls_cross_check_due(const ls_cross_check *check, const ls_position *at, const ls_sliding_window *window);
// Does the work of a checked update before ls_update_end: begins it and computes this rank's micro-batches. If a rank
// is wrong, repeats this with gradients of another rank. newest: update of the newest checkpoint, for the message; -1:
// no checkpoint. LS_NUMERIC on all ranks: a rank is wrong, and run.cross_check_action = stop, or it is not known which.
// Collective.
LS_CHECKED ls_status ls_cross_check_update(
    ls_run_session *session, const ls_position *at, const ls_sliding_window *window, int64_t newest);
// Returns 1 if there is a warning about a wrong rank. Enqueue no further update until the warning is taken.
int ls_cross_check_warns(const ls_cross_check *check);
const char *ls_cross_check_take_warning(ls_cross_check *check); // NULL: no warning
ls_cross_checks ls_cross_check_counts(const ls_cross_check *check);

// One rank's hash of the gradient of a micro-batch.
typedef struct {
    int rank;
    uint64_t hash;
} ls_cross_check_vote;

// Returns the rank outside the majority: the hash with most votes is right, if it has two or more. -1: all hashes are
// equal, no hash has the majority, or several ranks are outside it.
int ls_cross_check_judge(const ls_cross_check_vote *votes, int count);

#endif
