"""What is checked and measured on a card, in the order in which it teaches most. Seconds are estimates for one H200 with 16 cores; a limit is
what an item may take before it counts as failed. On the emulated card every size is small, and nothing that it measures means anything."""
import dataclasses
import functools
import json
import os
import re
import shutil
import statistics
import sys

import cifar
import machine
from driver import Failed, Item, Skipped

sys.path.insert(0, str(machine.ROOT / "scripts"))
import open_mpi  # noqa: E402

SHAPES = {"lenet": "1x28x28"}
PRECISIONS = ("fp32", "bf16", "fp16")


@dataclasses.dataclass(frozen=True)
class Sizes:
    batch: int
    updates: int          # of runs that are compared
    profile_updates: int
    flops_max: str        # of an operator's case, where ref computes it too
    measure_seconds: str
    layer_seconds: str
    networks: bool        # also those that an emulated card computes too slowly


CARD = Sizes(batch=128, updates=60, profile_updates=2000, flops_max="", measure_seconds="1", layer_seconds="0.3", networks=True)
EMULATED = Sizes(batch=4, updates=3, profile_updates=8, flops_max="2e4", measure_seconds="0.1", layer_seconds="0.1", networks=False)


def sizes(check):
    return EMULATED if check.emulated else CARD


def small_only(check, network):
    if network != "lenet" and not sizes(check).networks:
        raise Skipped(f"an emulated card is too slow for {network}")


# --- runs of the program

def network_options(network):
    return [f"model.file={machine.ROOT}/configs/models/{network}.ini", f"data.shape={SHAPES.get(network, '3x32x32')}"]


def as_arguments(options):
    return [word for option in options for word in ("--set", option)]


def train(check, name, options, config="bench-cpu.ini", env=None, launcher=(), limit=None):
    """A run on the card unless an option says otherwise; its folder."""
    folder = check.work / name
    shutil.rmtree(folder, ignore_errors=True)
    device = [] if any(option.startswith("device.type=") for option in options) else ["device.type=cuda"]
    check.run([*launcher, check.bin / "train", f"{machine.ROOT}/configs/{config}", "--quiet", "--run-dir", folder, *as_arguments(device + options)],
              env=env, limit=limit)
    return folder


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def losses(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line["train_loss"] for line in lines if line["event"] == "train"]


# --- devices

def devices(check):
    found = json.loads(check.run([check.bin / "train", "devices", "--json"]).out)
    problems = [f"{library['name']}: {library['problem']}" for library in found["libraries"] if library["problem"]]
    smi = machine.nvidia_smi("name,driver_version,memory.total,clocks.max.sm,power.limit")
    return "; ".join([found["auto"]["name"], smi or "no nvidia-smi", *problems]), {"devices": found}


def doctor(check):
    done = check.run([check.bin / "train", "doctor"], fails=False)
    if done.rc:
        raise Failed(f"exit {done.rc}: {done.last_line()}")
    return "all fits", {"table": done.out}


# --- operators, queues, whole training: test programs on the card instead of the emulation

def built(check, name):
    if not (check.bin / name).exists():
        raise Skipped(f"{check.bin} has no {name}: cmake builds the tests where it finds cmocka")
    return check.bin / name


def test_program(name, cases, check):
    program = built(check, f"test_{name}")
    env = {"LOCKSTEP_TEST_GPU": "1"}
    if check.emulated:
        env.update(LOCKSTEP_TEST_FLOPS_MAX=sizes(check).flops_max, LOCKSTEP_EMULATED_LIBRARIES="1")
    done = check.run([program, *([cases] if cases else [])], env=env)
    rows = re.findall(r" against ref, .*: (\d+) cases, \d+ failed, (\d+) too large .* of a tolerance: ([0-9.]+) \((.*)\)", done.err)
    if not rows:
        return next((line.strip() for line in done.err.splitlines() if "PASSED" in line), "passed")
    cases, too_large = (sum(int(row[i]) for row in rows) for i in (0, 1))
    worst = max(rows, key=lambda row: float(row[2]))
    return f"{cases} cases" + (f", {too_large} too large" if too_large else "") + f"; largest share of a tolerance {worst[2]} ({worst[3]})"


def whole_training(check):
    return test_program("train_cuda", "recomputation_*" if check.emulated else None, check)


