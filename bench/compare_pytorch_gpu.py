#!/usr/bin/env python3
"""Training throughput of Lockstep beside PyTorch on this machine's GPU, in turns.

The PyTorch processes of all networks start before anything is timed, --starting at a time, and stay up, compiled and idle. Then each round runs
each arrangement of each network once: Lockstep with data from the ring and resident on the card; PyTorch (channels_last, bf16 by autocast or
by 16-bit weights, TF32, data resident on the card, fused SGD, cuDNN's benchmark mode) in the arrangements of PYTORCH below. The strongest is the
whole step: network and optimizer compiled, and forward, backward and optimizer in one CUDA graph. "pure" trains 16-bit weights without autocast,
as the published records do. Reported are medians and ranges over rounds, and how many times as fast the better Lockstep is.

  bench/compare_pytorch_gpu.py [--train build/gpu/bin/train] [--networks resnet9:512:bf16,seed741:64:bf16,e1-24:1536:bf16]
      [--arrangements 'lockstep resident,pytorch whole step'] [--rounds 3] [--out NAME.json] [--lock FILE]

A network is a shipped one, a file of bench/networks by its name, one of bench/any_network.py by its seed (seedN), or the recipe e1 of
bench/peers/airbench.py at a resolution (e1-24): its PyTorch repeats one update's rates, which favours it.

Two clocks: images/s are by the device's events for PyTorch and by the wall clock from the end of update 1 for Lockstep; "by the host" is the
wall clock for both. "first update" is from the start of the process. "process" is Lockstep's whole process with so many updates.

--out is rewritten after each run, and its finished runs are not repeated: a call that was ended continues with the next one. An arrangement that
fails is recorded with its reason, and the others go on. Exit: 0 Lockstep and all others ran, or failed and were recorded; 1 Lockstep failed.
--within SECONDS: no run begins after them, and PyTorch must be ready after half of them; the next call with the same --out goes on.
--lock: a file that is locked while something is timed, so that several of these scripts may make ready beside each other.
--torch-device cpu and --device cpu (or an emulated card) try the script out where there is no GPU.
"""
import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import statistics
import selectors
import subprocess
import sys
import tempfile
import time

import any_network
from compare_pytorch import ROOT, SHAPE

PEERS = ROOT / "bench/peers"
GRAPH = ["--cuda-graph"]
WHOLE = ["--compile", "default", "--compile-optimizer", *GRAPH]
PYTORCH = {  # the most telling first
    "whole step": WHOLE,
    "whole step pure": ["--pure", *WHOLE],
    "one graph": GRAPH,
    "compiled": ["--compile", "reduce-overhead"],
    "eager": [],
    "whole step autotuned": ["--compile", "max-autotune-no-cudagraphs", "--compile-optimizer", *GRAPH],
}
RECIPE = {"whole step pure": ["--compile", *GRAPH], "one graph": GRAPH, "eager": []}  # always with 16-bit weights in bf16
ARRANGEMENTS = ["lockstep resident", "pytorch whole step", "pytorch whole step pure", "pytorch one graph", "lockstep stream",
                *(f"pytorch {name}" for name in list(PYTORCH)[3:])]
NETWORK_FILES = ROOT / "bench/networks"
NETWORKS = ("resnet20:128:bf16,lenet:128:fp32,resnet9:512:bf16,airbench94:1024:bf16,mobilenet:128:bf16,e1-24:1536:bf16,e1-32:1536:bf16,"
            "se-resnet:128:bf16,convnext:128:bf16,seed741:64:bf16,seed742:64:bf16")


class RunFailed(Exception):
    """What a run said when it failed."""


def run(command, limit):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"not through after {limit:.0f} s") from None
    except OSError as error:
        raise RunFailed(str(error)) from None
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise RunFailed(f"exit {done.returncode}: {lines[-1] if lines else 'it said nothing'}")
    return done.stdout


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """What is trained: files and options for Lockstep, arguments for PyTorch."""
    name: str        # MODEL:BATCH:PRECISION
    batch: int
    precision: str
    config: pathlib.Path
    options: tuple   # for Lockstep
    peer: tuple      # script and arguments for PyTorch
    flags: dict      # PyTorch's arrangements

    def arrangements(self, wanted):
        """Those of `wanted` that this network has."""
        return [w for w in wanted if w.startswith("lockstep") or (
            w.split(" ", 1)[1] in self.flags and ("pure" not in w or self.precision == "bf16"))]


