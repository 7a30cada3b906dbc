#include "sweep/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "command/progress.h"
#include "command/report.h"
#include "sweep/folder.h"
#include "config/values.h"

enum { COMPARED_MAX = 64 };       // with more settings, no pair is compared: nobody would read so many
static const double LEVEL = 0.05; // level of significance: a setting is called better if its corrected p is below it

// --- numbers -------------------------------------------------------------------------------------

static int is_complete(const ls_sweep_table *t, int run) {
    return t->results[run].state == LS_SWEEP_COMPLETE;
}

static double accuracy_of(const ls_sweep_table *t, int run) {
    return t->results[run].accuracy[t->measure];
}

static int all_have(const ls_sweep_table *t, int measure) {
    int have = 0;
    for (int run = 0; run < t->plan->runs; run++)
        have += is_complete(t, run) && !isnan(t->results[run].accuracy[measure]);
    return have == t->complete;
}

static void choose_measure(ls_sweep_table *t) {
    for (int run = 0; run < t->plan->runs; run++) t->complete += is_complete(t, run);
    int measure = 0;
    while (measure < LS_SWEEP_MEASURES - 1 && !all_have(t, measure)) measure++;
    t->measure = (ls_sweep_measure)measure;
}

// Computes the means of a setting's complete runs into *row. values: working memory for one number per seed.
static void sum_up(const ls_sweep_table *t, int setting, double *values, ls_sweep_row *row) {
    int count = 0;
    for (int run = setting; run < t->plan->runs; run += t->plan->settings) {
        const ls_sweep_result *r = &t->results[run];
        if (!is_complete(t, run)) continue;
        for (int m = 0; m < LS_SWEEP_MEASURES; m++) row->means[m] += r->accuracy[m];
        row->seconds += r->seconds;
        row->images_per_second += r->images_per_second;
        values[count++] = accuracy_of(t, run);
    }
    row->accuracy = ls_statistics_of(values, count);
    for (int m = 0; m < LS_SWEEP_MEASURES; m++) row->means[m] /= count;
    row->seconds /= count;
    row->images_per_second /= count;
}

// Tests the difference of settings a and b over the seeds that both have completed. values: room for a number per seed.
static ls_paired_test compare(const ls_sweep_table *t, int a, int b, double *values) {
    int count = 0;
    for (int first = 0; first < t->plan->runs; first += t->plan->settings)
        if (is_complete(t, first + a) && is_complete(t, first + b))
            values[count++] = accuracy_of(t, first + a) - accuracy_of(t, first + b);
    return ls_paired_test_of(values, count);
}

// Compares all pairs of settings. values: working memory for one number per seed, and for one per pair.
static void compare_all(ls_sweep_table *t, double *values) {
    for (int a = 0; a < t->plan->settings; a++)
        for (int b = a + 1; b < t->plan->settings; b++) {
            ls_sweep_comparison *c = &t->comparisons[t->comparison_count++];
            *c = (ls_sweep_comparison){ a, b, compare(t, a, b, values), NAN };
            if (c->test.difference.mean < 0) *c = (ls_sweep_comparison){ b, a, compare(t, b, a, values), NAN };
        }
    for (int i = 0; i < t->comparison_count; i++) values[i] = t->comparisons[i].test.p;
    ls_holm(values, t->comparison_count);
    for (int i = 0; i < t->comparison_count; i++) t->comparisons[i].p_holm = values[i];
}

static void fill(ls_sweep_table *t) {
    const int settings = t->plan->settings, compared = settings <= COMPARED_MAX;
    const int pairs = compared ? settings * (settings - 1) / 2 : 0;
    t->rows = ls_new(settings, sizeof *t->rows, "results of %d settings", settings);
    t->comparisons = ls_new(pairs + 1, sizeof *t->comparisons, "comparisons of %d settings", settings);
    double *values = ls_new(pairs + t->plan->seed_count, sizeof *values, "comparisons of %d settings", settings);
    choose_measure(t);
    for (int s = 0; s < settings; s++) sum_up(t, s, values, &t->rows[s]);
    if (compared) compare_all(t, values);
    free(values);
}

ls_sweep_table ls_sweep_table_new(const ls_sweep_plan *plan, const ls_sweep_result *results) {
    ls_sweep_table table = { .plan = plan, .results = results };
    fill(&table);
    return table;
}

void ls_sweep_table_free(ls_sweep_table *table) {
    free(table->rows);
    free(table->comparisons);
    *table = (ls_sweep_table){ 0 };
}