# --- short runs beside the CPU

# How far the loss of an update may be from the cpu device's in fp32, first and later. fp32: other orders of the sums, which the updates in
# between amplify, batch norm most; the others: inputs of products rounded to 11 or 8 bits.
BESIDE_CPU = {"fp32": (1e-4, 1e-2), "tf32": (5e-3, 5e-2), "bf16": (2e-2, 1e-1), "fp16": (5e-3, 5e-2)}


def beside_cpu(network, check):
    small_only(check, network)
    batch = min(32, sizes(check).batch)
    updates = min(20, sizes(check).updates)
    common = [*network_options(network), f"train.max_updates={updates}", f"data.train_samples={batch * updates}", f"data.test_samples={batch}",
              f"train.global_batch={batch}", "optimizer.lr=0.001", "log.every=1"]
    expected = losses(train(check, f"cpu-{network}", [*common, "device.type=cpu"]))
    rows = []
    for kind, (first, later) in BESIDE_CPU.items():
        options = ["device.tf32=false"] if kind == "fp32" else [] if kind == "tf32" else [f"train.precision={kind}"]
        got = losses(train(check, f"beside-{network}-{kind}", common + options))
        if len(got) != len(expected):
            raise Failed(f"{kind}: {len(got)} updates were logged, on the cpu {len(expected)}")
        off = [abs(g - e) / e for g, e in zip(got, expected)]
        if kind == "fp16":
            first = later  # the first updates may overflow and be skipped
        wrong = [u for u, d in enumerate(off) if not d <= (later if u else first)]
        if wrong:
            u = wrong[0]
            raise Failed(f"{kind}: the loss of update {u + 1} is {got[u]:.7g}, the cpu's {expected[u]:.7g} ({off[u]:.1e} off, allowed {later if u else first:.0e})")
        rows.append(f"{kind} {off[0]:.0e} to {max(off):.0e}")
    return f"losses of {updates} updates off by: " + ", ".join(rows)


# --- recorded, eager and resident runs: the same bits

def graphs(network, precision, check):
    small_only(check, network)
    s, hashes = sizes(check), {}
    for recorded, loader in (("true", "stream"), ("false", "stream"), ("true", "resident")):
        options = [*network_options(network), f"train.precision={precision}", f"train.max_updates={s.updates}", f"train.global_batch={s.batch}",
                   f"data.train_samples={s.batch * 50}", f"data.test_samples={s.batch}", f"device.graphs={recorded}", f"data.loader={loader}"]
        folder = train(check, f"graphs-{network}-{precision}-{recorded}-{loader}", options)
        hashes[f"graphs={recorded}, {loader}"] = summary(folder)["weights_hash"]
    if len(set(hashes.values())) != 1:
        raise Failed(f"weights differ after {s.updates} updates: " + "; ".join(f"{k} {v}" for k, v in hashes.items()))
    return f"eager, recorded and resident: weights {next(iter(hashes.values()))} after {s.updates} updates"


def resume(network, precision, check):
    small_only(check, network)
    s = sizes(check)
    options = [*network_options(network), f"train.precision={precision}", f"data.train_samples={s.batch * 16}", f"train.global_batch={s.batch}",
               "device.type=cuda", *(["loss_scale.growth_interval=3"] if precision == "fp16" else [])]
    options += ["checkpoint.every_updates=6", "checkpoint.keep_last=9"]
    folder = train(check, f"resume-{network}-{precision}", options)
    done = check.run([check.bin / "train", "audit", folder, "--all", "--quiet"])
    return done.last_line()


# --- accuracy

LEAST_ACCURACY = 0.910  # five epochs on the cpu: 0.9175 to 0.9216


def fashion_mnist(check):
    for folder in (f"{machine.ROOT}/data/fashion-mnist", f"{machine.BUILD}/deps/usr/share/datasets/fashion-mnist", "/usr/share/datasets/fashion-mnist"):
        if os.path.isdir(folder):
            return folder
    raise Skipped("no Fashion-MNIST: scripts/fetch-data.sh fashion-mnist, or scripts/carry.sh")


