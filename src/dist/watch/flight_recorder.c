#include "dist/watch/flight_recorder.h"

#include <stdio.h>
#include "base/clock.h"

static const char *const kind_names[] = { [LS_IN_BUCKET] = "bucket",
    [LS_IN_ALLREDUCE] = "all-reduce",
    [LS_IN_BROADCAST] = "broadcast",
    [LS_IN_ALLGATHER] = "all-gather",
    [LS_IN_BARRIER] = "barrier" };

void ls_flight_recorder_init(ls_flight_recorder *recorder) {
    atomic_store(&recorder->begun, 0);
    atomic_store(&recorder->ended, 0);
    for (int i = 0; i < LS_FLIGHT_RECORDER_ENTRIES; i++) atomic_store(&recorder->slot[i].number, -1);
}

int64_t ls_flight_recorder_begins(
    ls_flight_recorder *recorder, ls_collective_kind kind, int bucket, int64_t bytes, int64_t update) {
    int64_t number = (int64_t)atomic_fetch_add(&recorder->begun, 1);
    ls_flight_recorder_slot *slot = &recorder->slot[number % LS_FLIGHT_RECORDER_ENTRIES];
    atomic_store(&slot->number, -1);
    atomic_store(&slot->kind, (int)kind);
    atomic_store(&slot->bucket, bucket);
    atomic_store(&slot->bytes, bytes);
    atomic_store(&slot->update, update);
    atomic_store(&slot->launched_s, ls_clock_seconds());
    atomic_store(&slot->ended_s, 0);
    atomic_store(&slot->number, number);
    return number;
}

void ls_flight_recorder_ends(ls_flight_recorder *recorder, int64_t number) {
    ls_flight_recorder_slot *slot = &recorder->slot[number % LS_FLIGHT_RECORDER_ENTRIES];
    // If more collectives are in flight than slots exist, another one may own the slot: then only the count changes.
    if ((int64_t)atomic_load(&slot->number) == number) atomic_store(&slot->ended_s, ls_clock_seconds());
    atomic_fetch_add(&recorder->ended, 1);
}

void ls_flight_recorder_bucket_ends(ls_flight_recorder *recorder, int bucket) {
    int64_t begun = (int64_t)atomic_load(&recorder->begun);
    for (int64_t n = begun - 1; n >= 0 && n >= begun - LS_FLIGHT_RECORDER_ENTRIES; n--) {
        ls_flight_recorder_entry e;
        if (!ls_flight_recorder_read(recorder, n, &e) || e.kind != LS_IN_BUCKET || e.bucket != bucket || e.ended_s > 0)
            continue;
        ls_flight_recorder_ends(recorder, n);
        return;
    }
    atomic_fetch_add(&recorder->ended, 1); // its slot was reused: more collectives are in flight than slots
}

int ls_flight_recorder_read(ls_flight_recorder *recorder, int64_t number, ls_flight_recorder_entry *entry) {
    if (number < 0) return 0;
    ls_flight_recorder_slot *slot = &recorder->slot[number % LS_FLIGHT_RECORDER_ENTRIES];
    if ((int64_t)atomic_load(&slot->number) != number) return 0;
    *entry = (ls_flight_recorder_entry){ .number = number,
        .kind = (ls_collective_kind)atomic_load(&slot->kind),
        .bucket = atomic_load(&slot->bucket),
        .bytes = (int64_t)atomic_load(&slot->bytes),
        .update = (int64_t)atomic_load(&slot->update),
        .launched_s = atomic_load(&slot->launched_s),
        .ended_s = atomic_load(&slot->ended_s) };
    return (int64_t)atomic_load(&slot->number) == number; // 0: overwritten meanwhile
}

const char *ls_flight_recorder_describe(char *text, int bytes, int kind, int bucket) {
    const int kinds = (int)(sizeof kind_names / sizeof kind_names[0]);
    const char *name = kind >= 0 && kind < kinds ? kind_names[kind] : "?";
    snprintf(text, (size_t)bytes, kind == LS_IN_BUCKET ? "%s %d" : "%s", name, bucket);
    return text;
}
