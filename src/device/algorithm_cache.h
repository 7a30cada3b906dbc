// algorithm_cache.h - which algorithm was measured to be the fastest: choice texts by key texts,
// and a small file that keeps them for the next run.
//
// The key has all that a choice depends on: library versions, device, operator, shape, types. A device that has a
// cache takes the choice that it finds; what it does not find it measures and puts, unless the cache is settled.
//
// The file is read when the cache is opened. One that is missing, damaged or of another kind counts as empty and is
// replaced by the next save. Several processes may use one file: it is replaced whole (base/atomic_file.h), so half a
// file is never seen. Of two choices for one key the one saved later stays, and an entry that another process saves at
// the same moment may be lost, which costs only measuring it again. It keeps the newest 1024 entries.
#ifndef LS_DEVICE_ALGORITHM_CACHE_H
#define LS_DEVICE_ALGORITHM_CACHE_H

#include <stddef.h>
#include "base/status.h"

typedef struct ls_algorithm_cache ls_algorithm_cache;

// How a plan came to its algorithm, where there was a choice: words for tables.
#define LS_CHOSEN_BY_RULE "by rule"
#define LS_CHOSEN_NOW "measured now"
#define LS_CHOSEN_BEFORE "measured before"

// name: of the file in folder, "plans"; the folder is made when the file is.
// folder NULL: there is no file. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_algorithm_cache_open(const char *folder, const char *name, ls_algorithm_cache **out);
void ls_algorithm_cache_free(ls_algorithm_cache *cache); // NULL is allowed
// The choice for key, valid until the next put, or NULL. *how (NULL is allowed): LS_CHOSEN_NOW for one that was put
// since the cache was opened, else LS_CHOSEN_BEFORE.
const char *ls_algorithm_cache_find(ls_algorithm_cache *cache, const char *key, const char **how);
// Neither text may hold a tab or a line break. LS_DEVICE: no memory.
LS_CHECKED ls_status ls_algorithm_cache_put(ls_algorithm_cache *cache, const char *key, const char *choice);
int ls_algorithm_cache_measured(const ls_algorithm_cache *cache); // entries that were put since it was opened

// 1: from here on nothing is measured, and what the cache does not hold goes by the device's rule. 0: as it starts.
void ls_algorithm_cache_settle(ls_algorithm_cache *cache, int settled);
int ls_algorithm_cache_settled(const ls_algorithm_cache *cache);

// Writes the file where something was put or taken since. LS_STORAGE when it cannot be written, LS_DEVICE without
// memory: the choices hold for this process all the same, so callers may go on.
LS_CHECKED ls_status ls_algorithm_cache_save(ls_algorithm_cache *cache);
const char *ls_algorithm_cache_path(const ls_algorithm_cache *cache); // of the file; NULL: there is none
// Why nothing of the file was taken when the cache was opened ("is damaged", to follow its path), for one message: NULL
// from the second call on, and where the file was taken or was not there.
const char *ls_algorithm_cache_ignored(ls_algorithm_cache *cache);

// Between processes: the entries that were found or put so far as text, which the caller frees; and another process's
// text, whose choices count from here on.
LS_CHECKED ls_status ls_algorithm_cache_give(const ls_algorithm_cache *cache, char **text, size_t *bytes);
LS_CHECKED ls_status ls_algorithm_cache_take(ls_algorithm_cache *cache, char *text, size_t bytes);

#endif
