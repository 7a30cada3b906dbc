#!/usr/bin/env python3
"""The CIFAR-10 speed records as recipes in plain PyTorch, on the CPU in fp32: what Lockstep's own are compared with.

  airbench.py --recipe e1 --data FOLDER [--updates N] [--seed S] [--threads T] [--init FILE.safetensors] [--plain]

FOLDER holds data_batch_1.bin and so on (the binary version of CIFAR-10). Without --updates the whole recipe is run. Prints
each update's loss and time and, of whole runs or with --evaluate, the accuracy on the test pictures over six views each.
--plain takes the samples in the order of the files without augmentation. Needs numpy and PyTorch (2.0 or later).

Recipes: airbench94 and airbench94_muon of Keller Jordan (github.com/KellerJordan/cifar10-airbench; arXiv 2404.00498), e1 and e5 of
github.com/fulcrumresearch/cifar-10-speedrun, which go on from github.com/hiverge/cifar10-speedrun. These run in fp16 (Muon's
products in fp16 or bf16) on a GPU; here all is fp32, or fp64 where a golden file is made.
"""
import argparse
import json
import math
import os
import pathlib
import struct
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CLASSES, SIZE = 10, 32


@dataclass(frozen=True)
class Recipe:
    """Lengths are epochs (of whole batches: the last short one is left out), rates those of gradients of the summed loss."""
    batch: int
    epochs: float
    decay_epochs: float                 # the rates' factor falls by 1/(this many epochs) an update
    floor: float = 0.0                  # but not below this
    warmup_share: float = 0.0           # of all updates; then the factor falls from 1 to floor in a straight line
    warmup_start: float = 0.0
    whiten_bias_epochs: float = 3.0     # the whitening bias is frozen from then on
    whiten_images: int = 5000
    activation: str = "gelu"            # in the groups; after whitening it is GELU
    norm_share: float = 0.4             # of a new batch in the running statistics
    smoothing: float = 0.2
    logits: float = 1 / 256             # factor on the head's output
    legacy_init: bool = False           # whitening bias 0, head as PyTorch has it; else uniform, and divided by its std
    bias_rate: float = 0.0              # batch norm's biases; of the whitening bias too where there is Muon
    head_rate: float = 0.0
    momentum: float = 0.85
    decay: float = 0.0                  # of SGD's groups: times the group's rate at factor 1
    muon_rate: float = 0.0              # 0: SGD for the filters too, at head_rate
    muon_momentum: float = 0.6
    muon_decay: float = 0.0             # w *= 1 - rate * this
    muon_eps: float = 1e-7
    newton_schulz: tuple = (3.4445, -4.7750, 2.0315)
    rescale_slows: bool = False         # filters are rescaled at every update, or at ever longer intervals
    average: str = ""                   # "ema": of the last updates; "lookahead": of all
    average_start: float = 0.0          # epochs
    average_every: int = 0              # updates
    average_decay: float = 0.0
    resolutions: tuple = (32,)          # pixels by epoch; the last one stays
    brightness: float = 0.0
    contrast: float = 0.0
    translate: int = 2


def kilostep(lr, decay, momentum, batch):
    """legacy/airbench94: rates for 1024 samples whose gradients agree -> SGD's head_rate, bias_rate (64 times), decay."""
    scale = 1024 * (1 + 1 / (1 - momentum))
    return {"head_rate": lr / scale, "bias_rate": 64 * lr / scale, "decay": decay * batch / scale}


HIVERGE = dict(batch=1536, whiten_bias_epochs=0.2, activation="silu", norm_share=0.4434, smoothing=0.09, bias_rate=0.0573,
               head_rate=0.5415, momentum=0.825, decay=1.0418e-6 * 1536, muon_rate=0.205, muon_momentum=0.655,
               muon_decay=1.0418e-6 * 1536, muon_eps=1e-5, newton_schulz=(3.4576, -4.7391, 2.0843), rescale_slows=True, floor=0.05,
               average="ema", average_every=4, average_decay=0.7, brightness=0.1399, contrast=0.1308)
