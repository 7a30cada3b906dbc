// layers_help.h - the kinds of layers for people: what docs/layers.md says, on a terminal.
#ifndef LS_MODEL_LAYERS_HELP_H
#define LS_MODEL_LAYERS_HELP_H

#include <stdio.h>
#include "base/status.h"

// All kinds, a line each, and how a network file is written; or one of them with its keys and an example. LS_USAGE: there is no such kind
// (with the nearest).
LS_CHECKED ls_status ls_layers_help(FILE *file, const char *kind);

#endif
