// The model of all-reduces: formulas, fits to made-up measurements, predictions worked out by hand.
#include <math.h>
#include <string.h>
#include "base/philox.h"
#include "dist/allreduce_model.h"
#include "support/cmocka.h"

static int close_to(double is, double want, double tolerance) {
    return fabs(is - want) <= tolerance * fabs(want);
}

static const ls_allreduce_model two_levels = {
    .inside = { .known = 1, .alpha_s = 1e-6, .beta = 1e9, .long_bytes = INFINITY },
    .between = { .known = 1, .alpha_s = 1e-3, .beta = 1e8, .long_s = 1, .long_bytes = 2e6 },
};

static void allreduce_seconds(void **state) {
    (void)state;
    static const struct {
        ls_allreduce_algorithm algorithm;
        int ranks, hosts;
        double bytes, want;
    } rows[] = {
        { LS_ALLREDUCE_RING, 1, 1, 1e6, 0 },
        { LS_ALLREDUCE_RING, 2, 1, 1e6, 2e-6 + 1e-3 },
        { LS_ALLREDUCE_RING, 4, 1, 1e6, 6e-6 + 1.5e-3 },
        { LS_ALLREDUCE_HALVING, 4, 1, 1e6, 4e-6 + 1.5e-3 },
        { LS_ALLREDUCE_HALVING, 3, 1, 1e6, 4e-6 + 4 / 3.0 * 1e-3 },
        { LS_ALLREDUCE_TREE, 4, 1, 1e6, 4e-6 + 2e-3 },
        { LS_ALLREDUCE_DOUBLING, 4, 1, 1e6, 2e-6 + 2e-3 },
        { LS_ALLREDUCE_DOUBLING, 5, 1, 0, 3e-6 },
        { LS_ALLREDUCE_RING, 4, 2, 1e6, 6e-3 + 1.5e-2 },
        { LS_ALLREDUCE_HALVING, 4, 2, 1e6, 2e-6 + 1e-3 + 2e-3 + 1e-2 },
        { LS_ALLREDUCE_TREE, 4, 2, 1e6, 2e-6 + 2e-3 + 2e-2 },
        { LS_ALLREDUCE_DOUBLING, 4, 2, 1e6, 1e-6 + 1e-3 + 1e-3 + 2e-2 },
        { LS_ALLREDUCE_HALVING, 5, 2, 0, 4e-6 + 2e-3 },
        { LS_ALLREDUCE_RING, 2, 2, 1e6, 2e-3 + 1e-2 },
        { LS_ALLREDUCE_TREE, 1024, 128, 0, 6e-6 + 14e-3 },
        { LS_ALLREDUCE_RING, 1024, 128, 0, 2046e-3 },
        // some messages between hosts of more than 2e6 bytes
        { LS_ALLREDUCE_RING, 2, 2, 4e6, 2e-3 + 4e-2 },
        { LS_ALLREDUCE_RING, 2, 2, 4.1e6, 2 + 2e-3 + 4.1e-2 },
        { LS_ALLREDUCE_RING, 4, 2, 1e7, 6 + 6e-3 + 15e-2 },
        { LS_ALLREDUCE_HALVING, 4, 4, 6e6, 2 + 4e-3 + 9e-2 },
        { LS_ALLREDUCE_HALVING, 4, 4, 9e6, 4 + 4e-3 + 13.5e-2 },
        { LS_ALLREDUCE_TREE, 4, 4, 3e6, 4 + 4e-3 + 6e-2 },
        { LS_ALLREDUCE_DOUBLING, 4, 4, 3e6, 2 + 2e-3 + 6e-2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double is = ls_allreduce_seconds(&two_levels, rows[i].algorithm, rows[i].ranks, rows[i].hosts, rows[i].bytes);
        if (!close_to(is, rows[i].want, 1e-12)) {
            fail_msg("row %zu, %s, %d ranks on %d hosts: is %.9g s, expected %.9g", i,
                ls_allreduce_algorithm_name(rows[i].algorithm), rows[i].ranks, rows[i].hosts, is, rows[i].want);
        }
    }
    ls_allreduce_model one = { .inside = two_levels.inside };
    assert_true(isnan(ls_allreduce_seconds(&one, LS_ALLREDUCE_RING, 4, 2, 8)));
    assert_true(ls_allreduce_seconds(&one, LS_ALLREDUCE_RING, 4, 1, 8) > 0);
    one = (ls_allreduce_model){ .between = two_levels.between };
    assert_true(isnan(ls_allreduce_seconds(&one, LS_ALLREDUCE_RING, 4, 2, 8)));
    assert_true(ls_allreduce_seconds(&one, LS_ALLREDUCE_RING, 4, 4, 8) > 0);
}

// Normal deviates, the same in every run.
static double deviate(uint32_t i) {
    ls_philox_block bits = ls_philox((uint32_t[4]){ i, 0, 0, 0 }, (uint32_t[2]){ 1, 2 });
    double u = (bits.v[0] + 1.0) / 4294967297.0, v = bits.v[1] / 4294967296.0;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v);
}

