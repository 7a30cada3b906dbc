// predict.h - what a network says of pictures: its logits for each, by the program that evaluates it in training
// (compile.h, training = 0) on whatever device cfg says, in fp32; with eval.tta the weighted mean over all views
// (views.h).
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include "config/config.h"
#include "formats/weights_metadata.h"

typedef struct ls_predictor ls_predictor;

typedef struct {
    const ls_config *cfg;         // device.*, data.workers, data.prefetch, eval.tta
    const ls_weights_info *facts; // these three are borrowed until the predictor is freed; cfg is not
    const ls_safetensors *file;
    const char *const *paths;
    int64_t count; // of paths, at least 1
} ls_predictor_options;

typedef struct {
    const char *path;
    ls_status status;    // LS_DATA: this picture could not be read
    const float *logits; // facts->graph->classes of them, until the next call
} ls_prediction;

// One rank by itself. LS_STORAGE: the file lacks weights of the network; LS_DEVICE: as opening a device may fail.
LS_CHECKED ls_status ls_predictor_new(const ls_predictor_options *options, ls_predictor **out);
void ls_predictor_free(ls_predictor *predictor); // NULL is allowed
const char *ls_predictor_why_not_gpu(
    const ls_predictor *predictor); // one line, where device.type = auto took the cpu; or NULL
// The next picture, in the order of paths; as many calls as there are paths. A picture's logits do not depend on the
// other pictures. LS_NUMERIC: they are not finite.
LS_CHECKED ls_status ls_predictor_next(ls_predictor *predictor, ls_prediction *prediction);

#endif
