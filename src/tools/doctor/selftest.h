// selftest.h - tries what a run needs, on small data, in some seconds: one update on the device against `ref`, one sum
// over ranks, one checkpoint.
#ifndef LS_TOOLS_DOCTOR_SELFTEST_H
#define LS_TOOLS_DOCTOR_SELFTEST_H

#include "train/trainer.h"

typedef enum { LS_TEST_OK, LS_TEST_FAILED, LS_TEST_SKIPPED } ls_test_result;

enum { LS_TEST_TEXT_BYTES = 1024, LS_TEST_FIGURES_MAX = 2 };

typedef struct {
    const char *name;
    ls_test_result result;
    char text[LS_TEST_TEXT_BYTES]; // what was seen; or why it failed, or was skipped
    struct {
        const char *name; // "bytes_per_second"; NULL: no more
        double value;
    } figure[LS_TEST_FIGURES_MAX];
} ls_test;

typedef struct {
    ls_comm *comm;
    ls_device *device;  // that a run takes; NULL on all ranks: none opens
    int shares;         // a GPU has several ranks, which its collectives refuse
    const char *folder; // a temporary folder is made in it
    // Made by the first test, for the others; release by ls_test_end.
    ls_config cfg;
    int network; // file descriptor of the network's file, which lies in memory
    ls_trainer *ref;
    ls_snapshot *expected; // its state after the update
} ls_test_bed;

extern const int ls_test_count;
// Collective: runs test `number`, from 0 and in order. A failure on one rank is in *out on all ranks; the status is
// that of the communicator. Leaves no file behind.
LS_CHECKED ls_status ls_test_run(ls_test_bed *bed, int number, ls_test *out);
void ls_test_end(ls_test_bed *bed);
const char *ls_test_result_name(ls_test_result result); // "ok", "failed", "skipped"

#endif
