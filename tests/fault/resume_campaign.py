#!/usr/bin/env python3
"""resume_campaign.py BIN [--runs N] [--seed N] [--jobs N] [--only I,J] [--settings A,B] [--keep DIR] [--out FILE]

Runs that are killed, stopped or asked to stop at random moments, resumed (and disturbed again, up to three times), and must
end as an undisturbed run does:

  bits       weights.safetensors and the last checkpoint's two files, byte for byte
  metrics    every line valid JSON; the last record of each update says what the undisturbed run's says
  resumed    from the newest checkpoint that was whole when the process ended; after exit 75 from the very update of the message
  nothing    hangs, survives (process, shared memory), or is left in the folder under a temporary name

BIN is the folder of the built programs. A run is tiny but real (tests/support/small_run: batch norm, dropout, augmentation, a short
last window; six epochs, on cuda three; a checkpoint every second update). A part of
the runs is started by scripts/launch.sh, which goes on after a fault by itself. A disturbance is one of

  kill rank, kill all, kill launcher      SIGKILL to one rank, to everything, to mpirun alone
  stop rank                               SIGSTOP to one of several ranks: the watchdog ends the run after dist.timeout, the
                                          guard of its start after LOCKSTEP_START_TIMEOUT
  pause rank, all, launcher               SIGSTOP, and SIGCONT a fraction of dist.timeout later: the run completes
  USR1/TERM/INT rank, USR1/TERM launcher  requests to stop
  HUP/QUIT rank, launcher                 ends it; QUIT also where a shell has it ignored: then the run completes
  PIPE/XFSZ rank                          ignored
  storm rank, all, launcher               dozens of USR1, TERM, CONT, WINCH and perhaps HUP, mixed, within a second
  ... script                              the same to scripts/launch.sh: USR1, TERM, INT and HUP are requests to stop

at a moment that is either any time, start-up and end included, or one of rank 0's operations on files (tests/support/disk.c lets it
wait there): most of those belong to checkpoints. Run I of a seed always makes the same choices: --seed S --only I repeats it, although
time itself does not repeat. A run that is not as it must be stays in the folder of --keep. Exit 0: all as it must be; 1: not; 77: cannot
be run here.
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
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../scripts"))
import open_mpi  # noqa: E402
LIMIT_S = 300  # from a disturbance, or the start, to the end
PAUSE_MS = 150
TIMEOUT_S = 10  # dist.timeout
START_TIMEOUT_S = 30
DISTURBED_MAX = 3

ORDERED = ["run.deterministic=true"]
CPU = ["device.type=cpu"]
# fp16 with a loss scale in motion
CUDA = ["device.type=cuda", "train.precision=fp16", "loss_scale.initial=16777216", "loss_scale.growth_interval=3", "train.epochs=3"]
COMMON = ["train.epochs=6", "checkpoint.every_updates=2", "log.every=3", "device.threads=1", f"dist.timeout={TIMEOUT_S}"]

# any: the number of ranks may change on resuming
Setting = collections.namedtuple("Setting", "name share options ranks any")
SETTINGS = [
    Setting("cpu-ordered", 8, CPU + ORDERED, (1, 1, 2, 2, 4), True),
    Setting("cpu-fast", 4, CPU, (1, 1, 2, 2, 4), False),
    Setting("cuda-fp16-ordered", 1.5, CUDA + ORDERED, (1, 1, 2, 2, 4), True),
    Setting("cuda-fp16-fast", 0.5, CUDA, (2,), False),
]

KINDS = {  # kind: how often, at least so many ranks. Whom it meets where that is not there (yet): see Launch.whom
    "kill rank": (6, 1),
    "kill all": (3, 1),
    "kill launcher": (2, 2),
    "kill script": (3, 1),
    "stop rank": (1.5, 2),
    "pause rank": (1, 1),
    "pause all": (1, 1),
    "pause launcher": (0.5, 2),
    "pause script": (0.5, 1),
    "USR1 rank": (3, 1),
    "TERM rank": (3, 1),
    "INT rank": (1, 1),
    "HUP rank": (1, 1),
    "QUIT rank": (1, 1),
    "PIPE rank": (0.5, 1),
    "XFSZ rank": (0.5, 1),
    "storm rank": (2, 1),
    "storm all": (0.5, 1),
    "USR1 launcher": (2, 2),
    "TERM launcher": (2, 2),
    "INT launcher": (0, 2),
    "HUP launcher": (0.5, 2),
    "QUIT launcher": (0.5, 2),
    "storm launcher": (0.5, 2),
    "USR1 script": (2, 1),
    "TERM script": (2, 1),
    "INT script": (1, 1),
    "HUP script": (2, 1),
    "QUIT script": (0.5, 1),
    "PIPE script": (0.5, 1),
    "storm script": (2, 1),
}
BY_SCRIPT = 0.35  # of the runs
STORM = (signal.SIGUSR1, signal.SIGTERM, signal.SIGCONT, signal.SIGWINCH)
PAUSE_MAX_S = TIMEOUT_S / 5


class Bad(Exception):
    """What is not as it must be; the first word says of which sort."""


def read(path):
    with open(path, "rb") as file:
        return file.read()


# ---- processes ----


def tagged(tag):
    """{process: its environment} of all processes that have this tag in it."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            environment = read(f"/proc/{name}/environ")
            state = read(f"/proc/{name}/stat").rsplit(b")", 1)[1].split()[0]
        except OSError:
            continue
        if tag in environment and state != b"Z":
            found[int(name)] = environment
    return found


