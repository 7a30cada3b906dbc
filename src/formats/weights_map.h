// weights_map.h - which tensors of a weights file a network starts from (model.init), by name, shape and
// model.init_rules: also a file of another program, or of a network with other classes.
//
// Rules stand between semicolons, of two kinds; a '*' is any run of characters, as short as possible:
//   fc.* -> head.*   tensors of the file with such names have another one in the network: what stands for the k-th '*' on
//                    the left takes the place of the k-th on the right. The first rule that matches counts.
//   new head.*       tensors of the network with such names are made from the seed, whatever the file has
// Every other tensor of the network has to be in the file, in its shape, of fp32, fp16, bf16 or fp64. What the file has
// besides is left out, and reported; PyTorch's counters num_batches_tracked are left out without a word.
#ifndef LS_FORMATS_WEIGHTS_MAP_H
#define LS_FORMATS_WEIGHTS_MAP_H

#include <stdio.h>
#include "formats/safetensors.h"
#include "model/graph.h"

typedef struct ls_weights_map {
    const ls_graph *graph; // borrowed
    char **source;         // by parameter of the graph: its name in the file; NULL: made from the seed
    int taken;             // so many come from the file
    int started_anew;      // so many do not because of starts_anew, and not by a rule
    char **left;           // names in the file that no parameter takes
    int left_count;
} ls_weights_map;

// path: the file's, for messages. starts_anew: by parameter, 1 where the file's tensor is not taken; NULL: it is.
// LS_USAGE: a rule is malformed or matches nothing; a tensor that is missing or has another shape or type, with the
// rule that helps.
LS_CHECKED ls_status ls_weights_map_new(const char *path, const ls_safetensors *file, const ls_graph *graph,
    const char *rules, const unsigned char *starts_anew, ls_weights_map **out);
void ls_weights_map_free(ls_weights_map *map); // NULL is allowed
// Values of parameter p, which is taken: canonical, as fp32. file: the one that the map was made of.
void ls_weights_map_values(const ls_weights_map *map, const ls_safetensors *file, int p, float *values);
// A line for each tensor.
void ls_weights_map_print(const ls_weights_map *map, FILE *file);
// "conv1.*, layer1.*; new: head.weight, head.bias" into dst, cut off where it is longer; returns dst.
char *ls_weights_map_text(const ls_weights_map *map, char *dst, size_t bytes);

#endif
