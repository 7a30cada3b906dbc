#!/usr/bin/env python3
"""injection.py BIN [--scenes A,B] [--try N] [--long] [--from FUNCTION] [--jobs N]: makes every call that can fail, fail.

BIN is the folder of the built programs; train_injected in it (tests/support/inject.c) counts our calls of allocations, file
operations, threads and libraries, and makes a chosen one fail. A scene is a command; its points are the calls in it. For each point
tried the command must end as documented:

  exit      with the code that fits what failed; with 0 only where TOLERATED says so. Never by a signal or a sanitizer, never late
  message   exactly one line "error:", which names what failed and why; none if the exit code is 0
  left      no memory, file, thread or library object (if the program came to its end), no process, no temporary file
  files     under their final names they are whole, or not there

A small allocation (ls_new and its relatives in base/memory.h) that fails ends the program at once, by one path: exit code 4 and one
line "error: out of memory: ...". Such a program does not come to its end, and may leave temporary files, as a killed one does.

By default N points are tried in each scene, one on each path (where calls come from) as far as they go; --long tries all of them,
and STORE points again with a disk that stays full; --from FUNCTION tries all that come from there; --small tries small
allocations instead of all other calls, N in each scene whatever the number of ranks, spread over all of them. Prints how many points
there are and how many were tried; exit 1 if one was bad.
"""
import argparse
import bisect
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
import open_mpi  # noqa: E402

LIMIT_S = 300  # a hang
POLLED = 2  # calls tried of a path that is called until something has happened

OK, INTERNAL, USAGE, DATA, DEVICE, COMM, NUMERIC, STORAGE, STOPPED = 0, 1, 2, 3, 4, 5, 6, 7, 75
POLLING = {"MPI_Test", "poll"}
SMALL = {"ls_new_zeroed", "ls_new_text", "ls_new_textf", "ls_grow_array", "ls_text_stream", "ls_text_stream_close"}
OUT_OF_MEMORY = "error: out of memory: "

NETWORK = """[network]
input = {input}
[conv1]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
bias = false
[norm1]
layer = batchnorm2d
[relu1]
layer = relu
[pool1]
layer = maxpool2d
kernel = 2
[conv2]
layer = conv2d
out_channels = 8
kernel = 5
stride = 2
padding = 2
[relu2]
layer = relu
[flat]
layer = flatten
[fc]
layer = linear
out_features = {classes}
"""
RUN = """[data]
{data}
[model]
file = net.ini
[train]
epochs = 1
global_batch = 8
micro_batch = 4
[device]
type = cpu
threads = 2
[log]
every = 1
"""
SYNTHETIC = "dataset = synthetic\nshape = 1x8x8\nclasses = 4\ntrain_samples = 20\ntest_samples = 12"