def send(process, number):
    try:
        os.kill(process, number)
    except ProcessLookupError:
        pass


class Launch:
    """One start of the program in a run's folder, with or without mpirun, or by scripts/launch.sh."""

    def __init__(self, world, run, ranks, tag, *, resume=False, disk="", by_script=False, words=(), folder=None, quiet=True, before="",
                 outer="", **streams):
        """words: further arguments. folder: None, that of the run; "", as the program chooses. before: shell commands of each rank, before
        it becomes the program; outer: of what is started, before it becomes that."""
        self.world, self.run, self.ranks, self.by_script, self.tag = world, run, ranks, by_script, tag.encode()
        self.number = len([name for name in os.listdir(run.folder) if name.startswith("output.")])
        self.output_path = os.path.join(run.folder, f"output.{self.number}")
        self.control = os.path.join(run.folder, f"disk.{self.number}")
        folder = run.path if folder is None else folder
        with open(self.control, "w") as file:
            file.write(disk)
        environment = dict(os.environ, LOCKSTEP_CAMPAIGN=tag, LOCKSTEP_EMULATION="devices=4", LOCKSTEP_TEST_BEFORE=before,
                           LOCKSTEP_START_TIMEOUT=str(START_TIMEOUT_S), LOCKSTEP_TEST_DISK=self.control,
                           LOCKSTEP_TEST_DISK_BELOW=f"{folder or run.path}/", LOCKSTEP_RESTART_PAUSE="0", MPIRUN=world.mpirun[0])
        environment.update({"OMPI_MCA_" + key: run.shared for key in world.mca})
        environment["LOCKSTEP_CUDA_PLUGIN"] = world.plugin if "cuda" in run.setting.name else "/nonexistent"
        options = [word for option in COMMON + run.setting.options for word in ("--set", option)]
        command = [world.work + "/bin/train", world.work + "/run.ini"] + quiet * ["--quiet"] + options + list(words)
        if folder:
            command += ["--run-dir", folder]
        if resume:
            command += ["--set", "run.resume=auto"]  # it may have been killed before there was a run
        self.with_mpirun = by_script or ranks > 1
        if self.with_mpirun:
            command = world.mpirun[1:] + ["-np", str(ranks)] + command
            command = (["bash", world.script] if by_script else world.mpirun[:1]) + command
        if outer:
            command = ["sh", "-c", outer + '; exec "$@"', "sh"] + command
        self.start, self.met, self.hung = time.monotonic(), "its start", False
        with open(self.output_path, "wb") as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **streams}
            self.process = subprocess.Popen(command, env=environment, cwd=run.folder, start_new_session=True, **streams)

    def running(self):
        return self.process.poll() is None

    def rank(self, number):
        """The process of a rank; None: not there (yet)."""
        if not self.with_mpirun:
            return self.process.pid
        word = b"OMPI_COMM_WORLD_RANK=%d" % number
        for process, environment in tagged(self.tag).items():
            if word in environment.split(b"\0"):
                return process
        return None

    def launcher(self):
        """The process of mpirun; None: not there."""
        if not self.by_script:
            return self.process.pid
        for process in tagged(self.tag):
            try:
                first = os.path.basename(read(f"/proc/{process}/cmdline").split(b"\0")[0].decode())
                if first in (os.path.basename(self.world.mpirun[0]), "prterun"):  # Open MPI 5's mpirun becomes prterun
                    return process
            except OSError:
                pass
        return None

    def whom(self, whom, rank):
        """[process], and who that is: of a rank that is not there its launcher, of a launcher that is not there the script."""
        if whom == "all":
            return list(tagged(self.tag)), "all"
        process = self.rank(rank) if whom == "rank" else None
        if process:
            return [process], f"rank {rank}"
        process = self.launcher() if whom != "script" else None
        if process:
            return [process], "launcher"
        return [self.process.pid], "script"

    def await_moment(self, moment):
        """Until the disturbance is due. False: the run has ended before."""
        kind, value = moment
        while self.running():
            if kind == "time" and time.monotonic() - self.start >= value:
                return True
            if kind == "file" and os.path.exists(self.control + ".reached"):
                time.sleep(value)
                return self.running()
            if time.monotonic() - self.start > LIMIT_S:
                raise Bad("hang: no end, and no disturbance yet")
            time.sleep(0.002)
        return False

    def disturb(self, kind, rank, rng):
        """Returns whom it met."""
        what, whom = kind.split()
        while what == "stop" and not self.rank(rank) and self.running():  # a launcher that is stopped ends by no one's hand
            pass
        processes, met = self.whom(whom, rank)
        self.met = f"{kind} {rank} ({met} {processes})"
        numbers = {"kill": [signal.SIGKILL], "stop": [signal.SIGSTOP], "pause": [signal.SIGSTOP, signal.SIGCONT]}.get(what)
        if what == "storm":
            numbers = rng.choices(STORM + (signal.SIGHUP,) * rng.choice((0, 1)), k=rng.randint(24, 60))
            processes = [rng.choice(processes)] if whom != "all" else rng.choices(processes, k=len(processes))
        pause = {"pause": rng.uniform(0.1, PAUSE_MAX_S), "storm": rng.uniform(0, 1) / 60}.get(what, 0)
        for number in numbers or [getattr(signal, "SIG" + what)]:
            for process in processes:
                send(process, number)
            time.sleep(pause)
        return met

    def end(self):
        """Waits; the exit code as a shell gives it."""
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            if self.launcher_hangs():
                self.kill()
                return 137
            who = [f"{p}: {read(f'/proc/{p}/cmdline').decode().split(chr(0))[0]}" for p in tagged(self.tag)]
            self.kill()
            raise Bad(f"hang: launch {self.number} has not ended {LIMIT_S} s after {self.met} ({', '.join(who)})") from None
        return 128 - code if code < 0 else code

    def launcher_hangs(self):
        """All ranks are gone, and mpirun (4.1.4) does not see it: they were killed while they shook hands with it."""
        alone = all("train" not in os.path.basename(os.readlink(f"/proc/{process}/exe"))
                    for process in tagged(self.tag))
        self.hung = alone and "PMIX ERROR" in self.output()
        return self.hung

    def kill(self):
        for _ in range(10):
            for process in tagged(self.tag):
                send(process, signal.SIGKILL)
            time.sleep(0.05)
        self.process.wait()

    def check_left(self, forgive_shared):
        """No process; and no shared memory, unless the launcher that had to remove it was killed."""
        until = time.monotonic() + 30
        left = tagged(self.tag)
        while left and time.monotonic() < until:
            time.sleep(0.05)
            left = tagged(self.tag)
        if left:
            names = [read(f"/proc/{process}/cmdline").replace(b"\0", b" ").decode()[:80] for process in left]
            self.kill()
            raise Bad(f"left: processes {', '.join(names)}")
        files = [os.path.join(folder, name) for folder, _, names in os.walk(self.run.shared) for name in names]
        for file in files:
            if not forgive_shared and "/ompi." not in file:  # that is mpirun's session, which is no memory
                raise Bad(f"left: shared memory {file}")
        shutil.rmtree(self.run.shared, ignore_errors=True)
        os.makedirs(self.run.shared)

    def output(self):
        return read(self.output_path).decode(errors="replace")


