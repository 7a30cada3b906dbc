#!/usr/bin/env python3
"""Runs a command in a terminal whose width changes: its progress bar takes one line there, always.

    terminal.py WIDTH... -- COMMAND...

The command draws much at each width, more than a terminal keeps for its reader (some 70 KB): it cannot be done before the last width is
set, and by the next one it has drawn at this one. So nothing here depends on time. What is read first at a width may have been drawn at
the one before; from the first redraw that fits on, all must. Prints a line for each width; exit 1: a redraw was too wide.
"""
import fcntl
import os
import pty
import re
import struct
import sys
import termios

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
BYTES = 100_000  # read at one width


def set_width(fd, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def redraws(fd):
    """The bar's texts, each with the bytes read for it; lines before and after it are none."""
    text = b""
    while True:
        try:
            more = os.read(fd, 4096)
        except OSError:  # the command has ended
            return
        *whole, text = (text + more).split(b"\r")
        for part in whole:
            if part.endswith(b"\x1b[K") and part != b"\x1b[K":
                yield ESCAPES.sub("", part.decode()), len(part)


def main():
    cut = sys.argv.index("--")
    widths, command = [int(w) for w in sys.argv[1:cut]], sys.argv[cut + 1:]
    wait, go = os.pipe()
    pid, fd = pty.fork()
    if pid == 0:
        os.read(wait, 1)  # until the first width is set
        os.execvp(command[0], command)
    set_width(fd, widths[0])
    os.write(go, b"x")
    bad, at, read, fits, widest = 0, 0, 0, False, 0
    for shown, size in redraws(fd):
        fits = fits or len(shown) < widths[at]
        if fits:
            widest = max(widest, len(shown))
            bad += len(shown) >= widths[at] or "\n" in shown
        read += size
        if read > BYTES and at + 1 < len(widths):
            print(f"width {widths[at]}: {'widest ' + str(widest) if fits else 'none fits'}")
            bad += not fits
            at, read, fits, widest = at + 1, 0, False, 0
            set_width(fd, widths[at])
    print(f"width {widths[at]}: {'widest ' + str(widest) if fits else 'none fits'}")
    bad += not fits or at + 1 < len(widths)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(f"{bad} too wide, exit {code}")
    return 1 if bad else code


if __name__ == "__main__":
    sys.exit(main())
