#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench.h"

int bench_wanted(const bench *b, const char *group, const char *layer, const char *pass) {
    char name[160];
    snprintf(name, sizeof name, "%s %s %s", group, layer, pass);
    return !b->only || strstr(name, b->only) != NULL;
}

bench_step *bench_ladder_add(bench_ladder *ladder, const char *name, void (*run)(void *context), void *context) {
    bench_step *step = &ladder->steps[ladder->count++];
    *step = (bench_step){ .name = name, .run = run, .context = context, .repeats = 1 };
    return step;
}

ls_status bench_ladder_check(const bench_ladder *ladder, const bench_step *step, double rms_bound) {
    if (step->rms <= rms_bound) return LS_SUCCESS;
    return ls_fail(LS_DEVICE, "%s %s %s by %s: RMS error %.3g of the RMS expected, at most %.3g is right",
        ladder->group, ladder->layer, ladder->pass, step->name, step->rms, rms_bound);
}

static double time_once(const bench_step *step) {
    const double start = ls_clock_seconds();
    for (int i = 0; i < step->repeats; i++) step->run(step->context);
    return (ls_clock_seconds() - start) / step->repeats;
}

void bench_ladder_time(bench *b, bench_ladder *ladder) {
    for (int s = 0; s < ladder->count; s++) { // caches and threads warm; how often
        bench_step *step = &ladder->steps[s];
        const double seconds = time_once(step);
        if (seconds < b->least_seconds) step->repeats = (int)(b->least_seconds / seconds) + 1;
    }
    for (int round = 0; round < b->rounds; round++)
        for (int s = 0; s < ladder->count; s++) ladder->steps[s].seconds[round] = time_once(&ladder->steps[s]);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct {
    double median, least, most;
} spread;

static spread spread_of(const double *values, int count) {
    double sorted[BENCH_ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    return (spread){ (sorted[(count - 1) / 2] + sorted[count / 2]) / 2, sorted[0], sorted[count - 1] };
}

// In GFLOP/s or GB/s.
static spread rates_of(const bench *b, const bench_ladder *ladder, const bench_step *step) {
    double rates[BENCH_ROUNDS_MAX];
    for (int i = 0; i < b->rounds; i++)
        rates[i] = (ladder->by_bytes ? step->bytes : step->flops) / step->seconds[i] * 1e-9;
    return spread_of(rates, b->rounds);
}

static spread ratios_of(const bench *b, const bench_ladder *ladder, const bench_step *step) {
    const bench_step *base = &ladder->steps[ladder->baseline];
    double ratios[BENCH_ROUNDS_MAX];
    for (int i = 0; i < b->rounds; i++) {
        const double work = ladder->by_bytes ? step->bytes / base->bytes : step->flops / base->flops;
        ratios[i] = work * base->seconds[i] / step->seconds[i];
    }
    return spread_of(ratios, b->rounds);
}

void bench_table_head(const char *title, int by_bytes) {
    printf("\n## %s\n\n", title);
    if (by_bytes)
        printf("| operator | shape | step | GB/s (range) | of copy | times baseline | RMS error | worst error |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    else
        printf("| layer | pass | step | GFLOP/s (range) | of FMA peak | of sgemm | bytes, of copy | times baseline "
               "(range) | RMS error | worst error |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
}

static void print_step(const bench *b, const bench_ladder *ladder, const bench_step *step) {
    const bench_machine *m = &b->machine;
    const spread rate = rates_of(b, ladder, step), ratio = ratios_of(b, ladder, step);
    const double bytes_rate = step->bytes * 1e-9 / spread_of(step->seconds, b->rounds).median;
    char times[64] = "baseline";
    if (step != &ladder->steps[ladder->baseline])
        snprintf(times, sizeof times, "%.2f (%.2f to %.2f)", ratio.median, ratio.least, ratio.most);
    if (ladder->by_bytes)
        printf("| %s | %s %s | %s | %.1f (%.1f to %.1f) | %.0f %% | %s | %.1e | %.1e |\n", ladder->pass, ladder->group,
            ladder->layer, step->name, rate.median, rate.least, rate.most, 100 * rate.median / m->copy_gbytes, times,
            step->rms, step->worst);
    else
        printf("| %s %s | %s | %s | %.*f (%.*f to %.*f) | %.0f %% | %.0f %% | %.0f %% | %s | %.1e | %.1e |\n",
            ladder->group, ladder->layer, ladder->pass, step->name, rate.median < 10, rate.median, rate.median < 10,
            rate.least, rate.median < 10, rate.most, 100 * rate.median / m->fma_gflops,
            100 * rate.median / m->sgemm_gflops, 100 * bytes_rate / m->copy_gbytes, times, step->rms, step->worst);
}

static void add_spread(cJSON *object, const char *name, spread s) {
    cJSON *item = ls_json_add_object(object, name);
    ls_json_add_real(item, "median", s.median);
    ls_json_add_real(item, "least", s.least);
    ls_json_add_real(item, "most", s.most);
}

static void add_step(const bench *b, const bench_ladder *ladder, const bench_step *step) {
    cJSON *item = cJSON_CreateObject();
    ls_json_add_text(item, "network", ladder->group);
    ls_json_add_text(item, "layer", ladder->layer);
    ls_json_add_text(item, "pass", ladder->pass);
    ls_json_add_text(item, "step", step->name);
    ls_json_add_real(item, "flops", step->flops);
    ls_json_add_real(item, "bytes", step->bytes);
    add_spread(item, "seconds", spread_of(step->seconds, b->rounds));
    add_spread(item, ladder->by_bytes ? "gbytes_per_second" : "gflops_per_second", rates_of(b, ladder, step));
    add_spread(item, "times_baseline", ratios_of(b, ladder, step));
    ls_json_add_real(item, "rms_error", step->rms);
    ls_json_add_real(item, "worst_error", step->worst);
    ls_json_append(cJSON_GetObjectItem(b->json, "steps"), item);
}

void bench_ladder_report(bench *b, const bench_ladder *ladder) {
    for (int s = 0; s < ladder->count; s++) {
        print_step(b, ladder, &ladder->steps[s]);
        add_step(b, ladder, &ladder->steps[s]);
    }
    fflush(stdout);
}

// --- in short: a row for each layer and pass, from the JSON --------------------------------------

static const char *text_of(const cJSON *item, const char *name) {
    const cJSON *text = cJSON_GetObjectItem(item, name);
    return text && text->valuestring ? text->valuestring : "";
}

static double median_of(const cJSON *item, const char *name) {
    const cJSON *median = cJSON_GetObjectItem(cJSON_GetObjectItem(item, name), "median");
    return median && median->valuestring ? strtod(median->valuestring, NULL) : 0; // reals are raw digits
}

static int same_case(const cJSON *a, const cJSON *b) {
    return a && b && strcmp(text_of(a, "network"), text_of(b, "network")) == 0 &&
           strcmp(text_of(a, "layer"), text_of(b, "layer")) == 0 && strcmp(text_of(a, "pass"), text_of(b, "pass")) == 0;
}

void bench_short_table(const bench *b) {
    printf("\n## In short\n\nGFLOP/s, and in brackets times the baseline, which is the first with 1.00.\n\n"
           "| layer | pass | steps | best, of FMA peak |\n| --- | --- | --- | --- |\n");
    const cJSON *item = cJSON_GetObjectItem(b->json, "steps")->child;
    while (item) {
        const cJSON *first = item;
        double best = 0;
        if (!cJSON_GetObjectItem(first, "gflops_per_second")) break; // from here on by bytes
        printf("| %s %s | %s |", text_of(first, "network"), text_of(first, "layer"), text_of(first, "pass"));
        for (; same_case(first, item); item = item->next) {
            const double rate = median_of(item, "gflops_per_second");
            printf("%s %s %.*f (%.2f)", item == first ? "" : ",", text_of(item, "step"), rate < 10, rate,
                median_of(item, "times_baseline"));
            if (rate > best) best = rate;
        }
        printf(" | %.0f %% |\n", 100 * best / b->machine.fma_gflops);
    }
}
