// state_run.h - for tests of a run's state: small runs on a network with what a state has (odd numbers of channels, so
// that devices pad; batch norm's statistics; dropout), and comparison of two states.
#ifndef LS_TESTS_TRAIN_STATE_RUN_H
#define LS_TESTS_TRAIN_STATE_RUN_H

#include "train/whole_run.h"

static const char state_network[] = "[network]\ninput = 3x6x6\n"
                                    "[c1]\nlayer = conv2d\nout_channels = 5\nkernel = 3\npadding = 1\nbias = false\n"
                                    "[n1]\nlayer = batchnorm2d\n[r1]\nlayer = relu\n"
                                    "[c2]\nlayer = conv2d\nout_channels = 7\nkernel = 3\npadding = 1\n"
                                    "[n2]\nlayer = batchnorm2d\n[r2]\nlayer = relu\n"
                                    "[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[d]\nlayer = dropout\np = 0.2\n"
                                    "[l]\nlayer = linear\nout_features = 10\n";

// An epoch has four updates; the last window is short, and so is its last micro-batch.
static inline ls_status state_run_open(run *r, const char *network_path, const char *const *options) {
    static const char *const common[] = { "data.dataset=synthetic", "data.shape=3x6x6", "data.train_samples=54",
        "data.test_samples=10", "data.pad=1", "data.flip=true", "train.global_batch=16", "train.micro_batch=4",
        "train.epochs=4", "device.threads=2", "device.tf32=false", "optimizer.lr=0.1", NULL };
    return run_open(r, network_path, (const char *const *const[RUN_LISTS_MAX]){ common, options });
}

static inline ls_snapshot *state_take(const run *r) {
    ls_snapshot *s;
    must(ls_trainer_snapshot_new(r->trainer, &s));
    must(ls_trainer_snapshot(r->trainer, s));
    return s;
}

// Bit for bit, but for the time that it took.
static inline void state_same(const char *what, const ls_snapshot *a, const ls_snapshot *b) {
    if (a->count != b->count) fail_msg("%s: %d tensors, expected %d", what, b->count, a->count);
    for (int i = 0; i < a->count; i++) {
        const ls_snapshot_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        if (strcmp(x->name, y->name) != 0 || x->elements != y->elements)
            fail_msg("%s: tensor %d is %s of %lld elements, expected %s of %lld", what, i, y->name,
                (long long)y->elements, x->name, (long long)x->elements);
        for (int64_t e = 0; e < x->elements; e++)
            if (memcmp(&x->values[e], &y->values[e], sizeof(float)) != 0)
                fail_msg("%s: %s[%lld] is %.9g, expected %.9g", what, x->name, (long long)e, (double)y->values[e],
                    (double)x->values[e]);
    }
    ls_train_counters c = a->counters, d = b->counters;
    c.seconds = d.seconds = 0;
    c.steady = d.steady = (ls_train_steady){ 0 };
    if (memcmp(&c, &d, sizeof c) != 0)
        fail_msg("%s: counters differ: update %lld (%lld skipped, scale %g, loss %g), expected %lld (%lld, %g, %g)",
            what, (long long)d.update, (long long)d.skipped, d.loss_scale, d.of_epoch.loss_sum, (long long)c.update,
            (long long)c.skipped, c.loss_scale, c.of_epoch.loss_sum);
}

#endif
