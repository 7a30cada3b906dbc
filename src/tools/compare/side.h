// side.h - one of the two sides of `train compare`: a run's folder, a checkpoint or a weights file.
#ifndef LS_TOOLS_COMPARE_SIDE_H
#define LS_TOOLS_COMPARE_SIDE_H

#include "base/json.h"
#include "config/config.h"
#include "run/checkpoint.h"

typedef enum { LS_SIDE_RUN, LS_SIDE_CHECKPOINT, LS_SIDE_WEIGHTS } ls_side_kind;
typedef enum { LS_EVENT_TRAIN, LS_EVENT_EVAL, LS_EVENT_CHECKPOINT, LS_EVENT_KINDS } ls_event_kind;

// Events of one kind by rising update, one per update. If a run resumed from a checkpoint and did updates again, the
// events of the first time are left out.
typedef struct {
    cJSON **event;
    int count;
} ls_event_list;

typedef struct {
    ls_side_kind kind;
    char path[LS_TEXT_BYTES];
    // The next members are for runs only. Any file of a run may be missing or cut off: the run may still be going on,
    // or an earlier version of the program wrote it.
    ls_config *config; // from config.ini; this and the next four are NULL if unknown
    char *network;     // text of network.ini
    cJSON *summary;    // summary.json, which only a complete run has
    cJSON *start;      // start event of the last part of the run
    cJSON *manifest;   // manifest of the newest checkpoint whose manifest can be read
    ls_event_list events[LS_EVENT_KINDS];
    int parts;      // number of start events: a resumed run has several parts
    int64_t *saved; // updates of the run's checkpoints, oldest first
    int saved_count;
    // The open state of any side: a checkpoint, or weights alone. Both are NULL if no state is open.
    ls_checkpoint *checkpoint;
    ls_safetensors *weights;
} ls_side;

int64_t ls_event_update(const cJSON *event); // the event's update; -1: the event names no update
// Reads a side and finds out its kind. The state of a checkpoint or a weights file is then open; the state of a run is
// not. LS_STORAGE: the path is not a run, checkpoint or weights file, or a file cannot be read.
LS_CHECKED ls_status ls_side_read(const char *path, ls_side **out);
void ls_side_free(ls_side *side); // NULL is allowed

// Closes the open state of a run, and opens the checkpoint of this update. If it does not exist, no state is open
// afterwards and the function succeeds; a damaged checkpoint counts as missing. The next function opens the newest good
// checkpoint in the same way.
LS_CHECKED ls_status ls_side_open_checkpoint(ls_side *side, int64_t update);
LS_CHECKED ls_status ls_side_open_newest(ls_side *side);
LS_CHECKED ls_status ls_side_open_weights(ls_side *side); // RUN/weights.safetensors, if it exists; LS_STORAGE: damaged

#endif
