#!/usr/bin/env python3
"""Training speed of a whole recipe in Lockstep beside the same in PyTorch (bench/peers/airbench.py), at each of its resolutions.

Every round runs at each resolution Lockstep, then PyTorch in every arrangement (contiguous, channels_last, compiled with --compile),
all on the same cores. The ratio of a round is Lockstep's images/s over those of its best PyTorch; reported are the median and the range
of the rounds' ratios, and the same of the whole recipe: the seconds that its updates take at these rates.

  bench/compare_recipe.py --python PATH --recipe e1 --config configs/NAME.ini --data FOLDER [--compile] [--rounds 5] [--seconds 60]
      [--batch N] [--out bench/results/NAME.json]

FOLDER is the option data.path. Lockstep runs its whole program: loader, augmentation, update. PyTorch has its batches made beforehand.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import sys
import tempfile

from compare_pytorch import ALLOCATOR, ROOT, processor, run, spread

PEER = ROOT / "bench/peers/recipe_throughput.py"
EPOCH = 50000
# Epochs and pixels by epoch, the last of which stays: bench/peers/airbench.py, which needs PyTorch.
RECIPES = {"e1": (8.875, (24, 24, 24, 28, 28, 28, 32), 1536), "e5": (8.25, (28, 28, 28, 28, 28, 32), 1536),
           "airbench94_muon": (8, (32,), 2000), "airbench94": (9.9, (32,), 1024)}


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--python", required=True, metavar="PATH", help="an interpreter that has torch")
    ap.add_argument("--recipe", choices=RECIPES, default="e1")
    ap.add_argument("--config", required=True, help="the recipe as a configuration of Lockstep")
    ap.add_argument("--data", required=True)
    ap.add_argument("--set", action="append", default=[], metavar="OPTION", help="for Lockstep, as its own --set; repeat")
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--compile", action="store_true", help="also with torch.compile")
    ap.add_argument("--batch", type=int, default=0, help="0: the recipe's")
    ap.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=60, help="timed, per run")
    ap.add_argument("--out", help="JSON file; a table is written beside it")
    a = ap.parse_args()
    a.batch = a.batch or RECIPES[a.recipe][2]
    return a


def lockstep(pixels, updates, a):
    with tempfile.TemporaryDirectory() as folder:
        options = [f"data.path={a.data}", f"device.threads={a.cores}", f"train.global_batch={a.batch}", f"train.micro_batch={a.batch}",
                   f"train.max_updates={updates}", "train.eval_every=0", f"data.test_samples={a.batch}", *a.set]
        if len(set(RECIPES[a.recipe][1])) > 1:
            options.append(f"train.resolution=0:{pixels}")
        run([a.train, a.config, "--quiet", "--run-dir", f"{folder}/run", *(word for o in options for word in ("--set", o))])
        s = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    return {"images_per_s": s["train_images_per_second"], "updates": s["updates"], "peak_mib": s["peak_memory_bytes"]["host"] / 2**20}


def torch(pixels, flags, a):
    out = run([a.python, str(PEER), "--recipe", a.recipe, "--resolution", str(pixels), "--batch", str(a.batch), "--threads", str(a.cores),
               "--seconds", str(a.seconds), *flags], ALLOCATOR)
    return json.loads(out.strip().splitlines()[-1])


def updates_by_resolution(a):
    """How many of the recipe's updates are at each resolution."""
    epochs, resolutions, _ = RECIPES[a.recipe]
    per_epoch, counts = EPOCH // a.batch, {}
    for update in range(math.ceil(epochs * per_epoch)):
        pixels = resolutions[min(update // per_epoch, len(resolutions) - 1)]
        counts[pixels] = counts.get(pixels, 0) + 1
    return counts


def measure(a):
    peers = {"torch": [], "torch channels_last": ["--channels-last"]}
    if a.compile:
        peers["torch compiled"] = ["--channels-last", "--compile"]
    counts, runs = updates_by_resolution(a), {}
    updates = {p: max(4, math.ceil(a.seconds * lockstep(p, 4, a)["images_per_s"] / a.batch)) for p in counts}
    for n in range(a.rounds):
        for pixels in counts:
            mine = runs.setdefault(pixels, {name: [] for name in ["Lockstep", *peers]})
            mine["Lockstep"].append(lockstep(pixels, updates[pixels], a))
            for name, flags in peers.items():
                mine[name].append(torch(pixels, flags, a))
            print(f"round {n + 1}, {pixels} pixels: " + ", ".join(f"{k} {v[-1]['images_per_s']:.0f}" for k, v in mine.items()),
                  file=sys.stderr, flush=True)
    return summarise(counts, runs, a)


def summarise(counts, runs, a):
    result = {"resolutions": {}}
    ours, theirs = [0.0] * a.rounds, [0.0] * a.rounds  # seconds of the whole recipe
    for pixels, by_name in runs.items():
        rates = {name: [r["images_per_s"] for r in rows] for name, rows in by_name.items()}
        best = [max(rates[name][n] for name in rates if name != "Lockstep") for n in range(a.rounds)]
        for n in range(a.rounds):
            ours[n] += counts[pixels] * a.batch / rates["Lockstep"][n]
            theirs[n] += counts[pixels] * a.batch / best[n]
        result["resolutions"][pixels] = {
            "updates": counts[pixels], "ratio": spread([mine / peer for mine, peer in zip(rates["Lockstep"], best)]),
            "arrangements": {name: {"images_per_s": spread(rates[name]), "peak_mib": spread([r["peak_mib"] for r in rows])}
                             for name, rows in by_name.items()}}
    result["whole"] = {"ratio": spread([t / o for o, t in zip(ours, theirs)]), "lockstep_s": spread(ours), "torch_s": spread(theirs)}
    result["torch"] = next(iter(runs.values()))["torch"][0]["torch"]
    return result


def table(report):
    of = lambda s, digits: f"{s['median']:.{digits}f} ({s['min']:.{digits}f} to {s['max']:.{digits}f})"
    whole = report["whole"]
    lines = [f"Lockstep {report['commit']} beside PyTorch {report['torch']}: recipe {report['recipe']}, {report['date']}",
             f"{report['cpu']}, {report['cores']} cores, batch {report['batch']}, fp32, {report['rounds']} rounds of {report['seconds']:g} s, "
             f"load before {report['load']:.2f}", "",
             f"## Whole recipe: {of(whole['ratio'], 2)} times the best PyTorch of the round", "",
             f"Seconds of all updates at these rates: Lockstep {of(whole['lockstep_s'], 0)}, PyTorch {of(whole['torch_s'], 0)}", ""]
    for pixels, r in report["resolutions"].items():
        lines += [f"## {pixels} pixels, {r['updates']} updates: {of(r['ratio'], 2)} times", "",
                  "| arrangement | images/s (range) | peak memory, MiB |", "| --- | --- | --- |"]
        lines += [f"| {name} | {of(m['images_per_s'], 0)} | {m['peak_mib']['median']:.0f} |" for name, m in r["arrangements"].items()] + [""]
    return "\n".join(lines)


def main():
    a = arguments()
    report = {
        "date": datetime.date.today().isoformat(), "commit": run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip(),
        "recipe": a.recipe, "config": a.config, "cpu": processor(), "cores": a.cores, "batch": a.batch, "rounds": a.rounds, "seconds": a.seconds,
        "load": os.getloadavg()[0], **measure(a),
    }
    print(table(report))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out).with_suffix(".md").write_text(table(report))


main()
