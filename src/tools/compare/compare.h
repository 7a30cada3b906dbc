// compare.h - two runs, checkpoints or weights files, section by section, in the order in which one difference leads to
// the next.
//
// The report is a JSON object: a and b (paths), of (what is compared: "weights and losses" of two runs, else "state" or
// "weights"), same (nothing that decides differs), first (the section and name of the first difference; null: none),
// sections: a list of
//   name, verdict ("same", "different"; "unknown": a side does not say), text, differences: a list of
//     what, a, b, and perhaps note
// version, configuration, data and device say why two differ. What was computed decides: of runs weights (their hashes
// at checkpoints), losses, evaluations, results and tensors; else counters and tensors. Counters are those of the
// state, with the identity of network, data and seed. Two runs have their states compared at the first update, from
// that of differing weights on, at which both have a checkpoint, or else at the last one, or else by their final
// weights.
#ifndef LS_TOOLS_COMPARE_COMPARE_H
#define LS_TOOLS_COMPARE_COMPARE_H

#include <stdio.h>
#include "tools/compare/side.h"

// Opens and closes states of the sides. LS_STORAGE: there is nothing computed to compare.
// cJSON_Delete the report.
LS_CHECKED ls_status ls_compare(ls_side *a, ls_side *b, cJSON **report);
void ls_compare_print(const cJSON *report, FILE *file);
// LS_NUMERIC, in words, unless the report says `same`.
LS_CHECKED ls_status ls_compare_outcome(const cJSON *report);

#endif