# ---- what a run's folder holds ----


def checkpoints(path):
    """Updates of the checkpoints that are there under their names with a manifest, oldest first."""
    try:
        names = os.listdir(path + "/checkpoints")
    except OSError:
        return []
    return sorted(int(name[7:]) for name in names
                  if name.startswith("update-") and os.path.exists(f"{path}/checkpoints/{name}/manifest.json"))


def is_writing(path):
    """Is a checkpoint half-written, or half-removed?"""
    folder = path + "/checkpoints"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return any(name.startswith(".") or not os.path.exists(f"{folder}/{name}/manifest.json") for name in names)


def phase(path, updates):
    if is_writing(path):
        return "checkpoint"
    if os.path.exists(path + "/summary.json") or checkpoints(path)[-1:] == [updates] or any(
            name.startswith(("weights.", "evaluation.", "summary.")) for name in (os.listdir(path) if os.path.isdir(path) else [])):
        return "closing"
    return "training" if checkpoints(path) or events(path, "train", strict=False) else "start-up"


def events(path, kind, strict=True):
    try:
        lines = read(path + "/metrics.jsonl").decode().splitlines(keepends=True)
    except OSError:
        return []
    found = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError:
            if strict:
                raise Bad(f"metrics: line {number} is no JSON: {line[:80]!r}") from None
            continue
        if event["event"] == kind:
            found.append(event)
    return found


