#include "system/streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void ls_streams_fill(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY; // the opposite direction: use gives EBADF, as if closed
        // open takes the lowest free descriptor, which is fd
        // cppcheck-suppress leakReturnValNotUsed
        if (open("/dev/null", mode) < 0 && open("/", O_RDONLY | O_DIRECTORY) < 0) return;
    }
}

void ls_streams_fail_quietly(int keep_on) {
    signal(SIGXFSZ, SIG_IGN);
    if (keep_on) signal(SIGPIPE, SIG_IGN);
}
