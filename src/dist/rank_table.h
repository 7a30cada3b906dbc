// rank_table.h - the table that a run prints at its start: where each rank computes.
#ifndef LS_DIST_RANK_TABLE_H
#define LS_DIST_RANK_TABLE_H

#include <stddef.h>

// The place of a rank. All ranks have the same table of places.
typedef struct {
    char host[64];
    char device[16];        // type of the device, such as "cuda"
    char name[96];          // name of the GPU or the processor
    char uuid[48], pci[16]; // of the GPU; "": unknown, or not a GPU
    char cpus[128];         // processors that the rank may use, "0-7,16"; "": unknown
} ls_rank_info;

// Returns the number of processors in a rank's mask, divided by the number of ranks on its host, itself included, whose
// masks overlap this mask. NAN: unknown.
double ls_rank_table_cores(const ls_rank_info *table, int ranks, int rank);

enum { LS_RANK_TABLE_LINE_BYTES = 512 };

// Writes the table's line that begins with rank `first`, without a newline: "rank 0    node1  NVIDIA H100 80GB HBM3
// GPU-...  0000:3b:00.0  CPUs 0-15". Successive ranks share a line if host, GPU and processors are the same; with more
// than 16 ranks already if host and kind of GPU are the same. Returns the first rank of the next line.
int ls_rank_table_line(const ls_rank_info *table, int ranks, int first, char line[LS_RANK_TABLE_LINE_BYTES]);

#endif
