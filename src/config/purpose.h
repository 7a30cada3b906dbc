// purpose.h - the purposes of random numbers. Each purpose has its own stream (base/philox.h).
#ifndef LS_CONFIG_PURPOSE_H
#define LS_CONFIG_PURPOSE_H

typedef enum { // part of the generator's key; never renumber: checkpoints and golden files depend on the numbers
    LS_PURPOSE_INIT = 1,        // a = parameter's index in the network
    LS_PURPOSE_SHUFFLE = 2,     // a = epoch
    LS_PURPOSE_DROPOUT = 4,     // a = layer index, b = update
    LS_PURPOSE_SYNTHETIC = 5,   // a = split, b = sample index
    LS_PURPOSE_VALIDATION = 16, // b = sample index; decides which samples are held out
    LS_PURPOSE_BALANCE = 17,    // a = epoch, b = sample index (classes: 0); which samples and classes come once more
// Purposes of augmentations: a = epoch, b = sample index in the data set.
#define PURPOSE(NAME, number) LS_PURPOSE_##NAME = number,
#include "config/augmentations.def"
} ls_purpose;

#endif
