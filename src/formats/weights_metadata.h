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
#ifndef LS_FORMATS_WEIGHTS_METADATA_H
#define LS_FORMATS_WEIGHTS_METADATA_H

#include "base/json.h"
#include "config/config.h"
#include "data/dataset.h"
#include "model/graph.h"
#include "formats/safetensors.h"

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

// What is known of weights, and of the pictures that they are for: by a weights file, a configuration or a data set.
typedef struct {
    ls_graph *graph;           // NULL: unknown
    ls_chw input;              // of the network; c 0: unknown
    char dataset[32];          // "": unknown
    int mean_count, std_count; // numbers, one a channel; 0: unknown
    float mean[16], std[16];   // of pixel/255
    int resize;                // as data.resize has it; LS_RESIZE_UNKNOWN, also where the pictures were no files
    char decoder[64];          // "": unknown, or no files
    char **classes;            // names
    int class_count;           // 0: unknown
} ls_weights_info;
enum { LS_RESIZE_UNKNOWN = -1 };

// What the file says; a file of another program may say nothing. path: for messages. LS_STORAGE: what it says is
// damaged.
LS_CHECKED ls_status ls_weights_info_read(const char *path, const ls_safetensors *file, ls_weights_info **out);
// LS_STORAGE: the file does not say all that is needed to predict and to export. The message names --config.
LS_CHECKED ls_status ls_weights_info_check(const char *path, const ls_weights_info *info);
// What a run with this configuration would write. Opens its network and its data set. LS_USAGE: they do not fit
// together.
LS_CHECKED ls_status ls_weights_info_configured(const ls_config *cfg, ls_weights_info **out);
// Of a data set alone, without a network.
LS_CHECKED ls_status ls_weights_info_of_data(const ls_dataset *dataset, ls_weights_info **out);
// What a configuration says without its data set: picture size, mean, std and resize, if they were given by hand. The
// picture's channels are unknown (input.c is 0). LS_USAGE: such an option has another form.
LS_CHECKED ls_status ls_weights_info_by_hand(const ls_config *cfg, ls_weights_info **out);
void ls_weights_info_free(ls_weights_info *info); // NULL is allowed

#endif