// --- comparisons as text -------------------------------------------------------------------------

static int tests_made(const ls_sweep_table *t) {
    int count = 0;
    for (int i = 0; i < t->comparison_count; i++) count += !isnan(t->comparisons[i].test.p);
    return count;
}

// Appends a p value as text: "p = 0.012" or "p < 0.0001".
static void put_p(ls_text_room *room, double p) {
    if (p < 1e-4)
        ls_text_put(room, "p < 0.0001");
    else
        ls_text_put(room, "p = %.2g", p);
}

char *ls_sweep_comparison_text(const ls_sweep_table *t, const ls_sweep_comparison *c, char dst[LS_SWEEP_TEXT_BYTES]) {
    char better[LS_SWEEP_NAME_BYTES], other[LS_SWEEP_NAME_BYTES];
    const ls_statistics *d = &c->test.difference;
    ls_text_room room = { dst, LS_SWEEP_TEXT_BYTES };
    ls_sweep_setting_text(t->plan, c->better, better);
    ls_sweep_setting_text(t->plan, c->other, other);
    if (d->count < 2) {
        ls_text_put(&room, "%s and %s: %s, which is too few to compare", better, other,
            d->count ? "one seed that both have completed" : "no seed that both have completed");
        return dst;
    }
    if (d->mean == 0 && d->deviation == 0) {
        ls_text_put(&room, "%s and %s: the same %s with each of %d seeds", better, other,
            ls_sweep_measure_name(t->measure), d->count);
        return dst;
    }
    if (c->p_holm < LEVEL)
        ls_text_put(&room, "%s is better than %s by %.2f points", better, other, 100 * d->mean);
    else
        ls_text_put(&room, "%s and %s: no difference that %d seeds could show: %.2f points", better, other, d->count,
            100 * d->mean);
    ls_text_put(
        &room, ", 95 %% interval %.2f to %.2f, ", 100 * (d->mean - d->half_width), 100 * (d->mean + d->half_width));
    put_p(&room, c->test.p);
    if (tests_made(t) > 1) {
        ls_text_put(&room, " alone, ");
        put_p(&room, c->p_holm);
        ls_text_put(&room, " among %d comparisons (Holm)", tests_made(t));
    }
    ls_text_put(&room, ", %d pairs", d->count);
    return dst;
}

// Returns the setting with the highest mean accuracy, or -1 if no run is complete.
static int best_setting(const ls_sweep_table *t) {
    int best = -1;
    for (int s = 0; s < t->plan->settings; s++)
        if (t->rows[s].accuracy.count > 0 && (best < 0 || t->rows[s].accuracy.mean > t->rows[best].accuracy.mean))
            best = s;
    return best;
}

static void print_comparisons(const ls_sweep_table *t, FILE *file) {
    char text[LS_SWEEP_TEXT_BYTES];
    const int best = best_setting(t);
    for (int i = 0; i < t->comparison_count; i++) {
        const ls_sweep_comparison *c = &t->comparisons[i];
        if (c->better != best && c->other != best) continue;
        ls_text_print(file, ls_sweep_comparison_text(t, c, text));
        fputc('\n', file);
    }
}

// --- the table -----------------------------------------------------------------------------------

static void put_row(const ls_sweep_table *t, int setting, ls_table *table) {
    const ls_sweep_row *row = &t->rows[setting];
    const ls_statistics *a = &row->accuracy;
    char name[LS_SWEEP_NAME_BYTES], took[32];
    const int at = setting + 1;
    int column = 0;
    ls_table_put(table, at, column++, "%s", ls_sweep_setting_text(t->plan, setting, name));
    ls_table_put(table, at, column++, "%d", a->count);
    if (a->count == 0) return;
    ls_table_put(table, at, column++, "%.2f %%", 100 * a->mean);
    if (a->count > 1) {
        ls_table_put(table, at, column, "%.2f", 100 * a->deviation);
        ls_table_put(
            table, at, column + 1, "%.2f to %.2f", 100 * (a->mean - a->half_width), 100 * (a->mean + a->half_width));
    }
    column += 2;
    for (int m = (int)t->measure + 1; m < LS_SWEEP_MEASURES; m++)
        if (all_have(t, m)) ls_table_put(table, at, column++, "%.2f %%", 100 * row->means[m]);
    ls_table_put(table, at, column++, "%s", ls_progress_duration(took, sizeof took, row->seconds));
    ls_table_put(table, at, column, "%.0f", row->images_per_second);
}

