// buffer_planner.h - places buffers with known lifetimes in one slab: booked while planning, fixed once, then only offsets.
#ifndef LS_PROGRAM_BUFFER_PLANNER_H
#define LS_PROGRAM_BUFFER_PLANNER_H

#include <stddef.h>
#include "base/status.h"

enum { LS_BUFFER_PLANNER_ALIGN = 128 }; // bytes

typedef struct ls_buffer_planner ls_buffer_planner;

ls_buffer_planner *ls_buffer_planner_new(void);
void ls_buffer_planner_free(ls_buffer_planner *arena);
// A buffer used by instructions first_use..last_use (inclusive). Two buffers share bytes only if their lifetimes are
// disjoint. Returns the slot's number, 0, 1, 2, ... `name` is borrowed, for the memory table.
LS_CHECKED ls_status ls_buffer_planner_book(
    ls_buffer_planner *arena, const char *name, size_t bytes, int first_use, int last_use, int *slot);
void ls_buffer_planner_extend(ls_buffer_planner *arena, int slot, int use); // makes the lifetime include `use`
// The most bytes of slots that live at one time: the least that the slab can have.
size_t ls_buffer_planner_peak(const ls_buffer_planner *arena);
// Places all slots (largest first, lowest gap). After it no booking.
void ls_buffer_planner_fix(ls_buffer_planner *arena);
size_t ls_buffer_planner_bytes(
    const ls_buffer_planner *arena); // the slab's size, a multiple of LS_BUFFER_PLANNER_ALIGN
size_t ls_buffer_planner_unshared_bytes(
    const ls_buffer_planner *arena); // the sum of all slots: what it would be without sharing
size_t ls_buffer_planner_offset(const ls_buffer_planner *arena, int slot); // after fix
size_t ls_buffer_planner_slot_bytes(
    const ls_buffer_planner *arena, int slot); // as booked, rounded up to LS_BUFFER_PLANNER_ALIGN

#endif
