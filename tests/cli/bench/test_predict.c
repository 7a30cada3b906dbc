// Predicted efficiency on figures whose results are known: computation as measured, communication by a model of one
// latency and one bandwidth; and what is said where the measurement differs.
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/bench/predict.h"
#include "support/cmocka.h"

// One rank: 100 ms an update of 128 samples, 10 ms of them the optimizer's, 8 MB of gradients, all complete at the end.
static ls_bench_sample alone[] = { { .seconds = 1, .images_per_second = 1280 } };
// Two ranks, strong: 60 ms instead of 50; without communication 52.
static ls_bench_sample strong_2[] = { { .seconds = 0.6, .images_per_second = 128 / 0.060, .alone_s = 0.52 } };
// Four ranks of weak scaling that share two cores: 300 ms, without communication 200.
static ls_bench_sample weak_4[] = { { .seconds = 3, .images_per_second = 512 / 0.3, .alone_s = 2 } };
static ls_allreduce_bucket late = { 8e6, 1 }, early = { 8e6, 0.5 };

static ls_bench_result results[] = {
    { .name = "cpu x 1",
        .ranks = 1,
        .base = 0,
        .hosts = 1,
        .threads = 1,
        .units = 1,
        .global_batch = 128,
        .accumulation = 1,
        .updates = 10,
        .count = 1,
        .sample = alone,
        .kind_s = { [LS_OP_KIND_OPTIMIZER] = 0.01 },
        .overlap = 1,
        .bucket_count = 1,
        .bucket = &late },
    { .name = "cpu x 2",
        .ranks = 2,
        .base = 0,
        .hosts = 1,
        .threads = 1,
        .units = 2,
        .global_batch = 128,
        .accumulation = 1,
        .updates = 10,
        .count = 1,
        .sample = strong_2,
        .overlap = 1,
        .bucket_count = 1,
        .bucket = &late },
    { .name = "cpu x 4 weak",
        .ranks = 4,
        .weak = 1,
        .base = 0,
        .hosts = 1,
        .threads = 1,
        .units = 2,
        .shared = 1,
        .global_batch = 512,
        .accumulation = 1,
        .updates = 10,
        .count = 1,
        .sample = weak_4,
        .overlap = 1,
        .bucket_count = 1,
        .bucket = &late },
};
enum { RESULTS = sizeof results / sizeof *results };

// 1 ms a message, 1 GB/s.
static const ls_allreduce_fit slow = { .known = 1, .algorithm = LS_ALLREDUCE_HALVING, .alpha_s = 1e-3, .beta = 1e9 };
// Over four ranks that share cores: ten times slower.
static const ls_allreduce_fit crowded = { .known = 1, .algorithm = LS_ALLREDUCE_HALVING, .alpha_s = 1e-2, .beta = 1e8 };

static const ls_bench_prediction *row_of(const ls_bench_prediction *rows, int count, int weak, int ranks) {
    for (int i = 0; i < count; i++)
        if (rows[i].weak == weak && rows[i].ranks == ranks) return &rows[i];
    return NULL;
}

static const struct {
    int weak, ranks;
    double efficiency, ring, tree, difference;
    int notable;
} expected[] = {
    // halving and ring: 2 messages and 8 MB: 10 ms; computation 42 + 10 + 10 of the optimizer; tree: 2 and 16 MB
    { 0, 2, 50.0 / 62, 50.0 / 62, 50.0 / 70, 50.0 / 60 * 62 / 50 - 1, 0 },
    // not measured: (100 - 10)/4 = 22.5, halving 4 + 12, ring 6 + 12, tree 4 + 16
    { 0, 4, 25.0 / (22.5 + 16 + 10), 25.0 / (22.5 + 18 + 10), 25.0 / (22.5 + 20 + 10), NAN, 0 },
    { 1, 2, 100.0 / 110, 100.0 / 110, 100.0 / 118, NAN, 0 },
    // on the links of four ranks: 40 + 120, and computation of 190 + 10; measured 100/300
    { 1, 4, 100.0 / (190 + 160 + 10), 100.0 / (190 + 180 + 10), 100.0 / (190 + 200 + 10), 360.0 / 300 - 1, 1 },
    // 20 messages and 2 * 1023/1024 * 8 MB, on the links of those that share no cores
    { 1, 1024, 100.0 / (100 + 20 + 16 * 1023.0 / 1024), 100.0 / (100 + 2046 + 16 * 1023.0 / 1024), 100.0 / (100 + 36),
        NAN, 0 },
};

