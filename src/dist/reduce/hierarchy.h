// hierarchy.h - whether a sum by hosts sends no more between hosts than a sum of all ranks at once. Private to dist/.
#ifndef LS_DIST_REDUCE_HIERARCHY_H
#define LS_DIST_REDUCE_HIERARCHY_H

// Returns the largest amount that a host sends or receives in an all-reduce by halves (Rabenseifner, as in Open MPI's
// libnbc), as a multiple of the data. host_of[rank]: 0 <= host < ranks.
//
// p' is the largest power of two up to the number of ranks p. The first 2 (p - p') ranks form pairs: each of a pair
// adds half of the data, then the even rank goes on for both and at the end gives its partner the result. Rank v of the
// p' ranks exchanges half of the data with rank v ^ 1, a quarter with v ^ 2, and so on, and back. So if neighbouring
// ranks share a host, most data stays inside hosts; with three ranks per host, or ranks dealt out in turn, it does not.
//
// Source: Thakur, Rabenseifner, Gropp 2005; the results were also counted on links (bench/hierarchy.sh).
double ls_halving_volume(const int *host_of, int ranks);

// Returns 1 if dist.hierarchy = auto sums by hosts: if there are several hosts, several ranks on some of them, and the
// lowest ranks of the hosts send no more among themselves than all ranks at once would. With equal amounts, a sum by
// hosts still sends fewer messages.
int ls_hierarchy_wins(const int *host_of, int ranks, int hosts);

#endif
