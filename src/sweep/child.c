#include "sweep/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/files.h"
#include "system/signals.h"

static const char program[] = "/proc/self/exe"; // this program, even if another file has its name by now

// Runs the program in the new process. Called with all signals blocked, because the handlers that the process has from
// its parent would lose them. Removes these handlers, then unblocks the signals of `mask`.
static _Noreturn void become(const ls_child *child, int log, pid_t parent, const sigset_t *mask) {
    ls_signals_ignore();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(LS_INTERNAL); // the parent died before prctl
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
    if (log >= 0) dup2(log, STDOUT_FILENO);
    if (log >= 0) dup2(log, STDERR_FILENO);
    if (child->cpus) ls_cpu_mask_bind(child->cpus); // if refused, the kernel's scheduler shares the cores
    if (child->gpus) setenv("CUDA_VISIBLE_DEVICES", child->gpus, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(program, child->words);
    dprintf(STDERR_FILENO, "error: %s: cannot be started: %s\n", program, strerror(errno));
    _exit(LS_INTERNAL);
}

ls_status ls_child_start(const ls_child *child, pid_t *pid) {
    sigset_t all, before;
    const int log = child->log ? open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (child->log && log < 0) return ls_fail_io("be written", child->log, "open");
    const pid_t parent = getpid();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    *pid = fork();
    if (*pid == 0) become(child, log, parent, &before);
    const int error = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (log >= 0) close(log);
    if (*pid > 0) return LS_SUCCESS;
    return ls_fail(LS_DEVICE, "no process could be started: fork: %s", strerror(error));
}

int ls_child_ended(pid_t pid, int *exit_code, int *signal) {
    int status;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) < 0 && errno == EINTR) continue;
    if (ended != pid) return 0;
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : LS_INTERNAL;
    return 1;
}
