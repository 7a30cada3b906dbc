// run_verdict.h - what a run's files say of its time, and the verdict on that: of a run that is complete, was stopped or is under way.
#ifndef LS_CLI_RUN_VERDICT_H
#define LS_CLI_RUN_VERDICT_H

#include "train/diagnose/verdict.h"

typedef struct {
    ls_config cfg;
    ls_rank_time *each; // facts.each
    ls_verdict_facts facts;
    int64_t part, update, planned; // the last part, from 1; updates done at its last record, and planned
    ls_verdict verdict;
} ls_run_verdict;

// path: the run's folder. LS_STORAGE: no such folder, nothing in it can be read, or it has no record with times; LS_USAGE: its
// config.ini is not one of this version's.
LS_CHECKED ls_status ls_run_verdict_read(const char *path, ls_run_verdict **out);
void ls_run_verdict_free(ls_run_verdict *run); // NULL is allowed
// Facts from the last part's start event, its last train event and the summary's `time` (NULL: there is none). 0: they
// lack what is needed.
int ls_run_verdict_take(ls_run_verdict *run, const cJSON *start, const cJSON *train, const cJSON *time);

#endif
