// files.c - bench.json and bench.csv: one table of columns for both; bench.html, which draws bench.json. docs/bench.md explains them.

#include <errno.h>
#include <math.h>
#include <string.h>
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/memory.h"
#include "cli/bench/report.h"
#include "cli/page/page.h"

enum { SCHEMA = 3 };

// X(name, expression of r (result) and f (figures))
#define TEXT_COLUMNS(X) \
    X("arrangement", r->name) \
    X("device", r->device) \
    X("precision", r->precision) \
    X("settings", r->settings) \
    X("scaling", r->weak ? "weak" : "strong")
#define INT_COLUMNS(X) \
    X("ranks", r->ranks) \
    X("hosts", r->hosts) \
    X("threads_per_rank", r->threads) \
    X("shared", r->shared) \
    X("global_batch", r->global_batch) \
    X("micro_batch", r->micro_batch) \
    X("accumulation_steps", r->accumulation) \
    X("updates_per_measurement", r->updates) \
    X("parameters", r->parameters) \
    X("memory_bytes_per_rank", (int64_t)r->memory_bytes)
#define REAL_COLUMNS(X) \
    X("units", r->units) \
    X("images_per_second", f.images_per_second.median) \
    X("images_per_second_lowest", f.images_per_second.lowest) \
    X("images_per_second_highest", f.images_per_second.highest) \
    X("images_per_second_low_95", f.images_per_second.low_95) \
    X("images_per_second_high_95", f.images_per_second.high_95) \
    X("speed_up", f.speed_up) \
    X("efficiency", f.efficiency) \
    X("unit_efficiency", f.unit_efficiency) \
    X("update_seconds", f.update_s) \
    X("update_seconds_without_communication", f.alone_s) \
    X("loader_wait_share", f.loader_wait) \
    X("comm_exposed_share", f.comm_exposed) \
    X("comm_cost_share", f.comm_cost) \
    X("reduced_bytes_per_update", r->reduced_bytes) \
    X("bus_gbytes_per_second", f.bus_gbytes) \
    X("gflops", f.gflops) \
    X("matmul_peak_gflops", f.peak_gflops) \
    X("share_of_matmul_peak", f.share_of_peak) \
    X("first_update_seconds", r->first_update_s)

static cJSON *samples_of(const ls_bench_result *r) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < r->count; i++) {
        const ls_bench_sample *s = &r->sample[i];
        cJSON *item = cJSON_CreateObject();
        ls_json_add_real(item, "seconds", s->seconds);
        ls_json_add_real(item, "images_per_second", s->images_per_second);
        ls_json_add_real(item, "loader_wait_seconds", s->loader_wait_s);
        ls_json_add_real(item, "comm_exposed_seconds", s->comm_exposed_s);
        ls_json_add_real(item, "comm_busy_seconds", s->comm_busy_s);
        ls_json_add_real(item, "seconds_without_communication", s->alone_s > 0 ? s->alone_s : NAN);
        ls_json_add_real(item, "matmul_gflops", s->peak_gflops);
        ls_json_append(list, item);
    }
    return list;
}

static void add_arrangement(const ls_bench_findings *findings, int i, cJSON *list) {
    const ls_bench_result *r = &findings->results[i];
    const ls_bench_figures f = ls_bench_figures_of(findings->results, i);
    cJSON *row = cJSON_CreateObject();
#define ADD_TEXT(name, value) ls_json_add_text(row, name, value);
    TEXT_COLUMNS(ADD_TEXT)
#undef ADD_TEXT
#define ADD_INT(name, value) ls_json_add_int(row, name, value);
    INT_COLUMNS(ADD_INT)
#undef ADD_INT
#define ADD_REAL(name, value) ls_json_add_real(row, name, value);
    REAL_COLUMNS(ADD_REAL)
#undef ADD_REAL
    ls_json_add_text(row, "device_name", r->device_name);
    ls_json_add_text(row, "model", r->model);
    ls_json_add_text(row, "dataset", r->dataset);
    ls_json_add_text(row, "efficiency_over", findings->results[r->base].name);
    ls_json_add_real(row, "flops_per_sample", r->flops_per_sample);
    cJSON *kinds = ls_json_add_object(row, "kind_seconds");
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) ls_json_add_real(kinds, ls_op_kind_name((ls_op_kind)k), r->kind_s[k]);
    ls_json_add_item(row, "measurements", samples_of(r));
    if (r->failure[0]) ls_json_add_text(row, "failure", r->failure);
    ls_json_append(list, row);
}

static void add_link(const ls_bench_link *link, cJSON *list) {
    cJSON *row = cJSON_CreateObject();
    ls_json_add_int(row, "ranks", link->ranks);
    ls_json_add_int(row, "shared", link->shared);
    ls_json_add_real(row, "latency_seconds", link->fit.known ? link->fit.latency_s : NAN);
    ls_json_add_real(row, "bytes_per_second", link->fit.known ? link->fit.bytes_per_s : NAN);
    ls_json_add_real(row, "relative_rms", link->fit.known ? link->fit.rms : NAN);
    cJSON *samples = ls_json_add_array(row, "measurements");
    for (int i = 0; i < link->samples.count; i++) {
        const ls_allreduce_sample *s = &link->samples.sample[i];
        cJSON *item = cJSON_CreateObject();
        ls_json_add_int(item, "bytes", s->bytes);
        ls_json_add_int(item, "repeats", s->repeats);
        ls_json_add_real(item, "seconds", s->seconds);
        ls_json_add_real(item, "relative_spread", s->spread);
        ls_json_append(samples, item);
    }
    ls_json_append(list, row);
}

