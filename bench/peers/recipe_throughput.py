#!/usr/bin/env python3
"""Training speed of a recipe of airbench.py at one resolution: one JSON line.

An update is all of the recipe's: resizing, forward, backward, both optimizers, averaging; the batches are made beforehand. Not timed:
three updates to warm up (and to compile).

  recipe_throughput.py --recipe e1 --resolution 24 --threads 2 --seconds 30 [--batch N] [--channels-last] [--compile]
  recipe_throughput.py --recipe e1 --resolution 24 --device cuda --dtype bf16 --channels-last --compile --cuda-graph --serve

--dtype bf16: weights and pictures in bf16, batch norm in fp32, as the records train in fp16.
--cuda-graph: one update in one CUDA graph. It repeats the rates of that update; a real run would set them anew, so this favours PyTorch.
--serve: as windows.py has it.
"""
import argparse
import dataclasses
import json
import resource

import torch

import airbench
import windows


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--recipe", choices=airbench.RECIPES, required=True)
    ap.add_argument("--resolution", type=int, default=airbench.SIZE)
    ap.add_argument("--batch", type=int, default=0, help="0: the recipe's")
    ap.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    ap.add_argument("--seconds", type=float, default=30)
    ap.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    ap.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--cuda-graph", action="store_true")
    ap.add_argument("--serve", action="store_true")
    a = ap.parse_args()
    if a.cuda_graph and a.device != "cuda":
        ap.error("--cuda-graph needs --device cuda")
    return a


def prepare(a):
    """The run, and batches as it takes them."""
    full = airbench.RECIPES[a.recipe]
    recipe = dataclasses.replace(full, resolutions=(a.resolution,), batch=a.batch or full.batch)
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(256, (2 * recipe.batch, 3, airbench.SIZE, airbench.SIZE), generator=generator, dtype=torch.uint8)
    stream = airbench.Stream(pixels, torch.randint(airbench.CLASSES, (len(pixels),), generator=generator), recipe, generator)
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    net = airbench.Network(recipe)
    airbench.initialise(net, recipe, generator)
    net.whiten.weight.data.copy_(airbench.whitening(airbench.normalised(pixels[:recipe.whiten_images])))
    net = net.to(a.device).to(memory_format=layout)
    dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float32
    airbench.to_type(net, dtype)
    run = airbench.Run(net, recipe, 50000 // recipe.batch, a.compile)
    pool = [(images.to(a.device, dtype).contiguous(memory_format=layout), labels.to(a.device)) for images, labels in stream.epoch(0)]
    return run, pool


def main():
    a = arguments()
    if a.threads:
        torch.set_num_threads(a.threads)
    if a.device == "cuda":
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    run, pool = prepare(a)
    batch = run.recipe.batch

    def updates(count):
        for n in range(count):
            run.update(*pool[n % len(pool)])

    updates(1)
    windows.sync(a.device)
    first = windows.since_process_start()
    updates(2)
    if a.cuda_graph:
        static = [tensor.clone() for tensor in pool[0]]
        graph = windows.capture(lambda: run.update(*static))

        def updates(count):
            for n in range(count):
                for into, tensor in zip(static, pool[n % len(pool)]):
                    into.copy_(tensor)
                graph.replay()
    updates(2)
    steps = max(2, round(a.seconds * windows.window(updates, 2, batch, a.device)[1] / batch))

    def report():
        by_device, by_host = windows.window(updates, steps, batch, a.device)
        found = {"torch": torch.__version__, "images_per_s": by_device, "host_images_per_s": by_host, "updates": steps,
                 "first_update_s": first, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
        return {**found, **({"gpu": torch.cuda.get_device_name()} if a.device == "cuda" else {})}

    if a.serve:
        windows.serve(report)
    else:
        print(json.dumps(report()))


main()
