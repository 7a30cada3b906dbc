// initial_weights.c - the weights that a run starts from, each rank for itself: made from the seed (model/init.c), and
// filters that whiten made from the training pictures (model/whiten.h). Ranks compare a hash of them (startup_check.c).
#include "base/memory.h"
#include "model/whiten.h"
#include "train/trainer_internal.h"

static ls_status add_pictures(const ls_trainer *t, ls_whiten *whiten, int64_t samples) {
    const ls_dataset_info *info = t->facts.train_data;
    uint8_t *pixels;
    int32_t label;
    LS_TRY(LS_NEW(pixels, ls_chw_count(info->shape), "a picture for whitening"));
    ls_status status = LS_SUCCESS;
    for (int64_t i = 0; i < samples && i < info->count && !ls_failed(status); i++) {
        status = ls_dataset_read_whole(t->train_data, i, pixels, &label);
        if (!ls_failed(status)) ls_whiten_add(whiten, pixels);
    }
    free(pixels);
    return status;
}

static ls_status whiten(const ls_trainer *t, int p) {
    const ls_dataset_info *info = t->facts.train_data;
    const ls_param *param = &t->graph->params[p];
    const ls_layer_conv2d *conv = &t->graph->layers[param->layer].attr.conv2d;
    ls_whiten *whiten = NULL;
    float *values;
    LS_TRY(LS_NEW(values, ls_param_count(&param->shape), "%s", param->name));
    ls_status status = ls_whiten_new(&param->shape, info->shape, &whiten);
    LS_THEN(status, add_pictures(t, whiten, conv->whiten_samples));
    LS_THEN(status, ls_whiten_filters(whiten, info->mean, info->std, conv->whiten_eps, values));
    if (!ls_failed(status)) ls_param_store_import(t->session.store, p, values);
    ls_whiten_free(whiten);
    free(values);
    return status;
}

ls_status ls_trainer_init_weights(ls_trainer *t) {
    LS_TRY(ls_param_store_init(t->session.store, (uint64_t)t->cfg->run_seed));
    for (int p = 0; p < t->graph->param_count && !t->evaluates; p++) // else weights of a file come
        if (t->graph->params[p].init == LS_INIT_WHITEN) LS_TRY(whiten(t, p));
    return LS_SUCCESS;
}
