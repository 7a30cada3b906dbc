#!/usr/bin/env python3
"""Runs a command in a terminal and presses Ctrl-C there.

    interrupt.py TEXT... -- COMMAND...

Waits until the command has printed the first TEXT, presses Ctrl-C, waits for the next, and so on; prints all that came. Exit code: the
command's, 128 + N where signal N ended it.
"""
import os
import pty
import sys


def main():
    cut = sys.argv.index("--")
    texts, command = [t.encode() for t in sys.argv[1:cut]], sys.argv[cut + 1:]
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    seen, behind = b"", 0
    while True:
        try:
            more = os.read(fd, 4096)
        except OSError:  # the command has ended
            break
        if not more:
            break
        seen += more
        while texts and texts[0] in seen[behind:]:
            behind = seen.index(texts.pop(0), behind) + 1
            os.write(fd, b"\x03")
    sys.stdout.write(seen.decode(errors="replace").replace("\r\n", "\n"))
    if texts:
        print(f"never printed: {texts}")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