RECIPES = {
    "e1": Recipe(**{**HIVERGE, "muon_rate": 0.2255}, epochs=8.875, decay_epochs=8.5, average_start=8.25,
                 resolutions=(24, 24, 24, 28, 28, 28, 32)),
    "e5": Recipe(**HIVERGE, epochs=8.25, decay_epochs=8.125, average_start=7.875, resolutions=(28, 28, 28, 28, 28, 32)),
    "airbench94_muon": Recipe(batch=2000, epochs=8, decay_epochs=8, bias_rate=0.053, head_rate=0.67, decay=2e-6 * 2000,
                              muon_rate=0.24),
    "airbench94": Recipe(batch=1024, epochs=9.9, decay_epochs=9.9, floor=0.07, warmup_share=0.23, warmup_start=0.2,
                         logits=1 / 9, legacy_init=True, **kilostep(11.5, 0.0153, 0.85, 1024),
                         average="lookahead", average_every=5, average_decay=0.95 ** 5),
}


# Network -----------------------------------------------------------------------------------------------------------------

class Norm(nn.BatchNorm2d):
    """Batch norm whose scale stays 1."""

    def __init__(self, width, share):
        super().__init__(width, eps=1e-12, momentum=share)
        self.weight.requires_grad = False


class Group(nn.Module):
    def __init__(self, cin, width, recipe):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, width, 3, padding=1, bias=False)
        self.norm1 = Norm(width, recipe.norm_share)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = Norm(width, recipe.norm_share)
        self.activation = {"gelu": F.gelu, "silu": F.silu}[recipe.activation]

    def forward(self, x):
        x = self.activation(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return self.activation(self.norm2(self.conv2(x)))


class Network(nn.Module):
    """Parameters have the names of configs/models/airbench94.ini."""

    def __init__(self, recipe, widths=(64, 256, 256)):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad = False
        self.group1 = Group(24, widths[0], recipe)
        self.group2 = Group(widths[0], widths[1], recipe)
        self.group3 = Group(widths[1], widths[2], recipe)
        self.head = nn.Linear(widths[2], CLASSES, bias=False)
        self.logits = recipe.logits

    def forward(self, x):
        x = self.group3(self.group2(self.group1(F.gelu(self.whiten(x)))))
        return self.head(x.amax((2, 3))) * self.logits  # at 32 and 28 pixels the records' 3x3 maximum, at 24 that of e1

    def filters(self):
        return [conv.weight for group in (self.group1, self.group2, self.group3) for conv in (group.conv1, group.conv2)]

    def norm_biases(self):
        return [m.bias for m in self.modules() if isinstance(m, Norm)]


def to_type(net, dtype):
    """Weights in this type; batch norm keeps fp32, as the records have it."""
    net.to(dtype)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.float()


def whitening(images, eps=5e-4):
    """24 filters of 2x2x3 from normalised images (n, 3, H, W): eigenvectors of the patches' uncentred second moments over the root
    of their eigenvalues, the largest first, then their negatives. In double. The records leave signs to the solver; here the first
    element of at least half the largest magnitude is positive, as src/model/whiten.h has it."""
    patches = images.double().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 12)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    vectors = vectors.T.flip(0)
    large = vectors.abs() >= vectors.abs().amax(1, keepdim=True) / 2
    vectors = vectors * vectors.gather(1, large.int().argmax(1, keepdim=True)).sign()
    scaled = vectors / (values.flip(0)[:, None] + eps).sqrt()
    return torch.cat([scaled, -scaled]).reshape(24, 3, 2, 2)


@torch.no_grad()
def initialise(net, recipe, generator):
    """All but whiten.weight. Convolutions U(+-1/sqrt(fan_in)), then the first C_in filters the identity; batch norm is as made."""
    def uniform(tensor, fan_in):
        tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) * 2 - 1).div_(math.sqrt(fan_in))
    for w in net.filters():
        uniform(w, w[0].numel())
        nn.init.dirac_(w[:w.size(1)])
    uniform(net.head.weight, net.head.in_features)
    if recipe.legacy_init:
        net.whiten.bias.zero_()
    else:
        uniform(net.whiten.bias, 12)
        net.head.weight.div_(net.head.weight.std())