# What may fail without ending the command: the name of a function of ours, the calls that may fail in it and below it ("" for
# all), and why.
TOLERATED = [
    ("ls_cpus_detect", "", "processors and limits are looked up in /proc and /sys, where each file may be missing"),
    ("read_model", "", "the processor's name is for people"),
    ("ls_memory_peak_bytes", "", "getrusage is asked instead"),
    ("ls_clock_since_start", "", "is counted from a later moment"),
    ("ls_progress_choose", "", "who started us decides only how progress is shown"),
    ("ls_comm_init", "gethostname", "a host without a name is called ?"),
    ("open_trainer", "pthread_create", "data is read by the main thread"),
    ("ls_checkpoint_manager_newest", "open read access opendir close stat", "the checkpoint is named, and an older one taken"),
    ("find_kept", "open read close fstat", "it cannot be among the best, and goes when its time comes"),
    ("ls_algorithm_cache_open", "", "what it does not hold is measured, or goes by the device's rule"),
    ("ls_run_folder_close", "close", "only the lock"),
    ("ls_make_folders", "mkdir", "the folder is there already, whatever mkdir says"),
    ("ls_checkpoint_manager_clean", "", "what a killed process left is in nobody's way"),
    ("check_owners", "open read close fstat", "as a damaged one it is told when the newest is looked for"),
    ("ls_metrics_begins", "open read close malloc fstat", "then the file is no run's, and stays"),
    ("ls_metrics_last_checkpoint", "stat close", "opening says what is wrong; nothing was written"),
    ("ls_run_folder_begin", "access", "what cannot be compared is written anew"),
    ("run_writer", "", "a checkpoint that cannot be written is warned of; training goes on"),
    ("ls_installed_path", "", "a program that does not know its place is in the folder of its build"),
    ("ls_dataset_find", "stat", "the other places are looked at, too"),
    ("ls_weights_locate", "stat", "opening says what is wrong"),
    ("find_idx", "stat", "opening says what is wrong"),
    ("ls_dataset_pack", "", "a warning says that pictures are decoded in every epoch"),
    ("ls_picture_cache_settle", "", "what others packed is decoded"),
    ("ls_picture_cache_close", "close", "what was written has its hash"),
    ("ls_picture_cache_get", "pread", "what cannot be read is decoded"),
    ("ls_picture_cache_put", "pwrite", "a warning says that the others are decoded each time"),
    ("ls_verify_read", "pthread_create", "fewer threads are slower, not wrong"),
    ("ls_dataset_read_whole", "open fstat read pread", "a warning names the picture; another takes its place"),
    ("stamp_of_open", "", "the file is read again at the next start"),
    ("ls_folder_open", "realpath", "the path as given names the packed pictures"),
    ("ls_folder_open", "stat", "decoding finds a picture that is not there"),
    ("ls_gzip_inflate", "libdeflate_alloc_decompressor libdeflate_gzip_decompress_ex", "zlib does it, or says why not"),
    ("ls_gzip_peek", "inflate", "the header was complete by then"),
    ("ls_launcher_is_parent", "", "the command that goes on is said without its launcher"),
    ("ls_launcher_command", "open fdopen read close", "the command that goes on is said without its launcher"),
    ("ls_comm_mpi_library", "", "the library's name is for people"),
    ("ls_inflated_open", "", "the gzip file is inflated"),
    ("look_for_file", "open", "the gzip file is inflated"),
    ("ls_inflated_claim", "", "the gzip file is inflated, beside another rank that does so"),
    ("ls_inflated_keep", "", "it is inflated at each start, which a warning says where a folder was named"),
    ("ls_inflated_close", "", "its memory is free when the program ends; whoever comes next takes the lock"),
    ("ls_atomic_file_check", "stat unlink close", "a probe; writing at the end says what is wrong"),
    ("ls_powercap_start", "opendir open read close", "energy is not reported where no meter can be read"),
    ("ls_cmd_eval", "stat", "what is no folder is a file; opening says what is wrong"),
    ("ls_picture_list_add", "stat", "what is no folder is a picture; opening says what is wrong"),
    ("mention_folders", "stat", "what cannot be looked at is not mentioned as a folder"),
    ("in_utf8", "", "names that look alike are then told as any others"),
    ("ls_input_close", "close", "nothing was written"),
    ("ls_file_type_of", "", "whoever reads the file says what is wrong with it"),
    ("ls_nearest_path", "", "a path that is not there is then told without a suggestion"),
    ("find_recorded", "", "a run whose record cannot be read says nothing about its data"),
    ("ls_data_file_note", "fstat", "the file is then not known to the check of outputs"),
    ("ls_command_check_output", "stat", "a file that is not there is not replaced"),
    ("ls_named_nearby", "stat", "the file is looked for in the other places"),
    ("clean", "opendir open", "what a killed process left is in nobody's way"),
    ("ls_read_beginning", "close", "nothing was written"),
    ("ls_live_file_put", "fstat", "asked only where a line cannot be written"),
    ("ls_pinned_look", "", "says nothing about where the folder is"),
    ("ls_path_room", "open fstatvfs close", "writing says what is wrong"),
    ("check_room", "stat", "checkpoints/ is taken for no other disk; writing says what is wrong"),
    ("ls_make_folders", "close", "that of a folder, which was synced"),
    ("ls_sync_folder", "close", "that of a folder, which was synced"),
    ("ls_sched_wait_seconds", "", "how long threads waited for a core is for the report of late ranks; /proc may lack it"),
    ("ls_heartbeat_wait", "poll", "the watchdog looks again a quarter of a second later"),
    ("ls_watchdog_free", "close", "nothing was written"),
    ("ls_atomic_file_clean", "", "what a killed process left is in nobody's way"),
    ("ls_atomic_file_commit", "close", "that of the folder, which was synced; that of the file is told"),
    ("ls_cmd_devices", "", "a device that cannot be opened is listed with the reason"),
    ("ls_heartbeat_open", "", "without the heartbeat a lost rank is found by the timeout"),
    ("ls_heartbeat_close", "close", "nothing was written"),
    ("watch", "read", "an eventfd that only wakes"),
    ("stbi_info_from_memory", "malloc", "stb_image asks the other formats"),
    ("ls_run_folder_open", "stat", "mkdir says what is wrong with the folder"),
]


