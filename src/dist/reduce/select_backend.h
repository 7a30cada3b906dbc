// select_backend.h - chooses the device's collectives or the communicator for sums of gradients (dist.backend).
#ifndef LS_DIST_REDUCE_SELECT_BACKEND_H
#define LS_DIST_REDUCE_SELECT_BACKEND_H

#include "config/config.h"
#include "device/device.h"
#include "dist/comm.h"

// Collective, after the ranks have compared library versions. shares: some GPU has several ranks. All ranks return the
// same status. LS_USAGE: the configuration asks for collectives that the device lacks, or for a backend that does not
// fit the number of ranks. LS_DEVICE: dist.backend names collectives whose library is not usable, or the start of the
// collectives fails. LS_COMM: the ranks do not meet within dist.timeout.
// *out: the device's collectives, opened, if dist.backend names them or auto can use them. NULL: sums go through comm
// and host memory; why_not then says why auto does not use the device's collectives ("" if that is no surprise).
// library: name and version of the collectives' library, or "".
LS_CHECKED ls_status ls_select_backend(ls_comm *comm, ls_device *device, const ls_config *cfg, int shares,
    ls_collective **out, char library[96], char why_not[256]);

#endif
