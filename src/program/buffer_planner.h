// buffer_planner.h - places buffers with known lifetimes in one slab.
//
// While a program is planned, each buffer is booked as a slot with its lifetime. ls_buffer_planner_fix then places all
// slots, once. After that the planner tells their offsets.
#ifndef LS_PROGRAM_BUFFER_PLANNER_H
#define LS_PROGRAM_BUFFER_PLANNER_H

#include <stddef.h>
#include "base/status.h"

enum { LS_BUFFER_PLANNER_ALIGN = 128 }; // bytes

typedef struct ls_buffer_planner ls_buffer_planner;

ls_buffer_planner *ls_buffer_planner_new(void);
void ls_buffer_planner_free(ls_buffer_planner *arena);
// Books a buffer that instructions first_use to last_use (inclusive) use. Two buffers share bytes only if their
// lifetimes do not overlap. *slot becomes the slot's number: 0, 1, 2, ... `name` is borrowed. LS_DEVICE: the slots
// together are larger than an address space.
LS_CHECKED ls_status ls_buffer_planner_book(
    ls_buffer_planner *arena, const char *name, size_t bytes, int first_use, int last_use, int *slot);
void ls_buffer_planner_extend(ls_buffer_planner *arena, int slot, int use); // extends the lifetime to include `use`
// Returns the largest sum of bytes of slots that are alive at the same time: no slab can be smaller.
size_t ls_buffer_planner_peak(const ls_buffer_planner *arena);
// Places all slots: the largest first, each in the lowest gap that is free during its lifetime. No slot can be booked
// or extended afterwards.
void ls_buffer_planner_fix(ls_buffer_planner *arena);
// Returns the size of the slab, a multiple of LS_BUFFER_PLANNER_ALIGN. Call it after ls_buffer_planner_fix.
size_t ls_buffer_planner_bytes(const ls_buffer_planner *arena);
// Returns the sum of all slots: the size of a slab in which no two slots share bytes.
size_t ls_buffer_planner_unshared_bytes(const ls_buffer_planner *arena);
size_t ls_buffer_planner_offset(const ls_buffer_planner *arena, int slot); // call it after fix
// Returns the bytes of a slot as booked, rounded up to LS_BUFFER_PLANNER_ALIGN.
size_t ls_buffer_planner_slot_bytes(const ls_buffer_planner *arena, int slot);

#endif
