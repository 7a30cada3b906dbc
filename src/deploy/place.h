// place.h - places the values of a network in one slab, and counts the bytes that its C file will need.
#ifndef LS_DEPLOY_PLACE_H
#define LS_DEPLOY_PLACE_H

#include "deploy/network.h"

// Sets the lifetimes and places of all values, ram_bytes of all steps, slab_elements and peak_step. LS_USAGE: the slab
// does not fit into 32 bits.
LS_CHECKED ls_status ls_network_place(ls_network *network);

#endif
