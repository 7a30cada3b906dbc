// plan_cache.h - a small file that keeps which algorithm was fastest: choice texts by key texts.
//
// The key says all that a choice depends on: library versions, device, operator, shape, types. A file that is missing,
// damaged or of another kind counts as empty and is replaced by the next put. Several processes may use one file: it is
// replaced whole (base/atomic_file.h) after their entries were read again, so nobody sees half a file; of two choices
// for one key the later stays, and an entry that another process puts at the same moment may be lost, which costs only
// timing it again.
#ifndef LS_DEVICE_PLAN_CACHE_H
#define LS_DEVICE_PLAN_CACHE_H

#include "base/status.h"

typedef struct ls_plan_cache ls_plan_cache;

// name: of the file in folder, "cudnn.plans"; the folder is made when the first choice is kept. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_plan_cache_open(const char *folder, const char *name, ls_plan_cache **out);
void ls_plan_cache_free(ls_plan_cache *cache); // NULL is allowed
// The choice for key, valid until the next put, or NULL.
const char *ls_plan_cache_find(const ls_plan_cache *cache, const char *key);
// Keeps the choice and writes the file. Neither text may hold a tab or a line break. LS_STORAGE when the file cannot be
// written: the choice holds for this process all the same, so callers may go on.
LS_CHECKED ls_status ls_plan_cache_put(ls_plan_cache *cache, const char *key, const char *choice);

#endif
