#include "train/data_reading.h"

#include "base/thread.h"

static void *open_split(void *context) {
    ls_data_reading *r = context;
    r->status = ls_dataset_open_shared(r->cfg, r->split, &r->dataset);
    return NULL;
}

void ls_data_reading_start(ls_data_reading *r, const ls_config *cfg, ls_split split) {
    *r = (ls_data_reading){ .cfg = cfg, .split = split };
    r->started = ls_thread_start(&r->thread, open_split, r) == 0;
    if (!r->started) open_split(r);
}

ls_status ls_data_reading_finish(ls_data_reading *r, ls_dataset **out) {
    if (r->started) pthread_join(r->thread, NULL);
    r->started = 0;
    *out = r->dataset;
    return r->status;
}
