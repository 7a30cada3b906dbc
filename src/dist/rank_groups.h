// rank_groups.h - ranks with the same value, in words: "ranks 0-2, 4: 89ab, rank 3: 0123".
#ifndef LS_DIST_RANK_GROUPS_H
#define LS_DIST_RANK_GROUPS_H

#include <stddef.h>
#include <stdint.h>

// The lowest rank with this one's value.
int ls_rank_groups_lowest(const uint64_t *values, int rank);
int ls_rank_groups_size(const uint64_t *values, int ranks, uint64_t value); // ranks that have it
// The lowest rank of the largest group; of several as large, of the first.
int ls_rank_groups_largest(const uint64_t *values, int ranks);
// "rank 0", "ranks 1-3, 6": those with this value, into dst; a list that does not fit ends with "...". Returns dst.
char *ls_rank_groups_list(const uint64_t *values, int ranks, uint64_t value, char *dst, size_t bytes);
// All groups with their values, in the order of their lowest ranks; those that do not fit are counted: "and 3 more
// groups". show writes one value. Returns dst.
enum { LS_RANK_GROUPS_VALUE_BYTES = 32 };
char *ls_rank_groups_text(const uint64_t *values, int ranks,
    void (*show)(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]), char *dst, size_t bytes);

#endif
