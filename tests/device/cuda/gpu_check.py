"""The driver of scripts/gpu-check.sh with stand-ins for its items: what a killed check leaves behind, and where the next call goes on.

  gpu_check.py            the test
  gpu_check.py --call FOLDER MINUTES PROGRAM [EARLIER]   one call of the driver, with the items below. Files in FOLDER's parent: `slow` makes
                          the slow item sleep, which then writes its processes to `pids`; `ran` gets a line of each item that ran
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/gpu_check"))
sys.dont_write_bytecode = True

import driver    # noqa: E402
import record    # noqa: E402
import report    # noqa: E402


# --- the stand-ins

def note(check, name):
    with open(check.record.folder.parent / "ran", "a") as file:
        file.write(name + "\n")


def good(check):
    note(check, "good")
    done = check.run(["sh", "-c", "echo for the log; echo unwell >&2"])
    if (done.out, done.err) != ("for the log\n", "unwell\n"):
        raise driver.Failed(f"stdout and stderr are not apart: {done}")
    return "all well", {"table": "a | b"}


def bad(check):
    note(check, "bad")
    check.run(["sh", "-c", "echo 'it is | broken' >&2; exit 3"])


def lacking(check):
    note(check, "lacking")
    check.run(["sh", "-c", "echo 'skipped: no such thing'; exit 77"])


def slow(check):
    note(check, "slow")
    nap = 60 if (check.record.folder.parent / "slow").exists() else 0
    if nap and check.deadline != float("inf"):
        check.deadline = time.monotonic() + 0.3  # as if the items before had taken long
    # a child, one in a session of its own, and one in a session of its own whose parent has ended
    check.run(["sh", "-c", f"""echo half of it
        sleep {nap} & pids="$$ $!"
        setsid sleep {nap} & pids="$pids $!"
        pids="$pids $(setsid sh -c 'sleep {nap} >/dev/null 2>&1 & echo $!')"
        echo $pids >{check.record.folder.parent}/pids
        wait"""])
    return "through"


def last(check):
    note(check, "last")
    return "the end"


def own_fault(_check):
    return {}["no such key"]


ITEMS = [driver.Item("a/good", 1, 10, good), driver.Item("a/bad", 1, 10, bad), driver.Item("a/lacking", 1, 10, lacking),
         driver.Item("b/own-fault", 1, 10, own_fault), driver.Item("b/slow", 1, 30, slow), driver.Item("b/last", 2, 10, last)]


def call(folder, minutes, program, earlier=None):
    driver.handle_signals()
    check = driver.Check(record.Record(folder, earlier), minutes)
    check.root, check.program = ROOT, program
    check.record.note("machine", card="A card", program=program, origin="a stand-in")
    try:
        return driver.run(check, ITEMS)
    except driver.Ended as signalled:
        return 128 + signalled.args[0]


# --- the test

failures = 0


def expect(what, got, expected):
    global failures
    if got != expected:
        failures += 1
        print(f"FAILED {what}: {got!r}, expected {expected!r}")


class Folder:
    def __init__(self, path):
        self.path, self.results = path, path / "results"

    def start(self, minutes=0, program="one", results=None, earlier=()):
        return subprocess.Popen([sys.executable, __file__, "--call", str(results or self.results), str(minutes), program, *map(str, earlier)],
                                stdout=subprocess.PIPE, text=True)

    def make_slow(self, wanted):
        (self.path / "slow").unlink(missing_ok=True)
        if wanted:
            (self.path / "slow").touch()

    def ran(self):
        names = (self.path / "ran").read_text().split() if (self.path / "ran").exists() else []
        (self.path / "ran").unlink(missing_ok=True)
        return names

    def verdicts(self, results=None):
        return {name: entry["verdict"] for name, entry in record.Record.finished(reader(results or self.results)).items()}

    def wait_for_slow(self):
        """The processes of the slow item, which sleep."""
        for _ in range(300):
            if (self.path / "pids").exists() and (numbers := (self.path / "pids").read_text()).endswith("\n"):
                (self.path / "pids").unlink()
                return [int(number) for number in numbers.split()]
            time.sleep(0.05)
        sys.exit("FAILED the slow item did not begin")

    def detail(self, name):
        return record.Record.finished(reader(self.results))[name]["detail"]


class Reader:
    begun_here = 0


def reader(folder):
    """A record as it lies there, without what opening one does."""
    found = Reader()
    found.entries = record.read_lines(folder / "record.jsonl")
    return found


def is_alive(pid):
    for _ in range(200):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


FINISHED = {"a/good": "ok", "a/bad": "failed", "a/lacking": "skipped", "b/own-fault": "failed"}


def ended_by(f, number, expected_code):
    """A call that is killed in its slow item: everything before it is there."""
    child = f.start()
    sleepers = f.wait_for_slow()
    child.send_signal(number)
    child.communicate()
    expect(f"{number.name}: exit", child.returncode, expected_code)
    expect(f"{number.name}: its command and all that it started have ended", [is_alive(pid) for pid in sleepers], [False] * 4)
    expect(f"{number.name}: what was finished", {k: v for k, v in f.verdicts().items() if k in FINISHED}, FINISHED)
    text = (f.results / "report.md").read_text()
    expect(f"{number.name}: in the report", [part in text for part in ("| a/good | ok |", "exit 3; it is / broken |", "a | b", "# A card, one")], [True] * 4)
    expect(f"{number.name}: report.json", {i["item"]: i["verdict"] for i in json.loads((f.results / "report.json").read_text())["items"]}.get("a/good"), "ok")


def killed_and_continued(f):
    f.make_slow(True)
    ended_by(f, signal.SIGTERM, 128 + 15)
    expect("after SIGTERM", (f.verdicts()["b/slow"], f.detail("b/slow")), ("cut", "ended by SIGTERM"))
    expect("first call ran", f.ran(), ["good", "bad", "lacking", "slow"])
    ended_by(f, signal.SIGKILL, -9)
    expect("what was finished is not done again, what was skipped is tried", f.ran(), ["lacking", "slow"])
    expect("its output so far", (f.results / "running.out").read_text(), "half of it\n")
    with open(f.results / "record.jsonl", "a") as file:  # as if killed while it wrote
        file.write('{"item": "b/slow", "verd')
    f.make_slow(False)
    child = f.start()
    out = child.communicate()[0]
    expect("third call goes on", f.ran(), ["lacking", "slow", "last"])
    expect("third call: all", f.verdicts(), {**FINISHED, "b/slow": "ok", "b/last": "ok"})
    expect("third call: says so", "ok      b/slow" in out and "a/good" not in out, True)
    log = (f.results / "logs.txt").read_text()
    expect("logs", [log.count(part) for part in ("== a/good: ok", "\nfor the log\n", "== b/slow: under way when the check was killed")], [1, 1, 1])
    expect("files", sorted(p.name for p in f.results.iterdir()), ["logs.txt", "record.jsonl", "report.json", "report.md"])


def another_program(f):
    f.start(program="two").communicate()
    expect("another program: what failed is tried again, what was well is not", f.ran(), ["bad", "lacking"])


def carried_to_another_machine(f):
    other = f.path / "other"
    f.start(program="two", results=other, earlier=[f.results]).communicate()
    expect("carried results: nothing is done again", f.ran(), ["lacking"])
    expect("carried results: are there", f.verdicts(other)["b/slow"], "ok")


def out_of_time(f):
    f.make_slow(True)
    f.start(minutes=5).communicate()
    expect("out of time: cut", (f.verdicts()["b/slow"], "b/last" in f.verdicts()), ("cut", False))
    f.ran()
    expect("out of time: says what is left", "items are left" in f.start((driver.RESERVE_S - 1) / 60).communicate()[0], True)
    expect("no time at all: nothing is begun", f.ran(), [])


def deadly(f):
    f.make_slow(True)
    for _ in range(record.DEATHS_MAX):
        child = f.start()
        f.wait_for_slow()
        child.kill()
        child.communicate()
    f.start().communicate()
    expect("what kills the check twice is left out", (f.verdicts()["b/slow"], f.verdicts().get("b/last")), ("failed", "ok"))
    expect("and says why", f.detail("b/slow"), "the check was killed 2 times while it ran")


def main():
    for test in ((killed_and_continued, another_program, carried_to_another_machine), (out_of_time,), (deadly,)):
        with tempfile.TemporaryDirectory() as path:
            f = Folder(pathlib.Path(path))
            for step in test:
                step(f)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        folder, minutes, program, *earlier = sys.argv[2:]
        sys.exit(call(pathlib.Path(folder), float(minutes), program, pathlib.Path(earlier[0]) if earlier else None))
    main()
