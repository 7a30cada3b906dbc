// weights_map.h - finds the tensors of a weights file from which a network starts (model.init), by name, shape and
// model.init_rules. The file may come from another program, or belong to a network with other classes.
//
// Rules are separated by semicolons. A '*' stands for any run of characters, as short as possible. There are two kinds:
//   fc.* -> head.*   renames tensors of the file that match the left side. The text of the k-th '*' on the left
//   replaces the k-th '*' on the right. The first rule that matches counts.
//   new head.*       makes the matching tensors of the network from the seed, even if the file has them
// Every other tensor of the network must be in the file, with its shape, as fp32, fp16, bf16 or fp64. If the file lacks
// all of the network's names, the names in it may begin with `module.`, `model.`, `backbone.` or a pair of these
// (find_prefix). Tensors with a row for each class start anew if the file has other classes, or names no classes and
// has another number of rows. Other tensors of the file are left out and reported. PyTorch's counters
// num_batches_tracked are left out without a report.
#ifndef LS_FORMATS_WEIGHTS_MAP_H
#define LS_FORMATS_WEIGHTS_MAP_H

#include <stdio.h>
#include "formats/safetensors.h"
#include "formats/weights_fit.h"
#include "model/graph.h"

typedef struct ls_weights_map {
    const ls_graph *graph; // borrowed
    char **source;         // by the graph's parameter: name of its tensor in the file; NULL: made from the seed
    int taken;             // number of parameters that come from the file
    int started_anew;      // number of parameters that are made from the seed because of the file's classes
    int64_t classes;       // the file's number of classes, if parameters start anew because of it; else 0
    char **left;           // names of the file's tensors that no parameter takes
    int left_count;
} ls_weights_map;

// Finds the file's tensor for each parameter of the network. path: for messages. fit: the parameters that have a row
// for each class; NULL: no parameter starts anew because of the classes. LS_USAGE: a rule is malformed or matches
// nothing; rules give two tensors one name; or a tensor is missing or has another shape or type.
LS_CHECKED ls_status ls_weights_map_new(const char *path, const ls_safetensors *file, const ls_graph *graph,
    const char *rules, const ls_weights_fit *fit, ls_weights_map **out);
void ls_weights_map_free(ls_weights_map *map); // NULL is allowed
// Writes the canonical values of parameter p, which comes from the file, as fp32. file: the file of ls_weights_map_new.
void ls_weights_map_values(const ls_weights_map *map, const ls_safetensors *file, int p, float *values);
// Prints a line for each tensor of the network, and for each tensor of the file that is left out.
void ls_weights_map_print(const ls_weights_map *map, FILE *file);
// Writes a text such as "conv1.*, layer1.*; new: head.weight, head.bias; left out of the file: fc.weight" into dst, cut
// off if it is too long. Returns dst.
char *ls_weights_map_text(const ls_weights_map *map, char *dst, size_t bytes);

#endif
