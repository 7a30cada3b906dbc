// race.h - time to accuracy: the seeds of one configuration, in turns with those of a rival on the same machine.
//
// Each configuration is a sweep (plan.h) in a folder of its own below the race's, so a race that was stopped goes on.
// Each run is a process of one rank that has the machine for itself.
//
//   process    seconds from the start of the process until the last evaluation has ended; of runs that nothing
//              interrupted
//   training   seconds of training as the records count it: all pictures trained on, over the rate of steady training
//              (train_images_per_second); without start and evaluations
//
// Two tests: whether the mean accuracy exceeds the gate (Student's t, one-sided), and how many times as long the rival
// takes (paired over seeds, on logarithms).
//
//   race.json  gate, measure; of each configuration its runs, means, deviations and tests; the ratios; text: the lines
//              that the command prints
#ifndef LS_SWEEP_RACE_H
#define LS_SWEEP_RACE_H

#include "command/args.h"
#include "dist/comm.h"
#include "sweep/results.h"

// Runs the race of args->config, against args->against unless it is NULL. Writes race.json and prints its
// lines to stdout. comm: a communicator of one rank, borrowed. LS_USAGE: no seeds, a single seed above 1, a swept
// option, or two configurations of one name. Also fails as ls_sweep_plan_new, ls_sweep_folder_open and ls_sweep_jobs.
LS_CHECKED ls_status ls_race(const ls_args *args, ls_comm *comm);

#endif