def fingerprint(path):
    """All that two runs must have in common."""
    files = [path + "/weights.safetensors", path + "/evaluation.json"]
    for last in checkpoints(path)[-1:]:
        folder = f"{path}/checkpoints/update-{last:012d}"
        files += [folder + "/weights.safetensors", folder + "/state.safetensors"]
    records = {}
    for event in events(path, "train"):
        names = ("train_loss", "train_accuracy", "learning_rate", "loss_scale", "skipped", "samples_seen", "epoch")
        records[event["update"]] = {name: event[name] for name in names}
    for event in events(path, "eval"):
        records[f"eval {event['update']}"] = {name: event[name] for name in ("test_loss", "test_accuracy", "test_samples")}
    summary = json.loads(read(path + "/summary.json"))
    names = ("status", "epochs", "updates", "samples_seen", "weights_hash", "test_accuracy")
    return {"bits": {os.path.relpath(file, path): hashlib.sha256(read(file)).hexdigest() for file in files}, "records": records,
            "summary": {name: summary[name] for name in names}}


def same(a, b):
    """Sums over samples are rounded in the order of ranks and parts: equal to so much."""
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return a == b


def compare(got, wanted):
    for file in wanted["bits"]:
        if got["bits"].get(file) != wanted["bits"][file]:
            raise Bad(f"bits: {file} is not that of the undisturbed run ({', '.join(got['bits'])})")
    for name in wanted["summary"]:
        if not same(got["summary"][name], wanted["summary"][name]):
            raise Bad(f"summary: {name} is {got['summary'][name]}, undisturbed {wanted['summary'][name]}")
    if sorted(map(str, got["records"])) != sorted(map(str, wanted["records"])):
        raise Bad(f"metrics: records of {sorted(map(str, got['records']))}, undisturbed {sorted(map(str, wanted['records']))}")
    for update, record in wanted["records"].items():
        for name in record:
            if not same(got["records"][update][name], record[name]):
                raise Bad(f"metrics: {name} of {update} is {got['records'][update][name]}, undisturbed {record[name]}")


