#include "data/sampler.h"

#include "base/philox.h"
#include "config/purpose.h"

static int largest_divisor(int of, int at_most) {
    int divisor = of < at_most ? of : at_most;
    while (of % divisor != 0) divisor--;
    return divisor;
}

// Fails with LS_USAGE, and suggests the multiples of world_size next to global_batch.
static ls_status ranks_do_not_divide(int global_batch, int world_size) {
    int below = global_batch / world_size * world_size, above = below + world_size;
    return ls_fail(LS_USAGE,
        "train.global_batch = %d is no multiple of the %d ranks, so they cannot share it equally; set it to %d or "
        "%d, or start another number of ranks",
        global_batch, world_size, below, above);
}

static ls_status plan_given(int global_batch, int micro_batch, int world_size) {
    if (global_batch % (micro_batch * (int64_t)world_size) == 0) return LS_SUCCESS;
    if (global_batch % world_size != 0) return ranks_do_not_divide(global_batch, world_size);
    int share = global_batch / world_size;
    return ls_fail(LS_USAGE,
        "train.micro_batch = %d on %d rank%s does not divide train.global_batch = %d: a rank's share is %d "
        "samples; set train.micro_batch to %d or another divisor of %d, or 0 to have it derived",
        micro_batch, world_size, world_size == 1 ? "" : "s", global_batch, share, largest_divisor(share, micro_batch),
        share);
}

// Derives the micro-batch for run.deterministic. It must not depend on world_size, or runs on more ranks would differ.
static ls_status derive_deterministic(int global_batch, int world_size, int *micro_batch) {
    int quarter = global_batch % 4 == 0;
    *micro_batch = largest_divisor(quarter ? global_batch / 4 : global_batch, LS_MICRO_BATCH_DERIVED_MAX);
    if (global_batch / *micro_batch % world_size == 0) return LS_SUCCESS;
    if (global_batch % world_size != 0) return ranks_do_not_divide(global_batch, world_size);
    return ls_fail(LS_USAGE,
        "run.deterministic fixes the micro-batch at %d samples (%s), which %d ranks cannot share; set "
        "train.micro_batch = %d for all runs that you compare",
        *micro_batch, *micro_batch == global_batch / 4 && quarter ? "global_batch/4" : "from train.global_batch alone",
        world_size, largest_divisor(global_batch / world_size, *micro_batch));
}

ls_status ls_batches_plan(const ls_config *cfg, int64_t train_samples, int rank, int world_size, ls_batches *out) {
    int global_batch = (int)cfg->train_global_batch, micro_batch = (int)cfg->train_micro_batch;
    if (rank < 0 || rank >= world_size) return ls_fail(LS_INTERNAL, "rank %d of %d ranks", rank, world_size);
    if (train_samples < 1) return ls_fail(LS_DATA, "the training set has no samples");
    if (global_batch < world_size) {
        return ls_fail(LS_USAGE,
            "train.global_batch = %d is smaller than the %d ranks, so some would have nothing to do; start at most "
            "%d ranks, or set it to a multiple of %d",
            global_batch, world_size, global_batch, world_size);
    }
    if (micro_batch > 0) {
        LS_TRY(plan_given(global_batch, micro_batch, world_size));
    } else if (cfg->run_deterministic) {
        LS_TRY(derive_deterministic(global_batch, world_size, &micro_batch));
    } else {
        if (global_batch % world_size != 0) return ranks_do_not_divide(global_batch, world_size);
        micro_batch = largest_divisor(global_batch / world_size, LS_MICRO_BATCH_DERIVED_MAX);
    }
    int64_t full = train_samples / global_batch, rest = train_samples % global_batch;
    if (cfg->data_drop_last && full == 0) {
        return ls_fail(LS_USAGE,
            "data.drop_last leaves nothing to train on: the training set has %lld samples, fewer than "
            "train.global_batch = %d; lower the batch or set data.drop_last = false",
            (long long)train_samples, global_batch);
    }
    int short_window = rest > 0 && !cfg->data_drop_last;
    *out = (ls_batches){
        .samples = short_window ? train_samples : train_samples - rest,
        .windows = full + short_window,
        .global_batch = global_batch,
        .micro_batch = micro_batch,
        .micro_batches = global_batch / micro_batch,
        .per_rank = global_batch / micro_batch / world_size,
        .rank = rank,
        .world_size = world_size,
    };
    return LS_SUCCESS;
}

int ls_batches_shrink(ls_batches *b) {
    int share = b->global_batch / b->world_size;
    if (b->micro_batch <= 1) return 0;
    b->micro_batch = largest_divisor(share, b->micro_batch - 1);
    b->micro_batches = b->global_batch / b->micro_batch;
    b->per_rank = share / b->micro_batch;
    return 1;
}

int ls_batches_window_samples(const ls_batches *b, int64_t window) {
    int64_t left = b->samples - window * b->global_batch;
    if (left < 0) return 0;
    return left < b->global_batch ? (int)left : b->global_batch;
}

int ls_batches_micro_samples(const ls_batches *b, int64_t window, int micro) {
    int64_t left = ls_batches_window_samples(b, window) - (int64_t)micro * b->micro_batch;
    if (left < 0) return 0;
    return left < b->micro_batch ? (int)left : b->micro_batch;
}

void ls_order_shuffle(uint32_t *order, int64_t count, uint64_t seed, int64_t epoch) {
    for (int64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    ls_order_mix(order, count, seed, epoch);
}

void ls_order_mix(uint32_t *order, int64_t count, uint64_t seed, int64_t epoch) {
    ls_philox_block words = { { 0 } };
    int64_t block = -1; // a block has four words
    for (int64_t i = count - 1; i >= 1; i--) {
        if (i / 4 != block) {
            block = i / 4;
            words = ls_random_block(seed, LS_PURPOSE_SHUFFLE, (uint32_t)epoch, 0, (uint64_t)block);
        }
        uint32_t other = ls_below(words.v[i % 4], (uint32_t)i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}