def load(net, path):
    """Weights and statistics from a safetensors file (an 8-byte length, a JSON table, the values)."""
    raw = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", raw[:8])
    table = json.loads(raw[8:8 + length])
    for name, tensor in net.state_dict().items():
        if name.endswith("num_batches_tracked"):
            continue
        begin, end = table[name]["data_offsets"]
        values = np.frombuffer(raw[8 + length + begin:8 + length + end], np.dtype("<f4"))
        tensor.copy_(torch.from_numpy(values.copy()).reshape(tensor.shape))


# Optimization ------------------------------------------------------------------------------------------------------------

def orthogonalise(u, coefficients, eps):
    """Three Newton-Schulz steps towards the matrix with u's singular vectors and singular values of 1 (roughly)."""
    a, b, c = coefficients
    x = u / (u.norm() + eps)
    if x.size(0) > x.size(1):
        return orthogonalise(u.T, coefficients, eps).T
    for _ in range(3):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x


class Muon:
    """Momentum, orthogonalised (Jordan 2024), on filters whose norm is kept at sqrt(C_out)."""

    def __init__(self, filters, recipe, decay_updates):
        self.filters, self.recipe, self.decay_updates = filters, recipe, decay_updates
        self.buffers = [torch.zeros_like(w) for w in filters]
        self.updates, self.last_rescale = 0, 0

    def rescales(self):
        """e1, e5: when 2 + floor(15 * share of the schedule) updates have passed since the last time."""
        self.updates += 1
        if not self.recipe.rescale_slows:
            return True
        due = self.updates - self.last_rescale >= 2 + int(15 * self.updates / self.decay_updates)
        if due:
            self.last_rescale = self.updates
        return due

    @torch.no_grad()
    def step(self, factor):
        r, rate, rescale = self.recipe, self.recipe.muon_rate * factor, self.rescales()
        for w, m in zip(self.filters, self.buffers):
            m.mul_(r.muon_momentum).add_(w.grad)
            u = w.grad + r.muon_momentum * m
            if rescale:
                w.mul_(math.sqrt(w.size(0)) / w.norm())
            w.sub_(rate * orthogonalise(u.flatten(1), r.newton_schulz, r.muon_eps).view_as(w))
            w.mul_(1 - rate * r.muon_decay)


class Optimizer:
    """Nesterov SGD in groups, each with its rate at factor 1, and Muon on the filters where the recipe has it."""

    def __init__(self, net, recipe, per_epoch):
        r = self.recipe = recipe
        self.total, self.decay_updates = math.ceil(r.epochs * per_epoch), math.ceil(r.decay_epochs * per_epoch)
        self.whiten_updates = math.ceil(r.whiten_bias_epochs * per_epoch)
        self.whiten_bias = net.whiten.bias
        filters = net.filters()
        self.muon = Muon(filters, r, self.decay_updates) if r.muon_rate else None
        groups = [([net.whiten.bias], r.bias_rate if self.muon else r.head_rate), (net.norm_biases(), r.bias_rate),
                  ([net.head.weight], r.head_rate)] + ([] if self.muon else [(filters, r.head_rate)])
        self.sgd = torch.optim.SGD([{"params": p, "lr": rate, "base": rate, "weight_decay": r.decay / rate} for p, rate in groups],
                                   momentum=r.momentum, nesterov=True)

    def factor(self, update):
        r, warmup = self.recipe, int(self.total * self.recipe.warmup_share)
        if update < warmup:
            return r.warmup_start + (1 - r.warmup_start) * update / warmup
        if warmup:
            return 1 - (1 - r.floor) * (update - warmup) / (self.total - warmup)
        return max(1 - update / self.decay_updates, r.floor)

    def step(self, update):
        factor = self.factor(update)
        for group in self.sgd.param_groups:
            group["lr"] = group["base"] * factor
        if self.muon:  # the whitening bias has a schedule of its own, to the end of its training
            self.sgd.param_groups[0]["lr"] = self.recipe.bias_rate * (1 - update / self.whiten_updates)
        if update >= self.whiten_updates:
            self.whiten_bias.grad = None  # neither updated nor decayed
        self.sgd.step()
        if self.muon:
            self.muon.step(factor)