class Scene:
    """A command, in a folder of its own. Ranks > 1: by mpirun, and the failure is on rank `fails_on`. `then`: a command that must
    succeed after whatever happened, and leave the weights of an undisturbed run."""

    def __init__(self, name, what, command, prepare, ranks=1, fails_on=0, then=None):
        self.name, self.what, self.command, self.prepare = name, what, command, prepare
        self.ranks, self.fails_on, self.then = ranks, fails_on, then


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def prepare_synthetic(folder, _program):
    write(f"{folder}/net.ini", NETWORK.format(input="1x8x8", classes=4))
    write(f"{folder}/run.ini", RUN.format(data=SYNTHETIC))


def prepare_norm(folder, program):
    prepare_synthetic(folder, program)
    write(f"{folder}/run.ini", RUN.format(data=SYNTHETIC).replace("[train]", "[train]\nsync_batchnorm = true\nrecompute = blocks"))


def prepare_weights(folder, program):
    prepare_synthetic(folder, program)
    subprocess.run([program, "run.ini", "--run-dir", "made", "--quiet"], cwd=folder, check=True,
                   env=dict(os.environ, LOCKSTEP_CUDA_PLUGIN="/nonexistent"))
    os.rename(f"{folder}/made/weights.safetensors", f"{folder}/w.safetensors")
    shutil.rmtree(f"{folder}/made")


CHECKPOINTS = ["--set", "checkpoint.every_updates=1", "--set", "checkpoint.keep_last=1", "--set", "train.epochs=2"]
RESUMED = ["run.ini", "--run-dir", "out", "--set", "run.resume=auto", *CHECKPOINTS]


def prepare_stopped(folder, program):
    prepare_synthetic(folder, program)
    subprocess.run([program, *RESUMED, "--quiet", "--set", "train.max_updates=2"], cwd=folder, check=True,
                   env=dict(os.environ, LOCKSTEP_CUDA_PLUGIN="/nonexistent"))


def idx(path, dims, data, magic):
    with gzip.open(path, "wb") as file:
        file.write(bytes([0, 0, 8, magic]) + b"".join(struct.pack(">I", d) for d in dims) + data)


def prepare_idx(folder, _program):
    write(f"{folder}/net.ini", NETWORK.format(input="1x28x28", classes=10))
    write(f"{folder}/run.ini", RUN.format(data="dataset = mnist\npath = data"))
    os.mkdir(f"{folder}/data")
    for name, count in (("train", 20), ("t10k", 12)):
        pixels, labels = bytes(i * 37 % 251 for i in range(count * 784)), bytes(i % 10 for i in range(count))
        idx(f"{folder}/data/{name}-images-idx3-ubyte.gz", (count, 28, 28), pixels, 3)
        idx(f"{folder}/data/{name}-labels-idx1-ubyte.gz", (count,), labels, 1)


def prepare_cifar(folder, _program):
    write(f"{folder}/net.ini", NETWORK.format(input="3x32x32", classes=10))
    write(f"{folder}/run.ini", RUN.format(data="dataset = cifar10\npath = data"))
    os.mkdir(f"{folder}/data")
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        with open(f"{folder}/data/{name}.bin", "wb") as file:
            file.write(b"".join(bytes([i % 10]) + bytes(j * 37 % 251 for j in range(3072)) for i in range(4)))


