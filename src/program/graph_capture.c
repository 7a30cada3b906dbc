#include "program/graph_capture.h"

#include "base/memory.h"
#include "base/spans.h"

enum { LIMIT = 64 }; // pieces of work; a run has a handful

typedef struct {
    ls_graph_capture_key key;
    ls_captured_graph *recording; // NULL: it ran once
} entry;

struct ls_graph_capture {
    ls_queue *queue;
    const ls_device_api *api;
    int record, count;
    entry entries[LIMIT];
};

ls_status ls_graph_capture_new(ls_queue *queue, const ls_device_api *api, int record, ls_graph_capture **out) {
    ls_graph_capture *r;
    LS_TRY(LS_NEW(r, 1, "graph capture"));
    *r = (ls_graph_capture){ .queue = queue, .api = api, .record = record && api->capture_begin };
    *out = r;
    return LS_SUCCESS;
}

void ls_graph_capture_free(ls_graph_capture *r) {
    if (!r) return;
    for (int i = 0; i < r->count; i++)
        if (r->entries[i].recording) r->api->graph_free(r->entries[i].recording);
    free(r);
}

int ls_graph_capture_count(const ls_graph_capture *r) {
    int count = 0;
    for (int i = 0; i < r->count; i++) count += r->entries[i].recording != NULL;
    return count;
}

static int same(const ls_graph_capture_key *a, const ls_graph_capture_key *b) {
    return a->program == b->program && a->input.slab == b->input.slab && a->input.offset == b->input.offset &&
           a->variant == b->variant;
}

static entry *find(ls_graph_capture *r, const ls_graph_capture_key *key) {
    for (int i = 0; i < r->count; i++)
        if (same(&r->entries[i].key, key)) return &r->entries[i];
    return NULL;
}

ls_status ls_graph_capture_run(
    ls_graph_capture *r, ls_graph_capture_key key, void (*enqueue)(void *context), void *context) {
    const int record = r->record && !ls_spans_on(); // a trace shows single instructions
    entry *e = record ? find(r, &key) : NULL;
    if (!e) {
        if (record && r->count < LIMIT) r->entries[r->count++] = (entry){ .key = key };
        enqueue(context);
        return LS_SUCCESS;
    }
    if (!e->recording) {
        LS_TRY(r->api->capture_begin(r->queue));
        enqueue(context);
        LS_TRY(r->api->capture_end(r->queue, &e->recording));
    }
    r->api->graph_launch(e->recording, r->queue);
    return LS_SUCCESS;
}
