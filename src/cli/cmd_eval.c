// cmd_eval.c - `train eval CONFIG.ini [WEIGHTS]`: prints exact accuracy and loss of saved weights, with details
// (eval_report.h). The pictures are the test split, or by eval.split the pictures held out for validation. On the test
// split, eval.tta also evaluates with test-time augmentation.
// `train eval RUN` takes config.ini and weights of a run. `train eval WEIGHTS FOLDER` evaluates a folder of pictures.

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/files.h"
#include "command/commands.h"
#include "cli/eval_data.h"
#include "cli/eval_folder.h"
#include "cli/eval_int8.h"
#include "cli/eval_report.h"
#include "formats/weights.h"
#include "train/trainer.h"

// --- on a configuration's data ---------------------------------------------------------------------

// A loss that is no number is printed as "nan", whatever its sign.
static void print_means(const char *prefix, double accuracy, double loss, int64_t samples) {
    if (samples > 0)
        printf("%s_accuracy %.6f\n%s_loss %.6f\n%s_samples %lld\n", prefix, accuracy, prefix, isnan(loss) ? NAN : loss,
            prefix, (long long)samples);
}

static void print_result(const ls_train_evaluation *e) {
    print_means("val", e->val_accuracy, e->val_loss, e->val_samples);
    print_means("test", e->test_accuracy, e->test_loss, e->test_samples);
    print_means("tta", e->tta_accuracy, e->tta_loss, e->tta_samples);
}

static ls_status print_all(const ls_args *args, const ls_train_evaluation *e, const ls_evaluation *details) {
    if (args->json) return ls_eval_print_json(details);
    print_result(e);
    ls_eval_print(details);
    return ls_command_flush(stdout);
}

static ls_status take_weights(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    char path[2 * LS_TEXT_BYTES];
    if (!args->weights) return ls_trainer_init_from_file(trainer);
    LS_TRY(ls_comm_agree(comm, ls_weights_locate(args->weights, path, sizeof path), NULL));
    if (ls_comm_get_info(comm)->rank == 0) ls_eval_compare_data(path, ls_trainer_get_info(trainer));
    return ls_trainer_load_weights(trainer, path);
}

static ls_status evaluate_split(ls_trainer *trainer, ls_train_evaluation *e) {
    const ls_train_info *info = ls_trainer_get_info(trainer);
    if (info->cfg->eval_split == LS_EVAL_TEST) return ls_trainer_evaluate(trainer, 1, e);
    if (info->val_data) return ls_trainer_validate(trainer, 1, e);
    char where[LS_STATUS_TEXT_BYTES / 4];
    return ls_fail(LS_USAGE, "%s: nothing is held out for validation; set data.validation_fraction as in training",
        ls_config_where(info->cfg, LS_OPTION_eval_split, where, sizeof where));
}

static ls_status evaluate(const ls_args *args, ls_comm *comm, ls_trainer *trainer) {
    ls_train_evaluation evaluation = { 0 };
    const int prints = ls_comm_get_info(comm)->rank == 0;
    LS_TRY(ls_command_agree(comm, take_weights(args, comm, trainer)));
    LS_TRY(ls_command_agree_or_abort(comm, evaluate_split(trainer, &evaluation)));
    return ls_command_agree(comm, prints ? print_all(args, &evaluation, ls_trainer_details(trainer)) : LS_SUCCESS);
}

static ls_status configure(const ls_args *args, ls_comm *comm, ls_config *cfg) {
    LS_TRY(ls_command_configure(args, comm, cfg));
    if (args->weights || cfg->model_init[0]) return LS_SUCCESS;
    return ls_fail(LS_USAGE, "no weights: train eval CONFIG.ini WEIGHTS, or model.init in CONFIG.ini");
}

