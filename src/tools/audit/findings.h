// findings.h - the differences between the record of a run and the same updates computed again. Only rank 0 has them.
#ifndef LS_TOOLS_AUDIT_FINDINGS_H
#define LS_TOOLS_AUDIT_FINDINGS_H

#include "tools/audit/record.h"

typedef struct {
    char *text; // lines about the differences that were found since the last ls_findings_print
    size_t bytes;
    FILE *stream;
    int here, total; // differences since the last print; all differences
    char first[LS_STATUS_TEXT_BYTES / 2];
} ls_findings;

// Adds a difference. Control characters in its text are replaced, so that texts from files are safe to print.
void ls_finding(ls_findings *findings, const char *format, ...) LS_PRINTF(2, 3);
// Prints `what`, then "same bits" or the differences since the last call.
void ls_findings_print(ls_findings *findings, const char *what);

// Compares the events of the updates after `from` up to `to`. Fields that are times, speeds or about the machine are
// left out.
void ls_findings_lines(
    ls_findings *findings, const ls_audit_lines *recorded, const ls_audit_lines *computed, int64_t from, int64_t to);
// Compares the start event of a leg with the manifest's record of the part, and with the start event of the
// computation.
void ls_findings_start(ls_findings *findings, const ls_record *record, const ls_audit_leg *leg, const cJSON *computed);
// Compares a checkpoint with the state that was computed. A damaged one is compared as far as it can be read.
// LS_DEVICE: no memory.
LS_CHECKED ls_status ls_findings_checkpoint(
    ls_findings *findings, const ls_audit_point *point, const ls_snapshot *computed);
// Compares weights.safetensors, summary.json and evaluation.json in the run's folder with those in `computed`. A
// computation that has no such files because it is not at its end is a difference.
LS_CHECKED ls_status ls_findings_results(ls_findings *findings, const char *run, const char *computed);

#endif
