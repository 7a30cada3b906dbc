#include "program/graph_capture.h"

#include "base/memory.h"
#include "base/spans.h"

enum { LIMIT = 256 }; // the most pieces of work that are captured; a run has a handful for each of its resolutions

typedef struct {
    ls_graph_capture_key key;
    ls_captured_graph *graph; // NULL: it ran once and is not captured yet
} entry;

struct ls_graph_capture {
    ls_queue *queue;
    const ls_device_api *api;
    int on, count;
    entry entries[LIMIT];
};

ls_status ls_graph_capture_new(ls_queue *queue, const ls_device_api *api, int on, ls_graph_capture **out) {
    ls_graph_capture *c = ls_new(1, sizeof *c, "graph capture");
    *c = (ls_graph_capture){ .queue = queue, .api = api, .on = on && api->capture_begin };
    *out = c;
    return LS_SUCCESS;
}

void ls_graph_capture_free(ls_graph_capture *c) {
    if (!c) return;
    for (int i = 0; i < c->count; i++)
        if (c->entries[i].graph) c->api->graph_free(c->entries[i].graph);
    free(c);
}

static int same(const ls_graph_capture_key *a, const ls_graph_capture_key *b) {
    return a->program == b->program && a->input.slab == b->input.slab && a->input.offset == b->input.offset &&
           a->variant == b->variant;
}

static entry *find(ls_graph_capture *c, const ls_graph_capture_key *key) {
    for (int i = 0; i < c->count; i++)
        if (same(&c->entries[i].key, key)) return &c->entries[i];
    return NULL;
}

ls_status ls_graph_capture_run(
    ls_graph_capture *c, ls_graph_capture_key key, void (*enqueue)(void *context), void *context) {
    const int on = c->on && !ls_spans_on(); // a trace shows single instructions, so they must be enqueued one by one
    entry *e = on ? find(c, &key) : NULL;
    if (!e) {
        if (on && c->count < LIMIT) c->entries[c->count++] = (entry){ .key = key };
        enqueue(context);
        return LS_SUCCESS;
    }
    if (!e->graph) {
        LS_TRY(c->api->capture_begin(c->queue));
        enqueue(context);
        LS_TRY(c->api->capture_end(c->queue, &e->graph));
    }
    c->api->graph_launch(e->graph, c->queue);
    return LS_SUCCESS;
}
