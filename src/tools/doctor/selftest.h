// selftest.h - tests the parts of a run on small data in a few seconds: one update on the device compared with device
// `ref`, a sum over ranks, a checkpoint.
#ifndef LS_TOOLS_DOCTOR_SELFTEST_H
#define LS_TOOLS_DOCTOR_SELFTEST_H

#include "train/trainer.h"

typedef enum { LS_TEST_OK, LS_TEST_FAILED, LS_TEST_SKIPPED } ls_test_result;

enum { LS_TEST_TEXT_BYTES = 1024, LS_TEST_FIGURES_MAX = 2 };

typedef struct {
    const char *name;
    ls_test_result result;
    char text[LS_TEST_TEXT_BYTES]; // the result in words, or why the test failed or was skipped
    struct {
        const char *name; // "bytes_per_second"; NULL after the last figure
        double value;
    } figure[LS_TEST_FIGURES_MAX];
} ls_test;

typedef struct {
    ls_comm *comm;
    ls_device *device;  // the device that a run takes; NULL (on all ranks): no device can be opened
    int shares;         // 1: several ranks share a GPU, which collectives refuse
    const char *folder; // the checkpoint test makes a temporary folder in this folder
    // The first test makes these for the later tests; ls_test_end frees them.
    ls_config cfg;
    int network; // file descriptor of the network file, which exists only in memory
    ls_trainer *ref;
    ls_snapshot *expected; // state of ref after the update
} ls_test_bed;

extern const int ls_test_count;
// Runs test `number`. All ranks call it, for the tests 0, 1, 2 in this order. If the test fails on one rank, *out says
// so on all ranks and the function succeeds. It fails only if the communicator is broken. It leaves no files.
LS_CHECKED ls_status ls_test_run(ls_test_bed *bed, int number, ls_test *out);
void ls_test_end(ls_test_bed *bed);
const char *ls_test_result_name(ls_test_result result); // "ok", "failed", "skipped"

#endif
