// fake_network.h - the network that train.quantise = int8 trains: floats that take only the values of the int8 network
// (network.h), so that training sees how integers round.
//
// Each step of the int8 network becomes a layer, its activation a second one, and then a quantise layer follows, whose
// scale and zero point are the step's. Batch norm, layer scale and constant factors are folded into the weights, which
// are trained as they are; dropout is left out. Layers keep their names. The quantise layer of layer NAME is NAME.int8.
#ifndef LS_DEPLOY_FAKE_NETWORK_H
#define LS_DEPLOY_FAKE_NETWORK_H

#include "deploy/network.h"

// Makes the network. LS_USAGE names a layer without an integer form. A network that has quantise layers is copied.
LS_CHECKED ls_status ls_fake_network_new(const ls_graph *graph, ls_graph **out);
// Writes the values of all its parameters, in order, without gaps. network: the int8 network of the same graph, with
// weights and scales.
void ls_fake_network_values(const ls_network *network, float *values);

#endif
