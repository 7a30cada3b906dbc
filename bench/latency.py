#!/usr/bin/env python3
"""How long one picture, or a small batch, takes in Lockstep beside PyTorch and onnxruntime on this machine's CPU, in turns.

Lockstep: the evaluation of a run at that batch (loading, network, loss, and each picture's outcome), its seconds over its batches, in a
process that is up; and the whole process of `train predict` for one picture. PyTorch (eager, inference mode) and onnxruntime (the file
that `train export` writes): the network alone, on pictures in memory; and their process until it has its first result.

  bench/latency.py --python /path/to/venv/bin/python [--onnxruntime PYTHON] [--models lenet,resnet20,resnet9] [--batches 1,8,32]
                   [--threads 1,2] [--rounds 3] [--seconds 1] [--train ./train] [--out bench/results/NAME.json]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import compare_pytorch
from compare_pytorch import ROOT, SHAPE, spread

PEER = ROOT / "bench/peers/latency.py"


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--python", help="an interpreter that has torch")
    ap.add_argument("--onnxruntime", metavar="PYTHON", help="an interpreter that has onnxruntime")
    ap.add_argument("--models", default="lenet,resnet20,resnet9")
    ap.add_argument("--batches", default="1,8,32")
    ap.add_argument("--threads", default=",".join(dict.fromkeys(["1", str(len(os.sched_getaffinity(0)))])))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=1.0, help="timed, per run")
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--out", help="JSON file; a table is written beside it")
    return ap.parse_args()


def train(model, folder, threads, batch, samples, a):
    """One update, then an evaluation in batches of that size; its seconds."""
    compare_pytorch.run([a.train, str(ROOT / "configs/bench-cpu.ini"), "--quiet", "--run-dir", str(folder),
                         "--set", f"model.file={ROOT}/configs/models/{model}.ini", "--set", f"data.shape={SHAPE[model]}",
                         "--set", f"train.global_batch={batch}", "--set", f"train.micro_batch={batch}",
                         "--set", "train.max_updates=1", "--set", f"data.test_samples={samples}",
                         "--set", f"device.threads={threads}"])
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event["seconds"] for event in events if event["event"] == "eval"][-1]


def lockstep(model, threads, batch, work, a):
    """Of two evaluations the difference: without what an evaluation costs once."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        few, folder = 4 * batch, pathlib.Path(folder)
        probe = train(model, folder / "probe", threads, batch, 20 * batch, a) / 20
        many = few + max(16, round(a.seconds / probe)) * batch
        seconds = train(model, folder / "many", threads, batch, many, a) - train(model, folder / "few", threads, batch, few, a)
        return {"seconds": max(0.0, seconds) / ((many - few) / batch)}


def predict(model, weights, picture, threads, a):
    start = time.perf_counter()
    compare_pytorch.run([a.train, "predict", "--quiet", str(weights), str(picture), "--set", f"device.threads={threads}"])
    return time.perf_counter() - start


def peer(python, model, threads, batch, a, more=()):
    out = compare_pytorch.run([python, str(PEER), "--model", model, "--threads", str(threads), "--batch", str(batch),
                               "--seconds", str(a.seconds), *more], compare_pytorch.ALLOCATOR)
    return json.loads(out.strip().splitlines()[-1])


def write_picture(path):
    path.write_bytes(b"P6\n32 32\n255\n" + bytes(range(256)) * 12)


def measure(model, threads, batch, work, a):
    weights, onnx = work / model / "weights.safetensors", work / f"{model}.onnx"
    if not onnx.exists():
        train(model, work / model, 1, 8, 8, a)
        compare_pytorch.run([a.train, "export", "--quiet", str(weights), str(onnx)])
    rows = {}
    for _ in range(a.rounds):
        turn = {"Lockstep": lockstep(model, threads, batch, work, a)}
        if batch == 1:
            turn["Lockstep"]["first_s"] = predict(model, weights, work / "picture.ppm", threads, a)
        if a.python:
            turn["torch"] = peer(a.python, model, threads, batch, a)
        if a.onnxruntime:
            turn["onnxruntime"] = peer(a.onnxruntime, model, threads, batch, a, ["--onnx", str(onnx), "--shape", SHAPE[model]])
        for name, values in turn.items():
            rows.setdefault(name, []).append(values)
        print(model, threads, batch, {name: f"{1e3 * v['seconds']:.3f} ms" for name, v in turn.items()}, file=sys.stderr, flush=True)
    return {name: {key: spread([r[key] for r in values]) if key != "version" else values[0][key] for key in values[0]}
            for name, values in rows.items()}


def milliseconds(value):
    return f"{1e3 * value['median']:.3g} ({1e3 * value['min']:.3g} to {1e3 * value['max']:.3g})"


def table(report):
    names = [name for name in ("Lockstep", "torch", "onnxruntime") if name in report["rows"][0]["times"]]
    versions = ", ".join(report["rows"][0]["times"][name].get("version", "") for name in names[1:])
    lines = [f"A picture's way through a network: Lockstep {report['commit']} beside {versions or 'nothing'}, {report['date']}",
             f"{report['cpu']}, {report['cores']} cores, fp32, {report['rounds']} rounds, load before {report['load']}", "",
             "ms a batch, medians (ranges), in a process that is up; below, of batch 1, ms from its start to the first result", "",
             "| network | threads | batch | " + " | ".join(names) + " |", "| --- " * (3 + len(names)) + "|"]
    lines += [f"| {r['model']} | {r['threads']} | {r['batch']} | " + " | ".join(milliseconds(r["times"][n]["seconds"]) for n in names) + " |"
              for r in report["rows"]]
    lines += ["", "| network | threads | " + " | ".join(names) + " |", "| --- " * (2 + len(names)) + "|"]
    lines += [f"| {r['model']} | {r['threads']} | " + " | ".join(milliseconds(r["times"][n]["first_s"]) for n in names) + " |"
              for r in report["rows"] if r["batch"] == 1]
    return "\n".join(lines) + "\n"


def main():
    a = arguments()
    a.cores, a.batch = len(os.sched_getaffinity(0)), 0
    report = {**compare_pytorch.circumstances(a), "rows": []}
    del report["batch"]
    with tempfile.TemporaryDirectory() as work:
        write_picture(pathlib.Path(work, "picture.ppm"))
        for model in a.models.split(","):
            for threads in map(int, a.threads.split(",")):
                for batch in map(int, a.batches.split(",")):
                    report["rows"].append({"model": model, "threads": threads, "batch": batch,
                                           "times": measure(model, threads, batch, pathlib.Path(work), a)})
    print(table(report))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out).with_suffix(".md").write_text(table(report))


if __name__ == "__main__":
    main()
