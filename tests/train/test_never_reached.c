// Every option with a start or a period, set beyond the end of a run of 4 epochs of 10 updates, and the last value that
// the run still reaches.
#include <stdio.h>
#include <string.h>
#include "support/cmocka.h"
#include "support/must.h"
#include "train/never_reached.h"

typedef struct {
    const char *options[4]; // assignments; the last one is the one that is mentioned
    const char *lines;      // that are said, each with its newline; "": none
} row;

#define OPTION(name, value, text) "--set " name "=" value ": " text "\n"
#define RUN ", but the run has 40 (train.epochs = 4): "
#define STEP "schedule.kind=step"
#define RESTARTS "schedule.kind=cosine-restarts"

static const row rows[] = {
    { { 0 }, "" },
    // the learning rate
    { { "schedule.warmup_epochs=3.9" }, "" },
    { { "train.max_updates=6", "schedule.warmup_epochs=0.6" },
        OPTION("schedule.warmup_epochs", "0.6",
            "the warm-up ends after 6 updates, but the run has 6 (train.max_updates = 6): optimizer.lr is never "
            "reached") },
    { { STEP, "schedule.milestones=1,3.9" }, "" },
    { { STEP, "schedule.milestones=4" },
        OPTION("schedule.milestones", "4", "the milestone comes after 40 updates" RUN "the rate never falls") },
    { { STEP, "schedule.milestones=1,3.91" },
        OPTION("schedule.milestones", "1,3.91",
            "the last of 2 milestones comes after 40 updates" RUN "the rate does not fall so often") },
    { { STEP, "schedule.milestones=100,150" },
        OPTION("schedule.milestones", "100,150",
            "the first of 2 milestones comes after 1000 updates" RUN "the rate never falls") },
    { { RESTARTS, "schedule.period=4" }, "" },
    { { RESTARTS, "schedule.period=4.1" },
        OPTION("schedule.period", "4.1",
            "the first restart comes after 41 updates" RUN "there is none, and the first cosine is cut off") },
    { { RESTARTS, "schedule.warmup_epochs=1", "schedule.period=3.1" },
        OPTION("schedule.period", "3.1",
            "the first restart comes after 41 updates" RUN "there is none, and the first cosine is cut off") },
    { { RESTARTS }, "schedule.period = 10 (default): the first restart comes after 100 updates" RUN
                    "there is none, and the first cosine is cut off\n" },
    { { RESTARTS, "schedule.period=0.1" },
        OPTION("schedule.period", "0.1", "is one update: the rate restarts before it has fallen") },
    { { "schedule.period=3", RESTARTS },
        OPTION("schedule.kind", "cosine-restarts",
            "the rate falls until 60 updates are done" RUN
            "it ends at 0.79 of the full rate; schedule.period = 4 would let it fall to its end") },
    { { "schedule.period=2", "schedule.warmup_epochs=1", RESTARTS },
        OPTION("schedule.kind", "cosine-restarts",
            "the rate falls until 50 updates are done" RUN
            "it ends at 0.58 of the full rate; schedule.period = 3 would let it fall to its end") },
    { { "schedule.kind=one-cycle" }, "" },
    { { "schedule.epochs=10", "schedule.kind=one-cycle", "schedule.peak=0.4" },
        OPTION("schedule.peak", "0.4", "the rate has its peak after 40 updates" RUN "optimizer.lr is never reached") },
    { { "schedule.epochs=12", "schedule.kind=one-cycle" },
        OPTION("schedule.kind", "one-cycle",
            "the rate falls until 120 updates are done" RUN
            "it ends at 0.96 of the full rate; schedule.epochs = 4 would let it fall to its end") },
    { { "schedule.kind=cosine" }, "" },
    { { "schedule.epochs=4", "schedule.kind=linear" }, "" },
    { { "train.max_updates=21", "schedule.kind=cosine" }, "" }, // 0.5 at the last
    { { "train.max_updates=20", "schedule.kind=cosine" },
        OPTION("schedule.kind", "cosine",
            "the rate falls until 40 updates are done, but the run has 20 (train.max_updates = 20): it ends at 0.54 of "
            "the full rate; schedule.epochs = 2 would let it fall to its end") },
    { { "schedule.floor=0.4", "schedule.epochs=20", "schedule.kind=linear" },
        OPTION("schedule.kind", "linear",
            "the rate falls until 200 updates are done" RUN
            "it ends at 0.8 of the full rate; schedule.epochs = 4 would let it fall to its end") },
    { { "optimizer.groups=c.* frozen_after=3.9; d.* end=4" }, "" },
    { { "optimizer.groups=c.* frozen_after=3.91; d.* end=40; e.* end=7" },
        OPTION("optimizer.groups", "c.* frozen_after=3.91; d.* end=40; e.* end=7",
            "'c.*' is frozen after 40 updates" RUN "it is trained to the end")
            OPTION("optimizer.groups", "c.* frozen_after=3.91; d.* end=40; e.* end=7",
                "the rate of 'd.*' falls to 0 after 400 updates" RUN "it ends at 0.9 of its start") },
    // what else changes the weights
    { { "average.kind=ema", "average.start=3.9" }, "" },
    { { "average.kind=ema", "average.start=4" },
        OPTION("average.start", "4", "the average starts after 40 updates" RUN "there is none") },
    { { "average.kind=lookahead", "average.start=50" },
        OPTION("average.start", "50", "the average starts after 500 updates" RUN "there is none") },
    { { "average.kind=ema", "average.start=3.5", "average.every=5" }, "" },
    { { "average.kind=ema", "average.start=3.5", "average.every=6" },
        OPTION("average.every", "6",
            "the average takes weights in for the first time after 41 updates" RUN
            "what is evaluated and saved stays the copy with which the average starts") },
    { { "average.kind=lookahead", "average.every=5000" },
        OPTION("average.every", "5000",
            "the average takes weights in for the first time after 5000 updates" RUN
            "the weights are set to it at the end alone") },
    { { "average.kind=ema", "average.decay=1" },
        OPTION("average.decay", "1",
            "the average takes nothing in: what is evaluated and saved stays the copy with which it starts") },
    { { "average.decay_power=3", "average.kind=ema", "average.decay=1" }, "" },
    { { "train.resolution=0:16,3:32" }, "" },
    { { "train.resolution=0:16,4:32,50:48x40" },
        OPTION("train.resolution", "0:16,4:32,50:48x40",
            "pictures of 32x32 come after 40 updates" RUN "the network never sees them") OPTION("train.resolution",
            "0:16,4:32,50:48x40", "pictures of 48x40 come after 500 updates" RUN "the network never sees them") },
    { { "optimizer.kind=muon", "optimizer.renormalise_every=40" }, "" },
    { { "optimizer.kind=muon", "optimizer.renormalise_every=41" },
        OPTION("optimizer.renormalise_every", "41",
            "matrices are rescaled for the first time after 41 updates" RUN "they never are") },
    { { "train.precision=fp16" }, "" }, // loss_scale.growth_interval is 2000 by itself
    { { "train.precision=fp16", "loss_scale.growth_interval=40" },
        OPTION("loss_scale.growth_interval", "40", "the scale grows after 40 updates" RUN "it never does") },
    { { "data.flip=alternating" }, "" },
    { { "train.epochs=1", "data.flip=alternating" },
        OPTION("data.flip", "alternating",
            "sides change after 10 updates, but the run has 10 (train.epochs = 1): each picture has one side, as with "
            "true") },
    // what only looks at the run
    { { "train.eval_every=4", "checkpoint.every_epochs=4", "checkpoint.every_updates=40", "log.every=40" }, "" },
    { { "train.eval_every=5" },
        OPTION("train.eval_every", "5",
            "the first evaluation comes after 50 updates" RUN "there is one at the end alone") },
    { { "checkpoint.every_epochs=5" },
        OPTION("checkpoint.every_epochs", "5",
            "the first checkpoint comes after 50 updates" RUN "there is none by epochs") },
    { { "checkpoint.every_updates=41" },
        OPTION("checkpoint.every_updates", "41",
            "the first checkpoint comes after 41 updates" RUN "there is none by updates") },
    { { "log.every=41" },
        OPTION("log.every", "41", "the first line comes after 41 updates" RUN "there is one an epoch alone") },
    { { "dist.check_replicas=40" }, "" },
    { { "dist.check_replicas=41" },
        OPTION("dist.check_replicas", "41", "the first check comes after 41 updates" RUN "there is none") },
    { { "run.cross_check=40" }, "" },
    { { "run.cross_check=41" },
        OPTION("run.cross_check", "41", "the first check comes after 41 updates" RUN "there is none") },
    { { "train.max_updates=3", "train.eval_every=1", "log.every=40" }, "" }, // a short trial
    { { "train.patience=2" }, "" },
    { { "train.patience=3" },
        OPTION("train.patience", "3", "it can end the run after 40 updates" RUN "it never does") },
    { { "train.max_updates=40" }, "" },
    { { "train.max_updates=41" },
        OPTION("train.max_updates", "41",
            "it ends the run after 41 updates" RUN "it has no effect; raise train.epochs for more updates") },
    // what has too little to work on
    { { "data.mixup=1" }, "" },
    { { "train.micro_batch=3", "data.mixup=1" },
        OPTION("data.mixup", "1",
            "the middle one of each micro-batch of 3 samples has no partner, and stays as it is; an even "
            "train.micro_batch mixes all") },
    { { "train.micro_batch=3", "data.cutmix=1" },
        OPTION("data.cutmix", "1",
            "the middle one of each micro-batch of 3 samples has no partner, and stays as it is; an even "
            "train.micro_batch mixes all") },
    { { "eval.tta=flip", "eval.tta_share=0.01" }, "" }, // one picture of 100
    { { "eval.tta=flip", "eval.tta_share=0.009" },
        OPTION("eval.tta_share", "0.009", "of 100 test pictures this is none; eval.tta has no effect") },
};

