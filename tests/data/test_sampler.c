// The order of samples and how windows are cut: properties over all numbers of ranks, and a table of refusals.
#include "data_files.h"

#include "base/philox.h"
#include "config/purpose.h"
#include "data/sampler.h"

static ls_config batch_config(int global_batch, int micro_batch, int deterministic, int drop_last) {
    ls_config cfg = config_for(LS_DATASET_SYNTHETIC, "");
    cfg.train_global_batch = global_batch;
    cfg.train_micro_batch = micro_batch;
    cfg.run_deterministic = deterministic;
    cfg.data_drop_last = drop_last;
    return cfg;
}

static void plans(void **state) {
    (void)state;
    static const struct {
        int samples, global_batch, micro_batch, deterministic, drop_last, ranks;
        int want_micro, want_per_rank, want_windows, want_samples;
    } rows[] = {
        { 60000, 128, 0, 0, 0, 1, 128, 1, 469, 60000 },
        { 60000, 128, 0, 0, 0, 4, 32, 1, 469, 60000 },
        { 60000, 128, 0, 0, 1, 4, 32, 1, 468, 59904 },
        { 60000, 128, 0, 1, 0, 1, 32, 4, 469, 60000 },
        { 60000, 128, 0, 1, 0, 2, 32, 2, 469, 60000 },
        { 60000, 128, 0, 1, 0, 4, 32, 1, 469, 60000 },
        { 60000, 128, 16, 1, 0, 8, 16, 1, 469, 60000 },
        { 50000, 4096, 0, 0, 0, 1, 512, 8, 13, 50000 },
        { 50000, 4096, 0, 1, 0, 2, 512, 4, 13, 50000 },
        { 50000, 1000, 0, 0, 0, 1, 500, 2, 50, 50000 },
        { 50000, 1000, 100, 0, 0, 5, 100, 2, 50, 50000 },
        { 50000, 129, 0, 1, 0, 1, 129, 1, 388, 50000 }, // 129 is no multiple of 4
        { 12, 6, 1, 0, 0, 3, 1, 2, 2, 12 },
        { 7, 6, 0, 0, 0, 3, 2, 1, 2, 7 },
        { 7, 6, 0, 0, 1, 3, 2, 1, 1, 6 },
        { 6, 6, 0, 0, 1, 3, 2, 1, 1, 6 },
        { 3, 6, 0, 0, 0, 3, 2, 1, 1, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg =
            batch_config(rows[i].global_batch, rows[i].micro_batch, rows[i].deterministic, rows[i].drop_last);
        for (int rank = 0; rank < rows[i].ranks; rank++) {
            ls_batches b;
            require_ok(ls_batches_plan(&cfg, rows[i].samples, rank, rows[i].ranks, &b), "plan");
            if (b.micro_batch != rows[i].want_micro || b.per_rank != rows[i].want_per_rank ||
                b.windows != rows[i].want_windows || b.samples != rows[i].want_samples || b.rank != rank ||
                b.world_size != rows[i].ranks || b.micro_batches != b.per_rank * rows[i].ranks) {
                fail_msg("row %zu: micro_batch %d, per_rank %d, windows %d, samples %d", i, b.micro_batch, b.per_rank,
                    (int)b.windows, (int)b.samples);
            }
        }
    }
}

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int samples, global_batch, micro_batch, deterministic, drop_last, ranks;
        ls_code code;
        const char *parts[MAX_PARTS];
    } rows[] = {
        { "fewer samples than ranks", 100, 4, 0, 0, 0, 8, LS_USAGE,
            { "train.global_batch = 4", "smaller than the 8 ranks", "at most 4" } },
        { "ranks do not divide", 100, 128, 0, 0, 0, 3, LS_USAGE,
            { "train.global_batch = 128", "3 ranks", "126 or 129" } },
        { "ranks do not divide, given", 100, 128, 32, 0, 0, 3, LS_USAGE,
            { "train.global_batch = 128", "3 ranks", "126 or 129" } },
        { "micro-batch too big", 100, 128, 48, 0, 0, 4, LS_USAGE,
            { "train.micro_batch = 48 on 4 ranks", "global_batch = 128", "32" } },
        { "micro-batch does not divide", 100, 128, 24, 0, 0, 1, LS_USAGE,
            { "train.micro_batch = 24 on 1 rank ", "to 16 or" } },
        { "micro-batch above the batch", 100, 64, 128, 0, 0, 1, LS_USAGE, { "train.micro_batch = 128", "to 64 or" } },
        { "ordered, too many ranks", 100, 128, 0, 1, 0, 8, LS_USAGE,
            { "run.deterministic fixes the micro-batch at 32 samples (global_batch/4), which 8 ranks cannot share; set "
              "train.micro_batch = 16 for all runs that you compare" } },
        { "ordered, no quarter", 100, 130, 0, 1, 0, 2, LS_USAGE,
            { "fixes the micro-batch at 130", "train.micro_batch = 65" } },
        { "ordered, no divisor", 100, 128, 0, 1, 0, 3, LS_USAGE, { "3 ranks", "126 or 129" } },
        { "nothing left", 100, 128, 0, 0, 1, 1, LS_USAGE,
            { "data.drop_last", "100 samples", "train.global_batch = 128" } },
        { "no samples", 0, 128, 0, 0, 0, 1, LS_DATA, { "no samples" } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg =
            batch_config(rows[i].global_batch, rows[i].micro_batch, rows[i].deterministic, rows[i].drop_last);
        ls_batches b;
        require_failure(
            rows[i].name, ls_batches_plan(&cfg, rows[i].samples, 0, rows[i].ranks, &b), rows[i].code, rows[i].parts);
    }
    ls_config cfg = batch_config(8, 0, 0, 0);
    ls_batches b;
    assert_int_equal(LS_INTERNAL, ls_batches_plan(&cfg, 100, 2, 2, &b).code);
}

