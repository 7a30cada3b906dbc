#include "train/run_plan.h"

#include <string.h>
#include "base/memory.h"
#include "deploy/fake_network.h"
#include "run/run_parts.h"
#include "formats/weights_map.h"
#include "train/shared_updates.h"

enum { PATH_BYTES = 2048 };

void ls_run_plan_begin(ls_run_plan *plan, const ls_config *cfg, ls_comm *comm, int evaluates) {
    *plan = (ls_run_plan){
        .cfg = cfg, .comm = comm, .evaluates = evaluates, .info = { .cfg = cfg, .comm = ls_comm_get_info(comm) }
    };
}

// --- network and data ----------------------------------------------------------------------------

// Waits for the training split and returns its shape and number of classes, for a network whose file refers to them.
static ls_status find_data(void *context, ls_chw *shape, int *classes) {
    ls_data_reading *train = context;
    ls_dataset *dataset;
    LS_TRY(ls_data_reading_finish(train, &dataset));
    *shape = ls_dataset_get_info(dataset)->shape;
    *classes = ls_dataset_get_info(dataset)->classes;
    return LS_SUCCESS;
}

ls_status ls_run_plan_open_network(ls_run_plan *plan, ls_data_reading *train) {
    char path[PATH_BYTES];
    LS_TRY(ls_config_network(plan->cfg, path, sizeof path));
    LS_TRY(ls_graph_read_for(path, &(ls_graph_data){ find_data, train }, &plan->graph));
    if (plan->cfg->train_quantise == LS_QUANTISE_OFF) return LS_SUCCESS;
    ls_graph *floats = plan->graph;
    plan->graph = NULL;
    const ls_status status = ls_fake_network_new(floats, &plan->graph);
    ls_graph_free(floats);
    return status;
}

ls_status ls_run_plan_take_data(ls_run_plan *plan, ls_data_reading *train, ls_data_reading *test) {
    ls_status status = ls_data_reading_finish(train, &plan->train_data);
    ls_keep_first(&status, ls_data_reading_finish(test, &plan->test_data));
    LS_TRY(status);
    plan->val_data = ls_dataset_held_out(plan->train_data);
    plan->info.train_data = ls_dataset_get_info(plan->train_data);
    plan->info.test_data = ls_dataset_get_info(plan->test_data);
    if (plan->val_data) plan->info.val_data = ls_dataset_get_info(plan->val_data);
    return LS_SUCCESS;
}

// Each split has read the file of data.labels, and the device has the table of the training split alone.
static int has_labels_of(const ls_dataset *train, const ls_dataset *other) {
    const ls_dataset_info *a = ls_dataset_get_info(train), *b = ls_dataset_get_info(other);
    return a->classes == b->classes && a->label_rows == b->label_rows &&
           (a->label_rows == 0 || memcmp(ls_dataset_label_sets(train), ls_dataset_label_sets(other),
                                      (size_t)a->label_rows * (size_t)a->classes) == 0);
}

static ls_status check_data(const ls_run_plan *plan) {
    const ls_dataset_info *train = plan->info.train_data, *test = plan->info.test_data;
    const ls_graph *g = plan->graph;
    if (!ls_chw_equal(train->shape, g->input))
        return ls_fail(LS_USAGE,
            "%s: the network's input is %dx%dx%d, but pictures of data.dataset = %s are %dx%dx%d; choose another "
            "model.file, or write `input = data` in [network]",
            g->path, g->input.c, g->input.h, g->input.w, train->name, train->shape.c, train->shape.h, train->shape.w);
    if (train->classes != g->classes)
        return ls_fail(LS_USAGE,
            "%s: the network has %d outputs, but data.dataset = %s has %d classes; write `out_features = classes` in "
            "the last layer",
            g->path, g->classes, train->name, train->classes);
    if (!ls_chw_equal(test->shape, train->shape) || test->classes != train->classes)
        return ls_fail(
            LS_DATA, "data.dataset = %s: the training and the test split differ in shape or classes", train->name);
    if (!has_labels_of(plan->train_data, plan->test_data) ||
        (plan->val_data && !has_labels_of(plan->train_data, plan->val_data)))
        return ls_fail(LS_DATA, "data.labels: the file changed while it was read; start again");
    if (plan->cfg->train_patience == 0 || plan->info.val_data || plan->evaluates) return LS_SUCCESS;
    char where[LS_STATUS_TEXT_BYTES / 4];
    return ls_fail(LS_USAGE,
        "%s: it goes by validation, for which nothing is held out; set data.validation_fraction, for example to 0.1",
        ls_config_where(plan->cfg, LS_OPTION_train_patience, where, sizeof where));
}

// --- the whole -----------------------------------------------------------------------------------

static void fill_info(ls_run_plan *plan) {
    ls_train_info *info = &plan->info;
    info->graph = plan->graph;
    info->rules = plan->rules;
    info->parameters = ls_graph_trained_parameters(plan->graph);
    info->flops_per_sample = ls_graph_training_flops(ls_run_plan_graph_of(plan, 0));
}

ls_status ls_run_plan_complete(ls_run_plan *plan) {
    LS_TRY(check_data(plan));
    LS_TRY(ls_param_rules_new(plan->cfg, plan->graph, &plan->rules));
    LS_TRY(ls_run_plan_open_stages(plan));
    fill_info(plan);
    LS_TRY(ls_run_plan_cut_batches(plan));
    plan->info.updates_planned = ls_planned_updates(plan->cfg, &plan->info.batches);
    const ls_status scheduled = ls_schedule_new(plan->cfg, &plan->info.batches, &plan->schedule);
    return plan->evaluates ? LS_SUCCESS : scheduled; // an evaluation does not need the schedule
}

void ls_run_plan_close(ls_run_plan *plan) {
    ls_param_rules_free(plan->rules);
    ls_device_assignment_free(plan->assignment);
    ls_dataset_free(plan->train_data);
    ls_dataset_free(plan->test_data);
    ls_weights_map_free(plan->init_map);
    ls_graph_free(plan->graph);
    ls_run_plan_close_stages(plan);
    cJSON_Delete(plan->parts);
}

ls_status ls_run_plan_set_parts(ls_run_plan *plan, cJSON *parts) {
    cJSON_Delete(plan->parts);
    plan->info.parts = plan->parts = parts;
    return ls_json_is_whole(parts) ? LS_SUCCESS : ls_no_memory(0, "record of the run's parts");
}
