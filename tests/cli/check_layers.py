"""layers.json of `train bench --layers` beside its table: check_layers.py LAYERS_JSON TABLE

Prints one line for every difference, and nothing where there is none."""
import json
import sys
from pathlib import Path

found, table = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]).read_text().splitlines()
flops_per_s, bytes_per_s = found["matmul_gflops"] * 1e9, found["bandwidth_gbytes"] * 1e9
if not flops_per_s > 0 or not bytes_per_s > 0:
    print(f"limits: {flops_per_s} FLOP/s, {bytes_per_s} bytes/s")
for name in ("floor, us", "time / floor"):
    if name not in table[0]:
        print(f"the table has no column '{name}': {table[0]}")
rows = found["instructions"]
if len(rows) < 10:
    print(f"only {len(rows)} instructions")
for row, line in zip(rows, table[1:]):
    name = f"{row['operator']} of {row['layer']}"
    floor_s = max(row["flops"] / flops_per_s, row["bytes"] / bytes_per_s)
    if abs(row["floor_seconds"] - floor_s) > 1e-9 * floor_s:
        print(f"{name}: floor is {row['floor_seconds']}, expected {floor_s}")
    if abs(row["times_floor"] * floor_s - row["seconds"]) > 1e-9 * row["seconds"]:
        print(f"{name}: time / floor is {row['times_floor']}, expected {row['seconds'] / floor_s}")
    cells = line.split()
    for text in (f"{1e6 * row['seconds']:.1f}", f"{1e6 * floor_s:.1f}", f"{row['seconds'] / floor_s:.2f}"):
        if text not in cells:
            print(f"{name}: the table's line has no {text}: {line}")
