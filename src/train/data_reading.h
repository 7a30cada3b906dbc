// data_reading.h - opens a split of the data in its own thread while the network and the device are opened.
#ifndef LS_TRAIN_DATA_READING_H
#define LS_TRAIN_DATA_READING_H

#include <pthread.h>
#include "data/dataset.h"

typedef struct {
    const ls_config *cfg; // borrowed
    ls_split split;
    ls_dataset *dataset;
    ls_status status;
    pthread_t thread;
    int started;
} ls_data_reading;

// Starts to open the split in a thread of its own. If no thread can be started, opens it before returning: slower, but
// with the same result.
void ls_data_reading_start(ls_data_reading *reading, const ls_config *cfg, ls_split split);
// Waits until the split is open. Later calls return the same data set; the caller frees *out once. LS_DATA: the split
// cannot be read.
LS_CHECKED ls_status ls_data_reading_finish(ls_data_reading *reading, ls_dataset **out);

#endif