static ls_status evaluate_configured(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, configure(args, comm, &cfg)));
    LS_TRY(ls_command_agree(comm, ls_command_adopt(args, comm, &cfg)));
    ls_trainer *trainer = NULL;
    LS_TRY(ls_command_agree(comm, ls_trainer_new_to_evaluate(&cfg, comm, &trainer)));
    ls_status status = evaluate(args, comm, trainer);
    ls_trainer_free(trainer);
    return status;
}

// --- on a folder -----------------------------------------------------------------------------------

// Prints an evaluation that one rank made, and frees it.
static ls_status print_alone(const ls_args *args, ls_evaluation *e) {
    ls_status status = LS_SUCCESS;
    if (args->json) {
        status = ls_eval_print_json(e);
    } else {
        const double samples = (double)e->samples;
        print_means(ls_eval_prefix(e), (double)e->correct / samples, e->loss_sum / samples, e->samples);
        ls_eval_print(e);
        status = ls_command_flush(stdout);
    }
    ls_evaluation_free(e);
    return status;
}

// Evaluates the weights on a folder of pictures, or with --int8 on the configuration's data (folder NULL).
static ls_status evaluate_here(const ls_args *args, ls_config *cfg, const char *folder) {
    ls_evaluation *e;
    LS_TRY(folder ? ls_eval_folder(args, cfg, folder, &e) : ls_eval_int8(args, cfg, &e));
    return print_alone(args, e);
}

// All ranks call it; rank 0 alone evaluates.
static ls_status evaluate_alone(const ls_args *args, ls_comm *comm, const char *folder) {
    ls_config cfg;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    const int works = ls_comm_get_info(comm)->rank == 0;
    return ls_command_agree(comm, works ? evaluate_here(args, &cfg, folder) : LS_SUCCESS);
}

static ls_status evaluate_int8(const ls_args *args, ls_comm *comm) {
    if (args->weights) return evaluate_alone(args, comm, NULL);
    return ls_command_agree(comm,
        ls_fail(LS_USAGE, "--int8: name the weights: train eval CONFIG.ini WEIGHTS --int8, or train eval RUN --int8"));
}

// --- the command -----------------------------------------------------------------------------------

static int is_weights(const char *word) {
    static const char ending[] = ".safetensors";
    const size_t length = strlen(word);
    struct stat info;
    if (length > strlen(ending) && strcmp(word + length - strlen(ending), ending) == 0) return 1;
    return stat(word, &info) == 0 && S_ISDIR(info.st_mode);
}

// Writes the path of config.ini in the run's folder `weights` into config. LS_USAGE: there is no such file.
static ls_status find_config(const char *weights, char *config, size_t bytes) {
    LS_TRY(ls_path_join(config, bytes, weights, "config.ini"));
    if (ls_path_exists(config)) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s: weights alone do not say what to evaluate them on: train eval WEIGHTS FOLDER (of pictures, a folder a "
        "class), or train eval CONFIG.ini WEIGHTS",
        weights);
}

ls_status ls_cmd_eval(const ls_args *args, ls_comm *comm) {
    ls_args own = *args;
    char config[2 * LS_TEXT_BYTES];
    int begins_with_weights = is_weights(args->config); // rank 0 decides: the others may not see the file
    LS_TRY(ls_command_agree(comm, ls_comm_broadcast(comm, &begins_with_weights, sizeof begins_with_weights, 0)));
    if (!begins_with_weights) return args->int8 ? evaluate_int8(args, comm) : evaluate_configured(args, comm);
    own.weights = args->config;
    own.config = NULL;
    if (args->weights && args->int8)
        return ls_command_agree(
            comm, ls_fail(LS_USAGE, "--int8: only on a configuration's data: train eval RUN --int8"));
    if (args->weights) return evaluate_alone(&own, comm, args->weights);
    LS_TRY(ls_command_agree(comm, find_config(own.weights, config, sizeof config)));
    own.config = config;
    return args->int8 ? evaluate_int8(&own, comm) : evaluate_configured(&own, comm);
}
