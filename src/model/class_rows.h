// class_rows.h - finds the parameters of a network that have a row for each class. They belong to the last layers, and
// through them classes can be reordered or initialised anew.
#ifndef LS_MODEL_CLASS_ROWS_H
#define LS_MODEL_CLASS_ROWS_H

#include "model/graph.h"

// Sets has_rows[p] = 1 for each parameter p of the graph that has one row for each class, else 0 (graph->param_count
// elements). If rows j and k of all these parameters are exchanged, outputs j and k are exchanged. Such a parameter
// consists of graph->classes rows of equal size, one after another, in its canonical layout. *found = 0 and all
// has_rows = 0 if the end of the network does not treat all classes in the same way, for example after a concatenation
// of two parts.
void ls_class_rows_find(const ls_graph *graph, unsigned char *has_rows, int *found);

#endif
