#!/usr/bin/env python3
"""Many runs at a time: `train sweep` with --together, with --jobs and one after the other, in turns.

Makes MNIST-like data from random numbers in a temporary folder, and trains `--seeds` runs of a network on it, a few updates each.
Checks that all ways give the same runs. Peak memory is the largest sum of proportional shares (Pss) over the processes of a sweep,
looked at every 20 ms.

  bench/together.py PROGRAM [--config lenet] [--seeds 12] [--updates 40] [--samples 4000] [--at-a-time 2] [--rounds 3] [--set KEY=VALUE]

Prints for each way the seconds (median, and all of them) and the peak memory in MB.
"""
import argparse
import csv
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = """[data]
dataset = mnist
path = data
[model]
file = {network}
[train]
epochs = 100
max_updates = {updates}
eval_every = 0
global_batch = 64
[checkpoint]
every_epochs = 0
"""


def write_data(folder, samples):
    source = random.Random(1)
    folder.mkdir()
    for name, count in (("train", samples), ("t10k", 500)):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + source.randbytes(count * 784))
        labels = bytes(source.randrange(10) for _ in range(count))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels)


def processes_of(first):
    """The process and all below it."""
    found = [first]
    for pid in found:
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                pass
    return found


def memory_kb(first):
    total = 0
    for pid in processes_of(first):
        try:
            lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def sweep(program, folder, way, seeds, options):
    """Seconds, peak kB and the hash of the weights of each run."""
    command = [program, "sweep", "c.ini", "--quiet", "--seeds", f"1-{seeds}", "--run-dir", folder, *way, *options]
    with open("out", "w") as out:
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=out)
        peak = 0
        while process.poll() is None:
            peak = max(peak, memory_kb(process.pid))
            time.sleep(0.02)
        seconds = time.monotonic() - begun
    if process.returncode != 0:
        raise SystemExit(pathlib.Path("out").read_text() + f"{' '.join(command)}: exit {process.returncode}")
    with open(f"{folder}/runs.csv") as file:
        return seconds, peak, {row["seed"]: row["weights_hash"] for row in csv.DictReader(file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--config", default="lenet", help="a file of configs/models, whose input is 1x28x28 or that of the data")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--at-a-time", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    program = os.path.abspath(args.program)
    network = HERE.parent / "configs" / "models" / f"{args.config}.ini"
    options = [word for value in args.set for word in ("--set", value)]
    ways = {"together": ["--together", str(args.at_a_time)], "jobs": ["--jobs", str(args.at_a_time)], "one by one": []}
    taken = {name: ([], []) for name in ways}
    first = None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_data(pathlib.Path("data"), args.samples)
        pathlib.Path("c.ini").write_text(CONFIG.format(network=network, updates=args.updates))
        for turn in range(args.rounds):
            for name, way in ways.items():
                seconds, peak, hashes = sweep(program, f"{name.replace(' ', '-')}{turn}", way, args.seeds, options)
                first = first or hashes
                if hashes != first:
                    raise SystemExit(f"{name}, round {turn + 1}: other weights")
                taken[name][0].append(seconds)
                taken[name][1].append(peak / 1024)
        os.chdir("/")
    print(f"{args.seeds} runs of {args.config}, {args.updates} updates, {args.at_a_time} at a time; the weights are the same")
    for name, (seconds, peaks) in taken.items():
        times = " ".join(f"{s:.2f}" for s in seconds)
        print(f"{name:12}{statistics.median(seconds):8.2f} s  ({times})  {max(peaks):8.1f} MB")


if __name__ == "__main__":
    main()
