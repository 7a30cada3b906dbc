#include "train/run_progress.h"

#include <stdlib.h>

void ls_run_progress_close(ls_run_progress *progress) {
    ls_evaluation_free(progress->details);
    free(progress->nonfinite);
}

void ls_position_move_on(ls_position *p, const ls_batches *b) {
    p->samples += ls_batches_window_samples(b, p->window);
    p->updates++;
    if (++p->window < b->windows) return;
    p->window = 0;
    p->epoch++;
}

void ls_run_progress_heed_patience(ls_run_progress *p, int64_t patience) {
    if (patience == 0 || p->evaluation.without_improvement < patience) return;
    if (p->done.updates < p->last) p->stopped_early = 1;
    if (p->stopped_early) p->last = p->done.updates;
}

void ls_micro_result_add(ls_micro_result *sum, const ls_micro_result *more) {
    sum->loss_sum += more->loss_sum;
    sum->correct += more->correct;
    sum->count += more->count;
    sum->bad += more->bad;
}

ls_status ls_micro_result_sum(ls_comm *comm, ls_micro_result *result) {
    double sums[3] = { result->loss_sum, (double)result->correct, (double)result->count };
    LS_TRY(ls_comm_allreduce(comm, sums, 3, LS_F64, LS_REDUCE_SUM));
    result->loss_sum = sums[0];
    result->correct = (int64_t)sums[1];
    result->count = (int64_t)sums[2];
    return LS_SUCCESS;
}
