#include "run/startup_times.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"

static int find(const ls_startup_times *times, const char *name) {
    for (int i = 0; i < times->count; i++)
        if (strcmp(times->phase[i].name, name) == 0) return i;
    return -1;
}

static int add(ls_startup_times *times, const char *name) {
    snprintf(times->phase[times->count].name, sizeof times->phase[0].name, "%s", name);
    return times->count++;
}

static void count_until_now(ls_startup_times *times) {
    const double now_s = ls_clock_since_start();
    times->phase[times->now].seconds += now_s - times->since_s;
    times->since_s = now_s;
}

void ls_startup_enter(ls_startup_times *times, const char *name) {
    if (times->ended) return;
    if (times->count == 0) times->now = add(times, "process"); // since_s is 0: the start of the process
    const int known = find(times, name);
    if (known == times->now || (known < 0 && times->count == LS_STARTUP_PHASES)) return;
    count_until_now(times);
    times->now = known < 0 ? add(times, name) : known;
}

void ls_startup_end(ls_startup_times *times) {
    if (times->ended || times->count == 0) return;
    count_until_now(times);
    times->ended = 1;
}

void ls_startup_json(const ls_startup_times *times, cJSON *object) {
    for (int i = 0; i < times->count; i++) ls_json_add_real(object, times->phase[i].name, times->phase[i].seconds);
}
