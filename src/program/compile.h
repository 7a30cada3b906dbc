// compile.h - compiles a network into a program: chooses and fuses the operators, adds the backward pass (in training),
// and places activations in memory by their lifetimes.
//
// Layers are fused only if no other layer reads the value between them. Fusions on every device:
//   batchnorm2d, the add of an earlier value and the relu after it (both optional) become one batch norm operator, and
//   so do batchnorm2d and another activation after it, if the activation of 0 is 0.
//   A relu before max pooling is computed by the pooling, unless a batch norm computes it.
//   Flatten, and dropout in evaluation, become nothing.
// Fusions on devices that support them (ls_fusion in device/device.h):
//   LS_FUSES_NORM_POOL, LS_FUSES_NORM_POOL_2X2: max pooling after batchnorm2d and relu joins the batch norm operator,
//   if its window suits (norm_takes_pool).
//   LS_FUSES_RELU_ADD: the add of an earlier value after batchnorm2d and relu joins the batch norm operator, if no add
//   came before the relu.
//   LS_FUSES_BIAS: max pooling adds the bias of the convolution before it. A linear layer with a bias computes the relu
//   after it.
//   LS_FUSES_SCALE, in training: if the last layer is a scale, the loss multiplies by its factor.
//   LS_FUSES_HEAD, in training: the loss operator also computes the linear layer at the end of the network and a
//   pooling of the whole map before it, if they suit (ls_builder_find_head).
// A program with a teacher joins neither scale nor head to the loss, because the teacher's part reads the logits and
// adds to their gradient. The teacher's forward pass follows the augmentation. It is that of evaluation, at the data's
// resolution. It is in the same list, so its activations share the slab, and code that runs or shows a program
// includes it.
// If a value has two gradients, because it is read twice, the backward operator of its producer adds them if the
// producer is batch norm (with LS_FUSES_CONCAT_ADD also if it is a concat). Otherwise an add operator does.
#ifndef LS_PROGRAM_COMPILE_H
#define LS_PROGRAM_COMPILE_H

#include "config/config.h"
#include "model/graph.h"
#include "program/param_store.h"
#include "program/program.h"

typedef struct {
    // The store's network at another resolution (ls_graph_resize), to which pictures are resized; borrowed, must
    // outlive the program. NULL: the store's own network.
    const ls_graph *graph;
    int micro_batch;
    int training;  // 0: forward pass and loss only; batch norm uses its running statistics
    int64_t epoch; // training: first epoch of the program; parameters whose rate is 0 from then on get no gradient
    float label_smoothing; // training: smoothing of the loss's targets
    int weighted;          // training: the loss uses LS_INPUT_CLASS_WEIGHTS
    float focal_gamma;     // training: gamma of the focal loss; 0: no focal loss
    int several;           // pictures have several labels, and the loss uses LS_INPUT_LABEL_SETS
    float mean_of;         // training: argument of LS_GRADIENT_SCALE (device/op_update.h)
    uint64_t seed;         // seed of dropout
    ls_augmentation augmentation;
    int indexed;   // the pixels are the whole data set, and LS_INPUT_INDEX lists the batch's samples
    int recompute; // training: the backward pass computes activations inside blocks a second time (recompute.c)
    int sync_norm; // training: batch norm sums its statistics over all ranks
    // training: the store of another network, whose logits for the same pictures give a part of the loss
    // (device/op_distill.h). It has the device, storage and input of the program's store. NULL: no teacher.
    const ls_param_store *teacher;
    float teacher_share, temperature; // teacher_share: the teacher's part of the loss, from 0 to 1
} ls_compile_options;

// Returns mean_of for LS_GRADIENT_SCALE (device/op_update.h): the samples of a global batch if train.precision is fp16
// and the loss is a mean, else 0.
float ls_gradient_mean_of(const ls_config *cfg);
// Returns the options of a training program, from cfg. The caller sets graph, epoch, indexed, sync_norm and teacher.
ls_compile_options ls_compile_options_of(const ls_config *cfg, int micro_batch);

// Compiles options->graph, or the store's network. The stores must outlive the program. They need not have memory yet,
// but the program must be bound (ls_program_bind) before it runs. LS_USAGE: quantise layers need fp32, or the device
// cannot compute a layer. LS_DEVICE: the device or its memory fails.
LS_CHECKED ls_status ls_compile(const ls_param_store *store, const ls_compile_options *options, ls_program **out);
// Computes only the program's activation_bytes. This is cheap, because no plans are made.
LS_CHECKED ls_status ls_compile_measure(
    const ls_param_store *store, const ls_compile_options *options, size_t *activation_bytes);

#endif
