#!/usr/bin/env python3
"""Training throughput of Lockstep beside PyTorch on this machine's GPU, in turns.

All PyTorch processes of a network start at once and stay up, compiled and idle, while the rounds go on. A round runs each arrangement
of a network once: Lockstep with data from the ring and resident on the card; PyTorch (channels_last, bf16 by
autocast, TF32, data resident on the card, fused SGD, cuDNN's benchmark mode) in the ways of PYTORCH below. The strongest is the whole step:
network and optimizer compiled, and forward, backward and optimizer in one CUDA graph. Reported are medians and ranges over rounds, and how many
times as fast the better Lockstep is.

  bench/compare_pytorch_gpu.py [--train build/gpu/bin/train] [--networks resnet9:512:bf16,lenet:128:fp32]
      [--arrangements 'lockstep resident,pytorch whole step'] [--rounds 3] [--out NAME.json] [--lock FILE]

--out is rewritten after each run, and what it holds is not run again: a call that was ended goes on with the next one. An arrangement that
fails is recorded with its reason, and the others go on. Exit: 0 Lockstep and all others ran, or failed and were recorded; 1 Lockstep failed.
--lock: a file that is locked while something is timed, so that several of these scripts may make ready beside each other.
--torch-device cpu and --device cpu (or an emulated card) try the script out where there is no GPU.
"""
import argparse
import contextlib
import fcntl
import json
import pathlib
import statistics
import selectors
import subprocess
import sys
import tempfile
import time

from compare_pytorch import ROOT, SHAPE

PEER = ROOT / "bench/peers/torch_throughput.py"
GRAPH = ["--cuda-graph"]
PYTORCH = {  # in the order in which they teach most
    "whole step": ["--compile", "default", "--compile-optimizer", *GRAPH],
    "one graph": GRAPH,
    "compiled": ["--compile", "reduce-overhead"],
    "eager": [],
    "whole step autotuned": ["--compile", "max-autotune-no-cudagraphs", "--compile-optimizer", *GRAPH],
}
ARRANGEMENTS = ["lockstep resident", "pytorch whole step", "pytorch one graph", "lockstep stream",
                *(f"pytorch {name}" for name in list(PYTORCH)[2:])]


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


def lockstep(network, loader, updates, a):
    model, batch, precision = network
    with tempfile.TemporaryDirectory() as folder:
        run([a.train, ROOT / "configs/bench-cpu.ini", "--quiet", "--run-dir", f"{folder}/run", "--set", f"device.type={a.device}",
             "--set", f"model.file={ROOT}/configs/models/{model}.ini", "--set", f"data.shape={SHAPE[model]}", "--set", f"data.train_samples={batch * 100}",
             "--set", f"train.global_batch={batch}", "--set", f"train.micro_batch={batch}", "--set", f"train.precision={precision}",
             "--set", "train.epochs=100000", "--set", f"train.max_updates={updates}", "--set", f"data.test_samples={batch}",
             "--set", f"data.loader={loader}", "--set", "train.eval_every=0", "--set", "checkpoint.every_epochs=0", "--set", f"device.autotune={a.autotune}"],
            a.limit)
        s = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    return {"images_per_s": s["train_images_per_second"], "first_update_s": s["time_to_first_update_seconds"],
            "version": s["version"], "device": s["device_name"]}


