// compare.h - compares two runs, checkpoints or weights files, section by section. Sections are in the order of cause
// and effect: a difference in one section can explain those in later sections.
//
// The report is a JSON object:
//   a, b      the paths
//   of        the thing compared: "weights and losses" for two runs, otherwise "state" or "weights"
//   same      whether all computed values that were compared are the same
//   first     section and name of the first difference ("configuration: optimizer.lr"); null: no difference that counts
//   sections  a list of objects: name, text; verdict ("same", "different", or "unknown" if a side lacks the values);
//             differences, a list of objects: what, a, b, and sometimes note
// The sections version, configuration, data and device only explain why two sides differ. `same` depends on the
// sections of computed values. For two runs these are weights (hashes at checkpoints), losses, evaluations, results
// and tensors; for other pairs they are counters and tensors. The counters are those of the training state, with the
// identity of network, data and seed. The states of two runs are read from checkpoints of the same update: the first
// such update at or after the first weights that differ, or else the last such update. If the two runs have no such
// checkpoints, their final weights are compared.
#ifndef LS_TOOLS_COMPARE_COMPARE_H
#define LS_TOOLS_COMPARE_COMPARE_H

#include <stdio.h>
#include "tools/compare/side.h"

// Compares the sides; opens and closes their states. LS_STORAGE: the sides share no computed value to compare, or a
// file cannot be read. The caller frees *report by cJSON_Delete.
LS_CHECKED ls_status ls_compare(ls_side *a, ls_side *b, cJSON **report);
void ls_compare_print(const cJSON *report, FILE *file);
// Returns success if the report says `same`, else LS_NUMERIC with a text that names the first difference.
LS_CHECKED ls_status ls_compare_outcome(const cJSON *report);

#endif
