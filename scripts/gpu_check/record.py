"""What the check has found, in a folder that outlives it. Every finished item is a line of record.jsonl, on disk before the next item
begins; an item's output is in running.out and running.err while it runs and at the end of logs.txt afterwards. A few flat files, so that
the folder can be carried from call to call and from machine to machine: a later call reads it and goes on."""
import json
import os
import shutil
import time

OK, FAILED, SKIPPED, CUT = "ok", "failed", "skipped", "cut"  # cut: ended before it was through, by the time that was given or a signal
DEATHS_MAX = 2  # an item under way when the check was killed is begun again, but not for ever: it may be what kills
LOG_BYTES_MAX = 8 << 20


class Record:
    def __init__(self, folder, earlier=None):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if earlier and earlier.resolve() != folder.resolve():
            self._take(earlier)
        self.path = folder / "record.jsonl"
        self.entries = read_lines(self.path)
        self.begun_here = len(self.entries)  # entries from here on are this call's
        under_way = self.entries[-1].get("item", "") if self.entries and self.entries[-1].get("begun") else ""
        self._keep_output(f"{under_way}: under way when the check was killed")

    def _take(self, earlier):
        """Files of an earlier call's folder that this one lacks."""
        for path in sorted(earlier.iterdir()) if earlier.is_dir() else []:
            if path.is_file() and not (self.folder / path.name).exists():
                shutil.copyfile(path, self.folder / path.name)

    def _append(self, entry):
        entry = {**entry, "time": round(time.time(), 1)}
        self.entries.append(entry)
        torn = self.path.exists() and self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n")
        with open(self.path, "a") as file:
            file.write(("\n" if torn else "") + json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def begin(self, item, program):
        self._append({"item": item, "begun": True, "program": program})

    def end(self, item, program, verdict, detail, seconds, data=None):
        self._append({"item": item, "verdict": verdict, "detail": detail, "seconds": round(seconds, 1), "program": program,
                      **({"data": data} if data else {})})
        self._keep_output(f"{item}: {verdict}; {detail}")

    def note(self, what, **facts):
        """Of the call, not of an item: which program, which card."""
        self._append({"note": what, **facts})

    def outputs(self):
        return self.folder / "running.out", self.folder / "running.err"

    def output_tail(self, lines=12):
        """The last lines that the item under way printed, errors after the rest."""
        texts = [path.read_text(errors="replace").splitlines()[-lines:] for path in self.outputs() if path.exists()]
        return [line for text in texts for line in text]

    def _keep_output(self, title):
        """Moves what the last item printed to the end of logs.txt, which is cut at its front where it grows too long."""
        kept = b""
        for path in self.outputs():
            if path.exists():
                text = path.read_bytes()
                kept += b"\n-- " + path.suffix[1:].encode() + b"\n" + text if text else b""
                path.unlink()
        if not kept:
            return
        log = self.folder / "logs.txt"
        text = (log.read_bytes() if log.exists() else b"") + f"\n== {title}\n".encode() + kept
        log.write_bytes(text[-LOG_BYTES_MAX:])

    def finished(self, here=False):
        """The last verdict of every item, in the order in which they were first begun; here: of this call alone."""
        last = {}
        for entry in self.entries[self.begun_here if here else 0:]:
            if "verdict" in entry:
                last[entry["item"]] = entry
        return last

    def is_done(self, item, program, of_program=False):
        """A passed item stays done, one of_program only for the same program; a failed one until another program is there; a skipped or cut
        one is tried again."""
        last = self.finished().get(item)
        if not last or last["verdict"] not in (OK, FAILED):
            return False
        return last["program"] == program or (last["verdict"] == OK and not of_program)

    def deaths(self, item, program):
        """How often the check was killed in this item, since it last ended."""
        count = 0
        for entry in self.entries:
            if entry.get("item") == item:
                count = count + 1 if entry.get("begun") and entry["program"] == program else 0
        return count


def read_lines(path):
    """Entries of a record; a line that was torn when the check was killed is none."""
    entries = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except ValueError:
            pass
    return entries
