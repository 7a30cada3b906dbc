#!/usr/bin/env python3
"""Training throughput of Lockstep beside PyTorch on this machine's GPU, interleaved in one run.

Every round runs each arrangement once: Lockstep with data from the ring and resident on the card; PyTorch (channels_last, data resident
on the card, fused SGD, cuDNN's benchmark mode) eager, with torch.compile (reduce-overhead: CUDA graphs), and as one CUDA graph of the
whole step. Reported are the median and the range over rounds of images/s, and of the ratios of the better Lockstep to each of them.

  bench/compare_pytorch_gpu.py [--train build/gpu/bin/train] [--networks resnet9:512:bf16,lenet:128:fp32] [--rounds 3] [--out NAME.json]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEER = ROOT / "bench/peers/torch_throughput.py"
SHAPE = {"lenet": "1x28x28", "resnet9": "3x32x32", "resnet20": "3x32x32"}
PYTORCH = {"eager": [], "compiled": ["--compile", "reduce-overhead"], "one graph": ["--cuda-graph"]}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def lockstep(network, loader, updates, a):
    model, batch, precision = network
    with tempfile.TemporaryDirectory() as folder:
        run([a.train, str(ROOT / "configs/bench-cpu.ini"), "--quiet", "--run-dir", f"{folder}/run", "--set", "device.type=cuda",
             "--set", f"model.file={ROOT}/configs/models/{model}.ini", "--set", f"data.shape={SHAPE[model]}", "--set", f"data.train_samples={batch * 100}",
             "--set", f"train.global_batch={batch}", "--set", f"train.micro_batch={batch}", "--set", f"train.precision={precision}",
             "--set", "train.epochs=1000", "--set", f"train.max_updates={updates}", "--set", f"data.test_samples={batch}",
             "--set", f"data.loader={loader}", "--set", "train.eval_every=0", "--set", f"device.autotune={a.autotune}"])
        s = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    return {"images_per_s": s["train_images_per_second"], "first_update_s": s["time_to_first_update_seconds"]}


def pytorch(network, flags, a):
    model, batch, precision = network
    out = run([sys.executable, str(PEER), "--model", model, "--device", "cuda", "--batch", str(batch), "--dtype", precision, "--channels-last",
               "--fused", "--tf32", "--repeats", "1", "--seconds", str(a.seconds), "--json", *flags])
    r = json.loads(out.strip().splitlines()[-1])
    return {"images_per_s": r["images_per_s"], "first_update_s": r["first_update_s"]}


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def measure(network, a):
    probe = lockstep(network, "resident", 200, a)
    updates = max(200, round(a.seconds * probe["images_per_s"] / network[1]))
    arrangements = {f"lockstep {loader}": (lambda l=loader: lockstep(network, l, updates, a)) for loader in ("stream", "resident")}
    arrangements |= {f"pytorch {name}": (lambda f=flags: pytorch(network, f, a)) for name, flags in PYTORCH.items()}
    runs = {name: [] for name in arrangements}
    for n in range(a.rounds):
        for name, once in arrangements.items():
            runs[name].append(once())
            print(f"{':'.join(map(str, network))} round {n + 1}: {name} {runs[name][-1]['images_per_s']:.0f}", file=sys.stderr, flush=True)
    best = [max(runs[f"lockstep {l}"][n]["images_per_s"] for l in ("stream", "resident")) for n in range(a.rounds)]
    return {"network": dict(zip(("model", "batch", "precision"), network)),
            "arrangements": {k: {f: spread([r[f] for r in v]) for f in ("images_per_s", "first_update_s")} for k, v in runs.items()},
            "ratios": {k: spread([best[n] / v[n]["images_per_s"] for n in range(a.rounds)]) for k, v in runs.items() if k.startswith("pytorch")}}


def table(report):
    lines = [f"Lockstep beside PyTorch {report['torch']} on {report['card']}, {report['rounds']} rounds, interleaved", ""]
    for r in report["networks"]:
        n = r["network"]
        lines += [f"## {n['model']}, batch {n['batch']}, {n['precision']}", "",
                  "| arrangement | images/s (range) | first update, s | Lockstep is so many times as fast |", "| --- | --- | --- | --- |"]
        for name, m in r["arrangements"].items():
            i, ratio = m["images_per_s"], r["ratios"].get(name)
            times = f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})" if ratio else ""
            lines.append(f"| {name} | {i['median']:.0f} ({i['min']:.0f} to {i['max']:.0f}) | {m['first_update_s']['median']:.2f} | {times} |")
        lines.append("")
    return "\n".join(lines)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--networks", default="resnet9:512:bf16,lenet:128:fp32,resnet20:128:bf16")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=2.0)
    ap.add_argument("--autotune", default="true", choices=["true", "false"])
    ap.add_argument("--out")
    a = ap.parse_args()
    import torch  # only for its version and the card's name: the measurements have processes of their own
    networks = [(m, int(b), p) for m, b, p in (n.split(":") for n in a.networks.split(","))]
    report = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "rounds": a.rounds, "seconds": a.seconds,
              "networks": [measure(n, a) for n in networks]}
    print(table(report))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out).with_suffix(".md").write_text(table(report))


main()
