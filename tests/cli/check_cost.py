"""What `train bench --model` prints, as JSON and as tables: check_cost.py JSON [TABLES] [--slower JSON]

Sums of parts against the whole, bounds against their parts, tables against JSON; --slower: the same update with less bandwidth, no
operator of which may be faster. Prints one line for every difference, and nothing where there is none."""
import argparse
import json
import math
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("json", type=Path)
parser.add_argument("tables", type=Path, nargs="?")
parser.add_argument("--slower", type=Path)
args = parser.parse_args()


def expect(what, seen, expected, digits=1e-9):
    if not abs(seen - expected) <= digits * max(abs(seen), abs(expected)):
        print(f"{what}: is {seen}, expected {expected}")


model = json.loads(args.json.read_text())
rows, figures = model["instructions"], model["figures"]
on_gpu = model["device"] != "cpu"
for n, row in enumerate(rows):
    name = f"{n} {row['operator']} of {row['layer']}"
    parts = {bound: row[key] for bound, key in (("memory", "memory_seconds"), ("arithmetic", "arithmetic_seconds"),
                                                ("launches", "launch_seconds"))}
    largest = max(parts.values())
    together = largest if on_gpu else sum(parts.values())
    expect(f"{name}, seconds", row["seconds"],
           together + row["launches"] * figures["gap_seconds"] + row["grid_waits"] * figures["grid_wait_seconds"])
    expect(f"{name}, the bound", parts[row["bound"]], largest)
    expect(f"{name}, launches", row["launch_seconds"], row["launches"] * figures["shortest_launch_seconds"])
    if not row["reason"]:
        print(f"{name}: without a reason")
whole = sum(row["times"] * row["seconds"] for row in rows)
first = model["points"][0] if model["points"] else None
if first is None or first["input_copy_seconds"] < whole:
    expect("the update", model["update_seconds"], whole)
expect("images/s", model["images_per_second"], model["global_batch"] / model["update_seconds"])
expect("launches", model["launches"], sum(row["times"] * row["launches"] for row in rows))
expect("all kinds", sum(model["kind_seconds"].values()), whole)
expect("all bounds", sum(model["bound_seconds"].values()), whole)
for kind, seconds in model["kind_seconds"].items():
    expect(kind, seconds, sum(row["times"] * row["seconds"] for row in rows if row["kind"] == kind))
for p in model["points"]:
    name = f"{p['ranks']} GPUs, {p['scaling']}"
    alone = next(q for q in model["points"] if q["scaling"] == p["scaling"])
    expect(f"{name}, update", p["update_seconds"],
           max(p["compute_seconds"] + p["exposed_seconds"] + p["end_seconds"], p["input_copy_seconds"]))
    expect(f"{name}, images/s", p["images_per_second"], p["global_batch"] / p["update_seconds"])
    expect(f"{name}, batch", p["global_batch"], p["ranks"] * p["micro_batch"] * p["accumulation_steps"])
    expect(f"{name}, efficiency", p["efficiency"],
           p["images_per_second"] / alone["images_per_second"] * alone["ranks"] / p["ranks"])
    if p["ranks"] > 1 and not (p["buckets"] > 0 and p["sums_seconds"] >= p["exposed_seconds"] * (1 - 1e-9) > 0):
        print(f"{name}: {p['buckets']} buckets, sums of {p['sums_seconds']} s, of them exposed {p['exposed_seconds']}")
    if not all(math.isfinite(v) for v in p.values() if isinstance(v, float)):
        print(f"{name}: not finite")

if args.tables:
    lines = [line.split() for line in args.tables.read_text().splitlines()]
    total = next(line for line in lines if line[:1] == ["all"])
    expect("the table's launches", int(total[2]), model["launches"])
    if on_gpu:  # the cpu's figures are measured anew each time
        expect("the table's microseconds", float(total[3]), whole * 1e6, 1e-3)
if args.slower:
    slower = json.loads(args.slower.read_text())
    if len(slower["instructions"]) != len(rows):
        print(f"{len(rows)} operators, and {len(slower['instructions'])} with less bandwidth")
    for row, other in zip(rows, slower["instructions"]):
        if row["seconds"] > other["seconds"]:
            print(f"{row['operator']} of {row['layer']}: {row['seconds']} s, with less bandwidth {other['seconds']}")
    if not model["update_seconds"] < slower["update_seconds"]:
        print("the update is not faster with more bandwidth")
