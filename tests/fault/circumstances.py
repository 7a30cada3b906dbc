#!/usr/bin/env python3
"""circumstances.py BIN [--runs N] [--seed N] [--jobs N] [--only I,J] [--kinds A,B] [--keep DIR] [--out FILE]

Runs in circumstances that are not as they should be. Each must end as it is documented (docs/faults.md), with at most one error; what the
run had is there afterwards, byte for byte where it was refused; and when all is in order again, it goes on to the bits of an undisturbed
run. Nothing hangs, survives, or is left. resume_campaign.py has what runs are and how they are compared, and disturbs them by signals.

  unread      the reader of stdout, stderr or both goes away at some line
  closed      some or all of the descriptors 0, 1, 2 are closed, of ranks or of what starts them
  limited     no file may grow beyond some size (ulimit -f), from the start or for a while
  moved       the run's folder is moved, replaced, removed or its path made to lead elsewhere at some moment
  at once     2 to 6 starts in one folder, or of one configuration
  stray       files, folders, links and pipes that no run wrote, in the run's folder and among its checkpoints
  gone        checkpoints/ is deleted, empty, a dangling link, a file, moved behind a link, or another run's in part or whole
  refused     going on with another seed, batch, network, optimizer, data set, fewer epochs; or starting where a run is

Of one rank or two, alone, by mpirun or by scripts/launch.sh. The kinds take turns; else run I of a seed makes its own choices, always the
same ones: --seed S --only I repeats it. A run that is not as it must be stays in the folder of --keep. Exit 0: all as it must be; 1: not;
77: cannot be run here.
"""
import argparse
import collections
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import resume_campaign as campaign
from resume_campaign import Bad, checkpoints, events, read

SETTINGS = [setting for setting in campaign.SETTINGS if setting.name in ("cpu-ordered", "cpu-fast")]
KEEP_ALL = ["--set", "checkpoint.keep_last=99"]
FOREIGN = ["--set", "run.seed=77"]


# ---- folders ----


def content(path):
    """{name: what it is, to the byte}; {}: nothing is there."""
    found = {}
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            file = os.path.join(folder, name)
            mode = os.lstat(file).st_mode
            what = os.readlink(file) if stat.S_ISLNK(mode) else hashlib.sha256(read(file)).hexdigest() if stat.S_ISREG(mode) else ""
            found[os.path.relpath(file, path)] = (stat.S_IFMT(mode), what)
    return found


def check_same(path, before, when):
    now = content(path)
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        raise Bad(f"lost: {when}, {len(changed)} files of the folder are not as they were: {', '.join(changed[:5])}")


def starts_of(path):
    return events(path, "start", strict=False)  # half a line may be the last one


def folder_of(path, update):
    return f"{path}/checkpoints/update-{update:012d}"


