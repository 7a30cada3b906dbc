// arena.h - places buffers with known lifetimes in one slab: booked while planning, fixed once, then only offsets.
#ifndef LS_BASE_ARENA_H
#define LS_BASE_ARENA_H

#include <stddef.h>
#include "base/status.h"

enum { LS_ARENA_ALIGN = 128 }; // bytes

typedef struct ls_arena ls_arena;

LS_CHECKED ls_status ls_arena_new(ls_arena **out);
void ls_arena_free(ls_arena *arena);
// A buffer used by instructions first_use..last_use (inclusive). Two buffers share bytes only if their lifetimes are
// disjoint. Returns the slot's number, 0, 1, 2, ... `name` is borrowed, for the memory table.
LS_CHECKED ls_status ls_arena_book(
    ls_arena *arena, const char *name, size_t bytes, int first_use, int last_use, int *slot);
void ls_arena_extend(ls_arena *arena, int slot, int use); // makes the lifetime include `use`
// Places all slots (largest first, lowest gap). After it no booking.
void ls_arena_fix(ls_arena *arena);
size_t ls_arena_bytes(const ls_arena *arena);                // the slab's size, a multiple of LS_ARENA_ALIGN
size_t ls_arena_unshared_bytes(const ls_arena *arena);       // the sum of all slots: what it would be without sharing
size_t ls_arena_offset(const ls_arena *arena, int slot);     // after fix
size_t ls_arena_slot_bytes(const ls_arena *arena, int slot); // as booked, rounded up to LS_ARENA_ALIGN

#endif
