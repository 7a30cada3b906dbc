#!/usr/bin/env python3
"""Counts what one update of the shipped networks enqueues on the CUDA device: the nodes of its graph, and the copies beside it.

  tests/emulation/count_nodes.py [--bin build/bin] [--check docs/cuda.md | --update docs/cuda.md] [NAME ...]

The program trains on the emulated device, which runs no kernel (LOCKSTEP_EMULATION=dry=1) and writes down what is enqueued. A call of
cuDNN or cuBLASLt counts as one node of the operator's name; on a card some of their algorithms are two or three kernels.
Prints a table: a row for each kind of kernel. --check compares the table with the one in the document, --update replaces it.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = "<!-- nodes -->\n", "<!-- /nodes -->\n"
NETWORKS = {  # name: network, its pictures, batch, precision
    "resnet20": ("resnet20.ini", "3x32x32", 128, "bf16"),
    "lenet": ("lenet.ini", "1x28x28", 128, "fp32"),
    "resnet9": ("resnet9.ini", "3x32x32", 512, "bf16"),
}
UPDATES = 9  # three slots of input: each runs once eagerly, once recorded, once replayed


def last_update(lines):
    """Names of what the computing stream was given from after one graph's launch to the end of the next one's."""
    stream = next(line.split()[0] for line in reversed(lines) if line.split()[1] == "graph")
    names = [line.split(" ", 1)[1].strip() for line in lines if line.startswith(stream + " ")]
    graphs = [i for i, name in enumerate(names) if name.startswith("graph ")]
    before, last = graphs[-2], graphs[-1]
    nodes = [int(names[at].split()[1]) for at in (before, last)]
    if nodes[0] != nodes[1]:
        sys.exit(f"two updates with different graphs: {nodes[0]} and {nodes[1]} nodes")
    return collections.Counter(names[before + 1 + nodes[0]:last] + names[last + 1:last + 1 + nodes[1]])


def count(train, name):
    network, shape, batch, precision = NETWORKS[name]
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "nodes"
        settings = [f"model.file={ROOT / 'configs/models' / network}", "data.dataset=synthetic", f"data.shape={shape}",
                    f"data.train_samples={batch * UPDATES}", "data.test_samples=16", "train.epochs=1", f"train.global_batch={batch}",
                    f"train.precision={precision}", "optimizer.kind=sgd", "optimizer.lr=0.1", "device.type=cuda"]
        environment = dict(os.environ, LOCKSTEP_CUDA_PLUGIN=str(train.parent / "emulated/lockstep_cuda.so"), LOCKSTEP_EMULATED_LIBRARIES="1",
                           LOCKSTEP_EMULATION=f"dry=1,nodes={log},protect=0,memory=64G,multiprocessors=132")
        (pathlib.Path(folder) / "run.ini").touch()
        command = [str(train), "run.ini"] + [part for setting in settings for part in ("--set", setting)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        if not log.exists():
            sys.exit(f"{name}: exit code {done.returncode}, and no log of what was enqueued\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        lines = log.read_text().splitlines()
        graphs = sum(line.split()[1] == "graph" for line in lines)
        if graphs < 4:
            sys.exit(f"{name}: {graphs} launches of graphs\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return last_update(lines)


def table(counts):
    names = list(counts)
    kinds = sorted({kind for one in counts.values() for kind in one}, key=lambda kind: (-max(one[kind] for one in counts.values()), kind))
    rows = [["kind of node"] + names, ["---"] * (len(names) + 1)]
    rows += [[kind] + [str(counts[name][kind] or "") for name in names] for kind in kinds]
    rows.append(["all"] + [str(sum(counts[name].values())) for name in names])
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "build/bin", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--update", type=pathlib.Path)
    parser.add_argument("networks", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    train = arguments.bin.resolve() / "train"
    if not (train.parent / "emulated/lockstep_cuda.so").exists():
        print("skipped: this build has no emulated CUDA device")
        sys.exit(77)
    made = table({name: count(train, name) for name in arguments.networks or NETWORKS})
    document = arguments.check or arguments.update
    if not document:
        print(made, end="")
        return
    head, _, rest = document.read_text().partition(BEGIN)
    old, _, tail = rest.partition(END)
    if arguments.update:
        document.write_text(head + BEGIN + made + END + tail)
    elif old != made:
        sys.exit(f"{document} says\n{old}\nand it is\n{made}\nrenew it with {os.path.relpath(__file__, ROOT)} --update {document}")


if __name__ == "__main__":
    main()
