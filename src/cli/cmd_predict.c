// cmd_predict.c - `train predict WEIGHTS IMAGE...`: a line a picture to stdout, in the order of the command line, those of
// a folder by name, cut by tabs: the path as given, then up to five times a class and its probability, the likeliest first; with
// --logits the network's output for each class instead, with digits that read back to the same floats.
//
// A picture that cannot be read has a message instead of a line; the others keep theirs, and the exit code is 3.

#include <math.h>
#include <stdio.h>
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "data/pictures.h"
#include "train/predict.h"

enum { SHOWN = 5 };

static void print_logits(const ls_prediction *prediction, int classes) {
    ls_text_print(stdout, prediction->path);
    for (int k = 0; k < classes; k++) printf("\t%.9g", (double)prediction->logits[k]);
    putchar('\n');
}

static void print_classes(const ls_prediction *prediction, const ls_weights_info *info) {
    const float *logits = prediction->logits;
    int best[SHOWN], count = 0;
    for (int k = 0; k < info->graph->classes; k++) {
        int at = count < SHOWN ? count++ : SHOWN;
        for (; at > 0 && logits[k] > logits[best[at - 1]]; at--) // the lower number wins a tie, as in evaluation
            if (at < SHOWN) best[at] = best[at - 1];
        if (at < SHOWN) best[at] = k;
    }
    double sum = 0;
    for (int k = 0; k < info->graph->classes; k++) sum += exp((double)logits[k] - (double)logits[best[0]]);
    ls_text_print(stdout, prediction->path);
    for (int i = 0; i < count; i++) {
        putchar('\t');
        ls_text_print(stdout, info->classes[best[i]]);
        printf("\t%.6f", exp((double)logits[best[i]] - (double)logits[best[0]]) / sum);
    }
    putchar('\n');
}

// unread: of the first picture that could not be read; its message and those of others are printed in their turn.
static ls_status print_all(
    const ls_args *args, int64_t count, const ls_weights_info *info, ls_predictor *p, ls_status *unread) {
    for (int64_t i = 0; i < count; i++) {
        ls_prediction prediction;
        LS_TRY(ls_predictor_next(p, &prediction));
        if (ls_failed(prediction.status)) {
            ls_log_status(prediction.status);
            ls_keep_first(unread, prediction.status);
        } else if (args->logits) {
            print_logits(&prediction, info->graph->classes);
        } else {
            print_classes(&prediction, info);
        }
    }
    return ls_command_flush(stdout);
}

static ls_status predict_pictures(
    const ls_args *args, const ls_config *cfg, const ls_picture_list *pictures, ls_status *unread) {
    ls_safetensors *file;
    ls_weights_info *info;
    LS_TRY(ls_command_weights(args, cfg, &file, &info));
    ls_predictor_options options = {
        .cfg = cfg, .facts = info, .file = file, .paths = (const char *const *)pictures->paths, .count = pictures->count
    };
    ls_predictor *predictor = NULL;
    ls_status status = ls_predictor_new(&options, &predictor);
    if (!ls_failed(status)) {
        ls_report_why_not_gpu(ls_predictor_why_not_gpu(predictor));
        status = print_all(args, pictures->count, info, predictor, unread);
    }
    ls_predictor_free(predictor);
    ls_weights_info_free(info);
    ls_safetensors_free(file);
    return status;
}

static ls_status predict(const ls_args *args, const ls_config *cfg, ls_status *unread) {
    ls_picture_list pictures;
    LS_TRY(ls_pictures_list(args->files, args->file_count, &pictures));
    ls_status status = predict_pictures(args, cfg, &pictures, unread);
    ls_pictures_list_free(&pictures);
    return status;
}

ls_status ls_cmd_predict(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    ls_status unread = LS_SUCCESS;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    const int works = ls_comm_get_info(comm)->rank == 0;
    LS_TRY(ls_command_agree(comm, works ? predict(args, &cfg, &unread) : LS_SUCCESS));
    return ls_comm_agree(comm, unread, NULL); // its message is printed already
}
