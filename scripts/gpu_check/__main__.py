"""gpu-check.sh: builds Lockstep on a machine with an NVIDIA GPU, or takes a program that was built elsewhere, checks it on the card and
measures it. An item that is finished is written down at once, and the next call goes on behind it."""
import argparse
import fnmatch
import os
import pathlib
import signal
import sys
import time

import driver
import cifar
import items
import leases
import machine
import report
from machine import ARCHIVE, BUILD, ROOT
from record import CUT, FAILED, OK, SKIPPED, Record

FIRST_MINUTES, PART_MINUTES = 8, 9
BUILD_LIMIT_S = 3600  # the minutes of the call end it before, where there are any

USAGE = f"""
  lease 1|2|3      for a card that is at hand for a quarter of an hour, within the minutes of that lease; call it again and it goes on
                   1: where the time goes, by operator and layer ({leases.minutes_of("1")} minutes); 2: beside PyTorch, in turns ({leases.minutes_of("2")});
                   3: correctness, 94 % over 40 seeds, two ranks on one card ({leases.minutes_of("3")})
  first            everything, what teaches most first, within --minutes (default {FIRST_MINUTES}); call it again and it goes on
  all              the same without an end (default)
  PART, PART/NAME  these items alone, within --minutes (default {PART_MINUTES}); NAME may have * in it
                   parts: {', '.join(items.PARTS)}
  build            the program only, for this machine's card
  pack             the program and its libraries into carry/program.tar.gz, to be carried to a machine with a card (scripts/carry.sh);
                   --architecture 90 builds it for one kind of card, which is a third of the size
  pack-cifar FOLDER 1|2   a part of CIFAR-10's binary files into carry/cifar-1 or carry/cifar-2
  report           the table again, and into bench/results/gpu-CARD.md
  list             all items
"""


def arguments(argv):
    ap = argparse.ArgumentParser(prog="gpu-check.sh", description=__doc__, epilog="what:" + USAGE, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", nargs="*", default=["all"], help="below")
    ap.add_argument("--minutes", type=float, help="of this call, building included; 0: no end")
    ap.add_argument("--architecture", metavar="CAPABILITY", help="of `pack`: 90 for an H100 or H200 (default: every card)")
    ap.add_argument("--again", action="store_true", help="also what is finished")
    ap.add_argument("--results", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT") or BUILD / "results"),
                    help="folder for what is found (default: $OUT, else build/gpu/results)")
    ap.add_argument("--from", dest="earlier", type=pathlib.Path, default=ROOT / "carry/results", metavar="FOLDER",
                    help="results of earlier calls, to go on from (default: carry/results)")
    ap.add_argument("--bin", type=pathlib.Path, help="folder of the program, instead of one that is built or carried")
    ap.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable, help="with PyTorch, for the part peers")
    a = ap.parse_args(argv)
    if a.minutes is not None and a.minutes < 0:
        ap.error(f"--minutes {a.minutes}: 0 or more is expected")
    choose(ap, a)
    return a


def choose(ap, a):
    """Sets a.items and a.minutes from the words."""
    single = {"build", "pack", "pack-cifar", "report", "list"} & {a.what[0]}
    lease = a.what[0] == "lease"
    if lease and (len(a.what) != 2 or a.what[1] not in leases.LEASES):
        ap.error(f"lease {' '.join(a.what[1:])}: {', '.join(leases.LEASES)} is expected")
    if single and len(a.what) != (3 if a.what == ["pack-cifar", *a.what[1:]] else 1):
        ap.error("pack-cifar FOLDER 1|2 is expected" if a.what[0] == "pack-cifar" else f"'{a.what[0]}' stands alone")
    if lease:
        a.items = leases.items_of(a.what[1], items.ITEMS)
    elif not single:
        a.items, unknown = chosen(a.what, items.ITEMS)
        if unknown:
            ap.error(f"unknown part '{unknown}'; parts are first, all, {', '.join(items.PARTS)}; `gpu-check.sh list` has all items")
    if a.minutes is None:
        a.minutes = (leases.minutes_of(a.what[1]) if lease else 0 if a.what == ["all"] or single else
                     FIRST_MINUTES if a.what == ["first"] else PART_MINUTES)


def chosen(words, table):
    """The items of these words, in the table's order, and a word that names none."""
    names = set()
    for word in words:
        pattern = "*" if word in ("first", "all") else word if "/" in word else f"{word}/*"
        found = {item.name for item in table if fnmatch.fnmatchcase(item.name, pattern)}
        if not found:
            return [], word
        names |= found
    return [item for item in table if item.name in names], None


