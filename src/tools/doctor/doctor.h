// doctor.h - `train doctor`: what it prints, and what main calls around the start of the ranks.
#ifndef LS_TOOLS_DOCTOR_DOCTOR_H
#define LS_TOOLS_DOCTOR_DOCTOR_H

#include "command/args.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/selftest.h"
#include "dist/rank_table.h"

// Call before the communicator starts: it collects this rank's facts. For that it starts programs, which some MPIs do
// not allow later.
void ls_doctor_look(const ls_args *args);
// Call if the communicator could not start: prints what this process found by itself, and returns the failure.
ls_status ls_doctor_alone(const ls_args *args, ls_status failure);

typedef struct {
    const ls_facts *all; // [ranks]
    int ranks;
    const ls_devices *devices;  // of rank 0's host
    const ls_rank_info *places; // [ranks]; NULL: they have no devices
    const ls_findings *findings;
    ls_test *tests; // that were run
    int test_count;
} ls_doctor_report;

void ls_doctor_print_facts(const ls_doctor_report *report, FILE *file); // differences first; up to the self-test
void ls_doctor_print_test(const ls_test *test, FILE *file);
void ls_doctor_json(const ls_doctor_report *report, cJSON *tree);
// Problems and failed tests; *first (may be NULL): the text of the first.
int ls_doctor_to_mend(const ls_doctor_report *report, const char **first);

#endif
