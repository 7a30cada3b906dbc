// cmd_eval.c - `train eval CONFIG.ini WEIGHTS`: exact accuracy and loss of saved weights on the test split, or by eval.split on
// what is held out for validation, to stdout; of the test split with eval.tta those of test-time augmentation, too.

#include <stdio.h>
#include "cli/commands.h"
#include "files/weights.h"
#include "train/trainer.h"

static ls_status print_result(const ls_train_evaluation *e, int rank) {
    if (rank == 0 && e->val_samples > 0)
        printf("val_accuracy %.6f\nval_loss %.6f\nval_samples %lld\n", e->val_accuracy, e->val_loss,
            (long long)e->val_samples);
    if (rank == 0 && e->test_samples > 0)
        printf("test_accuracy %.6f\ntest_loss %.6f\ntest_samples %lld\n", e->test_accuracy, e->test_loss,
            (long long)e->test_samples);
    if (rank == 0 && e->tta_samples > 0)
        printf("tta_accuracy %.6f\ntta_loss %.6f\ntta_samples %lld\n", e->tta_accuracy, e->tta_loss,
            (long long)e->tta_samples);
    return ls_command_flush(stdout);
}

static ls_status take_weights(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    char path[2 * LS_TEXT_BYTES];
    if (!args->weights && !ls_trainer_get_info(trainer)->cfg->model_init[0])
        return ls_fail(LS_USAGE, "no weights: train eval CONFIG.ini WEIGHTS, or model.init in CONFIG.ini");
    if (!args->weights) return ls_trainer_init_from_file(trainer);
    LS_TRY(ls_comm_agree(comm, ls_weights_locate(args->weights, path, sizeof path), NULL));
    return ls_trainer_load_weights(trainer, path);
}

static ls_status evaluate_split(ls_trainer *trainer, ls_train_evaluation *e) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    if (info->cfg->eval_split == LS_EVAL_TEST) return ls_trainer_evaluate(trainer, 1, e);
    if (info->val_data) return ls_trainer_validate(trainer, 0, e);
    char where[LS_STATUS_TEXT_BYTES / 4];
    return ls_fail(LS_USAGE, "%s: nothing is held out for validation; set data.validation_fraction as in training",
        ls_config_where(info->cfg, LS_OPTION_eval_split, where, sizeof where));
}

static ls_status evaluate(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    ls_train_evaluation evaluation = { 0 };
    LS_TRY(ls_command_agree(comm, take_weights(args, comm, trainer)));
    LS_TRY(ls_command_agree_or_abort(comm, evaluate_split(trainer, &evaluation)));
    return ls_command_agree(comm, print_result(&evaluation, ls_comm_get_info(comm)->rank));
}

ls_status ls_cmd_eval(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    ls_trainer *trainer = NULL;
    LS_TRY(ls_command_agree(comm, ls_trainer_new_to_evaluate(&cfg, comm, &trainer)));
    ls_status status = evaluate(args, comm, trainer);
    ls_trainer_free(trainer);
    return status;
}
