#include "dist/rank_groups.h"

#include <stdio.h>
#include <string.h>

enum { GROUPS_MAX = 6, LIST_BYTES = 128 };

int ls_rank_groups_lowest(const uint64_t *values, int rank) {
    int r = 0;
    while (values[r] != values[rank]) r++;
    return r;
}

int ls_rank_groups_size(const uint64_t *values, int ranks, uint64_t value) {
    int size = 0;
    for (int r = 0; r < ranks; r++) size += values[r] == value;
    return size;
}

int ls_rank_groups_largest(const uint64_t *values, int ranks) {
    int largest = 0, most = 0;
    for (int r = 0; r < ranks; r++) {
        int size = ls_rank_groups_lowest(values, r) == r ? ls_rank_groups_size(values, ranks, values[r]) : 0;
        if (size <= most) continue;
        most = size;
        largest = r;
    }
    return largest;
}

char *ls_rank_groups_list(const uint64_t *values, int ranks, uint64_t value, char *dst, size_t bytes) {
    static const char cut[] = ", ...";
    size_t used = (size_t)snprintf(dst, bytes, "%s", ls_rank_groups_size(values, ranks, value) == 1 ? "rank" : "ranks");
    const char *comma = " ";
    for (int r = 0; r < ranks; r++) {
        if (values[r] != value) continue;
        int last = r;
        while (last + 1 < ranks && values[last + 1] == value) last++;
        if (last == r + 1) last = r; // two ranks are listed one by one
        char part[32];
        snprintf(part, sizeof part, last > r ? "%s%d-%d" : "%s%d", comma, r, last);
        int fits = used + strlen(part) + sizeof cut <= bytes;
        used += (size_t)snprintf(dst + used, bytes - used, "%s", fits ? part : cut);
        if (!fits) break;
        comma = ", ";
        r = last;
    }
    return dst;
}

char *ls_rank_groups_text(const uint64_t *values, int ranks,
    void (*show)(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]), char *dst, size_t bytes) {
    size_t used = 0;
    int shown = 0, left_out = 0;
    dst[0] = '\0';
    for (int r = 0; r < ranks; r++) {
        if (ls_rank_groups_lowest(values, r) != r) continue;
        char list[LIST_BYTES], value[LS_RANK_GROUPS_VALUE_BYTES], part[LIST_BYTES + LS_RANK_GROUPS_VALUE_BYTES + 4];
        show(values[r], value);
        snprintf(part, sizeof part, "%s%s: %s", shown ? ", " : "",
            ls_rank_groups_list(values, ranks, values[r], list, sizeof list), value);
        if (left_out || shown == GROUPS_MAX || used + strlen(part) + LIST_BYTES / 4 > bytes) {
            left_out++;
            continue;
        }
        used += (size_t)snprintf(dst + used, bytes - used, "%s", part);
        shown++;
    }
    if (left_out) snprintf(dst + used, bytes - used, " and %d more group%s", left_out, left_out > 1 ? "s" : "");
    return dst;
}