def accuracy(precision, check):
    if check.emulated:
        raise Skipped("an emulated card is too slow for whole epochs")
    options = [f"data.path={fashion_mnist(check)}", f"train.precision={precision}"]
    s = summary(train(check, f"accuracy-{precision}", options, "fashion-mnist.ini"))
    facts = f"{s['test_accuracy']:.4f} after 5 epochs, at least {LEAST_ACCURACY}; {s['train_images_per_second']:.0f} images/s; {s['wall_seconds']:.1f} s"
    if s["test_accuracy"] < LEAST_ACCURACY:
        raise Failed(facts)
    return facts, {"summary": s}


# The 94 % recipe as fast as a card computes it, on synthetic pictures.
RECIPE_BATCH = 1536
FASTEST = "cifar10-94-gpu.ini"
RECIPE = ["data.dataset=synthetic", "data.shape=3x32x32", "train.precision=bf16"]
SEEDS, PUBLISHED = 40, 0.94


def accuracy_of_recipe(check):
    """94 % on real pictures, over seeds. Each seed's figures are kept at once, and a later call goes on."""
    if check.emulated:
        raise Skipped("an emulated card is too slow for whole epochs")
    data = cifar.folder()
    if not data:
        raise Skipped("no CIFAR-10: scripts/fetch-data.sh cifar10, or both parts of scripts/carry.sh cifar")
    kept = check.record.folder / "cifar10-94-seeds.json"
    runs = json.loads(kept.read_text()) if kept.exists() else {}
    runs = runs.get(check.program, {})
    for seed in range(1, SEEDS + 1):
        if str(seed) not in runs:
            s = summary(train(check, "cifar10-94", [f"data.path={data}", f"run.seed={seed}", "checkpoint.every_epochs=0"], FASTEST))
            runs[str(seed)] = {"accuracy": s.get("tta_accuracy", s["test_accuracy"]), "wall_seconds": s["wall_seconds"],
                               "train_seconds": s["updates"] * RECIPE_BATCH / s["train_images_per_second"]}
            kept.write_text(json.dumps({check.program: runs}))
    found, wall, training = ([run[key] for run in runs.values()] for key in ("accuracy", "wall_seconds", "train_seconds"))
    detail = (f"{len(found)} seeds: mean {statistics.mean(found):.4f}, deviation {statistics.stdev(found):.4f}, lowest {min(found):.4f}; "
              f"training {statistics.median(training):.3f} s ({min(training):.3f} to {max(training):.3f}), "
              f"process {statistics.median(wall):.2f} s ({min(wall):.2f} to {max(wall):.2f})")
    if statistics.mean(found) < PUBLISHED:
        raise Failed(f"{detail}; at least {PUBLISHED} is expected")
    return detail, {"seeds": runs}


def starts_of_recipe(check):
    """Three cold starts of the whole recipe on synthetic pictures: a process each."""
    small_only(check, "airbench94")
    rows = []
    for n in range(3):
        s = summary(train(check, f"start-{n}", [*RECIPE, "data.train_samples=50000", "data.test_samples=10000", "checkpoint.every_epochs=0"], FASTEST))
        rows.append({key: value for key, value in s.items() if key.endswith("_seconds") or key == "parts"})
    return "; ".join(f"process {row['wall_seconds']:.2f} s, first update after {row['time_to_first_update_seconds']:.2f} s" for row in rows), {"starts": rows}


# --- operators by themselves

def bench_gpu(word, check):
    if check.emulated:
        raise Skipped("an emulated card's times mean nothing")
    done = check.run([built(check, "bench_gpu"), word])
    return f"{len(done.out.splitlines())} lines", {"table": done.out}


COUNTED = "gather|weight_gather|norm_backward|augment"  # kernels that ncu looks at


def counters(check):
    """Nsight Compute's counters of the kernels that take longest in the recipe."""
    if check.emulated or not shutil.which("ncu"):
        raise Skipped("no Nsight Compute (ncu) here")
    options = [*RECIPE, "device.graphs=false", "train.max_updates=3", "data.train_samples=4608", "data.test_samples=1536",
               "device.autotune=false"]
    done = check.run(["ncu", "--clock-control", "none", "--set", "basic", "--launch-count", "24", "--kernel-name", f"regex:{COUNTED}",
                      check.bin / "train", f"{machine.ROOT}/configs/{FASTEST}", "--quiet", "--run-dir", check.work / "counters",
                      *as_arguments(options)], fails=False)
    if done.rc:
        raise Skipped(f"ncu: {done.last_line()}")
    return f"{done.out.count('Duration')} launches", {"table": done.out}


