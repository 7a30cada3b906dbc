#!/usr/bin/env python3
"""Training throughput of two builds of this program on this machine's CPU, interleaved in one run.

Every round runs both builds once, in turns of first and second, on configs/bench-cpu.ini of their own trees. The ratio of a round is
AFTER's images/s over BEFORE's; reported are the median and the range of the rounds' ratios.

  bench/same_speed.py BEFORE AFTER [--models lenet,resnet20,resnet9,airbench94] [--rounds 7] [--seconds 4] [--out FILE]

BEFORE and AFTER are roots of checkouts whose ./train is built for release. What --out names gets the table, too.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SHAPE = {"lenet": "1x28x28", "resnet9": "3x32x32", "resnet20": "3x32x32", "airbench94": "3x32x32"}


def images_per_second(root, model, updates):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([root / "train", root / "configs/bench-cpu.ini", "--quiet", "--run-dir", f"{folder}/run",
                               "--set", f"model.file={root}/configs/models/{model}.ini", "--set", f"data.shape={SHAPE[model]}",
                               "--set", f"train.max_updates={updates}", "--set", "data.test_samples=128"],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{root}: {model}: exit {done.returncode}\n{done.stderr}")
        return json.loads(pathlib.Path(folder, "run/summary.json").read_text())["train_images_per_second"]


def measure(model, a):
    updates = max(12, round(a.seconds * images_per_second(a.after, model, 12) / 128))
    rows = []
    for n in range(a.rounds):
        order = [a.before, a.after] if n % 2 == 0 else [a.after, a.before]
        speed = {root: images_per_second(root, model, updates) for root in order}
        rows.append((speed[a.before], speed[a.after]))
        print(f"{model} round {n + 1}: {rows[-1][1]:.0f} / {rows[-1][0]:.0f} = {rows[-1][1] / rows[-1][0]:.3f}", file=sys.stderr, flush=True)
    return rows


def table(a):
    def version(root):
        return subprocess.run([root / "train", "--version"], capture_output=True, text=True).stdout.splitlines()[0]

    lines = [f"before: {version(a.before)}", f"after:  {version(a.after)}",
             f"{datetime.date.today().isoformat()}, {len(os.sched_getaffinity(0))} cores, batch 128, fp32, {a.rounds} rounds in turns, "
             f"load before {os.getloadavg()[0]:.2f}", "",
             "| network | before, images/s | after | ratio, median (range) |", "| --- | --- | --- | --- |"]
    for model in a.models.split(","):
        rows = measure(model, a)
        ratios = [after / before for before, after in rows]
        before, after = (statistics.median(column) for column in zip(*rows))
        lines.append(f"| {model} | {before:.0f} | {after:.0f} | {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |")
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("before", type=lambda p: pathlib.Path(p).resolve())
    ap.add_argument("after", type=lambda p: pathlib.Path(p).resolve())
    ap.add_argument("--models", default="lenet,resnet20,resnet9,airbench94")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--seconds", type=float, default=4.0, help="timed, per run")
    ap.add_argument("--out", help="a file for the table")
    a = ap.parse_args()
    text = table(a)
    print(text, end="")
    if a.out:
        pathlib.Path(a.out).write_text(text)


main()
