#include "cli/bench/cost.h"

#include <math.h>

const char *ls_cost_bound_name(ls_cost_bound bound) {
    static const char *const names[LS_COST_BOUNDS] = { "memory", "arithmetic", "launches" };
    return names[bound];
}

// --- what is in cache -----------------------------------------------------------------------------

// Bytes touched since the tensor's last use, before argument `arg` of item `index`, going back through the update and the one before.
// INFINITY: it is not used otherwise.
static double distance_of(const ls_cost_item *items, int count, int index, int arg) {
    const int64_t tensor = items[index].args[arg].tensor;
    double touched = 0;
    for (int back = 1; back <= count; back++) {
        const ls_cost_item *item = &items[(index - back + count) % count];
        for (int a = item->arg_count - 1; a >= 0; a--) {
            if (item->args[a].tensor == tensor) return touched;
            touched += item->args[a].bytes;
        }
    }
    return INFINITY;
}

static double bytes_of(const ls_cost_item *item) {
    double bytes = 0;
    for (int a = 0; a < item->arg_count; a++) bytes += item->args[a].bytes;
    return bytes;
}

// A second pass finds in cache what the whole item leaves there.
static void count_bytes(
    const ls_cost_machine *machine, const ls_cost_item *items, int count, int index, ls_cost_time *cost) {
    const ls_cost_item *item = &items[index];
    const double whole = bytes_of(item);
    for (int a = 0; a < item->arg_count; a++) {
        const ls_cost_arg *arg = &item->args[a];
        const int kept = distance_of(items, count, index, a) + whole <= machine->cache_bytes;
        const int again = whole <= machine->cache_bytes;
        *(kept ? &cost->cache_bytes : &cost->memory_bytes) += arg->bytes;
        *(again ? &cost->cache_bytes : &cost->memory_bytes) += (arg->passes - 1) * arg->bytes;
    }
}

// --- time -----------------------------------------------------------------------------------------

static double rate_of(const ls_cost_machine *machine, const ls_cost_item *item) {
    const double rates[] = { machine->vector_rate, machine->fp32_rate, machine->half_rate };
    const double busy = machine->units > 0 && item->blocks > 0 ? fmin(1, item->blocks / machine->units) : 1;
    return rates[item->rate] * item->rate_share * busy;
}

static ls_cost_time time_of(const ls_cost_machine *machine, const ls_cost_item *items, int count, int index) {
    const ls_cost_item *item = &items[index];
    ls_cost_time cost = { 0 };
    count_bytes(machine, items, count, index, &cost);
    double *part = cost.part_s;
    part[LS_COST_BY_MEMORY] =
        (cost.memory_bytes / machine->memory + cost.cache_bytes / machine->cache) / item->memory_share;
    part[LS_COST_BY_ARITHMETIC] = item->work > 0 ? item->work / rate_of(machine, item) : 0;
    part[LS_COST_BY_LAUNCHES] = item->launches * machine->shortest_s;
    double sum = 0;
    for (int b = 0; b < LS_COST_BOUNDS; b++) {
        sum += part[b];
        if (part[b] > part[cost.bound]) cost.bound = (ls_cost_bound)b;
    }
    cost.seconds = item->launches * machine->gap_s + item->grid_waits * machine->grid_wait_s +
                   (machine->is_gpu ? part[cost.bound] : sum);
    return cost;
}

void ls_cost_items(const ls_cost_machine *machine, const ls_cost_item *items, int count, ls_cost_time *times) {
    for (int i = 0; i < count; i++) times[i] = time_of(machine, items, count, i);
}