static ls_allreduce_fit link(double alpha_s, double beta) {
    return (ls_allreduce_fit){ .known = 1, .alpha_s = alpha_s, .beta = beta, .long_bytes = INFINITY };
}

static ls_allreduce_samples made_up(
    ls_allreduce_algorithm algorithm, ls_allreduce_fit inside, const int *ranks, int rank_counts, double noise) {
    ls_allreduce_samples samples = { 0 };
    ls_allreduce_model model = { .inside = inside };
    for (int r = 0; r < rank_counts; r++) {
        for (int64_t bytes = 8; bytes <= 8 << 20; bytes *= 4) {
            double seconds = ls_allreduce_seconds(&model, algorithm, ranks[r], 1, (double)bytes);
            seconds *= exp(noise * deviate((uint32_t)samples.count));
            samples.sample[samples.count++] =
                (ls_allreduce_sample){ .ranks = ranks[r], .hosts = 1, .bytes = bytes, .seconds = seconds };
        }
    }
    return samples;
}

static void fit_one_rank_count(void **state) {
    (void)state;
    static const struct {
        double alpha_s, beta, noise, tolerance;
        int ranks;
    } rows[] = {
        { 1e-6, 1e10, 0, 1e-9, 2 },
        { 1e-3, 1.25e8, 0, 1e-9, 4 },
        { 20e-6, 2e9, 0, 1e-9, 7 },
        { 1e-6, 1e10, 0.05, 0.1, 2 },
        { 1e-3, 1.25e8, 0.05, 0.1, 4 },
        { 20e-6, 2e9, 0.1, 0.2, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_samples samples =
            made_up(LS_ALLREDUCE_HALVING, link(rows[i].alpha_s, rows[i].beta), &rows[i].ranks, 1, rows[i].noise);
        ls_allreduce_fit fit = ls_allreduce_fit_best(&samples, LS_ALLREDUCE_INSIDE);
        if (!fit.known || fit.algorithm != LS_ALLREDUCE_HALVING ||
            !close_to(fit.alpha_s, rows[i].alpha_s, rows[i].tolerance) ||
            !close_to(fit.beta, rows[i].beta, rows[i].tolerance)) {
            fail_msg("row %zu: %s, alpha %g, beta %g, expected halving, %g, %g", i,
                ls_allreduce_algorithm_name(fit.algorithm), fit.alpha_s, fit.beta, rows[i].alpha_s, rows[i].beta);
        }
        if (fit.long_s != 0 || !isinf(fit.long_bytes)) fail_msg("row %zu: long messages %g s", i, fit.long_s);
        if (fit.rms > 1.5 * rows[i].noise + 1e-9 || fit.worst < fit.rms) {
            fail_msg("row %zu: rms %g, worst %g, noise %g", i, fit.rms, fit.worst, rows[i].noise);
        }
        assert_false(ls_allreduce_fit_best(&samples, LS_ALLREDUCE_BETWEEN).known);
    }
}

// Long messages: the limit is found up to the sizes that were measured, the latencies are.
static void fit_long_messages(void **state) {
    (void)state;
    static const struct {
        double alpha_s, beta, long_s, long_bytes, noise, tolerance;
        int ranks;
    } rows[] = {
        { 1.7e-3, 1e8, 3e-3, 65535, 0, 1e-6, 2 },
        { 1.7e-3, 1e8, 3e-3, 65535, 0, 1e-6, 4 },
        { 1.7e-3, 1e8, 3e-3, 65535, 0.05, 0.15, 4 },
        { 1e-6, 2e9, 3e-6, 4095, 0, 1e-6, 2 },
        { 1e-6, 2e9, 3e-6, 4095, 0.03, 0.15, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_fit true_one = link(rows[i].alpha_s, rows[i].beta);
        true_one.long_s = rows[i].long_s, true_one.long_bytes = rows[i].long_bytes;
        ls_allreduce_samples samples = made_up(LS_ALLREDUCE_HALVING, true_one, &rows[i].ranks, 1, rows[i].noise);
        ls_allreduce_fit fit = ls_allreduce_fit_best(&samples, LS_ALLREDUCE_INSIDE);
        double ratio = fit.long_bytes / rows[i].long_bytes;
        if (!close_to(fit.alpha_s, rows[i].alpha_s, rows[i].tolerance) ||
            !close_to(fit.beta, rows[i].beta, rows[i].tolerance) ||
            !close_to(fit.long_s, rows[i].long_s, 2 * rows[i].tolerance) || ratio < 0.24 || ratio > 4.1) {
            fail_msg("row %zu: alpha %g, beta %g, long %g s above %g bytes; expected %g, %g, %g above %g", i,
                fit.alpha_s, fit.beta, fit.long_s, fit.long_bytes, rows[i].alpha_s, rows[i].beta, rows[i].long_s,
                rows[i].long_bytes);
        }
    }
}

// Over several rank counts each algorithm has its own shape.
static void fit_finds_the_algorithm(void **state) {
    (void)state;
    static const int ranks[] = { 2, 4, 8 };
    for (int a = 0; a < LS_ALLREDUCE_ALGORITHMS; a++) {
        for (int noisy = 0; noisy < 2; noisy++) {
            ls_allreduce_samples samples =
                made_up((ls_allreduce_algorithm)a, link(30e-6, 1e9), ranks, 3, noisy ? 0.05 : 0);
            ls_allreduce_fit fit = ls_allreduce_fit_best(&samples, LS_ALLREDUCE_INSIDE);
            if (fit.algorithm != (ls_allreduce_algorithm)a || !close_to(fit.alpha_s, 30e-6, 0.1) ||
                !close_to(fit.beta, 1e9, 0.1)) {
                fail_msg("%s%s: found %s, alpha %g, beta %g", ls_allreduce_algorithm_name((ls_allreduce_algorithm)a),
                    noisy ? " with noise" : "", ls_allreduce_algorithm_name(fit.algorithm), fit.alpha_s, fit.beta);
            }
        }
    }
}

static ls_allreduce_samples two_sizes(double small_s, double large_s) {
    return (ls_allreduce_samples){ 2,
        { { .ranks = 2, .bytes = 8, .seconds = small_s }, { .ranks = 2, .bytes = 8 << 20, .seconds = large_s } } };
}

static void fit_at_the_border(void **state) {
    (void)state;
    // Larger is faster: no bandwidth can be told. Smaller is slower than nothing: no latency.
    ls_allreduce_samples samples = two_sizes(1e-3, 1e-4);
    ls_allreduce_fit fit = ls_allreduce_fit_level(&samples, LS_ALLREDUCE_INSIDE, LS_ALLREDUCE_RING);
    // the best alpha alone, for relative distances: two latencies of alpha are 1e-3 s and 1e-4 s
    assert_true(fit.known && isinf(fit.beta) && close_to(fit.alpha_s, (2e3 + 2e4) / (4e6 + 4e8), 1e-9));
    assert_true(ls_allreduce_seconds(&(ls_allreduce_model){ .inside = fit }, LS_ALLREDUCE_RING, 2, 1, 1e6) > 0);
    samples = two_sizes(1e-12, 1e-3);
    fit = ls_allreduce_fit_level(&samples, LS_ALLREDUCE_INSIDE, LS_ALLREDUCE_RING);
    assert_true(fit.known && fit.alpha_s >= 0 && fit.beta > 0 && !isinf(fit.beta));
    samples.count = 1;
    assert_false(ls_allreduce_fit_level(&samples, LS_ALLREDUCE_INSIDE, LS_ALLREDUCE_RING).known);
    samples.count = 0;
    assert_false(ls_allreduce_fit_best(&samples, LS_ALLREDUCE_INSIDE).known);
}

static void predictions(void **state) {
    (void)state;
    // ring, 2 ranks on one host: 2e-6 s, and 1e-9 s a byte
    static const ls_allreduce_bucket buckets[] = { { 1e6, 0.5 }, { 2e6, 0.75 }, { 1e6, 1 } };
    static const struct {
        const char *name;
        int ranks, hosts, buckets, overlap;
        double compute_s, comm_s, exposed_s;
    } rows[] = {
        { "one rank", 1, 1, 3, 1, 1, 0, 0 },
        { "no buckets", 2, 1, 0, 1, 1, 0, 0 },
        { "no overlap", 2, 1, 3, 0, 1, 4e-3 + 6e-6, 4e-3 + 6e-6 },
        { "all but the last hidden", 2, 1, 3, 1, 1, 4e-3 + 6e-6, 1e-3 + 2e-6 },
        { "hidden", 2, 1, 2, 1, 1, 3e-3 + 4e-6, 0 },
        // computation of 1 us: 1e6 and 2e6 and 1e6 bytes one behind the other, the latency once
        { "the link is the limit", 2, 1, 3, 1, 1e-6, 4e-3 + 6e-6, 0.5e-6 + 4e-3 + 2e-6 - 1e-6 },
        { "two hosts", 2, 2, 1, 0, 1, 2e-3 + 1e-2, 2e-3 + 1e-2 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_workload w = { .model = &two_levels,
            .algorithm = LS_ALLREDUCE_RING,
            .ranks = rows[i].ranks,
            .hosts = rows[i].hosts,
            .buckets = buckets,
            .bucket_count = rows[i].buckets,
            .compute_s = rows[i].compute_s,
            .alone_s = rows[i].compute_s / 2,
            .overlap = rows[i].overlap };
        ls_allreduce_prediction p = ls_allreduce_predict(&w);
        double update_s = rows[i].compute_s + rows[i].exposed_s;
        if (!close_to(p.comm_s, rows[i].comm_s, 1e-9) || fabs(p.exposed_s - rows[i].exposed_s) > 1e-12 ||
            !close_to(p.update_s, update_s, 1e-9) || !close_to(p.efficiency, rows[i].compute_s / 2 / update_s, 1e-9)) {
            fail_msg("%s: communication %.9g, exposed %.9g, update %.9g s, efficiency %.9g; expected %.9g, %.9g, %.9g",
                rows[i].name, p.comm_s, p.exposed_s, p.update_s, p.efficiency, rows[i].comm_s, rows[i].exposed_s,
                update_s);
        }
    }
    ls_allreduce_model none = { 0 };
    ls_allreduce_workload w = { .model = &none,
        .ranks = 2,
        .hosts = 1,
        .buckets = buckets,
        .bucket_count = 3,
        .compute_s = 1,
        .alone_s = 1,
        .overlap = 1 };
    assert_true(isnan(ls_allreduce_predict(&w).update_s));
}

// What the links' figures were fitted to: within 5 %.
static void published_links(void **state) {
    (void)state;
    static const struct {
        ls_link inside, between;
        int ranks, hosts;
        double bytes, us;
    } rows[] = {
        { LS_LINK_NVLINK4, LS_LINK_NDR, 4, 1, 1e6, 23 },
        { LS_LINK_NVLINK4, LS_LINK_NDR, 4, 1, 2e6, 28 },
        { LS_LINK_NVLINK4, LS_LINK_NDR, 4, 1, 4e6, 39 },
        { LS_LINK_NVLINK4, LS_LINK_NDR, 2, 2, 4e6, 154 },
        { LS_LINK_NVLINK4, LS_LINK_NDR, 2, 2, 16e6, 420 },
        { LS_LINK_PCIE, LS_LINK_NDR, 8, 1, 8, 40 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_model m =
            ls_allreduce_model_of_links(rows[i].inside, rows[i].between, rows[i].ranks / rows[i].hosts);
        double s = ls_allreduce_seconds(&m, LS_ALLREDUCE_HALVING, rows[i].ranks, rows[i].hosts, rows[i].bytes);
        if (!close_to(s, 1e-6 * rows[i].us, 0.05)) fail_msg("row %zu: %.3g us, measured %g", i, 1e6 * s, rows[i].us);
    }
    // a host's cards carry its ranks' shares side by side
    ls_allreduce_model m = ls_allreduce_model_of_links(LS_LINK_NVLINK4, LS_LINK_NDR, 8);
    assert_true(close_to(ls_allreduce_seconds(&m, LS_ALLREDUCE_HALVING, 16, 2, 1e6),
        11e-6 + 6 * 1.6e-6 + 2 * 27e-6 + 1.75 * 1e6 / 280e9 + 1e6 / 360e9, 1e-9));
    for (int l = 0; l < LS_LINK_COUNT; l++) assert_true(ls_link_name((ls_link)l)[0] != 0);
}

// On a queue, one after another: ring of 2 ranks, 2e-6 s and 1e-9 s a byte, as above.
static void sums_in_turn(void **state) {
    (void)state;
    static const ls_allreduce_bucket buckets[] = { { 1e6, 0.5 }, { 2e6, 0.75 }, { 1e6, 1 } };
    ls_allreduce_model model = two_levels;
    model.start_s = 3e-6;
    ls_allreduce_workload w = { .model = &model,
        .algorithm = LS_ALLREDUCE_RING,
        .ranks = 2,
        .hosts = 1,
        .buckets = buckets,
        .bucket_count = 3,
        .compute_s = 1e-6,
        .alone_s = 1e-6,
        .overlap = 1,
        .in_turn = 1 };
    ls_allreduce_prediction p = ls_allreduce_predict(&w);
    assert_true(close_to(p.comm_s, 4e-3 + 3 * 5e-6, 1e-9));
    assert_true(close_to(p.exposed_s, 0.5e-6 + 4e-3 + 3 * 5e-6 - 1e-6, 1e-9));
    w.compute_s = 1;
    w.taken = 0.25; // the last one's 1e-3 and 5e-6 s are exposed, the others take a quarter of their time
    p = ls_allreduce_predict(&w);
    assert_true(close_to(p.exposed_s, 1e-3 + 5e-6 + 0.25 * (3e-3 + 10e-6), 1e-9));
    assert_true(close_to(p.update_s, 1 + p.exposed_s, 1e-12));
    w.overlap = 0;
    assert_true(close_to(ls_allreduce_predict(&w).exposed_s, 4e-3 + 15e-6, 1e-9));
}

static void size_of_buckets(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int ranks, hosts;
        double bytes, compute_s;
        int mib;
    } rows[] = {
        { "one rank", 1, 1, 26e6, 3.6e-3, 1 },
        { "lenet, 4 GPUs", 4, 1, 1.7e6, 0.17e-3, 1 },
        { "resnet9, 4 GPUs, a quarter each", 4, 1, 26e6, 0.9e-3, 4 },
        { "resnet9, 8 GPUs", 8, 1, 26e6, 3.6e-3, 8 },
        { "resnet9, 16 hosts of 8", 128, 16, 26e6, 3.6e-3, 16 },
        { "resnet50, 8 GPUs", 8, 1, 102e6, 30e-3, 32 },
        { "nothing to sum", 4, 1, 0, 1e-3, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_allreduce_model m = ls_allreduce_model_of_links(LS_LINK_NVLINK4, LS_LINK_NDR, rows[i].ranks / rows[i].hosts);
        ls_allreduce_workload w = { .model = &m,
            .algorithm = LS_ALLREDUCE_HALVING,
            .ranks = rows[i].ranks,
            .hosts = rows[i].hosts,
            .compute_s = rows[i].compute_s,
            .alone_s = rows[i].compute_s,
            .overlap = 1,
            .in_turn = 1,
            .taken = LS_ALLREDUCE_TAKEN_BY_NCCL };
        int64_t size = ls_allreduce_bucket_bytes(&w, rows[i].bytes);
        if (size != (int64_t)rows[i].mib << 20)
            fail_msg("%s: %.4g MiB, expected %d", rows[i].name, (double)size / 1048576, rows[i].mib);
    }
}

static void bus_bandwidth(void **state) {
    (void)state;
    assert_true(close_to(ls_allreduce_bus_bandwidth(2, 1e6, 1e-3), 1e9, 1e-12));
    assert_true(close_to(ls_allreduce_bus_bandwidth(4, 1e6, 1e-3), 1.5e9, 1e-12));
    assert_true(ls_allreduce_bus_bandwidth(1, 1e6, 1e-3) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce_seconds),
        cmocka_unit_test(fit_one_rank_count),
        cmocka_unit_test(fit_long_messages),
        cmocka_unit_test(fit_finds_the_algorithm),
        cmocka_unit_test(fit_at_the_border),
        cmocka_unit_test(predictions),
        cmocka_unit_test(published_links),
        cmocka_unit_test(sums_in_turn),
        cmocka_unit_test(size_of_buckets),
        cmocka_unit_test(bus_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
