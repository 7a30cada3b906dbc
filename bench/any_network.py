#!/usr/bin/env python3
"""Networks that nobody chose: random but sensible ones out of all kinds of layers and their attributes (docs/layers.md), each beside
the same network in PyTorch (scripts/make_golden.py reads the network file).

  bench/any_network.py write SEED [--size large] [--out FOLDER]     network.ini and train.ini of a seed; needs neither numpy nor torch
  bench/any_network.py check --seeds 1-40 [--devices cpu,ref] [--keep FOLDER] [--train ./train]
  bench/any_network.py check --network bench/networks/vgg.ini:3x16x16:6       one that is at hand; repeat
  bench/any_network.py bf16 --seeds 1-40 [--train ./train]          needs numpy alone
  bench/any_network.py time --seeds 1-40 --python newest=/path/to/venv/bin/python [--compile newest] [--out bench/results/NAME.json]

check: 20 updates of a small network from the same initial weights on the same pictures; on ref the first 3. Compared with PyTorch in
double are the loss of every update, every weight and running estimate at the end, relative to how far it moved, and the test loss.
The bar is PyTorch in fp32: Lockstep may be off by FACTOR times as much. Where two maxima of a window, or 0 and the input of a relu,
are equal to rounding, any fp32 run may take the other side and part from double: then PyTorch's rate is lowered, and Lockstep's run is
drawn again with other weights and pictures. A seed disagrees if all DRAWS do; the last line has how often either parted. The files of
one that disagrees, is refused or crashes stay in --keep, and the exit status is 1.

bf16: three updates in bf16 on the cpu device and on ref, and in fp32 on ref. The two in bf16, which round by themselves, may be from each
other twice as far as ref's is from fp32: in losses, and in all weights at the end.

time: images/s of training large networks, measured as bench/compare_pytorch.py does (same options), in turns; ratios by seed and their
median.
"""
import argparse
import collections
import json
import math
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

import compare_pytorch
from compare_pytorch import ROOT

UPDATES = {"cpu": 20, "ref": 3}
SIZES = {  # ranges of what is drawn, channels in steps of `multiple`; work: multiplications of a sample's forward pass
    "small": {"side": (7, 20), "width": (3, 14), "multiple": 1, "stages": (1, 3), "depth": (1, 2), "batch": (3, 24), "work": (2e4, 3e6)},
    "middle": {"side": (12, 32), "width": (8, 48), "multiple": 4, "stages": (1, 3), "depth": (1, 2), "batch": (4, 16),
               "work": (1e6, 1e7)},  # reaches Winograd's kernels
    "large": {"side": (24, 72), "width": (16, 64), "multiple": 8, "stages": (2, 4), "depth": (1, 3), "batch": (16, 128),
              "work": (3e6, 1.5e8)},
}
FACTOR = 20  # of the deviation of PyTorch in fp32
LEAST = {"loss": 2e-6, "test loss": 2e-5, "tensor": 2e-5}  # relative deviation that is always allowed
DRAWS = 5    # of weights and pictures, all of which must disagree
RATES = (0.1, 0.02, 0.005, 0.001, 0.0002)
PARTED = {"loss": 2e-5, "test loss": 1e-3, "tensor": 1e-3}  # PyTorch in fp32 is no bar beyond these: a lower rate
MEAN, STD, MOMENTUM, DECAY = 0.5, 0.25, 0.9, 5e-4


# The generator -----------------------------------------------------------------------------------------------------------

