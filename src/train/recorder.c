#include "train/recorder.h"

#include <stdlib.h>
#include "base/trace.h"

enum { LIMIT = 64 }; // pieces of work; a run has a handful

typedef struct {
    ls_recorder_key key;
    ls_recording *recording; // NULL: it ran once
} entry;

struct ls_recorder {
    ls_queue *queue;
    const ls_device_api *api;
    int record, count;
    entry entries[LIMIT];
};

ls_status ls_recorder_new(ls_queue *queue, const ls_device_api *api, int record, ls_recorder **out) {
    ls_recorder *r = calloc(1, sizeof *r);
    if (!r) return ls_fail(LS_DEVICE, "out of host memory for the recorder");
    *r = (ls_recorder){ .queue = queue, .api = api, .record = record && api->record_begin };
    *out = r;
    return LS_SUCCESS;
}

void ls_recorder_free(ls_recorder *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++)
        if (r->entries[i].recording) r->api->recording_free(r->entries[i].recording);
    free(r);
}

int ls_recorder_count(const ls_recorder *r) {
    int count = 0;
    for (int i = 0; i < r->count; i++) count += r->entries[i].recording != NULL;
    return count;
}

static int same(const ls_recorder_key *a, const ls_recorder_key *b) {
    return a->program == b->program && a->input.slab == b->input.slab && a->input.offset == b->input.offset &&
           a->variant == b->variant;
}

static entry *find(ls_recorder *r, const ls_recorder_key *key) {
    for (int i = 0; i < r->count; i++)
        if (same(&r->entries[i].key, key)) return &r->entries[i];
    return NULL;
}

ls_status ls_recorder_run(ls_recorder *r, ls_recorder_key key, void (*enqueue)(void *context), void *context) {
    const int record = r->record && !ls_trace_on(); // a trace shows single instructions
    entry *e = record ? find(r, &key) : NULL;
    if (!e) {
        if (record && r->count < LIMIT) r->entries[r->count++] = (entry){ .key = key };
        enqueue(context);
        return LS_SUCCESS;
    }
    if (!e->recording) {
        LS_TRY(r->api->record_begin(r->queue));
        enqueue(context);
        LS_TRY(r->api->record_end(r->queue, &e->recording));
    }
    r->api->recording_launch(e->recording, r->queue);
    return LS_SUCCESS;
}
