#!/usr/bin/env python3
"""same_behaviour.py - whether two builds of Lockstep behave alike: for changes that move and rename, and change nothing else.

    bench/same_behaviour.py BEFORE AFTER      two folders with the programs, build/release/bin of two trees

Runs one table by both programs, in turns, on this machine (bits depend on the vector width, so nothing is recorded from another
one): the hashes of the weights of whole runs; runs that BEFORE saves and AFTER resumes; exit code and message of refusals. Prints a
line for each and exits 1 where one differs. A renamed word in a message is given as --renamed OLD=NEW. Rows on the emulated CUDA
device need builds that have it (with tests).
"""
import argparse, json, os, re, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../scripts"))
import open_mpi  # noqa: E402

SMALL_RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/support/small_run")
# before [d2] of its network: kinds of layers that it lacks
LAYERS = """[m2]
layer = maxpool2d
kernel = 2
[c3]
layer = conv2d
out_channels = 16
kernel = 3
stride = 2
padding = 1
groups = 2
[g3]
layer = gelu
"""
ORDERED = ["run.deterministic=true"]
ADAMW = ["optimizer.kind=adamw", "optimizer.lr=0.01"]
FP16 = ["train.precision=fp16", "loss_scale.initial=16777216", "loss_scale.growth_interval=3"]
BF16 = ["train.precision=bf16"]
CPU, REF, CUDA = ["device.type=cpu"], ["device.type=ref"], ["device.type=cuda"]
# name, ranks, options
RUNS = [
    ("cpu, sgd", 1, CPU), ("cpu, sgd", 2, CPU), ("cpu, sgd", 4, CPU),
    ("cpu, sgd, ordered", 1, CPU + ORDERED), ("cpu, sgd, ordered", 2, CPU + ORDERED), ("cpu, sgd, ordered", 4, CPU + ORDERED),
    ("cpu, sgd, two threads", 1, CPU + ["device.threads=2"]),
    ("cpu, nesterov", 1, CPU + ["optimizer.nesterov=true", "optimizer.momentum=0.9"]),
    ("cpu, adamw", 1, CPU + ADAMW), ("cpu, adamw, ordered", 2, CPU + ADAMW + ORDERED),
    ("cpu, recompute", 1, CPU + ["train.recompute=blocks"]),
    ("cpu, synchronised batch norm", 2, CPU + ["train.sync_batchnorm=true"]),
    ("cpu, cosine", 1, CPU + ["schedule.kind=cosine"]), ("cpu, no winograd", 1, CPU + ["device.winograd=off"]),
    ("cpu, resident data", 1, CPU + ["data.loader=resident"]), ("cpu, gradients in bf16", 2, CPU + ["dist.reduce_dtype=bf16"]),
    ("ref, sgd", 1, REF), ("ref, sgd, ordered", 2, REF + ORDERED), ("ref, fp16", 1, REF + FP16), ("ref, bf16", 1, REF + BF16),
    ("ref, bf16, adamw", 1, REF + BF16 + ADAMW),
    ("cuda, sgd", 1, CUDA), ("cuda, fp16", 1, CUDA + FP16), ("cuda, bf16", 1, CUDA + BF16), ("cuda, adamw, bf16", 1, CUDA + BF16 + ADAMW),
    ("cuda, fp16, two GPUs", 2, CUDA + FP16), ("cuda, ordered, two GPUs", 2, CUDA + ORDERED),
    ("cuda, recompute, fp16", 1, CUDA + FP16 + ["train.recompute=blocks"]),
]
RESUMED = [("cpu, sgd", 1, CPU), ("cpu, adamw, ordered", 2, CPU + ADAMW + ORDERED), ("ref, fp16", 1, REF + FP16), ("cuda, fp16", 1, CUDA + FP16)]
# command line after the program's name
REFUSALS = ["", "nowhere.ini", "run.ini --quit", "run.ini run.ini", "run.ini --set train.epoch=1", "run.ini --set train.epochs",
    "run.ini --set train.epochs=many", "run.ini --set train.epochs=-1", "run.ini --set optimizer.kind=sdg", "run.ini --set model.file=no.ini",
    "run.ini --set data.dataset=cifar10 --set data.path=nodata", "run.ini --set device.type=cpu --set train.precision=fp16",
    "run.ini --set train.global_batch=0", "run.ini --set train.micro_batch=5",
    "run.ini --set data.shape=1x8x8", "run.ini --set schedule.kind=steps", "run.ini --set train.recompute=all", "run.ini --run-dir run.ini",
    "run.ini --trace nowhere/t.json", "run.ini --trace t.json --trace-updates 7:3", "eval run.ini", "eval run.ini no.safetensors",
    "eval run.ini run.ini", "predict no.safetensors x.png", "export no.safetensors x.onnx", "ckpt verify nowhere", "ckpt show run.ini",
    "bench run.ini --sweep ranks=0", "nonsense"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before"), parser.add_argument("after")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--config", action="append", default=[], help="a configuration to run 10 updates of, too")
    arguments = parser.parse_args()
    renamed = [pair.split("=", 1) for pair in arguments.renamed]
    folders = {"before": os.path.abspath(arguments.before), "after": os.path.abspath(arguments.after)}
    configs = [os.path.abspath(path) for path in arguments.config]
    different = 0
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        open("run.ini", "w").write(open(SMALL_RUN + "/run.ini").read())
        open("net.ini", "w").write(open(SMALL_RUN + "/net.ini").read().replace("[d2]", LAYERS + "[d2]"))
        emulated = all(os.path.exists(f"{folder}/emulated/lockstep_cuda.so") for folder in folders.values())

        def command(which, ranks, words):
            program = [f"{folders[which]}/train"] + words
            if ranks == 1:
                return program
            return [*open_mpi.words(), "--oversubscribe", "--bind-to", "none", "-np", str(ranks)] + program

        def call(which, ranks, words, devices="devices=4"):
            environment = dict(os.environ, LOCKSTEP_CUDA_PLUGIN=f"{folders[which]}/emulated/lockstep_cuda.so" if "device.type=cuda" in words
                else "/nonexistent", LOCKSTEP_EMULATION=devices)
            return subprocess.run(command(which, ranks, words), env=environment, capture_output=True, text=True, timeout=600,
                stdin=subprocess.DEVNULL)

        def options(pairs):
            return [word for pair in pairs for word in ("--set", pair)]

        def run(which, folder, ranks, pairs, config="run.ini", more=()):
            done = call(which, ranks, [config, "--quiet", "--run-dir", folder] + options(pairs) + list(more))
            if done.returncode not in (0, 75):
                return f"exit {done.returncode}: {done.stderr.strip()[-300:]}"
            try:
                return json.load(open(f"{folder}/summary.json"))["weights_hash"]
            except OSError:
                return f"exit {done.returncode}"

        def row(what, before, after):
            nonlocal different
            same = before == after
            different += not same
            print(f"{'same     ' if same else 'DIFFERENT'} {what:<58} {before if same else ''}", flush=True)
            if not same:
                print(f"    before: {before}\n    after:  {after}")

        table = [(name, ranks, pairs, "run.ini") for name, ranks, pairs in RUNS]
        table += [(os.path.basename(path), 1, CPU + ["train.max_updates=10"], path) for path in configs]
        for number, (name, ranks, pairs, config) in enumerate(table):
            if "device.type=cuda" in pairs and not emulated:
                print(f"left out  {name}: no emulated CUDA device in both builds")
                continue
            results = [run(which, f"{which}-{number}", ranks, pairs, config) for which in folders]
            if results[0].startswith("exit"):
                different += 1  # a row that trains nothing compares nothing
            row(f"{name}, {ranks} rank{'s' * (ranks > 1)}", *results)
        for number, (name, ranks, pairs) in enumerate(RESUMED):
            if "device.type=cuda" in pairs and not emulated:
                continue
            whole = run("before", f"whole-{number}", ranks, pairs)
            different += whole.startswith("exit")
            run("before", f"parts-{number}", ranks, pairs + ["train.max_updates=3"])
            row(f"{name}, {ranks} rank{'s' * (ranks > 1)}: saved before, resumed after", whole, run("after", f"parts-{number}", ranks, pairs,
                more=["--resume"]))
        for words in REFUSALS:
            outcomes = []
            for which in folders:
                done = call(which, 1, words.split())
                text = f"exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()[:200]}"
                text = text.replace(folders[which], "BIN")
                if which == "before":
                    for old, new in renamed:
                        text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text)
                outcomes.append(text)
            row(f"refused: train {words}"[:57], *outcomes)
    print(f"{different} rows differ")
    return different != 0


sys.exit(main())
