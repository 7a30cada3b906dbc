"""Runs a command and ends all that it started: keep.py COMMAND ARGUMENT...

A process whose parent has ended becomes a child of this one, whatever its process group and session: once the command is through, or
this process is to end (SIGTERM, which it also gets when its parent dies of anything), its children are killed until none is left.
Exit: the command's, 128 + N where signal N ended it, 127 where it does not start.
"""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def end_with_parent(number):
    """To be called in a child: it gets this signal when its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, number)


def children():
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue  # it has ended
        if parent == os.getpid():
            found.append(int(path.parent.name))
    return found


def end_children():
    """No grandchildren, whose numbers may be others' by then: they are children in the next round."""
    while found := children():
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(found[0], 0)


def on_signal(number, _frame):
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def main(command):
    try:
        signal.signal(signal.SIGTERM, on_signal)
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
        code = subprocess.Popen(command, preexec_fn=lambda: end_with_parent(signal.SIGKILL), start_new_session=True).wait()
        return code if code >= 0 else 128 - code
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    finally:
        end_children()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
