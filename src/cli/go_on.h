// go_on.h - how a run that was stopped goes on: the command for it, whole, and what Ctrl-C says at once.
#ifndef LS_CLI_GO_ON_H
#define LS_CLI_GO_ON_H

#include "command/args.h"

enum { LS_GO_ON_BYTES = 4096 };

// "mpirun -np 2 ./train x.ini --set a.b=c --run-dir runs/x-001 --resume" into dst of LS_GO_ON_BYTES, as a shell reads it: this process's
// command line, and mpirun's where that started it on this host, for the run in `folder`. Another launcher's is not known: then "the same
// command with --run-dir runs/x-001 --resume". Returns dst.
char *ls_go_on_command(const ls_args *args, int world_size, const char *folder, char *dst);
// Sets what a first and a second SIGINT say (system/signals.h). has_bar: a progress bar stands in the terminal's last line.
void ls_go_on_announce(const ls_args *args, int world_size, const char *folder, int has_bar);

#endif
