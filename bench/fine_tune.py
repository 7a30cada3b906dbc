#!/usr/bin/env python3
"""Does a folder of few pictures learn better from CIFAR-10's weights than from nothing, at equal updates?

  bench/fine_tune.py DATA PICTURES [--base WEIGHTS] [--epochs 4] [--passes 8] [--seeds 3] [--out bench/results/NAME.md]

DATA holds cifar-10-batches-bin, PICTURES a folder a class. ResNet-20 learns CIFAR-10 for --epochs (or --base names weights of such a run),
then the folder's pictures, at 32x32 and CIFAR-10's normalisation: from nothing; from those weights with a new last layer (model.init,
model.init_rules); and so with all but the last stage frozen (optimizer.groups). Each with three rates and --seeds seeds; rate and seed are
the same for all. Accuracy is of the fifth of each class that is kept for testing, at the end, whatever it was before.
"""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATES = (0.01, 0.03, 0.1)
BATCH = 32
NEW = "new head.*"
FROZEN = "; ".join(f"{layers} frozen" for layers in ("stem.*", "blocks.0.*", "blocks.1.*", "blocks.2.*", "blocks.3.*", "blocks.4.*", "blocks.5.*"))
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
file = {root}/configs/models/resnet20.ini
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


def learn_pictures(options, base, folder):
    """{start: {rate: [accuracy by seed]}}"""
    config = folder / "pictures.ini"
    config.write_text(PICTURES.format(path=pathlib.Path(options.pictures).resolve(), root=ROOT, batch=BATCH, passes=options.passes))
    init = (f"model.init={base}", f"model.init_rules={NEW}")
    starts = {"nothing": (), "CIFAR-10": init, "CIFAR-10, first two stages frozen": (*init, f"optimizer.groups={FROZEN}")}
    result = {start: {rate: [] for rate in RATES} for start in starts}
    for seed in range(1, options.seeds + 1):
        for rate in RATES:
            for number, (start, settings) in enumerate(starts.items()):
                summary = train(options, config, folder / f"run-{seed}-{rate}-{number}", f"run.seed={seed}", f"optimizer.lr={rate}", *settings)
                result[start][rate].append(summary["test_accuracy"])
                print(f"seed {seed}, rate {rate}, from {start}: {100 * summary['test_accuracy']:.1f} %", file=sys.stderr)
    return result, summary


def report(options, accuracy, result, last):
    version = subprocess.run([options.train, "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    text = (f"# {last['train_samples']} pictures from CIFAR-10's weights and from nothing\n\n`bench/fine_tune.py` with {last['updates']} updates of {BATCH} pictures, "
            f"{options.seeds} seeds; {version}, {platform.machine()}. ResNet-20; its CIFAR-10 weights have {100 * accuracy:.2f} % on CIFAR-10's test set.\n"
            f"Accuracy in % on {last['test_samples']} pictures that were not trained on, at the end: mean over the seeds, lowest and highest.\n\n"
            "| start | " + " | ".join(f"rate {rate}" for rate in RATES) + " |\n" + "| --- " * (1 + len(RATES)) + "|\n")
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--train", default=str(ROOT / "train"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        base = pathlib.Path(options.base or learn_cifar(options, folder / "cifar")).resolve()
        with open((base if base.is_dir() else base.parent) / "summary.json") as file:
            accuracy = json.load(file)["test_accuracy"]
        sys.exit(report(options, accuracy, *learn_pictures(options, base, folder)))


if __name__ == "__main__":
    main()
