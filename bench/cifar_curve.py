#!/usr/bin/env python3
"""Loss of configs/cifar10-resnet20.ini over its first updates, beside PyTorch's on the same pictures from the same weights.

PyTorch gets the same initial weights, order of samples, crops and flips: all follow from the seed by the generator in
src/base/philox.h, which scripts/make_golden.py writes down a second time. The two curves agree to rounding at first, and part as any two
fp32 implementations do; what is compared over hundreds of updates is the mean of every fifty.

  bench/cifar_curve.py DATA [--updates 300] [--out bench/results/NAME.json]      DATA holds cifar-10-batches-bin; needs numpy and torch
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import make_golden as golden  # noqa: E402

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH, PAD, RATE, MOMENTUM, DECAY = 128, 4, 0.1, 0.9, 1e-4


def records(folder):
    raw = np.concatenate([np.fromfile(folder / f"data_batch_{i}.bin", np.uint8) for i in range(1, 6)]).reshape(-1, 3073)
    return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0].astype(np.int64)


def peer(data, seed, updates):
    pixels, labels = records(data)
    table = np.stack([((np.arange(256) / 255.0 - m) / s).astype(np.float32) for m, s in zip(MEAN, STD)])
    net = golden.Network(str(ROOT / "configs/models/resnet20.ini"))
    golden.initialise(net, seed)
    net = net.to(memory_format=torch.channels_last).train()
    decayed = [p for n, p in net.named_parameters() if p.ndim > 1]
    others = [p for n, p in net.named_parameters() if p.ndim == 1]
    opt = torch.optim.SGD([{"params": decayed, "weight_decay": DECAY}, {"params": others}], lr=RATE, momentum=MOMENTUM)
    order, losses = golden.order_of(seed, 0, len(labels)), []
    for u in range(updates):
        which = order[u * BATCH:(u + 1) * BATCH]
        x = np.stack([golden.placed(seed, 0, i, pixels[i], PAD) for i in which])
        x = np.stack([table[c][x[:, c]] for c in range(3)], axis=1)
        loss = F.cross_entropy(net(torch.from_numpy(x).contiguous(memory_format=torch.channels_last)), torch.from_numpy(labels[which]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def ours(data, seed, updates):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "train", ROOT / "configs/cifar10-resnet20.ini", "--quiet", "--run-dir", f"{folder}/run",
                        "--set", f"data.path={data.parent}", "--set", f"train.max_updates={updates}", "--set", "log.every=1",
                        "--set", f"run.seed={seed}", "--set", "data.test_samples=128"], check=True)
        lines = map(json.loads, pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines())
        return [line["train_loss"] for line in lines if line["event"] == "train"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("data", type=pathlib.Path)
    ap.add_argument("--updates", type=int, default=300)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out")
    a = ap.parse_args()
    folder = a.data / "cifar-10-batches-bin" if (a.data / "cifar-10-batches-bin").exists() else a.data
    mine, theirs = ours(folder.resolve(), a.seed, a.updates), peer(folder, a.seed, a.updates)
    print(f"{'updates':>12} {'Lockstep':>9} {'PyTorch':>9}   mean loss")
    for first in range(0, a.updates, 50):
        part = slice(first, first + 50)
        print(f"{first + 1:5d} to {min(first + 50, a.updates):3d} {np.mean(mine[part]):9.4f} {np.mean(theirs[part]):9.4f}")
    print("relative difference of updates 1 to 10:", " ".join(f"{abs(x - y) / y:.1g}" for x, y in zip(mine[:10], theirs)))
    if a.out:
        report = {"torch": torch.__version__, "seed": a.seed, "lockstep": mine, "pytorch": theirs}
        pathlib.Path(a.out).write_text(json.dumps(report) + "\n")


main()