def shipped(model):
    return [f"model.file={ROOT}/configs/models/{model}.ini", f"data.shape={SHAPE[model]}"], ["--model", model]


def from_file(file, shape, classes):
    return ([f"model.file={file}", f"data.shape={shape}", f"data.classes={classes}"],
            ["--network", file, "--shape", shape, "--classes", classes])


def generated(seed, folder):
    """The network of a seed, written into the folder."""
    plan = any_network.generate(seed, "large")
    any_network.write(folder / f"seed{seed}", plan, seed)
    return from_file(folder / f"seed{seed}/network.ini", "x".join(map(str, plan.input)), plan.classes)


def network_of(text, folder):
    """Raises ValueError where the text names none."""
    words = text.split(":")
    if len(words) != 3 or not words[1].isdigit() or words[2] not in ("fp32", "bf16"):
        raise ValueError(f"'{text}': MODEL:BATCH:PRECISION is expected, PRECISION fp32 or bf16")
    model, batch, precision = words[0], int(words[1]), words[2]
    if model.startswith("e1-") and model[3:].isdigit():
        return recipe(text, int(model[3:]), batch, precision)
    if model in SHAPE:
        options, which = shipped(model)
    elif model.startswith("seed") and model[4:].isdigit():
        options, which = generated(int(model[4:]), folder)
    elif (NETWORK_FILES / f"{model}.ini").exists():
        options, which = from_file(NETWORK_FILES / f"{model}.ini", "3x32x32", 10)
    else:
        files = ", ".join(sorted(path.stem for path in NETWORK_FILES.glob("*.ini")))
        raise ValueError(f"'{text}': MODEL is one of {', '.join(SHAPE)}, {files}, seedN or e1-PIXELS")
    options += [f"train.global_batch={batch}", f"train.micro_batch={batch}", f"train.precision={precision}", "optimizer.lr=0.001"]
    return Network(text, batch, precision, ROOT / "configs/bench-cpu.ini", tuple(options),
                   (PEERS / "torch_throughput.py", *which, "--batch", batch, "--dtype", precision, "--fused"), PYTORCH)


def recipe(text, pixels, batch, precision):
    """e1 at one resolution, on synthetic pictures."""
    options = ["data.dataset=synthetic", "data.shape=3x32x32", f"train.global_batch={batch}", f"train.micro_batch={batch}",
               f"train.precision={precision}", f"train.resolution=0:{pixels}", "average.kind=off", "eval.tta=off"]
    return Network(text, batch, precision, ROOT / "configs/cifar10-94.ini", tuple(options),
                   (PEERS / "recipe_throughput.py", "--recipe", "e1", "--resolution", pixels, "--batch", batch, "--dtype", precision), RECIPE)


def lockstep(network, loader, updates, a):
    with tempfile.TemporaryDirectory() as folder:
        options = [f"device.type={a.device}", *network.options, f"data.train_samples={network.batch * 100}", "train.epochs=100000",
                   f"train.max_updates={updates}", f"data.test_samples={network.batch}", f"data.loader={loader}", "train.eval_every=0",
                   "checkpoint.every_epochs=0", f"device.autotune={a.autotune}"]
        run([a.train, network.config, "--quiet", "--run-dir", f"{folder}/run", *(word for o in options for word in ("--set", o))], a.limit)
        s = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    rate = s["train_images_per_second"]
    return {"images_per_s": rate, "host_images_per_s": rate, "first_update_s": s["time_to_first_update_seconds"],
            "process_s": s["wall_seconds"], "updates": updates, "version": s["version"], "device": s["device_name"]}


