#!/usr/bin/env python3
"""Loss of a record's recipe over its first updates on CIFAR-10, in Lockstep and in PyTorch (bench/peers/airbench.py), at full size.

Both have the same initial weights, order of samples and augmentation, which follow from the seed (scripts/make_golden.py). At the
records' rates two fp32 runs part within some ten updates, as fp32 parts from double; what is compared is how far they agree at first.
Lockstep takes the batch in one piece: batch norm's statistics are of all its pictures, as the records' are.

  bench/recipe_curve.py DATA --recipe e1 --config configs/NAME.ini [--updates 20] [--threads 2] [--train ./train] [--out NAME.json]

DATA holds cifar-10-batches-bin; needs numpy and torch. A table is written beside the JSON file.
"""
import argparse
import datetime
import json
import pathlib
import sys
import tempfile

import torch

from compare_pytorch import ROOT, processor, run

sys.path.insert(0, str(ROOT / "scripts"))
import make_golden as golden  # noqa: E402
import airbench  # noqa: E402


def peer(folder, a):
    recipe = airbench.RECIPES[a.recipe]
    torch.set_num_threads(a.threads)
    pixels, labels = airbench.training_set(folder)
    net = airbench.Network(recipe)
    golden.initialise_recipe(net, recipe, a.seed, airbench.normalised(pixels[:recipe.whiten_images]))
    training = airbench.Run(net.to(memory_format=torch.channels_last), recipe, len(labels) // recipe.batch)
    losses = []
    for images, truth in golden.recipe_batches(recipe, pixels.numpy(), labels.numpy(), a.seed):
        losses.append(training.update(images.contiguous(memory_format=torch.channels_last), truth).item())
        if len(losses) == a.updates:
            return losses


def ours(data, a):
    with tempfile.TemporaryDirectory() as folder:
        run([a.train, a.config, "--quiet", "--run-dir", f"{folder}/run", "--set", f"data.path={data}", "--set", f"device.threads={a.threads}",
             "--set", f"train.max_updates={a.updates}", "--set", "log.every=1", "--set", f"run.seed={a.seed}", "--set", "train.eval_every=0",
             "--set", "data.test_samples=128", "--set", f"train.micro_batch={airbench.RECIPES[a.recipe].batch}"])
        lines = map(json.loads, pathlib.Path(folder, "run/metrics.jsonl").read_text().splitlines())
        return [line["train_loss"] for line in lines if line["event"] == "train"]


def table(report):
    lines = [f"Recipe {report['recipe']}, seed {report['seed']}: {report['config']} of Lockstep {report['commit']} beside PyTorch {report['torch']}",
             f"{report['cpu']}, fp32, train.micro_batch = train.global_batch, {report['date']}", "", "| update | Lockstep | PyTorch | relative difference |", "| --- | --- | --- | --- |"]
    for u, (mine, theirs) in enumerate(zip(report["lockstep"], report["pytorch"])):
        lines.append(f"| {u + 1} | {mine:.6f} | {theirs:.6f} | {abs(mine - theirs) / theirs:.1e} |")
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("data", type=pathlib.Path)
    ap.add_argument("--recipe", choices=airbench.RECIPES, default="e1")
    ap.add_argument("--config", required=True)
    ap.add_argument("--updates", type=int, default=20)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--train", default=str(ROOT / "train"))
    ap.add_argument("--out")
    a = ap.parse_args()
    folder = a.data / "cifar-10-batches-bin"
    report = {
        "date": datetime.date.today().isoformat(), "commit": run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).strip(),
        "recipe": a.recipe, "config": a.config, "seed": a.seed, "cpu": processor(), "torch": torch.__version__,
        "lockstep": ours(a.data.resolve(), a), "pytorch": peer(folder, a),
    }
    print(table(report))
    if a.out:
        pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
        pathlib.Path(a.out).with_suffix(".md").write_text(table(report))


main()