def build(check, folder, options):
    """An item's way with output and limits, but not recorded as finished: another machine has to do it again."""
    check.begin(BUILD_LIMIT_S)
    print("building train, lockstep_cuda and the test programs", flush=True)
    try:
        check.run(machine.configure(folder, options))
        check.run(machine.compile_program(folder))
    except driver.Failed:
        print(*check.record.output_tail(), sep="\n    ", file=sys.stderr)
        raise


def build_here(check):
    build(check, BUILD, machine.options_here())
    machine.link_program_to_toolkit(BUILD / "bin")


def prepare(check, a):
    """Finds or builds the program; True when it had to be built. Exits where neither is possible."""
    found, reasons = machine.find_program(a.bin)
    built = False
    if not found and not a.bin:
        if not machine.nvidia_smi("name"):
            sys.exit(no_card(reasons))
        try:
            build_here(check)
            found, more = machine.find_program(None)
            reasons += more
            built = True
        except (driver.Failed, driver.OutOfTime, OSError) as why:
            reasons.append(f"it cannot be built: {why}")
    for reason in reasons:
        print(f"gpu-check.sh: {reason}", file=sys.stderr)
    if not found:
        check.record.note("no program", reasons=reasons)
        return None
    check.bin, origin, devices = found
    if built:
        origin = "built here"
    check.card = devices["auto"]["name"]
    check.emulated = check.card.startswith("Emulated")
    check.program = machine.identity(check.bin)
    gpus = [device["name"] for device in devices["devices"] if device["type"] == "cuda"]
    check.record.note("machine", card=gpus[0] if gpus else check.card, program=check.program, origin=origin, reasons=reasons, cores=os.cpu_count(),
                      minutes=a.minutes, built=built)
    print(f"{check.card}; {check.program}, {origin}", flush=True)
    return built


def no_card(reasons):
    for reason in reasons:
        print(f"gpu-check.sh: {reason}", file=sys.stderr)
    print("gpu-check.sh: nvidia-smi lists no GPU here; only `build`, `pack`, `report` and `list` work without one", file=sys.stderr)
    return 4


def new_check(a):
    check = driver.Check(Record(a.results.resolve(), a.earlier.resolve()), a.minutes)
    check.root, check.work, check.python = ROOT, BUILD / "work", a.python
    check.work.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_CACHE_HOME"] = str(BUILD / "work/cache")  # measured plans: of this check alone
    os.environ["PATH"] += ":/usr/local/cuda/bin"  # nvcc and compute-sanitizer, where the system does not name them
    machine.link_toolkit()
    machine.unpack_packages()
    cifar.unpack()
    return check


def close(check, a):
    report.write(check.record)
    here = report.counts(check.record.finished(here=True).values())
    left = [item.name for item in a.items if item.name not in check.record.finished() or check.record.finished()[item.name]["verdict"] == CUT]
    print(f"{here[OK]} ok, {here[FAILED]} failed, {here[SKIPPED]} skipped in {time.monotonic() - check.began:.0f} s; "
          f"{len(left)} of {len(a.items)} items are left; {check.record.folder}/report.md")


def check_card(a):
    check = new_check(a)
    built = prepare(check, a)
    if built is None:
        report.write(check.record)
        return 1
    try:
        failed = driver.run(check, a.items, a.again, worked=built)
    finally:
        close(check, a)
    if not check.emulated and "OUT" not in os.environ:
        print(f"{report.publish(check.record, ROOT / 'bench/results')}")
    return 1 if failed else 0


def main(argv):
    a = arguments(argv)
    driver.handle_signals()
    try:
        if a.what == ["list"]:
            for item in items.ITEMS:
                print(f"{item.name:32}about {item.seconds:4} s on a card, at most {item.limit}")
        elif a.what == ["build"]:
            build_here(new_check(a))
        elif a.what == ["pack"]:
            if not a.bin:
                build(new_check(a), ROOT / "build/carry", machine.carried_options(a.architecture))
            machine.pack((a.bin or ROOT / "build/carry/bin").resolve())
            print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 2**20:.0f} MiB")
        elif a.what[0] == "pack-cifar":
            print(cifar.pack(pathlib.Path(a.what[1]), a.what[2]))
        elif a.what == ["report"]:
            record = Record(a.results.resolve(), a.earlier.resolve())
            report.write(record)
            print(f"{report.publish(record, ROOT / 'bench/results')}")
        else:
            return check_card(a)
    except driver.Ended as signalled:
        number = signalled.args[0]
        print(f"gpu-check.sh: ended by {signal.Signals(number).name}; what was finished is in {a.results}, and the next call goes on there", file=sys.stderr)
        return 128 + number
    except (machine.Unfit, driver.Failed, driver.OutOfTime) as why:
        print(f"gpu-check.sh: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
