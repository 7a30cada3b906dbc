// calibrate.h - quantises a network on pictures of a training set: for `train export --int8`, `train eval --int8` and
// the start of a run with train.quantise. With the same set and number all read the same pictures.
#ifndef LS_DEPLOY_CALIBRATE_H
#define LS_DEPLOY_CALIBRATE_H

#include "data/dataset.h"
#include "deploy/network.h"

enum { LS_CALIBRATE_PICTURES = 256 }; // number of pictures, unless --calibrate gives another one

// Quantises the network, which was lowered for int8, on `pictures` pictures of the set (at most all), evenly spread.
// Prints the chosen rule and the losses, and warns of constant channels and of many clipped values, naming one layer of
// each. LS_USAGE: the set has too few pictures, or others than the network takes. Also fails if ls_quantise does.
LS_CHECKED ls_status ls_calibrate_network(ls_network *network, const ls_dataset *set, int pictures);

#endif
