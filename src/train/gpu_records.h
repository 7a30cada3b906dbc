// gpu_records.h - the state of all ranks' GPUs (system/monitor.h), for the records of a run.
#ifndef LS_TRAIN_GPU_RECORDS_H
#define LS_TRAIN_GPU_RECORDS_H

#include "device/device.h"
#include "system/monitor.h"
#include "dist/comm.h"

typedef struct ls_gpu_records ls_gpu_records;

// Starts to record the state of all ranks' GPUs. Collective, as are gather and sum. *out is NULL on all ranks if no
// rank can monitor a GPU; the functions below accept NULL.
LS_CHECKED ls_status ls_gpu_records_start(ls_comm *comm, const ls_device_info *facts, ls_gpu_records **out);
// Gathers the newest sample of each rank's GPU into *samples, [world_size], valid until the next gather or sum.
// *samples is NULL if `records` is NULL.
LS_CHECKED ls_status ls_gpu_records_gather(ls_gpu_records *records, const ls_gpu_sample **samples);
// Sums the samples since the start over all ranks into *all: means of utilisation and clock, maxima of memory, power
// and temperature, every reason of `slowed`. all->samples is 0 if nothing is known.
LS_CHECKED ls_status ls_gpu_records_sum(ls_gpu_records *records, ls_gpu_sample *all);
void ls_gpu_records_free(ls_gpu_records *records); // not collective

#endif
