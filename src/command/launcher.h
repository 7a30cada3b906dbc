// launcher.h - mpirun, where it is this process's parent: Open MPI's forks the ranks of its own host. Ranks on another host, and those
// that a shell stands before, have another parent.
#ifndef LS_COMMAND_LAUNCHER_H
#define LS_COMMAND_LAUNCHER_H

int ls_launcher_is_parent(void);
enum { LS_LAUNCHER_BYTES = 4096 };
// Its command line into dst of LS_LAUNCHER_BYTES, every word with its terminator; returns how many bytes those are, 0: not known, or too
// long.
int ls_launcher_command(char *dst);

#endif
