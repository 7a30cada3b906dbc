#!/usr/bin/env python3
"""Training throughput of Lockstep beside PyTorch on this machine's CPU, interleaved in one run.

Every round runs each arrangement once: Lockstep as one rank with all cores and as one rank a core, and every PyTorch given.
The ratio of a round is the best Lockstep over the best PyTorch of that round, so that a slow minute of a shared machine hits both sides;
reported are the median and the range of the rounds' ratios, time to the first update and peak memory.

  bench/compare_pytorch.py --python newest=/path/to/venv/bin/python --python debian=/usr/bin/python3 \\
      [--compile newest] [--bf16 newest] [--models lenet,resnet20,resnet9,airbench94,mobilenet] [--rounds 5] [--seconds 4] \\
      [--out bench/results/NAME.json]
  bench/compare_pytorch.py --python newest=/path/to/venv/bin/python @bench/networks/table --rounds 2 --seconds 1.5

@FILE: options out of a file, one a line. bench/networks/table names networks of many kinds, at several sizes of pictures and batches;
bench/networks/known names the known networks, at 64 and 224 pixels, beside torchvision's modules.

PyTorch runs as cpu-bench practice has it best: channels_last and contiguous, the allocator told not to return memory, and
torch.compile where --compile is given. --bf16 runs both in bf16, too (PyTorch by autocast), where the processor multiplies it; that has
a ratio of its own. Lockstep runs configs/bench-cpu.ini, the whole program: loader, augmentation, update.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import open_mpi  # noqa: E402

PEER = ROOT / "bench/peers/torch_throughput.py"
SHAPE = {"lenet": "1x28x28", "resnet9": "3x32x32", "resnet20": "3x32x32", "airbench94": "3x32x32",
         "mobilenet": "3x32x32"}
KNOWN = re.findall(r'^X\("([^"]+)"', (ROOT / "tests/model/known_networks.def").read_text(), re.M)  # the peer has modules of these names
ALLOCATOR = {  # glibc: keep freed memory, use huge pages
    "MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "268435456",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


@dataclasses.dataclass
class Network:
    name: str
    file: pathlib.Path
    shape: str
    batch: int
    classes: int = 10


def network_of(text):
    """FILE:SHAPE:BATCH"""
    file, shape, batch = text.rsplit(":", 2)
    path = pathlib.Path(file).resolve()
    return Network(f"{path.stem} {shape}, batch {batch}", path, shape, int(batch))


def add_arguments(ap):
    """Of this program and of any other that calls measure()"""
    ap.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="an interpreter that has torch; repeat")
    ap.add_argument("--compile", action="append", default=[], metavar="NAME", help="also with torch.compile on this interpreter")
    ap.add_argument("--bf16", action="append", default=[], metavar="NAME", help="also in bf16, Lockstep and this interpreter")
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=4.0, help="timed, per run")
    ap.add_argument("--least", type=int, default=12, metavar="UPDATES", help="of Lockstep's runs, however long they take")
    ap.add_argument("--out", help="JSON file; a table is written beside it")


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                 fromfile_prefix_chars="@")
    add_arguments(ap)
    ap.add_argument("--models", help="of configs/models, by --batch; lenet,resnet20,resnet9,airbench94 unless there is a --network")
    ap.add_argument("--network", type=network_of, action="append", default=[], metavar="FILE:SHAPE:BATCH",
                    help="a network file, as bench/networks/vgg.ini:3x64x64:32; repeat. PyTorch reads it, too (needs numpy)")
    return ap.parse_args()


def networks_of(a):
    models = a.models or ("" if a.network else "lenet,resnet20,resnet9,airbench94")
    return [Network(model, ROOT / f"configs/models/{model}.ini", SHAPE[model], a.batch) for model in models.split(",") if model] + a.network


def run(command, env=None):
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def lockstep(network, ranks, threads, updates, a, precision="fp32"):
    """One training run of the program; its own summary."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = [] if ranks == 1 else [*open_mpi.words(), "-np", str(ranks), "--bind-to", "core"]
        run([*launcher, str(ROOT / "train"), str(ROOT / "configs/bench-cpu.ini"), "--quiet", "--run-dir", f"{folder}/run",
             "--set", f"model.file={network.file}", "--set", f"data.shape={network.shape}", "--set", f"data.classes={network.classes}",
             "--set", f"train.global_batch={network.batch}", "--set", f"device.threads={threads}",
             "--set", f"train.precision={precision}",
             "--set", "optimizer.lr=0.001",  # the peer's: some drawn networks diverge at more
             "--set", f"train.max_updates={updates}", "--set", f"data.test_samples={network.batch}"])
        s = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    return {"images_per_s": s["train_images_per_second"], "first_update_s": s["time_to_first_update_seconds"],
            "peak_mib": ranks * s["peak_memory_bytes"]["host"] / 2**20}


