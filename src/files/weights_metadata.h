// weights_metadata.h - what describes a weights file in its __metadata__ (safetensors.h), so that it alone is enough
// to predict and to export, on any machine:
//   format             "pt", the mark of PyTorch's own files
//   lockstep.version   the program that wrote it
//   lockstep.network   the text of the network file
//   lockstep.dataset   "fashion-mnist"
//   lockstep.mean      of pixel/255, a number a channel, separated by commas
//   lockstep.std       likewise
//   lockstep.classes   JSON: a list of the classes' names, in the order of their labels
//   lockstep.init      of a run that began with weights of a file: its hash, 16 hex digits of XXH3; else not there
//   lockstep.resize    "bilinear": pictures of another size are stretched to the network's input by data/image_resize.h;
//                      "bilinear, crop": they cover it, and what is too much is cut off (data.resize = crop)
//   lockstep.decoder   of the pictures that it was trained on (data/image_decode.h), where they were files: "stb_image"
// All of it is UTF-8, whatever the network file's comments and the folders' names are (base/text.h, ls_text_as_utf8): else Python
// could not load it.
#ifndef LS_FILES_WEIGHTS_METADATA_H
#define LS_FILES_WEIGHTS_METADATA_H

#include "base/json.h"
#include "config/config.h"
#include "data/dataset.h"
#include "model/graph.h"
#include "files/safetensors.h"

enum { LS_WEIGHTS_METADATA_MAX = 10 };

// For writing weights. list[0..count-1] borrows from texts and from nothing else.
typedef struct {
    ls_metadata_entry list[LS_WEIGHTS_METADATA_MAX];
    int count;
    char *texts[LS_WEIGHTS_METADATA_MAX];
} ls_weights_metadata;

// parts: of the run (run_parts.h), or NULL.
LS_CHECKED ls_status ls_weights_metadata_new(
    const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts, ls_weights_metadata **out);
void ls_weights_metadata_free(ls_weights_metadata *metadata); // NULL is allowed

// For reading weights.
typedef struct {
    ls_graph *graph;
    char dataset[32];
    float mean[16], std[16]; // graph->input.c of them, of pixel/255
    int resize;              // as data.resize has it
    char decoder[64];        // "": unknown, or no files
    char **classes;          // graph->classes names
} ls_weights_info;

// LS_STORAGE: the file has no metadata (the message names how to do without), or it is damaged. path: for messages.
LS_CHECKED ls_status ls_weights_info_read(const char *path, const ls_safetensors *file, ls_weights_info **out);
// For a file without metadata: as a run with this configuration would write it. Opens its network and its data set.
LS_CHECKED ls_status ls_weights_info_configured(const ls_config *cfg, ls_weights_info **out);
void ls_weights_info_free(ls_weights_info *info); // NULL is allowed

#endif