FILES = re.compile(r"(run\.json|launched\.ini|config\.ini|network\.ini|metrics\.jsonl|(evaluation|summary)\.json|weights\.safetensors|checkpoints"
                   r"(/update-\d{12}(/(weights\.safetensors|state\.safetensors|manifest\.json))?)?)$")


def check_folder(path):
    """Only what a finished run has."""
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            relative = os.path.relpath(os.path.join(folder, name), path)
            if not FILES.match(relative):
                raise Bad(f"folder: {relative} is left there")


# ---- one run ----


class Run:
    def __init__(self, world, setting, number, seed):
        self.world, self.setting, self.number = world, setting, number
        self.random = random.Random(f"{seed}/{number}")
        self.folder = os.path.join(world.work, f"run-{number}")
        self.path, self.shared = self.folder + "/run", self.folder + "/shm"
        if world.shared:
            self.shared = f"{world.shared}/{number}"
        os.makedirs(self.shared)
        os.makedirs(self.folder, exist_ok=True)
        self.log, self.count = [], 0

    def launch(self, ranks, **how):
        self.count += 1
        launch = Launch(self.world, self, ranks, f"{os.getpid()}.{self.number}.{self.count}.{ranks}.", **how)
        self.world.launches[(self.number, self.count)] = launch
        return launch

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shared, ignore_errors=True)


def undisturbed(world, setting, ranks):
    """Fingerprint, seconds, operations on files."""
    run = Run(world, setting, f"{setting.name}-{ranks}", 0)
    launch = run.launch(ranks, disk="log\n")
    code = launch.end()
    seconds = time.monotonic() - launch.start
    if code != 0:
        raise Bad(f"undisturbed: {setting.name} on {ranks} ranks: exit {code}:\n{launch.output()}")
    launch.check_left(False)
    check_folder(run.path)
    operations = len(read(launch.control + ".log").splitlines())
    found = fingerprint(run.path)
    run.remove()
    return found, seconds, operations


class References:
    """Undisturbed runs, made when first asked for; in ordered mode that of one rank counts for all."""

    def __init__(self, world):
        self.world, self.made, self.lock = world, {}, threading.RLock()

    def of(self, setting, ranks):
        key = (setting.name, ranks)
        with self.lock:
            if key not in self.made:
                self.made[key] = undisturbed(self.world, setting, ranks)
                if setting.any and ranks != 1:
                    compare(self.made[key][0], self.of(setting, 1)[0])
            return self.made[key]


def choose_moment(rng, seconds, operations):
    """("time", seconds since the start) or ("file", seconds after that operation is reached), and what the disk is to do."""
    ms = rng.choice((0, 0, 1, 2))
    if rng.random() < 0.4:
        return ("time", rng.uniform(0, seconds + operations * ms / 1000)), f"slow {ms}\n"
    return ("file", rng.choice((0, 0, rng.uniform(0, 0.1)))), f"slow {ms}\npause {rng.randint(1, operations)} {PAUSE_MS}\n"


def choose_kind(rng, ranks, by_script):
    def fits(kind):
        return (by_script or ranks >= KINDS[kind][1]) and (by_script or "script" not in kind)

    kinds = [kind for kind in KINDS if fits(kind) and (kind != "stop rank" or ranks >= KINDS[kind][1])]
    return rng.choices(kinds, [KINDS[kind][0] for kind in kinds])[0]


STOPPED = re.compile(r"after update (\d+) of")


def stopped_after(path):
    """The update in the message that the metrics end with, which is that of its event; None: they do not end so."""
    ends = events(path, "end")
    found = STOPPED.search(ends[-1].get("message", "")) if ends else None
    return int(found.group(1)) if found and int(found.group(1)) == ends[-1]["update"] else None


REQUESTS = ("USR1", "TERM", "INT")
DEATHS = {"HUP": 129, "INT": 130, "QUIT": 131, "kill": 137, "USR1": 138, "PIPE": 141, "TERM": 143, "XFSZ": 153}


