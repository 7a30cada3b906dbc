// nonfinite_dump.h - the folder RUN/nonfinite-update-N: one micro-batch, with all that `train replay` needs
// to compute it again on any machine.
//   config.ini           the run's options, with no path of this machine
//   network.ini          the network
//   weights.safetensors  as they were at the beginning of the update
//   batch.safetensors    pixels     uint8 (N,C,H,W)
//                        labels     int32 (N)
//                        augment    uint8 (N,32) = the ls_augment_sample of each (config/augmentation.h), little-endian; older
//                                   folders have its first 4 bytes, as placement, uint8 (N,4)
//                        samples    int64 (N) = their numbers in the data set
//                        table      float32 (C,256) = the normalised value of each pixel value
//                        class_weights  float32 (classes), with train.class_weights
//                        sums.K     float64 (2C + 1), of synchronised batch norm: what its K-th sum over ranks gave
//   nonfinite.json       where it began (nonfinite.h), and what the program reads beside that: update, epoch, position of the
//                        first sample in its window, loss scale
// Whole or not at all: it is written under another name and renamed.
#ifndef LS_TRAIN_DIAGNOSE_NONFINITE_DUMP_H
#define LS_TRAIN_DIAGNOSE_NONFINITE_DUMP_H

#include "device/device.h"
#include "train/diagnose/nonfinite.h"
#include "formats/safetensors.h"
#include "train/run_session.h"

// What synchronised batch norm's sums over ranks gave, in the order of the program; canonical: 2C sums and the count.
typedef struct {
    int count, capacity;
    struct ls_norm_sum {
        int channels;
        double *values; // 2 * channels + 1
    } * list;
} ls_norm_sums;

// Appends sums that lie on the device.
LS_CHECKED ls_status ls_norm_sums_keep(
    ls_norm_sums *sums, ls_device *device, ls_queue *queue, ls_buffer buffer, int64_t count, int channels);
// Puts number `index` where the program reads it. LS_STORAGE: there is none of so many channels.
LS_CHECKED ls_status ls_norm_sums_put(const ls_norm_sums *sums, int index, ls_device *device, ls_queue *queue,
    ls_buffer buffer, int64_t count, int channels);
void ls_norm_sums_free(ls_norm_sums *sums);

// Rank 0 writes, below the run's folder. samples: report->count of them. Sets report->folder. LS_STORAGE as any file.
LS_CHECKED ls_status ls_nonfinite_write(const ls_run_session *session, const char *run, ls_nonfinite *report,
    const int64_t *samples, const ls_norm_sums *sums);

// The micro-batch of a folder.
typedef struct {
    ls_graph *graph;
    ls_safetensors *weights, *batch; // hold what follows
    ls_nchw shape;                   // of pixels
    const float *table;
    const uint8_t *pixels;
    const int32_t *labels;
    const int64_t *samples;
    const float *class_weights; // NULL: none
    ls_augment_sample *augment; // own
    ls_norm_sums sums;          // own; count 0: batch norm is not synchronised
    int64_t update, epoch, position;
    float loss_scale;
    char layer[LS_TENSOR_STATS_NAME_BYTES], tensor[LS_TENSOR_STATS_NAME_BYTES]; // where it began, as the run said
} ls_nonfinite_batch;

// LS_STORAGE: a file is missing or damaged, or does not fit the others.
LS_CHECKED ls_status ls_nonfinite_read(const char *folder, ls_nonfinite_batch *out);
void ls_nonfinite_batch_free(ls_nonfinite_batch *batch);

#endif