class Peer:
    """PyTorch in one arrangement: a process that compiles, and then times a window whenever it is asked."""

    def __init__(self, network, way, a):
        tf32 = ["--tf32"] if a.torch_device == "cuda" and network.flags is PYTORCH else []
        command = [sys.executable, *network.peer, "--device", a.torch_device, "--channels-last", *tf32, "--seconds", a.seconds, "--serve",
                   *network.flags[way]]
        self.limit, self.deadline = a.limit, time.monotonic() + a.limit
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.pending = b""

    def line(self):
        """The next line, before the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(max(0, self.deadline - time.monotonic())):
                    raise RunFailed(f"not through after {self.limit:.0f} s")
                read = self.process.stdout.read1()
                if not read:
                    self.errors.seek(0)
                    lines = self.errors.read().strip().splitlines()
                    raise RunFailed(f"exit {self.process.wait()}: {lines[-1] if lines else 'it said nothing'}")
                self.pending += read
        line, self.pending = self.pending.split(b"\n", 1)
        return line.decode()

    def wait_until_ready(self, latest):
        self.deadline = min(self.deadline, latest)
        while self.line() != "ready":
            pass

    def window(self):
        self.deadline = time.monotonic() + self.limit
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        r = json.loads(self.line())
        return {"images_per_s": r["images_per_s"], "host_images_per_s": r["host_images_per_s"], "first_update_s": r["first_update_s"], "version": r["torch"], "device": r.get("gpu", "cpu")}

    def end(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


@contextlib.contextmanager
def locked(path):
    with open(path, "w") if path else contextlib.nullcontext() as file:
        if file:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(network, name, known, peers, a):
    """One run of an arrangement; known: what is known of the network, which gets the number of updates that fill --seconds."""
    if name in peers:
        return peers[name].window()
    way = name.split(" ", 1)[1]
    if "updates" not in known:
        probe = a.updates or 200
        rate = lockstep(network, way, probe, a)["images_per_s"]
        known["updates"] = a.updates or max(probe, round(a.seconds * rate / network.batch))
    return lockstep(network, way, known["updates"], a)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarise(known):
    """Medians and ratios of a network's runs so far."""
    known["ratios"] = {}
    medians = {}
    for name, arrangement in known["arrangements"].items():
        if arrangement["runs"]:
            for key in ("images_per_s", "host_images_per_s", "first_update_s", "process_s"):
                if key in arrangement["runs"][0]:
                    arrangement[key] = spread([r[key] for r in arrangement["runs"]])
            medians[name] = arrangement["images_per_s"]["median"]
    best = max((v for k, v in medians.items() if k.startswith("lockstep")), default=None)
    if best:
        known["ratios"] = {k: best / v for k, v in medians.items() if k.startswith("pytorch")}