def exits(what, met, by_script, early):
    """Exit codes that fit what met whom. early: the signal may have come before the program listened to it, or after an exec had undone
    the launcher's ways with it."""
    codes = {0}
    if what == "storm":
        codes |= {75, 129} | (set(DEATHS.values()) | {1} if met in ("all", "launcher") or early else set())
    elif met == "script":
        codes |= {75} if what in REQUESTS + ("HUP",) else {DEATHS[what]} if what in ("kill", "PIPE") else set()
        codes |= {1, DEATHS[what], 138} if early and what in DEATHS else set()
    elif met == "all":
        codes |= {137} if what == "kill" else set()
    elif by_script and what not in REQUESTS:
        pass  # it starts the run again
    elif met == "launcher":
        codes |= {75, 1, 137} | ({DEATHS[what]} if what in DEATHS else set())
    else:
        codes |= {"stop": {5, 137}, "kill": {137}, "HUP": {129}, "QUIT": {131}}.get(what, {75} if what in REQUESTS else set())
    if early and what in DEATHS and not (by_script and what not in REQUESTS + ("HUP",)):
        codes |= {DEATHS[what], 138, 143, 137, 1}
    return codes


def check_output(output, errors_max, what):
    errors = re.findall(r"^error: .*", output, re.M)
    if len(errors) > errors_max:
        raise Bad(f"messages: {len(errors)} errors after {what}:\n{output}")
    if "this checkpoint is left alone" in output:
        raise Bad(f"checkpoint: one is damaged:\n{output}")


BY = ", by launch.sh"
Disturbance = collections.namedtuple("Disturbance", "kind ranks phase whom code at hung")


def disturbed_launch(run, ranks, resume, reference):
    """Starts, disturbs, waits. Returns the disturbance, or None: the run had ended before."""
    rng = run.random
    kind, rank = choose_kind(rng, ranks, run.by_script), rng.randrange(ranks)
    moment, disk = choose_moment(rng, reference[1], reference[2])
    updates = max(key for key in reference[0]["records"] if isinstance(key, int))
    launch = run.launch(ranks, resume=resume, disk=disk, by_script=run.by_script)
    place = met = None
    if launch.await_moment(moment):
        place = phase(run.path, updates)
        met = launch.disturb(kind, rank, rng)
    code = launch.end()
    what, whom = kind.split()
    # what was to be removed by one that was ended itself
    unremoved = launch.hung or (met in ("launcher", "script", "all") and what in ("kill", "storm", "HUP", "QUIT", "PIPE"))
    launch.check_left(unremoved)
    output = launch.output()
    if place and place != "checkpoint" and what == "kill" and is_writing(run.path):
        place = "checkpoint"
    if place is None:
        if code != 0:
            raise Bad(f"exit: {code} of a run that nobody disturbed:\n{output}")
        return None, code
    if met in ("launcher", "script"):
        kind = f"{what} {met}"
    if code not in exits(what, met.split()[0], run.by_script, place == "start-up" or resume) and not launch.hung:
        raise Bad(f"exit: {code} after {kind} ({met}):\n{output}")
    check_output(output, 1 + run.by_script, kind)
    at = checkpoints(run.path)[-1:] or [0]
    between = re.search(r"^launch\.sh: (exit 138|stopped between)", output, re.M)
    if code == 75 and not between and stopped_after(run.path) != at[0]:
        raise Bad(f"resumed: exit 75 after update {stopped_after(run.path)}, the newest checkpoint is of {at[0]}:\n{output}")
    return Disturbance(kind + (BY if run.by_script else ""), ranks, place, met, code, at[0], launch.hung), code


def check_resumed(run, launch_output, expected):
    starts = events(run.path, "start")
    got = starts[-1].get("resumed_at_update", 0) if starts else 0
    if got != expected:
        raise Bad(f"resumed: at update {got}, the newest whole checkpoint is of {expected}:\n{launch_output}")


