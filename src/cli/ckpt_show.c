// ckpt_show.c - `train ckpt show PATH...`: everything about one checkpoint, or a table of a run's checkpoints.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/ckpt.h"
#include "run/checkpoint.h"
#include "command/report.h"
#include "run/manifest.h"

// --- one checkpoint ------------------------------------------------------------------------------

static void print_value(const cJSON *item) {
    if (cJSON_IsString(item))
        ls_text_print(stdout, item->valuestring);
    else if (cJSON_IsNumber(item))
        printf("%.17g", item->valuedouble);
    else
        fputs(cJSON_IsNull(item) ? "not finite" : "?", stdout);
}

// Prints a section of the manifest as a line, such as "cursor      epoch 1, window 1, update 6, samples 251".
static void print_section(const cJSON *manifest, const char *name) {
    const cJSON *item;
    int count = 0;
    printf("%-12s", name);
    cJSON_ArrayForEach(item, ls_json_get(manifest, name)) {
        if (count++) fputs(", ", stdout);
        ls_text_print(stdout, item->string);
        putchar(' ');
        print_value(item);
    }
    putchar('\n');
}

static void print_text(const cJSON *manifest, const char *name) {
    printf("%-12s", name);
    print_value(ls_json_get(manifest, name));
    putchar('\n');
}

static void print_time(const cJSON *manifest) {
    const cJSON *written = ls_json_get(manifest, "written");
    if (!cJSON_IsNumber(written) || !(written->valuedouble >= 0 && written->valuedouble < 1e11)) return;
    time_t seconds = (time_t)written->valuedouble;
    struct tm parts;
    char text[64];
    if (gmtime_r(&seconds, &parts) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts))
        printf("%-12s%s\n", "written", text);
}

static void print_config(const cJSON *manifest) {
    const cJSON *item;
    puts("config");
    cJSON_ArrayForEach(item, ls_json_get(manifest, "config")) {
        if (!cJSON_IsString(item) || !item->valuestring[0]) continue;
        fputs("  ", stdout);
        ls_text_print(stdout, item->string);
        fputs(" = ", stdout);
        ls_text_print(stdout, item->valuestring);
        putchar('\n');
    }
}

// Prints a line for each part of the run:
// "  after_update 100, world_size 2, micro_batch 32, device cpu, version 0.1.0; optimizer.lr 0.05, now 0.01".
static void print_parts(const cJSON *manifest) {
    static const char *const names[] = { "after_update", "world_size", "micro_batch", "device", "version" };
    const cJSON *part, *change;
    if (!ls_json_get(manifest, "parts")) return;
    puts("parts");
    cJSON_ArrayForEach(part, ls_json_get(manifest, "parts")) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            printf("%s%s ", i ? ", " : "  ", names[i]);
            print_value(ls_json_get(part, names[i]));
        }
        cJSON_ArrayForEach(change, ls_json_get(part, "changed")) {
            fputs("; ", stdout);
            print_value(ls_json_get(change, "option"));
            putchar(' ');
            print_value(ls_json_get(change, "before"));
            fputs(", now ", stdout);
            print_value(ls_json_get(change, "now"));
        }
        putchar('\n');
    }
}

static void print_manifest(const cJSON *manifest) {
    static const char *const sections[] = { "network", "data", "validation_data", "test_data", "batches", "random",
        "cursor", "update", "sums", "evaluation" };
    const cJSON *version = ls_json_get(manifest, "format_version");
    printf("%-12s", "format");
    print_value(ls_json_get(manifest, "format"));
    printf(", version %g\n", cJSON_IsNumber(version) ? version->valuedouble : 0);
    if (ls_manifest_run(manifest)[0]) print_text(manifest, "run");
    print_text(manifest, "program");
    print_text(manifest, "libraries");
    print_text(manifest, "device");
    print_time(manifest);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (ls_json_get(manifest, sections[i])) print_section(manifest, sections[i]);
    print_parts(manifest);
    print_config(manifest);
}

// Prints size and hash of a file, and a line for each tensor: "  c1.weight      fp32  (8, 3, 3, 3)  f33abfcf2c10d0fe".
static void print_tensors(const cJSON *manifest, const char *name, const ls_safetensors *file) {
    ls_safetensors_digest digest = ls_safetensors_digest_of(file);
    char bytes[32];
    const cJSON *entry, *hashes = NULL;
    cJSON_ArrayForEach(entry, ls_json_get(manifest, "files")) {
        const char *text = ls_json_get_text(entry, "name");
        if (text && strcmp(text, name) == 0) hashes = ls_json_get(entry, "tensors");
    }
    printf("%s  %s, hash %016llx\n", name, ls_text_bytes(bytes, digest.bytes), (unsigned long long)digest.hash);
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        ls_safetensors_tensor tensor;
        if (!ls_safetensors_get(file, i, &tensor)) continue; // of a type that checkpoints do not have
        char shape[200] = "";
        for (int d = 0; d < tensor.rank; d++) {
            size_t used = strlen(shape);
            snprintf(shape + used, sizeof shape - used, "%s%lld", d ? ", " : "", (long long)tensor.dim[d]);
        }
        const char *hash = ls_json_get_text(hashes, tensor.name);
        printf("  %-32s %s  (%s)  %s\n", tensor.name, ls_dtype_name(tensor.dtype), shape, hash ? hash : "");
    }
}