static void put_head(const ls_sweep_table *t, ls_table *table) {
    int column = 0;
    const char *const first[] = { "setting", "n", ls_sweep_measure_name(t->measure), "sd", "95 % interval" };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) ls_table_put(table, 0, column++, "%s", first[i]);
    for (int m = (int)t->measure + 1; m < LS_SWEEP_MEASURES; m++)
        if (all_have(t, m)) ls_table_put(table, 0, column++, "%s", ls_sweep_measure_name((ls_sweep_measure)m));
    ls_table_put(table, 0, column++, "time");
    ls_table_put(table, 0, column, "images/s");
}

ls_status ls_sweep_table_print(const ls_sweep_table *t, FILE *file) {
    ls_table table;
    int columns = 7;
    for (int m = (int)t->measure + 1; m < LS_SWEEP_MEASURES; m++) columns += all_have(t, m);
    LS_TRY(ls_table_new(columns, t->plan->settings + 1, &table));
    put_head(t, &table);
    for (int s = 0; s < t->plan->settings; s++) put_row(t, s, &table);
    ls_table_print(&table, file);
    ls_table_free(&table);
    if (t->complete < t->plan->runs) fprintf(file, "%d of %d runs are complete\n", t->complete, t->plan->runs);
    print_comparisons(t, file);
    if (t->plan->settings > COMPARED_MAX) fprintf(file, "more than %d settings are not compared\n", COMPARED_MAX);
    return LS_SUCCESS;
}

// --- files ---------------------------------------------------------------------------------------