def picture(path, seed):
    """A PNG of 12 x 10 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((seed + j * 37 + y) % 251 for j in range(36)) for y in range(10))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 12, 10, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def prepare_predict(folder, program):
    prepare_folder(folder, program)
    subprocess.run([program, "run.ini", "--run-dir", "made", "--quiet"], cwd=folder, check=True,
                   env=dict(os.environ, LOCKSTEP_CUDA_PLUGIN="/nonexistent"))
    os.rename(f"{folder}/made/weights.safetensors", f"{folder}/w.safetensors")
    shutil.rmtree(f"{folder}/made")


def prepare_folder(folder, _program):
    write(f"{folder}/net.ini", NETWORK.format(input="3x8x8", classes=2))
    write(f"{folder}/run.ini", RUN.format(data="dataset = folder\npath = data\nimage_size = 8x8"))
    for split, count in (("train", 10), ("test", 6)):
        for label in ("cat", "dog"):
            os.makedirs(f"{folder}/data/{split}/{label}")
            for i in range(count):
                picture(f"{folder}/data/{split}/{label}/{i}.png", i)


SCENES = [
    Scene("train", "a run on one rank, from start to saved weights", ["run.ini", "--run-dir", "out"], prepare_synthetic),
    Scene("checkpoints", "a run that writes checkpoints, then resumed", ["run.ini", "--run-dir", "out", *CHECKPOINTS], prepare_synthetic,
          then=RESUMED),
    Scene("resume", "a run that goes on from its checkpoint, then resumed", RESUMED, prepare_stopped, then=RESUMED),
    Scene("trace", "a run with a trace and TensorBoard's events", ["run.ini", "--run-dir", "out", "--trace", "trace.json", "--trace-updates", "1:3",
                                                                       "--set", "log.tensorboard=true"], prepare_norm),
    Scene("numbered", "the plan of a run", ["run.ini", "--dry-run"], prepare_synthetic),
    Scene("eval", "evaluation of saved weights", ["eval", "run.ini", "w.safetensors"], prepare_weights),
    Scene("idx", "MNIST's files, packed", ["run.ini", "--run-dir", "out", "--set", "train.max_updates=1"], prepare_idx),
    Scene("cifar", "CIFAR's files", ["run.ini", "--run-dir", "out", "--set", "train.max_updates=1"], prepare_cifar),
    Scene("folder", "a folder of pictures", ["run.ini", "--set", "train.max_updates=1"], prepare_folder),
    Scene("predict", "the class of a picture", ["predict", "w.safetensors", "data/test/cat/1.png"], prepare_predict),
    Scene("export", "weights as an ONNX model", ["export", "w.safetensors", "model.onnx"], prepare_predict),
    Scene("devices", "this machine's devices", ["devices", "--json"], prepare_synthetic),
    Scene("ranks", "two ranks, the first fails", ["run.ini", "--run-dir", "out"], prepare_norm, ranks=2),
    Scene("ranks1", "two ranks, the second fails", ["run.ini", "--run-dir", "out"], prepare_norm, ranks=2, fails_on=1),
]


class Symbols:
    """Function names of addresses inside the program."""

    def __init__(self, program):
        text = subprocess.run(["nm", "--defined-only", "-n", program], capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in text.splitlines()]
        rows = [(int(r[0], 16), r[2]) for r in rows if len(r) == 3 and r[1] in "tTwW"]
        self.starts, self.names = [r[0] for r in rows], [r[1].split(".")[0] for r in rows]

    def name(self, address):
        at = bisect.bisect_right(self.starts, address - 1) - 1  # a return address may be that of the next function
        return self.names[at] if at >= 0 else "?"


class Path:
    def __init__(self, words, symbols):
        self.hash, self.calls, self.kind, self.function = words[1], int(words[2]), words[3], words[4]
        self.names = [symbols.name(int(w, 16)) for w in words[5:]]
        ours = {"find_path", "fails", "stream_read", "stream_write", "stream_close", "begin", "new_bytes"} | SMALL
        self.is_small = False
        while self.names and (self.names[0] in ours or self.names[0].startswith("__wrap_")):
            self.is_small |= self.names.pop(0) in SMALL

    def text(self):
        return f"{self.function} in " + " < ".join(self.names[:6])


class Log:
    def __init__(self, path, symbols):
        self.paths, self.left, self.failed, self.ended = {}, [], [], False
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            for words in map(str.split, file):
                if words[0] == "path":
                    self.paths[words[1]] = Path(words, symbols)
                elif words[0] == "left":
                    self.left.append(words[1:])
                elif words[0] == "failed":
                    self.failed.append((" ".join(words[1:-1]), int(words[-1])))
                elif words[0] == "end":
                    self.ended = True


class Outcome:
    def __init__(self):
        self.rc, self.late, self.errors, self.text, self.log, self.problems = 0, False, [], "", None, []
        self.out_of_memory = False


def end_group(process):
    """True if there was something left to end."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