# --- where the time goes

def layers(network, batch, precision, check):
    small_only(check, network)
    batch = min(batch, EMULATED.batch) if check.emulated else batch
    return layers_of(f"{network}-{precision}", "bench-cpu.ini", batch, [*network_options(network), f"train.precision={precision}"], check)


def recipe_layers(pixels, check):
    """The 94 % recipe at one of its resolutions."""
    small_only(check, "airbench94")
    return layers_of(f"cifar10-94-{pixels}", "cifar10-94.ini", RECIPE_BATCH, [*RECIPE, f"train.resolution=0:{pixels}"], check)


def layers_of(name, config, batch, options, check):
    folder = check.work / f"layers-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    options = [*options, f"train.global_batch={batch}", f"train.micro_batch={batch}", f"data.train_samples={batch * 16}",
               f"data.test_samples={batch}", "device.type=cuda", f"device.autotune={'false' if check.emulated else 'true'}"]
    done = check.run([check.bin / "train", "bench", f"{machine.ROOT}/configs/{config}", "--layers", "--run-dir", folder,
                      "--seconds", sizes(check).layer_seconds, *as_arguments(options)])
    found = json.loads((folder / "layers.json").read_text())
    return (f"{found['update_seconds'] * 1e3:.3f} ms an update of {batch}; measured limits {found['matmul_gflops'] / 1e3:.0f} TFLOP/s, "
            f"{found['bandwidth_gbytes']:.0f} GB/s"), {"layers": found, "table": done.out}


def profile(network, check):
    small_only(check, network)
    preload = check.work / "sync_time.so"
    check.run(["cc", "-shared", "-fPIC", "-O2", "-o", preload, f"{machine.ROOT}/tests/support/sync_time.c", "-ldl"])
    s = sizes(check)
    options = [*network_options(network), "train.precision=bf16", f"train.max_updates={s.profile_updates}", "train.epochs=1000",
               f"train.global_batch={s.batch}", f"data.train_samples={s.batch * 20}", f"data.test_samples={s.batch}", "log.every=1000",
               "data.loader=resident"]
    folder = train(check, f"profile-{network}", options, env={"LD_PRELOAD": str(preload)})
    waits = [line for line in check.record.outputs()[1].read_text(errors="replace").splitlines() if line.startswith("sync_time")]
    facts = summary(folder)
    return (f"first update {facts['time_to_first_update_seconds']:.2f} s after the start; {facts['train_images_per_second']:.0f} images/s; "
            + (waits[-1] if waits else "no line of sync_time")), {"summary": facts}


# --- beside PyTorch

def peers(check):
    """All networks beside PyTorch. What was measured stays in peers.json, and a later call goes on from there."""
    if not shutil.which(check.python) or check.run([check.python, "-c", "import torch, numpy"], fails=False).rc:
        raise Skipped(f"{check.python} has no PyTorch with numpy (another one: --python)")
    out = check.record.folder / "peers.json"
    small = ["--torch-device", "cpu", "--networks", "lenet:4:fp32", "--rounds", "1", "--seconds", "0.1", "--updates", "4"] if check.emulated else [
        "--arrangements", "lockstep resident,pytorch whole step,pytorch whole step pure", "--seconds", "0.7"]
    minutes = [] if check.left() == float("inf") else ["--within", f"{max(1, check.left() - PEERS_END_S):.0f}"]
    check.run([check.python, f"{machine.ROOT}/bench/compare_pytorch_gpu.py", "--train", check.bin / "train", "--out", out, *minutes, *small])
    networks = json.loads(out.read_text())["networks"]
    best = {name: min(known["ratios"].values(), default=None) for name, known in networks.items()}
    return "Lockstep beside the best PyTorch: " + ", ".join(f"{name} {ratio:.2f}" if ratio else f"{name} not measured" for name, ratio in best.items())


PEERS_END_S = 5  # to end the processes


# --- compute-sanitizer

def own_kernels():
    """Filters for compute-sanitizer: names of the device's own kernels as the compiler mangles them, so none of NVIDIA's libraries."""
    rows = [line.split() for line in open(f"{machine.ROOT}/tests/device/cuda/registers.txt") if not line.startswith("#")]
    names = sorted({re.sub("<.*", "", row[1]) for row in rows if len(row) > 2})
    return [word for name in names for word in ("--kernel-name", f"kns={len(name)}{name}")]


