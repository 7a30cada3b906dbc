// launcher.h - the mpirun that started this process. Only a parent process is recognised: Open MPI's mpirun is the
// parent of the ranks on its own host, but not of ranks on other hosts or of ranks that a shell script starts.
#ifndef LS_COMMAND_LAUNCHER_H
#define LS_COMMAND_LAUNCHER_H

int ls_launcher_is_parent(void); // whether the parent process is mpirun, mpiexec, orterun or prterun
enum { LS_LAUNCHER_BYTES = 4096 };
// Writes the command line of the mpirun that is this process's parent into dst (LS_LAUNCHER_BYTES), each word with its
// terminating 0. Returns the number of bytes, or 0 if the command line is unknown or too long.
int ls_launcher_command(char *dst);
// Returns 1 if mpirun writes its ranks' output to files or as XML, or puts a tag or the time before each line. Open MPI
// up to version 4 tells its ranks by environment variables; of version 5 only its command line's options are known.
int ls_launcher_changes_lines(void);

#endif
