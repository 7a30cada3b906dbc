#include "run/run_parts.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/version.h"

// Returns a member as a count; 0: missing or impossible. Numbers that this process has added are raw JSON texts.
static double number(const cJSON *object, const char *name) {
    const cJSON *item = ls_json_get(object, name);
    double value = cJSON_IsNumber(item) ? item->valuedouble : cJSON_IsRaw(item) ? strtod(item->valuestring, NULL) : 0;
    return value >= 0 && value < 0x1p53 ? value : 0;
}

static const char *text(const cJSON *object, const char *name) {
    const char *value = ls_json_get_text(object, name);
    return value ? value : "";
}

// Returns a copy of the manifest's parts. For an earlier version's manifest, one part is made from its other members.
static cJSON *parts_before(const cJSON *manifest) {
    const cJSON *parts = ls_json_get(manifest, "parts");
    if (cJSON_IsArray(parts)) return cJSON_Duplicate(parts, 1);
    cJSON *list = cJSON_CreateArray();
    if (!manifest) return list;
    const cJSON *batches = ls_json_get(manifest, "batches");
    cJSON *part = ls_json_append(list, cJSON_CreateObject());
    ls_json_add_int(part, "after_update", 0);
    ls_json_add_text(part, "version", text(manifest, "program"));
    ls_json_add_text(part, "device", text(manifest, "device"));
    ls_json_add_int(part, "world_size", (int64_t)number(batches, "world_size"));
    ls_json_add_int(part, "micro_batch", (int64_t)number(batches, "micro_batch"));
    return list;
}

cJSON *ls_run_parts_new(
    const ls_train_info *info, const cJSON *manifest, const ls_train_counters *counters, cJSON *changed) {
    cJSON *list = parts_before(manifest), *part = ls_json_append(list, cJSON_CreateObject());
    ls_json_add_text(part, "run", info->run.id);
    ls_json_add_int(part, "after_update", counters ? counters->update : 0);
    ls_json_add_int(part, "samples_before", counters ? counters->samples : 0);
    ls_json_add_real(part, "seconds_before", counters ? counters->seconds : 0);
    ls_json_add_real(part, "started", ls_clock_unix_seconds());
    ls_json_add_text(part, "version", ls_version());
    ls_json_add_text(part, "device", info->device);
    ls_json_add_text(part, "device_name", info->device_info.name);
    ls_json_add_int(part, "world_size", info->comm->world_size);
    ls_json_add_int(part, "threads_per_rank", info->threads);
    ls_json_add_int(part, "micro_batch", info->batches.micro_batch);
    ls_json_add_int(part, "accumulation_steps", info->batches.per_rank);
    if (info->init.path[0]) {
        cJSON *init = ls_json_add_object(part, "init");
        ls_json_add_text(init, "file", info->init.path);
        ls_json_add_hash(init, "hash", info->init.hash);
        ls_json_add_int(init, "tensors_taken", info->init.taken);
        ls_json_add_int(init, "tensors", info->init.all);
    }
    if (cJSON_GetArraySize(changed) > 0)
        ls_json_add_item(part, "changed", changed);
    else
        cJSON_Delete(changed);
    return list;
}

static int differs(const cJSON *a, const cJSON *b) {
    return ls_json_get(b, "changed") || strcmp(text(a, "device"), text(b, "device")) != 0 ||
           number(a, "world_size") != number(b, "world_size") || number(a, "micro_batch") != number(b, "micro_batch");
}

// Writes `before` and a text. Control characters become '?', so that the text stays within its comment line.
static void write_text(const char *before, const char *value, FILE *file) {
    fputs(before, file);
    for (; *value; value++) fputc((unsigned char)*value < ' ' ? '?' : *value, file);
}

static void write_part(const cJSON *part, const char *before, FILE *file) {
    const cJSON *change;
    double ranks = number(part, "world_size");
    fprintf(file, "; %s%.0f rank%s", before, ranks, ranks == 1 ? "" : "s");
    write_text(" on ", text(part, "device"), file);
    fprintf(file, ", micro-batches of %.0f", number(part, "micro_batch"));
    cJSON_ArrayForEach(change, ls_json_get(part, "changed")) {
        write_text("; ", text(change, "option"), file);
        write_text(" ", text(change, "before"), file);
        write_text(", now ", text(change, "now"), file);
    }
    fputc('\n', file);
}

void ls_run_parts_write(const ls_train_info *info, FILE *file) {
    const cJSON *part, *first = info->parts ? info->parts->child : NULL, *last = first;
    int alike = 1;
    for (; last && last->next; last = last->next) alike &= !differs(last, last->next);
    fprintf(file, "; Options of run %s, by which it trains:\n", info->run.id);
    if (last) write_part(last, "", file);
    if (alike) {
        fputs("; The same ranks and device repeat it by this file, unless summary.json names parts with other "
              "options.\n\n",
            file);
        return;
    }
    fputs("; No file repeats this run: it went on in parts that are not alike.\n", file);
    cJSON_ArrayForEach(part, info->parts) {
        char before[64];
        snprintf(before, sizeof before, "  after update %.0f: ", number(part, "after_update"));
        write_part(part, before, file);
    }
    fputc('\n', file);
}