def put(path, text="kept\n"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


class Book:
    """Undisturbed runs: their fingerprints, and folders of them with all their checkpoints, to be copied."""

    def __init__(self, world):
        self.world, self.references, self.originals, self.lock = world, campaign.References(world), {}, threading.Lock()

    def of(self, setting, ranks):
        return self.references.of(setting, ranks)[0]

    def original(self, setting, ranks, words=()):
        """The folder of a whole run."""
        key = (setting.name, ranks, tuple(words))
        with self.lock:
            if key not in self.originals:
                run = campaign.Run(self.world, setting, f"original-{len(self.originals)}", 0)
                end(run.launch(ranks, words=KEEP_ALL + list(words)), {0})
                self.originals[key] = run.path
            return self.originals[key]

    def copy(self, run, path, ranks, complete):
        """That run, or what of it is there when it is killed after some checkpoint. Returns the update it has come to."""
        shutil.copytree(self.original(run.setting, ranks), path)
        updates = checkpoints(path)
        if complete:
            return updates[-1]
        last = run.random.choice(updates[1:-1])
        for update in updates:
            if update > last:
                shutil.rmtree(folder_of(path, update))
        for name in ("summary.json", "evaluation.json", "weights.safetensors"):
            os.remove(f"{path}/{name}")
        lines = read(path + "/metrics.jsonl").decode().splitlines(keepends=True)
        put(path + "/metrics.jsonl", "".join(line for line in lines if json.loads(line).get("update", 0) <= last
                                             and json.loads(line)["event"] not in ("end", "summary")) + '{"event": "train", "upd')
        return last


# ---- one start ----


def end(launch, codes, errors_max=1, forgive_shared=False, damaged=False):
    """Waits; the exit code is one of these, and all is gone. damaged: what is no checkpoint has the name of one. Returns code, output."""
    code = launch.end()
    launch.check_left(forgive_shared or launch.hung)
    output = launch.output()
    if code not in codes and not launch.hung:
        raise Bad(f"exit: {code}, one of {sorted(codes)} expected:\n{output}")
    campaign.check_output(output.replace("this checkpoint is left alone", "") if damaged else output, errors_max, "that")
    if code in (2, 3, 4, 6, 7) and not re.search(r"^(error|launch\.sh): ", output, re.M) and os.path.getsize(launch.output_path):
        raise Bad(f"messages: exit {code} without an error:\n{output}")
    return code, output


def go_on(run, book, ranks, path=None, words=(), records=True):
    """All is in order again: to the end, and the bits of an undisturbed run."""
    path = path or run.path
    end(run.launch(ranks, resume=True, folder=path, words=words), {0}, 0)
    compare(run, book, ranks, path, records)


def compare(run, book, ranks, path, records=True, strays=()):
    for name in strays:
        stray = f"{path}/{name}"
        shutil.rmtree(stray) if os.path.isdir(stray) and not os.path.islink(stray) else os.remove(stray)
    wanted, got = book.of(run.setting, ranks), campaign.fingerprint(path)
    if not records:  # the metrics have gaps
        wanted, got = dict(wanted, records={}), dict(got, records={})
    campaign.compare(got, wanted)
    campaign.check_folder(path)


def moment_of(run, book, ranks):
    _, seconds, operations = book.references.of(run.setting, ranks)
    return campaign.choose_moment(run.random, seconds, operations)


# ---- kinds: each returns what it did ----


def unread(run, book, ranks, by_script):
    rng = run.random
    which, lines = rng.choice((["stdout"], ["stderr"], ["stdout", "stderr"])), rng.choice((0, 0, 1, 2, 5, 20))
    inner, outer = os.pipe()
    if lines == 0:
        os.close(inner)
    launch = run.launch(ranks, by_script=by_script, quiet=False, **{name: outer for name in which})
    os.close(outer)
    if lines > 0:
        with os.fdopen(inner, "rb") as pipe:
            for _ in range(lines):
                pipe.readline()
    code, _ = end(launch, {0} if ranks == 1 and not by_script else {0, 1, 75, 137, 139, 141}, 2, launch.with_mpirun)
    what = f"{' and '.join(which)} after {lines} lines: exit {code}"
    if code != 0:
        go_on(run, book, ranks)
        return what
    compare(run, book, ranks, run.path)
    warned = [event for event in events(run.path, "warning") if "could not be written (Broken pipe)" in event["message"]]
    if not launch.with_mpirun and "stderr" in which and not lines and len(warned) != 1:
        raise Bad(f"messages: {len(warned)} warnings in the metrics that nobody reads")
    return what


def closed(run, book, ranks, by_script):
    rng = run.random
    numbers = [number for number in (0, 1, 2) if rng.random() < 0.6] or [0, 1, 2]
    closing = " ".join(f"{number}>&-" for number in numbers)
    of_ranks = ranks > 1 and not by_script and rng.random() < 0.5
    if by_script or (ranks > 1 and not of_ranks):
        launch = run.launch(ranks, by_script=by_script, outer=f"exec {closing}", quiet=rng.random() < 0.5)
    else:
        launch = run.launch(ranks, before=f"exec {closing}", quiet=rng.random() < 0.5)
    code, _ = end(launch, {0})
    compare(run, book, ranks, run.path)
    return f"{' '.join(map(str, numbers))} of {'ranks' if of_ranks else 'script' if by_script else 'launcher' if ranks > 1 else 'it'}: exit {code}"


def limited(run, book, ranks, by_script):
    rng = run.random
    largest = max(os.path.getsize(os.path.join(folder, name))
                  for folder, _, names in os.walk(book.original(run.setting, ranks)) for name in names)
    size = int(rng.uniform(0, 1.2) * largest)
    if rng.random() < 0.4 and ranks == 1 and not by_script:  # Open MPI's own files are files, too
        launch = run.launch(ranks, before=f"prlimit --pid $$ --fsize={size}")
        how = "from the start"
    else:
        moment, disk = moment_of(run, book, ranks)
        launch = run.launch(ranks, by_script=by_script, disk=disk)
        how, rank = "not", None
        while rank is None and launch.running():
            rank = launch.rank(0)
        if rank and launch.await_moment(moment):
            try:
                _, hard = resource.prlimit(rank, resource.RLIMIT_FSIZE)
                resource.prlimit(rank, resource.RLIMIT_FSIZE, (size, hard))
                how = "to the end"
                if rng.random() < 0.6:
                    seconds = rng.uniform(0, 0.3)
                    time.sleep(seconds)
                    resource.prlimit(rank, resource.RLIMIT_FSIZE, (hard, hard))
                    how = "for a while"
            except ProcessLookupError:
                how = "not"
    code, output = end(launch, {0, 7, 2, 4, 5, 1} if how == "to the end" and by_script else {0, 7})
    gaps = "metrics.jsonl" in output
    if code == 0:
        compare(run, book, ranks, run.path, not gaps)
    else:
        go_on(run, book, ranks, records=not gaps)
    return f"{size} bytes of {largest}, {how}: exit {code}"


def moved(run, book, ranks, by_script):
    rng = run.random
    how = rng.choice(("moved", "moved", "moved deeper", "parent moved", "replaced by a run", "replaced by a run", "replaced by an empty folder",
                      "there and back", "removed", "link turned"))
    top = run.folder + "/top"
    path, away, other = top + "/run", run.folder + "/away", run.folder + "/other"
    os.makedirs(top)
    shutil.copytree(book.original(run.setting, ranks, FOREIGN), other)
    if how == "link turned":
        os.mkdir(away)
        os.symlink(away, path)
    moment, disk = moment_of(run, book, ranks)
    launch = run.launch(ranks, by_script=by_script, disk=disk, folder=path)
    hit = launch.await_moment(moment)
    while hit and launch.running() and not os.path.isdir(path):
        time.sleep(0.001)
    started = os.path.exists(path + "/metrics.jsonl")
    unfinished = False  # for certain
    if not os.path.isdir(path) or not launch.running():
        how = "not " + how
    elif how == "moved deeper":
        os.makedirs(away + "/a/b")
        away += "/a/b/run"
        os.rename(path, away)
    elif how == "parent moved":
        os.rename(top, away)
        away += "/run"
    elif how == "removed":
        held = list(campaign.tagged(launch.tag)) if rng.random() < 0.5 else []
        for process in held:
            campaign.send(process, signal.SIGSTOP)
        unfinished = bool(held) and started and not any(name.startswith("summary.json") for name in os.listdir(path))
        while os.path.exists(path):
            shutil.rmtree(path, ignore_errors=True)  # files appear meanwhile
        for process in held:
            campaign.send(process, signal.SIGCONT)
    elif how == "link turned":
        os.symlink(other, path + ".new")
        os.rename(path + ".new", path)
    else:
        os.rename(path, away)
    if how == "there and back":
        time.sleep(rng.choice((0, rng.uniform(0, 0.3))))
        os.rename(away, path)
    elif how == "replaced by a run":
        os.rename(other, path)
    elif how == "replaced by an empty folder":
        os.mkdir(path)
    foreign = how in ("replaced by a run", "link turned")
    before = content(path) if foreign else {}
    code, output = end(launch, {0, 7} if started else {0, 2, 7})
    phase = "in mid-run" if started else "at its start"
    what = f"{how} {phase}: exit {code}"
    ran_away = not how.startswith("not ") and os.path.exists(away + "/run.json")
    said = re.search(r"(?:the run is in|its results are in) (\S+)(?: and goes on|$)", output, re.M)
    if said and os.path.realpath(said.group(1)) != os.path.realpath(away) and how != "there and back":
        raise Bad(f"messages: says {said.group(1)}, it is in {away}:\n{output}")
    if foreign:
        check_same(path, before, "of what took the folder's place")
    if started and ran_away and not foreign and how != "there and back" and content(path):
        raise Bad(f"lost: {', '.join(sorted(content(path)))} landed where the folder was")
    if how == "removed" and code == 7 and content(path):
        raise Bad(f"folder: {', '.join(sorted(content(path)))} landed where the folder was")
    run.path = away if ran_away else path
    if foreign and not ran_away:  # it had not begun
        run.path = run.folder + "/anew"
    if how == "removed" and code == 0 and not content(path):
        if unfinished:  # else it may have been complete before all was gone
            raise Bad(f"lost: exit 0 of a run that was removed before its end:\n{output}")
        code = 7
    if code == 0:
        compare(run, book, ranks, run.path)
    else:
        go_on(run, book, ranks)
    return what


def at_once(run, book, ranks, by_script):
    rng = run.random
    mode = rng.choice(("new", "new", "new", "auto", "cut", "numbered"))
    count = rng.randint(2, 6 if ranks == 1 and not by_script else 3)
    launches, starts = [], 0
    if mode == "cut":
        book.copy(run, run.path, ranks, False)
        starts = len(starts_of(run.path))
    pause = rng.choice((0, rng.uniform(0, 0.05)))
    for number in range(count):
        words = ["--set", f"checkpoint.keep_best={number + 1}"] + (["--resume"] if mode == "cut" and rng.random() < 0.5 else [])
        launches.append(run.launch(ranks, by_script=by_script and mode != "new", resume=mode == "auto" or (mode == "cut" and words[-1] != "--resume"),
                                   words=words, folder="" if mode == "numbered" else None))
        time.sleep(pause)
    for launch in launches:
        launch.end()
    ends = [end(launch, {0, 2}, forgive_shared=True) for launch in launches]
    codes = [code for code, _ in ends]
    what = f"{mode}, {count} starts: exit {' '.join(map(str, codes))}"
    if mode == "numbered":
        if any(codes) and not by_script:
            raise Bad(f"exit: {codes} of numbered runs")
        for path in sorted(os.scandir(run.folder + "/runs"), key=lambda entry: entry.name):
            compare(run, book, ranks, path.path)
        if len(os.listdir(run.folder + "/runs")) != codes.count(0) and not by_script:
            raise Bad(f"lost: {codes.count(0)} runs, {os.listdir(run.folder + '/runs')}")
        return what
    if 0 not in codes or (mode == "new" and codes.count(0) != 1):
        raise Bad(f"exit: {codes} of {mode} starts:\n" + "\n".join(output for _, output in ends))
    if mode == "new":
        kept = re.search(r"^keep_best = (\d+)", read(run.path + "/config.ini").decode(), re.M).group(1)
        if int(kept) != codes.index(0) + 1:
            raise Bad(f"lost: config.ini is of start {kept}, start {codes.index(0) + 1} was the one")
    if len(starts_of(run.path)) != starts + 1:
        raise Bad(f"metrics: {len(events(run.path, 'start')) - starts} starts in one folder")
    compare(run, book, ranks, run.path)
    return what


def plant_strays(run, book, ranks, cut):
    """Returns {name in the run's folder: stays}, what a start as a new run must refuse, and the folder that links lead to."""
    rng, path, out = run.random, run.path, run.folder + "/outside"
    shutil.copytree(book.original(run.setting, ranks, FOREIGN), out)
    inside = path + "/checkpoints/"
    os.makedirs(inside, exist_ok=True)
    ways = {
        "notes.txt": lambda at: put(at),
        "plots": lambda at: put(at + "/a/b.png"),
        "weights.safetensors.bak": lambda at: put(at),
        "checkpoints/notes.txt": lambda at: put(at),
        "checkpoints/.hidden": lambda at: put(at),
        "checkpoints/mine": lambda at: put(at + "/deep/in/file"),
        "checkpoints/update-12": lambda at: put(at + "/manifest.json", "{}"),
        "checkpoints/update-abc": lambda at: put(at),
        "checkpoints/update-000000000003x": lambda at: put(at + "/manifest.json", "{}"),
        "checkpoints/update-000000000004.tar": lambda at: put(at),
        "checkpoints/best": lambda at: os.symlink(out, at),
        "checkpoints/linked": lambda at: os.symlink(out + "/weights.safetensors", at),
        "checkpoints/dangling": lambda at: os.symlink(out + "/nothing", at),
        "checkpoints/pipe": lambda at: os.mkfifo(at),
    }
    leftovers = {  # go when the run goes on
        "checkpoints/.update-000000000004.tmp": lambda at: put(at + "/weights.safetensors", "half"),
        "checkpoints/.update-000000000002.old": lambda at: put(at + "/state.safetensors", "half"),
        "config.ini.tmp-4711": lambda at: put(at, "half"),
    }
    taken = {  # under a checkpoint's name
        "checkpoints/update-999999999998": lambda at: os.mkdir(at),
        "checkpoints/update-000000000099": lambda at: put(at + "/mine.txt"),
        "checkpoints/update-000000000098": lambda at: put(at, "a file\n"),
        "checkpoints/update-000000000097": lambda at: os.symlink(out + "/nothing", at),
        "checkpoints/update-000000000096": lambda at: os.mkfifo(at),
    }
    chosen = rng.sample(sorted(ways), rng.randint(2, 6))
    half = rng.sample(sorted(leftovers), rng.randint(0, 2)) if cut else []
    names = rng.sample(sorted(taken), rng.randint(0, 2)) if rng.random() < (0.7 if cut else 0.25) else []
    for name in chosen + half + names:
        {**ways, **leftovers, **taken}[name](f"{path}/{name}")
    return chosen + names, names, out


def stray(run, book, ranks, by_script):
    cut = run.random.random() < 0.6
    at = book.copy(run, run.path, ranks, False) if cut else 0
    strays, names, out = plant_strays(run, book, ranks, cut)
    outside = content(out)
    there = {name: what for name, what in content(run.path).items() if any(name == s or name.startswith(s + "/") for s in strays)}
    what = f"{len(strays)} of {'a run cut after ' + str(at) if cut else 'a new run'}{', ' + ' '.join(names) if names else ''}"
    before = content(run.path)
    refused = not cut and bool(names)
    code, _ = end(run.launch(ranks, resume=cut, by_script=by_script and (cut or not names)), {2, 7} if refused else {0},
                  damaged=bool(names))
    check_same(out, outside, "what links lead to")
    if refused:
        check_same(run.path, before, "refused")
        return f"{what}: exit {code}"
    now = content(run.path)
    lost = sorted(name for name in there if now.get(name) != there[name])
    if lost:
        raise Bad(f"lost: strays {', '.join(lost)}")
    compare(run, book, ranks, run.path, strays=strays)
    return f"{what}: exit {code}"


def gone(run, book, ranks, by_script):
    rng = run.random
    complete = rng.random() < 0.3
    at = book.copy(run, run.path, ranks, complete)
    path, away = run.path + "/checkpoints", run.folder + "/away"
    foreign = book.original(run.setting, ranks, FOREIGN)
    how = rng.choice(("deleted", "emptied", "dangling link", "a file", "behind a link", "another run's", "a newer one of another run",
                      "an older one of another run", "the newest of another run", "another run's in the way"))
    codes, alien = {0} if complete else {7}, None
    if how in ("deleted", "emptied", "dangling link", "a file", "another run's", "behind a link"):
        os.rename(path, away)
    if how == "emptied":
        os.mkdir(path)
    elif how == "dangling link":
        os.symlink("unmounted", path)
    elif how == "a file":
        put(path)
        codes = {0, 7} if complete else {7}
    elif how == "behind a link":
        os.symlink(away, path)
        codes = {0}
    elif how == "another run's":
        shutil.copytree(foreign + "/checkpoints", path)
        codes = {0, 2} if complete else {2}
    elif "another run" in how:
        updates = checkpoints(foreign)
        if complete and how == "a newer one of another run":
            how = "the newest of another run"
        alien = {"a newer one of another run": updates[-1], "the newest of another run": at,
                 "an older one of another run": rng.choice([update for update in updates if update < at])}.get(how)
        if alien:  # one in the way comes when the run is under way
            shutil.rmtree(folder_of(run.path, alien), ignore_errors=True)
            shutil.copytree(folder_of(foreign, alien), folder_of(run.path, alien))
            codes = {0, 2} if complete else {2}
    before, starts = content(run.path), len(starts_of(run.path))
    mode = rng.choice((["--resume"], ["--set", "run.resume=auto"]))
    what = f"{how}, {'complete' if complete else f'cut after {at}'}"
    moment, disk = moment_of(run, book, ranks)
    in_the_way = how == "another run's in the way" and not complete
    launch = run.launch(ranks, words=mode, by_script=by_script, disk=disk if in_the_way else "")
    if in_the_way:
        launch.await_moment(moment)
        while launch.running() and len(starts_of(run.path)) == starts:
            time.sleep(0.001)
        alien = (checkpoints(run.path)[-1] // 2) * 2 + 4
        if alien < checkpoints(foreign)[-1]:
            try:
                shutil.copytree(folder_of(foreign, alien), run.folder + "/alien")
                os.rename(run.folder + "/alien", folder_of(run.path, alien))
            except OSError:
                alien = None  # the run was faster
        else:
            alien = None
        codes = {0}
    code, output = end(launch, codes)
    if code != 0 or (complete and alien != at):
        check_same(run.path, before, what)
    if alien:
        check_same(folder_of(run.path, alien), content(folder_of(foreign, alien)), "another run's checkpoint")
    if os.path.lexists(path) and (os.path.exists(away) and how != "behind a link"):
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
    if os.path.exists(away) and how != "behind a link":
        os.rename(away, path)
    if alien:
        if in_the_way and "is a checkpoint of another run and stays" not in output:
            raise Bad(f"messages: nothing about the checkpoint in the way:\n{output}")
        shutil.rmtree(folder_of(run.path, alien))
        if alien == at:  # bring it back
            shutil.copytree(folder_of(book.original(run.setting, ranks), at), folder_of(run.path, at))
    if how == "behind a link":
        os.remove(path)
        os.rename(away, path)
    go_on(run, book, ranks)
    return f"{what}: exit {code}"


OTHERS = [  # options, exit code of a run that is cut, of one that is complete (None: not asked)
    (["run.seed=8"], {2}, {2}),
    (["train.global_batch=24"], {2}, {2}),
    (["optimizer.kind=adamw"], {2}, {2}),
    (["data.train_samples=204"], {2, 3}, {2, 3}),
    (["data.test_samples=36"], {2, 3}, {2, 3}),
    (["model.file=other-net.ini"], {7}, None),
    (["train.epochs=1"], {2}, None),
    (["train.max_updates=1"], {2}, None),
    (["train.epochs=many"], {2}, {2}),
    (["optimizer.lr=-1"], {2}, {2}),
    (["no.such_option=1"], {2}, {2}),
    (["model.file=nowhere.ini"], {2, 3, 7}, {2, 3, 7}),
    (["data.dataset=mnist", "data.path=/nowhere"], {2, 3}, {2, 3}),
    (["run.resume=off"], {2}, {2}),
]


def refused(run, book, ranks, by_script):
    rng = run.random
    complete = rng.random() < 0.4
    at = book.copy(run, run.path, ranks, complete)
    while True:
        options, cut_codes, complete_codes = rng.choice(OTHERS)
        codes = complete_codes if complete else cut_codes
        if codes and (at > 5 or options[0] != "train.epochs=1") and not (by_script and options == ["run.resume=off"]):
            break
    net = read(run.world.work + "/net.ini").decode().replace("out_channels = 8", "out_channels = 6")
    other_net = run.folder + "/other-net.ini"
    put(other_net, net)
    words = rng.choice((["--resume"], ["--set", "run.resume=auto"])) if options != ["run.resume=off"] else []
    for option in options:
        words = words + ["--set", option.replace("other-net.ini", other_net).replace("nowhere.ini", run.folder + "/nowhere.ini")]
    before = content(run.path)
    code, _ = end(run.launch(ranks, words=words, by_script=by_script), codes)
    check_same(run.path, before, f"refused ({' '.join(options)})")
    go_on(run, book, ranks)
    return f"{' '.join(options)}, {'complete' if complete else f'cut after {at}'}: exit {code}"


KINDS = {"unread": unread, "closed": closed, "limited": limited, "moved": moved, "at once": at_once, "stray": stray, "gone": gone,
         "refused": refused}


# ---- all of them ----

Result = collections.namedtuple("Result", "number kind setting how text why")


def table(results):
    lines = ["| kind | runs | alone | by mpirun | by launch.sh | exit codes | hangs | left | wrong bits | lost | other |", "| " + "--- | " * 11]
    lines[1] = lines[1].rstrip()
    for kind in list(KINDS) + ["all"]:
        rows = [r for r in results if kind in (r.kind, "all")]
        if not rows:
            continue
        hows = collections.Counter(r.how for r in rows)
        sorts = collections.Counter(r.why.split(":")[0] for r in rows if r.why)
        codes = collections.Counter(code for r in rows for code in (r.text.rsplit("exit ", 1)[1].split() if "exit " in r.text else []))
        named = [sorts[sort] for sort in ("hang", "left", "bits", "lost")]
        lines.append(f"| {kind} | {len(rows)} | {hows['alone']} | {hows['by mpirun']} | {hows['by launch.sh']} | "
                     f"{', '.join(f'{code}: {count}' for code, count in sorted(codes.items()))} | {' | '.join(map(str, named))} "
                     f"| {sum(sorts.values()) - sum(named)} |")
    return lines


def perform(world, book, args, number):
    kinds = [kind for kind in KINDS if kind in args.kinds]
    kind = kinds[(number - 1) % len(kinds)]
    rng = random.Random(f"{args.seed}/{number}/circumstance")
    setting = rng.choice(SETTINGS)
    ranks, by_script = rng.choice((1, 1, 1, 2)), rng.random() < 0.25
    how = "by launch.sh" if by_script else "by mpirun" if ranks > 1 else "alone"
    run = campaign.Run(world, setting, number, f"{args.seed}/{kind}")
    text, why, start = "", "", time.monotonic()
    try:
        text = KINDS[kind](run, book, ranks, by_script)
    except (Bad, OSError, KeyError, ValueError, IndexError, AttributeError, subprocess.SubprocessError) as error:
        why = str(error) if isinstance(error, Bad) else f"folder: {error!r}"
        run.log = []
        keep(run, why, args)
    print(f"run {number} {kind}, {setting.name}, {ranks} {how}: {text or '-'}: {why or 'ok'} ({time.monotonic() - start:.1f} s)", flush=True)
    run.remove()
    return Result(number, kind, setting.name, how, text, why)


def keep(run, why, args):
    folder = os.path.join(args.keep, f"circumstance-{run.number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.folder, folder, symlinks=True, copy_function=copy_regular)
    put(folder + "/why", f"{why}\nrepeat: tests/fault/circumstances.py {args.bin} --kinds '{','.join(args.kinds)}' --seed {args.seed} --only {run.number}\n")


def copy_regular(source, target):
    if stat.S_ISREG(os.lstat(source).st_mode):
        shutil.copy2(source, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--keep", default="campaign-failures")
    parser.add_argument("--out")
    args = parser.parse_args()
    world = campaign.World(args)
    campaign.take_signals()
    try:
        missing = world.prepare()
        if missing:
            print(f"skipped: {missing}")
            return 77
        start, book = time.monotonic(), Book(world)
        with ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(lambda number: perform(world, book, args, number), args.only or range(1, args.runs + 1)))
        bad = [r.number for r in results if r.why]
        lines = [f"{len(results)} runs, {len(bad)} not as they must be{': ' + ', '.join(map(str, bad)) if bad else ''}",
                 f"{time.monotonic() - start:.0f} s, seed {args.seed}, {os.cpu_count()} cores, {args.jobs} at a time", ""] + table(results)
        print("\n".join(lines))
        if args.out:
            put(os.path.abspath(args.out), "\n".join(lines) + "\n")
        return 1 if bad else 0
    finally:
        world.remove()


if __name__ == "__main__":
    sys.exit(main())
