#!/usr/bin/env python3
"""Training speed of a recipe of airbench.py at one resolution, on this machine's CPU: one JSON line.

An update is all of the recipe's: resizing, forward, backward, both optimizers, averaging; the batches are made beforehand. Not timed:
three updates to warm up (and to compile).

  recipe_throughput.py --recipe e1 --resolution 24 --threads 2 --seconds 30 [--batch N] [--channels-last] [--compile]
"""
import argparse
import dataclasses
import json
import resource
import time

import torch

import airbench


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--recipe", choices=airbench.RECIPES, required=True)
    ap.add_argument("--resolution", type=int, default=airbench.SIZE)
    ap.add_argument("--batch", type=int, default=0, help="0: the recipe's")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=30)
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true")
    a = ap.parse_args()
    torch.set_num_threads(a.threads)
    full = airbench.RECIPES[a.recipe]
    recipe = dataclasses.replace(full, resolutions=(a.resolution,), batch=a.batch or full.batch)
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (2 * recipe.batch, 3, airbench.SIZE, airbench.SIZE), generator=generator, dtype=torch.uint8)
    stream = airbench.Stream(pixels, torch.randint(airbench.CLASSES, (len(pixels),), generator=generator), recipe, generator)
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    net = airbench.Network(recipe)
    airbench.initialise(net, recipe, generator)
    net.whiten.weight.data.copy_(airbench.whitening(airbench.normalised(pixels[:recipe.whiten_images])))
    run = airbench.Run(net.to(memory_format=layout), recipe, 50000 // recipe.batch, a.compile)
    pool = [(images.contiguous(memory_format=layout), labels) for images, labels in stream.epoch(0)]
    began = time.perf_counter()
    for _ in range(3):
        run.update(*pool[0])
    warm, done = time.perf_counter(), run.done
    while time.perf_counter() - warm < a.seconds:
        run.update(*pool[run.done % len(pool)]).item()
    seconds = time.perf_counter() - warm
    print(json.dumps({"torch": torch.__version__, "images_per_s": (run.done - done) * recipe.batch / seconds, "updates": run.done - done,
                      "warm_up_s": warm - began, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


main()