class Runner:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.symbols = Symbols(program)
        self.weights = {}  # by scene, those of the run without a failure

    def run(self, scene, number, point=None, short=False):
        """The scene in a fresh folder; the outcome, with the folder's state judged."""
        folder = f"{self.work}/{scene.name}-{number}"
        shutil.copytree(f"{self.work}/{scene.name}", folder)
        environment = dict(os.environ, LOCKSTEP_INJECT_LOG=f"{folder}.log", LOCKSTEP_INJECT_RANK=str(scene.fails_on),
                           XDG_CACHE_HOME=f"{folder}/cache", OMPI_MCA_btl_base_warn_component_unused="0")
        environment.pop("LOCKSTEP_INJECT", None)
        if point:
            environment["LOCKSTEP_INJECT"] = point
        if short:
            environment["LOCKSTEP_INJECT_SHORT"] = "1"
        environment.setdefault("LOCKSTEP_CUDA_PLUGIN", "/nonexistent")
        options = environment.get("ASAN_OPTIONS", "")
        environment["ASAN_OPTIONS"] = f"{options}:detect_leaks={int(scene.ranks == 1)}:exitcode=99".lstrip(":")
        environment["LSAN_OPTIONS"] = "exitcode=98"
        command = [self.program] + scene.command
        if scene.ranks > 1:
            command = [*open_mpi.words(), "--oversubscribe", "--bind-to", "none", "-np", str(scene.ranks)] + command
        outcome = Outcome()
        with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True) as process:
            try:
                outcome.text, _ = process.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                outcome.late = True
                end_group(process)
                outcome.text, _ = process.communicate()
            outcome.rc = process.returncode
            if end_group(process) and not outcome.late:
                outcome.problems.append("a process was left")
        outcome.errors = [line for line in outcome.text.splitlines() if re.match(r"(rank \d+: )?error: ", line)]
        # A rank that fails before the ranks can agree on anything leaves, which the others tell.
        if len(outcome.errors) > 1:
            outcome.errors = [line for line in outcome.errors if not re.search(r"rank \d+ on .* is gone: ", line)]
        outcome.out_of_memory = any(OUT_OF_MEMORY in line for line in outcome.errors)
        suffix = f".{scene.fails_on}" if scene.ranks > 1 else ""
        outcome.log = Log(f"{folder}.log{suffix}", self.symbols)
        self.judge_end(scene, outcome, folder)
        judge_files(folder, outcome)
        if scene.then:
            self.go_on(scene, outcome, folder)
        shutil.rmtree(folder)
        for rank in range(scene.ranks):
            name = f"{folder}.log.{rank}" if scene.ranks > 1 else f"{folder}.log"
            if os.path.exists(name):
                os.remove(name)
        return outcome

    def go_on(self, scene, outcome, folder):
        """What was saved is good: the run goes on from it, and ends where an undisturbed one ends."""
        done = subprocess.run([self.program.replace("_injected", ""), *scene.then], cwd=folder, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=LIMIT_S, errors="replace",
                              env=dict(os.environ, LOCKSTEP_CUDA_PLUGIN="/nonexistent"))
        if done.returncode != 0:
            outcome.problems.append(f"could not be resumed: exit {done.returncode}: {done.stdout.strip()[-300:]}")
            return
        with open(f"{folder}/out/weights.safetensors", "rb") as file:
            data = file.read()
        weights = hashlib.sha256(data[8 + struct.unpack("<Q", data[:8])[0]:]).hexdigest()
        if weights != self.weights.setdefault(scene.name, weights):
            outcome.problems.append("resumed, but with other weights than those of an undisturbed run")
        if "damaged" in done.stdout:
            outcome.problems.append(f"left a damaged checkpoint: {done.stdout.strip()[-300:]}")

    def judge_end(self, scene, outcome, folder):
        add = outcome.problems.append
        if outcome.late:
            add(f"did not end within {LIMIT_S} s")
        elif outcome.rc < 0 or outcome.rc > 128:
            add(f"ended by a signal ({outcome.rc})")
        elif outcome.rc not in (OK, USAGE, DATA, DEVICE, COMM, NUMERIC, STORAGE):
            add(f"exit code {outcome.rc}")
        if "Sanitizer" in outcome.text or "runtime error" in outcome.text:
            add("a sanitizer's report")
        if not outcome.late and len(outcome.errors) != (outcome.rc != 0):
            add(f"{len(outcome.errors)} error lines with exit code {outcome.rc}")
        if scene.ranks == 1 and not outcome.log.ended and not outcome.late and not outcome.out_of_memory:
            add("did not come to its end")
        if outcome.log.ended:
            for kind, function, path in outcome.log.left:
                where = outcome.log.paths[path].text() if path in outcome.log.paths else function
                add(f"left behind ({kind}): {where}")


