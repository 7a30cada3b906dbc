// findings.h - what a user should mend on these ranks and hosts, with the remedy: a pure function of the facts.
#ifndef LS_TOOLS_DOCTOR_FINDINGS_H
#define LS_TOOLS_DOCTOR_FINDINGS_H

#include "tools/doctor/facts.h"

// A note: a run works here, but the text names a cost or a condition. A problem: a run would fail, or leave resources
// idle.
typedef enum { LS_FINDING_NOTE, LS_FINDING_PROBLEM } ls_severity;

enum { LS_FINDINGS_MAX = 64, LS_FINDING_TEXT_BYTES = 1024 };

typedef struct {
    ls_severity severity;
    const char *topic; // "launcher"
    char where[128];   // "host b", "ranks 2-3"; "": all
    char text[LS_FINDING_TEXT_BYTES];
} ls_finding;

typedef struct {
    char differences[LS_STATUS_TEXT_BYTES]; // a table: fact, and its values by ranks; "": none that matters
    int may_differ;                         // what is in it costs time, or bits, but works
    ls_finding row[LS_FINDINGS_MAX];        // in the order of topics
    int count;
} ls_findings;

typedef struct {
    const ls_facts *all; // [ranks]
    int ranks;
    const char
        *not_joined; // why the launcher's ranks could not be joined: then `all` is of one of them; NULL: they were
    const char *no_device; // why device.type = auto opens none; NULL: it does, or was not tried
} ls_doctor_view;

ls_findings *ls_findings_new(const ls_doctor_view *view);                 // free() it
const char *ls_severity_name(ls_severity severity);                       // "note", "problem"
int ls_findings_count(const ls_findings *findings, ls_severity severity); // differences that must not be, too

// The commands that start a run on all of these hosts as they are, one a line: alone, by mpirun, by srun. Returns text.
enum { LS_LAUNCH_BYTES = 4096 };
char *ls_launch_lines(const ls_facts *all, int ranks, char text[LS_LAUNCH_BYTES]);

// Of the launchers in PATH, the number of the one that belongs to the program's MPI; -1: none does.
int ls_facts_fitting_launcher(const ls_facts *facts);

#endif
