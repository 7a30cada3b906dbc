// calibrate.h - quantises a network on pictures of a training set: for `train export --int8`, `train eval --int8` and
// the start of a run with train.quantise. All read the same pictures, so all make the same integers.
#ifndef LS_DEPLOY_CALIBRATE_H
#define LS_DEPLOY_CALIBRATE_H

#include "data/dataset.h"
#include "deploy/network.h"

enum { LS_CALIBRATE_PICTURES = 256 }; // unless --calibrate says others

// Quantises the network, which was lowered for int8, on so many pictures of the set, evenly spread. Prints the chosen
// rule and the losses, and warns of layers with constant channels or many clipped values. LS_USAGE: the set has too few
// pictures, or others than the network takes; and the failures of ls_quantise.
LS_CHECKED ls_status ls_calibrate_network(ls_network *network, const ls_dataset *set, int pictures);

#endif
