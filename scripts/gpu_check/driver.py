"""Runs items of a table within the minutes given: what is finished is recorded at once and not done again at the next call."""
import dataclasses
import os
import signal
import subprocess
import sys
import time
import typing

import keep
import report
from record import CUT, DEATHS_MAX, FAILED, OK, SKIPPED

RESERVE_S = 5  # for the report and the end


class Failed(Exception):
    """An item that found something wrong: its text is the detail."""


class Skipped(Exception):
    """An item for which something is missing here."""


class OutOfTime(Exception):
    """The minutes of this call are over."""


class Ended(Exception):
    """A signal that ends the check."""


@dataclasses.dataclass(frozen=True)
class Item:
    name: str      # PART/NAME
    seconds: int   # expected on a card: with less time left it waits for the next call
    limit: int     # seconds after which it counts as failed
    work: typing.Callable  # of the check; returns the detail, or (detail, data)
    of_program: bool = False  # a measurement: another program is measured again

    @property
    def part(self):
        return self.name.split("/")[0]


@dataclasses.dataclass(frozen=True)
class Done:
    out: str
    err: str
    rc: int

    def last_line(self):
        return ((self.err.strip() or self.out.strip()).splitlines() or [""])[-1][:300]


class Check:
    """What items work with: the program, a folder for their files, commands with a limit."""

    def __init__(self, record, minutes):
        self.record, self.began = record, time.monotonic()
        self.deadline = self.began + 60 * minutes - RESERVE_S if minutes else float("inf")
        self.bin = self.work = self.python = self.root = None
        self.program, self.card, self.emulated = "", "", False
        self.item_ends = float("inf")

    def left(self):
        return self.deadline - time.monotonic()

    def begin(self, item_limit):
        slack = 20 if self.emulated else 1  # there it only ends what hangs: the host may be busy
        self.item_ends = time.monotonic() + slack * item_limit

    def run(self, command, limit=None, env=None, fails=True):
        """A command of the current item; all that it started has ended when this returns, or soon after this process has ended. Raises
        Failed where it exits with anything but 0 (not with fails=False), Skipped at 77, OutOfTime when the call's minutes are over."""
        limit = min(limit or float("inf"), self.item_ends - time.monotonic())
        out, err = self.record.outputs()
        command = [str(word) for word in command]
        with open(out, "ab") as out_file, open(err, "ab") as err_file:
            err_file.write(f"$ {' '.join(command)}\n".encode())
            err_file.flush()
            starts = out_file.tell(), err_file.tell()
            keeper = subprocess.Popen([sys.executable, "-I", keep.__file__, *command], cwd=self.root, stdin=subprocess.DEVNULL, stdout=out_file,
                                      stderr=err_file, env={**os.environ, **(env or {})}, start_new_session=True,
                                      preexec_fn=lambda: keep.end_with_parent(signal.SIGTERM))
            try:
                keeper.wait(max(0.1, min(limit, self.left())))
            except subprocess.TimeoutExpired:
                raise (OutOfTime("the minutes of this call were over") if self.left() <= 0 else Failed(f"not through after {limit:.0f} s: {' '.join(command)[:200]}")) from None
            finally:
                keeper.terminate()
                keeper.wait()
        texts = [path.read_bytes()[start:].decode(errors="replace") for path, start in zip((out, err), starts)]
        done = Done(*texts, keeper.returncode)
        if fails and done.rc == 77:
            lines = [line for line in done.out.splitlines() if line.startswith("skipped: ")]
            raise Skipped(lines[0].removeprefix("skipped: ") if lines else "exit 77")
        if fails and done.rc != 0:
            raise Failed(f"exit {done.rc}; {done.last_line()}")
        return done


def on_signal(number, _frame):
    raise Ended(number)


def run_item(check, item):
    """Its verdict, detail and data."""
    check.begin(item.limit)
    try:
        result = item.work(check)
        detail, data = result if isinstance(result, tuple) else (result, None)
        return OK, detail, data
    except Skipped as why:
        return SKIPPED, str(why), None
    except Failed as why:
        return FAILED, str(why), None
    except OutOfTime as why:
        return CUT, str(why), None
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:  # an item's own fault stops no other
        return FAILED, f"{type(error).__name__}: {error}", None


def one_item(check, item, worked):
    """Runs and records it. worked: something else of this call was done before."""
    record, started = check.record, time.monotonic()
    if record.deaths(item.name, check.program) >= DEATHS_MAX:
        verdict, detail, data = FAILED, f"the check was killed {DEATHS_MAX} times while it ran", None
    else:
        record.begin(item.name, check.program)
        try:
            verdict, detail, data = run_item(check, item)
        except Ended as signalled:
            record.end(item.name, check.program, CUT, f"ended by {signal.Signals(signalled.args[0]).name}", time.monotonic() - started)
            raise
    if verdict == CUT and not worked:
        verdict, detail = FAILED, "takes longer than the minutes of a whole call"
    seconds = time.monotonic() - started
    last_words = record.output_tail() if verdict == FAILED else []
    record.end(item.name, check.program, verdict, detail, seconds, data)
    print(f"{verdict:8}{item.name:32}{seconds:7.1f} s  {detail}", *last_words, sep="\n    ", flush=True)


def run(check, items, again=False, worked=False):
    """All items that are not done; returns how many failed. worked: part of the minutes went elsewhere before (a build)."""
    waiting = 0
    for item in items:
        if item.name in check.record.finished(here=True) or (not again and check.record.is_done(item.name, check.program, item.of_program)):
            continue
        if check.left() <= 0 or (worked and item.seconds > check.left()):
            waiting += 1
            continue
        one_item(check, item, worked)
        report.write(check.record)
        worked = True
    if waiting:
        print(f"-- {waiting} items are left for the next call", flush=True)
    return sum(entry["verdict"] == FAILED for entry in check.record.finished(here=True).values())


def handle_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, on_signal)