class Draw:
    """A seed's numbers, the same by every version of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def whole(self, low, high):
        return low + int(self.random() * (high - low + 1))

    def one(self, *choices):
        return choices[self.whole(0, len(choices) - 1)]

    def chance(self, p):
        return self.random() < p


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


class Plan:
    """A network file in the making. Its methods add layers behind the layer `x` and return the last one's name."""

    def __init__(self, draw, size):
        self.draw, self.size = draw, size
        self.classes, self.batch = draw.one(2, 5, 10, 10, 10, 17), draw.whole(*size["batch"])
        side = draw.whole(*size["side"])
        self.input = (draw.one(1, 3, 3, 4), side, draw.whole(*size["side"]) if draw.chance(0.3) else side)
        self.norms = draw.one(("batchnorm2d",), ("batchnorm2d",), ("groupnorm",), ("batchnorm2d", "groupnorm", None), (None,))
        self.activations = draw.one(("relu",), ("relu",), ("gelu",), ("silu",), ("relu", "gelu", "silu", "sigmoid"),
                                   ("hardswish", "relu6", "hardsigmoid"), ("leaky_relu", "elu", "mish", "gelu_tanh", "tanh", "softplus"))
        self.blocks = [draw.one(*BLOCKS) for _ in range(3)]  # a network has a style
        self.shapes, self.text, self.work, self.last = {"input": self.input}, "[network]\ninput = data\n", 0, "input"
        self.make()

    def layer(self, kind, inputs, shape, **keys):
        inputs = [inputs] if isinstance(inputs, str) else inputs
        name = f"{kind}{len(self.shapes)}"
        self.text += f"\n[{name}]\nlayer = {kind}\n"
        if inputs != [self.last]:
            self.text += f"inputs = {', '.join(inputs)}\n"
        for key, value in keys.items():
            value = "x".join(map(str, value)) if isinstance(value, tuple) else str(value).lower() if isinstance(value, bool) else value
            self.text += f"{key} = {value}\n"
        self.shapes[name], self.last = shape, name
        return name

    def conv(self, x, out, kernel=3, stride=1, dilation=1, groups=1, valid=False, **keys):
        """The same size of map where the stride is 1, except `valid`: without padding."""
        c, h, w = self.shapes[x]
        written, out = out, self.classes if out == "classes" else out
        kernel, stride = pair(kernel), pair(stride)
        valid = valid and all(side > dilation * (k - 1) for side, k in zip((h, w), kernel))
        padding = (0, 0) if valid else tuple(dilation * (k // 2) for k in kernel)
        h, w = ((side + 2 * p - dilation * (k - 1) - 1) // s + 1 for side, p, k, s in zip((h, w), padding, kernel, stride))
        self.work += out * h * w * (c // groups) * kernel[0] * kernel[1]
        attributes = {"stride": (stride, (1, 1)), "padding": (padding, (0, 0)), "dilation": (dilation, 1), "groups": (groups, 1)}
        keys.update({key: value for key, (value, preset) in attributes.items() if value != preset})
        if self.draw.chance(0.3):
            large = "unit-std" if c * kernel[0] * kernel[1] < 64 else "default"  # of more inputs it would be out of all proportion
            # dirac behind a relu passes exact zeros on to the next relu: ties that Winograd's rounding decides for every other element
            identity = "default" if "relu" in self.activations else "dirac"
            keys["weight_init"] = self.draw.one("he-normal", "he-normal", identity, large)
        if keys.get("bias", True) and self.draw.chance(0.2):
            keys["bias_init"] = self.draw.one(0, 0.1)
        return self.layer("conv2d", x, (out, h, w), out_channels=written, kernel=kernel, **keys)

    def norm(self, x):
        kind, (c, h, w) = self.draw.one(*self.norms), self.shapes[x]
        groups = [g for g in divisors(c) if c // g * h * w >= 16]
        if kind is None or h * w * self.batch < 16 or (kind == "groupnorm" and not groups):
            return x
        keys = {"groups": self.draw.one(*groups)} if kind == "groupnorm" else {}
        if self.draw.chance(0.2):
            keys["eps"] = self.draw.one(1e-4, 1e-3)
        if self.draw.chance(0.2):
            keys.update({"affine": False} if kind == "groupnorm" else {"momentum": self.draw.one(0.3, 0.6)})
        return self.same(kind, x, **keys)

    def same(self, kind, x, **keys):
        return self.layer(kind, x, self.shapes[x], **keys)

    def activation(self, x):
        return self.same(self.draw.one(*self.activations), x)

    def unit(self, x, out, active=True, **attributes):
        """Convolution, norm, activation"""
        x = self.norm(self.conv(x, out, **({"bias": False} if self.draw.chance(0.6) else {}), **attributes))
        return self.activation(x) if active else x

    def pool(self, x, kernel, stride, padding=0, kind=None):
        kind, (c, h, w) = kind or self.draw.one("maxpool2d", "avgpool2d"), self.shapes[x]
        kernel, stride = pair(kernel), pair(stride)
        keys = {**({"stride": stride} if stride != kernel else {}), **({"padding": padding} if padding else {})}
        h, w = ((side + 2 * padding - k) // s + 1 for side, k, s in zip((h, w), kernel, stride))
        return self.layer(kind, x, (c, h, w), kernel=kernel, **keys)

    def adaptive(self, x):
        c, h, w = self.shapes[x]
        size = (self.draw.whole((h + 1) // 2, h), self.draw.whole((w + 1) // 2, w))
        return self.layer("avgpool2d", x, (c, *size), output=pair(size))

    def flat(self, x):
        return math.prod(self.shapes[x])

    def linear(self, x, out, **keys):
        size = self.classes if out == "classes" else out
        self.work += self.flat(x) * size
        return self.layer("linear", x, (size, 1, 1), out_features=out, **keys)

    def squeeze(self, x):
        """Squeeze and excitation"""
        c = self.shapes[x][0]
        gate, inner = self.layer("globalavgpool", x, (c, 1, 1)), max(2, c // 4)
        step = self.linear if self.draw.chance(0.5) else lambda x, out: self.conv(x, out, 1)
        gate = self.same("sigmoid", step(self.same("relu", step(gate, inner)), c))
        return self.layer("multiply", [x, gate] if self.draw.chance(0.5) else [gate, x], self.shapes[x])

    def around(self, x, inner, stride):
        """The sum of a branch and the way around it."""
        target = self.shapes[inner]
        if self.shapes[x] != target:
            if target[0] >= self.shapes[x][0] and self.draw.chance(0.5):
                x = self.layer("shortcut", x, target, out_channels=target[0], stride=stride)
            else:
                x = self.norm(self.conv(x, target[0], 1, stride, bias=False))
        if self.draw.chance(0.2):
            inner = self.same("scale", inner, factor=self.draw.one(0.5, 0.25, -0.5))
        return self.layer("add", [x, inner] if self.draw.chance(0.5) else [inner, x], target)

    # blocks: of x, channels, stride

    def plain(self, x, out, stride):
        kernel = self.draw.one(3, 3, 5, 1, 7, 2, 4)
        return self.unit(x, out, kernel=kernel, stride=stride, valid=kernel % 2 == 0 or self.draw.chance(0.1))

    def rectangular(self, x, out, stride):
        long, both = self.draw.one(3, 5, 7), self.draw.chance(0.5)
        x = self.unit(x, out, kernel=(1, long), stride=stride if both else (1, stride))
        return self.unit(x, out, kernel=(long, 1), stride=1 if both else (stride, 1))

    def dilated(self, x, out, stride):
        return self.unit(x, out, kernel=self.draw.one(3, 3, 5), stride=stride, dilation=self.draw.one(2, 2, 3))

    def grouped(self, x, out, stride):
        """ResNeXt's and ShuffleNet's: any number of groups, dilated now and then"""
        groups = self.draw.one(*divisors(math.gcd(self.shapes[x][0], out)))
        x = self.unit(x, out, kernel=self.draw.one(3, 3, 5), stride=stride, groups=groups, dilation=self.draw.one(1, 1, 1, 2))
        return self.unit(x, out, kernel=1)

    def separable(self, x, out, stride):
        """MobileNet's; sometimes with a multiplier of channels"""
        c = self.shapes[x][0]
        x = self.unit(x, c * self.draw.one(1, 1, 1, 2), kernel=self.draw.one(3, 3, 5, 7, (3, 5)), stride=stride, groups=c,
                      dilation=self.draw.one(1, 1, 1, 2))
        return self.unit(x, out, kernel=1)

    def residual(self, x, out, stride):
        inner = self.unit(self.unit(x, out, stride=stride), out, active=False)
        if self.draw.chance(0.3):
            inner = self.squeeze(inner)
        x = self.around(x, inner, stride)
        return self.activation(x) if self.draw.chance(0.8) else x

    def bottleneck(self, x, out, stride):
        middle = max(2, out // 2)
        groups = self.draw.one(*divisors(middle)) if self.draw.chance(0.5) else 1
        inner = self.unit(self.unit(x, middle, kernel=1), middle, stride=stride, groups=groups)
        return self.activation(self.around(x, self.unit(inner, out, kernel=1, active=False), stride))

    def inverted(self, x, out, stride):
        """MobileNetV2's and V3's"""
        wide = self.shapes[x][0] * self.draw.one(2, 3, 4)
        inner = self.unit(self.unit(x, wide, kernel=1), wide, kernel=self.draw.one(3, 5), stride=stride, groups=wide)
        if self.draw.chance(0.4):
            inner = self.squeeze(inner)
        inner = self.unit(inner, out, kernel=1, active=False)
        return self.around(x, inner, stride) if self.shapes[x] == self.shapes[inner] else inner

    def convnext(self, x, out, stride):
        if stride > 1 or self.shapes[x][0] != out:
            x = self.norm(self.conv(x, out, stride, stride, valid=True))
        inner = self.norm(self.conv(x, out, 7, groups=out))
        inner = self.conv(self.activation(self.conv(inner, out * self.draw.one(2, 4), 1)), out, 1)
        return self.around(x, inner, 1)

    def dense(self, x, out, stride):
        """DenseNet's, with the pooling of its transitions"""
        if stride > 1:
            x = self.adaptive(x) if self.draw.chance(0.3) else self.pool(x, stride, stride)
        for _ in range(self.draw.whole(1, 3)):
            new = self.unit(x, max(2, out // 2))
            c, h, w = self.shapes[x]
            x = self.layer("concat", [x, new], (c + self.shapes[new][0], h, w))
        return self.unit(x, out, kernel=1)

    def inception(self, x, out, stride):
        if stride > 1:
            x = self.pool(x, 3, stride, 1)
        part = max(2, out // 3)
        kinds = [lambda: self.unit(x, part, kernel=1), lambda: self.unit(self.unit(x, part, kernel=1), part),
                 lambda: self.unit(x, part, kernel=(3, 5)), lambda: self.unit(self.pool(x, 3, 1, 1), part, kernel=1)]
        ways = [way() for way in kinds[self.draw.whole(0, 2):]]
        return self.layer("concat", ways, (part * len(ways), *self.shapes[x][1:]))

    def shuffled(self, x, out, stride):
        """ShuffleNet V2's: half of the channels pass, and the halves take turns"""
        if stride > 1 or self.shapes[x][0] != out or out < 2:
            x = self.unit(x, max(2, out), kernel=1, stride=stride)
        half, h, w = self.shapes[x][0] // 2, *self.shapes[x][1:]
        ways = [self.layer("slice", x, (half, h, w), **({"from": at} if at else {}), channels=half) for at in (0, half)]
        return self.layer("concat", [ways[0], self.unit(ways[1], half)], (2 * half, h, w), interleave="true")

    # the whole

    def width(self, low, high):
        return max(2, self.draw.whole(low, high) // self.size["multiple"] * self.size["multiple"])

    def make(self):
        low, high = self.size["width"]
        x, out = "input", self.width(low, (low + high) // 2)
        if self.draw.chance(0.8):
            x = self.unit(x, out, kernel=self.draw.one(3, 3, 5, 7, (3, 5)), stride=self.draw.one(1, 1, 2, (2, 1)))
        for stage in range(self.draw.whole(*self.size["stages"])):
            for block in range(self.draw.whole(*self.size["depth"])):
                smaller = block == 0 and stage > 0 and min(self.shapes[x][1:]) >= 6
                stride = self.draw.one(2, 2, 2, 3) if smaller else 1
                if smaller and self.draw.chance(0.3):
                    x, stride = self.pool(x, *self.draw.one((2, 2), (2, 2), (3, 2, 1), (3, 3), (2, 1), ((2, 3), (2, 2)))), 1
                x = getattr(self, self.draw.one(*self.blocks))(x, out, stride)
            out = self.draw.one(out, self.width(out, min(2 * out, 4 * high)), min(2 * out, 4 * high))
        self.head(x)

    def head(self, x):
        c, h, w = self.shapes[x]
        if self.draw.chance(0.2):
            x = self.same("dropout", x, p=0)
        kind = self.draw.one("average", "average", "maximum", "both", "flat", "hidden", "convolution")
        if kind == "convolution":
            x = self.conv(x, "classes", 1)
            x = self.layer("globalavgpool", x, (self.classes, 1, 1))
        elif kind == "both":
            ways = [self.layer("globalavgpool", x, (c, 1, 1)), self.layer("globalmaxpool", x, (c, 1, 1))]
            x = self.linear(self.layer("concat", ways, (2 * c, 1, 1)), "classes")
        elif kind in ("flat", "hidden"):
            if max(h, w) > 8:
                kernel = max(1, h // 4), max(1, w // 4)
                x = self.pool(x, kernel, kernel)
            x = self.layer("flatten", x, (self.flat(x), 1, 1))
            if kind == "hidden":
                x = self.activation(self.linear(x, self.draw.whole(8, 8 * self.size["width"][1])))
            x = self.linear(x, "classes", **({"bias": False} if self.draw.chance(0.2) else {}))
        else:
            x = self.layer("globalavgpool" if kind == "average" else "globalmaxpool", x, (c, 1, 1))
            x = self.linear(x, "classes")
        if self.draw.chance(0.2):
            self.same("scale", x, factor=self.draw.one(0.125, 0.5, 2))


class Given:
    """A network file that is at hand, in place of a drawn one; network: compare_pytorch.network_of's"""

    def __init__(self, network):
        self.text, self.batch, self.classes = network.file.read_text(), network.batch, network.classes
        self.input = tuple(map(int, network.shape.split("x")))


BLOCKS = ("plain", "rectangular", "dilated", "grouped", "separable", "residual", "bottleneck", "inverted", "convnext", "dense", "inception",
          "shuffled")


def generate(seed, size):
    """The first of a seed's networks that is neither tiny nor huge."""
    for attempt in range(1000):
        plan = Plan(Draw(f"{seed} {size} {attempt}"), SIZES[size])
        if SIZES[size]["work"][0] <= plan.work <= SIZES[size]["work"][1]:
            plan.text = f"; bench/any_network.py write {seed} --size {size}\n" + plan.text
            return plan
    raise AssertionError(f"seed {seed}: no network of a size within {SIZES[size]['work']} multiplications")


def write(folder, plan, seed, config="train.ini", rate=RATES[0]):
    """network.ini and a configuration; seed: of weights and pictures. Update u sees the samples [u * batch, (u + 1) * batch)."""
    channels = plan.input[0]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.ini").write_text(plan.text)
    (folder / config).write_text(f"""[run]
seed = {seed}

[data]
dataset = synthetic
shape = {'x'.join(map(str, plan.input))}
classes = {plan.classes}
train_samples = {plan.batch * max(UPDATES.values())}
test_samples = {plan.batch}
mean = {', '.join([str(MEAN)] * channels)}
std = {', '.join([str(STD)] * channels)}
shuffle = false

[model]
file = network.ini

[train]
epochs = 1
global_batch = {plan.batch}
micro_batch = {plan.batch}

[optimizer]
kind = sgd
lr = {rate}
momentum = {MOMENTUM}
weight_decay = {DECAY}

[log]
every = 1
""")


# check -------------------------------------------------------------------------------------------------------------------



class Failed(Exception):
    """Lockstep ended with an error."""


def read_safetensors(path):
    import numpy
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    body = raw[8 + length:]
    return {name: numpy.frombuffer(body[slice(*t["data_offsets"])], "<f4").astype(float) for name, t in header.items()}


def trained_by_lockstep(config, run_dir, options, a):
    command = [a.train, config, "--quiet", "--run-dir", run_dir]
    command += [word for option in [*options, *a.set] for word in ("--set", option)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failed(f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    events = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return {"loss": [e["train_loss"] for e in events if e["event"] == "train"],
            "test loss": [e["test_loss"] for e in events if e["event"] == "eval"][-1:],
            "tensors": read_safetensors(run_dir / "weights.safetensors")}


def tensors_of(net):
    return {name: tensor.detach().double().numpy().reshape(-1) for name, tensor, _ in net.tensors()}


def deviations(run_, exact, initial):
    """{what: (relative deviation from the exact run, scale)}: of losses, and of tensors the norm, relative to how far they moved"""
    import numpy
    norm = numpy.linalg.norm
    rows = {}
    for what in ("loss", "test loss"):
        for u, (x, y) in enumerate(zip(run_[what], exact[what])):
            rows[what, u] = abs(x - y) / max(abs(y), 0.01)
    pace = max(norm(t - initial[n]) / len(t) ** 0.5 for n, t in exact["tensors"].items())  # of an element, in the liveliest tensor
    for name, tensor in exact["tensors"].items():
        # what hardly moves (a bias before a norm, whose gradient is rounding) is compared with the others' pace and its own last bits
        scale = max(norm(tensor - initial[name]), 0.02 * pace * len(tensor) ** 0.5, 0.02 * norm(tensor))
        rows["tensor", name] = norm(run_["tensors"][name] - tensor) / scale
    return {what: deviation if math.isfinite(deviation) else math.inf for what, deviation in rows.items()}


def disagreements(ours, peer):
    """Rows beyond the bar, worst first: what, our deviation, the bar"""
    found, worst_yet = [], 0.0
    for (what, which), deviation in ours.items():
        bar = FACTOR * peer[what, which]
        if what == "loss":  # curves part: an update's bar is never below an earlier one's
            bar = worst_yet = max(worst_yet, bar)
        bar = max(bar, LEAST[what])
        if deviation > bar:
            found.append((deviation / bar, f"{what} {which}: off by {deviation:.2g}, allowed {bar:.2g}"))
    return [text for _, text in sorted(found, reverse=True)]


def largest(rows, what):
    return max(deviation for (kind, _), deviation in rows.items() if kind == what)


class Trial:
    """A network with one draw of weights and pictures."""

    def __init__(self, plan, file, seed):
        import torch
        import make_golden as golden
        self.golden = golden
        self.setup = {"batch": plan.batch, "seed": seed, "classes": plan.classes, "mean": MEAN, "std": STD, "momentum": MOMENTUM,
                      "weight_decay": DECAY}
        self.net = golden.Network(file, ("x".join(map(str, plan.input)), str(plan.classes)))
        golden.initialise(self.net, seed)
        self.initial = tensors_of(self.net)

        def batch(update, split=0):
            pixels, labels = golden.batch_of(self.setup, self.net.shape, update, split)
            return torch.from_numpy(golden.normalise(pixels, self.setup)), torch.tensor(labels)
        self.batches, self.test = [batch(u) for u in range(max(UPDATES.values()))], batch(0, split=1)

    def run(self, updates, dtype):
        import torch
        losses, _, net = self.golden.train(self.net, self.batches[:updates], self.setup, dtype)
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(net.eval()(self.test[0].to(dtype)), self.test[1]).item()
        return {"loss": losses, "test loss": [loss], "tensors": tensors_of(net)}

    def bar(self, updates, counts):
        """The run in double and how far PyTorch's in fp32 is from it, at the first rate at which it is not far"""
        import torch
        for self.setup["rate"] in RATES:
            exact = self.run(updates, torch.float64)
            peer = deviations(self.run(updates, torch.float32), exact, self.initial)
            counts["PyTorch draws"] += 1
            if all(largest(peer, what) <= PARTED[what] for what in PARTED):
                break
            counts["PyTorch parted"] += 1
        return exact, peer


def check_device(device, seed, plan, folder, counts, a):
    """Lines about it, and whether it agrees"""
    updates, lines = UPDATES.get(device, 3), []
    for draw in range(DRAWS):
        run_seed = seed + 1000 * draw
        trial = Trial(plan, folder / "network.ini", run_seed)
        exact, peer = trial.bar(updates, counts)
        config = folder / f"{device}-{draw}.ini"
        write(folder, plan, run_seed, config.name, trial.setup["rate"])
        try:
            ran = trained_by_lockstep(config, folder / f"run-{device}-{draw}", [
                f"device.type={device}", f"train.max_updates={updates}", f"device.threads={1 + seed % 2}"], a)
        except (Failed, subprocess.TimeoutExpired) as problem:
            return [*lines, f"  {device}: FAILED: {problem}"], False
        ours = deviations(ran, exact, trial.initial)
        found = disagreements(ours, peer)
        counts["draws"] += 1
        lines.append(f"  {device}: {'parted' if found else 'agrees'}: " + ", ".join(
            f"{what} within {largest(ours, what):.1e} (PyTorch {largest(peer, what):.1e})" for what in LEAST)
            + f"; rate {trial.setup['rate']:g}, loss {exact['loss'][0]:.3f} to {exact['loss'][-1]:.3f}")
        if not found:
            return lines, True
        counts["parted"] += 1
        lines += [f"    {text}" for text in found[:4]]
    return [*lines, f"  {device}: DISAGREES in all of {DRAWS} draws"], False


def checked(name, seed, plan, folder, counts, a):
    """Lines about it, and whether it agrees on all devices"""
    write(folder, plan, seed)
    layers = [line for line in plan.text.splitlines() if line.startswith("layer = ")]
    work = f", {plan.work / 1e6:.2f} M multiplications" if hasattr(plan, "work") else ""
    lines, all_good = [f"{name}: {len(layers)} layers of {len(set(layers))} kinds, {'x'.join(map(str, plan.input))}, batch {plan.batch}{work}"], True
    for device in a.devices.split(","):
        more, good = check_device(device, seed, plan, folder, counts, a)
        lines, all_good = lines + more, all_good and good
    return lines, all_good


def distances(run_, other):
    """Of two runs: the largest relative difference of a loss, and of all weights together"""
    import numpy
    loss = max(abs(x - y) / abs(y) for x, y in zip([*run_["loss"], *run_["test loss"]], [*other["loss"], *other["test loss"]]))
    ours, theirs = (numpy.concatenate([r["tensors"][name] for name in sorted(other["tensors"])]) for r in (run_, other))
    return loss, numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs)


def bf16(a):
    bad, found = [], []
    for seed in a.seeds:
        runs = {}
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            write(folder, generate(seed, a.size), seed)
            for device, precision in (("ref", "fp32"), ("ref", "bf16"), ("cpu", "bf16")):
                runs[device, precision] = trained_by_lockstep(folder / "train.ini", folder / f"run-{device}-{precision}", [
                    f"device.type={device}", f"train.precision={precision}", "train.max_updates=3", "optimizer.lr=0.01"], a)
        ours, bar = distances(runs["cpu", "bf16"], runs["ref", "bf16"]), distances(runs["ref", "bf16"], runs["ref", "fp32"])
        good = all(o <= 2 * b for o, b in zip(ours, bar))
        found.append(ours)
        bad += [] if good else [str(seed)]
        print(f"seed {seed}: {'agrees' if good else 'DISAGREES'}: losses within {ours[0]:.1e} (of fp32's within {bar[0]:.1e}), "
              f"weights {ours[1]:.1e} ({bar[1]:.1e})", flush=True)
    print(f"{len(found) - len(bad)} of {len(found)} agree" + (f"; not: {', '.join(bad)}" if bad else "")
          + "; medians: losses within {:.1e}, weights {:.1e}".format(*(statistics.median(column) for column in zip(*found))))
    return bool(bad)


def seeds_of(text):
    ranges = [part.split("-") for part in text.split(",")]
    return [seed for r in ranges for seed in range(int(r[0]), int(r[-1]) + 1)]


def check(a):
    import torch
    sys.path.insert(0, str(ROOT / "scripts"))
    torch.set_num_threads(1)
    todo = [(f"seed {seed}", seed, generate(seed, a.size)) for seed in a.seeds]
    todo += [(network.file.stem, 1, Given(network)) for network in a.network]
    bad, counts = [], collections.Counter()
    for name, seed, plan in todo:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work, name.replace(" ", "-"))
            lines, good = checked(name, seed, plan, folder, counts, a)
            if not good:
                bad.append(name)
                shutil.copytree(folder, a.keep / folder.name, dirs_exist_ok=True)
                lines.append(f"  kept: {a.keep / folder.name}")
        print("\n".join(lines), flush=True)
    print(f"{len(todo) - len(bad)} of {len(todo)} agree" + (f"; not: {', '.join(bad)}" if bad else ""))
    print(f"draws that parted from double: {counts['parted']} of Lockstep's {counts['draws']}, "
          f"{counts['PyTorch parted']} of PyTorch's {counts['PyTorch draws']} in fp32")
    return bool(bad)


# time --------------------------------------------------------------------------------------------------------------------

def timed(seed, a):
    """compare_pytorch's figures of a seed's network, and what the network is"""
    plan = generate(seed, a.size)
    with tempfile.TemporaryDirectory() as work:
        write(pathlib.Path(work), plan, seed)
        network = compare_pytorch.Network(f"seed {seed}", pathlib.Path(work, "network.ini"), "x".join(map(str, plan.input)), a.batch, plan.classes)
        return {**compare_pytorch.measure(network, a), "input": network.shape, "layers": len(plan.shapes) - 1,
                "multiplications": plan.work, "blocks": sorted(set(plan.blocks)), "network": plan.text}


def table(report):
    rows = report["networks"]
    ratios = [r["ratio"]["median"] for r in rows.values()]
    lines = [f"Networks of bench/any_network.py, training: Lockstep {report['commit']} beside PyTorch, {report['date']}",
             f"{report['cpu']}, {report['cores']} cores, batch {report['batch']}, fp32, {report['rounds']} rounds, "
             f"load before {report['load']}", "",
             f"{len(ratios)} networks: ratio median {statistics.median(ratios):.2f}, least {min(ratios):.2f}, greatest {max(ratios):.2f}; "
             f"{sum(r < 1.5 for r in ratios)} below 1.5", "",
             "| seed | input | blocks | layers | M multiplications | PyTorch, images/s | Lockstep | ratio (range) |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for seed, r in sorted(rows.items(), key=lambda row: row[1]["ratio"]["median"]):
        theirs, ours = (compare_pytorch.best_of(r, "images_per_s", max, peer) for peer in (True, False))
        ratio = r["ratio"]
        lines.append(f"| {seed} | {r['input']} | {', '.join(r['blocks'])} | {r['layers']} | {r['multiplications'] / 1e6:.1f} | "
                     f"{theirs:.0f} | {ours:.0f} | {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) |")
    return "\n".join(lines) + "\n"


def time(a):
    report = {**compare_pytorch.circumstances(a), "size": a.size, "networks": {}}
    for seed in a.seeds:
        report["networks"][str(seed)] = timed(seed, a)
        if a.out:  # after every network: what was measured stays if the rest is interrupted
            pathlib.Path(a.out).write_text(json.dumps(report, indent=1) + "\n")
            pathlib.Path(a.out).with_suffix(".md").write_text(table(report))
    print(table(report))
    return 0


def write_one(a):
    write(a.out, generate(a.seed, a.size), a.seed)
    print(a.out / "train.ini")
    return 0


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    modes = ap.add_subparsers(required=True, metavar="write | check | bf16 | time")
    one, many, half, speed = (modes.add_parser(name) for name in ("write", "check", "bf16", "time"))
    one.add_argument("seed", type=int)
    one.add_argument("--out", type=pathlib.Path, default=pathlib.Path())
    many.add_argument("--devices", default="cpu,ref")
    many.add_argument("--network", type=compare_pytorch.network_of, action="append", default=[], metavar="FILE:SHAPE:BATCH")
    many.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("any-network"), help="folder for the files of seeds that disagree")
    for mode in (many, half):
        mode.add_argument("--train", default=str(ROOT / "train"))
        mode.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help="for Lockstep's runs")
    compare_pytorch.add_arguments(speed)
    for mode, size, function in ((one, "small", write_one), (many, "small", check), (half, "small", bf16), (speed, "large", time)):
        mode.add_argument("--size", choices=SIZES, default=size)
        mode.set_defaults(function=function)
        if mode is not one:
            mode.add_argument("--seeds", type=seeds_of, required=mode is not many, default=[], help="1-40, or 3,5,8-12")
    return ap.parse_args()


if __name__ == "__main__":
    arguments = arguments()
    sys.exit(arguments.function(arguments))
