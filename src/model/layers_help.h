// layers_help.h - prints the kinds of layers on a terminal, like docs/layers.md.
#ifndef LS_MODEL_LAYERS_HELP_H
#define LS_MODEL_LAYERS_HELP_H

#include <stdio.h>
#include "base/status.h"

// kind NULL: prints how a network file is written, and what each kind computes. Otherwise prints this kind with its
// keys and an example. LS_USAGE if there is no such kind; the message suggests the nearest name.
LS_CHECKED ls_status ls_layers_help(FILE *file, const char *kind);

#endif
