// fingerprint.h - compares facts of all ranks before the first update: program, configuration, data, libraries, initial
// weights. Facts of ls_fingerprint_note may differ; the others must be the same.
#ifndef LS_DIST_FINGERPRINT_H
#define LS_DIST_FINGERPRINT_H

#include "base/status.h"
#include "config/config.h"
#include "dist/comm.h"

// FACTS: the most facts that a rank can have: the options of the configuration, and facts of machine and data.
enum { LS_FINGERPRINT_FACTS = LS_OPTION_COUNT + 64, LS_FINGERPRINT_TEXT = 96 };

typedef struct {
    int count;
    struct {
        char name[LS_FINGERPRINT_TEXT], value[LS_FINGERPRINT_TEXT]; // of a long value: its start, and its hash
        int may_differ;
    } fact[LS_FINGERPRINT_FACTS];
} ls_fingerprint;

void ls_fingerprint_add(ls_fingerprint *fingerprint, const char *name, const char *format, ...) LS_PRINTF(3, 4);
// Adds a fact that may differ, at a cost that is reported: the model of the GPU, its driver.
void ls_fingerprint_note(ls_fingerprint *fingerprint, const char *name, const char *format, ...) LS_PRINTF(3, 4);
// Compares the facts of all ranks. Collective. Succeeds with warning "" if all are the same. If only facts of
// ls_fingerprint_note differ, succeeds with a table in `warning`: facts, values and their ranks. Otherwise fails with
// LS_COMM and a table on all ranks.
LS_CHECKED ls_status ls_fingerprint_compare(
    ls_comm *comm, const ls_fingerprint *mine, char warning[LS_STATUS_TEXT_BYTES]);
// Like ls_fingerprint_compare, but not collective: `all` has the facts of all ranks. title: begins a failure's message.
LS_CHECKED ls_status ls_fingerprint_compare_gathered(
    const ls_fingerprint *all, int world_size, const char *title, char warning[LS_STATUS_TEXT_BYTES]);

#endif
