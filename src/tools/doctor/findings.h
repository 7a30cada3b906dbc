// findings.h - the things that a user should mend on these ranks and hosts, each with its remedy. They depend on the
// facts alone.
#ifndef LS_TOOLS_DOCTOR_FINDINGS_H
#define LS_TOOLS_DOCTOR_FINDINGS_H

#include "tools/doctor/facts.h"

// The severity of a finding. A note: a run works here, but the text names a cost or a condition. A problem: a run would
// fail, or leave resources idle.
typedef enum { LS_FINDING_NOTE, LS_FINDING_PROBLEM } ls_severity;

enum { LS_FINDINGS_MAX = 64, LS_FINDING_TEXT_BYTES = 1024 };

typedef struct {
    ls_severity severity;
    const char *topic; // the subject of the finding: "launcher"
    char where[128];   // where the finding holds: "host b", "ranks 2-3"; "": on all ranks
    char text[LS_FINDING_TEXT_BYTES];
} ls_finding;

typedef struct {
    char differences[LS_STATUS_TEXT_BYTES]; // table of facts that differ, with their values by ranks; "": no difference
    int may_differ;                         // 1: training works in spite of the differences; 0: it would fail
    ls_finding row[LS_FINDINGS_MAX];        // in the order of the rules (findings.c)
    int count;
} ls_findings;

typedef struct {
    const ls_facts *all; // [ranks]
    int ranks;
    const char *not_joined; // why the ranks could not be joined; then `all` has one rank only; NULL: they are joined
    const char *no_device;  // why device.type = auto opens no device; NULL: it opens one, or was not tried
} ls_doctor_view;

ls_findings *ls_findings_new(const ls_doctor_view *view);                 // the caller calls free()
const char *ls_severity_name(ls_severity severity);                       // "note", "problem"
int ls_findings_count(const ls_findings *findings, ls_severity severity); // counts the differences as one finding

// Writes the commands that start a run on these hosts into text, one per line: without a launcher, by mpirun, by srun.
// Returns text.
enum { LS_LAUNCH_BYTES = 4096 };
char *ls_launch_lines(const ls_facts *all, int ranks, char text[LS_LAUNCH_BYTES]);

// Returns the index in facts->launcher of a launcher of the program's MPI, preferably of its version; -1: not found.
int ls_facts_fitting_launcher(const ls_facts *facts);

#endif
