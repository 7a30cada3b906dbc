#include "cli/bench/cost_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/report.h"

enum { SCHEMA = 1, REASON_BYTES = 128 };

// --- one operator ---------------------------------------------------------------------------------

static int times_of(const ls_cost_findings *f, const ls_cost_item *item) {
    return item->once ? 1 : f->update->batches.per_rank;
}

// 1.5e9 -> "1.50 G"
static char *amount(double value, char dst[24]) {
    static const char *const units[] = { "", " k", " M", " G", " T", " P" };
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1000;
    snprintf(dst, 24, "%.3g%s", value, units[unit]);
    return dst;
}

// Why it takes that long: what binds it, and at which rate.
static void reason_of(const ls_cost_findings *f, int index, char *dst) {
    const ls_cost_item *item = &f->update->items[index];
    const ls_cost_time *t = &f->times[index];
    const double bytes = t->memory_bytes + t->cache_bytes;
    char what[24], rate[24], cached[24];
    switch (t->bound) {
    case LS_COST_BY_MEMORY:
        snprintf(dst, REASON_BYTES, "%sB at %sB/s%s%s%s", amount(bytes, what),
            amount(bytes / t->part_s[LS_COST_BY_MEMORY], rate), t->cache_bytes > 0 ? ", " : "",
            t->cache_bytes > 0 ? amount(t->cache_bytes, cached) : "", t->cache_bytes > 0 ? "B of it from cache" : "");
        break;
    case LS_COST_BY_ARITHMETIC:
        snprintf(dst, REASON_BYTES, "%sFLOP at %sFLOP/s", amount(item->work, what),
            amount(item->work / t->part_s[LS_COST_BY_ARITHMETIC], rate));
        break;
    default:
        snprintf(dst, REASON_BYTES, "%d of %.3g us, %.3g us apart", item->launches, f->machine->shortest_s * 1e6,
            f->machine->gap_s * 1e6);
    }
}

static ls_status print_operators(const ls_cost_findings *f, FILE *file) {
    static const char *const head[] = { "operator", "layer", "launches", "us", "of total", "bound by", "reason",
        "algorithm" };
    enum { COLUMNS = sizeof head / sizeof head[0] };
    const ls_cost_update *u = f->update;
    ls_table table;
    const int columns = COLUMNS - (f->gpu != NULL); // which algorithm a GPU's library takes is not known
    LS_TRY(ls_table_new(columns, u->item_count + 1, &table));
    for (int column = 0; column < columns; column++) ls_table_put(&table, 0, column, "%s", head[column]);
    for (int i = 0; i < u->item_count; i++) {
        const ls_cost_item *item = &u->items[i];
        const int times = times_of(f, item);
        char reason[REASON_BYTES];
        reason_of(f, i, reason);
        ls_table_put(&table, i + 1, 0, "%s", item->op);
        ls_table_put(&table, i + 1, 1, "%s", item->layer);
        ls_table_put(
            &table, i + 1, 2, times > 1 ? "%d x %d" : "%d", times > 1 ? times : item->launches, item->launches);
        ls_table_put(&table, i + 1, 3, "%.1f", times * f->times[i].seconds * 1e6);
        ls_table_put(&table, i + 1, 4, "%.1f %%", 100 * times * f->times[i].seconds / f->point->update_s);
        ls_table_put(&table, i + 1, 5, "%s", ls_cost_bound_name(f->times[i].bound));
        ls_table_put(&table, i + 1, 6, "%s", reason);
        if (!f->gpu) ls_table_put(&table, i + 1, 7, "%s", item->algorithm);
    }
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

// --- sums -----------------------------------------------------------------------------------------

// Of the items of one kind, or of one layer, or of all.
typedef struct {
    int operators, launches;
    double seconds, by[LS_COST_BOUNDS], gaps;
} total;

static void add_to(const ls_cost_findings *f, int i, total *t) {
    const ls_cost_item *item = &f->update->items[i];
    const int times = times_of(f, item);
    t->operators += times;
    t->launches += times * item->launches;
    t->seconds += times * f->times[i].seconds;
    t->by[f->times[i].bound] += times * f->times[i].seconds;
    t->gaps += times * item->launches * f->machine->gap_s;
}

static total of_all(const ls_cost_findings *f) {
    total t = { 0 };
    for (int i = 0; i < f->update->item_count; i++) add_to(f, i, &t);
    return t;
}

static total of_kind(const ls_cost_findings *f, int kind) {
    total t = { 0 };
    for (int i = 0; i < f->update->item_count; i++)
        if ((int)f->update->items[i].kind == kind) add_to(f, i, &t);
    return t;
}

// Of the layer of item `first`; no operators where an earlier item is of that layer.
static total of_layer(const ls_cost_findings *f, int first) {
    const char *layer = f->update->items[first].layer;
    total t = { 0 };
    for (int i = 0; i < f->update->item_count; i++) {
        if (strcmp(f->update->items[i].layer, layer) != 0) continue;
        if (i < first) return (total){ 0 };
        add_to(f, i, &t);
    }
    return t;
}

static void put_total(ls_table *table, int row, const ls_cost_findings *f, const char *name, const total *t) {
    ls_table_put(table, row, 0, "%s", name);
    ls_table_put(table, row, 1, "%d", t->operators);
    ls_table_put(table, row, 2, "%d", t->launches);
    ls_table_put(table, row, 3, "%.1f", t->seconds * 1e6);
    ls_table_put(table, row, 4, "%.1f %%", 100 * t->seconds / f->point->update_s);
    for (int b = 0; b < LS_COST_BOUNDS; b++) ls_table_put(table, row, 5 + b, "%.1f", t->by[b] * 1e6);
}

static ls_status new_totals(const char *what, int rows, ls_table *table) {
    static const char *const head[] = { "operators", "launches", "us", "of total", "by memory", "by arithmetic",
        "by launches" };
    LS_TRY(ls_table_new(1 + (int)(sizeof head / sizeof *head), rows + 1, table));
    ls_table_put(table, 0, 0, "%s", what);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) ls_table_put(table, 0, 1 + (int)i, "%s", head[i]);
    return LS_SUCCESS;
}