static void add_options(const ls_config *cfg, cJSON *tree) {
    char value[LS_TEXT_BYTES];
    const char *name;
    cJSON *options = ls_json_add_object(tree, "options");
    for (int i = 0; ls_config_value(cfg, i, &name, value, sizeof value); i++) ls_json_add_text(options, name, value);
}

static cJSON *json_of(const ls_bench_findings *b) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_int(tree, "schema", SCHEMA);
    ls_json_add_text(tree, "version", b->version);
    ls_json_add_text(tree, "compiler", b->compiler);
    ls_json_add_text(tree, "libraries", b->libraries);
    ls_json_add_text(tree, "mpi", b->mpi);
    ls_json_add_text(tree, "host", b->host);
    ls_json_add_text(tree, "processor", b->processor);
    ls_json_add_real(tree, "time", b->time);
    ls_json_add_text(tree, "config", b->cfg->file);
    add_options(b->cfg, tree);
    ls_json_add_int(tree, "world_size", b->world_size);
    ls_json_add_int(tree, "rounds", b->rounds);
    ls_json_add_real(tree, "seconds_per_measurement", b->seconds);
    ls_json_add_bool(tree, "opened_in_turns", b->in_turns);
    cJSON *list = ls_json_add_array(tree, "arrangements");
    for (int i = 0; i < b->count; i++) add_arrangement(b, i, list);
    list = ls_json_add_array(tree, "links");
    for (int i = 0; i < b->link_count; i++) add_link(&b->links[i], list);
    return tree;
}

// --- bench.csv: empty cells where nothing is known -----------------------------------------------

static void put_real(FILE *file, double value) {
    if (isfinite(value))
        fprintf(file, ",%.6g", value);
    else
        fputc(',', file);
}

static void print_csv(const ls_bench_findings *findings, FILE *file) {
    const char *separator = "";
#define NAME(name, value) \
    fprintf(file, "%s%s", separator, name); \
    separator = ",";
    TEXT_COLUMNS(NAME)
    INT_COLUMNS(NAME)
    REAL_COLUMNS(NAME)
#undef NAME
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) fprintf(file, ",%s_seconds", ls_op_kind_name((ls_op_kind)k));
    fputc('\n', file);
    for (int i = 0; i < findings->count; i++) {
        const ls_bench_result *r = &findings->results[i];
        const ls_bench_figures f = ls_bench_figures_of(findings->results, i);
        separator = "";
#define PUT_TEXT(name, value) \
    fprintf(file, "%s%s", separator, value); \
    separator = ",";
        TEXT_COLUMNS(PUT_TEXT)
#undef PUT_TEXT
#define PUT_INT(name, value) fprintf(file, ",%lld", (long long)(value));
        INT_COLUMNS(PUT_INT)
#undef PUT_INT
#define PUT_REAL(name, value) put_real(file, value);
        REAL_COLUMNS(PUT_REAL)
#undef PUT_REAL
        for (int k = 0; k < LS_OP_KIND_COUNT; k++) put_real(file, r->kind_s[k]);
        fputc('\n', file);
    }
}

static ls_status write_csv(const ls_bench_findings *findings, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) return ls_no_memory(0, "%s", path);
    print_csv(findings, memory);
    ls_status status = fclose(memory) == 0 ? LS_SUCCESS : ls_no_memory(0, "%s", path);
    LS_THEN(status, ls_write_file(path, text, bytes));
    free(text);
    return status;
}

// Takes tree.
static ls_status write_page(const char *path, const char *folder, cJSON *tree) {
    cJSON *data = ls_page_data();
    cJSON *one = ls_json_append(ls_json_add_array(data, "benches"), cJSON_CreateObject());
    ls_json_add_text(one, "name", "bench");
    ls_json_add_text(one, "path", folder);
    ls_json_add_item(one, "bench", tree);
    ls_status status = ls_page_write(path, data);
    cJSON_Delete(data);
    return status;
}

ls_status ls_bench_write(const ls_bench_findings *findings, const char *folder) {
    char json[LS_TEXT_BYTES], csv[LS_TEXT_BYTES], page[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(json, sizeof json, folder, "bench.json"));
    LS_TRY(ls_path_join(csv, sizeof csv, folder, "bench.csv"));
    LS_TRY(ls_path_join(page, sizeof page, folder, "bench.html"));
    cJSON *tree = json_of(findings);
    ls_status status = ls_json_write_file(json, tree);
    LS_THEN(status, write_csv(findings, csv));
    if (!ls_failed(status)) return write_page(page, folder, tree);
    cJSON_Delete(tree);
    return status;
}
