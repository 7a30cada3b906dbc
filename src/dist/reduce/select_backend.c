#include "dist/reduce/select_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"

static const char *title_of(const ls_collective_api *api) {
    const ls_collective_row *row = ls_collective_find(api->name);
    return row ? row->title : api->name;
}

// Decides on this rank alone whether the device's collectives are to be used (*usable).
static ls_status choose(ls_comm *comm, const ls_device *device, const ls_config *cfg, int shares, int *usable,
    char library[96], char why_not[256]) {
    int ranks = ls_comm_get_info(comm)->world_size, is_auto = cfg->dist_backend == LS_BACKEND_AUTO;
    const ls_collective_api *api = device->api->collective;
    const ls_collective_row *named = ls_collective_find(ls_config_choice("dist.backend", cfg->dist_backend));
    *usable = 0;
    if (cfg->dist_backend == LS_BACKEND_SELF && ranks > 1)
        return ls_fail(LS_USAGE,
            "dist.backend = self is for one rank, but %d were started; set dist.backend = auto, or start one", ranks);
    if (named && (!api || strcmp(api->name, named->name) != 0))
        return ls_fail(LS_USAGE,
            "dist.backend = %s sums gradients between GPUs, but this run computes on %s; set device.type = %s, or "
            "dist.backend = mpi",
            named->name, device->api->name, named->device);
    if (!api || (!named && !is_auto)) return LS_SUCCESS;
    if (ranks == 1 && is_auto) return LS_SUCCESS;
    if (shares && is_auto) {
        snprintf(why_not, 256, "ranks share GPUs (device.share), which %s does not allow", title_of(api));
        return LS_SUCCESS;
    }
    ls_status status = api->probe(library, 96);
    *usable = !ls_failed(status);
    if (*usable || named) return status;
    snprintf(why_not, 256, "%.255s", status.text);
    return LS_SUCCESS;
}

// With run.deterministic, forbids the collectives' library to add in network switches, whatever the environment says:
// the order of their additions may change from run to run. Call it before the library reads its variable, and while no
// other thread reads the environment.
static ls_status keep_sums_in_ranks(const ls_comm_info *info, const ls_collective_api *api, const ls_config *cfg) {
    const ls_collective_row *row = ls_collective_find(api->name);
    if (!cfg->run_deterministic || !row) return LS_SUCCESS;
    const char *set = getenv(row->network_sums_variable);
    if (set && strcmp(set, "0") == 0) return LS_SUCCESS;
    if (set && info->local_rank == 0)
        ls_alert("%s=%s in the environment is taken as 0: with run.deterministic = true no switch adds, as the order "
                 "of such "
                 "sums may change from run to run",
            row->network_sums_variable, set);
    if (setenv(row->network_sums_variable, "0", 1) == 0) return LS_SUCCESS;
    return ls_fail(
        LS_DEVICE, "%s=0 does not fit into the environment; set it before the start", row->network_sums_variable);
}

ls_status ls_select_backend(ls_comm *comm, ls_device *device, const ls_config *cfg, int shares, ls_collective **out,
    char library[96], char why_not[256]) {
    const ls_comm_info *info = ls_comm_get_info(comm);
    const ls_collective_api *api = device->api->collective;
    int usable;
    *out = NULL;
    library[0] = why_not[0] = 0;
    LS_TRY(ls_comm_agree(comm, choose(comm, device, cfg, shares, &usable, library, why_not), NULL));
    if (!usable) return LS_SUCCESS; // on all ranks, because their libraries are the same
    uint8_t id[LS_COLLECTIVE_ID_BYTES] = { 0 };
    ls_status status = keep_sums_in_ranks(info, api, cfg);
    if (!ls_failed(status) && info->rank == 0) status = api->make_id(id);
    LS_TRY(ls_comm_agree(comm, status, NULL));
    LS_TRY(ls_comm_broadcast(comm, id, sizeof id, 0));
    status = api->open(device, id, info->rank, info->world_size, cfg->dist_timeout, out);
    return ls_comm_agree(comm, status, NULL);
}