def judge_files(folder, outcome):
    """Whole, or not there; the last line of metrics may have been cut by a write that failed."""
    add = outcome.problems.append
    for place, _, names in os.walk(folder):
        for name in names:
            path = f"{place}/{name}"
            with open(path, "rb") as file:
                data = file.read()
            try:
                if ".tmp" in name:
                    if not outcome.out_of_memory and not any(function == "unlink" for function, _error in outcome.log.failed):
                        add(f"temporary file left: {name}")
                elif name.endswith(".json"):
                    json.loads(data)
                elif name.endswith(".safetensors"):
                    length, = struct.unpack("<Q", data[:8])
                    header = json.loads(data[8:8 + length])
                    ends = [t["data_offsets"][1] for key, t in header.items() if key != "__metadata__"]
                    if max(ends) != len(data) - 8 - length:
                        add(f"{name}: not whole")
                elif name.endswith(".jsonl"):
                    lines = data.decode().split("\n")
                    for i, line in enumerate(lines[:-1]):
                        json.loads(line)
                    if lines[-1] and not outcome.errors:
                        add(f"{name}: its last line has no end")
            except (ValueError, LookupError, TypeError, struct.error) as error:
                add(f"{name}: {type(error).__name__}: {error}")


# Where a reading of each failed call may end: the message has to have one of these.
def judge_point(path, outcome):
    add = outcome.problems.append
    if not outcome.log.failed:
        if outcome.rc != 0:
            add("the call was not reached, yet the command failed")
        return
    function, error = outcome.log.failed[0]
    if path.is_small:
        if outcome.rc != DEVICE or not outcome.out_of_memory:
            add(f"a small allocation failed: expected exit code {DEVICE} and one line \"{OUT_OF_MEMORY}...\"")
        return
    if outcome.rc == 0:
        for name, calls, _why in TOLERATED:
            if name in path.names and (not calls or function in calls.split()):
                return
        add("went on as if nothing had failed")
        return
    text = outcome.errors[0] if outcome.errors else ""
    parses = any(name.startswith("stbi") for name in path.names)  # its last words may be of another format
    if "look_at" in path.names and "cannot be read" in text:  # pictures are named in warnings, with what a second try says
        return
    if path.kind == "memory":
        if "memory" not in text and not parses:
            add("the message does not say that memory was short")
        if outcome.rc != DEVICE and not parses:  # cannot tell no memory from bad data
            add(f"no memory is exit code {DEVICE}, not {outcome.rc}")
    elif path.kind in ("store", "file") and function != "stat":  # it asks what is there; what follows says more
        if os.strerror(error) not in text:
            add(f"the message does not give the reason ({os.strerror(error)})")
    elif path.kind == "thread":
        if "pthread_create" not in text and "thread" not in text:
            add("the message does not say that a thread was missing")
    elif function.startswith("dnnl_"):
        if "dnnl_" not in text and "oneDNN" not in text:
            add("the message does not name oneDNN")
    elif path.kind == "library" and re.sub("Init2_|_ex$", "", function) not in text:
        add("the message does not name the call")


