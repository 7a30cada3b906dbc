// run_verdict.h - reads from the files of a run where its time went, and finds the verdict (train/diagnose/verdict.h).
// The run may be complete, stopped or still running.
#ifndef LS_CLI_RUN_VERDICT_H
#define LS_CLI_RUN_VERDICT_H

#include "train/diagnose/verdict.h"

typedef struct {
    ls_config cfg;
    ls_rank_time *each; // [ranks], owned; facts.each points to it. NULL: one rank
    ls_verdict_facts facts;
    int64_t part, update, planned; // number of the last part, from 1; updates done at its last record; updates planned
    ls_verdict verdict;
} ls_run_verdict;

// Reads the verdict on a run from its files. path: the run's folder. LS_STORAGE: the folder does not exist, cannot be
// read, or has no record with times; LS_USAGE: this version does not accept its config.ini.
LS_CHECKED ls_status ls_run_verdict_read(const char *path, ls_run_verdict **out);
void ls_run_verdict_free(ls_run_verdict *run); // NULL is allowed
// Fills in the facts for the verdict from the last part's start event, its last train event and the summary's `time`
// (NULL: no summary). Returns 0 if a number that the verdict needs is missing or impossible.
int ls_run_verdict_take(ls_run_verdict *run, const cJSON *start, const cJSON *train, const cJSON *time);

#endif
