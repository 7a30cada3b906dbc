// class_rows.h - which parameters of a network have a row for each class: the last layers, by which classes can be
// given another order, or start anew.
#ifndef LS_MODEL_CLASS_ROWS_H
#define LS_MODEL_CLASS_ROWS_H

#include "model/graph.h"

// has_rows[p] = 1 for each such parameter of the graph, else 0 (graph->param_count of them). When rows j and k of all
// of them change places, so do outputs j and k. Such a parameter has graph->classes rows of equal size, one after
// another, in its canonical layout. *found: 0, and has_rows is all 0, where the network's end does not treat classes
// alike, for example after a concatenation of two parts.
void ls_class_rows_find(const ls_graph *graph, unsigned char *has_rows, int *found);

#endif