class Average:
    """A slow copy of all weights and statistics that the network is set to now and then."""

    def __init__(self, net, recipe, per_epoch, total):
        self.recipe, self.total = recipe, total
        self.start = round(recipe.average_start * per_epoch)
        self.fast = [v for v in net.state_dict().values() if v.is_floating_point()]
        self.slow = [v.clone() for v in self.fast]

    @torch.no_grad()
    def after(self, done):
        """done: updates so far."""
        r = self.recipe
        if not r.average:
            return
        if r.average == "ema" and done == self.start:
            for slow, fast in zip(self.slow, self.fast):
                slow.copy_(fast)
        elif done > self.start and (done - self.start) % r.average_every == 0:
            decay = r.average_decay * ((done / self.total) ** 3 if r.average == "lookahead" else 1)
            for slow, fast in zip(self.slow, self.fast):
                fast.copy_(slow.lerp_(fast, 1 - decay))
        if r.average == "lookahead" and done == self.total:
            for slow, fast in zip(self.slow, self.fast):
                fast.copy_(slow)


def resolution(recipe, epoch):
    return recipe.resolutions[min(epoch, len(recipe.resolutions) - 1)]


def resized(images, pixels):
    if pixels == images.size(-1):
        return images
    return F.interpolate(images, size=(pixels, pixels), mode="bilinear", align_corners=False)


class Run:
    """A network in training. update(images, labels) takes normalised, augmented pictures of 32 pixels."""

    def __init__(self, net, recipe, per_epoch, compiled=False):
        self.net, self.recipe, self.per_epoch, self.done = net, recipe, per_epoch, 0
        self.forward = torch.compile(net) if compiled else net
        self.optimizer = Optimizer(net, recipe, per_epoch)
        self.total = self.optimizer.total
        self.average = Average(net, recipe, per_epoch, self.total)

    def update(self, images, labels):
        """The mean loss before the update, a tensor."""
        self.net.train()
        self.net.zero_grad(set_to_none=True)
        outputs = self.forward(resized(images, resolution(self.recipe, self.done // self.per_epoch)))
        outputs = outputs.float() if outputs.element_size() < 4 else outputs
        loss = F.cross_entropy(outputs, labels, label_smoothing=self.recipe.smoothing, reduction="sum")
        loss.backward()
        self.optimizer.step(self.done)
        self.done += 1
        self.average.after(self.done)
        return loss.detach() / len(labels)


# Data --------------------------------------------------------------------------------------------------------------------

def read(folder, names):
    """Pixels (n, 3, 32, 32) as bytes and labels of the binary files."""
    raw = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8) for name in names]).reshape(-1, 1 + 3 * SIZE * SIZE)
    return torch.from_numpy(raw[:, 1:].reshape(-1, 3, SIZE, SIZE)), torch.from_numpy(raw[:, 0].astype(np.int64))


def training_set(folder):
    return read(folder, [f"data_batch_{i}.bin" for i in range(1, 6)])


def normalised(pixels, dtype=torch.float32):
    mean, std = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (MEAN, STD))
    return ((pixels.double() / 255 - mean) / std).to(dtype)


