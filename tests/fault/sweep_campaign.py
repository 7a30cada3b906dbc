#!/usr/bin/env python3
"""sweep_campaign.py BIN [--disturbances 200] [--seed 1] [--ways A,B] [--only I] [--keep DIR]

Sweeps of several runs at a time (train sweep --together, with --share, under mpirun, on the emulated CUDA device) are disturbed at
random moments, started again (and disturbed again, up to three times), and must end as an undisturbed sweep of one run after the other:

  tables   settings.csv, runs.csv and results.json, but for times
  bits     of each run weights.safetensors and the last checkpoint, byte for byte; each record of its metrics
  others   a run that fails leaves the others alone: they are complete after that very start
  nothing  hangs, survives, or is left in the folder under a temporary name

BIN is the folder of the built programs. Runs are as in resume_campaign.py, whose moments and checks these are. A disturbance is

  kill, TERM, INT, twice   SIGKILL, SIGTERM, SIGINT, two SIGINT: to the process, or to a rank, or to mpirun
  kill all                 SIGKILL to all processes
  full, limit              the disk has room for some bytes (tests/support/disk.c), or a file for some (ulimit -f), until the sweep ends
  fail                     writes, folders or new names of one run fail, until the sweep ends
  missing                  the weights that some runs begin with are not there, until the sweep ends

In the way "together" two of six runs fail in each start, because their learning rate is 1000. Sweep I of a seed always makes the same
choices. Exit 0: all as it must be; 1: not; 77: cannot be run here.
"""
import argparse
import collections
import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import resume_campaign as runs

COMMON = ["device.threads=1", "checkpoint.every_epochs=0", f"dist.timeout={runs.TIMEOUT_S}"]
CPU = runs.CPU + ["train.epochs=60", "checkpoint.every_updates=15", "log.every=15"]
CUDA = ["device.type=cuda", "train.epochs=2", "checkpoint.every_updates=2", "log.every=2"]
# name, how often, options, swept, at a time, ranks, exit code of a whole sweep
Way = collections.namedtuple("Way", "name share options swept how ranks code")
RATES = "optimizer.lr=0.02,0.1"
WAYS = [
    Way("together", 5, CPU + ["train.clip_norm=0"], ["--seeds", "1-2", "--set", RATES + ",1000"], ["--together", "3"], 1, 6),
    Way("share", 4, CPU + ["schedule.kind=step"], ["--seeds", "1-2", "--set", 'schedule.milestones="10","30","30,40"'],
        ["--share", "--together", "2"], 1, 0),
    Way("ranks", 5, CPU + runs.ORDERED, ["--seeds", "1-3", "--set", RATES], ["--together", "2"], 2, 0),
    Way("init", 3, CPU, ["--seeds", "1-2", "--set", 'model.init="","init.safetensors"'], ["--together", "3"], 1, 0),
    Way("cuda", 3, CUDA + runs.ORDERED, ["--seeds", "1-2", "--set", RATES], ["--together", "2"], 1, 0),
]
KINDS = {"kill": 6, "kill all": 2, "TERM": 3, "INT": 3, "twice": 1, "full": 3, "limit": 1, "fail": 4, "missing": 6}
SIGNALS = ("kill", "kill all", "TERM", "INT", "twice")
FILES = re.compile(r"(sweep\.json|results\.json|runs\.csv|settings\.csv|[^/]*seed=\d+(/log\.txt)?)$")
TIMES = ("seconds", "images_per_second")


class Start(runs.Launch):
    """One start of the sweep."""

    def __init__(self, world, sweep, how, ranks, *, disk="", before=""):
        self.world, self.run, self.ranks, self.by_script, self.with_mpirun = world, sweep, ranks, False, ranks > 1
        self.number = sweep.starts = sweep.starts + 1
        tag = f"{os.getpid()}.{sweep.number}.{self.number}."
        self.tag, self.output_path, self.control = tag.encode(), f"{sweep.folder}/output.{self.number}", f"{sweep.folder}/disk.{self.number}"
        with open(self.control, "w") as file:
            file.write(disk)
        environment = dict(os.environ, LOCKSTEP_CAMPAIGN=tag, LOCKSTEP_TEST_BEFORE=before, LOCKSTEP_TEST_DISK=self.control,
                           LOCKSTEP_TEST_DISK_BELOW=sweep.path + "/", LOCKSTEP_EMULATION="devices=1",
                           LOCKSTEP_CUDA_PLUGIN=world.plugin if sweep.way.name == "cuda" else "/nonexistent")
        environment.update({"OMPI_MCA_" + key: sweep.shared for key in world.mca})
        words = [word for option in COMMON + sweep.way.options for word in ("--set", option)]
        command = [world.work + "/bin/train", "sweep", "run.ini", "--run-dir", sweep.path, *words, *sweep.way.swept, *how]
        if ranks > 1:
            command = [*world.mpirun, "-np", str(ranks), *command]
        self.start, self.met, self.hung = time.monotonic(), "its start", False
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(command, env=environment, cwd=world.work, start_new_session=True, stdin=subprocess.DEVNULL,
                                            stdout=output, stderr=output)
        world.launches[(sweep.number, self.number)] = self


