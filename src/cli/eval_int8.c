#include "cli/eval_int8.h"

#include <string.h>
#include "base/memory.h"
#include "base/pool.h"
#include "cli/calibrate.h"
#include "command/commands.h"
#include "deploy/execute.h"
#include "program/session.h"
#include "train/picture_results.h"

enum { BATCH = 1024 }; // pictures that the threads share out at a time

typedef struct {
    const ls_network *network;
    const ls_dataset *set;
    int64_t first;     // number of the first picture of the batch
    uint8_t *pixels;   // [threads] pictures
    int8_t *slabs;     // [threads] slabs
    float *logits;     // [BATCH][classes]
    int32_t *labels;   // [BATCH]
    ls_status *status; // [BATCH]
} int8_run;

static void run_picture(void *context, int task, int thread) {
    int8_run *r = context;
    const ls_network *n = r->network;
    const ls_graph *g = n->info->graph;
    uint8_t *pixels = r->pixels + (ptrdiff_t)thread * ls_chw_count(g->input);
    r->status[task] = ls_dataset_read_whole(r->set, r->first + task, pixels, &r->labels[task]);
    if (ls_failed(r->status[task])) return;
    ls_execute_int8(n, pixels, r->slabs + thread * n->slab_elements, r->logits + (ptrdiff_t)task * g->classes);
}

static ls_status run_all(int8_run *r, ls_pool *pool, ls_picture_results *results) {
    const int64_t count = ls_dataset_get_info(r->set)->count;
    const int classes = r->network->info->graph->classes;
    double *row = ls_new(classes, sizeof *row, "logits");
    ls_status status = LS_SUCCESS;
    for (r->first = 0; r->first < count && !ls_failed(status); r->first += BATCH) {
        const int tasks = count - r->first < BATCH ? (int)(count - r->first) : BATCH;
        ls_pool_run(pool, run_picture, r, tasks);
        for (int i = 0; i < tasks && !ls_failed(status); i++) {
            status = r->status[i];
            for (int k = 0; k < classes; k++) row[k] = (double)r->logits[(ptrdiff_t)i * classes + k];
            if (!ls_failed(status)) ls_picture_results_add(results, r->first + i, r->labels[i], row);
        }
    }
    free(row);
    return status;
}

// Checks that the data have the classes of the weights in the same order: classes are matched by number.
static ls_status check_classes(const ls_dataset *set, const ls_weights_info *info) {
    const int classes = ls_dataset_get_info(set)->classes;
    for (int k = 0; k < info->class_count || k < classes; k++) {
        const char *here = k < classes ? ls_dataset_class(set, k) : "missing";
        const char *there = k < info->class_count ? info->classes[k] : "missing";
        if (strcmp(here, there) != 0)
            return ls_fail(LS_DATA, "--int8: class %d of the data is '%s', of the weights '%s'", k, here, there);
    }
    return LS_SUCCESS;
}

static ls_status evaluate(const ls_config *cfg, const ls_network *n, const ls_dataset *set, ls_evaluation **out) {
    int8_run r = { .network = n, .set = set };
    const int threads = ls_session_threads(cfg, 1), classes = n->info->graph->classes;
    ls_pool *pool = NULL;
    ls_picture_results *results = NULL;
    *out = NULL;
    LS_TRY(check_classes(set, n->info));
    ls_status status = ls_try_new(&r.pixels, threads, (size_t)ls_chw_count(n->info->graph->input), "pictures");
    LS_THEN(status, ls_try_new(&r.slabs, threads, (size_t)n->slab_elements, "buffers of %d threads", threads));
    LS_THEN(status, ls_try_new(&r.logits, BATCH, (size_t)classes * sizeof *r.logits, "logits"));
    r.labels = ls_new(BATCH, sizeof *r.labels, "labels");
    r.status = ls_new(BATCH, sizeof *r.status, "results");
    LS_THEN(status, ls_pool_new(threads, &pool));
    LS_THEN(status, ls_picture_results_new(ls_dataset_get_info(set)->count, classes, NULL, &results));
    LS_THEN(status, run_all(&r, pool, results));
    LS_THEN(status, ls_picture_results_evaluate(results, out));
    LS_THEN(status, ls_picture_results_illustrate(set, *out));
    if (ls_failed(status)) {
        ls_evaluation_free(*out);
        *out = NULL;
    }
    ls_picture_results_free(results);
    if (pool) ls_pool_free(pool);
    void *arrays[] = { r.pixels, r.slabs, r.logits, r.labels, r.status };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
    return status;
}

// Opens the set that eval.split names. *train: NULL, or the training set that owns *set.
static ls_status open_set(const ls_config *cfg, ls_dataset **train, ls_dataset **set) {
    *train = NULL;
    if (cfg->eval_split == LS_EVAL_TEST) return ls_dataset_open(cfg, LS_SPLIT_TEST, set);
    LS_TRY(ls_dataset_open(cfg, LS_SPLIT_TRAIN, train));
    *set = ls_dataset_held_out(*train);
    if (*set) return LS_SUCCESS;
    ls_dataset_free(*train);
    return ls_fail(LS_USAGE, "nothing is held out for validation; set data.validation_fraction as in training");
}

static ls_status calibrate_and_evaluate(const ls_args *args, const ls_config *cfg, const ls_weights_info *info,
    const ls_safetensors *file, ls_evaluation **out) {
    ls_network *network;
    ls_dataset *train, *set;
    LS_TRY(ls_calibrate(args, cfg, info, file, &network));
    ls_status status = open_set(cfg, &train, &set);
    if (!ls_failed(status)) {
        status = evaluate(cfg, network, set, out);
        ls_dataset_free(train ? train : set);
    }
    ls_network_free(network);
    if (ls_failed(status)) return status;
    (*out)->set = cfg->eval_split == LS_EVAL_TEST ? "test" : "validation";
    (*out)->of = "int8";
    return LS_SUCCESS;
}

ls_status ls_eval_int8(const ls_args *args, ls_config *cfg, ls_evaluation **out) {
    ls_safetensors *file;
    ls_weights_info *info;
    if (cfg->eval_tta != LS_TTA_OFF)
        return ls_fail(LS_USAGE, "eval.tta = %s: --int8 evaluates each picture as it is: --set eval.tta=off",
            ls_config_choice("eval.tta", cfg->eval_tta));
    LS_TRY(ls_command_weights(args, cfg, &file, &info));
    ls_status status = calibrate_and_evaluate(args, cfg, info, file, out);
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}
