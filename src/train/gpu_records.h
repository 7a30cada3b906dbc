// gpu_records.h - what the GPUs of all ranks are doing, for the records of a run (system/monitor.h).
#ifndef LS_TRAIN_GPU_RECORDS_H
#define LS_TRAIN_GPU_RECORDS_H

#include "device/device.h"
#include "system/monitor.h"
#include "dist/comm.h"

typedef struct ls_gpu_records ls_gpu_records;

// All ranks call each of these alike. *out is NULL on all ranks where no rank can look at a GPU; the others take that.
LS_CHECKED ls_status ls_gpu_records_start(ls_comm *comm, const ls_device_info *facts, ls_gpu_records **out);
// *samples: [world_size], the newest of each rank, on all of them, until the next
// call; NULL where there are no records.
LS_CHECKED ls_status ls_gpu_records_gather(ls_gpu_records *records, const ls_gpu_sample **samples);
// Since the start, over all ranks: the mean utilisation and clock, the highest of the rest.
// samples is 0 where nothing is known.
LS_CHECKED ls_status ls_gpu_records_sum(ls_gpu_records *records, ls_gpu_sample *all);
void ls_gpu_records_free(ls_gpu_records *records); // one rank's own affair

#endif
