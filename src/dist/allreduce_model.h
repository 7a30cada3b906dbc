// allreduce_model.h - how long all-reduces take: measured, fitted to latency and bandwidth,
// and predicted for other numbers of ranks.
//
// An all-reduce of n bytes over p ranks takes L(p) alpha + V(p) n / beta: alpha is the latency of one message (s), beta
// the bandwidth of one rank (bytes/s), L and V belong to the algorithm (lg = log2, rounded up):
//
//   algorithm                                       L          V
//   ring       reduce-scatter, all-gather           2 (p-1)    2 (p-1)/p
//   halving    the same by halves (Rabenseifner)    2 lg p     2 (p-1)/p
//   tree       reduce and broadcast, pipelined      2 lg p     2
//   doubling   everything to a partner, lg p times  lg p       lg p
//
// Messages of more than a limit take longer to begin (they are announced and requested before they are sent:
// 64 KB over TCP, 4 KB in shared memory with Open MPI): `long_s` each, beside alpha. Messages are of n/p bytes
// (ring), n/2, n/4, ... and back (halving), n (tree, doubling).
//
// Two levels of links: inside a host, and between hosts.
// With h hosts of r = p/h ranks (rounded up), neighbours in rank on one host:
//   ring       every step waits for its slowest link: the larger alpha, the smaller beta
//   tree       2 (lg r alpha_in + lg h alpha_out) + 2 n / smaller beta
//   halving    inside, then between: the formula for r with `inside`, plus that for h with `between` (the r ranks of a
//              host share its link, each with n/r bytes, or their lowest one sends all n, which is the same)
//   doubling   lg r (alpha_in + n / beta_in) + lg h (alpha_out + r n / beta_out)
//
// Additions are part of beta: it is measured with them. On GPUs every all-reduce takes `start_s` besides, whatever its size
// and its ranks: a kernel's start and end, and that all have come.
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA 19(1),
//         2005, section 4; bus bandwidth: nccl-tests, doc/PERFORMANCE.md; pipelined tree: Sanders, Speck, Traeff,
//         "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009 (NCCL's tree).
#ifndef LS_DIST_ALLREDUCE_MODEL_H
#define LS_DIST_ALLREDUCE_MODEL_H

#include <stdint.h>
#include "base/status.h"
#include "dist/comm.h"

typedef enum {
    LS_ALLREDUCE_HALVING,
    LS_ALLREDUCE_RING,
    LS_ALLREDUCE_TREE,
    LS_ALLREDUCE_DOUBLING,
    LS_ALLREDUCE_ALGORITHMS
} ls_allreduce_algorithm;
const char *ls_allreduce_algorithm_name(ls_allreduce_algorithm algorithm); // "halving", ...

// ALL: all ranks, where both other levels exist; to compare with what the two levels predict.
typedef enum { LS_ALLREDUCE_INSIDE, LS_ALLREDUCE_BETWEEN, LS_ALLREDUCE_ALL } ls_allreduce_level;

typedef struct {
    ls_allreduce_level level;
    int ranks, hosts; // that took part
    int64_t bytes;    // of one rank's data
    int repeats;
    double seconds; // median over repeats, of the slowest rank
    double spread;  // distance of the quartiles, as a share of the median
} ls_allreduce_sample;

enum { LS_ALLREDUCE_SAMPLES_MAX = 64 };
typedef struct {
    int count;
    ls_allreduce_sample sample[LS_ALLREDUCE_SAMPLES_MAX];
} ls_allreduce_samples;

// Measures fp32 all-reduces of 8 bytes to 8 MiB over comm, level by level, for about budget_s seconds in all
// (sizes that would not fit are left out, but not the first four), and appends them to *samples:
// the same on all ranks. All ranks of comm call it. With comm of several sizes (ls_comm_first) into the same samples,
// the fit can distinguish algorithms. One rank: nothing.
LS_CHECKED ls_status ls_allreduce_measure(ls_comm *comm, double budget_s, ls_allreduce_samples *samples);

// --- pure functions ------------------------------------------------------------------------------

typedef struct {
    int known; // 0: nothing was measured
    ls_allreduce_algorithm algorithm;
    double alpha_s, beta;      // beta in bytes/s; INFINITY: no dependence on size was seen
    double long_s, long_bytes; // messages of more than long_bytes take long_s more; 0, INFINITY: no such limit was seen
    double rms, worst;         // relative distances of the samples from the fit: 0.1 is 10 %
} ls_allreduce_fit;