class Stream:
    """The records' augmentation: mirrored at random once and in every odd epoch again, shifted, brightness, then contrast."""

    def __init__(self, pixels, labels, recipe, generator):
        self.pixels, self.labels, self.recipe, self.generator = pixels, labels, recipe, generator
        self.mirrored = torch.rand(len(labels), generator=generator) < 0.5

    def epoch(self, number):
        """Batches in a fresh order: (images, labels)."""
        order = torch.randperm(len(self.labels), generator=self.generator)
        for first in range(0, len(order) - self.recipe.batch + 1, self.recipe.batch):
            yield self.batch(order[first:first + self.recipe.batch], number)

    def batch(self, which, number):
        r, draw, n = self.recipe, self.generator, len(which)
        frame = F.pad(normalised(self.pixels[which]), (r.translate,) * 4, "reflect")
        dy, dx = (torch.randint(2 * r.translate + 1, (n, 1, 1, 1), generator=draw) for _ in range(2))
        along = torch.arange(SIZE)
        columns = torch.where((self.mirrored[which] ^ bool(number % 2)).view(n, 1, 1, 1), along.flip(0), along)
        images = frame[torch.arange(n).view(n, 1, 1, 1), torch.arange(3).view(3, 1, 1), dy + along.view(SIZE, 1), dx + columns]
        shift, stretch = ((torch.rand(n, 1, 1, 1, generator=draw) * 2 - 1) * by for by in (r.brightness, r.contrast))
        return (images + shift) * (1 + stretch), self.labels[which]


class FileOrder:
    """Batches without augmentation, in the order of the files."""

    def __init__(self, pixels, labels, recipe):
        self.pixels, self.labels, self.batch = pixels, labels, recipe.batch

    def epoch(self, _):
        for first in range(0, len(self.labels) - self.batch + 1, self.batch):
            part = slice(first, first + self.batch)
            yield normalised(self.pixels[part]), self.labels[part]


@torch.no_grad()
def six_views(net, images):
    """Logits of the picture, and of it moved by a pixel along the diagonal either way: weights 1/2, 1/4, 1/4; each with its mirror."""
    both = lambda x: (net(x) + net(x.flip(-1))) / 2
    frame = F.pad(images, (1,) * 4, "reflect")
    return both(images) / 2 + both(frame[..., :SIZE, :SIZE]) / 4 + both(frame[..., 2:, 2:]) / 4


def accuracy(net, pixels, labels, views=six_views):
    net.eval()
    right = 0
    for part, wanted in zip(pixels.split(1000), labels.split(1000)):
        right += (views(net, normalised(part)).argmax(1) == wanted).sum().item()
    return right / len(labels)


def batches(source, epochs):
    for number in range(math.ceil(epochs)):
        yield from source.epoch(number)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--recipe", choices=RECIPES, default="e1")
    ap.add_argument("--data", required=True, help="folder of the binary files")
    ap.add_argument("--updates", type=int, help="stop after so many")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--threads", type=int, default=0, help="0: PyTorch's default")
    ap.add_argument("--init", help="safetensors file of initial weights")
    ap.add_argument("--plain", action="store_true", help="no augmentation, order of the files")
    ap.add_argument("--channels-last", action="store_true")
    ap.add_argument("--compile", action="store_true")
    ap.add_argument("--evaluate", action="store_true", help="of runs cut short, too")
    a = ap.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    recipe, generator = RECIPES[a.recipe], torch.Generator().manual_seed(a.seed)
    pixels, labels = training_set(a.data)
    net = Network(recipe)
    if a.init:
        load(net, a.init)
    else:
        initialise(net, recipe, generator)
        net.whiten.weight.data.copy_(whitening(normalised(pixels[:recipe.whiten_images])))
    if a.channels_last:
        net = net.to(memory_format=torch.channels_last)
    source = FileOrder(pixels, labels, recipe) if a.plain else Stream(pixels, labels, recipe, generator)
    run = Run(net, recipe, len(labels) // recipe.batch, a.compile)
    wanted = min(a.updates or run.total, run.total)
    for images, truth in batches(source, recipe.epochs):
        if run.done == wanted:
            break
        began = time.perf_counter()
        loss = run.update(images, truth).item()
        print(f"update {run.done} loss {loss:.6f} {time.perf_counter() - began:.3f} s", flush=True)
    if wanted == run.total or a.evaluate:
        print(f"accuracy {100 * accuracy(net, *read(a.data, ['test_batch.bin'])):.2f} % over six views")


if __name__ == "__main__":
    main()
