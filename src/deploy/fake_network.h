// fake_network.h - the network that train.quantise = int8 trains: floats that take only the values of the int8 network
// (network.h), so that training sees how integers round.
//
// Each step of the int8 network becomes a layer (the steps of a concat become one), its activation a second one. A
// quantise layer NAME.int8 follows the last of them, NAME, with the scale and zero point of the step's output; none
// follows max pooling and shortcuts, whose outputs have their input's. Batch norm, layer scale and constant factors are
// folded into weights where network.h folds them, and these weights are trained. Dropout is left out.
#ifndef LS_DEPLOY_FAKE_NETWORK_H
#define LS_DEPLOY_FAKE_NETWORK_H

#include "deploy/network.h"

// Makes the network. LS_USAGE names a layer without an integer form. A network that has quantise layers is copied.
LS_CHECKED ls_status ls_fake_network_new(const ls_graph *graph, ls_graph **out);
// Writes the values of all its parameters, in order, without gaps. network: the int8 network of the same graph, with
// weights and scales.
void ls_fake_network_values(const ls_network *network, float *values);

#endif
