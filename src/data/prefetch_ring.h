// prefetch_ring.h - whose turn it is on each slot of a ring: batch n is filled and consumed in slot n % slots.
//
// A slot's turn counts up: 2k means free for its k-th filling, 2k + 1 filled. Asking and handing over are single
// atomic accesses; who finds nothing to do waits elsewhere (loader.c).
#ifndef LS_DATA_PREFETCH_RING_H
#define LS_DATA_PREFETCH_RING_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/status.h"

typedef struct {
    int slots;
    atomic_uint_fast64_t *turn;
} ls_ring;

void ls_ring_new(ls_ring *ring, int slots);
void ls_ring_free(ls_ring *ring);
int ls_ring_is_free(const ls_ring *ring, uint64_t n);   // may batch n be filled?
int ls_ring_is_filled(const ls_ring *ring, uint64_t n); // may batch n be consumed?
void ls_ring_fill(ls_ring *ring, uint64_t n);           // batch n is filled: its slot's memory becomes the consumer's
void ls_ring_release(ls_ring *ring, int slot);          // the consumer is done with what the slot holds

#endif
