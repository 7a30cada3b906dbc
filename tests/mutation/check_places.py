#!/usr/bin/env python3
"""check_places.py: the places of a small source, one by one; and every row of without-effect.txt stands for a place of the sources."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mutate import ROOT, described, without_effect  # noqa: E402
from places import find_places  # noqa: E402

SOURCE = r"""// a comment: x < 1 && y
#define MANY(x) \
    ((x) + 1)
static const char *const text = "a < b, c + 1";
enum { COUNT = 0x1f };
int f(double *a, int n) {
    char name[64];
    double b = -a[0] * 1.5f;  /* b == 2 */
    for (int i = 0; i < n; i++) {
        if (!a[i] || n >= 3) return 'x';
        a[i] += b;
        g(a, "x;y",
            n);
        if (b) break;
    }
    free(a);
    return n - 1;
}
"""
EXPECTED = """
5 constant 0x1f 0x20
8 constant 0 1
8 arithmetic * /
8 constant 1.5f 2.5f
9 constant 0 1
9 comparison < <=
9 arithmetic ++ --
10 logic ! nothing
10 logic || &&
10 comparison >= >
10 constant 3 4
10 statement return 'x' nothing
11 statement a[i] += b nothing
11 arithmetic += -=
12 statement g(a, "x;y", n) nothing
14 statement break nothing
17 arithmetic - +
17 constant 1 2
"""


def main():
    failed = 0
    found = [f"{p.line} {p.kind} {' '.join(p.old.split())} {p.new.strip() or 'nothing'}" for p in find_places("x.c", SOURCE)]
    expected = EXPECTED.split("\n")[1:-1]
    for row in sorted(set(found) ^ set(expected)):
        failed += 1
        print(f"FAILED {'not expected' if row in found else 'not found'}: {row}")
    known = {}
    for path, line, change in without_effect():
        if path not in known:
            known[path] = set()
            if os.path.exists(os.path.join(ROOT, path)):
                with open(os.path.join(ROOT, path)) as file:
                    text = file.read()
                lines = text.splitlines()
                known[path] = {(lines[p.line - 1].strip(), described(p._asdict())) for p in find_places(path, text)}
        if (line, change) not in known[path]:
            failed += 1
            print(f"FAILED without-effect.txt: {path} has no such line, or not this change of it: {line} | {change}")
    print(f"{len(expected)} places, {len(without_effect())} without effect, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
