// startup_times.h - how long each phase of starting a run takes, from the start of the process to the end of the first
// update. The phases follow each other without gaps: process (until the run is opened), device, data, plans, pictures
// (verification), sums, memory, folder, weights, first update.
#ifndef LS_RUN_STARTUP_TIMES_H
#define LS_RUN_STARTUP_TIMES_H

#include "base/json.h"

enum { LS_STARTUP_PHASES = 16 };

// Plain data; {0} before the first phase.
typedef struct {
    int count;
    struct {
        char name[24];
        double seconds; // a phase that was entered twice has the sum
    } phase[LS_STARTUP_PHASES];
    int now;        // index of the phase that runs
    double since_s; // when the phase that runs was entered, in seconds since the process started
    int ended;
} ls_startup_times;

// Ends the phase that runs and begins this one. Entering the running phase again does nothing, and neither does any
// call after ls_startup_end. name: fewer than 24 bytes; at most LS_STARTUP_PHASES different names.
void ls_startup_enter(ls_startup_times *times, const char *name);
void ls_startup_end(ls_startup_times *times); // ends the last phase
// Adds a member for each phase, in the order in which they began: its seconds.
void ls_startup_json(const ls_startup_times *times, cJSON *object);

#endif
