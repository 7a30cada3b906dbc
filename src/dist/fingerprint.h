// fingerprint.h - what all ranks must agree on before step 0: program, configuration, data, libraries, initial weights.
#ifndef LS_DIST_FINGERPRINT_H
#define LS_DIST_FINGERPRINT_H

#include "base/status.h"
#include "dist/comm.h"

enum { LS_FINGERPRINT_FACTS = 128, LS_FINGERPRINT_TEXT = 96 };

typedef struct {
    int count;
    struct {
        char name[LS_FINGERPRINT_TEXT], value[LS_FINGERPRINT_TEXT]; // long values: their hash
        int may_differ;
    } fact[LS_FINGERPRINT_FACTS];
} ls_fingerprint;

void ls_fingerprint_add(ls_fingerprint *fingerprint, const char *name, const char *format, ...) LS_PRINTF(3, 4);
// A fact that may differ, at a price that is reported: the model of the GPU, its driver.
void ls_fingerprint_note(ls_fingerprint *fingerprint, const char *name, const char *format, ...) LS_PRINTF(3, 4);
// All ranks call it. The same everywhere: success, and warning is "". Else LS_COMM on all ranks with a table: fact, and
// the values with their ranks; or, where only what may differ does, success, and the table is in warning.
LS_CHECKED ls_status ls_fingerprint_compare(
    ls_comm *comm, const ls_fingerprint *mine, char warning[LS_STATUS_TEXT_BYTES]);
// The same of facts that are gathered already; title: the message's first line.
LS_CHECKED ls_status ls_fingerprint_compare_gathered(
    const ls_fingerprint *all, int world_size, const char *title, char warning[LS_STATUS_TEXT_BYTES]);

#endif
