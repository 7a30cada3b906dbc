// rank_table.h - the table of ranks at the start of a run: which rank computes where.
#ifndef LS_DIST_RANK_TABLE_H
#define LS_DIST_RANK_TABLE_H

#include <stddef.h>

// Where a rank is; the same on all ranks.
typedef struct {
    char host[64];
    char device[16];        // "cuda"
    char name[96];          // of the GPU or the processor
    char uuid[48], pci[16]; // "": not a GPU
    char cpus[128];         // on which it runs, "0-7,16"; "": unknown
} ls_rank_info;

// The processors of a rank's mask, divided by the ranks of its host that may run on some of them, too; NAN: unknown.
double ls_rank_table_cores(const ls_rank_info *table, int ranks, int rank);

enum { LS_RANK_TABLE_LINE_BYTES = 512 };

// The table's line that begins with rank `first`, without a line's end: "rank 0    node1  NVIDIA H100 80GB HBM3 GPU-...
// 0000:3b:00.0  CPUs 0-15". Ranks in a row that have all of it in common, or, of many ranks, differ only in their GPU's
// number and their cores, have one line. Returns the rank that the next line begins with.
int ls_rank_table_line(const ls_rank_info *table, int ranks, int first, char line[LS_RANK_TABLE_LINE_BYTES]);

#endif