class Sweep:
    def __init__(self, world, way, number):
        self.world, self.way, self.number, self.starts, self.log = world, way, number, 0, []
        self.folder = f"{world.work}/sweep-{number}"
        self.path, self.shared = self.folder + "/sweep", f"{world.shared or self.folder}/{number}"
        os.makedirs(self.shared)
        os.makedirs(self.folder, exist_ok=True)

    def start(self, **how):
        return Start(self.world, self, self.way.how, self.way.ranks, **how)

    def complete(self):
        try:
            return {name for name in os.listdir(self.path) if os.path.exists(f"{self.path}/{name}/summary.json")}
        except OSError:
            return set()

    def tables(self):
        """Without times; names of runs."""
        found, names = [], []
        for name in ("settings.csv", "runs.csv"):
            with open(f"{self.path}/{name}") as file:
                rows = [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]
            found.append(rows)
            names = [row["folder"] for row in rows if row.get("state") == "complete"]
        results = json.loads(runs.read(self.path + "/results.json"))
        for setting in results["settings"]:
            for key in TIMES:
                setting.pop(key, None)
        return found + [results], names

    def fingerprint(self):
        tables, names = self.tables()
        return {"tables": tables, "runs": {name: runs.fingerprint(f"{self.path}/{name}") for name in names}}

    def check(self, wanted):
        got = self.fingerprint()
        for a, b, name in zip(got["tables"], wanted["tables"], ("settings.csv", "runs.csv", "results.json")):
            if a != b:
                raise runs.Bad(f"tables: {name} is {a}, undisturbed {b}")
        for name, run in got["runs"].items():
            alone = wanted["runs"][name]
            disk = any(kind in ("full", "limit", "fail") for kind, _, _ in self.log)
            if disk or "--share" in self.way.how:  # its records begin where it parts from others
                alone = dict(alone, records={key: alone["records"].get(key) for key in run["records"]})
            if disk:  # warnings said that a checkpoint could not be written
                alone = dict(alone, bits={file: alone["bits"][file] for file in run["bits"] if file in alone["bits"]})
            runs.compare(run, alone)
        for folder, folders, names in os.walk(self.path):
            for name in [os.path.relpath(os.path.join(folder, name), self.path) for name in folders + names]:
                if not FILES.match(name) and not runs.FILES.match(name.split("/", 1)[-1]):
                    raise runs.Bad(f"folder: {name} is left there")

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shared, ignore_errors=True)


def undisturbed(world, way):
    """Fingerprint of one run after the other; seconds and operations on files of runs at a time."""
    sweep = Sweep(world, way, f"{way.name}-alone")
    alone = Start(world, sweep, [], 1)
    code = alone.end()
    if code != way.code:
        raise runs.Bad(f"undisturbed: {way.name}: exit {code}:\n{alone.output()}")
    found = sweep.fingerprint()
    sweep.remove()
    sweep = Sweep(world, way, f"{way.name}-beside")
    beside = sweep.start(disk="log\n")
    code, seconds = beside.end(), time.monotonic() - beside.start
    if code != way.code:
        raise runs.Bad(f"undisturbed: {way.name} at a time: exit {code}:\n{beside.output()}")
    beside.check_left(False)
    sweep.check(found)
    operations = len(runs.read(beside.control + ".log").splitlines())
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(sweep.path) for name in names)
    sweep.remove()
    return found, seconds, operations, size


