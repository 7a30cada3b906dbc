#include "run/run_time.h"

#include <math.h>
#include <stddef.h>

// The members of ls_run_time that are parts of `seconds`, in the order in which they are written.
static const struct {
    const char *name;
    size_t offset;
} parts[] = { { "compute", offsetof(ls_run_time, compute) }, { "loader_wait", offsetof(ls_run_time, loader_wait) },
    { "communication_exposed", offsetof(ls_run_time, communication) },
    { "evaluation", offsetof(ls_run_time, evaluation) }, { "checkpoint", offsetof(ls_run_time, checkpoint) } };
enum { PARTS = sizeof parts / sizeof *parts };

static double *part_of(ls_run_time *time, int part) {
    return (double *)(void *)((char *)time + parts[part].offset);
}

static double micro(double seconds) {
    return round(1e6 * seconds) / 1e6; // a quotient of integers is the double nearest to the decimal number
}

static void add_seconds(cJSON *object, const char *name, double seconds) {
    ls_json_add_real(object, name, micro(seconds));
}

void ls_run_time_json(const ls_run_time *time, cJSON *object) {
    ls_run_time t = *time;
    double other = micro(t.seconds);
    add_seconds(object, "seconds", t.seconds);
    for (int p = 0; p < PARTS; p++) {
        add_seconds(object, parts[p].name, *part_of(&t, p));
        other -= micro(*part_of(&t, p));
    }
    add_seconds(object, "other", fmax(0, other));
    if (t.kinds_known) {
        cJSON *kinds = ls_json_add_object(object, "compute_by_kind");
        for (int k = 0; k < LS_OP_KIND_COUNT; k++)
            if (t.kind[k] > 0) add_seconds(kinds, ls_op_kind_name((ls_op_kind)k), t.kind[k]);
    }
    if (!isnan(t.enqueue)) add_seconds(object, "enqueue", t.enqueue);
    add_seconds(object, "core_wait", t.core_wait);
}

// Reads a member in seconds into *seconds, if it exists. Returns 0 if the member is not a possible time, else 1.
static int read_seconds(const cJSON *object, const char *name, double *seconds) {
    const cJSON *item = ls_json_get(object, name);
    if (!item) return 1;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 1e12)) return 0;
    *seconds = item->valuedouble;
    return 1;
}

int ls_run_time_read(const cJSON *object, ls_run_time *time) {
    *time = (ls_run_time){ .seconds = NAN, .enqueue = NAN };
    int good = cJSON_IsObject(object) && read_seconds(object, "seconds", &time->seconds) && !isnan(time->seconds);
    for (int p = 0; p < PARTS; p++) good = good && read_seconds(object, parts[p].name, part_of(time, p));
    const cJSON *kinds = ls_json_get(object, "compute_by_kind");
    time->kinds_known = kinds != NULL;
    for (int k = 0; k < LS_OP_KIND_COUNT; k++)
        good = good && read_seconds(kinds, ls_op_kind_name((ls_op_kind)k), &time->kind[k]);
    return good && read_seconds(object, "enqueue", &time->enqueue) &&
           read_seconds(object, "core_wait", &time->core_wait);
}

// --- room ----------------------------------------------------------------------------------------

void ls_run_room_json(const ls_run_room *room, cJSON *object) {
    ls_json_add_real(object, "cores", room->cores);
    ls_json_add_int(object, "threads", room->threads);
    ls_json_add_int(object, "memory_bytes", (int64_t)room->memory_bytes);
    ls_json_add_int(object, "activation_bytes", (int64_t)room->activation_bytes);
}

static double read_number(const cJSON *object, const char *name, double most) {
    const cJSON *item = ls_json_get(object, name);
    return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble <= most ? item->valuedouble : 0;
}

void ls_run_room_read(const cJSON *object, ls_run_room *room) {
    int64_t threads;
    if (!ls_json_whole(ls_json_get(object, "threads"), 1 << 20, &threads)) threads = 0;
    *room = (ls_run_room){ .cores = read_number(object, "cores", 1e6),
        .threads = (int)threads,
        .memory_bytes = read_number(object, "memory_bytes", 1e18),
        .activation_bytes = read_number(object, "activation_bytes", 1e18) };
}
