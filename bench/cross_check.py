#!/usr/bin/env python3
"""Planted faults against run.cross_check: how many are found, whether the right rank is named, and what healthy runs say.

Plants faults from a seed into the gradients of runs on several ranks of this host (tests/support/miscompute.c): stuck bits in a vector lane
or at multiples of a warp, single elements, few NaN; permanent ones, which last until a check must have met them, and transient ones, which
last for one pass in a checked update. A fault that changes no bit in a checked pass cannot be seen, and is planted again with other values.
Runs go on after a finding (run.cross_check_action = continue), so one run has many faults. Then a healthy run of --healthy updates, all
checked, must find nothing and have the weights of a run without checks.

  bench/cross_check.py BIN [--faults 2000] [--ranks 2,3,4] [--every 4] [--seed 1] [--healthy 10000] [--device cpu] [--set KEY=VALUE]
  bench/cross_check.py BIN --cost     what a check costs resnet20 and lenet on 2 ranks, in updates

BIN: the folder of a build's programs, with train_miscomputing. Prints a table, and a line for every fault that was not found and named.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RUN = """[data]
dataset = synthetic
shape = 3x8x8
train_samples = 1920
test_samples = 40
pad = 1
flip = true
[model]
file = {network}
[train]
epochs = 100000
max_updates = {updates}
eval_every = 0
global_batch = 48
micro_batch = {micro}
clip_norm = 1.0
[optimizer]
lr = 0.001
[checkpoint]
every_epochs = 0
every_minutes = 0
[log]
every = 1000000
[device]
threads = 1
"""
PER_RUN = 25  # faults of a run
FOUND = re.compile(r"cross-check of update (\d+): (?:rank (\d+)|one of two ranks|more than one rank)")


class Campaign:
    def __init__(self, options, folder):
        self.options, self.folder, self.number = options, folder, 0

    def run(self, ranks, updates, faults, settings):
        """Trains; the folder of the run."""
        self.number += 1
        config = self.folder / "run.ini"
        network = HERE.parent / "tests/support/small_run/net.ini"
        config.write_text(RUN.format(network=network, updates=updates, micro=12 if ranks != 3 else 4))
        run = self.folder / f"run-{self.number}"
        (self.folder / "faults").write_text("".join(f"{line}\n" for line in faults))
        (self.folder / "log").write_text("")
        device = self.options.device
        environment = dict(os.environ, LOCKSTEP_TEST_MISCOMPUTE=str(self.folder / "faults"),
                           LOCKSTEP_TEST_MISCOMPUTE_LOG=str(self.folder / "log"), LOCKSTEP_EMULATION="devices=4",
                           LOCKSTEP_CUDA_PLUGIN="/nonexistent" if device == "cpu" else f"{self.options.bin}/emulated/lockstep_cuda.so")
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), f"{self.options.bin}/train_miscomputing", str(config),
                   "--quiet", "--run-dir", str(run), "--set", f"device.type={device}"]
        if os.getuid() == 0:
            command.insert(1, "--allow-run-as-root")
        for setting in settings + self.options.set:
            command += ["--set", setting]
        result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if result.returncode not in (0, 6):
            sys.exit(f"{' '.join(command)}: exit {result.returncode}\n{result.stderr}")
        return run


def draw(source, ranks, every):
    """A fault without its place in time."""
    stride, lane = source.choice([(8, source.randrange(8)), (16, source.randrange(16)), (32, source.choice([0, source.randrange(32)])),
                                  (1 << 20, source.randrange(200))])
    op = "nan" if source.random() < 0.02 else source.choice(["set", "clear", "flip"])
    return {"rank": source.randrange(ranks), "permanent": source.random() < 0.6, "offset": source.randrange(every), "pass": source.randrange(2),
            "what": f"{source.randrange(1000)} {stride} {lane} {op} {source.randrange(32)}"}


def place(fault, start, every):
    """Gives the fault its updates, from `start` on, and returns its line."""
    due = -(-start // every) * every
    fault["from"] = start + fault["offset"] if fault["permanent"] else due
    fault["to"] = fault["from"] + every if fault["permanent"] else due
    return f"{fault['rank']} {fault['from']} {fault['to']} {-1 if fault['permanent'] else fault['pass']} {fault['what']}"


def events_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [str(e) for e in lines if e.get("event") in ("warning", "end")], lines[-1]


def count_run(campaign, ranks, faults, table):
    """Judges one run with these faults. The faults that are to be planted again."""
    every = campaign.options.every
    spacing = 4 * every + 6
    lines = [place(f, 2 + i * spacing, every) for i, f in enumerate(faults)]
    run = campaign.run(ranks, len(faults) * spacing + every, lines, [f"run.cross_check={every}", "run.cross_check_action=continue"])
    changed = {(int(r), int(u)) for r, u, p, _ in (line.split() for line in (campaign.folder / "log").read_text().splitlines()) if int(p) < 2}
    texts, end = events_of(run)
    found = [(int(m.group(1)), m.group(2)) for m in map(FOUND.search, texts) if m]
    ended = None if end.get("exit_code", 0) == 0 else int(re.search(r"update (\d+)", str(end)).group(1))
    again = []
    for f in faults:
        span = range(f["from"], f["to"] + 1)
        mine = [name for update, name in found if update in span]
        seen = any((f["rank"], u) in changed for u in span if u % every == 0)
        kind = "permanent" if f["permanent"] else "transient"
        if mine:
            result = "named" if mine[0] == str(f["rank"]) else "found, not named" if mine[0] is None else "WRONG RANK"
        elif ended is not None and ended in range(f["from"] - 1, f["to"] + 2):
            result = "ended as not finite"
        elif (ended is not None and f["from"] > ended) or not seen:
            again.append(f if seen or ended is not None and f["from"] > ended else None)
            continue
        else:
            result = "MISSED"
        table[(ranks, kind, result)] = table.get((ranks, kind, result), 0) + 1
        if result != "named":
            print(f"{ranks} ranks, {kind}, {result}: {f}; {[t for t in texts if 'update' in t][-1:]}"[:400], file=sys.stderr)
    spans = {u for f in faults for u in range(f["from"], f["to"] + 1)}
    table["false alarms"] = table.get("false alarms", 0) + sum(update not in spans for update, _ in found)
    table["masked"] = table.get("masked", 0) + again.count(None)
    return [f for f in again if f]


def plant(campaign, ranks, count, table):
    source = random.Random(f"{campaign.options.seed} {ranks}")
    waiting, judged = [], lambda: sum(v for k, v in table.items() if k[0] == ranks)
    while judged() < count:
        while len(waiting) < min(PER_RUN, count - judged()):
            waiting.append(draw(source, ranks, campaign.options.every))
        waiting = count_run(campaign, ranks, waiting[:PER_RUN], table) + waiting[PER_RUN:]
        print(f"{ranks} ranks: {judged()} of {count} faults", file=sys.stderr)


def summary(run):
    return json.loads((run / "summary.json").read_text())


def healthy(campaign, ranks, updates):
    summaries = [summary(campaign.run(ranks, updates, [], [f"run.cross_check={n}"])) for n in (1, 0)]
    same = summaries[0]["weights_hash"] == summaries[1]["weights_hash"]
    checks = summaries[0]["cross_checks"]
    print(f"healthy, {ranks} ranks: {checks['count']} checks, {checks['differences']} differences, weights {'the same' if same else 'DIFFER'}")


def cost(campaign):
    """Runs with a check every 5 updates differ from runs without by many times the noise, unlike runs with N = 100."""
    every, updates = 5, 200
    for name, shape, micro in ("resnet20", "3x32x32", 24), ("lenet", "1x28x28", 64):
        settings = [f"data.shape={shape}", f"model.file={HERE.parent}/configs/models/{name}.ini", f"train.micro_batch={micro}",
                    f"train.global_batch={2 * micro}"]
        costs = []
        for _ in range(5):
            rates = [summary(campaign.run(2, updates, [], settings + [f"run.cross_check={n}"]))["train_images_per_second"] for n in (every, 0)]
            costs.append((rates[1] / rates[0] - 1) * every)  # seconds of a check, in updates
        costs.sort()
        print(f"{name}: a check costs {costs[2]:.2f} updates ({costs[0]:.2f} to {costs[-1]:.2f}), so N = 100 costs {costs[2]:.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--ranks", default="2,3,4")
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--healthy", type=int, default=10000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--cost", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(options, pathlib.Path(folder))
        if options.cost:
            return cost(campaign)
        counts, table = [int(n) for n in options.ranks.split(",")], {}
        for ranks in counts:
            plant(campaign, ranks, options.faults // len(counts), table)
        print("| ranks | kind | result | faults |\n| --- | --- | --- | --- |")
        for key in sorted(k for k in table if isinstance(k, tuple)):
            print("| " + " | ".join(map(str, key)) + f" | {table[key]} |")
        print(f"false alarms: {table.get('false alarms', 0)}; faults that changed no bit in a checked pass, planted again: {table.get('masked', 0)}")
        for ranks in counts if options.healthy else []:
            healthy(campaign, ranks, options.healthy)


if __name__ == "__main__":
    main()
