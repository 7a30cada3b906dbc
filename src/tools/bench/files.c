// files.c - writes bench.json, and bench.html, which draws its content. docs/benchmarks.md explains the fields.
#include <math.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "system/cpus.h"
#include "base/json.h"
#include "base/version.h"
#include "tools/bench/report.h"
#include "tools/report/page.h"

enum { SCHEMA = 3 };

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

static void add_arrangement(const ls_bench *bench, int index, cJSON *list) {
    const ls_bench_result *r = &bench->result[index];
    const ls_bench_figures f = ls_bench_figures_of(bench->result, index);
    cJSON *row = cJSON_CreateObject();
    ls_json_add_text(row, "arrangement", r->name);
    ls_json_add_text(row, "device", r->device);
    ls_json_add_text(row, "device_name", r->device_name);
    ls_json_add_text(row, "model", r->model);
    ls_json_add_text(row, "dataset", r->dataset);
    ls_json_add_text(row, "precision", r->precision);
    ls_json_add_text(row, "settings", r->settings);
    ls_json_add_text(row, "scaling", r->weak ? "weak" : "strong");
    ls_json_add_text(row, "efficiency_over", bench->result[r->base].name);
    ls_json_add_int(row, "ranks", r->ranks);
    ls_json_add_int(row, "hosts", r->hosts);
    ls_json_add_int(row, "threads_per_rank", r->threads);
    ls_json_add_int(row, "shared", r->shared);
    ls_json_add_int(row, "global_batch", r->global_batch);
    ls_json_add_int(row, "micro_batch", r->micro_batch);
    ls_json_add_int(row, "accumulation_steps", r->accumulation);
    ls_json_add_int(row, "updates_per_measurement", r->updates);
    ls_json_add_int(row, "parameters", r->parameters);
    ls_json_add_int(row, "memory_bytes_per_rank", (int64_t)r->memory_bytes);
    ls_json_add_real(row, "units", r->units);
    ls_json_add_real(row, "images_per_second", f.images_per_second.median);
    ls_json_add_real(row, "images_per_second_lowest", f.images_per_second.lowest);
    ls_json_add_real(row, "images_per_second_highest", f.images_per_second.highest);
    ls_json_add_real(row, "images_per_second_low_95", f.images_per_second.low_95);
    ls_json_add_real(row, "images_per_second_high_95", f.images_per_second.high_95);
    ls_json_add_real(row, "speed_up", f.speed_up);
    ls_json_add_real(row, "efficiency", f.efficiency);
    ls_json_add_real(row, "unit_efficiency", f.unit_efficiency);
    ls_json_add_real(row, "update_seconds", f.update_s);
    ls_json_add_real(row, "update_seconds_without_communication", f.alone_s);
    ls_json_add_real(row, "loader_wait_share", f.loader_wait);
    ls_json_add_real(row, "comm_exposed_share", f.comm_exposed);
    ls_json_add_real(row, "comm_cost_share", f.comm_cost);
    ls_json_add_real(row, "reduced_bytes_per_update", r->reduced_bytes);
    ls_json_add_real(row, "bus_gbytes_per_second", f.bus_gbytes);
    ls_json_add_real(row, "gflops", f.gflops);
    ls_json_add_real(row, "matmul_peak_gflops", f.peak_gflops);
    ls_json_add_real(row, "share_of_matmul_peak", f.share_of_peak);
    ls_json_add_real(row, "flops_per_sample", r->flops_per_sample);
    ls_json_add_real(row, "first_update_seconds", r->first_update_s);
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

static cJSON *json_of(const ls_bench *bench, const ls_config *cfg) {
    const ls_comm_info *comm = ls_comm_get_info(bench->comm);
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_int(tree, "schema", SCHEMA);
    ls_json_add_text(tree, "version", ls_version());
    ls_json_add_text(tree, "compiler", ls_version_compiler());
    ls_json_add_text(tree, "libraries", ls_version_libraries());
    ls_json_add_text(tree, "mpi", comm->library);
    ls_json_add_text(tree, "host", comm->host);
    ls_json_add_text(tree, "processor", cpus.model);
    ls_json_add_real(tree, "time", ls_clock_unix_seconds());
    ls_json_add_text(tree, "config", cfg->file);
    add_options(cfg, tree);
    ls_json_add_int(tree, "world_size", bench->world_size);
    ls_json_add_int(tree, "rounds", bench->rounds);
    ls_json_add_real(tree, "seconds_per_measurement", bench->seconds);
    ls_json_add_bool(tree, "opened_in_turns", bench->in_turns);
    cJSON *list = ls_json_add_array(tree, "arrangements");
    for (int i = 0; i < bench->plan.count; i++) add_arrangement(bench, i, list);
    list = ls_json_add_array(tree, "links");
    for (int i = 0; i < bench->link_count; i++) add_link(&bench->link[i], list);
    return tree;
}

// Writes bench.html with the benchmark's JSON `tree`, and frees the tree.
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

ls_status ls_bench_write(const ls_bench *bench, const ls_config *cfg, const char *folder) {
    char json[LS_TEXT_BYTES], page[LS_TEXT_BYTES];
    LS_TRY(ls_path_join(json, sizeof json, folder, "bench.json"));
    LS_TRY(ls_path_join(page, sizeof page, folder, "bench.html"));
    cJSON *tree = json_of(bench, cfg);
    ls_status status = ls_json_write_file(json, tree);
    if (!ls_failed(status)) return write_page(page, folder, tree);
    cJSON_Delete(tree);
    return status;
}
