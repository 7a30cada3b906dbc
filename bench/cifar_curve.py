#!/usr/bin/env python3
"""configs/cifar10-resnet20.ini over its first epochs: loss and test accuracy beside PyTorch's on the same pictures from the same weights.

PyTorch gets the same initial weights, order of samples, crops and flips: all follow from the seed by the generator in
src/base/philox.h, which scripts/make_golden.py writes down a second time. The two curves agree to rounding at first, and part as any two
fp32 implementations do; what is compared then is the mean loss of each part of an epoch, and the accuracy after each.

  bench/cifar_curve.py DATA [--epochs 5] [--threads 2] [--train ./train] [--out bench/results/NAME.json]

DATA holds cifar-10-batches-bin; needs numpy and torch. A table is written beside the JSON file.
"""
import argparse
import datetime
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from compare_pytorch import ROOT, processor, run

sys.path.insert(0, str(ROOT / "scripts"))
import make_golden as golden  # noqa: E402

CONFIG, NETWORK = ROOT / "configs/cifar10-resnet20.ini", ROOT / "configs/models/resnet20-a.ini"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH, PAD, RATE, MOMENTUM, DECAY = 128, 4, 0.1, 0.9, 1e-4
PART = 100  # updates, of which the mean loss is reported


def records(*files):
    raw = np.concatenate([np.fromfile(f, np.uint8) for f in files]).reshape(-1, 3073)
    return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0].astype(np.int64)


def normalised(pixels):
    table = np.stack([((np.arange(256) / 255.0 - m) / s).astype(np.float32) for m, s in zip(MEAN, STD)])
    x = np.stack([table[c][pixels[:, c]] for c in range(3)], axis=1)
    return torch.from_numpy(x).contiguous(memory_format=torch.channels_last)


def accuracy(net, pixels, labels):
    net.eval()
    with torch.no_grad():
        right = sum(int((net(normalised(pixels[i:i + 500])).argmax(1) == torch.from_numpy(labels[i:i + 500])).sum())
                    for i in range(0, len(labels), 500))
    net.train()
    return right / len(labels)


def peer(folder, a):
    torch.set_num_threads(a.threads)
    pixels, labels = records(*(folder / f"data_batch_{i}.bin" for i in range(1, 6)))
    test = records(folder / "test_batch.bin")
    net = golden.Network(str(NETWORK))
    golden.initialise(net, a.seed)
    net = net.to(memory_format=torch.channels_last).train()
    decayed = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim == 1]
    opt = torch.optim.SGD([{"params": decayed, "weight_decay": DECAY}, {"params": others}], lr=RATE, momentum=MOMENTUM)
    losses, accuracies = [], []
    for epoch in range(a.epochs):
        order = golden.order_of(a.seed, epoch, len(labels))
        for first in range(0, len(labels), BATCH):
            which = order[first:first + BATCH]
            x = normalised(np.stack([golden.placed(a.seed, epoch, i, pixels[i], PAD) for i in which]))
            loss = F.cross_entropy(net(x), torch.from_numpy(labels[which]))
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        accuracies.append(accuracy(net, *test))
    return {"train_loss": losses, "test_accuracy": accuracies}


def ours(folder, a):
    updates = a.epochs * -(-50000 // BATCH)
    with tempfile.TemporaryDirectory() as work:
        run([a.train, CONFIG, "--quiet", "--run-dir", f"{work}/run", "--set", f"data.path={folder}", "--set", f"device.threads={a.threads}",
             "--set", f"train.max_updates={updates}", "--set", "log.every=1", "--set", f"run.seed={a.seed}"])
        lines = [json.loads(line) for line in pathlib.Path(work, "run/metrics.jsonl").read_text().splitlines()]
    return {"train_loss": [line["train_loss"] for line in lines if line["event"] == "train"],
            "test_accuracy": [line["test_accuracy"] for line in lines if line["event"] == "eval"]}


def table(r):
    mine, theirs = r["lockstep"]["train_loss"], r["pytorch"]["train_loss"]
    lines = [f"configs/cifar10-resnet20.ini, seed {r['seed']}, first {r['epochs']} of 164 epochs: Lockstep {r['commit']} beside PyTorch {r['torch']}",
             f"{r['cpu']}, fp32, {r['date']}", "",
             "relative difference of updates 1 to 10: " + ", ".join(f"{abs(x - y) / y:.1g}" for x, y in zip(mine[:10], theirs)), "",
             "| updates | mean loss, Lockstep | PyTorch |", "| --- | --- | --- |"]
    for first in range(0, len(mine), PART):
        part = slice(first, first + PART)
        lines.append(f"| {first + 1} to {min(first + PART, len(mine))} | {np.mean(mine[part]):.4f} | {np.mean(theirs[part]):.4f} |")
    lines += ["", "| after epoch | test accuracy, Lockstep | PyTorch |", "| --- | --- | --- |"]
    for epoch, (x, y) in enumerate(zip(r["lockstep"]["test_accuracy"], r["pytorch"]["test_accuracy"]), 1):
        lines.append(f"| {epoch} | {100 * x:.2f} % | {100 * y:.2f} % |")
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("data", type=pathlib.Path)
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--out")
    a = ap.parse_args()
    folder = (a.data / "cifar-10-batches-bin" if (a.data / "cifar-10-batches-bin").exists() else a.data).resolve()
    report = {"date": datetime.date.today().isoformat(), "commit": run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip(),
              "seed": a.seed, "epochs": a.epochs, "cpu": processor(), "torch": torch.__version__,
              "lockstep": ours(folder, a), "pytorch": peer(folder, a)}
    print(table(report))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(report) + "\n")
        pathlib.Path(a.out).with_suffix(".md").write_text(table(report))


main()
