// weights.h - finds the tensors of a network in a weights file. Parameters and statistics have the names, types and
// shapes of PyTorch's state_dict.
#ifndef LS_FORMATS_WEIGHTS_H
#define LS_FORMATS_WEIGHTS_H

#include "model/graph.h"
#include "formats/safetensors.h"
#include "program/session.h"

#define LS_WEIGHTS_EXPECTED "weights: a .safetensors file, or the folder of a run or a checkpoint"
// Writes the weights file that a user's path names into path: the path itself, or weights.safetensors in the folder of
// a run or checkpoint. LS_USAGE: the path does not exist, or is something else, such as a picture or a folder
// without weights. LS_STORAGE: it is the folder of a run that has no weights yet.
LS_CHECKED ls_status ls_weights_locate(const char *named, char *path, size_t bytes);
// Sets name, type and shape of a tensor from a parameter; data stay NULL.
void ls_weights_describe(const ls_param *param, ls_safetensors_tensor *tensor);
// Sets values[p] to the canonical values of the graph's parameter p, borrowed from file. LS_STORAGE: the file lacks a
// parameter, or has it with another shape or type.
LS_CHECKED ls_status ls_weights_find(const ls_safetensors *file, const ls_graph *graph, const float **values);
// LS_STORAGE names the first parameter with a value that is not finite.
LS_CHECKED ls_status ls_weights_check_finite(const ls_safetensors *file, const ls_graph *graph);
// Sets the session's weights from the file. On failure the weights do not change.
LS_CHECKED ls_status ls_weights_load(const ls_safetensors *file, ls_session *session);

#endif
