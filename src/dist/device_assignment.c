#include "dist/device_assignment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "system/cpus.h"
#include "base/hash.h"
#include "base/memory.h"
#include "dist/affinity.h"

struct ls_device_assignment {
    int is_auto;
    const char *type;                                  // type of the device that is opened
    const ls_device_gpu *gpu;                          // this rank's GPU, one of `gpus`; NULL: no GPU is used
    int shares;                                        // some GPU has several ranks
    ls_device_gpu gpus[LS_DEVICE_ASSIGNMENT_GPUS_MAX]; // the GPUs that this rank sees
    char why_not_gpu[LS_DEVICE_ASSIGNMENT_TEXT_BYTES]; // "": a GPU is used, or the configuration excludes it
    ls_rank_info *ranks;                               // places of all ranks: [world_size]
    ls_cpu_mask before;                                // cores on which this thread ran before; empty: it was not moved
};

// --- choosing ------------------------------------------------------------------------------------

static int ranks_on(const ls_device_assignment_view *views, const int *taken, int rank, uint64_t gpu, int *first) {
    int count = 0;
    for (int r = 0; r < rank; r++) {
        if (taken[r] < 0 || views[r].gpu[taken[r]] != gpu || views[r].host != views[rank].host) continue;
        if (count++ == 0) *first = r;
    }
    return count;
}

void ls_device_assignment_choose(const ls_device_assignment_view *views, int ranks, int share, int *taken, int *first) {
    for (int r = 0; r < ranks; r++) {
        int fewest = ranks;
        taken[r] = -1;
        first[r] = r;
        for (int g = 0; g < views[r].count; g++) {
            int lowest = r, count = ranks_on(views, taken, r, views[r].gpu[g], &lowest);
            if (count >= fewest || (count > 0 && !share)) continue;
            fewest = count;
            taken[r] = g;
            first[r] = lowest;
        }
    }
}

static int same_view(const ls_device_assignment_view *a, const ls_device_assignment_view *b) {
    return a->count == b->count && memcmp(a->gpu, b->gpu, (size_t)a->count * sizeof *a->gpu) == 0;
}

// --- refusing ------------------------------------------------------------------------------------

// Returns "NAME (UUID)", or "NAME (PCI address)" without a UUID.
static const char *gpu_text(const ls_device_gpu *gpu, char text[192]) {
    snprintf(text, 192, "%s (%s)", gpu->name, gpu->uuid[0] ? gpu->uuid : gpu->pci);
    return text;
}

static const char share_advice[] = "or set device.share = true (ranks take turns on a GPU, and sums go through host "
                                   "memory) or device.type = cpu";

// Fails with LS_USAGE: this rank sees GPUs, but other ranks of its host have taken all of them.
static ls_status refuse_crowd(
    const ls_device_assignment *p, const ls_device_assignment_view *views, const ls_comm_info *comm) {
    const ls_device_assignment_view *mine = &views[comm->rank];
    int here = 0, alike = 1, count = mine->count;
    char text[192];
    for (int r = 0; r < comm->world_size; r++) {
        if (views[r].host != mine->host) continue;
        here++;
        alike &= same_view(&views[r], mine);
    }
    if (alike && count > 1)
        return ls_fail(LS_USAGE, "host %s shows %d GPUs, but %d ranks were started there: start at most %d, %s",
            comm->host, count, here, count, share_advice);
    if (alike)
        return ls_fail(LS_USAGE, "host %s shows 1 GPU, %s, but %d ranks were started there: start one, %s", comm->host,
            gpu_text(&p->gpus[0], text), here, share_advice);
    return ls_fail(LS_USAGE,
        "rank %d on host %s sees %d GPU%s, and lower ranks there have %s already, %s: show every rank a GPU of its own "
        "(srun --gpus-per-task=1) or all GPUs to all ranks, %s",
        comm->rank, comm->host, count, count == 1 ? "" : "s", count == 1 ? "it" : "all of them",
        gpu_text(&p->gpus[0], text), share_advice);
}

// Fails with LS_USAGE if a lower rank has this rank's GPU, too, and dist.backend names collectives that refuse this.
static ls_status check_sums(
    const ls_device_assignment *p, const ls_config *cfg, const char *host, int rank, int first) {
    const ls_collective_row *named = ls_collective_find(ls_config_choice("dist.backend", cfg->dist_backend));
    const char *tests = named ? getenv(named->shared_gpu_variable) : NULL;
    char text[192];
    if (first == rank || !named || (tests && strcmp(tests, "1") == 0)) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "dist.backend = %s: ranks %d and %d on host %s share a GPU, %s, and %s refuses that; set dist.backend = mpi, "
        "or "
        "start fewer ranks",
        named->name, first, rank, host, gpu_text(p->gpu, text), named->title);
}