def one(run, references):
    """Returns its disturbances; Bad if something is not as it must be."""
    rng, setting = run.random, run.setting
    run.by_script = rng.random() < BY_SCRIPT
    ranks = rng.choice(setting.ranks)
    times = rng.choice((1, 1, 1, 1, 2, 2, 3))
    code = -1
    for attempt in range(DISTURBED_MAX):
        reference = references.of(setting, ranks)
        if attempt == times:
            break
        disturbance, code = disturbed_launch(run, ranks, attempt > 0, reference)
        if disturbance:
            run.log.append(disturbance)
        if code == 0:
            break
        if setting.any:
            ranks = rng.choice(setting.ranks)
    if code != 0:
        expected, starts = (checkpoints(run.path)[-1:] or [0])[0], len(events(run.path, "start", strict=False))
        was_complete = os.path.exists(run.path + "/summary.json")
        launch = run.launch(ranks, resume=True, by_script=run.by_script)
        code = launch.end()
        if code != 0:
            raise Bad(f"exit: {code} of the resumed run:\n{launch.output()}")
        check_output(launch.output(), 0, "resuming")
        launch.check_left(False)
        if not was_complete or len(events(run.path, "start")) > starts:
            check_resumed(run, launch.output(), expected)
    compare(fingerprint(run.path), references.of(setting, ranks)[0])
    check_folder(run.path)


# ---- all of them ----


def table(results):
    """kind x ranks."""
    rows = collections.defaultdict(list)
    for _, setting, log, bad in results:
        for disturbance in log:
            rows[(disturbance.kind, disturbance.ranks)].append((disturbance, bad))
    lines = ["| kind | ranks | disturbances | start-up | training | in a checkpoint | closing | hangs | mpirun alone hangs | left | wrong bits | other "
             "| went on from update (median, range) |", "| " + "--- | " * 13]
    lines[1] = lines[1].rstrip()

    def line(name, ranks, found):
        phases = collections.Counter(d.phase for d, _ in found)
        sorts = collections.Counter(bad.split(":")[0] if bad else "" for _, bad in found)
        other = sum(sorts.values()) - sorts[""] - sorts["hang"] - sorts["left"] - sorts["bits"]
        ats = sorted(d.at for d, _ in found)
        return (f"| {name} | {ranks} | {len(found)} | {phases['start-up']} | {phases['training']} | {phases['checkpoint']} "
                f"| {phases['closing']} | {sorts['hang']} | {sum(d.hung for d, _ in found)} | {sorts['left']} | {sorts['bits']} | {other} "
                f"| {ats[len(ats) // 2]} ({ats[0]} to {ats[-1]}) |")

    for kind in [kind + by for by in ("", BY) for kind in KINDS]:
        for ranks in (1, 2, 4):
            if rows[(kind, ranks)]:
                lines.append(line(kind, ranks, rows[(kind, ranks)]))
    everything = [pair for pairs in rows.values() for pair in pairs]
    if everything:
        lines.append(line("all", "", everything))
    return lines


def summary(results):
    by_setting = collections.Counter(setting for _, setting, _, _ in results)
    disturbances = [d for _, _, log, _ in results for d in log]
    hit = sum(1 for _, _, log, _ in results if log)
    bad = [number for number, _, _, why in results if why]
    codes = collections.Counter(d.code for d in disturbances)
    return [
        f"{len(results)} runs ({', '.join(f'{name} {count}' for name, count in sorted(by_setting.items()))}), {hit} of them disturbed "
        f"({len(disturbances)} disturbances, {sum(d.phase == 'checkpoint' for d in disturbances)} while a checkpoint was being "
        f"written), {len(bad)} not as they must be{': ' + ', '.join(map(str, bad)) if bad else ''}",
        "exit codes of disturbed launches: " + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items())),
    ]


def describe(disturbance):
    whom = "" if disturbance.whom in disturbance.kind else f" ({disturbance.whom})"
    return (f"{disturbance.kind}{whom} of {disturbance.ranks} in {disturbance.phase}: exit {disturbance.code}, newest checkpoint "
            f"{disturbance.at}")


