// weights.h - which tensors of a weights file are a network's: name, type and shape of each parameter and statistic in
// it, as in PyTorch's state_dict.
#ifndef LS_FORMATS_WEIGHTS_H
#define LS_FORMATS_WEIGHTS_H

#include "model/graph.h"
#include "formats/safetensors.h"
#include "program/session.h"

#define LS_WEIGHTS_EXPECTED "weights: a .safetensors file, or the folder of a run or a checkpoint"
// The file that a user means by a path: itself, or weights.safetensors of a folder (a run's or a checkpoint's). LS_USAGE: the
// path is not there, or is something else, as a picture. LS_STORAGE: the folder has no weights.
LS_CHECKED ls_status ls_weights_locate(const char *named, char *path, size_t bytes);
// Name, type and shape; no data yet.
void ls_weights_describe(const ls_param *param, ls_safetensors_tensor *tensor);
// values[p]: of the graph's parameter p, canonical, borrowed from file. All are there, or it fails (LS_STORAGE).
LS_CHECKED ls_status ls_weights_find(const ls_safetensors *file, const ls_graph *graph, const float **values);
// The session's weights are the file's; on failure they are what they were.
LS_CHECKED ls_status ls_weights_load(const ls_safetensors *file, ls_session *session);

#endif
