#!/usr/bin/env python3
"""trace_report.py - what a trace of `train CONFIG --trace FILE` says about each rank's updates.

    scripts/trace_report.py FILE [FILE]...           a table for each trace
    scripts/trace_report.py --json FILE [FILE]...    the same figures as one JSON object, for programs

Columns, medians over the traced updates, in ms:

    update       from the end of the update before to its own
    compute      instructions, and what ends an update, were running
    sums         at least one bucket was in flight
    overlapped   ... while an instruction was running
    exposed      a bucket was complete and not yet summed over the ranks, and no instruction was running
    loader       the host waited for a batch

All of it is computed from the spans alone. The program keeps a counter of its own for the exposed time (comm_seconds_exposed in
metrics.jsonl); the last lines say how far the two differ over all traced updates. Needs Python 3.8 or newer and no packages.
"""
import argparse
import bisect
import json
import statistics
import sys

COLUMNS = ("update", "compute", "sums", "overlapped", "exposed", "loader")


def union(intervals):
    """Sorted intervals that do not touch, covering the same time."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in intervals)


def covered(intervals, cover):
    """How much of `intervals` lies in `cover`; both as union() gives them."""
    ends = [end for _, end in cover]
    total = 0.0
    for start, end in intervals:
        i = bisect.bisect_right(ends, start)
        while i < len(cover) and cover[i][0] < end:
            total += min(end, cover[i][1]) - max(start, cover[i][0])
            i += 1
    return total


class Rank:
    def __init__(self, events):
        about = next(e["args"] for e in events if e["ph"] == "M" and e["name"] == "process_name")
        self.name = about["name"]
        self.dropped = about["spans_dropped"]
        self.clock_error_us = about["clock_error_us"] + about["device_clock_error_us"]
        self.counted_ms = {"exposed": 1e3 * about["comm_seconds_exposed"], "loader": 1e3 * about["loader_wait_seconds"]}
        self.spans = {}
        for e in events:
            if e["ph"] == "X":
                self.spans.setdefault(e["cat"], []).append(e)

    def of(self, lane, update=None, name=None):
        return [e for e in self.spans.get(lane, ())
                if (update is None or e["args"].get("update") == update) and (name is None or e["name"] == name)]

    def update(self, number, before, compute):
        """Figures of an update in ms, and when it ended in us."""
        mine = self.of("compute", number)
        end = max(e["ts"] + e["dur"] for e in mine)
        buckets = self.of("gradients", number)
        flying = union((e["ts"], e["ts"] + e["dur"]) for e in buckets)
        open_since = union((e["args"].get("ready", e["ts"]), e["ts"] + e["dur"]) for e in buckets)
        figures = {
            "update": end - before,
            "compute": length(union((e["ts"], e["ts"] + e["dur"]) for e in mine)),
            "sums": length(flying),
            "overlapped": covered(flying, compute),
            "exposed": length(open_since) - covered(open_since, compute),
            "loader": sum(e["dur"] for e in self.of("waits", number, "loader")),
        }
        return {name: us / 1e3 for name, us in figures.items()}, end

    def report(self):
        compute = union((e["ts"], e["ts"] + e["dur"]) for e in self.of("compute"))
        numbers = sorted({e["args"]["update"] for e in self.of("compute")})
        before = min(e["ts"] for e in self.of("host", numbers[0]) or self.of("compute", numbers[0]))
        rows = []
        for number in numbers:
            figures, before = self.update(number, before, compute)
            rows.append(figures)
        return {
            "name": self.name,
            "updates": len(rows),
            "first_update": numbers[0],
            "spans_dropped": self.dropped,
            "clock_error_us": self.clock_error_us,
            "median_ms": {c: statistics.median(row[c] for row in rows) for c in COLUMNS},
            "sum_ms": {c: sum(row[c] for row in rows) for c in COLUMNS},
            "counted_ms": self.counted_ms,
        }


def read(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    if trace.get("otherData", {}).get("program") != "lockstep":
        sys.exit(f"{path}: not a trace of `train CONFIG --trace FILE`")
    by_rank = {}
    for event in trace["traceEvents"]:
        by_rank.setdefault(event["pid"], []).append(event)
    return [Rank(by_rank[pid]).report() for pid in sorted(by_rank)]


def difference(spans_ms, counted_ms):
    if max(spans_ms, counted_ms) == 0:
        return "both say none"
    return f"they differ by {abs(spans_ms - counted_ms) / max(spans_ms, counted_ms):.1%}"


def show(path, ranks):
    first = ranks[0]
    print(f"{path}: updates {first['first_update']} to {first['first_update'] + first['updates'] - 1}, medians in ms")
    print(f"  {'rank':>4}" + "".join(f"{c:>12}" for c in COLUMNS) + f"{'share':>10}")
    for number, rank in enumerate(ranks):
        median = rank["median_ms"]
        share = median["exposed"] / median["update"] if median["update"] else 0
        print(f"  {number:>4}" + "".join(f"{median[c]:>12.3f}" for c in COLUMNS) + f"{share:>10.1%}")
    for number, rank in enumerate(ranks):
        for what, label in (("exposed", "exposed communication"), ("loader", "waiting for the loader")):
            spans, counted = rank["sum_ms"][what], rank["counted_ms"][what]
            print(f"  rank {number}: {label}, all updates: {spans:.3f} ms by the spans, {counted:.3f} ms by the program's counter: "
                  f"{difference(spans, counted)}")
        if rank["spans_dropped"]:
            print(f"  rank {number}: {rank['spans_dropped']} spans did not fit: trace fewer updates")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reports = {path: read(path) for path in options.files}
    if options.json:
        json.dump(reports, sys.stdout, indent=2)
        print()
        return
    for path, ranks in reports.items():
        show(path, ranks)


if __name__ == "__main__":
    main()
