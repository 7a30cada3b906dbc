#include "dist/rank_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "system/cpu_mask.h"

enum { ONE_BY_ONE = 16 }; // with up to 16 ranks, each GPU has a line of its own

static int alike(const ls_rank_info *a, const ls_rank_info *b) {
    return strcmp(a->host, b->host) == 0 && strcmp(a->device, b->device) == 0 && strcmp(a->name, b->name) == 0;
}

int ls_rank_table_line(const ls_rank_info *table, int ranks, int first, char line[LS_RANK_TABLE_LINE_BYTES]) {
    const ls_rank_info *p = &table[first];
    int next = first + 1, same = 1;
    while (next < ranks && alike(p, &table[next])) {
        int whole = strcmp(p->uuid, table[next].uuid) == 0 && strcmp(p->cpus, table[next].cpus) == 0;
        if (!whole && ranks <= ONE_BY_ONE) break;
        same &= whole;
        next++;
    }
    char title[40];
    if (next == first + 1)
        snprintf(title, sizeof title, "rank %d", first);
    else
        snprintf(title, sizeof title, "ranks %d-%d", first, next - 1);
    if (!same)
        snprintf(line, LS_RANK_TABLE_LINE_BYTES, "%-9s %s  %d x %s", title, p->host, next - first, p->name);
    else
        snprintf(line, LS_RANK_TABLE_LINE_BYTES, "%-9s %s  %s%s%s%s%s%s%s", title, p->host, p->name,
            p->uuid[0] ? "  " : "", p->uuid, p->pci[0] ? "  " : "", p->pci, p->cpus[0] ? "  CPUs " : "", p->cpus);
    return next;
}

double ls_rank_table_cores(const ls_rank_info *table, int ranks, int rank) {
    const ls_rank_info *place = &table[rank];
    if (!place->cpus[0] || strstr(place->cpus, "...")) return NAN;
    ls_cpu_mask mine = ls_cpu_mask_parse(place->cpus);
    int all = ls_cpu_mask_count(&mine), sharing = 0;
    for (int r = 0; r < ranks; r++) {
        if (strcmp(table[r].host, place->host) != 0) continue;
        ls_cpu_mask other = ls_cpu_mask_parse(table[r].cpus);
        ls_cpu_mask both = ls_cpu_mask_both(&mine, &other);
        sharing += ls_cpu_mask_count(&both) > 0;
    }
    return sharing > 0 ? (double)all / sharing : 0;
}
