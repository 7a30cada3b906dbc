#!/usr/bin/env python3
"""campaign.py BIN [--runs N] [--seed N] [--jobs N] [--only I,J] [--settings A,B] [--keep DIR] [--out FILE]

Runs that are killed, stopped or asked to stop at random moments, resumed (and disturbed again, up to three times), and must
end as an undisturbed run does:

  bits       weights.safetensors and the last checkpoint's two files, byte for byte
  metrics    every line valid JSON; the last record of each update says what the undisturbed run's says
  resumed    from the newest checkpoint that was whole when the process ended; after exit 75 from the very update of the message
  nothing    hangs, survives (process, shared memory), or is left in the folder under a temporary name

BIN is the folder of the built programs. A run is tiny but real (tests/train/small_run.sh: batch norm, dropout, augmentation, a short
last window; six epochs, on cuda three; a checkpoint every second update). A disturbance is one of

  kill rank, kill all, kill launcher      SIGKILL to one rank, to everything, to mpirun alone
  stop rank                               SIGSTOP to one of several ranks: the watchdog ends the run after dist.timeout, the
                                          guard of its start after LOCKSTEP_START_TIMEOUT
  USR1/TERM/INT rank, USR1/TERM launcher  requests to stop

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
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 300  # from a disturbance, or the start, to the end
PAUSE_MS = 150
TIMEOUT_S = 6  # dist.timeout
START_TIMEOUT_S = 15
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

KINDS = {  # kind: how often, at least so many ranks. A rank that is not there yet: the launcher in its place
    "kill rank": (6, 1),
    "kill all": (3, 1),
    "kill launcher": (2, 2),
    "stop rank": (1.5, 2),
    "USR1 rank": (3, 1),
    "TERM rank": (3, 1),
    "INT rank": (1, 1),
    "USR1 launcher": (2, 2),
    "TERM launcher": (2, 2),
    "INT launcher": (0, 2),
}


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
    """One start of the program in a run's folder, with or without mpirun."""

    def __init__(self, world, run, ranks, resume, disk, tag):
        self.world, self.run, self.ranks, self.tag = world, run, ranks, tag.encode()
        self.number = len([name for name in os.listdir(run.folder) if name.startswith("output.")])
        self.output_path = os.path.join(run.folder, f"output.{self.number}")
        self.control = os.path.join(run.folder, f"disk.{self.number}")
        with open(self.control, "w") as file:
            file.write(disk)
        environment = dict(os.environ, LOCKSTEP_CAMPAIGN=tag, LOCKSTEP_EMULATION="devices=4",
                           LOCKSTEP_START_TIMEOUT=str(START_TIMEOUT_S))
        environment.update({"OMPI_MCA_" + key: run.shared for key in world.mca})
        environment["LOCKSTEP_CUDA_PLUGIN"] = world.plugin if "cuda" in run.setting.name else "/nonexistent"
        preload = ["env", f"LD_PRELOAD={world.preload}", f"LOCKSTEP_TEST_DISK={self.control}",
                   f"LOCKSTEP_TEST_DISK_BELOW={run.path}/", "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0"]
        options = [word for option in COMMON + run.setting.options for word in ("--set", option)]
        command = preload + [world.bin + "/train", world.work + "/run.ini", "--quiet", "--run-dir", run.path] + options
        if resume:
            command += ["--set", "run.resume=auto"]  # it may have been killed before there was a run
        self.with_mpirun = ranks > 1
        if self.with_mpirun:
            command = world.mpirun + ["-np", str(ranks)] + command
        self.start, self.met, self.hung = time.monotonic(), "its start", False
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment,
                                            start_new_session=True)

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

    def disturb(self, kind, rank):
        """Returns whom it met."""
        what, whom = kind.split()
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}.get(what) or getattr(signal, "SIG" + what)
        if whom == "all":
            for process in tagged(self.tag):
                send(process, number)
            return "all"
        process = self.rank(rank) if whom == "rank" else None
        while what == "stop" and not process and self.running():  # a launcher that is stopped ends by no one's hand
            process = self.rank(rank)
        self.met = f"{kind} {rank} ({process})"
        send(process or self.process.pid, number)
        return f"rank {rank}" if process else "launcher"

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
        until = time.monotonic() + 10
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
            name.startswith(("weights.", "summary.")) for name in (os.listdir(path) if os.path.isdir(path) else [])):
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
    last = checkpoints(path)[-1]
    folder = f"{path}/checkpoints/update-{last:012d}"
    files = [path + "/weights.safetensors", folder + "/weights.safetensors", folder + "/state.safetensors"]
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


def check_folder(path):
    """Only what a finished run has."""
    allowed = re.compile(r"(run\.json|config\.ini|network\.ini|metrics\.jsonl|summary\.json|weights\.safetensors|checkpoints"
                         r"(/update-\d{12}(/(weights\.safetensors|state\.safetensors|manifest\.json))?)?)$")
    for folder, folders, names in os.walk(path):
        for name in folders + names:
            relative = os.path.relpath(os.path.join(folder, name), path)
            if not allowed.match(relative):
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
        self.log = []

    def launch(self, ranks, resume, disk=""):
        launch = Launch(self.world, self, ranks, resume, disk, f"{os.getpid()}.{self.number}.{len(self.log)}.{ranks}.")
        self.world.launches[self.number] = launch
        return launch

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shared, ignore_errors=True)


def undisturbed(world, setting, ranks):
    """Fingerprint, seconds, operations on files."""
    run = Run(world, setting, f"{setting.name}-{ranks}", 0)
    launch = run.launch(ranks, False, "log\n")
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


