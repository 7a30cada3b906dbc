// nonfinite_dump.h - the folder RUN/nonfinite-update-N: one micro-batch, with everything that `train replay` needs to
// compute it again on any machine.
//   config.ini           the options of the run, without paths of this machine
//   network.ini          the network
//   weights.safetensors  the weights at the beginning of the update
//   batch.safetensors    pixels         uint8 (N,C,H,W)
//                        labels         int32 (N)
//                        augment        uint8 (N,32): the ls_augment_sample of each sample (config/augmentation.h),
//                                       little-endian. Older folders have only its first 4 bytes: placement, uint8
//                                       (N,4)
//                        samples        int64 (N): numbers of the samples in the data set
//                        table          float32 (C,256): the normalised value of each pixel value
//                        class_weights  float32 (classes); only with train.class_weights
//                        sums.K         float64 (2C + 1): result of the K-th sum over ranks of synchronised batch norm
//   nonfinite.json       the report (nonfinite.h). Read again are: update, epoch, loss scale, position of the first
//                        sample
//                        in its window, and the layer and tensor where the failure began
// The folder is complete or absent: it is written under another name and then renamed.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_DUMP_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_DUMP_H

#include "device/device.h"
#include "train/diagnose/nonfinite.h"
#include "formats/safetensors.h"
#include "train/run_session.h"

// Results of synchronised batch norm's sums over ranks, in program order. Each is canonical: 2C sums and the count.
typedef struct {
    int count, capacity;
    struct ls_norm_sum {
        int channels;
        double *values; // 2 * channels + 1
    } * list;
} ls_norm_sums;

// Appends the sums in `buffer`, which lies on the device, to the list.
LS_CHECKED ls_status ls_norm_sums_keep(
    ls_norm_sums *sums, ls_device *device, ls_queue *queue, ls_buffer buffer, int64_t count, int channels);
// Copies sum number `index` of the list to the memory from which the program reads it. LS_STORAGE: the sum is missing
// or its channels differ.
LS_CHECKED ls_status ls_norm_sums_put(const ls_norm_sums *sums, int index, ls_device *device, ls_queue *queue,
    ls_buffer buffer, int64_t count, int channels);
void ls_norm_sums_free(ls_norm_sums *sums);

// Writes the folder into `run`, the folder of the run. Only rank 0 calls it. samples: the numbers of the report->count
// samples. Sets report->folder. LS_STORAGE: a file cannot be written.
LS_CHECKED ls_status ls_nonfinite_write(const ls_run_session *session, const char *run, ls_nonfinite *report,
    const int64_t *samples, const ls_norm_sums *sums);

// The micro-batch that was read from a folder nonfinite-update-N.
typedef struct {
    ls_graph *graph;
    ls_safetensors *weights, *batch; // the pointers below point into these files, unless they are owned
    ls_nchw shape;                   // shape of pixels
    const float *table;
    const uint8_t *pixels;
    const int32_t *labels;
    const int64_t *samples;
    const float *class_weights; // NULL: the run had no class weights
    ls_augment_sample *augment; // owned
    ls_norm_sums sums;          // owned; count 0: batch norm is not synchronised
    int64_t update, epoch, position;
    float loss_scale;
    // The place where the failure began, as the run reported it.
    char layer[LS_TENSOR_STATS_NAME_BYTES], tensor[LS_TENSOR_STATS_NAME_BYTES];
} ls_nonfinite_batch;

// Reads a folder nonfinite-update-N. LS_STORAGE: a file is missing or damaged, or does not match the other files.
LS_CHECKED ls_status ls_nonfinite_read(const char *folder, ls_nonfinite_batch *out);
void ls_nonfinite_batch_free(ls_nonfinite_batch *batch);

#endif
