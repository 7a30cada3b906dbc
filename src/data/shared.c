// shared.c - data sets that several runs of this process use at the same time.
//
// The runs share one list of open sets, which belongs to the process. A set is closed when its last run ends. The next
// run then reads the files again.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/thread.h"
#include "data/dataset.h"
#include "data/format.h"

typedef struct ls_shared_data shared;
struct ls_shared_data {
    shared *next;
    ls_config cfg;
    ls_split split;
    ls_dataset *dataset; // NULL: it is being opened, or that has failed
    int opening;
    int users;             // including those that wait until it is open
    pthread_cond_t opened; // signalled when `opening` becomes 0
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // protects everything here
static shared *first;

static int depends_on_seed(const ls_config *cfg) {
    return cfg->data_dataset == LS_DATASET_SYNTHETIC || cfg->data_validation_fraction > 0;
}

// Whether two configurations describe the same data set. All options of [data] are compared.
static int is_same(const ls_config *a, const ls_config *b) {
    char x[LS_TEXT_BYTES], y[LS_TEXT_BYTES];
    const char *name;
    if (a->run_seed != b->run_seed && depends_on_seed(a)) return 0;
    for (int i = 0; ls_config_value(a, i, &name, x, sizeof x); i++) {
        if (strncmp(name, "data.", 5) != 0) continue;
        ls_config_value(b, i, NULL, y, sizeof y);
        if (strcmp(x, y) != 0) return 0;
    }
    return 1;
}

static shared *find(const ls_config *cfg, ls_split split) {
    shared *s = first;
    while (s && (s->split != split || !is_same(&s->cfg, cfg))) s = s->next;
    return s;
}

static void leave(shared *s) { // call with the lock held
    if (--s->users > 0) return;
    shared **at = &first;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    pthread_cond_destroy(&s->opened);
    free(s);
}

// Opens the set for all who wait for it, without the lock.
static ls_status open_for_all(shared *s) {
    ls_dataset *dataset = NULL;
    pthread_mutex_unlock(&lock);
    ls_status status = ls_dataset_open(&s->cfg, s->split, &dataset);
    pthread_mutex_lock(&lock);
    s->dataset = dataset;
    s->opening = 0;
    if (dataset) dataset->shared = s;
    pthread_cond_broadcast(&s->opened);
    return status;
}

static shared *add(const ls_config *cfg, ls_split split) {
    shared *s = ls_new(1, sizeof *s, "record of a data set");
    *s = (shared){ .next = first, .cfg = *cfg, .split = split, .opening = 1 };
    ls_cond_init(&s->opened);
    return first = s;
}

ls_status ls_dataset_open_shared(const ls_config *cfg, ls_split split, ls_dataset **out) {
    if (cfg->data_dataset == LS_DATASET_FOLDER) return ls_dataset_open(cfg, split, out);
    ls_status status = LS_SUCCESS;
    pthread_mutex_lock(&lock);
    shared *s = find(cfg, split);
    const int opens = !s;
    if (opens) s = add(cfg, split);
    s->users++;
    if (opens) status = open_for_all(s);
    while (s->opening) pthread_cond_wait(&s->opened, &lock);
    ls_dataset *dataset = s->dataset;
    if (!dataset) leave(s);
    pthread_mutex_unlock(&lock);
    if (!dataset && !opens) return ls_dataset_open(cfg, split, out); // says for this run, too, what is wrong
    *out = dataset;
    return status;
}

int ls_dataset_is_still_shared(ls_dataset *dataset) {
    if (!dataset->shared) return 0;
    pthread_mutex_lock(&lock);
    const int others = dataset->shared->users > 1;
    leave(dataset->shared);
    pthread_mutex_unlock(&lock);
    return others;
}