// Weighted least squares over those samples that are of `level` (weights 1/seconds^2: relative errors count alike),
// with alpha, long, 1/beta >= 0. A limit for long messages is taken where it makes rms clearly smaller (by 30 %).
// Without two sizes at that level: known = 0.
ls_allreduce_fit ls_allreduce_fit_level(
    const ls_allreduce_samples *samples, ls_allreduce_level level, ls_allreduce_algorithm algorithm);
// The same with the algorithm that fits clearly best. Where all samples are of one number of ranks, the fit cannot
// distinguish them: then it is halving, which comm.c sets in Open MPI.
ls_allreduce_fit ls_allreduce_fit_best(const ls_allreduce_samples *samples, ls_allreduce_level level);

typedef struct {
    ls_allreduce_fit inside, between;
    double start_s; // of each all-reduce; 0 in what is measured through host memory, where alpha has it
} ls_allreduce_model;

ls_allreduce_model ls_allreduce_model_fit(const ls_allreduce_samples *samples);

// GPUs' links as others have measured NCCL on them; where each figure is from: allreduce_links.c.
typedef enum {
    LS_LINK_NVLINK3, // A100
    LS_LINK_NVLINK4, // H100, H200
    LS_LINK_NVLINK5, // B200
    LS_LINK_PCIE,    // cards without NVLink
    LS_LINK_HDR,     // InfiniBand, 200 Gbit/s a GPU
    LS_LINK_NDR,     // InfiniBand, 400 Gbit/s a GPU
    LS_LINK_COUNT
} ls_link;
const char *ls_link_name(ls_link link); // "NVLink 4"
// Of hosts with `local_ranks` GPUs, which reach each other by `inside` and other hosts each by a card of its own.
ls_allreduce_model ls_allreduce_model_of_links(ls_link inside, ls_link between, int local_ranks);

// Seconds of one all-reduce; 0 for one rank. NAN where the model lacks a level that these hosts need.
// With `between` unknown, hosts = 1 predicts the case that all ranks were linked like those inside a host;
// with `inside` unknown, hosts = ranks.
double ls_allreduce_seconds(
    const ls_allreduce_model *model, ls_allreduce_algorithm algorithm, int ranks, int hosts, double bytes);

typedef struct {
    double bytes;
    double ready; // complete at this share of the update's computation, 0 to 1
} ls_allreduce_bucket;

typedef struct {
    const ls_allreduce_model *model;
    ls_allreduce_algorithm algorithm;
    int ranks, hosts;
    const ls_allreduce_bucket *buckets; // in launch order, `ready` not falling
    int bucket_count;
    // Computation of one update on one rank: among this many ranks (ranks that share cores or memory slow each other
    // down: measured where possible), and alone with the same work.
    double compute_s, alone_s;
    int overlap;
    int in_turn;  // one all-reduce ends before the next one begins, as on a GPU's queue
    double taken; // share of the computation's speed that an all-reduce takes while it runs beside it
} ls_allreduce_workload;

// NCCL's share of a GPU: some 20 of 132 multiprocessors.
#define LS_ALLREDUCE_TAKEN_BY_NCCL 0.15

typedef struct {
    double comm_s;     // sum of the buckets' times, one after the other
    double exposed_s;  // by which the update is longer than its computation
    double update_s;   // computation and exposed
    double efficiency; // alone_s / update_s: of weak scaling where alone_s is for the same work on a rank, of strong
                       // scaling where it is for an equal share of the whole
} ls_allreduce_prediction;

// Without overlap all buckets follow the computation, one after the other. With it, a bucket starts when it is ready
// and those before have left the link; latencies pass at the same time, as all buckets are in flight at once, but for
// `in_turn`. `taken` of what passes beside the computation is exposed, too.
ls_allreduce_prediction ls_allreduce_predict(const ls_allreduce_workload *workload);

// The size of buckets, a power of two from 1 to 32 MiB, with which the workload's update is predicted to be shortest when
// `bytes` of gradients come evenly over the last two thirds of its computation: small ones pay for their number, of large ones
// more is left when the computation ends. Its own buckets are not read. One rank: 1 MiB.
int64_t ls_allreduce_bucket_bytes(const ls_allreduce_workload *workload, double bytes);

// Bytes/s of the links that would be needed to move what an all-reduce must move: 2 (p-1)/p bytes / seconds.
// Comparable between rank counts, and with the hardware's bandwidth.
double ls_allreduce_bus_bandwidth(int ranks, double bytes, double seconds);

#endif
