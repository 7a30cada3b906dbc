// cmd_predict.c - `train predict WEIGHTS IMAGE...`: prints a line for each picture. First come the pictures of the
// command line in its order (pictures of a folder sorted by name), then the pictures that --files-from names.
//
// A line has fields separated by tabs: the path as given ("-": standard input), then up to five pairs of a class and
// its probability, the likeliest class first. If pictures have several labels (data.labels), the pairs are the labels
// whose probability is above 0.5; there may be none. With --logits the network's output for each class follows the path
// instead, with enough digits to read back the same floats. With --json each line is a JSON object with the same
// contents.
//
// For a picture that cannot be read, a message is printed instead of a line. The other pictures keep their lines, and
// the exit code is 3.

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "command/commands.h"
#include "command/report.h"
#include "data/label_file.h"
#include "data/picture_list.h"
#include "train/predict.h"

enum { SHOWN = 5, LABELS_SHOWN = LS_LABELS_MAX };

typedef struct {
    int index;
    double probability;
} likely;

// Finds up to SHOWN likeliest classes, or the labels above 0.5, the best first, and returns their
// number. Of equal classes the lower number wins, as in an evaluation.
static int find_likeliest(const float *logits, const ls_weights_info *info, likely best[LABELS_SHOWN]) {
    const int classes = info->graph->classes, shown = info->several ? LABELS_SHOWN : SHOWN;
    int count = 0;
    for (int k = 0; k < classes; k++) {
        if (info->several && !(logits[k] > 0)) continue;
        int at = count < shown ? count++ : shown;
        for (; at > 0 && logits[k] > logits[best[at - 1].index]; at--)
            if (at < shown) best[at] = best[at - 1];
        if (at < shown) best[at].index = k;
    }
    for (int i = 0; info->several && i < count; i++)
        best[i].probability = 1 / (1 + exp(-(double)logits[best[i].index]));
    if (info->several) return count;
    const double most = (double)logits[best[0].index];
    double sum = 0;
    for (int k = 0; k < classes; k++) sum += exp((double)logits[k] - most);
    for (int i = 0; i < count; i++) best[i].probability = exp((double)logits[best[i].index] - most) / sum;
    return count;
}

static void print_logits(const ls_prediction *prediction, int classes) {
    ls_text_print(stdout, prediction->path);
    for (int k = 0; k < classes; k++) printf("\t%.9g", (double)prediction->logits[k]);
    putchar('\n');
}

static void print_classes(const ls_prediction *prediction, const ls_weights_info *info) {
    likely best[LABELS_SHOWN];
    const int count = find_likeliest(prediction->logits, info, best);
    ls_text_print(stdout, prediction->path);
    for (int i = 0; i < count; i++) {
        putchar('\t');
        ls_text_print(stdout, info->classes[best[i].index]);
        printf("\t%.6f", best[i].probability);
    }
    putchar('\n');
}

static void add_logits(cJSON *tree, const ls_prediction *prediction, int classes) {
    cJSON *list = ls_json_add_array(tree, "logits");
    for (int k = 0; k < classes; k++) {
        char digits[32];
        snprintf(digits, sizeof digits, "%.9g", (double)prediction->logits[k]);
        ls_json_append(list, cJSON_CreateRaw(digits));
    }
}

static void add_classes(cJSON *tree, const ls_prediction *prediction, const ls_weights_info *info) {
    likely best[LABELS_SHOWN];
    const int count = find_likeliest(prediction->logits, info, best);
    cJSON *list = ls_json_add_array(tree, "classes");
    for (int i = 0; i < count; i++) {
        cJSON *item = ls_json_append(list, cJSON_CreateObject());
        ls_json_add_text(item, "name", info->classes[best[i].index]);
        ls_json_add_real(item, "probability", best[i].probability);
    }
}

static ls_status print_json(const ls_prediction *prediction, const ls_weights_info *info, int with_logits) {
    cJSON *tree = cJSON_CreateObject();
    ls_json_add_text(tree, "path", prediction->path);
    if (with_logits)
        add_logits(tree, prediction, info->graph->classes);
    else
        add_classes(tree, prediction, info);
    ls_status status = ls_json_write_line(stdout, "standard output", tree);
    cJSON_Delete(tree);
    return status;
}

static ls_status print_one(const ls_args *args, const ls_prediction *prediction, const ls_weights_info *info) {
    if (args->json) return print_json(prediction, info, args->logits);
    if (args->logits)
        print_logits(prediction, info->graph->classes);
    else
        print_classes(prediction, info);
    return LS_SUCCESS;
}

// Prints all pictures in order, or the message of a picture that could not be read. *unread: the first such failure.
static ls_status print_all(
    const ls_args *args, int64_t count, const ls_weights_info *info, ls_predictor *p, ls_status *unread) {
    for (int64_t i = 0; i < count; i++) {
        ls_prediction prediction;
        LS_TRY(ls_predictor_next(p, &prediction));
        if (ls_failed(prediction.status)) {
            ls_log_status(prediction.status);
            ls_keep_first(unread, prediction.status);
        } else {
            LS_TRY(print_one(args, &prediction, info));
        }
    }
    return ls_command_flush(stdout);
}

static ls_status predict_pictures(
    const ls_args *args, ls_config *cfg, const ls_picture_list *pictures, ls_status *unread) {
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

// Refuses to use standard input twice (it is one picture or one list of names), or from a terminal.
static ls_status check_stdin(const ls_args *args, const ls_picture_list *pictures) {
    int uses = args->files_from && strcmp(args->files_from, "-") == 0;
    for (int64_t i = 0; i < pictures->count; i++) uses += strcmp(pictures->paths[i], "-") == 0;
    if (uses > 1)
        return ls_fail(
            LS_USAGE, "standard input ('-') is named %d times, and can be read once (a file of that name: ./-)", uses);
    if (uses == 1 && isatty(STDIN_FILENO))
        return ls_fail(LS_USAGE,
            "standard input ('-') is a terminal: expected a picture, or names by --files-from, from a pipe or a file");
    return LS_SUCCESS;
}

static ls_status list_pictures(const ls_args *args, ls_picture_list *pictures) {
    for (int i = 0; i < args->file_count; i++) LS_TRY(ls_picture_list_add(pictures, args->files[i]));
    LS_TRY(check_stdin(args, pictures));
    if (!args->files_from) return LS_SUCCESS;
    LS_TRY(ls_picture_list_add_names(pictures, args->files_from));
    return check_stdin(args, pictures);
}

static ls_status predict(const ls_args *args, ls_config *cfg, ls_status *unread) {
    ls_picture_list pictures = { 0 };
    ls_status status = list_pictures(args, &pictures);
    LS_THEN(status, predict_pictures(args, cfg, &pictures, unread));
    ls_picture_list_free(&pictures);
    return status;
}

ls_status ls_cmd_predict(const ls_args *args, ls_comm *comm) {
    ls_config cfg;
    ls_status unread = LS_SUCCESS;
    LS_TRY(ls_command_agree(comm, ls_command_configure(args, comm, &cfg)));
    const int works = ls_comm_get_info(comm)->rank == 0;
    LS_TRY(ls_command_agree(comm, works ? predict(args, &cfg, &unread) : LS_SUCCESS));
    return ls_comm_agree(comm, unread, NULL); // the message of `unread` is already printed
}
