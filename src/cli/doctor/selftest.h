// selftest.h - tries what a run needs, on small data, in some seconds: operators of the device against `ref`, sums over ranks,
// the loader, a checkpoint.
#ifndef LS_CLI_DOCTOR_SELFTEST_H
#define LS_CLI_DOCTOR_SELFTEST_H

#include "device/device.h"
#include "dist/comm.h"

typedef enum { LS_TEST_OK, LS_TEST_FAILED, LS_TEST_SKIPPED } ls_test_result;

enum { LS_TEST_TEXT_BYTES = 1024, LS_TEST_FIGURES_MAX = 3 };

typedef struct {
    const char *name;
    ls_test_result result;
    char text[LS_TEST_TEXT_BYTES]; // what was seen; why it failed, or was skipped
    struct {
        const char *name; // "bytes_per_second"; NULL: no more
        double value;
    } figure[LS_TEST_FIGURES_MAX];
} ls_test;

typedef struct {
    ls_comm *comm;
    ls_device *device;  // as a run takes it; NULL on all ranks: none opens
    int shares;         // some GPU has several ranks: its collectives refuse that
    const char *folder; // for a temporary folder
} ls_test_bed;

extern const int ls_test_count;
// All ranks: test `number`, from 0. What fails on a rank is in *out, the same on all ranks; the status is of the
// communicator itself. Leaves no file behind.
LS_CHECKED ls_status ls_test_run(const ls_test_bed *bed, int number, ls_test *out);
const char *ls_test_result_name(ls_test_result result); // "ok", "failed", "skipped"

// Parts of it, of this rank alone. LS_DEVICE, LS_DATA, LS_STORAGE: what is wrong.
LS_CHECKED ls_status ls_test_operators(ls_device *device, ls_test *out);
LS_CHECKED ls_status ls_test_loader(int rank, int world_size, ls_test *out);
LS_CHECKED ls_status ls_test_checkpoint(const char *folder, ls_test *out);

#endif