def torch(python, network, flags, a):
    shape = ["--shape", network.shape]
    if network.name in SHAPE:
        which = ["--model", network.name]
    elif network.file.stem in KNOWN:
        which = ["--model", network.file.stem, *shape]
    else:
        which = ["--network", str(network.file), *shape, "--classes", str(network.classes)]
    out = run([python, str(PEER), *which, "--batch", str(network.batch), "--threads", str(a.cores), "--repeats", "1",
               "--seconds", str(a.seconds), "--json", *flags], ALLOCATOR)
    r = json.loads(out.strip().splitlines()[-1])
    return {"images_per_s": r["images_per_s"], "first_update_s": r["first_update_s"], "peak_mib": r["peak_rss_mib"],
            "version": r["torch"]}


def arrangements(a):
    """fp32 and bf16; of each ours and theirs"""
    ours = {f"1 rank x {a.cores} threads": (1, a.cores), f"{a.cores} ranks x 1 thread": (a.cores, 1)}
    ours_bf16 = {f"{name}, bf16": how for name, how in ours.items()} if a.bf16 else {}
    theirs, theirs_bf16 = {}, {}
    for entry in a.python:
        name, path = entry.split("=", 1)
        theirs[f"torch {name}"] = (path, [])
        theirs[f"torch {name} channels_last"] = (path, ["--channels-last"])
        if name in a.compile:
            theirs[f"torch {name} compiled"] = (path, ["--channels-last", "--compile"])
        if name in a.bf16:
            theirs_bf16[f"torch {name} bf16"] = (path, ["--dtype", "bf16"])
            theirs_bf16[f"torch {name} bf16 channels_last"] = (path, ["--channels-last", "--dtype", "bf16"])
            if name in a.compile:
                theirs_bf16[f"torch {name} bf16 compiled"] = (path, ["--channels-last", "--dtype", "bf16", "--compile"])
    return (ours, theirs), (ours_bf16, theirs_bf16)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(network, a):
    fp32, bf16 = arrangements(a)
    probe = lockstep(network, 1, a.cores, a.least, a)
    updates = max(a.least, round(a.seconds * probe["images_per_s"] / network.batch))
    runs, ratios, ratios_bf16 = {name: [] for of in (*fp32, *bf16) for name in of}, [], []
    for n in range(a.rounds):
        for precision, ours in (("fp32", fp32[0]), ("bf16", bf16[0])):
            for name, (ranks, threads) in ours.items():
                runs[name].append(lockstep(network, ranks, threads, updates, a, precision))
        for name, (python, flags) in {**fp32[1], **bf16[1]}.items():
            runs[name].append(torch(python, network, flags, a))
        for sides, of_round in ((fp32, ratios), (bf16, ratios_bf16)):
            best, peer = (max((runs[name][n]["images_per_s"] for name in side), default=float("nan")) for side in sides)
            of_round.append(best / peer)
            print(f"{network.name} round {n + 1}{', bf16' if sides is bf16 else ''}: {best:.0f} / {peer:.0f} images/s = {best / peer:.2f}",
                  file=sys.stderr, flush=True)
            if not a.bf16:
                break
    result = {"ratio": spread(ratios), "arrangements": {}}
    if a.bf16:
        result["ratio_bf16"] = spread(ratios_bf16)
    for name, rows in runs.items():
        result["arrangements"][name] = {key: spread([r[key] for r in rows]) for key in ("images_per_s", "first_update_s", "peak_mib")}
        if "version" in rows[0]:
            result["arrangements"][name]["version"] = rows[0]["version"]
    return result