def sanitizer(tool, target, check):
    if not shutil.which("compute-sanitizer"):
        raise Skipped("compute-sanitizer is not on the PATH")
    # Calls that fail inside NVIDIA's libraries, which ask for what may not be there, are no errors; the device checks its own.
    # The shared memory and first reads of the libraries' own kernels are the libraries' affair.
    options = ["--report-api-errors", "no"] if tool == "memcheck" else own_kernels()
    command = ["compute-sanitizer", "--tool", tool, *options, "--error-exitcode", "9"]
    if target == "queue":
        check.run([*command, built(check, "test_device_cuda_queue")], env={"LOCKSTEP_TEST_GPU": "1"})
    else:
        train(check, f"{tool}-{target}", [*network_options(target), *SHORT, "device.graphs=false"], launcher=command)
    return "no errors"


SHORT = ["train.max_updates=4", "data.train_samples=512", "data.test_samples=64", "train.global_batch=32"]


# --- several ranks on this one card. NCCL refuses that, unless the ranks look like different hosts: NCCL_HOSTID.

def launcher(ranks):
    if not open_mpi.find():
        raise Skipped(open_mpi.MISSING)
    return [*open_mpi.words(), "--oversubscribe", "--bind-to", "none", "-np", str(ranks), "sh", "-c",
            'NCCL_HOSTID=lockstep-$OMPI_COMM_WORLD_RANK exec "$@"', "sh"]