def table(report):
    lines = ["Lockstep beside PyTorch, medians over rounds, in turns", ""]
    for name, known in report["networks"].items():
        model, batch, precision = name.split(":")
        lines += [f"## {model}, batch {batch}, {precision}", "",
                  "| arrangement | images/s (range) | by the host | ms per update | first update, s | process, s | runs | Lockstep is so many times as fast |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        for arrangement, m in known["arrangements"].items():
            if m["runs"]:
                i = m["images_per_s"]
                ratio = known["ratios"].get(arrangement)
                process = f"{m['process_s']['median']:.2f} ({m['runs'][0]['updates']} updates)" if "process_s" in m else ""
                lines.append(f"| {arrangement} | {i['median']:.0f} ({i['min']:.0f} to {i['max']:.0f}) | {m['host_images_per_s']['median']:.0f} | "
                             f"{1e3 * int(batch) / i['median']:.3f} | {m['first_update_s']['median']:.2f} | {process} | {len(m['runs'])} | "
                             f"{f'{ratio:.2f}' if ratio else ''} |")
            if m["error"]:
                lines.append(f"| {arrangement} | failed: {' '.join(m['error'].split()).replace('|', '/')} | | | | | {len(m['runs'])} | |")
        versions = {r[key] for m in known["arrangements"].values() for r in m["runs"] for key in ("version", "device")}
        lines += ["", ", ".join(sorted(versions)), ""]
    return "\n".join(lines)


def save(report, path):
    report["table"] = table(report)
    if path:
        new = path.with_suffix(".new")  # whole or not at all
        new.write_text(json.dumps(report, indent=1) + "\n")
        new.replace(path)


def earlier(path):
    try:
        return json.loads(path.read_text()) if path else {"networks": {}}
    except (OSError, ValueError):
        return {"networks": {}}


def attempt(m, work):
    """The outcome of work(), one run of an arrangement or what comes before it, in words; a failure is recorded."""
    try:
        result = work()
    except (RunFailed, ValueError, KeyError, IndexError, OSError) as why:
        m["error"] = str(why) or type(why).__name__
        return f"failed: {m['error']}"
    if result is None:
        return "ready"
    m["runs"].append(result)
    return f"{result['images_per_s']:.0f} images/s"


def left_of(report, networks, a):
    """By network the arrangements that have runs to come, and their records."""
    left = {}
    for network in networks:
        known = report["networks"].setdefault(network.name, {"arrangements": {}})
        wanted = {w: known["arrangements"].setdefault(w, {"runs": [], "error": None}) for w in network.arrangements(a.arrangements)}
        left[network] = {w: m for w, m in wanted.items() if len(m["runs"]) < a.rounds and not m["error"]}
    return left


def start_peers(left, peers, a):
    """Starts every PyTorch process, so many at a time, and waits until all are ready or have failed. peers: filled, by network and arrangement."""
    todo = [(network, w, m) for network, records in left.items() for w, m in records.items() if w.startswith("pytorch")]
    for first in range(0, len(todo), a.starting):
        group = todo[first:first + a.starting]
        for network, w, _ in group:
            peers.setdefault(network, {})[w] = Peer(network, w.split(" ", 1)[1], a)
        for network, w, m in group:
            latest = a.began + a.within / 2
            outcome = attempt(m, lambda: peers[network][w].wait_until_ready(latest))
            if m["error"] and time.monotonic() >= latest:
                m["error"], outcome = None, "not ready in time; the next call tries again"
                del left[network][w]
            print(f"{network.name}: {w} {outcome}", file=sys.stderr, flush=True)


def rounds(report, left, peers, a):
    for n in range(a.rounds):
        for network, records in left.items():
            known = report["networks"][network.name]
            for w, m in records.items():
                if len(m["runs"]) > n or m["error"] or time.monotonic() - a.began > a.within:
                    continue
                with locked(a.lock):
                    outcome = attempt(m, lambda: once(network, w, known, peers.get(network, {}), a))
                summarise(known)
                save(report, a.out)
                print(f"{network.name} round {n + 1}: {w} {outcome}", file=sys.stderr, flush=True)


def measure(report, networks, a):
    left, peers = left_of(report, networks, a), {}
    try:
        start_peers(left, peers, a)
        rounds(report, left, peers, a)
    finally:
        for peer in (peer for of_network in peers.values() for peer in of_network.values()):
            peer.end()


def lockstep_failed(report):
    """Why Lockstep itself failed, by network and arrangement."""
    return [f"{name}, {arrangement}: {m['error']}" for name, known in report["networks"].items()
            for arrangement, m in known["arrangements"].items() if arrangement.startswith("lockstep") and m["error"]]


def list_of(text, allowed, ap, what):
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in allowed:
            ap.error(f"{what} '{word}': expected is one of {', '.join(allowed)}")
    return words


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--networks", default=NETWORKS, metavar="MODEL:BATCH:PRECISION,...")
    ap.add_argument("--arrangements", default=",".join(ARRANGEMENTS), help=f"of: {', '.join(ARRANGEMENTS)}")
    ap.add_argument("--starting", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="PyTorch processes that make ready at once")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.0, help="timed, of each run")
    ap.add_argument("--limit", type=float, default=240, help="seconds of a run, compilation included, after which it counts as failed")
    ap.add_argument("--updates", type=int, default=0, help="of a run of Lockstep (default: so many as fill --seconds)")
    ap.add_argument("--autotune", choices=["auto", "true", "false"], default="true", help="device.autotune; PyTorch measures its plans, too")
    ap.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    ap.add_argument("--lock", metavar="FILE")
    ap.add_argument("--device", default="cuda", help="device.type of Lockstep")
    ap.add_argument("--torch-device", default="cuda", choices=["cuda", "cpu"])
    ap.add_argument("--out", type=pathlib.Path)
    a = ap.parse_args()
    a.began = time.monotonic()
    a.arrangements = list_of(a.arrangements, ARRANGEMENTS, ap, "--arrangements")
    return ap, a


def main():
    ap, a = arguments()
    report = earlier(a.out)
    with tempfile.TemporaryDirectory() as folder:
        try:
            networks = [network_of(text, pathlib.Path(folder)) for text in a.networks.split(",")]
        except ValueError as why:
            ap.error(f"--networks {why}")
        measure(report, networks, a)
    print(table(report))
    failed = lockstep_failed(report)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