// Writes a field of a CSV file, in quotes if RFC 4180 requires it.
static void put_field(FILE *file, const char *text) {
    if (!strpbrk(text, ",\"\n\r")) {
        fputs(text, file);
        return;
    }
    fputc('"', file);
    for (; *text; text++) fprintf(file, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', file);
}

static void put_number(FILE *file, double value) {
    char text[32];
    fprintf(file, ",%s", isnan(value) ? "" : ls_real_text(text, value));
}

static void put_values(const ls_sweep_plan *plan, int setting, const char *cut, FILE *file) {
    for (int i = 0; i < plan->swept; i++) {
        if (i) fputs(cut, file);
        put_field(file, ls_sweep_value(plan, i, setting));
    }
}

static void put_names(const ls_sweep_plan *plan, FILE *file) {
    for (int i = 0; i < plan->swept; i++) fprintf(file, "%s%s", i ? "," : "", plan->axes[i].name);
}

static void write_runs(const ls_sweep_table *t, FILE *file) {
    static const char *const states[] = { "new", "begun", "complete" };
    const ls_sweep_plan *plan = t->plan;
    char name[LS_SWEEP_NAME_BYTES];
    fputs("task,folder,", file);
    put_names(plan, file);
    fprintf(file, "%sseed,state,updates,train_loss", plan->swept ? "," : "");
    for (int m = 0; m < LS_SWEEP_MEASURES; m++) fprintf(file, ",%s", ls_sweep_measure_key((ls_sweep_measure)m));
    fputs(",seconds,images_per_second,weights_hash\n", file);
    for (int run = 0; run < plan->runs; run++) {
        const ls_sweep_result *r = &t->results[run];
        fprintf(file, "%d,", run + 1);
        put_field(file, ls_sweep_run_name(plan, run, name));
        fputc(',', file);
        put_values(plan, ls_sweep_setting(plan, run), ",", file);
        fprintf(file, "%s%" PRId64 ",%s", plan->swept ? "," : "", ls_sweep_seed(plan, run), states[r->state]);
        if (is_complete(t, run)) fprintf(file, ",%" PRId64, r->updates);
        if (!is_complete(t, run)) {
            fputs(",,,,,,,,\n", file);
            continue;
        }
        put_number(file, r->train_loss);
        for (int m = 0; m < LS_SWEEP_MEASURES; m++) put_number(file, r->accuracy[m]);
        put_number(file, r->seconds);
        put_number(file, r->images_per_second);
        fprintf(file, ",%s\n", r->weights_hash);
    }
}

static void write_settings(const ls_sweep_table *t, FILE *file) {
    put_names(t->plan, file);
    fprintf(file, "%sn,%s,deviation,low,high,seconds,images_per_second\n", t->plan->swept ? "," : "",
        ls_sweep_measure_key(t->measure));
    for (int s = 0; s < t->plan->settings; s++) {
        const ls_sweep_row *row = &t->rows[s];
        const ls_statistics *a = &row->accuracy;
        put_values(t->plan, s, ",", file);
        fprintf(file, "%s%d", t->plan->swept ? "," : "", a->count);
        put_number(file, a->mean);
        put_number(file, a->deviation);
        put_number(file, a->mean - a->half_width);
        put_number(file, a->mean + a->half_width);
        put_number(file, row->seconds);
        put_number(file, row->images_per_second);
        fputc('\n', file);
    }
}

static void add_interval(cJSON *object, const ls_statistics *s) {
    cJSON *interval = ls_json_add_object(object, "interval");
    ls_json_add_real(interval, "low", s->mean - s->half_width);
    ls_json_add_real(interval, "high", s->mean + s->half_width);
}

static void add_setting(const ls_sweep_table *t, int setting, cJSON *list) {
    const ls_sweep_row *row = &t->rows[setting];
    cJSON *object = ls_json_append(list, cJSON_CreateObject()), *values = ls_json_add_object(object, "setting");
    for (int i = 0; i < t->plan->swept; i++)
        ls_json_add_text(values, t->plan->axes[i].name, ls_sweep_value(t->plan, i, setting));
    ls_json_add_int(object, "n", row->accuracy.count);
    ls_json_add_real(object, "mean", row->accuracy.mean);
    ls_json_add_real(object, "deviation", row->accuracy.deviation);
    add_interval(object, &row->accuracy);
    for (int m = 0; m < LS_SWEEP_MEASURES; m++)
        if (!isnan(row->means[m])) ls_json_add_real(object, ls_sweep_measure_key((ls_sweep_measure)m), row->means[m]);
    ls_json_add_real(object, "seconds", row->seconds);
    ls_json_add_real(object, "images_per_second", row->images_per_second);
}

static void add_comparison(const ls_sweep_table *t, const ls_sweep_comparison *c, cJSON *list) {
    char name[LS_SWEEP_NAME_BYTES], text[LS_SWEEP_TEXT_BYTES];
    const ls_statistics *d = &c->test.difference;
    cJSON *object = ls_json_append(list, cJSON_CreateObject());
    ls_json_add_text(object, "better", ls_sweep_setting_text(t->plan, c->better, name));
    ls_json_add_text(object, "other", ls_sweep_setting_text(t->plan, c->other, name));
    ls_json_add_int(object, "pairs", d->count);
    ls_json_add_real(object, "difference", d->mean);
    add_interval(object, d);
    ls_json_add_real(object, "t", c->test.t);
    ls_json_add_real(object, "p", c->test.p);
    ls_json_add_real(object, "p_holm", c->p_holm);
    ls_json_add_text(object, "text", ls_sweep_comparison_text(t, c, text));
}

static ls_status write_json(const ls_sweep_table *t) {
    char path[LS_TEXT_BYTES];
    LS_TRY(ls_sweep_folder_file(t->plan, "results.json", path));
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "config", t->plan->config);
    ls_json_add_int(tree, "runs", t->plan->runs);
    ls_json_add_int(tree, "complete", t->complete);
    ls_json_add_text(tree, "measure", ls_sweep_measure_key(t->measure));
    cJSON *settings = ls_json_add_array(tree, "settings");
    for (int s = 0; s < t->plan->settings; s++) add_setting(t, s, settings);
    cJSON *comparisons = ls_json_add_array(tree, "comparisons");
    for (int i = 0; i < t->comparison_count; i++) add_comparison(t, &t->comparisons[i], comparisons);
    ls_status status = ls_json_write_file(path, tree);
    cJSON_Delete(tree);
    return status;
}

static ls_status write_csv(
    const ls_sweep_table *t, const char *name, void (*write)(const ls_sweep_table *t, FILE *file)) {
    char path[LS_TEXT_BYTES], *text = NULL;
    size_t bytes = 0;
    LS_TRY(ls_sweep_folder_file(t->plan, name, path));
    FILE *memory = ls_text_stream(&text, &bytes);
    write(t, memory);
    ls_text_stream_close(memory);
    ls_status status = ls_write_file(path, text, bytes);
    free(text);
    return status;
}

ls_status ls_sweep_table_write(const ls_sweep_table *t) {
    LS_TRY(write_csv(t, "runs.csv", write_runs));
    LS_TRY(write_csv(t, "settings.csv", write_settings));
    return write_json(t);
}
