// compare.h - two runs, section by section, in the order in which one difference leads to the next.
//
// The report is a JSON object: a and b (the folders), same (1: nothing that was computed differs), first (the section where they
// differ first; null: nowhere), sections: a list of
//   name, verdict ("same", "different", "unknown": one of them does not say), text, differences: a list of
//     what, a, b, note (or none of it)
// version, configuration, data and device say why; weights, losses, evaluations and results what was computed, and they alone decide.
#ifndef LS_CLI_COMPARE_COMPARE_H
#define LS_CLI_COMPARE_COMPARE_H

#include <stdio.h>
#include "cli/compare/run_files.h"

// LS_STORAGE: nothing that was computed is there to be compared; LS_DEVICE: no memory. cJSON_Delete the report.
LS_CHECKED ls_status ls_compare(const ls_run_files *a, const ls_run_files *b, cJSON **report);
void ls_compare_print(const cJSON *report, FILE *file);
// LS_NUMERIC, in words, unless the report says `same`.
LS_CHECKED ls_status ls_compare_outcome(const cJSON *report);

#endif