def points_of(log):
    """[(path, number)], those that come first on their path before all others."""
    rows = []
    for path in log.paths.values():
        most = min(path.calls, POLLED) if path.function in POLLING else path.calls
        rows += [(number, path.function, path.names, path.hash) for number in range(1, most + 1)]
    rows.sort()  # by names, not by addresses: the same share is tried in every build
    return [(log.paths[row[-1]], row[0]) for row in rows]


def choose(points, wanted):
    """Spread evenly over the first calls of all paths, then over the rest."""
    firsts = [p for p in points if p[1] == 1]
    if wanted >= len(points):
        return points
    if wanted <= len(firsts):
        return [firsts[i * len(firsts) // wanted] for i in range(wanted)]
    rest, more = points[len(firsts):], wanted - len(firsts)
    return firsts + [rest[i * len(rest) // more] for i in range(more)]


def run_scene(runner, scene, args):
    os.mkdir(f"{runner.work}/{scene.name}")
    scene.prepare(f"{runner.work}/{scene.name}", runner.program)
    whole = runner.run(scene, "whole")
    if whole.rc != 0 or whole.problems:
        print(f"FAILED {scene.name}: without any failure: exit {whole.rc} {whole.problems}\n{whole.text}")
        return 1
    short = runner.run(scene, "short", short=True)
    bad = 0
    if short.rc != 0 or short.problems:
        print(f"FAILED {scene.name}: with short and interrupted reads and writes: {short.rc} {short.problems}\n{short.text}")
        bad = 1
    points = [p for p in points_of(whole.log) if not args.origin or args.origin in p[0].names]
    points = [p for p in points if p[0].is_small == args.small]
    tried = args.tries if args.small else max(1, args.tries // scene.ranks ** 2)
    tried = points if args.long or args.origin else choose(points, tried)
    jobs = [(path, number, "") for path, number in tried]
    if args.long:
        jobs += [(path, number, "+") for path, number in tried if path.kind == "store"]

    def one(job):
        index, (path, number, after) = job
        outcome = runner.run(scene, index, f"{path.hash}:{number}{after}")
        judge_point(path, outcome)
        return path, number, after, outcome

    codes, seen = {}, {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for path, number, after, outcome in pool.map(one, enumerate(jobs)):
            codes[outcome.rc] = codes.get(outcome.rc, 0) + 1
            if not outcome.problems:
                continue
            bad += 1
            key = (path.text(), tuple(outcome.problems))
            seen[key] = seen.get(key, 0) + 1
            if seen[key] == 1:
                print(f"FAILED {scene.name}: call {number}{after} of {path.hash}, {path.text()}")
                for problem in outcome.problems:
                    print(f"         {problem}")
                print("         exit", outcome.rc, *outcome.errors[:3])
    paths = len(whole.log.paths)
    ends = ", ".join(f"{count} x {rc}" for rc, count in sorted(codes.items()))
    print(f"{scene.name}: {scene.what}: {len(points)} points on {paths} paths, {len(jobs)} tried; exit codes {ends}; {bad} bad")
    sys.stdout.flush()
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--scenes", default="")
    parser.add_argument("--try", dest="tries", type=int, default=8)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--from", dest="origin", default="")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(os.path.abspath(f"{args.bin}/train_injected"), work)
        for scene in SCENES:
            if not args.scenes or scene.name in args.scenes.split(","):
                bad += run_scene(runner, scene, args)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
