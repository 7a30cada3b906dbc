// prefetch_ring.h - which slots of a ring are free or filled: batch n is filled and consumed in slot n % slots.
//
// A slot's turn counts up: 2k means free for its filling number k (from 0), 2k + 1 means filled. Asking and handing
// over are single atomic accesses. A thread that finds nothing to do waits elsewhere (loader.c).
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
int ls_ring_is_free(const ls_ring *ring, uint64_t n);   // whether batch n may be filled
int ls_ring_is_filled(const ls_ring *ring, uint64_t n); // whether batch n may be consumed
void ls_ring_fill(ls_ring *ring, uint64_t n);           // batch n is filled: its slot now belongs to the consumer
void ls_ring_release(ls_ring *ring, int slot);          // the consumer no longer needs the slot's batch

#endif