class Peer:
    """PyTorch in one arrangement: a process that compiles, and then times a window whenever it is asked."""

    def __init__(self, network, flags, a):
        model, batch, precision = network
        tf32 = ["--tf32"] if a.torch_device == "cuda" else []
        command = [sys.executable, PEER, "--model", model, "--device", a.torch_device, "--batch", batch, "--dtype", precision, "--channels-last",
                   "--fused", *tf32, "--seconds", a.seconds, "--serve", *flags]
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

    def wait_until_ready(self):
        while self.line() != "ready":
            pass

    def window(self):
        self.deadline = time.monotonic() + self.limit
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        r = json.loads(self.line())
        return {"images_per_s": r["images_per_s"], "first_update_s": r["first_update_s"], "version": r["torch"], "device": r.get("gpu", "cpu")}

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
        known["updates"] = a.updates or max(probe, round(a.seconds * rate / network[1]))
    return lockstep(network, way, known["updates"], a)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def summarise(known):
    """Medians and ratios of a network's runs so far."""
    known["ratios"] = {}
    medians = {}
    for name, arrangement in known["arrangements"].items():
        if arrangement["runs"]:
            for key in ("images_per_s", "first_update_s"):
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
                  "| arrangement | images/s (range) | ms an update | first update, s | runs | Lockstep is so many times as fast |",
                  "| --- | --- | --- | --- | --- | --- |"]
        for arrangement, m in known["arrangements"].items():
            if m["runs"]:
                i = m["images_per_s"]
                ratio = known["ratios"].get(arrangement)
                lines.append(f"| {arrangement} | {i['median']:.0f} ({i['min']:.0f} to {i['max']:.0f}) | {1e3 * int(batch) / i['median']:.3f} | "
                             f"{m['first_update_s']['median']:.2f} | {len(m['runs'])} | {f'{ratio:.2f}' if ratio else ''} |")
            if m["error"]:
                lines.append(f"| {arrangement} | failed: {' '.join(m['error'].split()).replace('|', '/')} | | | {len(m['runs'])} | |")
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


def measure(report, network, a):
    name = ":".join(map(str, network))
    known = report["networks"].setdefault(name, {"arrangements": {}})
    wanted = {w: known["arrangements"].setdefault(w, {"runs": [], "error": None}) for w in a.arrangements}
    left = {w: m for w, m in wanted.items() if len(m["runs"]) < a.rounds and not m["error"]}
    peers = {w: Peer(network, PYTORCH[w.split(" ", 1)[1]], a) for w in left if w.startswith("pytorch")}
    try:
        for w, peer in peers.items():
            print(f"{name}: {w} {attempt(left[w], peer.wait_until_ready)}", file=sys.stderr, flush=True)
        for n in range(a.rounds):
            for w, m in left.items():
                if len(m["runs"]) > n or m["error"]:
                    continue
                with locked(a.lock):
                    outcome = attempt(m, lambda: once(network, w, known, peers, a))
                summarise(known)
                save(report, a.out)
                print(f"{name} round {n + 1}: {w} {outcome}", file=sys.stderr, flush=True)
    finally:
        for peer in peers.values():
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
    ap.add_argument("--networks", default="resnet9:512:bf16,lenet:128:fp32,resnet20:128:bf16,airbench94:1024:bf16", metavar="MODEL:BATCH:PRECISION,...")
    ap.add_argument("--arrangements", default=",".join(ARRANGEMENTS), help=f"of: {', '.join(ARRANGEMENTS)}")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.0, help="timed, of each run")
    ap.add_argument("--limit", type=float, default=240, help="seconds of a run, compilation included, after which it counts as failed")
    ap.add_argument("--updates", type=int, default=0, help="of a run of Lockstep (default: so many as fill --seconds)")
    ap.add_argument("--autotune", choices=["auto", "true", "false"], default="true", help="device.autotune; PyTorch measures its plans, too")
    ap.add_argument("--lock", metavar="FILE")
    ap.add_argument("--device", default="cuda", help="device.type of Lockstep")
    ap.add_argument("--torch-device", default="cuda", choices=["cuda", "cpu"])
    ap.add_argument("--out", type=pathlib.Path)
    a = ap.parse_args()
    a.arrangements = list_of(a.arrangements, ARRANGEMENTS, ap, "--arrangements")
    networks = [n.split(":") for n in a.networks.split(",")]
    for n in networks:
        if len(n) != 3 or n[0] not in SHAPE or not n[1].isdigit():
            ap.error(f"--networks '{':'.join(n)}': expected is MODEL:BATCH:PRECISION, MODEL one of {', '.join(SHAPE)}")
    a.networks = [(model, int(batch), precision) for model, batch, precision in networks]
    return a


def main():
    a = arguments()
    report = earlier(a.out)
    for network in a.networks:
        measure(report, network, a)
    print(table(report))
    failed = lockstep_failed(report)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