// Fails with LS_DEVICE: this rank has no GPU. why: the reason; others: the number of ranks that have GPUs.
static ls_status refuse_without(const ls_device_assignment *p, const ls_comm_info *comm, int others, const char *why) {
    if (p->is_auto && others > 0)
        return ls_fail(LS_DEVICE,
            "rank %d on host %s can use no GPU, but %d other rank%s can: %s; mend that, start ranks only where there "
            "are "
            "GPUs, or set device.type = cpu",
            comm->rank, comm->host, others, others == 1 ? "" : "s", why);
    if (comm->world_size == 1) return ls_fail(LS_DEVICE, "device.type = %s: %s", p->type, why);
    return ls_fail(LS_DEVICE, "device.type = %s: rank %d on host %s: %s", p->type, comm->rank, comm->host, why);
}

// --- making an assignment ------------------------------------------------------------------------

static uint64_t identity_of(const ls_device_gpu *gpu) {
    const char *id = gpu->uuid[0] ? gpu->uuid : gpu->pci;
    return ls_hash(id, strlen(id));
}

// The views of all ranks, and the results of ls_device_assignment_choose.
typedef struct {
    ls_device_assignment_view *views; // by rank
    int *taken, *first;               // by rank
} choice;

static choice new_choice(int ranks) {
    return (choice){ .views = ls_new(ranks, sizeof(ls_device_assignment_view), "devices of %d ranks", ranks),
        .taken = ls_new(ranks, sizeof(int), "devices of %d ranks", ranks),
        .first = ls_new(ranks, sizeof(int), "devices of %d ranks", ranks) };
}

static void free_choice(choice *c) {
    free(c->views);
    free(c->taken);
    free(c->first);
}

// Sets this rank's device from the choice of all ranks. Fails if it gets no GPU, unless device.type is auto and no rank
// sees a GPU; also if dist.backend refuses a shared GPU. found, seen: type and status from ls_device_gpus here.
static ls_status settle(ls_device_assignment *p, const choice *c, const ls_comm_info *comm, const ls_config *cfg,
    const char *found, ls_status seen) {
    int with = 0, rank = comm->rank;
    for (int r = 0; r < comm->world_size; r++) with += c->views[r].code == LS_OK;
    if (with == 0 && p->is_auto) {
        p->type = "cpu";
        snprintf(p->why_not_gpu, sizeof p->why_not_gpu, "no GPU is used: %s", seen.text);
        return LS_SUCCESS;
    }
    if (ls_failed(seen)) return refuse_without(p, comm, with, seen.text);
    p->type = found;
    if (c->taken[rank] < 0) return refuse_crowd(p, c->views, comm);
    p->gpu = &p->gpus[c->taken[rank]];
    return check_sums(p, cfg, comm->host, rank, c->first[rank]);
}

static ls_status choose(ls_device_assignment *p, ls_comm *comm, const ls_config *cfg) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    ls_device_assignment_view mine = { .count = 0 };
    const char *found;
    ls_status seen = ls_device_gpus(p->type, p->gpus, LS_DEVICE_ASSIGNMENT_GPUS_MAX, &mine.count, &found);
    choice c = new_choice(info->world_size);
    mine.code = seen.code;
    mine.host = info->host_index;
    for (int g = 0; g < mine.count; g++) mine.gpu[g] = identity_of(&p->gpus[g]);
    ls_status status = ls_comm_allgather(comm, &mine, c.views, sizeof mine);
    if (!ls_failed(status)) {
        ls_device_assignment_choose(c.views, info->world_size, cfg->device_share, c.taken, c.first);
        for (int r = 0; r < info->world_size; r++) p->shares |= c.first[r] != r;
        status = ls_comm_agree(comm, settle(p, &c, info, cfg, found, seen), NULL);
    }
    free_choice(&c);
    return status;
}

// --- cores ---------------------------------------------------------------------------------------

// Keeps this thread, and the threads that it will start, on cores near this rank's GPU.
static ls_status stay_near(ls_device_assignment *p, ls_comm *comm, const ls_config *cfg) {
    const char *root = getenv("LOCKSTEP_SYS_ROOT");
    const ls_comm_info *info = ls_comm_get_info(comm);
    ls_cpu_mask allowed, share;
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    int bound = !ls_cpu_mask_of_thread(&allowed) || cpus.mask_cpus < cpus.host_cpus || !cfg->device_affinity;
    ls_affinity_view *views = ls_new(info->world_size, sizeof *views, "cores of %d ranks", info->world_size);
    if (!root) root = "";
    ls_affinity_view mine = ls_affinity_look(root, p->gpu ? p->gpu->pci : "", info->host_index, bound, &allowed);
    ls_status status = ls_comm_allgather(comm, &mine, views, sizeof mine);
    if (!ls_failed(status)) {
        share = ls_affinity_share(root, views, info->world_size, info->rank);
        if (ls_cpu_mask_first(&share) >= 0 && ls_cpu_mask_bind(&share)) p->before = allowed;
    }
    free(views);
    return status;
}

