// go_on.h - the command line that continues a stopped run, and the messages that Ctrl-C prints at once.
#ifndef LS_CLI_GO_ON_H
#define LS_CLI_GO_ON_H

#include "command/args.h"

enum { LS_GO_ON_BYTES = 4096 };

// Writes the command that continues the run in `folder` into dst (LS_GO_ON_BYTES), quoted for a shell: "mpirun -np 2
// ./train x.ini --set a.b=c --run-dir runs/x-001 --resume". It consists of mpirun's command line, if mpirun is this
// process's parent, and our own. If there are several ranks by another launcher, whose command line is unknown, or if
// ours has the word "--": "the same command with --run-dir runs/x-001 --resume". Returns dst.
char *ls_go_on_command(const ls_args *args, int world_size, const char *folder, char *dst);
// Sets the messages of a first and a second SIGINT (system/signals.h). has_bar: whether the last line of the terminal
// shows a progress bar.
void ls_go_on_announce(const ls_args *args, int world_size, const char *folder, int has_bar);

#endif
