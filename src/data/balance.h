// balance.h - the order of draws in an epoch, if data.balance = classes: an epoch has as many draws as the set has
// samples, and all classes that have samples come equally often (or once more). A pure function of (seed, epoch), so it
// is the same for any number of ranks, and a checkpoint need not contain it.
//
// - The classes that come once more than others have neighbouring labels (the first label follows the last), from a
//   random one on.
// - Within a class, samples come equally often (or once more). Those that come once more are a random choice.
// - The list of all draws is mixed like the samples of an epoch without balance (sampler.h).
//
// A draw has a number. The first draw of sample i in an epoch is number i, the next ones are i + count, i + 2 * count
// and so on, below 2^32 (further draws begin again at i). So `draw % count` is the sample, and the number is the key of
// the draw's augmentation: a sample that comes several times is augmented differently each time.
#ifndef LS_DATA_BALANCE_H
#define LS_DATA_BALANCE_H

#include "data/dataset.h"

typedef struct ls_balance ls_balance;

// Lists the samples of each class. *out is NULL unless data.balance = classes.
LS_CHECKED ls_status ls_balance_new(const ls_config *cfg, const ls_dataset *dataset, ls_balance **out);
void ls_balance_free(ls_balance *balance); // NULL is allowed
// Writes the draws of an epoch to order[0..count-1], for a set of `count` samples. balance NULL: each sample once, by
// ls_order_shuffle. Several threads may call it at once.
void ls_balance_order(const ls_balance *balance, uint32_t *order, int64_t count, uint64_t seed, int64_t epoch);

#endif