static ls_status print_layers(const ls_cost_findings *f, FILE *file) {
    ls_table table;
    int rows = 0;
    LS_TRY(new_totals("layer", f->update->item_count, &table));
    for (int i = 0; i < f->update->item_count; i++) {
        const total t = of_layer(f, i);
        if (t.operators) put_total(&table, ++rows, f, f->update->items[i].layer, &t);
    }
    table.rows = rows + 1;
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

static ls_status print_kinds(const ls_cost_findings *f, FILE *file) {
    ls_table table;
    int rows = 0;
    LS_TRY(new_totals("kind", LS_OP_KIND_COUNT + 1, &table));
    for (int k = 0; k < LS_OP_KIND_COUNT; k++) {
        const total t = of_kind(f, k);
        if (t.operators) put_total(&table, ++rows, f, ls_op_kind_name((ls_op_kind)k), &t);
    }
    const total all = of_all(f);
    put_total(&table, ++rows, f, "all", &all);
    table.rows = rows + 1;
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

// --- over ranks -----------------------------------------------------------------------------------

static ls_status print_points(const ls_cost_findings *f, FILE *file) {
    static const char *const head[] = { "GPUs", "hosts", "scaling", "global batch", "micro-batch", "update ms",
        "images/s", "speed-up", "efficiency", "buckets", "sums ms", "exposed ms" };
    enum { COLUMNS = sizeof head / sizeof head[0] };
    ls_table table;
    LS_TRY(ls_table_new(COLUMNS, f->point_count + 1, &table));
    for (int column = 0; column < COLUMNS; column++) ls_table_put(&table, 0, column, "%s", head[column]);
    for (int i = 0; i < f->point_count; i++) {
        const ls_cost_point *p = &f->points[i];
        ls_table_put(&table, i + 1, 0, "%d", p->ranks);
        ls_table_put(&table, i + 1, 1, "%d", p->hosts);
        ls_table_put(&table, i + 1, 2, "%s", p->weak ? "weak" : "strong");
        ls_table_put(&table, i + 1, 3, "%d", p->global_batch);
        ls_table_put(&table, i + 1, 4, p->accumulation > 1 ? "%d x %d" : "%d",
            p->accumulation > 1 ? p->accumulation : p->micro_batch, p->micro_batch);
        ls_table_put(&table, i + 1, 5, "%.3f", p->update_s * 1e3);
        ls_table_put(&table, i + 1, 6, "%.0f", p->images_per_second);
        ls_table_put(&table, i + 1, 7, "%.2f", p->speed_up);
        ls_table_put(&table, i + 1, 8, "%.1f %%", 100 * p->efficiency);
        ls_table_put(&table, i + 1, 9, "%d", p->buckets);
        ls_table_put(&table, i + 1, 10, "%.3f", p->sums_s * 1e3);
        ls_table_put(&table, i + 1, 11, "%.3f", p->exposed_s * 1e3);
    }
    ls_table_print(&table, file);
    ls_table_free(&table);
    return LS_SUCCESS;
}

static void print_head(const ls_cost_findings *f, FILE *file) {
    const ls_cost_update *u = f->update;
    const ls_batches *b = &u->batches;
    char memory[24], cache[24], fp32[24], half[24];
    fprintf(file, "predicted, not measured: %s on %s, %s, %d images an update (%d x %d)\n", u->graph->path,
        f->machine->name, ls_config_choice("train.precision", u->cfg->train_precision), b->global_batch, b->per_rank,
        b->micro_batch);
    fprintf(file, "figures: memory %sB/s, cache %sB/s, products in fp32 %sFLOP/s", amount(f->machine->memory, memory),
        amount(f->machine->cache, cache), amount(f->machine->fp32_rate, fp32));
    if (f->gpu)
        fprintf(
            file, ", in 16 bits %sFLOP/s; %s\n", amount(f->machine->half_rate, half), "published (cost_devices.def)");
    else
        fprintf(file, "; measured now\n");
}

ls_status ls_cost_print(const ls_cost_findings *f, FILE *file) {
    const total all = of_all(f);
    print_head(f, file);
    LS_TRY(print_operators(f, file));
    fputc('\n', file);
    LS_TRY(print_layers(f, file));
    fputc('\n', file);
    LS_TRY(print_kinds(f, file));
    fprintf(file, "%.3f ms an update, %.0f images/s; %d launches, %.3f ms of gaps between them\n",
        f->point->update_s * 1e3, f->point->images_per_second, all.launches, all.gaps * 1e3);
    if (f->point->copy_s >= f->point->update_s)
        fprintf(file, "bound by the pictures' way from the host: %.3f ms an update\n", f->point->copy_s * 1e3);
    if (!f->gpu) return ls_command_flush(file);
    fprintf(file, "\nover several GPUs, by %s inside a host of at most %d and %s between hosts:\n",
        ls_link_name(f->gpu->inside), f->gpu->per_host, ls_link_name(f->gpu->between));
    LS_TRY(print_points(f, file));
    return ls_command_flush(file);
}

// --- JSON -----------------------------------------------------------------------------------------

static void add_figures(const ls_cost_findings *f, cJSON *tree) {
    const ls_cost_machine *m = f->machine;
    cJSON *item = ls_json_add_object(tree, "figures");
    ls_json_add_real(item, "memory_bytes_per_second", m->memory);
    ls_json_add_real(item, "cache_bytes_per_second", m->cache);
    ls_json_add_real(item, "cache_bytes", m->cache_bytes);
    ls_json_add_real(item, "fp32_flops_per_second", m->fp32_rate);
    ls_json_add_real(item, "half_flops_per_second", m->half_rate);
    ls_json_add_real(item, "vector_flops_per_second", m->vector_rate);
    ls_json_add_real(item, "gap_seconds", m->gap_s);
    ls_json_add_real(item, "shortest_launch_seconds", m->shortest_s);
    ls_json_add_real(item, "grid_wait_seconds", m->grid_wait_s);
    if (!f->gpu) return;
    ls_json_add_text(item, "link_inside", ls_link_name(f->gpu->inside));
    ls_json_add_text(item, "link_between", ls_link_name(f->gpu->between));
}

static void add_operator(const ls_cost_findings *f, int index, cJSON *list) {
    const ls_cost_item *item = &f->update->items[index];
    const ls_cost_time *t = &f->times[index];
    char reason[REASON_BYTES];
    cJSON *row = cJSON_CreateObject();
    reason_of(f, index, reason);
    ls_json_add_text(row, "operator", item->op);
    ls_json_add_text(row, "layer", item->layer);
    ls_json_add_text(row, "algorithm", item->algorithm);
    ls_json_add_text(row, "kind", ls_op_kind_name(item->kind));
    ls_json_add_int(row, "times", times_of(f, item));
    ls_json_add_int(row, "launches", item->launches);
    ls_json_add_int(row, "grid_waits", item->grid_waits);
    ls_json_add_real(row, "flops", item->flops);
    ls_json_add_real(row, "work_flops", item->work);
    ls_json_add_real(row, "memory_bytes", t->memory_bytes);
    ls_json_add_real(row, "cache_bytes", t->cache_bytes);
    ls_json_add_real(row, "memory_seconds", t->part_s[LS_COST_BY_MEMORY]);
    ls_json_add_real(row, "arithmetic_seconds", t->part_s[LS_COST_BY_ARITHMETIC]);
    ls_json_add_real(row, "launch_seconds", t->part_s[LS_COST_BY_LAUNCHES]);
    ls_json_add_real(row, "seconds", t->seconds);
    ls_json_add_text(row, "bound", ls_cost_bound_name(t->bound));
    ls_json_add_text(row, "reason", reason);
    ls_json_append(list, row);
}

static void add_point(const ls_cost_point *p, cJSON *list) {
    cJSON *row = cJSON_CreateObject();
    ls_json_add_int(row, "ranks", p->ranks);
    ls_json_add_int(row, "hosts", p->hosts);
    ls_json_add_text(row, "scaling", p->weak ? "weak" : "strong");
    ls_json_add_int(row, "global_batch", p->global_batch);
    ls_json_add_int(row, "micro_batch", p->micro_batch);
    ls_json_add_int(row, "accumulation_steps", p->accumulation);
    ls_json_add_real(row, "update_seconds", p->update_s);
    ls_json_add_real(row, "images_per_second", p->images_per_second);
    ls_json_add_real(row, "speed_up", p->speed_up);
    ls_json_add_real(row, "efficiency", p->efficiency);
    ls_json_add_real(row, "compute_seconds", p->compute_s);
    ls_json_add_real(row, "end_seconds", p->end_s);
    ls_json_add_int(row, "buckets", p->buckets);
    ls_json_add_real(row, "bucket_bytes", p->bucket_bytes);
    ls_json_add_real(row, "reduced_bytes_per_update", p->reduced_bytes);
    ls_json_add_real(row, "sums_seconds", p->sums_s);
    ls_json_add_real(row, "exposed_seconds", p->exposed_s);
    ls_json_add_real(row, "input_copy_seconds", p->copy_s);
    ls_json_append(list, row);
}

static cJSON *json_of(const ls_cost_findings *f) {
    const ls_cost_update *u = f->update;
    cJSON *tree = cJSON_CreateObject();
    const total all = of_all(f);
    ls_json_add_int(tree, "schema", SCHEMA);
    ls_json_add_bool(tree, "predicted", 1);
    ls_json_add_text(tree, "version", ls_version());
    ls_json_add_text(tree, "device", f->word);
    ls_json_add_text(tree, "device_name", f->machine->name);
    add_figures(f, tree);
    ls_json_add_text(tree, "config", u->cfg->file);
    ls_json_add_text(tree, "model", u->graph->path);
    ls_json_add_text(tree, "precision", ls_config_choice("train.precision", u->cfg->train_precision));
    ls_json_add_int(tree, "parameters", u->parameters);
    ls_json_add_int(tree, "global_batch", u->batches.global_batch);
    ls_json_add_int(tree, "micro_batch", u->batches.micro_batch);
    ls_json_add_int(tree, "accumulation_steps", u->batches.per_rank);
    ls_json_add_int(tree, "launches", all.launches);
    ls_json_add_real(tree, "gap_seconds", all.gaps);
    ls_json_add_real(tree, "update_seconds", f->point->update_s);
    ls_json_add_real(tree, "images_per_second", f->point->images_per_second);
    cJSON *kinds = ls_json_add_object(tree, "kind_seconds");
    for (int k = 0; k < LS_OP_KIND_COUNT; k++)
        ls_json_add_real(kinds, ls_op_kind_name((ls_op_kind)k), of_kind(f, k).seconds);
    cJSON *bounds = ls_json_add_object(tree, "bound_seconds");
    for (int b = 0; b < LS_COST_BOUNDS; b++) ls_json_add_real(bounds, ls_cost_bound_name((ls_cost_bound)b), all.by[b]);
    cJSON *list = ls_json_add_array(tree, "instructions");
    for (int i = 0; i < u->item_count; i++) add_operator(f, i, list);
    list = ls_json_add_array(tree, "points");
    for (int i = 0; i < f->point_count; i++) add_point(&f->points[i], list);
    return tree;
}

ls_status ls_cost_print_json(const ls_cost_findings *f, FILE *file) {
    cJSON *tree = json_of(f);
    char *text = ls_json_text(tree, 1);
    if (text) fprintf(file, "%s\n", text);
    ls_status status = text ? ls_command_flush(file) : ls_no_memory(0, "prediction");
    cJSON_free(text);
    cJSON_Delete(tree);
    return status;
}
