// doctor.h - `train doctor`: its report, and the functions that main calls around the start of the ranks.
#ifndef LS_TOOLS_DOCTOR_DOCTOR_H
#define LS_TOOLS_DOCTOR_DOCTOR_H

#include "command/args.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/selftest.h"
#include "dist/rank_table.h"

// Collects this rank's facts. Call it before the communicator starts: it runs other programs, and some MPIs do not
// allow that later.
void ls_doctor_look(const ls_args *args);
// Prints the report of this process alone, and returns `failure`. Call it if the communicator could not start.
ls_status ls_doctor_alone(const ls_args *args, ls_status failure);

typedef struct {
    const ls_facts *all; // [ranks]
    int ranks;
    const ls_devices *devices;  // devices of rank 0's host
    const ls_rank_info *places; // [ranks]; NULL: no device could be opened
    const ls_findings *findings;
    ls_test *tests; // the finished self-tests
    int test_count;
} ls_doctor_report;

void ls_doctor_print_facts(const ls_doctor_report *report, FILE *file); // all but the self-test
void ls_doctor_print_test(const ls_test *test, FILE *file);
void ls_doctor_json(const ls_doctor_report *report, cJSON *tree);
// Returns the number of problems and failed tests in the report. *first: the text of the first one, or NULL; `first`
// may be NULL.
int ls_doctor_to_mend(const ls_doctor_report *report, const char **first);

#endif
