// predict.h - computes a network's logits for pictures. It uses the program that evaluates in training (compile.h,
// training = 0), on the device that cfg selects, in fp32. With eval.tta the logits are the weighted mean over all views
// (views.h).
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include "config/config.h"
#include "formats/weights_metadata.h"

typedef struct ls_predictor ls_predictor;

// The input of ls_predictor_new. The pointers are borrowed until the predictor is freed.
typedef struct {
    const ls_config *cfg; // reads device.*, data.workers, data.prefetch, data.decoder, data.resize, eval.tta
    const ls_weights_info *facts;
    const ls_safetensors *file;
    const char *const *paths; // files of pictures; NULL: `pictures` is used
    int64_t count;            // number of paths or pictures, at least 1
    ls_dataset *pictures;     // pictures in memory, normalised by their own mean and std; NULL: `paths` is used
} ls_predictor_options;

typedef struct {
    const char *path;    // NULL: the options have no paths
    ls_status status;    // LS_DATA: this picture could not be read
    const float *logits; // one logit for each class; valid until the next call
} ls_prediction;

// Opens the device and the network for predictions. Not collective. LS_STORAGE: the file lacks weights of the network.
// LS_DEVICE: the device cannot be opened.
LS_CHECKED ls_status ls_predictor_new(const ls_predictor_options *options, ls_predictor **out);
void ls_predictor_free(ls_predictor *predictor); // NULL is allowed
// Returns in one line why device.type = auto chose the CPU, or NULL if it did not.
const char *ls_predictor_why_not_gpu(const ls_predictor *predictor);
// Computes the logits of the next picture, in the order of `paths` or `pictures`. Call it at most options.count times.
// A picture's logits do not depend on the other pictures. LS_NUMERIC: the logits are not finite.
LS_CHECKED ls_status ls_predictor_next(ls_predictor *predictor, ls_prediction *prediction);

#endif