static void arithmetic(void **state) {
    (void)state;
    const ls_bench_link links[] = { { .ranks = 4, .shared = 1, .model.inside = crowded },
        { .ranks = 2, .model.inside = slow } };
    ls_bench_prediction *rows;
    int count;
    assert_int_equal(ls_bench_predict(results, RESULTS, links, 2, &rows, &count).code, LS_OK);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const ls_bench_prediction *row = row_of(rows, count, expected[i].weak, expected[i].ranks);
        if (!row) fail_msg("row %zu: no prediction", i);
        const double is[] = { row->efficiency, row->ring, row->tree, row->difference };
        const double *wanted = &expected[i].efficiency;
        for (int k = 0; k < 4; k++) {
            if (isnan(is[k]) && isnan(wanted[k])) continue;
            if (!(fabs(is[k] - wanted[k]) <= 1e-9))
                fail_msg("row %zu, figure %d: is %.9g, expected %.9g", i, k, is[k], wanted[k]);
        }
        if (row->notable != expected[i].notable) fail_msg("row %zu: notable is %d", i, row->notable);
    }
    const ls_bench_prediction *shared = row_of(rows, count, 1, 4);
    if (!shared || !strstr(shared->remark, "share 2 cores")) fail_msg("the remark says nothing of shared cores");
    // strong scaling ends where a rank would have less than one sample
    assert_non_null(row_of(rows, count, 0, 128));
    assert_null(row_of(rows, count, 0, 256));
    assert_null(row_of(rows, count, 0, 3));
    free(rows);
}

// A bucket that is complete half-way through hides in the rest of the computation,
// and accumulation moves it to the end.
static void overlap(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int overlap, accumulation;
        double ready, update_ms;
    } cases[] = {
        { "complete at the end", 1, 1, 1, 62 },
        { "half-way: 21 ms are left", 1, 1, 0.5, 52 },
        { "half-way of the last of four: 5.25 ms are left", 1, 4, 0.5, 52 + 10 - 5.25 },
        { "no overlap", 0, 1, 0.5, 62 },
    };
    const ls_bench_link link = { .ranks = 2, .model.inside = slow };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_bench_result both[2] = { results[0], results[1] };
        ls_allreduce_bucket bucket = { early.bytes, cases[i].ready };
        both[1].bucket = &bucket;
        both[1].overlap = cases[i].overlap;
        both[1].accumulation = cases[i].accumulation;
        ls_bench_prediction *rows;
        int count;
        assert_int_equal(ls_bench_predict(both, 2, &link, 1, &rows, &count).code, LS_OK);
        double is = 1e3 * row_of(rows, count, 0, 2)->update_s;
        if (!(fabs(is - cases[i].update_ms) <= 1e-9))
            fail_msg("%s: an update of %.9g ms, expected %.9g", cases[i].name, is, cases[i].update_ms);
        free(rows);
    }
}

// What is not predicted: without links, without one rank to compare with, on devices that sum by themselves.
static void nothing(void **state) {
    (void)state;
    const ls_bench_link link = { .ranks = 2, .model.inside = slow }, unknown = { .ranks = 2 };
    ls_bench_prediction *rows;
    ls_bench_result gpu[2] = { results[0], results[1] }, failed[2] = { results[0], results[1] };
    gpu[0].own_memory = gpu[1].own_memory = 1;
    strcpy(failed[0].failure, "out of memory");
    const struct {
        const char *name;
        const ls_bench_result *results;
        int count;
        const ls_bench_link *link;
        int links;
    } cases[] = { { "no links", results, RESULTS, NULL, 0 }, { "nothing fitted", results, RESULTS, &unknown, 1 },
        { "one rank only", results, 1, &link, 1 }, { "a GPU", gpu, 2, &link, 1 }, { "no base", failed, 2, &link, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = -1;
        ls_status status =
            ls_bench_predict(cases[i].results, cases[i].count, cases[i].link, cases[i].links, &rows, &count);
        if (ls_failed(status) || count != 0) fail_msg("%s: %d predictions", cases[i].name, count);
        free(rows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(overlap),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
