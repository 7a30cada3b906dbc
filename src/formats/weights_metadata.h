// weights_metadata.h - describes weights in the __metadata__ of their file (safetensors.h), so that the file alone is
// enough to predict and to export, on any machine:
//   format             "pt", as in PyTorch's own files
//   lockstep.version   version of the program that wrote the file
//   lockstep.network   text of the network file
//   lockstep.dataset   name of the data set, such as "fashion-mnist"
//   lockstep.mean      mean of pixel/255: one number for each channel, separated by commas
//   lockstep.std       standard deviation of pixel/255, likewise
//   lockstep.classes   names of the classes in the order of their labels, as a JSON list
//   lockstep.labels    "several": a picture may have several of the classes (data.labels); absent if it has one
//   lockstep.init      hash of the weights file from which the run began: 16 hex digits of XXH3; absent if it began
//                      without one
//   lockstep.resize    "bilinear": pictures of another size are stretched to the network's input (data/image_resize.h);
//                      "bilinear, crop": they are scaled to cover the input, and the rest is cut off (data.resize =
//                      crop)
//   lockstep.decoder   decoder of the training pictures (data/image_decode.h), such as "stb_image"; absent if they were
//                      not picture files
// All texts are valid UTF-8, even if comments of the network file or names of folders are not (ls_text_as_utf8 in
// base/text.h). Otherwise Python could not load the file.
#ifndef LS_FORMATS_WEIGHTS_METADATA_H
#define LS_FORMATS_WEIGHTS_METADATA_H

#include "base/json.h"
#include "config/config.h"
#include "data/dataset.h"
#include "model/graph.h"
#include "formats/safetensors.h"

enum { LS_WEIGHTS_METADATA_MAX = 11 };

// The metadata to write. list[0..count-1] borrows from texts only.
typedef struct {
    ls_metadata_entry list[LS_WEIGHTS_METADATA_MAX];
    int count;
    char *texts[LS_WEIGHTS_METADATA_MAX];
} ls_weights_metadata;

// Makes the metadata of a run's weights. parts: the parts of the run (run_parts.h), or NULL.
LS_CHECKED ls_status ls_weights_metadata_new(
    const ls_graph *graph, const ls_dataset *dataset, const cJSON *parts, ls_weights_metadata **out);
void ls_weights_metadata_free(ls_weights_metadata *metadata); // NULL is allowed

// The known facts about weights and the pictures that they are for. They come from a weights file, a configuration or a
// data set.
typedef struct {
    ls_graph *graph;           // NULL: unknown
    ls_chw input;              // size of the network's pictures; c 0: unknown
    char dataset[32];          // name of the data set; "": unknown
    int mean_count, std_count; // numbers in mean and std, one for each channel; 0: unknown
    float mean[16], std[16];   // mean and standard deviation of pixel/255
    int resize;                // value of data.resize; LS_RESIZE_UNKNOWN: unknown, or there were no picture files
    char decoder[64];          // decoder of the pictures; "": unknown, or there were no picture files
    char **classes;            // names of the classes
    int class_count;           // number of classes; 0: unknown
    int several;               // whether a picture may have several of the classes
} ls_weights_info;
enum { LS_RESIZE_UNKNOWN = -1 };

// Reads the facts from a file's metadata. Facts may be missing, above all in a file of another program. path: for
// messages. LS_STORAGE: the metadata are damaged.
LS_CHECKED ls_status ls_weights_info_read(const char *path, const ls_safetensors *file, ls_weights_info **out);
// Fails with LS_STORAGE if a fact is missing that prediction and export need. The message suggests --config.
LS_CHECKED ls_status ls_weights_info_check(const char *path, const ls_weights_info *info);
// Returns the facts that a run with this configuration would write. Opens its network and its data set, which may fail.
// LS_USAGE: network and data set do not fit together.
LS_CHECKED ls_status ls_weights_info_configured(const ls_config *cfg, ls_weights_info **out);
// Returns the facts of a data set, without a network.
LS_CHECKED ls_status ls_weights_info_of_data(const ls_dataset *dataset, ls_weights_info **out);
// Returns the facts that a configuration gives without its data set: picture size, mean, std and resize, if they were
// given by hand. The number of channels is unknown (input.c is 0). LS_USAGE: such an option has a wrong value.
LS_CHECKED ls_status ls_weights_info_by_hand(const ls_config *cfg, ls_weights_info **out);
void ls_weights_info_free(ls_weights_info *info); // NULL is allowed

#endif
