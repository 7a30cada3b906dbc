"""The files of `train bench` beside each other and beside the table: check_bench.py FOLDER TABLE

Prints one line for every difference, and nothing where there is none."""
import json
import math
import sys
from pathlib import Path

from html_page import Page

folder, table = Path(sys.argv[1]), Path(sys.argv[2]).read_text()


def differ(what, seen, expected):
    print(f"{what}: is {seen}, expected {expected}")


def close(a, b, digits):
    return abs(a - b) <= digits * max(abs(a), abs(b), 1e-300)


findings = json.loads((folder / "bench.json").read_text())
arrangements = findings["arrangements"]

for a in arrangements:
    # what follows from the measurements
    name, rates = a["arrangement"], sorted(m["images_per_second"] for m in a["measurements"])
    half = len(rates) // 2
    median = rates[half] if len(rates) % 2 else (rates[half - 1] + rates[half]) / 2
    base = next(b for b in arrangements if b["arrangement"] == a["efficiency_over"])
    expected = {
        "images_per_second": median,
        "images_per_second_lowest": rates[0],
        "images_per_second_highest": rates[-1],
        "speed_up": median / arrangements[0]["images_per_second"],
        "efficiency": median / base["images_per_second"] * base["ranks"] / a["ranks"],
        "unit_efficiency": median / base["images_per_second"] * base["units"] / a["units"],
        "update_seconds": a["global_batch"] / median,
        "gflops": median * a["flops_per_sample"] * 1e-9,
    }
    for key, value in expected.items():
        if not close(a[key], value, 1e-9):
            differ(f"{name}, {key}", a[key], value)
    if len(rates) != findings["rounds"]:
        differ(f"{name}, measurements", len(rates), findings["rounds"])
    for m in a["measurements"]:
        images = m["images_per_second"] * m["seconds"]
        if not close(images, a["updates_per_measurement"] * a["global_batch"], 1e-9):
            differ(f"{name}, images of a measurement", images, a["updates_per_measurement"] * a["global_batch"])

    # the table's first line of this arrangement
    line = next((l for l in table.splitlines() if l.startswith(name + "  ")), "")
    for text in (f"{a['images_per_second']:.1f}", f"{a['speed_up']:.2f}", f"{100 * a['efficiency']:.1f} %"):
        if text not in line:
            differ(f"{name}, line of the table", repr(line), text)

for link in findings["links"]:
    name = f"all-reduces of {link['ranks']} ranks"
    times = [(m["bytes"], m["seconds"]) for m in link["measurements"]]
    errors = [(link["latency_seconds"] + n / (link["bytes_per_second"] or math.inf)) / s - 1 for n, s in times]
    if len(times) < 4 or not close(link["relative_rms"], math.sqrt(sum(e * e for e in errors) / len(errors)), 1e-6):
        differ(f"{name}, relative_rms", link["relative_rms"], errors)

if (folder / "bench.html").exists():
    page = Page(folder / "bench.html")
    for problem in page.problems:
        print(f"bench.html: {problem}")
    if [b["bench"] for b in page.data["benches"]] != [findings]:
        differ("bench.html, its data", page.data["benches"], "bench.json")
