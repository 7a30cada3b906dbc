// whole_run.h - a training run in one process, on synthetic pictures and a network written to a temporary file.
#ifndef LS_TESTS_TRAIN_WHOLE_RUN_H
#define LS_TESTS_TRAIN_WHOLE_RUN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "support/cmocka.h"
#include "train/run.h"
#include "train/trainer_internal.h"

#define must(expr) \
    do { \
        ls_status must_status_ = (expr); \
        if (ls_failed(must_status_)) fail_msg("%s: %s", #expr, must_status_.text); \
    } while (0)

enum { RUN_OPTIONS_MAX = 16, RUN_LISTS_MAX = 4 };

typedef struct {
    ls_config cfg;
    ls_comm *comm;
    ls_trainer *trainer;
} run;

// 0, or -1 when the file cannot be written; path ends with XXXXXX, as mkstemp wants it.
static inline int run_write_network(char *path, const char *text) {
    int fd = mkstemp(path);
    size_t bytes = strlen(text);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes) return -1;
    return close(fd);
}

// lists: up to RUN_LISTS_MAX lists of "section.key=value", each ended by NULL or full; set in order.
static inline ls_status run_open(run *r, const char *network_path, const char *const *const *lists) {
    ls_config_defaults(&r->cfg);
    snprintf(r->cfg.model_file, sizeof r->cfg.model_file, "%s", network_path);
    for (int l = 0; l < RUN_LISTS_MAX && lists[l]; l++)
        for (int i = 0; i < RUN_OPTIONS_MAX && lists[l][i]; i++) must(ls_config_set(&r->cfg, lists[l][i]));
    must(ls_config_check(&r->cfg));
    must(ls_comm_self(&r->comm));
    return ls_trainer_new(&r->cfg, r->comm, &r->trainer);
}

// Enqueues and completes one update.
static inline ls_status run_one_update(ls_trainer *t, ls_train_state *state) {
    return ls_run_advance(&t->session, &t->progress, &t->saving, t->progress.done.updates + 1, state);
}

static inline void run_close(run *r) {
    ls_trainer_free(r->trainer);
    ls_comm_finish(r->comm);
}

#endif
