// rank_groups.h - describes groups of ranks with the same value: "ranks 0-2, 4: 89ab, rank 3: 0123".
#ifndef LS_DIST_RANK_GROUPS_H
#define LS_DIST_RANK_GROUPS_H

#include <stddef.h>
#include <stdint.h>

// Returns the lowest rank with the same value as `rank`.
int ls_rank_groups_lowest(const uint64_t *values, int rank);
int ls_rank_groups_size(const uint64_t *values, int ranks, uint64_t value); // number of ranks with this value
// Returns the lowest rank of the largest group of ranks with the same value; of equally large groups the first counts.
int ls_rank_groups_largest(const uint64_t *values, int ranks);
// Writes the ranks with this value into dst, "rank 0" or "ranks 1-3, 6"; a cut list ends with "...". Returns dst.
char *ls_rank_groups_list(const uint64_t *values, int ranks, uint64_t value, char *dst, size_t bytes);
// Writes up to six groups of ranks with their values into dst, in the order of their lowest ranks. The groups that are
// left out are counted: "and 3 more groups". show writes one value. Returns dst.
enum { LS_RANK_GROUPS_VALUE_BYTES = 32 };
char *ls_rank_groups_text(const uint64_t *values, int ranks,
    void (*show)(uint64_t value, char text[LS_RANK_GROUPS_VALUE_BYTES]), char *dst, size_t bytes);

#endif
