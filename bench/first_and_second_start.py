#!/usr/bin/env python3
"""How long the start of a run takes on a folder of pictures: the first start decodes and packs all of them, the second takes what is packed.

Makes COUNT pictures in a temporary folder (PNG of 64x64 with noise in their low bits, 10 classes), and for every round of every program
(in turns) a cache folder of its own. A start is `PROGRAM CONFIG --dry-run`, which verifies all pictures and trains nothing. The pictures
are in the page cache: they were written a moment ago. It begins when they are old enough for their stamps to be kept.

  bench/first_and_second_start.py PROGRAM... [--count 20000] [--side 64] [--threads 2] [--rounds 3] [--cache-off]

Prints seconds of each start: median, and all of them.
"""
import argparse
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time
import zlib

NETWORK = """[network]
input = data
[flatten]
layer = flatten
[fc]
layer = linear
out_features = classes
"""
CONFIG = """[data]
dataset = folder
path = pictures
image_size = 32x32
[model]
file = net.ini
[train]
epochs = 1
global_batch = 64
[device]
type = cpu
threads = {threads}
"""


def png(side, noise):
    row = side * 3
    raw = b"".join(b"\0" + noise[y * row:(y + 1) * row] for y in range(side))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b"")


def make_pictures(folder, count, side):
    low_bits = bytes(i & 31 for i in range(256))
    source = random.Random(1)
    size = 0
    for i in range(count):
        path = folder / f"class{i % 10}" / f"{i:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        content = png(side, source.randbytes(3 * side * side).translate(low_bits))
        path.write_bytes(content)
        size += len(content)
    return size


def start(program, folder, cache):
    begin = time.monotonic()
    subprocess.run([program, "start.ini", "--dry-run", "--set", f"data.cache={cache}"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("programs", nargs="+", metavar="PROGRAM")
    ap.add_argument("--count", type=int, default=20000)
    ap.add_argument("--side", type=int, default=64)
    ap.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--cache-off", action="store_true", help="with data.cache = off, too")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "net.ini").write_text(NETWORK)
        (folder / "start.ini").write_text(CONFIG.format(threads=a.threads))
        size = make_pictures(folder / "pictures", a.count, a.side)
        time.sleep(3)
        print(f"{a.count} pictures of {a.side}x{a.side}, {size / 1e6:.1f} MB, {a.threads} threads")
        seconds = {}
        for turn in range(a.rounds):
            for number, program in enumerate(map(os.path.abspath, a.programs)):
                cache = folder / f"cache-{turn}-{number}"
                kinds = [("first start", cache), ("second start", cache)] + [("cache off", "off")] * a.cache_off
                for kind, where in kinds:
                    seconds.setdefault((number, kind), []).append(start(program, folder, where))
        for (number, kind), all_s in sorted(seconds.items()):
            print(f"{a.programs[number]}  {kind:12}  {statistics.median(all_s):8.3f} s  "
                  f"({', '.join(f'{s:.3f}' for s in all_s)})")


if __name__ == "__main__":
    main()