static void shrinks(void **state) {
    (void)state;
    static const struct {
        int global_batch, ranks, micro[8]; // from the derived one down; 0: the end
    } rows[] = {
        { 64, 1, { 64, 32, 16, 8, 4, 2, 1 } },
        { 60, 2, { 30, 15, 10, 6, 5, 3, 2, 1 } },
        { 4096, 4, { 512, 256, 128, 64, 32, 16, 8, 4 } },
        { 7, 7, { 1 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_config cfg = batch_config(rows[i].global_batch, LS_AUTO, 0, 0);
        ls_batches b;
        require_ok(ls_batches_plan(&cfg, 5000, 0, rows[i].ranks, &b), "plan");
        for (int k = 0; k < 8 && rows[i].micro[k]; k++) {
            if (k && !ls_batches_shrink(&b)) fail_msg("row %zu: no micro-batch below %d", i, b.micro_batch);
            if (b.micro_batch != rows[i].micro[k] || b.per_rank * b.micro_batch * rows[i].ranks != b.global_batch ||
                b.micro_batches != b.per_rank * rows[i].ranks)
                fail_msg("row %zu, step %d: micro_batch %d, per_rank %d, micro_batches %d", i, k, b.micro_batch,
                    b.per_rank, b.micro_batches);
        }
        if (b.micro_batch == 1) assert_false(ls_batches_shrink(&b));
    }
}

static void order_is_the_defined_shuffle(void **state) {
    (void)state;
    static const int counts[] = { 1, 2, 3, 7, 1000 };
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            uint32_t order[1000], want[1000];
            int count = counts[n];
            ls_order_shuffle(order, count, 99, epoch);
            for (int i = 0; i < count; i++) want[i] = (uint32_t)i;
            for (int i = count - 1; i >= 1; i--) {
                uint32_t word = ls_random_word(99, LS_PURPOSE_SHUFFLE, (uint32_t)epoch, 0, (uint64_t)i);
                uint32_t k = ls_below(word, (uint32_t)i + 1), kept = want[i];
                want[i] = want[k];
                want[k] = kept;
            }
            for (int i = 0; i < count; i++) {
                if (order[i] != want[i])
                    fail_msg("count %d epoch %d position %d: %u, expected %u", count, (int)epoch, i, order[i], want[i]);
            }
        }
    }
}

// Every sample once an epoch, whatever the ranks; samples of a micro-batch do not depend on them.
static void every_sample_once(void **state) {
    (void)state;
    enum { BATCH = 840, MICRO = 105, MAX_SAMPLES = 3000 }; // 840 / 105 = 8 micro-batches: shared by 1, 2, 4 and 8 ranks
    static const int sample_counts[] = { 1, 839, 840, 841, 1680, 2000, 2625 };
    for (size_t n = 0; n < sizeof sample_counts / sizeof sample_counts[0]; n++) {
        int samples = sample_counts[n];
        for (int ranks = 1; ranks <= 8; ranks++) {
            int given = 8 % ranks == 0;
            ls_config cfg = batch_config(BATCH, given ? MICRO : 0, 0, 0);
            int seen[MAX_SAMPLES] = { 0 };
            for (int rank = 0; rank < ranks; rank++) {
                ls_batches b;
                require_ok(ls_batches_plan(&cfg, samples, rank, ranks, &b), "plan");
                int64_t sum = 0;
                for (int64_t w = 0; w < b.windows; w++) {
                    int in_window = 0;
                    for (int j = 0; j < b.micro_batches; j++) {
                        int count = ls_batches_micro_samples(&b, w, j);
                        in_window += count;
                        if (j / b.per_rank != rank) continue;
                        int64_t first = w * BATCH + (int64_t)j * b.micro_batch; // the same for every number of ranks
                        if (given) assert_int_equal(MICRO, b.micro_batch);
                        for (int k = 0; k < count; k++) seen[first + k]++;
                    }
                    assert_int_equal(in_window, ls_batches_window_samples(&b, w));
                    sum += in_window;
                }
                assert_int_equal(samples, sum);
                assert_int_equal(0, ls_batches_window_samples(&b, b.windows));
            }
            for (int i = 0; i < MAX_SAMPLES; i++) {
                if (seen[i] != (i < samples))
                    fail_msg("%d samples, %d ranks: position %d seen %d times", samples, ranks, i, seen[i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans),
        cmocka_unit_test(refusals),
        cmocka_unit_test(shrinks),
        cmocka_unit_test(order_is_the_defined_shuffle),
        cmocka_unit_test(every_sample_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
