// gpu_records.h - the state of all ranks' GPUs (system/monitor.h), for the records of a run.
#ifndef LS_TRAIN_GPU_RECORDS_H
#define LS_TRAIN_GPU_RECORDS_H

#include "device/device.h"
#include "system/monitor.h"
#include "dist/comm.h"

typedef struct ls_gpu_records ls_gpu_records;

// start, gather and sum are collective. *out is NULL on all ranks if no rank can monitor a GPU. The rest accept NULL.
LS_CHECKED ls_status ls_gpu_records_start(ls_comm *comm, const ls_device_info *facts, ls_gpu_records **out);
// *samples: the newest sample of each rank, [world_size], valid until the next call. NULL if records is NULL.
LS_CHECKED ls_status ls_gpu_records_gather(ls_gpu_records *records, const ls_gpu_sample **samples);
// Values since the start, over all ranks: means of utilisation and clock, maxima of the rest. samples 0: unknown.
LS_CHECKED ls_status ls_gpu_records_sum(ls_gpu_records *records, ls_gpu_sample *all);
void ls_gpu_records_free(ls_gpu_records *records); // not collective

#endif