// Prints everything about one checkpoint; of a damaged one its manifest, if that can be read. LS_STORAGE: it is
// damaged, with the reason.
static ls_status show_one(const char *path) {
    cJSON *manifest = NULL;
    ls_train_counters counters;
    ls_checkpoint *checkpoint = NULL;
    ls_status status = ls_checkpoint_read(path, &checkpoint);
    if (ls_failed(status) && status.code != LS_STORAGE) return status;
    printf("%-12s%s\n%-12s%s\n", "checkpoint", path, "state", ls_failed(status) ? "damaged" : "good");
    if (checkpoint) {
        print_manifest(checkpoint->manifest);
        print_tensors(checkpoint->manifest, "weights.safetensors", checkpoint->weights);
        print_tensors(checkpoint->manifest, "state.safetensors", checkpoint->state);
    } else if (!ls_failed(ls_checkpoint_read_manifest(path, &manifest, &counters))) {
        print_manifest(manifest);
    }
    ls_checkpoint_free(checkpoint);
    cJSON_Delete(manifest);
    return status;
}

// --- several checkpoints -------------------------------------------------------------------------

typedef struct {
    ls_status status;
    ls_train_counters counters; // known if status is LS_OK
    int64_t bytes;              // size of both tensor files; known if status is LS_OK
} row;

// Returns the accuracy after the checkpoint's last update, or -1 if that is not known.
static double accuracy_of(const row *r) {
    const ls_train_evaluation *e = &r->counters.evaluation;
    return !ls_failed(r->status) && e->update == r->counters.update ? ls_train_evaluation_accuracy(e) : -1;
}

static ls_status read_row(const char *path, row *r) {
    ls_checkpoint *checkpoint = NULL;
    r->status = ls_checkpoint_read(path, &checkpoint);
    if (ls_failed(r->status)) return r->status.code == LS_STORAGE ? LS_SUCCESS : r->status;
    r->counters = checkpoint->counters;
    r->bytes = (int64_t)(ls_safetensors_digest_of(checkpoint->weights).bytes +
                         ls_safetensors_digest_of(checkpoint->state).bytes);
    ls_checkpoint_free(checkpoint);
    return LS_SUCCESS;
}

static void fill_table(const ls_checkpoint_list *list, const row *rows, ls_table *t) {
    static const char *const head[] = { "checkpoint", "update", "epoch", "loss scale", "test accuracy", "bytes",
        "state", "" };
    int newest = -1, best = -1;
    for (int i = 0; i < list->count; i++) {
        if (ls_failed(rows[i].status)) continue;
        newest = i;
        if (accuracy_of(&rows[i]) >= 0 && (best < 0 || accuracy_of(&rows[i]) >= accuracy_of(&rows[best]))) best = i;
    }
    for (int c = 0; c < t->columns; c++) ls_table_put(t, 0, c, "%s", head[c]);
    if (best >= 0 && rows[best].counters.evaluation.val_samples > 0) ls_table_put(t, 0, 4, "validation accuracy");
    for (int i = 0; i < list->count; i++) {
        const char *slash = strrchr(list->paths[i], '/');
        ls_table_put(t, i + 1, 0, "%s", slash ? slash + 1 : list->paths[i]);
        ls_table_put(t, i + 1, 6, "%s", ls_failed(rows[i].status) ? "damaged" : "good");
        ls_table_put(t, i + 1, 7, "%s%s%s", i == newest ? "newest" : "", i == newest && i == best ? ", " : "",
            i == best ? "best" : "");
        if (ls_failed(rows[i].status)) continue;
        ls_table_put(t, i + 1, 1, "%lld", (long long)rows[i].counters.update);
        ls_table_put(t, i + 1, 2, "%lld", (long long)rows[i].counters.epoch);
        ls_table_put(t, i + 1, 3, "%g", rows[i].counters.loss_scale);
        if (accuracy_of(&rows[i]) >= 0) ls_table_put(t, i + 1, 4, "%.4f", accuracy_of(&rows[i]));
        ls_table_put(t, i + 1, 5, "%lld", (long long)rows[i].bytes);
    }
}

static ls_status show_rows(const ls_checkpoint_list *list, row *rows) {
    ls_table table;
    int damaged = 0;
    for (int i = 0; i < list->count; i++) {
        LS_TRY(read_row(list->paths[i], &rows[i]));
        damaged += ls_failed(rows[i].status);
    }
    LS_TRY(ls_table_new(8, list->count + 1, &table));
    fill_table(list, rows, &table);
    ls_table_print(&table, stdout);
    ls_table_free(&table);
    if (!damaged) return LS_SUCCESS;
    return ls_fail(LS_STORAGE, "%d of %d checkpoints %s damaged ('train ckpt verify' says why)", damaged, list->count,
        damaged == 1 ? "is" : "are");
}

static ls_status show_list(const ls_checkpoint_list *list) {
    row *rows = ls_new(list->count, sizeof *rows, "list of checkpoints");
    ls_status status = show_rows(list, rows);
    free(rows);
    return status;
}

ls_status ls_ckpt_show(const char *const *paths, int count) {
    ls_status first = LS_SUCCESS;
    for (int p = 0; p < count; p++) {
        ls_checkpoint_list list;
        LS_TRY(ls_checkpoint_list_find(paths[p], &list));
        ls_status status = list.one ? show_one(list.paths[0]) : show_list(&list);
        ls_checkpoint_list_free(&list);
        if (ls_failed(status) && status.code != LS_STORAGE) return status;
        ls_keep_first(&first, status);
    }
    return first;
}