static void leave_cores(ls_device_assignment *p) {
    if (ls_device_assignment_moved(p)) (void)ls_cpu_mask_bind(&p->before);
    p->before = (ls_cpu_mask){ { 0 } };
}

ls_status ls_device_assignment_new(ls_comm *comm, ls_status mine, const ls_config *cfg, ls_device_assignment **out) {
    ls_device_assignment *p = ls_new(1, sizeof *p, "device assignment");
    p->ranks = ls_new(ls_comm_get_info(comm)->world_size, sizeof *p->ranks, "device assignment");
    ls_status status = ls_comm_agree(comm, mine, NULL);
    if (!ls_failed(status)) {
        p->is_auto = cfg->device_type == LS_DEVICE_TYPE_AUTO;
        p->type = ls_config_choice("device.type", cfg->device_type);
        if (p->is_auto || ls_device_is_gpu(p->type)) status = choose(p, comm, cfg);
        if (!ls_failed(status) && p->gpu) status = stay_near(p, comm, cfg);
    }
    return LS_GIVE_OR_FREE(status, p, out, ls_device_assignment_free);
}

// Returns the message of ls_device_open without its beginning "device.type = VALUE: ": the user has not set the option.
static const char *cause(ls_status status) {
    const char *value = strncmp(status.text, "device.type = ", 14) == 0 ? strchr(status.text, ':') : NULL;
    return value ? value + strlen(": ") : status.text;
}

static ls_status open_here(ls_device_assignment *p, const ls_device_options *options, ls_device **out) {
    ls_device_options with_index = *options;
    if (p->gpu) with_index.index = p->gpu->index;
    return ls_device_open(p->type, &with_index, out, NULL);
}

static void describe(
    const ls_device_assignment *p, const ls_comm_info *comm, const ls_device *device, ls_rank_info *rank) {
    ls_device_info info;
    device->api->info(device, &info);
    snprintf(rank->host, sizeof rank->host, "%s", comm->host);
    snprintf(rank->device, sizeof rank->device, "%s", device->api->name);
    snprintf(rank->name, sizeof rank->name, "%s", p->gpu ? p->gpu->name : info.name);
    snprintf(rank->uuid, sizeof rank->uuid, "%s", info.uuid);
    snprintf(rank->pci, sizeof rank->pci, "%s", info.pci);
    ls_cpu_mask cpus;
    if (ls_cpu_mask_of_thread(&cpus)) ls_cpu_mask_text(&cpus, rank->cpus, sizeof rank->cpus);
}

ls_status ls_device_assignment_open(
    ls_device_assignment *p, ls_comm *comm, const ls_device_options *options, ls_device **out) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    *out = NULL;
    ls_status status = open_here(p, options, out);
    int32_t opened = !ls_failed(status);
    LS_TRY(ls_comm_allreduce(comm, &opened, 1, LS_I32, LS_REDUCE_SUM));
    if (opened == 0 && p->is_auto && p->gpu) {
        snprintf(p->why_not_gpu, sizeof p->why_not_gpu, "no GPU is used: %s", cause(status));
        p->type = "cpu";
        p->gpu = NULL;
        leave_cores(p);
        p->shares = 0;
        status = open_here(p, options, out);
    } else if (ls_failed(status) && p->is_auto && p->gpu) {
        status = refuse_without(p, info, opened, cause(status));
    }
    status = ls_comm_agree(comm, status, NULL);
    if (!ls_failed(status)) {
        ls_rank_info mine = { .host = "" };
        describe(p, info, *out, &mine);
        status = ls_comm_allgather(comm, &mine, p->ranks, sizeof mine);
    }
    if (!ls_failed(status)) return status;
    ls_device_close(*out);
    *out = NULL;
    return status;
}

void ls_device_assignment_free(ls_device_assignment *assignment) {
    if (!assignment) return;
    leave_cores(assignment);
    free(assignment->ranks);
    free(assignment);
}

const char *ls_device_assignment_why_not_gpu(const ls_device_assignment *assignment) {
    return assignment->why_not_gpu[0] ? assignment->why_not_gpu : NULL;
}

int ls_device_assignment_shares(const ls_device_assignment *assignment) {
    return assignment->shares;
}

int ls_device_assignment_moved(const ls_device_assignment *assignment) {
    return ls_cpu_mask_first(&assignment->before) >= 0;
}

const ls_rank_info *ls_device_assignment_ranks(const ls_device_assignment *assignment) {
    return assignment->ranks;
}
