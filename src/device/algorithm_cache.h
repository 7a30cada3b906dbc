// algorithm_cache.h - remembers which algorithm was measured to be the fastest. It maps key texts to choice texts, and
// a small file keeps them for the next run.
//
// The key contains everything that a choice depends on: library versions, device, operator, shape, types. A device with
// a cache uses the choices in it. It measures a missing choice and adds it, unless the cache is settled.
//
// The file is read when the cache is opened. A missing, damaged or unknown file counts as empty; the next save replaces
// it. Several processes may use one file. A save replaces the whole file (base/atomic_file.h), so no process sees half
// a file. If two processes save different choices for one key, the later one stays. If two processes save at the same
// moment, an entry may be lost; it is then measured again. The file keeps the newest 1024 entries.
#ifndef LS_DEVICE_ALGORITHM_CACHE_H
#define LS_DEVICE_ALGORITHM_CACHE_H

#include <stddef.h>
#include "base/status.h"

typedef struct ls_algorithm_cache ls_algorithm_cache;

// How a plan got its algorithm, if there was a choice: words for tables.
#define LS_CHOSEN_BY_RULE "by rule"
#define LS_CHOSEN_NOW "measured now"
#define LS_CHOSEN_BEFORE "measured before"

// Opens a cache and reads its file. name: the file's name in the folder, "plans"; saving makes a missing folder. folder
// NULL: there is no file.
LS_CHECKED ls_status ls_algorithm_cache_open(const char *folder, const char *name, ls_algorithm_cache **out);
void ls_algorithm_cache_free(ls_algorithm_cache *cache); // NULL is allowed
// Returns the choice for the key, valid until the next put or take, or NULL. *how (how may be NULL) becomes
// LS_CHOSEN_NOW if this process put the choice, else LS_CHOSEN_BEFORE.
const char *ls_algorithm_cache_find(ls_algorithm_cache *cache, const char *key, const char **how);
// Adds the choice for a key, or replaces it. Neither text may hold a tab or a line break.
void ls_algorithm_cache_put(ls_algorithm_cache *cache, const char *key, const char *choice);
int ls_algorithm_cache_measured(const ls_algorithm_cache *cache); // number of entries put since the cache was opened

// With settled = 1, devices measure nothing from now on: their rule decides for keys that the cache does not hold. With
// 0 they measure again (the state after opening).
void ls_algorithm_cache_settle(ls_algorithm_cache *cache, int settled);
int ls_algorithm_cache_settled(const ls_algorithm_cache *cache);

// Writes the file if an entry was put or taken since the last save. LS_STORAGE: the file cannot be written. LS_DEVICE:
// no memory. The choices still hold for this process, so callers may continue after a failure.
LS_CHECKED ls_status ls_algorithm_cache_save(ls_algorithm_cache *cache);
const char *ls_algorithm_cache_path(const ls_algorithm_cache *cache); // path of the file; NULL: there is none
// Why the file was ignored when the cache was opened, as the end of a sentence that starts with the path ("is
// damaged"). For one message only: from the second call on it returns NULL. NULL also if the file was read or did not
// exist.
const char *ls_algorithm_cache_ignored(ls_algorithm_cache *cache);

// Exchange between processes. give returns, as text that the caller frees, the entries that find has returned or that
// put or take has added. take adds the entries of such a text, replaces those with the same keys, overwrites the text.
LS_CHECKED ls_status ls_algorithm_cache_give(const ls_algorithm_cache *cache, char **text, size_t *bytes);
LS_CHECKED ls_status ls_algorithm_cache_take(ls_algorithm_cache *cache, char *text, size_t bytes);

#endif
