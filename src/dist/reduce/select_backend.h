// select_backend.h - what sums a run's gradients over ranks (dist.backend):
// the device's own collectives, or the communicator.
#ifndef LS_DIST_REDUCE_SELECT_BACKEND_H
#define LS_DIST_REDUCE_SELECT_BACKEND_H

#include "config/config.h"
#include "device/device.h"
#include "dist/comm.h"

// All ranks call it, and have compared library versions. shares: some GPU has several ranks. *out: the device's
// collectives, opened, as dist.backend names them or auto finds them; NULL: sums go through comm and
// host memory, and *why_not says why auto does not take the device's ("" where it was not to be expected). library: its name
// and version ("" without). LS_USAGE where the configuration asks for what the device lacks or the number of ranks excludes;
// LS_COMM when the ranks do not meet within dist.timeout. The status is agreed.
LS_CHECKED ls_status ls_select_backend(ls_comm *comm, ls_device *device, const ls_config *cfg, int shares,
    ls_collective **out, char library[96], char why_not[256]);

#endif
