#include "train/energy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "system/powercap.h"
#include "base/text.h"

enum { HOSTS, PACKAGES, MEMORIES, COUNTS };

struct ls_energy {
    ls_comm *comm;
    const ls_rank_info *places;
    ls_powercap *powercap;  // NULL: another rank of the host counts, or counters cannot be read
    int32_t counts[COUNTS]; // over all hosts: hosts with readable counters, their packages, their memory zones
    // Why counters cannot be read, on the first host where they cannot. "": they can be read on all hosts.
    char why[LS_POWERCAP_WHY_BYTES];
};

// --- processors ----------------------------------------------------------------------------------

static void find_processors(ls_energy *e, ls_status *status, const char *root) {
    if (ls_failed(*status) || ls_comm_get_info(e->comm)->local_rank != 0) return;
    *status = ls_powercap_start(root, &e->powercap, e->why);
    if (!e->powercap) return;
    e->counts[HOSTS] = 1;
    ls_powercap_zones(e->powercap, &e->counts[PACKAGES], &e->counts[MEMORIES]);
}

// Gives all ranks the sums of `counts`, and the reason `why` of the lowest rank that has one.
static ls_status share_processors(ls_energy *e) {
    const ls_comm_info *info = ls_comm_get_info(e->comm);
    int32_t first = e->why[0] ? info->rank : info->world_size;
    LS_TRY(ls_comm_allreduce(e->comm, e->counts, COUNTS, LS_I32, LS_REDUCE_SUM));
    LS_TRY(ls_comm_allreduce(e->comm, &first, 1, LS_I32, LS_REDUCE_MIN));
    if (first == info->world_size) return LS_SUCCESS;
    return ls_comm_broadcast(e->comm, e->why, sizeof e->why, first);
}

ls_status ls_energy_start(ls_comm *comm, const char *root, const ls_rank_info *places, ls_energy **out) {
    ls_energy *e = ls_new(1, sizeof *e, "energy counters");
    ls_status status = LS_SUCCESS;
    *e = (ls_energy){ .comm = comm, .places = places };
    find_processors(e, &status, root);
    status = ls_comm_agree(comm, status, NULL);
    LS_THEN(status, share_processors(e));
    return LS_GIVE_OR_FREE(status, e, out, ls_energy_free);
}

// Adds up the joules of the processors of all hosts. *joules is NAN if a counter that was readable at the start can no
// longer be read.
static ls_status read_processors(ls_energy *e, double *joules) {
    *joules = e->powercap ? ls_powercap_joules(e->powercap) : 0;
    return e->counts[HOSTS] > 0 ? ls_comm_allreduce(e->comm, joules, 1, LS_F64, LS_REDUCE_SUM) : LS_SUCCESS;
}

// --- GPUs ----------------------------------------------------------------------------------------

static int has_gpu(const ls_rank_info *place) {
    return place->uuid[0] || place->pci[0];
}

// Returns 1 if two ranks use the same card. MIG slices of a card have different UUIDs but the same PCI address.
static int same_gpu(const ls_rank_info *a, const ls_rank_info *b) {
    if (strcmp(a->host, b->host) != 0) return 0;
    return a->pci[0] && b->pci[0] ? strcmp(a->pci, b->pci) == 0 : strcmp(a->uuid, b->uuid) == 0;
}

static int is_first(const ls_energy *e, int rank) {
    for (int other = 0; other < rank; other++)
        if (has_gpu(&e->places[other]) && same_gpu(&e->places[other], &e->places[rank])) return 0;
    return 1;
}

// Returns the joules of all GPUs. *gpus: number of GPUs. *waiting: 1 if a GPU has no sample yet.
static double read_gpus(const ls_energy *e, const ls_gpu_sample *samples, ls_run_energy *out, int *gpus, int *waiting) {
    double joules = 0;
    for (int r = 0; r < ls_comm_get_info(e->comm)->world_size; r++) {
        if (!has_gpu(&e->places[r]) || !is_first(e, r)) continue;
        ++*gpus;
        if (!samples || isnan(samples[r].joules) || samples[r].samples == 0) {
            *waiting |= samples && samples[r].samples == 0;
            continue;
        }
        joules += samples[r].joules;
        if (samples[r].integrated)
            out->gpus_integrated++;
        else
            out->gpus_counted++;
    }
    return joules;
}

// --- the whole -----------------------------------------------------------------------------------

// Explains which processors and GPUs are missing from the sum, and why.
static void explain(const ls_energy *e, double processors, int gpus, ls_run_energy *out) {
    ls_text_room room = { out->missing, sizeof out->missing };
    const int hosts = ls_comm_get_info(e->comm)->hosts, known = out->gpus_counted + out->gpus_integrated;
    if (isnan(processors))
        ls_text_put(&room, "processors: their counters could be read at the start, and no more at the end");
    else if (out->hosts == 0)
        ls_text_put(&room, "processors: %s", e->why);
    else if (out->hosts < hosts)
        ls_text_put(&room, "processors of %d of %d hosts: %s", hosts - out->hosts, hosts, e->why);
    if (known < gpus)
        ls_text_put(&room, "%s%d of %d GPU%s: NVML does not report %s energy or power", out->missing[0] ? "; " : "",
            gpus - known, gpus, gpus == 1 ? "" : "s", gpus - known == 1 ? "its" : "their");
}

ls_status ls_energy_read(ls_energy *energy, const ls_gpu_sample *gpus, int last, ls_run_energy *out) {
    double processors;
    int all = 0, waiting = 0;
    *out = (ls_run_energy){
        .hosts = energy->counts[HOSTS], .packages = energy->counts[PACKAGES], .memories = energy->counts[MEMORIES]
    };
    LS_TRY(read_processors(energy, &processors));
    out->joules = read_gpus(energy, gpus, out, &all, &waiting);
    explain(energy, processors, all, out);
    out->joules += processors;
    const int nothing = out->hosts + out->gpus_counted + out->gpus_integrated == 0;
    if (nothing || (waiting && !last)) out->joules = NAN;
    return LS_SUCCESS;
}

void ls_energy_free(ls_energy *energy) {
    if (!energy) return;
    ls_powercap_stop(energy->powercap);
    free(energy);
}
