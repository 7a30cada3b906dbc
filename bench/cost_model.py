#!/usr/bin/env python3
"""`train bench --model`: its predictions as tables, and beside measurements.

  bench/cost_model.py scale    [--device h200] [--out bench/results/DATE-cost-model-h200]
      times, strong and weak scaling of shipped networks, and what moves them; nothing is measured
  bench/cost_model.py updates  [--rounds 5] [--out bench/results/DATE-cost-model-cpu]
      measured updates of four networks on this machine's CPU beside their predictions, in turns
  bench/cost_model.py layers   CONFIG.ini --device h200 [TRAIN OPTIONS...]
      each operator, measured (`--layers`, on the device that the configuration has) beside its prediction, by kind and one by one

  bench/cost_model.py shares
      operators of traced updates on this machine's CPU beside their predictions, by algorithm: by the ratio the shares of
      src/cli/bench/cost_cpu.def are wrong

--out NAME writes NAME.md, and the predictions as NAME.json. --train: the program (./train).
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: picture, batch, precision on a GPU
NETWORKS = {
    "lenet": ("1x28x28", 128, "fp32"),
    "resnet20": ("3x32x32", 128, "bf16"),
    "resnet9": ("3x32x32", 512, "bf16"),
    "airbench94": ("3x32x32", 1024, "bf16"),
}
CPU_BATCH = 128
PLACES = "1,2,4,8,2x8,4x8,8x8,16x8,32x8,64x8,128x8"
STOPS_PAYING = 1.3  # twice the GPUs are to be worth so much


def options(network, batch=None):
    shape, own, _ = NETWORKS.get(network, ("3x32x32", CPU_BATCH, ""))
    return [str(ROOT / "configs/bench-cpu.ini"), "--set", f"model.file={ROOT}/configs/models/{network}.ini", "--set", f"data.shape={shape}",
            "--set", f"train.global_batch={batch or own}"]


def run(a, *words):
    done = subprocess.run([a.train, "bench", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def predict(a, network, device, *more):
    batch = CPU_BATCH if device == "cpu" else None
    return json.loads(run(a, *options(network, batch), "--model", device, "--json", "--quiet", *more))


def on_gpu(a, network, *more):
    return predict(a, network, a.device, "--set", f"train.precision={NETWORKS[network][2]}", *more)


def point(model, ranks, hosts, scaling):
    return next((p for p in model["points"] if (p["ranks"], p["hosts"], p["scaling"]) == (ranks, hosts, scaling)), None)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows] + [""]


# --- scale ---------------------------------------------------------------------------------------

def strong_places(a, network):
    batch = NETWORKS[network][1]
    return ",".join(p for p in PLACES.split(",") if batch % eval(p.replace("x", "*")) == 0)


def last_that_pays(curve):
    for a, b in zip(curve, curve[1:]):
        if b["images_per_second"] < STOPS_PAYING * a["images_per_second"]:
            return a["ranks"]
    return curve[-1]["ranks"]


def one_gpu(models):
    rows = []
    for network, (_, batch, precision) in NETWORKS.items():
        m = models[network]
        parts = [f"{100 * m['bound_seconds'][b] / m['update_seconds']:.0f} %" for b in ("memory", "arithmetic", "launches")]
        rows.append([network, f"{batch}, {'TF32' if precision == 'fp32' else precision}", m["launches"], f"{m['update_seconds'] * 1e3:.2f}",
                     f"{m['images_per_second']:,.0f}", *parts])
    return table(["network", "batch", "launches", "ms an update", "images/s", "memory", "arithmetic", "launches"], rows)


def strong(models):
    rows = []
    for network in NETWORKS:
        curve = [p for p in models[network]["points"] if p["scaling"] == "strong"]
        cells = [next((f"{p['speed_up']:.2f}" for p in curve if p["ranks"] == n), "-") for n in (2, 4, 8, 16, 32, 64, 128)]
        rows.append([network, curve[0]["global_batch"], *cells, last_that_pays(curve)])
    return table(["strong: speed-up on", "batch in all", "2", "4", "8", "2x8", "4x8", "8x8", "16x8", "pays up to"], rows)


def weak(models):
    rows = []
    for network in NETWORKS:
        curve = [p for p in models[network]["points"] if p["scaling"] == "weak"]
        cells = [f"{100 * p['efficiency']:.0f} %" for n in (2, 4, 8, 16, 64, 128, 1024) for p in curve if p["ranks"] == n]
        rows.append([network, curve[0]["global_batch"], *cells])
    return table(["weak: efficiency on", "batch of each", "2", "4", "8", "2x8", "8x8", "16x8", "128x8"], rows)


def moves(a):
    variants = [("buckets as chosen (auto)", "8,8x8", []), ("of 1 MiB", "8,8x8", ["--set", "dist.bucket_bytes=1048576"]),
                ("4 MiB", "8,8x8", ["--set", "dist.bucket_bytes=4194304"]),
                ("16 MiB", "8,8x8", ["--set", "dist.bucket_bytes=16777216"]),
                ("16 MiB, sums in bf16", "8,8x8", ["--set", "dist.bucket_bytes=16777216", "--set", "dist.reduce_dtype=bf16"]),
                ("16 MiB, 64 hosts of one GPU", "8x1,64x1", ["--set", "dist.bucket_bytes=16777216"]),
                ("16 MiB, no overlap", "8,8x8", ["--set", "dist.bucket_bytes=16777216", "--set", "dist.overlap=false"])]
    head, rows = ["weak: ms an update (of it exposed)"], []
    for network in ("resnet20", "resnet9", "airbench94"):
        head += [f"{network} x 8", "x 64"]
    for name, places, words in variants:
        row = [name]
        for network in ("resnet20", "resnet9", "airbench94"):
            m = on_gpu(a, network, "--scaling", "weak", "--ranks", places, *words)
            row += [f"{p['update_seconds'] * 1e3:.2f} ({p['exposed_seconds'] * 1e3:.2f})" for p in m["points"]]
        rows.append(row)
    return table(head, rows)


def scale(a):
    models = {}
    for network in NETWORKS:
        m = on_gpu(a, network, "--scaling", "strong", "--ranks", strong_places(a, network))
        m["points"] += on_gpu(a, network, "--scaling", "weak", "--ranks", PLACES)["points"]
        models[network] = m
    name = models["lenet"]["device_name"]
    lines = [f"Predicted for {name} by `bench/cost_model.py scale --device {a.device}`, {datetime.date.today()}, {version(a)}: nothing",
             "of it is measured. Micro-batches are of 512 at most.", ""]
    return lines + one_gpu(models) + strong(models) + weak(models) + moves(a), models


# --- updates -------------------------------------------------------------------------------------

def measured(a, network):
    """The shortest update, and the rate of the matrix product that was measured behind it."""
    with tempfile.TemporaryDirectory() as folder:
        run(a, *options(network, CPU_BATCH), "--set", "device.type=cpu", "--seconds", str(a.seconds), "--repeats", str(a.repeats), "--quiet",
            "--run-dir", folder)
        result = json.loads(pathlib.Path(folder, "bench.json").read_text())["arrangements"][0]
        best = min(result["measurements"], key=lambda m: m["seconds"])
        return best["seconds"] / result["updates_per_measurement"], best["matmul_gflops"]


def updates(a):
    """Of each network the round in which the machine was most alike before and during the measurement: where others use it, its speed
    changes by as much as two from one second to the next."""
    networks, best = a.networks.split(","), {}
    for n in range(a.rounds):
        for network in networks:
            before, (seconds, beside), after = predict(a, network, "cpu"), measured(a, network), predict(a, network, "cpu")

            def distance(p):
                return abs(p["figures"]["fp32_flops_per_second"] * 1e-9 / beside - 1)

            prediction = min(before, after, key=distance)
            print(f"{network} round {n + 1}: {seconds * 1e3:.1f} ms, predicted {prediction['update_seconds'] * 1e3:.1f}; matrix product "
                  f"{beside:.0f} GFLOP/s, {prediction['figures']['fp32_flops_per_second'] * 1e-9:.0f}", file=sys.stderr, flush=True)
            if network not in best or distance(prediction) < best[network][0]:
                best[network] = distance(prediction), seconds, beside, prediction
    rows = []
    for network, (_, seconds, beside, p) in best.items():
        figures = p["figures"]
        rows.append([network, f"{seconds * 1e3:.1f}", f"{p['update_seconds'] * 1e3:.1f}", f"{100 * (p['update_seconds'] / seconds - 1):+.0f} %",
                     f"{beside:.0f}", f"{figures['fp32_flops_per_second'] * 1e-9:.0f}", f"{figures['memory_bytes_per_second'] * 1e-9:.0f}"])
    lines = [f"`bench/cost_model.py updates`, {datetime.date.today()}, {version(a)}, {p['device_name']}, batch {CPU_BATCH}, fp32, of {a.rounds} rounds that in",
             f"which the matrix product was most alike in both; load {os.getloadavg()[0]:.1f}.", ""]
    return lines + table(["network", "measured, ms", "predicted, ms", "difference", "matrix product beside it, GFLOP/s", "of the prediction",
                          "memory, GB/s"], rows), {network: {"measured_seconds": s, "matmul_gflops": m, "prediction": {
                              k: v for k, v in p.items() if k != "instructions"}} for network, (_, s, m, p) in best.items()}


# --- layers --------------------------------------------------------------------------------------

def layers(a):
    prediction = json.loads(run(a, a.config, "--model", a.device, "--json", "--quiet", *a.options))
    with tempfile.TemporaryDirectory() as folder:
        run(a, a.config, "--layers", "--run-dir", folder, *a.options)
        rows = json.loads(pathlib.Path(folder, "layers.json").read_text())["instructions"]
    expected = {}
    for row in prediction["instructions"]:
        expected.setdefault((row["operator"], row["layer"]), row)
    found, kinds = [], {}
    for row in rows:
        other = expected.get((row["operator"], row["layer"])) or next(
            (r for r in prediction["instructions"] if r["operator"] == row["operator"] and row["layer"] == "all weights"), None)
        if not other:
            continue
        found.append([row["operator"], row["layer"], row["algorithm"], f"{row['seconds'] * 1e6:.1f}", f"{other['seconds'] * 1e6:.1f}",
                      f"{other['seconds'] / row['seconds']:.2f}", other["bound"], other["reason"]])
        sums = kinds.setdefault(f"{row['operator']}, {row['algorithm']}", [0, 0])
        sums[0] += row["seconds"]
        sums[1] += other["seconds"]
    lines = [f"{a.config} on {prediction['device_name']}: measured and predicted, us", ""]
    by_kind = [[k, f"{m * 1e6:.0f}", f"{p * 1e6:.0f}", f"{p / m:.2f}"] for k, (m, p) in sorted(kinds.items(), key=lambda r: -r[1][0])]
    lines += table(["operator", "measured", "predicted", "ratio"], by_kind)
    return lines + table(["operator", "layer", "algorithm", "measured", "predicted", "ratio", "bound by", "reason"], found), prediction


# --- shares --------------------------------------------------------------------------------------

def traced(a, network, updates=10, first=3):
    """Seconds of each operator, "layer operator": a quick one of its times in several updates."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([a.train, *options(network, CPU_BATCH), "--set", "device.type=cpu", "--set", f"train.max_updates={updates}",
                               "--set", "data.test_samples=128", "--quiet", "--trace", f"{folder}/trace.json", "--trace-updates",
                               f"{first}:{updates}", "--run-dir", f"{folder}/run"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{network}: exit {done.returncode}\n{done.stderr}")
        spans = json.loads(pathlib.Path(folder, "trace.json").read_text())["traceEvents"]
    times = {}
    for span in spans:
        if span.get("ph") == "X" and span.get("cat") != "host":
            times.setdefault(span["name"], []).append(span["dur"] * 1e-6)
    return {name: sorted(values)[len(values) // 4] for name, values in times.items()}


def shares(a):
    sums, record = {}, {}
    for network in [*NETWORKS, "mobilenet"]:
        prediction, times = predict(a, network, "cpu"), traced(a, network)
        record[network] = prediction["figures"]
        for row in prediction["instructions"]:
            measured_s = times.get(f"{row['layer']} {row['operator']}")
            if measured_s:
                algorithm = row["algorithm"].split(" f(")[0].split(":")[0]
                cells = sums.setdefault((row["operator"], algorithm), {}).setdefault(network, [0, 0])
                cells[0] += measured_s
                cells[1] += row["seconds"]
    networks, rows = list(record), []
    for (operator, algorithm), cells in sorted(sums.items()):
        whole, predicted = (sum(c[i] for c in cells.values()) for i in (0, 1))
        rows.append([operator, algorithm, f"{whole * 1e3:.1f}", f"{predicted / whole:.2f}",
                     *(f"{cells[n][1] / cells[n][0]:.2f}" if n in cells else "" for n in networks)])
    rates = ", ".join(f"{f['fp32_flops_per_second'] * 1e-9:.0f}" for f in record.values())
    lines = [f"predicted / measured; matrix product {rates} GFLOP/s", ""]
    return lines + table(["operator", "algorithm", "measured, ms", "all", *networks], rows), record


def version(a):
    return subprocess.run([a.train, "--version"], capture_output=True, text=True).stdout.splitlines()[0]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("part", choices=["scale", "updates", "layers", "shares"])
parser.add_argument("config", nargs="?")
parser.add_argument("--device", default="h200")
parser.add_argument("--networks", default=",".join(NETWORKS), help="of updates")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=0.1, help="of one measurement of updates, of which the shortest counts")
parser.add_argument("--repeats", type=int, default=15)
parser.add_argument("--train", default=str(ROOT / "train"))
parser.add_argument("--out")
a, a.options = parser.parse_known_args()
if (a.part == "layers") != bool(a.config):
    parser.error("CONFIG.ini goes with layers, and with nothing else")
text, record = {"scale": scale, "updates": updates, "layers": layers, "shares": shares}[a.part](a)
print("\n".join(text))
if isinstance(record, dict) and a.part == "scale":
    record = {network: {k: v for k, v in m.items() if k != "instructions"} for network, m in record.items()}
if a.out:
    pathlib.Path(a.out + ".md").write_text("\n".join(text).rstrip() + "\n")
    pathlib.Path(a.out + ".json").write_text(json.dumps(record, indent=1).replace(str(ROOT) + "/", "") + "\n")
