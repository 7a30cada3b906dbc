#!/usr/bin/env python3
"""Does a folder of few pictures learn better from CIFAR-10's weights than from nothing, at equal updates?

  bench/fine_tune.py DATA PICTURES [--base WEIGHTS] [--network FILE] [--epochs 4] [--passes 8] [--rates 0.03 0.1] [--seeds 3] [--out FILE.md]

DATA holds cifar-10-batches-bin, PICTURES a folder a class. ResNet-20 learns CIFAR-10 for --epochs (or --base names weights, or a run's or a
checkpoint's folder), then the folder's pictures, at 32x32 and CIFAR-10's normalisation: from nothing; from those weights with a new last
layer (model.init, model.init_rules); and so with what --frozen names left as it is (optimizer.groups). Each with the same rates and seeds.
Accuracy is of the fifth of each class that is kept for testing, at the end, whatever it was before.
"""
import argparse
import json
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 32
NEW = "new head.*"
PICTURES = """[data]
dataset = folder
path = {path}
image_size = 32x32
mean = 0.4914, 0.4822, 0.4465
std = 0.2470, 0.2435, 0.2616
pad = 4
pad_mode = reflect
flip = true
drop_last = true
[model]
file = {network}
[train]
epochs = {passes}
global_batch = {batch}
eval_every = 0
[optimizer]
momentum = 0.9
weight_decay = 1e-4
[schedule]
kind = one-cycle
peak = 0.2
[checkpoint]
every_epochs = 0
"""


def train(options, config, folder, *settings):
    command = [options.train, config, "--quiet", "--run-dir", folder, "--set", "device.type=cpu"]
    subprocess.run(command + [word for s in settings for word in ("--set", s)], check=True)
    with open(pathlib.Path(folder) / "summary.json") as file:
        return json.load(file)


def learn_cifar(options, folder):
    print("CIFAR-10 first", file=sys.stderr)
    train(options, ROOT / "configs/cifar10-resnet20.ini", folder, f"data.path={options.data}", f"train.epochs={options.epochs}",
          "schedule.kind=one-cycle", "schedule.milestones=", "schedule.peak=0.3", "optimizer.lr=0.2")
    return folder


def accuracy_of(options, base):
    done = subprocess.run([options.train, "eval", ROOT / "configs/cifar10-resnet20.ini", base, "--quiet", "--set", f"data.path={options.data}",
                           "--set", f"model.file={options.network}"], check=True, capture_output=True, text=True)
    return float(re.search(r"test_accuracy (\S+)", done.stdout).group(1))


def learn_pictures(options, base, folder):
    """{start: {rate: [accuracy by seed]}}"""
    config = folder / "pictures.ini"
    config.write_text(PICTURES.format(path=pathlib.Path(options.pictures).resolve(), network=options.network, batch=BATCH, passes=options.passes))
    init = (f"model.init={base}", f"model.init_rules={NEW}")
    starts = {"nothing": (), "CIFAR-10": init, f"CIFAR-10, without training {options.frozen}": (*init, "optimizer.groups=" + "; ".join(f"{p} frozen" for p in options.frozen.split()))}
    result = {start: {rate: [] for rate in options.rates} for start in starts}
    for seed in range(1, options.seeds + 1):
        for rate in options.rates:
            for number, (start, settings) in enumerate(starts.items()):
                summary = train(options, config, folder / f"run-{seed}-{rate}-{number}", f"run.seed={seed}", f"optimizer.lr={rate}", *settings)
                result[start][rate].append(summary["test_accuracy"])
                print(f"seed {seed}, rate {rate}, from {start}: {100 * summary['test_accuracy']:.1f} %", file=sys.stderr)
    return result, summary


def report(options, accuracy, result, last):
    version = subprocess.run([options.train, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    text = (f"# {last['train_samples']} pictures from CIFAR-10's weights and from nothing\n\n`bench/fine_tune.py` with {last['updates']} updates of {BATCH} pictures, "
            f"{options.seeds} seeds; {version}, {platform.machine()}. {pathlib.Path(options.network).name}; its CIFAR-10 weights have {100 * accuracy:.2f} % on CIFAR-10's test set.\n"
            f"Accuracy in % on {last['test_samples']} pictures that were not trained on, at the end: mean over the seeds, lowest and highest.\n\n"
            "| start | " + " | ".join(f"rate {rate}" for rate in options.rates) + " |\n" + "| --- " * (1 + len(options.rates)) + "|\n")
    for start, rows in result.items():
        cells = [f"{100 * statistics.mean(a):.1f} ({100 * min(a):.0f} to {100 * max(a):.0f})" for a in rows.values()]
        text += f"| {start} | " + " | ".join(cells) + " |\n"
    best = {start: max(statistics.mean(a) for a in rows.values()) for start, rows in result.items()}
    lead = best["CIFAR-10"] - best["nothing"]
    text += f"\nEach at its best rate: from CIFAR-10's weights {100 * best['CIFAR-10']:.1f} %, from nothing {100 * best['nothing']:.1f} %.\n"
    print(text)
    if options.out:
        pathlib.Path(options.out).write_text(text)
    return 0 if lead > 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("pictures")
    parser.add_argument("--base")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--passes", type=int, default=8, help="over the folder's pictures")
    parser.add_argument("--network", default=str(ROOT / "configs/models/resnet20.ini"))
    parser.add_argument("--frozen", default="stem.* blocks.0.* blocks.1.* blocks.2.* blocks.3.* blocks.4.* blocks.5.*", help="patterns")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.03, 0.1])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--train", default=str(ROOT / "train"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        base = pathlib.Path(options.base or learn_cifar(options, folder / "cifar")).resolve()
        sys.exit(report(options, accuracy_of(options, base), *learn_pictures(options, base, folder)))


if __name__ == "__main__":
    main()