NCCL_ON_ONE_CARD = {"LOCKSTEP_NCCL_SHARED_GPU": "1", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo", "NCCL_MAX_CTAS": "2"}


def run_ranks(check, name, count, options, limit=120):
    """Weights of a short run of so many ranks."""
    common = [*SHORT, "train.micro_batch=8", "device.share=true"]
    return summary(train(check, f"ranks-{name}", common + options, env=NCCL_ON_ONE_CARD, launcher=launcher(count), limit=limit))["weights_hash"]


def ranks(network, check):
    small_only(check, network)
    net = network_options(network)
    ordered = [*net, "run.deterministic=true"]
    one = run_ranks(check, f"{network}-one", 1, ordered)
    pairs = [  # what, options, what it must equal
        ("ordered, summed by NCCL", [*ordered, "dist.backend=nccl"], one),
        ("ordered, summed by MPI", [*ordered, "dist.backend=mpi"], one),
    ]
    eager = run_ranks(check, f"{network}-eager", 2, [*net, "dist.backend=nccl", "device.graphs=false"])
    pairs += [("NCCL inside the recording", [*net, "dist.backend=nccl", "device.graphs=true"], eager),
              ("two terms added by MPI", [*net, "dist.backend=mpi"], eager)]
    wrong = [what for what, options, expected in pairs if run_ranks(check, f"{network}-{re.sub('[^a-z]+', '-', what.lower())}", 2, options) != expected]
    if wrong:
        raise Failed("other weights: " + ", ".join(wrong))
    return f"two ranks are one rank: weights {one} ordered, {eager} in fast mode, by NCCL eager and recorded and by MPI"


def starts(check):
    count = 2 if check.emulated else 20
    for _ in range(count):
        run_ranks(check, "start", 2, [*network_options("lenet"), "dist.backend=nccl", "device.graphs=true"], limit=60)
    return f"{count} starts and ends with recordings"


def ranks_bench(check):
    folder = check.work / "ranks-bench"
    folder.mkdir(parents=True, exist_ok=True)
    options = ["device.type=cuda", "device.share=true", "dist.backend=nccl", *network_options("lenet"), f"train.global_batch={sizes(check).batch}"]
    done = check.run([*launcher(2), check.bin / "train", "bench", f"{machine.ROOT}/configs/bench-cpu.ini", "--sweep", "ranks=1,2", "--seconds",
                      sizes(check).measure_seconds, "--repeats", "3", "--run-dir", folder, *as_arguments(options)], env=NCCL_ON_ONE_CARD)
    return "1 and 2 ranks", {"table": done.out}


# --- the table

def with_(function, *arguments):
    return functools.partial(function, *arguments)


NETWORKS = (("resnet9", 512, "bf16"), ("lenet", 128, "fp32"), ("resnet20", 128, "bf16"), ("airbench94", 1024, "bf16"), ("mobilenet", 128, "bf16"))

ITEMS = [
    Item("devices/found", 5, 60, devices),
    Item("devices/doctor", 10, 120, doctor),
    Item("beside-cpu/lenet", 15, 180, with_(beside_cpu, "lenet")),
    *(Item(f"operators/{name}", seconds, 300, with_(test_program, "device_cuda_operators", cases)) for name, seconds, cases in (
        ("fp32", 30, "fp32_*"), ("bf16", 30, "bf16_*"), ("tf32", 30, "tf32_*"), ("measured-plans", 60, "measured_*"), ("fp16", 30, "fp16_*"),
        ("run-again", 10, "a_plan_*"))),
    Item("beside-cpu/resnet9", 25, 240, with_(beside_cpu, "resnet9")),
    Item("queues/device", 10, 120, with_(test_program, "device_cuda_device", None)),
    Item("queues/queues", 10, 120, with_(test_program, "device_cuda_queue", None)),
    Item("graphs/lenet-fp32", 10, 180, with_(graphs, "lenet", "fp32")),
    Item("graphs/resnet9-bf16", 15, 180, with_(graphs, "resnet9", "bf16")),
    *(Item(f"accuracy/{precision}", 15, 180, with_(accuracy, precision)) for precision in PRECISIONS),
    Item("launches/empty", 4, 60, with_(bench_gpu, "launches"), True),
    *(Item(f"layers/{n}-{b}-{p}", 12, 150, with_(layers, n, b, p), True) for n, b, p in NETWORKS),
    *(Item(f"layers/cifar10-94-{pixels}", 15, 150, with_(recipe_layers, pixels), True) for pixels in (24, 28, 32)),
    Item("starts/cifar10-94", 15, 120, starts_of_recipe, True),
    Item("convolutions/recipe", 60, 240, with_(bench_gpu, "convolutions"), True),
    Item("norms/all", 15, 120, with_(bench_gpu, "norms"), True),
    Item("counters/cifar10-94", 40, 150, counters, True),
    Item("profile/resnet9", 15, 150, with_(profile, "resnet9")),
    Item("profile/lenet", 10, 150, with_(profile, "lenet")),
    Item("peers/all", 240, 560, peers, True),
    Item("accuracy/cifar10-94", 130, 400, accuracy_of_recipe, True),
    Item("training/whole", 60, 300, whole_training),
    Item("sanitizer/memcheck-lenet", 60, 280, with_(sanitizer, "memcheck", "lenet")),
    Item("ranks/lenet", 60, 300, with_(ranks, "lenet")),
    *(Item(f"resume/{n}-{p}", 10, 150, with_(resume, n, p)) for n in ("lenet", "resnet20") for p in PRECISIONS),
    *(Item(f"graphs/{n}-{p}", 15, 180, with_(graphs, n, p)) for n, p in (
        ("lenet", "bf16"), ("lenet", "fp16"), ("resnet9", "fp32"), ("resnet9", "fp16"))),
    Item("layers/lenet-128-bf16", 12, 150, with_(layers, "lenet", 128, "bf16"), True),
    Item("layers/resnet9-512-fp16", 12, 150, with_(layers, "resnet9", 512, "fp16"), True),
    Item("ranks/resnet20", 60, 300, with_(ranks, "resnet20")),
    Item("ranks/starts", 100, 400, starts),
    Item("ranks/bench", 60, 280, ranks_bench),
    Item("sanitizer/racecheck-lenet", 90, 280, with_(sanitizer, "racecheck", "lenet")),
    Item("sanitizer/initcheck-lenet", 90, 280, with_(sanitizer, "initcheck", "lenet")),
    Item("sanitizer/memcheck-queue", 60, 200, with_(sanitizer, "memcheck", "queue")),
    Item("sanitizer/memcheck-resnet20", 150, 280, with_(sanitizer, "memcheck", "resnet20")),
    Item("sanitizer/racecheck-resnet20", 200, 400, with_(sanitizer, "racecheck", "resnet20")),
    Item("sanitizer/initcheck-resnet20", 200, 400, with_(sanitizer, "initcheck", "resnet20")),
]
PARTS = list(dict.fromkeys(item.part for item in ITEMS))
