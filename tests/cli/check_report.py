"""A page of `train report` beside the files of its runs: check_report.py PAGE FOLDER...

Prints one line for every difference, and nothing where there is none."""
import json
import re
import sys
from pathlib import Path

from html_page import Page

SEEN = {"train": "train", "eval": "eval", "checkpoints": "checkpoint"}


def lines_of(path):
    """Objects of metrics.jsonl as they count at the end: without what was done again, and a last line that is cut off."""
    kept = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            event = json.loads(line.decode(errors="replace"))
        except ValueError:
            continue
        if event.get("event") == "start":
            at = event.get("resumed_at_update", -1)
            kept = [e for e in kept if e["event"] not in SEEN.values() or e["update"] <= at]
        kept.append(event)
    return kept


def close(a, b):
    return a is b is None or (a is not None and b is not None and abs(a - b) <= 1e-9 * max(abs(a), abs(b)))


def value_of(event, name):
    for part in name.split("."):
        event = event.get(part) if isinstance(event, dict) else None
    return event


def options_of(path):
    options, section = {}, ""
    for line in path.read_text().splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line[1:-1]
        elif "=" in line and line[0] not in ";#":
            key, value = line.split("=", 1)
            options[f"{section}.{key.strip()}"] = value.strip()
    return options


def compare_series(run, name, events):
    for key, column in run[name].items():
        if key in ("seconds", "part"):
            continue
        expected = [value_of(e, "seconds" if key == "took" else key) for e in events]
        if len(column) != len(expected) or not all(map(close, column, expected)):
            print(f"{run['name']}, {name} {key}: {column[:6]}..., expected {expected[:6]}...")


def compare(run, folder):
    for member in ("summary", "evaluation"):
        path = folder / f"{member}.json"
        try:
            expected = json.loads(path.read_text()) if path.exists() else None
        except ValueError:
            expected = None
        expected = expected if isinstance(expected, dict) else None
        if run.get(member) != expected:
            print(f"{folder}: {member} differs: {str(run.get(member))[:200]}, expected {str(expected)[:200]}")
    if (folder / "config.ini").exists() and run.get("options") != options_of(folder / "config.ini"):
        print(f"{folder}: options: {run.get('options')}")
    if not (folder / "metrics.jsonl").exists():
        return
    events = lines_of(folder / "metrics.jsonl")
    for name, event in SEEN.items():
        compare_series(run, name, [e for e in events if e["event"] == event])
    others = [e["event"] for e in events if e["event"] not in SEEN.values()]
    if [e["event"] for e in run["events"]] != others:
        print(f"{folder}: events {[e['event'] for e in run['events']]}, expected {others}")


def main():
    page = Page(sys.argv[1])
    for problem in page.problems:
        print(f"{sys.argv[1]}: {problem}")
    folders = [Path(f) for f in sys.argv[2:]]
    runs = page.data["runs"]
    if [r["path"] for r in runs] != [str(f) for f in folders]:
        print(f"runs {[r['path'] for r in runs]}, expected {folders}")
    for run, folder in zip(runs, folders):
        compare(run, folder)
    if not re.fullmatch(r"\d+", page.data["defaults"].get("train.epochs", "")):
        print("no defaults")


main()