def signals(sweep, kind, rng, reference):
    """A start that signals meet. Returns whom, or None: it ended before."""
    whom = "all" if kind == "kill all" else rng.choice(("rank", "launcher") if sweep.way.ranks > 1 else ("rank",))
    moment, disk = runs.choose_moment(rng, reference[1], reference[2] // sweep.way.ranks)
    start, met, rank = sweep.start(disk=disk), None, rng.randrange(sweep.way.ranks)
    if start.await_moment(moment):
        what = {"kill all": "kill", "twice": "INT"}.get(kind, kind)
        met = start.disturb(f"{what} {whom}", rank, rng)
        if kind == "twice":
            time.sleep(rng.uniform(0, 0.1))
            start.disturb(f"{what} {whom}", rank, rng)
    codes = {sweep.way.code} | (runs.exits(what, met.split()[0], False, True) if met else set())
    return start, met, codes


def faults(sweep, kind, rng, reference):
    """A start in which a disk or a run fails to its end. The others of such a run must be complete then."""
    names, before, spared = list(reference[0]["runs"]), "", []
    target = rng.choice(names) if kind == "fail" else ""
    disk = {"full": f"room {rng.randrange(reference[3])} ENOSPC\n",
            "fail": f"fail {rng.choice(('open', 'write', 'fsync', 'rename', 'mkdir'))} {rng.choice(('EIO', 'EROFS', 'EACCES'))} /{target}/\n"}.get(kind, "")
    if kind == "limit":
        before = f"ulimit -f {rng.randint(1, 60)}"
    elif kind == "missing":
        target = "init=init.safetensors"
    if target:
        spared = [name for name in names if target not in name]
    weights = sweep.world.work + "/init.safetensors"
    if kind == "missing":
        os.rename(weights, weights + ".away")
    start = sweep.start(disk=disk, before=before)
    start.process.wait(runs.LIMIT_S)
    if kind == "missing":
        os.rename(weights + ".away", weights)
    if not set(spared) <= sweep.complete():
        raise runs.Bad(f"others: {kind} of {target}: only {sorted(sweep.complete())} are complete:\n{start.output()}")
    return start, disk.strip() or before or target, {0, 2, 3, 6, 7}


def disturb(sweep, rng, reference):
    """Returns whether the sweep is whole."""
    kinds = [kind for kind in KINDS if (kind != "missing" or sweep.way.name == "init") and (kind != "kill all" or sweep.way.ranks > 1)]
    kind = rng.choices(kinds, [KINDS[kind] for kind in kinds])[0]
    start, met, codes = (signals if kind in SIGNALS else faults)(sweep, kind, rng, reference)
    code = start.end()
    start.check_left(start.hung or (met in ("all", "launcher") and kind != "fail"))
    if met:
        sweep.log.append((kind, met, code))
    if code not in codes and not start.hung:
        raise runs.Bad(f"exit: {code} after {kind} ({met}):\n{start.output()}")
    return code == sweep.way.code and len(sweep.complete()) >= len(reference[0]["runs"])


def one(sweep, rng, reference):
    for _ in range(rng.choice((1, 1, 2, 3))):
        if disturb(sweep, rng, reference):
            break
    start = sweep.start()
    code = start.end()
    start.check_left(False)
    if code != sweep.way.code:
        raise runs.Bad(f"exit: {code} of the sweep in the end:\n{start.output()}")
    sweep.check(reference[0])


def campaign(world, args):
    """Sweeps, until there were so many disturbances. Returns {(way, kind): [number, bad]}."""
    references, counts = {}, collections.defaultdict(lambda: [0, 0])
    ways = [way for way in WAYS if way.name in args.ways and (way.name != "cuda" or os.path.exists(world.plugin))]
    number, met, bad = args.only - 1 if args.only else 0, 0, 0
    while met < args.disturbances:
        number += 1
        rng = random.Random(f"{args.seed}/{number}")
        way = rng.choices(ways, [way.share for way in ways])[0]
        if way.name not in references:
            references[way.name] = undisturbed(world, way)
        sweep, why = Sweep(world, way, number), ""
        try:
            one(sweep, rng, references[way.name])
        except (runs.Bad, OSError, KeyError, ValueError) as error:
            why, bad = repr(error) if not isinstance(error, runs.Bad) else str(error), bad + 1
            shutil.copytree(sweep.folder, f"{args.keep}/sweep-{number}", symlinks=True, dirs_exist_ok=True)
        met += len(sweep.log)
        for kind, _, _ in sweep.log:
            counts[(way.name, kind)][0] += 1
            counts[(way.name, kind)][1] += bool(why)
        print(f"sweep {number} {way.name}: {'; '.join(f'{kind} ({whom}): exit {code}' for kind, whom, code in sweep.log)}: {why or 'ok'}",
              flush=True)
        sweep.remove()
        if args.only:
            break
    print(f"{number} sweeps, {met} disturbances, {bad} sweeps not as they must be\n\n| disturbance | {' | '.join(w.name for w in ways)} | all |")
    print("| --- |" + " --- |" * (len(ways) + 1))
    for kind in KINDS:
        row = [counts[(way.name, kind)][0] for way in ways]
        print(f"| {kind} | {' | '.join(map(str, row))} | {sum(row)} |")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--disturbances", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=[way.name for way in WAYS])
    parser.add_argument("--keep", default="campaign-failures")
    args = parser.parse_args()
    world = runs.World(args)
    runs.take_signals()
    try:
        missing = world.prepare()
        if missing:
            print(f"skipped: {missing}")
            return 77
        first = [word for option in runs.CPU + ["train.max_updates=1"] for word in ("--set", option)]
        subprocess.run([world.bin + "/train", "run.ini", "--quiet", "--run-dir", "first", *first], cwd=world.work, check=True)
        os.rename(world.work + "/first/weights.safetensors", world.work + "/init.safetensors")
        return 1 if campaign(world, args) else 0
    finally:
        world.remove()


if __name__ == "__main__":
    sys.exit(main())
