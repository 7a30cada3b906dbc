// facts.c - the facts of a rank as JSON and in words. The printed report, its JSON and the table of differences between
// ranks all use this list.
#include "tools/doctor/facts.h"

#include <stdlib.h>
#include <string.h>
#include "base/text.h"

static void add_number(cJSON *object, const char *name, int64_t value) {
    if (value >= 0)
        ls_json_add_int(object, name, value);
    else if (value == LS_FACTS_UNLIMITED)
        ls_json_add_text(object, name, "unlimited");
    else
        ls_json_add_null(object, name);
}

static void add_libraries(cJSON *object, const char *name, const ls_facts_library *rows, int most) {
    cJSON *list = ls_json_add_array(object, name);
    for (int i = 0; i < most && rows[i].name[0]; i++) {
        cJSON *library = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_known(library, "name", rows[i].name);
        ls_json_add_known(library, "version", rows[i].version);
        ls_json_add_known(library, "path", rows[i].path);
    }
}

void ls_facts_json(const ls_facts *f, cJSON *rank) {
    static const char *const limits[] = {
#define LIMIT_NAME(NAME, resource, text) text,
        LS_FACTS_LIMITS(LIMIT_NAME)
#undef LIMIT_NAME
    };
    ls_json_add_int(rank, "rank", f->rank);
    ls_json_add_known(rank, "host", f->host);
    ls_json_add_int(rank, "ranks_of_host", f->local_size);
    ls_json_add_known(rank, "program", f->version);
    ls_json_add_known(rank, "build", f->build);
    ls_json_add_known(rank, "mpi", f->mpi);
    ls_json_add_known(rank, "started_by", f->started_by);
    ls_json_add_known(rank, "kernel", f->kernel);
    ls_json_add_known(rank, "container", f->container);
    ls_json_add_bool(rank, "root", f->is_root);
    ls_json_add_known(rank, "processor", f->model);
    ls_json_add_known(rank, "instructions", f->features);
    ls_json_add_int(rank, "cores", f->mask_cores);
    ls_json_add_known(rank, "mask", f->mask);
    ls_json_add_int(rank, "processors_of_host", f->host_cpus);
    f->quota > 0 ? ls_json_add_real(rank, "quota", f->quota) : ls_json_add_null(rank, "quota");
    ls_json_add_int(rank, "threads", f->threads);
    ls_json_add_int(rank, "memory_nodes", f->numa_nodes);
    add_number(rank, "memory_bytes", f->memory);
    add_number(rank, "memory_available_bytes", f->memory_available);
    add_number(rank, "memory_limit_bytes", f->memory_limit);
    add_number(rank, "shm_bytes", f->shm);
    add_number(rank, "shm_free_bytes", f->shm_free);
    ls_json_add_known(rank, "folder", f->folder);
    ls_json_add_known(rank, "file_system", f->file_system);
    add_number(rank, "folder_free_bytes", f->disk_free);
    cJSON *limit = ls_json_add_object(rank, "limits");
    for (int i = 0; i < LS_FACTS_LIMIT_COUNT; i++) add_number(limit, limits[i], f->limit[i]);
    cJSON *variables = ls_json_add_array(rank, "variables");
    for (int i = 0; i < LS_FACTS_VARIABLES_MAX && f->variable[i][0]; i++)
        ls_json_append(variables, ls_json_string(f->variable[i]));
    ls_json_add_int(rank, "gpus", f->gpus);
    ls_json_add_known(rank, "gpu", f->gpu);
    ls_json_add_known(rank, "driver", f->driver);
    add_libraries(rank, "libraries", f->library, LS_FACTS_LIBRARIES_MAX);
}

void ls_facts_launchers_json(const ls_facts *f, cJSON *object) {
    add_libraries(object, "launchers", f->launcher, LS_FACTS_LAUNCHERS_MAX);
    ls_json_add_known(object, "srun", f->srun);
    ls_json_add_known(object, "srun_speaks", f->srun_speaks);
}

// --- in words ------------------------------------------------------------------------------------

// Passes one fact to `take`. A name that ends in _bytes is a size: "memory_free_bytes" is passed as "memory free".
static void take_value(const char *name, const cJSON *item, ls_facts_take take, void *context) {
    char words[64], value[LS_FACTS_PATH_BYTES];
    const size_t length = strlen(name);
    const int in_bytes = length > 6 && strcmp(name + length - 6, "_bytes") == 0;
    ls_text_cut(words, sizeof words, "%.*s", (int)(in_bytes ? length - 6 : length), name);
    for (char *at = words; (at = strchr(at, '_'));) *at = ' ';
    const char *text = cJSON_GetStringValue(item), *raw = cJSON_IsRaw(item) ? item->valuestring : NULL;
    if (raw && in_bytes)
        ls_text_bytes(value, strtoull(raw, NULL, 10));
    else
        ls_text_cut(value, sizeof value, "%s", text ? text : raw ? raw : cJSON_IsTrue(item) ? "yes" : "none");
    take(context, words, value, "");
}

// Passes one item of a list to `take`: a library or launcher, which has a name, or an environment variable.
static void take_item(const char *list, const cJSON *item, ls_facts_take take, void *context) {
    const char *name = ls_json_get_text(item, "name"), *version = ls_json_get_text(item, "version");
    const char *path = ls_json_get_text(item, "path");
    if (name)
        take(context, name, version ? version : "none", path ? path : "");
    else
        take_value(list, item, take, context);
}

void ls_facts_each(const cJSON *object, ls_facts_take take, void *context) {
    const cJSON *member, *item;
    cJSON_ArrayForEach(member, object) {
        if (!cJSON_IsArray(member) && !cJSON_IsObject(member)) {
            take_value(member->string, member, take, context);
            continue;
        }
        cJSON_ArrayForEach(item, member) {
            if (cJSON_IsArray(member))
                take_item(member->string, item, take, context);
            else
                take_value(item->string, item, take, context);
        }
    }
}
