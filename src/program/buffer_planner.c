#include "program/buffer_planner.h"

#include <assert.h>
#include <stdlib.h>
#include "base/memory.h"

typedef struct {
    const char *name;
    size_t bytes, offset; // bytes: rounded up to LS_BUFFER_PLANNER_ALIGN
    int first_use, last_use;
} slot;

struct ls_buffer_planner {
    slot *slots;
    int *by_size;   // slot numbers, set by fix: the largest slot first
    int *by_offset; // numbers of the slots that fix has placed so far, by rising offset
    int count, fixed;
    size_t bytes, unshared_bytes;
};

ls_buffer_planner *ls_buffer_planner_new(void) {
    return ls_new(1, sizeof(ls_buffer_planner), "plan of buffers");
}

void ls_buffer_planner_free(ls_buffer_planner *arena) {
    if (!arena) return;
    free(arena->slots);
    free(arena->by_size);
    free(arena->by_offset);
    free(arena);
}

static void grow(ls_buffer_planner *arena) {
    const int count = arena->count;
    arena->slots = ls_grow(arena->slots, count, sizeof *arena->slots, "plan of %d buffers", count);
    arena->by_size = ls_grow(arena->by_size, count, sizeof *arena->by_size, "plan of %d buffers", count);
    arena->by_offset = ls_grow(arena->by_offset, count, sizeof *arena->by_offset, "plan of %d buffers", count);
}

ls_status ls_buffer_planner_book(
    ls_buffer_planner *arena, const char *name, size_t bytes, int first_use, int last_use, int *out) {
    assert(!arena->fixed && first_use <= last_use);
    size_t rounded = (bytes + LS_BUFFER_PLANNER_ALIGN - 1) / LS_BUFFER_PLANNER_ALIGN * LS_BUFFER_PLANNER_ALIGN;
    if (rounded < bytes || arena->unshared_bytes + rounded < rounded)
        return ls_fail(LS_DEVICE, "%s: %zu bytes are more than can be addressed", name, bytes);
    grow(arena);
    arena->slots[arena->count] = (slot){ .name = name, .bytes = rounded, .first_use = first_use, .last_use = last_use };
    arena->unshared_bytes += rounded;
    *out = arena->count++;
    return LS_SUCCESS;
}

void ls_buffer_planner_extend(ls_buffer_planner *arena, int number, int use) {
    assert(!arena->fixed && number >= 0 && number < arena->count);
    slot *s = &arena->slots[number];
    if (use < s->first_use) s->first_use = use;
    if (use > s->last_use) s->last_use = use;
}

// Returns the lowest offset at which s overlaps no placed slot that is alive at the same time.
static size_t lowest_gap(const ls_buffer_planner *arena, int placed, const slot *s) {
    size_t offset = 0;
    for (int i = 0; i < placed; i++) {
        const slot *other = &arena->slots[arena->by_offset[i]];
        if (other->last_use < s->first_use || other->first_use > s->last_use) continue;
        if (offset + s->bytes <= other->offset) break;
        if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    return offset;
}

static int by_bytes(const void *a, const void *b, void *slots) {
    const int x = *(const int *)a, y = *(const int *)b;
    const size_t x_bytes = ((const slot *)slots)[x].bytes, y_bytes = ((const slot *)slots)[y].bytes;
    return x_bytes != y_bytes ? (x_bytes < y_bytes ? 1 : -1) : (x > y) - (x < y);
}

// Sorts the largest slots first. Slots of equal size keep the order of booking, so that a plan is the same on every
// machine.
static void sort_by_size(ls_buffer_planner *arena) {
    for (int i = 0; i < arena->count; i++) arena->by_size[i] = i;
    if (arena->count) qsort_r(arena->by_size, (size_t)arena->count, sizeof *arena->by_size, by_bytes, arena->slots);
}

size_t ls_buffer_planner_peak(const ls_buffer_planner *arena) {
    int uses = 0;
    for (int i = 0; i < arena->count; i++)
        if (arena->slots[i].last_use >= uses) uses = arena->slots[i].last_use + 1;
    // change[use]: the bytes of slots whose lifetime begins at `use`, minus those whose lifetime ended just before. The
    // difference may wrap around.
    size_t *change = ls_new(uses + 1, sizeof *change, "plan of %d buffers", arena->count);
    for (int i = 0; i < arena->count; i++) {
        change[arena->slots[i].first_use] += arena->slots[i].bytes;
        change[arena->slots[i].last_use + 1] -= arena->slots[i].bytes;
    }
    size_t alive = 0, most = 0;
    for (int use = 0; use < uses; use++) {
        alive += change[use];
        if (alive > most) most = alive;
    }
    free(change);
    return most;
}

void ls_buffer_planner_fix(ls_buffer_planner *arena) {
    assert(!arena->fixed);
    sort_by_size(arena);
    for (int placed = 0; placed < arena->count; placed++) {
        int number = arena->by_size[placed];
        slot *s = &arena->slots[number];
        s->offset = lowest_gap(arena, placed, s);
        if (s->offset + s->bytes > arena->bytes) arena->bytes = s->offset + s->bytes;
        int at = placed;
        for (; at > 0 && arena->slots[arena->by_offset[at - 1]].offset > s->offset; at--)
            arena->by_offset[at] = arena->by_offset[at - 1];
        arena->by_offset[at] = number;
    }
    arena->fixed = 1;
}

size_t ls_buffer_planner_bytes(const ls_buffer_planner *arena) {
    assert(arena->fixed);
    return arena->bytes;
}

size_t ls_buffer_planner_unshared_bytes(const ls_buffer_planner *arena) {
    return arena->unshared_bytes;
}

size_t ls_buffer_planner_offset(const ls_buffer_planner *arena, int number) {
    assert(arena->fixed && number >= 0 && number < arena->count);
    return arena->slots[number].offset;
}

size_t ls_buffer_planner_slot_bytes(const ls_buffer_planner *arena, int number) {
    return arena->slots[number].bytes;
}