static void add(void *context, const char *line) {
    char *said = context;
    strcat(strcat(said, line), "\n");
}

static void are_mentioned(void **state) {
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_config cfg;
        ls_config_defaults(&cfg);
        must(ls_config_set(&cfg, "train.epochs=4"));
        for (int o = 0; o < 4 && rows[r].options[o]; o++) must(ls_config_set(&cfg, rows[r].options[o]));
        const ls_dataset_info tests = { .count = 100 };
        const ls_comm_info ranks = { .world_size = 2 };
        const int micro = cfg.train_micro_batch > 0 ? (int)cfg.train_micro_batch : 2;
        ls_train_info info = { .cfg = &cfg, .test_data = &tests, .comm = &ranks };
        info.batches = (ls_batches){ .samples = 40, .windows = 10, .global_batch = 4, .micro_batch = micro };
        info.updates_planned = cfg.train_epochs * 10;
        if (cfg.train_max_updates > 0 && cfg.train_max_updates < info.updates_planned)
            info.updates_planned = cfg.train_max_updates;
        char said[4096] = "";
        ls_never_reached(&info, add, said);
        if (strcmp(said, rows[r].lines) != 0) fail_msg("row %zu:\n%s\nexpected\n%s", r, said, rows[r].lines);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(are_mentioned) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
