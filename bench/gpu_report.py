#!/usr/bin/env python3
"""Puts what scripts/gpu-check.sh found into one JSON file and a table: bench/gpu_report.py RESULTS_FOLDER OUT_FOLDER"""
import json
import pathlib
import re
import subprocess
import sys

results, out = map(pathlib.Path, sys.argv[1:3])


def load(path):
    return json.loads(path.read_text()) if path.exists() and path.stat().st_size else None


def items():
    latest = {}
    for line in (results / "items.jsonl").read_text().splitlines():
        item = json.loads(line)
        latest[item["part"], item["item"]] = item  # a part that was run again counts once
    return list(latest.values())


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    done = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True)
    devices = load(results / "devices.json") or {}
    gpus = [d for d in devices.get("devices", []) if d.get("type") == "cuda"]
    card = gpus[0]["name"] if gpus else "unknown"
    report = {
        "commit": done.stdout.strip() or "unknown", "card": card, "devices": devices, "items": items(), "peers": load(results / "peers.json"),
        "layers": {p.parent.name.removeprefix("layers-"): load(p) for p in sorted(results.glob("layers-*/layers.json"))},
    }
    lines = [f"# {card}, Lockstep {report['commit']}", "", "| part | item | verdict | detail |", "| --- | --- | --- | --- |"]
    lines += [f"| {i['part']} | {i['item']} | {i['verdict']} | {i['detail'].replace('|', '/')} |" for i in report["items"]]
    for name, layers in report["layers"].items():
        logs = sorted(results.glob(f"layers-{name.split('-')[0]}_*_{name.split('-')[1]}.log"))
        lines += ["", f"## {name}: {layers['matmul_gflops'] / 1e3:.0f} TFLOP/s and {layers['bandwidth_gbytes']:.0f} GB/s measured", "", "```",
                  *(logs[-1].read_text().splitlines() if logs else []), "```"]
    if report["peers"]:
        lines += ["", (results / "peers.md").read_text()]
    out.mkdir(parents=True, exist_ok=True)
    stem = "gpu-" + re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-")
    (out / f"{stem}.json").write_text(json.dumps(report, indent=1) + "\n")
    (out / f"{stem}.md").write_text("\n".join(lines) + "\n")
    counts = {v: sum(i["verdict"] == v for i in report["items"]) for v in ("ok", "failed", "skipped")}
    print(f"{counts['ok']} ok, {counts['failed']} failed, {counts['skipped']} skipped; {out / stem}.json and .md")


main()
