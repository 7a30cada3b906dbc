// side.h - one of the two things that `train compare` compares: a run's folder, a checkpoint or a weights file.
#ifndef LS_TOOLS_COMPARE_SIDE_H
#define LS_TOOLS_COMPARE_SIDE_H

#include "base/json.h"
#include "config/config.h"
#include "run/checkpoint.h"

typedef enum { LS_SIDE_RUN, LS_SIDE_CHECKPOINT, LS_SIDE_WEIGHTS } ls_side_kind;
typedef enum { LS_EVENT_TRAIN, LS_EVENT_EVAL, LS_EVENT_CHECKPOINT, LS_EVENT_KINDS } ls_event_kind;

// Events of one kind by rising update, one per update. An event that a later part of the run has repeated, after it
// resumed from an earlier checkpoint, is left out.
typedef struct {
    cJSON **event;
    int count;
} ls_event_list;

typedef struct {
    ls_side_kind kind;
    char path[LS_TEXT_BYTES];
    // Of a run. Any of its files may be missing or cut off: it may be under way, or of an earlier version.
    ls_config *config; // NULL: unknown, as are the next four
    char *network;     // the text of network.ini
    cJSON *summary;    // of a complete run
    cJSON *start;      // of the last part
    cJSON *manifest;   // of the newest checkpoint whose manifest can be read
    ls_event_list events[LS_EVENT_KINDS];
    int parts;      // starts
    int64_t *saved; // updates of the checkpoints, oldest first
    int saved_count;
    // The state that is open: a checkpoint, or weights alone; both NULL: none.
    ls_checkpoint *checkpoint;
    ls_safetensors *weights;
} ls_side;

int64_t ls_event_update(const cJSON *event); // -1: it has none
// Opens the state of a checkpoint or of a weights file, not of a run. LS_STORAGE: the path is none of the three, or a
// file cannot be read.
LS_CHECKED ls_status ls_side_read(const char *path, ls_side **out);
void ls_side_free(ls_side *side); // NULL is allowed

// Of a run. Each closes the state that is open, and leaves none open where there is none to read: a run's damaged
// checkpoints count as absent.
LS_CHECKED ls_status ls_side_open_checkpoint(ls_side *side, int64_t update);
LS_CHECKED ls_status ls_side_open_newest(ls_side *side);
LS_CHECKED ls_status ls_side_open_weights(ls_side *side); // weights.safetensors in the folder

#endif
