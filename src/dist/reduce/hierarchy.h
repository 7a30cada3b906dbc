// hierarchy.h - whether a sum by hosts sends less between hosts than a sum of all ranks at once. Private to dist/.
#ifndef LS_DIST_REDUCE_HIERARCHY_H
#define LS_DIST_REDUCE_HIERARCHY_H

// What one host sends to the others in an all-reduce by halves (Rabenseifner, as Open MPI's libnbc does it), or
// receives: the most of all hosts, as a multiple of the data. host_of[rank]: 0 <= host < ranks.
//
// Of p ranks the first 2 (p - p') make pairs, p' the largest power of two: they add half of the data each and the even
// one goes on for both, to give its partner the result at the end. Then rank v of p' exchanges with v ^ 1 a half, with
// v ^ 2 a quarter, ...; and back. So neighbours in rank on one host keep most of it inside, but hosts of
// three ranks, or ranks dealt out in turn, do not.
//
// Source: Thakur, Rabenseifner, Gropp 2005; the figures were also counted on links (bench/hierarchy.sh).
double ls_halving_volume(const int *host_of, int ranks);

// Whether dist.hierarchy = auto goes by hosts: several hosts, several ranks on some of them, and the hosts' lowest
// ranks among themselves send no more than all ranks at once would. With as much it still sends fewer messages.
int ls_hierarchy_wins(const int *host_of, int ranks, int hosts);

#endif
