// compile.h - from a network to a program: fuses layers into operators,
// adds the backward pass, places activations by lifetime.
//
// Fusions: batchnorm2d (+ add of an earlier value) (+ relu), or batchnorm2d + gelu, becomes one batch norm operator;
// relu before max pooling joins it; where the device can (LS_FUSES_NORM_POOL, or _2X2), max pooling joins batch norm with relu,
// (LS_FUSES_RELU_ADD) so does an add of an earlier value, and
// (LS_FUSES_BIAS) max pooling adds the convolution's bias, a relu joins the linear layer with a bias before it;
// in training the loss multiplies by the factor of a scale that is the last layer (LS_FUSES_SCALE), and takes in the linear
// layer before it and a global pooling before that (LS_FUSES_HEAD);
// flatten, and dropout in evaluation, become nothing. Gradients of a value with two readers are added by batch norm's
// backward operator where it is the producer, else by an add.
#ifndef LS_PROGRAM_COMPILE_H
#define LS_PROGRAM_COMPILE_H

#include "config/config.h"
#include "model/graph.h"
#include "program/param_store.h"
#include "program/program.h"

typedef struct {
    const ls_graph
        *graph; // the store's at another resolution (ls_graph_resize), to which pictures are resized; borrowed, must
                // outlive the program; NULL: the store's own
    int micro_batch;
    int training;          // 0: forward and loss only, with running statistics
    int64_t epoch;         // training: the first; parameters whose rate has ended by then have no gradient
    float label_smoothing; // training
    int weighted;          // training: by LS_INPUT_CLASS_WEIGHTS
    float mean_of;         // training: of LS_GRADIENT_SCALE (device/op_update.h)
    uint64_t seed;         // dropout
    ls_augmentation augmentation;
    int indexed;   // pixels are the whole data set's, and the batch is a list of numbers
    int recompute; // training: activations inside of blocks are computed again in the backward pass (recompute.c)
    int sync_norm; // training: batch norm's statistics are summed over ranks between two halves of its operators
} ls_compile_options;

// The samples by which fp16's loss scale is divided (device/op_update.h, LS_GRADIENT_SCALE); 0: by none.
float ls_gradient_mean_of(const ls_config *cfg);
// Of a training program, as the configuration says; indexed and sync_norm are the caller's.
ls_compile_options ls_compile_options_of(const ls_config *cfg, int micro_batch);

// LS_USAGE or LS_DEVICE naming the layer. The parameter store need not have memory yet. The program must be bound
// (ls_program_bind) before it runs.
LS_CHECKED ls_status ls_compile(const ls_param_store *store, const ls_compile_options *options, ls_program **out);
// The program's activation_bytes, without making its plans: cheap.
LS_CHECKED ls_status ls_compile_measure(
    const ls_param_store *store, const ls_compile_options *options, size_t *activation_bytes);

#endif
