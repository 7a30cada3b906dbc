"""One JSON file and a table of what a record holds: report.json and report.md beside it."""
import json
import re

from record import CUT, FAILED, OK, SKIPPED


def latest_note(record, what):
    notes = [entry for entry in record.entries if entry.get("note") == what]
    return notes[-1] if notes else {}


def load(path):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def collect(record):
    machine = latest_note(record, "machine")
    return {"card": machine.get("card", "unknown"), "program": machine.get("program", "unknown"), "origin": machine.get("origin", "unknown"),
            "calls": [entry for entry in record.entries if "note" in entry], "items": list(record.finished().values()),
            "peers": load(record.folder / "peers.json")}


def counts(items):
    return {verdict: sum(item["verdict"] == verdict for item in items) for verdict in (OK, FAILED, SKIPPED, CUT)}


def cell(text):
    return re.sub(r"[\x00-\x1f\x7f]+", " ", str(text)).replace("|", "/")


def table(report):
    lines = [f"# {cell(report['card'])}, {cell(report['program'])}", "", f"The program was {cell(report['origin'])}.", "",
             "| item | verdict | seconds | detail |", "| --- | --- | --- | --- |"]
    lines += [f"| {cell(i['item'])} | {i['verdict']} | {i['seconds']} | {cell(i['detail'])} |" for i in report["items"]]
    for item in report["items"]:
        text = item.get("data", {}).get("table")
        if text:
            lines += ["", f"## {cell(item['item'])}", "", "```", text.rstrip(), "```"]
    peers = (report["peers"] or {}).get("table")
    return "\n".join(lines + (["", peers] if peers else [])) + "\n"


def write(record):
    report = collect(record)
    for name, text in (("report.json", json.dumps(report, indent=1) + "\n"), ("report.md", table(report))):
        new = record.folder / f"{name}.new"  # whole or not at all
        new.write_text(text)
        new.replace(record.folder / name)
    return report


def publish(record, folder):
    """Writes the table into a repository's folder of results, named after the card."""
    report = collect(record)
    page = folder / ("gpu-" + (re.sub(r"[^a-z0-9]+", "-", report["card"].lower()).strip("-") or "unknown") + ".md")
    folder.mkdir(parents=True, exist_ok=True)
    page.write_text(table(report))
    return page
