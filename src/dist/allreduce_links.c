// allreduce_links.c - published figures of all-reduces by NCCL over GPUs' links: allreduce_model.h.
#include <math.h>
#include "dist/allreduce_model.h"

// alpha: what a step of halving or of a tree adds, fitted to the times of sums of 1 to 16 MB; beta: bus bandwidth of one GPU
// at such sizes, below what nccl-tests reports for hundreds of MB.
static const struct {
    const char *name;
    double alpha_s, beta;
} links[LS_LINK_COUNT] = {
    // nccl-tests #149: 8 A100, 200 GB/s
    [LS_LINK_NVLINK3] = { "NVLink 3", 1.6e-6, 200e9 },
    // 4 H100: 23, 28 and 39 us for 1, 2 and 4 MB (365 GB/s for large ones: nccl #1455)
    [LS_LINK_NVLINK4] = { "NVLink 4", 1.6e-6, 280e9 },
    // no figure was found: twice NVLink 4, as the data sheet has it of the link
    [LS_LINK_NVLINK5] = { "NVLink 5", 1.6e-6, 560e9 },
    // nccl #1639: 8 RTX 5090, 28 GB/s; nccl #1530: 8 RTX 4090, 40 us for small ones
    [LS_LINK_PCIE] = { "PCIe", 4.8e-6, 28e9 },
    // nccl-tests #119: 3 hosts of 8 A100 and 4 cards, 85 to 96 GB/s
    [LS_LINK_HDR] = { "InfiniBand HDR", 27e-6, 22e9 },
    // nccl-tests #232: two hosts of one H100: 154 and 420 us for 4 and 16 MB
    [LS_LINK_NDR] = { "InfiniBand NDR", 27e-6, 45e9 },
};
static const double start_s = 11e-6; // the rest of the times above

const char *ls_link_name(ls_link link) {
    return links[link].name;
}

static ls_allreduce_fit fit_of(ls_link link, int cards) {
    return (ls_allreduce_fit){ .known = 1,
        .algorithm = LS_ALLREDUCE_HALVING,
        .alpha_s = links[link].alpha_s,
        .beta = cards * links[link].beta,
        .long_bytes = INFINITY };
}

ls_allreduce_model ls_allreduce_model_of_links(ls_link inside, ls_link between, int local_ranks) {
    return (
        ls_allreduce_model){ .inside = fit_of(inside, 1), .between = fit_of(between, local_ranks), .start_s = start_s };
}