class World:
    """What all runs share."""

    def __init__(self, args):
        self.bin = os.path.abspath(args.bin)
        self.plugin = self.bin + "/emulated/lockstep_cuda.so"
        self.work = tempfile.mkdtemp(prefix="lockstep.")
        # Open MPI's shared memory, where nobody else's is
        self.shared = tempfile.mkdtemp(prefix="lockstep.", dir="/dev/shm") if os.access("/dev/shm", os.W_OK) else None
        self.mca = ("btl_vader_backing_directory", "osc_sm_backing_directory", "orte_tmpdir_base")
        self.preload = self.work + "/disk.so"
        self.script = os.path.join(HERE, "../../scripts/launch.sh")
        self.mpirun, self.launches = None, {}

    def prepare(self):
        if not open_mpi.find():
            return open_mpi.MISSING
        self.mpirun = [*open_mpi.words(), "--oversubscribe", "--bind-to", "none"] + os.environ.get("MPI_FLAGS", "").split()
        if not shutil.which("cc"):
            return "no C compiler, to build tests/support/disk.c"
        support = os.path.join(HERE, "../support/disk.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.preload, support, "-ldl"], check=True)
        for name in ("net.ini", "run.ini"):
            shutil.copy(os.path.join(HERE, "../support/small_run", name), self.work)
        os.mkdir(self.work + "/bin")
        with open(self.work + "/bin/train", "w") as file:
            file.write(f"""#!/bin/sh
eval "$LOCKSTEP_TEST_BEFORE"
export LD_PRELOAD="{self.preload}" ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
exec "{self.bin}/train" "$@"
""")
        os.chmod(self.work + "/bin/train", 0o755)
        return None

    def remove(self):
        for launch in list(self.launches.values()):
            if launch.running():  # interrupted
                launch.kill()
        shutil.rmtree(self.work, ignore_errors=True)
        if self.shared:
            shutil.rmtree(self.shared, ignore_errors=True)


def keep(run, why, args):
    folder = os.path.join(args.keep, f"run-{run.number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.folder, folder)
    with open(folder + "/why", "w") as file:
        names = ",".join(args.settings)
        file.write("\n".join(map(describe, run.log)) + f"\n{why}\nrepeat: tests/fault/resume_campaign.py {args.bin} --settings {names} "
                   f"--seed {args.seed} --only {run.number}\n")


def campaign(world, args):
    settings = [s for s in SETTINGS if s.name in args.settings and ("cuda" not in s.name or os.path.exists(world.plugin))]
    references = References(world)

    def perform(number):
        rng = random.Random(f"{args.seed}/{number}/setting")
        setting = rng.choices(settings, [s.share for s in settings])[0]
        run = Run(world, setting, number, args.seed)
        why, start = "", time.monotonic()
        try:
            one(run, references)
        except (Bad, OSError, KeyError, ValueError) as error:
            why = str(error) if isinstance(error, Bad) else f"folder: {error!r}"
            keep(run, why, args)
        text = "; ".join(map(describe, run.log)) or "undisturbed"
        print(f"run {number} {setting.name}: {text}: {why or 'ok'} ({time.monotonic() - start:.1f} s)", flush=True)
        run.remove()
        return number, setting.name, run.log, why

    with ThreadPoolExecutor(args.jobs) as pool:
        return list(pool.map(perform, args.only or range(1, args.runs + 1)))


def take_signals():
    """As a terminal would give them to what is started here: a shell's children in the background ignore some, which theirs inherit."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # QUIT


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("bin")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--settings", type=lambda text: text.split(","), default=[s.name for s in SETTINGS])
    parser.add_argument("--keep", default="campaign-failures")
    parser.add_argument("--out")
    args = parser.parse_args()
    world = World(args)
    take_signals()
    try:
        missing = world.prepare()
        if missing:
            print(f"skipped: {missing}")
            return 77
        start = time.monotonic()
        results = campaign(world, args)
        lines = summary(results) + [f"{time.monotonic() - start:.0f} s, seed {args.seed}, {os.cpu_count()} cores, {args.jobs} at a time"] + [""] + table(results)
        print("\n".join(lines))
        if args.out:
            with open(args.out, "w") as file:
                file.write("\n".join(lines) + "\n")
        return 1 if any(why for _, _, _, why in results) else 0
    finally:
        world.remove()


if __name__ == "__main__":
    sys.exit(main())