def best_of(result, key, choose, peer, bf16=False):
    """Of the arrangements of one side in one precision, their medians"""
    return choose(m[key]["median"] for name, m in result["arrangements"].items()
                  if name.startswith("torch") == peer and ("bf16" in name) == bf16)


def summary(models, bf16=False):
    """A line a network: the fastest arrangement of each side, and the one with the least memory"""
    lines = [f"| network{', bf16' if bf16 else ''} | PyTorch, images/s | Lockstep | ratio (range) | PyTorch, MiB | Lockstep | ratio |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, r in models.items():
        (theirs, ours), (large, small) = ([best_of(r, key, choose, peer, bf16) for peer in (True, False)]
                                          for key, choose in (("images_per_s", max), ("peak_mib", min)))
        ratio = r["ratio_bf16" if bf16 else "ratio"]
        lines.append(f"| {name} | {theirs:.0f} | {ours:.0f} | {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) | "
                     f"{large:.0f} | {small:.0f} | {small / large:.2f} |")
    return [*lines, ""]


def table(report):
    lines = [f"Lockstep {report['commit']} beside PyTorch, {report['date']}",
             f"{report['cpu']}, {report['cores']} cores, batch {report['batch']} unless named, fp32, {report['rounds']} rounds, load before {report['load']}", "",
             *summary(report["models"])]
    if all("ratio_bf16" in r for r in report["models"].values()):
        lines += summary(report["models"], bf16=True)
    for model, r in report["models"].items():
        ratio = r["ratio"]
        lines += [f"## {model}: {ratio['median']:.2f} times the best PyTorch of the round ({ratio['min']:.2f} to {ratio['max']:.2f})", ""]
        if "ratio_bf16" in r:
            narrow = r["ratio_bf16"]
            lines += [f"Both in bf16: {narrow['median']:.2f} ({narrow['min']:.2f} to {narrow['max']:.2f})", ""]
        lines += ["| arrangement | images/s (range) | first update, s | peak memory, MiB |", "| --- | --- | --- | --- |"]
        for name, m in r["arrangements"].items():
            i, f, p = m["images_per_s"], m["first_update_s"], m["peak_mib"]
            label = name + (f" ({m['version']})" if "version" in m else "")
            lines.append(f"| {label} | {i['median']:.0f} ({i['min']:.0f} to {i['max']:.0f}) | {f['median']:.2f} | {p['median']:.0f} |")
        lines.append("")
    return "\n".join(lines)


def processor():
    """Its name and the vector instructions that decide about its speed."""
    info = dict(reversed([[field.strip() for field in line.split(":", 1)] for line in open("/proc/cpuinfo") if ":" in line]))
    flags = info.get("flags", "").split()
    vectors = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX512-BF16", "amx_bf16": "AMX-BF16"}
    return ", ".join([info.get("model name", "unknown"), *(text for flag, text in vectors.items() if flag in flags)])


def circumstances(a):
    return {
        "date": datetime.date.today().isoformat(), "commit": run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip(),
        "cpu": processor(), "cores": a.cores, "batch": a.batch, "rounds": a.rounds, "seconds": a.seconds, "load": os.getloadavg()[0],
    }


def main():
    a = arguments()
    report = {**circumstances(a), "models": {}}
    for network in networks_of(a):
        report["models"][network.name] = measure(network, a)
        if a.out:  # after every network: what was measured stays if the rest is interrupted
            pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
            pathlib.Path(a.out).with_suffix(".md").write_text(table(report))
    print(table(report))


if __name__ == "__main__":
    main()