def choose_kind(rng, ranks):
    kinds = [kind for kind in KINDS if ranks >= KINDS[kind][1]]
    return rng.choices(kinds, [KINDS[kind][0] for kind in kinds])[0]


STOPPED = re.compile(r"after update (\d+) of")


def stopped_after(path):
    """The update in the message that the metrics end with; None: they do not end so."""
    ends = events(path, "end")
    found = STOPPED.search(ends[-1].get("message", "")) if ends else None
    return int(found.group(1)) if found else None


def check_exit(kind, code, output, early):
    """The exit code fits the disturbance. early: the signal may have come before the program listened to it."""
    died = {"kill": {137}, "stop": {5, 137}}.get(kind.split()[0], {75})
    if "launcher" in kind and "kill" not in kind:
        died |= {137, 143, 130, 1}
    if early:
        died |= {138, 143, 130, 137, 1}
    if code not in died | {0}:
        raise Bad(f"exit: {code} after {kind}:\n{output}")
    errors = re.findall(r"^error: .*", output, re.M)
    if len(errors) > 1:
        raise Bad(f"messages: {len(errors)} errors after {kind}:\n{output}")
    if "this checkpoint is left alone" in output:
        raise Bad(f"checkpoint: one is damaged:\n{output}")


Disturbance = collections.namedtuple("Disturbance", "kind ranks phase whom code at hung")


def disturbed_launch(run, ranks, resume, reference):
    """Starts, disturbs, waits. Returns the disturbance, or None: the run had ended before."""
    rng = run.random
    kind, rank = choose_kind(rng, ranks), rng.randrange(ranks)
    moment, disk = choose_moment(rng, reference[1], reference[2])
    updates = max(key for key in reference[0]["records"] if isinstance(key, int))
    launch = run.launch(ranks, resume, disk)
    place = whom = None
    if launch.await_moment(moment):
        place = phase(run.path, updates)
        whom = launch.disturb(kind, rank)
    code = launch.end()
    killed = launch.hung or (kind.startswith("kill") and whom in ("launcher", "all"))
    launch.check_left(killed)
    output = launch.output()
    if place and place != "checkpoint" and kind.startswith("kill") and is_writing(run.path):
        place = "checkpoint"
    if place is None:
        if code != 0:
            raise Bad(f"exit: {code} of a run that nobody disturbed:\n{output}")
        return None, code
    if whom == "launcher":
        kind = kind.split()[0] + " launcher"
    check_exit(kind, code, output, place == "start-up" or resume)
    at = checkpoints(run.path)[-1:] or [0]
    if code == 75 and stopped_after(run.path) != at[0]:
        raise Bad(f"resumed: exit 75 after update {stopped_after(run.path)}, the newest checkpoint is of {at[0]}:\n{output}")
    return Disturbance(kind, ranks, place, whom, code, at[0], launch.hung), code


def check_resumed(run, launch_output, expected):
    starts = events(run.path, "start")
    got = starts[-1].get("resumed_at_update", 0) if starts else 0
    if got != expected:
        raise Bad(f"resumed: at update {got}, the newest whole checkpoint is of {expected}:\n{launch_output}")


def one(run, references):
    """Returns its disturbances; Bad if something is not as it must be."""
    rng, setting = run.random, run.setting
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
        launch = run.launch(ranks, True)
        code = launch.end()
        if code != 0:
            raise Bad(f"exit: {code} of the resumed run:\n{launch.output()}")
        check_exit("resumed", code, launch.output(), False)
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

    for kind in KINDS:
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
        self.mpirun, self.launches = None, {}

    def prepare(self):
        mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
        version = subprocess.run([mpirun, "--version"], capture_output=True, check=False).stdout if mpirun else b""
        if b"Open MPI" not in version and b"OpenRTE" not in version:
            return "no mpirun of Open MPI (Debian, Ubuntu: apt-get install openmpi-bin)"
        self.mpirun = [mpirun, "-quiet", "--oversubscribe", "--bind-to", "none"] + os.environ.get("MPI_FLAGS", "").split()
        if os.geteuid() == 0:
            self.mpirun.append("--allow-run-as-root")
        if not shutil.which("cc"):
            return "no C compiler, to build tests/support/disk.c"
        support = os.path.join(HERE, "../support/disk.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.preload, support, "-ldl"], check=True)
        script = f". {HERE}/../train/small_run.sh; small_run {self.work}"
        subprocess.run(["bash", "-c", script], check=True)
        return None

    def remove(self):
        for launch in list(self.launches.values()):
            if launch.running():  # interrupted
                launch.kill()
        shutil.rmtree(self.work, ignore_errors=True)
        if self.shared:
            shutil.rmtree(self.shared, ignore_errors=True)


def keep(world, run, why, args):
    folder = os.path.join(args.keep, f"run-{run.number}")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run.folder, folder)
    with open(folder + "/why", "w") as file:
        names = ",".join(args.settings)
        file.write("\n".join(map(describe, run.log)) + f"\n{why}\nrepeat: tests/fault/campaign.py {args.bin} --settings {names} "
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
            keep(world, run, why, args)
        text = "; ".join(map(describe, run.log)) or "undisturbed"
        print(f"run {number} {setting.name}: {text}: {why or 'ok'} ({time.monotonic() - start:.1f} s)", flush=True)
        run.remove()
        return number, setting.name, run.log, why

    with ThreadPoolExecutor(args.jobs) as pool:
        return list(pool.map(perform, args.only or range(1, args.runs + 1)))


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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
