#include "data/prefetch_ring.h"

#include "base/memory.h"

void ls_ring_new(ls_ring *ring, int slots) {
    *ring = (ls_ring){ slots, NULL };
    ring->turn = ls_new(slots, sizeof *ring->turn, "prefetch ring of %d slots", slots);
    for (int i = 0; i < slots; i++) atomic_init(&ring->turn[i], 0);
}

void ls_ring_free(ls_ring *ring) {
    free(ring->turn);
    ring->turn = NULL;
}

static uint64_t turn_of(const ls_ring *ring, uint64_t n) {
    return atomic_load(&ring->turn[n % (uint64_t)ring->slots]);
}

int ls_ring_is_free(const ls_ring *ring, uint64_t n) {
    return turn_of(ring, n) == 2 * (n / (uint64_t)ring->slots);
}

int ls_ring_is_filled(const ls_ring *ring, uint64_t n) {
    return turn_of(ring, n) == 2 * (n / (uint64_t)ring->slots) + 1;
}

void ls_ring_fill(ls_ring *ring, uint64_t n) {
    atomic_store(&ring->turn[n % (uint64_t)ring->slots], 2 * (n / (uint64_t)ring->slots) + 1);
}

void ls_ring_release(ls_ring *ring, int slot) {
    atomic_fetch_add(&ring->turn[slot], 1);
}
