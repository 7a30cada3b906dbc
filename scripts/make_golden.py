#!/usr/bin/env python3
"""Makes tests/golden/<name>.json: 20 updates of training in PyTorch, for the training tests to be compared with.

    python3 scripts/make_golden.py [NAME...] [--reference models.py] [--out tests/golden]

NAME: of NETWORKS below, with plain SGD; or of RECIPES, whole recipes of bench/peers/airbench.py in small: whitening, augmentation,
resolutions, Muon, schedules, averaging, whose configuration for Lockstep is tests/golden/NAME.ini. Without one, all.

The files hold no weights and no pixels: both follow from the seed by the generator that src/base/philox.h describes, which is
written down here a second time. Needs numpy and PyTorch (any version from 1.13 on); the tests need neither.
--reference names a Python file with build(name): its networks must have our parameter names and compute the same.
"""
import argparse
import configparser
import copy
import dataclasses
import importlib.util
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "bench", "peers"))
import airbench  # noqa: E402

UPDATES = 20
PURPOSE_INIT, PURPOSE_SHUFFLE, PURPOSE_AUGMENT, PURPOSE_SYNTHETIC, PURPOSE_JITTER = 1, 2, 3, 5, 7  # src/base/philox.h
LABEL_WORD = 1 << 20                    # src/data/synthetic.c: the word of a sample's stream that decides its label

# Rates: with batch norm two runs that round differently part quickly (resnet20 at rate 0.01: 5e-3 after 10 updates, in fp32 against
# double). These keep fp32 within about 1e-5 of double over 10 updates, so that a comparison at 1e-4 tells mistakes from rounding.
NETWORKS = {
    "lenet":    {"batch": 64, "rate": 0.02, "input": "1x28x28"},
    "resnet9":  {"batch": 32, "rate": 0.001},
    "resnet20": {"batch": 32, "rate": 0.0005},
    "airbench94-plain": {"batch": 32, "rate": 0.002},
    # not shipped: tests/golden/<network>.ini
    "se-resnet": {"batch": 32, "rate": 0.002, "input": "3x16x16"},
    "densenet": {"batch": 32, "rate": 0.002, "input": "3x16x16"},
    "separable": {"batch": 32, "rate": 0.002, "input": "3x16x16"},
}
COMMON = {"input": "3x32x32", "seed": 1, "momentum": 0.9, "weight_decay": 5e-4, "classes": 10, "mean": 0.5, "std": 0.25}
# Recipes in small: five epochs of four updates, and a schedule, an average and resolutions that change within them. Muon's steps do
# not shrink with the gradient, so what rounding does to a small one grows: at the records' rates fp32 parts from double by 1e-3 in
# ten updates, at these (times `rates`), with a seed at which it decides no maximum of a window, by some 1e-6 in twenty.
RECIPE_WIDTHS, RECIPE_BATCH, RECIPE_SAMPLES = (32, 64, 64), 64, 4 * 64 + 9
RECIPES = {
    "e1": {"seed": 1, "rates": 0.1, "changes": dict(
        epochs=5, decay_epochs=4.5, whiten_bias_epochs=0.75, average_start=3, resolutions=(24, 28, 28, 32), whiten_images=100)},
    "e5": {"seed": 3, "rates": 0.1, "changes": dict(
        epochs=5, decay_epochs=4.5, whiten_bias_epochs=0.75, average_start=3, resolutions=(28, 28, 32), whiten_images=100)},
    "airbench94_muon": {"seed": 4, "rates": 0.03, "changes": dict(epochs=5, decay_epochs=5, whiten_bias_epochs=2, whiten_images=100)},
    "airbench94_sgd": {"recipe": "airbench94", "seed": 2, "rates": 0.1, "changes": dict(
        epochs=4.75, decay_epochs=4.75, whiten_bias_epochs=2, whiten_images=100)},
}


# The generator -----------------------------------------------------------------------------------------------------------

def philox(counter, key):
    """Philox 4x32-10. counter: uint64 array (n, 4) of 32-bit words, key: 2 words -> (n, 4)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = (counter[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = ((p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & low,
                          (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def words(seed, purpose, a, b, first, count):
    """Words first..first+count-1 (first a multiple of 4) of stream (seed, purpose, a, b), as uint32."""
    index = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    counter = np.zeros((len(index), 4), np.uint64)
    counter[:, 0], counter[:, 1] = index & np.uint64(0xFFFFFFFF), index >> np.uint64(32)
    counter[:, 2], counter[:, 3] = a, b
    key = (seed & 0xFFFFFFFF, (seed >> 32) ^ (purpose * 0x9E3779B9 & 0xFFFFFFFF))
    return philox(counter, key).reshape(-1)[:count].astype(np.uint32)


def check_philox():
    """The known answers of the generator's authors (Random123, kat_vectors)."""
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    for counter, key, want in (
            ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
            ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
            (pi, (0xA4093822, 0x299F31D0), [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1])):
        got = philox(np.array([counter], np.uint64), key)[0]
        assert [int(v) for v in got] == want, "Philox disagrees with its published vectors"


def uniform(seed, index, count, bound):
    """ls_graph_init_param: (2u - 1) * bound in fp32, u the upper 24 bits of a word."""
    u = (words(seed, PURPOSE_INIT, index, 0, 0, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0 ** -24)
    return (np.float32(2) * u - np.float32(1)) * np.float32(bound)


def he_normal(seed, index, count, fan_in):
    """ls_graph_init_param, in double: pairs by Box and Muller, deviation sqrt(2 / fan_in)."""
    w = words(seed, PURPOSE_INIT, index, 0, 0, (count + 1) // 2 * 2).astype(np.float64).reshape(-1, 2)
    radius, angle = np.sqrt(-2 * np.log((w[:, 0] + 1) / 2 ** 32)), 2 * np.pi * w[:, 1] / 2 ** 32
    normal = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:count]
    return normal * math.sqrt(2 / fan_in)


def sample(seed, index, pixels, classes, split=0):
    """One synthetic picture (bytes) and its label; split: 0 is the training set, 1 the test set."""
    stream = words(seed, PURPOSE_SYNTHETIC, split, index, 0, (pixels + 3) // 4)
    noise = stream.astype("<u4").view(np.uint8)[:pixels].astype(np.int32)
    label = int(words(seed, PURPOSE_SYNTHETIC, split, index, LABEL_WORD, 1)[0]) * classes >> 32
    return ((noise + 16 * (label % 8)) // 2).astype(np.uint8), label


def order_of(seed, epoch, count):
    """ls_order_shuffle"""
    draws = words(seed, PURPOSE_SHUFFLE, epoch, 0, 0, count).astype(np.uint64)
    order = np.arange(count)
    for i in range(count - 1, 0, -1):
        j = int(draws[i] * np.uint64(i + 1) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]
    return order


def below(word, count):
    return int(word) * count >> 32


def placed(seed, epoch, index, picture, pad, mode="constant", alternating=False):
    """ls_augment_draw and the augment operator's pixels: crop from the padded picture (NumPy's word for its edge), mirrored or not."""
    side = picture.shape[-1]
    w = words(seed, PURPOSE_AUGMENT, epoch, index, 0, 3)
    dy, dx = (below(w[k], 2 * pad + 1) for k in (0, 1))
    mirrored = int(w[2] >> np.uint32(31))
    if alternating:  # by epoch 0's draw, and in odd epochs the other way
        mirrored = int(words(seed, PURPOSE_AUGMENT, 0, index, 0, 3)[2] >> np.uint32(31)) ^ epoch % 2
    frame = np.pad(picture, ((0, 0), (pad, pad), (pad, pad)), mode)
    crop = frame[:, dy:dy + side, dx:dx + side]
    return crop[:, :, ::-1] if mirrored else crop  # mirrored output x reads column (side - 1 - x) + dx of the frame


def jitter(seed, epoch, index, recipe):
    """(shift, factor) of a normalised picture: op_augment.h"""
    w = words(seed, PURPOSE_JITTER, epoch, index, 0, 2) >> np.uint32(16)
    level = [(2 * int(v) - 65535) / 65536 for v in w]
    return recipe.brightness * level[0], 1 + recipe.contrast * level[1]


def augmented(seed, epoch, which, pixels, recipe):
    """The recipe's batch of pictures `which`, in fp32."""
    batch = airbench.normalised(torch.from_numpy(np.stack(
        [placed(seed, epoch, i, pixels[i], recipe.translate, "reflect", alternating=True) for i in which])), torch.float64)
    shift, factor = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1, 1) for v in zip(*(jitter(seed, epoch, i, recipe) for i in which)))
    return ((batch + shift) * factor).float()


def batch_of(setup, shape, update, split=0):
    """Pixels (n, C, H, W) as bytes and labels of the samples [update * batch, (update + 1) * batch)."""
    pixels, labels = [], []
    for i in range(update * setup["batch"], (update + 1) * setup["batch"]):
        picture, label = sample(setup["seed"], i, int(np.prod(shape)), setup["classes"], split)
        pixels.append(picture.reshape(shape))
        labels.append(label)
    return np.stack(pixels), labels


def normalise(pixels, setup):
    """In double, rounded to fp32 once."""
    return ((pixels.astype(np.float64) / 255 - setup["mean"]) / setup["std"]).astype(np.float32)


# Networks ----------------------------------------------------------------------------------------------------------------

class Network(nn.Module):
    """A network file in PyTorch. Parameters are called <section>.weight and so on, as in the file of weights."""

    def __init__(self, path, data=("3x32x32", "10")):
        """data: the data set's shape and number of classes, for a network that follows them"""
        super().__init__()
        self.path, self.data = path, data
        ini = configparser.ConfigParser(delimiters=("=",), comment_prefixes=(";", "#"), interpolation=None)
        with open(path) as file:
            ini.read_file(file)
        shape = ini["network"]["input"]
        self.shape = tuple(int(d) for d in (data[0] if shape == "data" else shape).split("x"))
        self.plan, shapes, before = [], {"input": self.shape}, "input"
        for name in ini.sections()[1:]:
            keys = {key: data[1] if value == "classes" else value for key, value in ini[name].items()}
            kind = keys.pop("layer")
            inputs = [i.strip() for i in keys.pop("inputs", before).split(",")]
            module, run = self.layer(kind, keys, shapes[inputs[0]])
            if module is not None:
                module.initial = {leaf: keys.get(f"{leaf}_init", "default") for leaf in ("weight", "bias")}
                self.put(name, module)
            with torch.no_grad():
                probe = [torch.zeros((2,) + shapes[i]) for i in inputs]
                shapes[name] = tuple(run(*probe).shape[1:])
            self.plan.append((name, inputs, run))
            before = name

    def put(self, name, module):
        """res1.0.conv: modules within modules, so that state_dict has the dotted name."""
        *path, leaf = name.split(".")
        parent = self
        for part in path:
            if part not in parent._modules:
                parent.add_module(part, nn.Module())
            parent = parent._modules[part]
        parent.add_module(leaf, module)

    @staticmethod
    def layer(kind, keys, shape):
        """(module with parameters or None, function)"""
        bias = keys.get("bias", "true") == "true"
        number = lambda key, preset: int(keys.get(key, preset))
        def pair(key, preset):  # 3, or 3x5: rows x columns
            numbers = tuple(int(v) for v in str(keys.get(key, preset)).split("x"))
            return numbers * (2 // len(numbers))
        if kind == "conv2d":
            m = nn.Conv2d(shape[0], number("out_channels", 0), pair("kernel", 0), pair("stride", 1), pair("padding", 0),
                          number("dilation", 1), number("groups", 1), bias)
            return m, m
        if kind == "linear":
            m = nn.Linear(int(np.prod(shape)), number("out_features", 0), bias)
            return m, lambda x: m(x.flatten(1))
        if kind == "batchnorm2d":
            m = nn.BatchNorm2d(shape[0], float(keys.get("eps", 1e-5)), float(keys.get("momentum", 0.1)))
            return m, m
        if kind == "groupnorm":
            m = nn.GroupNorm(number("groups", 0), shape[0], float(keys.get("eps", 1e-5)), keys.get("affine", "true") == "true")
            return m, m
        if kind == "shortcut":
            out, stride = number("out_channels", 0), number("stride", 2)
            before = (out - shape[0]) // 2
            return None, lambda x: F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, before, out - shape[0] - before))
        if kind in ("dropout", "dropout2d"):
            m = (nn.Dropout if kind == "dropout" else nn.Dropout2d)(float(keys.get("p", 0.5)))
            return m, m
        if kind == "droppath":
            p = float(keys.get("p", 0.5))
            return None, lambda x: F.dropout(torch.ones(len(x), *[1] * (x.dim() - 1)), p, self.training) * x
        kernel, stride, padding = pair("kernel", 0), pair("stride", keys.get("kernel", 0)), pair("padding", 0)
        factor = float(keys.get("factor", 1))
        return None, {
            "relu": F.relu,
            "gelu": F.gelu,
            "silu": F.silu,
            "sigmoid": torch.sigmoid,
            "leaky_relu": lambda x: F.leaky_relu(x, float(keys.get("slope", 0.01))),
            "relu6": F.relu6,
            "elu": lambda x: F.elu(x, float(keys.get("alpha", 1))),
            "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
            "hardsigmoid": F.hardsigmoid,
            "hardswish": F.hardswish,
            "mish": F.mish,
            "tanh": torch.tanh,
            "softplus": F.softplus,
            "maxpool2d": lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=keys.get("ceil_mode") == "true"),
            "avgpool2d": lambda x: F.adaptive_avg_pool2d(x, pair("output", 0)) if "output" in keys else F.avg_pool2d(x, kernel, stride, padding),
            "globalavgpool": lambda x: x.mean((2, 3), keepdim=True),
            "globalmaxpool": lambda x: x.amax((2, 3), keepdim=True),
            "add": torch.add,
            "multiply": lambda x, y: Network.as_map(x, y) * Network.as_map(y, x),
            "concat": lambda *x: torch.stack(x, 2).flatten(1, 2) if keys.get("interleave") == "true" else
                      torch.cat(x if len({v.dim() for v in x}) == 1 else [v.flatten(1) for v in x], 1),
            "slice": lambda x: x[:, int(keys.get("from", 0)):][:, :int(keys["channels"])],
            "flatten": lambda x: x.flatten(1),
            "scale": lambda x: x * factor,
        }[kind]

    @staticmethod
    def as_map(x, other):
        """a vector as (N, C, 1, 1), where the other factor is a map"""
        return x[..., None, None] if x.dim() < other.dim() else x

    def forward(self, x):
        values = {"input": x}
        for name, inputs, run in self.plan:
            x = values[name] = run(*(values[i] for i in inputs))
        return x.flatten(1)

    def tensors(self):
        """(name, tensor, module) in the order of the network file: the index is the one that the generator sees."""
        modules = dict(self.named_modules())
        for name, _, _ in self.plan:
            module = modules.get(name)
            for leaf in ("weight", "bias", "running_mean", "running_var"):
                tensor = getattr(module, leaf, None)
                if tensor is not None:
                    yield f"{name}.{leaf}", tensor, module


def initial_values(seed, index, tensor, module, kind):
    """kind: of weight_init or bias_init (docs/layers.md), but `whiten`"""
    fan_in, shape = module.weight[0].numel(), tensor.shape
    if kind == "he-normal":
        return torch.from_numpy(he_normal(seed, index, tensor.numel(), fan_in)).reshape(shape).float()
    if kind not in ("default", "dirac", "unit-std"):
        return torch.full(shape, float(kind))
    values = torch.from_numpy(uniform(seed, index, tensor.numel(), 1 / math.sqrt(fan_in))).reshape(shape)
    if kind == "unit-std":
        values = (values.double() / values.double().std()).float()
    elif kind == "dirac":
        for filters in values.chunk(module.groups):
            nn.init.dirac_(filters[:filters.size(1)])
    return values


def initialise(net, seed):
    with torch.no_grad():
        for index, (name, tensor, module) in enumerate(net.tensors()):
            if isinstance(module, (nn.BatchNorm2d, nn.GroupNorm)):
                tensor.fill_(1.0 if name.endswith((".weight", ".running_var")) else 0.0)
                continue
            tensor.copy_(initial_values(seed, index, tensor, module, module.initial[name.rpartition(".")[2]]))


def check_reference(path, name, net, images, labels):
    """The same weights in the reference's class: same names, same loss and gradients (in double, to rounding)."""
    spec = importlib.util.spec_from_file_location("reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    other = module.build(name).double()
    net = copy_of(net, torch.float64)
    other.load_state_dict(net.state_dict(), strict=True)
    results = []
    for model in (net, other):
        loss = F.cross_entropy(model(images.double()), labels)
        loss.backward()
        results.append((loss.item(), {n: p.grad for n, p in model.named_parameters()}))
    (a, grads), (b, other_grads) = results
    worst = max(float((grads[n] - other_grads[n]).norm() / other_grads[n].norm()) for n in other_grads)
    assert set(grads) == set(other_grads) and abs(a - b) < 1e-12 * abs(b) and worst < 1e-9, (name, a, b, worst)
    print(f"{name}: as {os.path.basename(path)}: loss {a:.15g} and {b:.15g}, gradients within {worst:.1e}")


# Training ----------------------------------------------------------------------------------------------------------------

def copy_of(net, dtype):
    copy = Network(net.path, net.data)
    copy.load_state_dict(net.state_dict())
    return copy.to(dtype)


def train(net, batches, setup, dtype):
    """Losses, norms of the first gradients, the trained copy"""
    net = copy_of(net, dtype).train()
    decayed = {n for n, _, m in net.tensors() if n.endswith(".weight") and not isinstance(m, (nn.BatchNorm2d, nn.GroupNorm))}
    params = dict(net.named_parameters())
    optimizer = torch.optim.SGD(
        [{"params": [p for n, p in params.items() if n in decayed], "weight_decay": setup["weight_decay"]},
         {"params": [p for n, p in params.items() if n not in decayed], "weight_decay": 0.0}],
        lr=setup["rate"], momentum=setup["momentum"])
    losses, grad_norms = [], {}
    for update, (images, labels) in enumerate(batches):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images.to(dtype)), labels)
        loss.backward()
        losses.append(loss.item())
        if update == 0:
            grad_norms = {n: float(params[n].grad.double().norm()) for n, _, _ in net.tensors() if n in params}
        optimizer.step()
    return losses, grad_norms, net


def describe_initial(tensors, grad_norms):
    """What tells a wrong initial value from a wrong gradient: sums in double in element order, and a few values."""
    rows = []
    for name, tensor in tensors:
        values = tensor.detach().numpy().reshape(-1)
        wide = values.astype(np.float64)
        picks = sorted({0, 1, 2, 3, len(values) // 2, len(values) - 1})
        row = {"name": name, "shape": list(tensor.shape), "sum": math.fsum(wide), "sum_squares": math.fsum(wide * wide),
               "values": {str(i): float(values[i]) for i in picks if i < len(values)}}
        if name in grad_norms:
            row["grad_norm"] = grad_norms[name]
        rows.append(row)
    return rows


def make(name, options):
    setup = {**COMMON, **NETWORKS[name]}
    model_file = f"tests/golden/{name}.ini"
    if not os.path.exists(os.path.join(ROOT, model_file)):
        model_file = f"configs/models/{name}.ini"
    net = Network(os.path.join(ROOT, model_file), (setup["input"], str(setup["classes"])))
    setup["input"] = list(net.shape)
    initialise(net, setup["seed"])
    raw = [batch_of(setup, net.shape, u) for u in range(UPDATES)]
    batches = [(torch.from_numpy(normalise(p, setup)), torch.tensor(l)) for p, l in raw]
    if options.reference:
        check_reference(options.reference, name, net, *batches[0])
    loss64, norms64, _ = train(net, batches, setup, torch.float64)
    loss32, norms32, _ = train(net, batches, setup, torch.float32)
    relative = [abs(a - b) / abs(b) for a, b in zip(loss32, loss64)]
    first_pixels, first_labels = raw[0]
    golden = {
        "about": f"scripts/make_golden.py {name}; PyTorch {torch.__version__.split('+')[0]}, CPU, {options.threads} thread(s). "
                 "Losses are means over the batch, before the update.",
        "network": name, "model_file": model_file, "input": list(net.shape), "updates": UPDATES, **setup,
        "data": {"first_label_counts": [first_labels.count(c) for c in range(setup["classes"])],
                 "first_labels": first_labels[:8],
                 "first_pixel_sum": int(first_pixels.astype(np.int64).sum()),
                 "first_pixels": [int(v) for v in first_pixels[0].reshape(-1)[:8]]},
        "loss_fp32": loss32, "loss_fp64": loss64, "relative_fp32_to_fp64": relative,
        "grad_norm_fp32": math.sqrt(sum(v * v for v in norms32.values())),
        "grad_norm_fp64": math.sqrt(sum(v * v for v in norms64.values())),
        "parameters": describe_initial([(n, t) for n, t, _ in net.tensors()], norms64),
    }
    write(name, golden, options)


def write(name, golden, options):
    path = os.path.join(options.out, name + ".json")
    with open(path, "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    loss, relative = golden["loss_fp64"], golden["relative_fp32_to_fp64"]
    print(f"{path}: loss {loss[0]:.4f} -> {loss[-1]:.4f}, fp32 differs by {max(relative[:10]):.1e} (first 10), {max(relative):.1e} (all)")


# Recipes -----------------------------------------------------------------------------------------------------------------

def weights_of(net):
    return [(n, t) for n, t in net.state_dict().items() if not n.endswith("num_batches_tracked")]


def initialise_recipe(net, recipe, seed, images):
    """Initial values as weight_init has them (src/model/graph.h, whiten.h); images: normalised, for whitening."""
    for index, (name, tensor) in enumerate(weights_of(net)):
        if ".norm" in name:
            continue  # as made
        fan_in = 12 if name == "whiten.bias" else tensor[0].numel()
        values = torch.from_numpy(uniform(seed, index, tensor.numel(), 1 / math.sqrt(fan_in))).reshape(tensor.shape)
        if name == "whiten.weight":
            values = airbench.whitening(images).float()
        elif name == "head.weight" and not recipe.legacy_init:
            values = (values.double() / values.double().std()).float()
        elif name == "whiten.bias" and recipe.legacy_init:
            values.zero_()
        elif values.dim() == 4:
            nn.init.dirac_(values[:values.size(1)])
        tensor.copy_(values)


def recipe_batches(recipe, pixels, labels, seed):
    """As Lockstep sees them with data.shuffle, flip = alternating, pad_mode = reflect, brightness, contrast and drop_last."""
    for epoch in range(math.ceil(recipe.epochs)):
        order = order_of(seed, epoch, len(labels))
        for first in range(0, len(order) - recipe.batch + 1, recipe.batch):
            which = order[first:first + recipe.batch]
            yield augmented(seed, epoch, which, pixels, recipe), torch.from_numpy(labels[which])


def recipe_losses(net, recipe, per_epoch, batches, dtype):
    """Losses, norm of the first gradient, and of batch norm's statistics at the end the sums of squares."""
    net = copy.deepcopy(net).to(dtype)
    run, losses, norm = airbench.Run(net, recipe, per_epoch), [], 0.0
    for images, labels in batches:
        losses.append(run.update(images.to(dtype), labels).item())
        if run.done == 1:
            norm = math.sqrt(sum(float(p.grad.double().square().sum()) for p in net.parameters() if p.grad is not None))
    return losses, norm, {n: float(t.double().square().sum()) for n, t in weights_of(net) if ".running_" in n}


def make_recipe(name, options):
    seed, full = RECIPES[name]["seed"], airbench.RECIPES[RECIPES[name].get("recipe", name)]
    rates = {key: getattr(full, key) * RECIPES[name]["rates"] for key in ("muon_rate", "bias_rate", "head_rate")}
    recipe = dataclasses.replace(full, batch=RECIPE_BATCH, **rates, **RECIPES[name]["changes"])
    pixels, labels = zip(*(sample(seed, i, 3 * 32 * 32, COMMON["classes"]) for i in range(RECIPE_SAMPLES)))
    pixels, labels = np.stack(pixels).reshape(-1, 3, 32, 32), np.array(labels)
    net = airbench.Network(recipe, RECIPE_WIDTHS)
    initialise_recipe(net, recipe, seed, airbench.normalised(torch.from_numpy(pixels[:recipe.whiten_images]), torch.float64))
    initial = describe_initial([(n, t.clone()) for n, t in weights_of(net)], {})
    per_epoch = RECIPE_SAMPLES // RECIPE_BATCH
    updates = math.ceil(recipe.epochs * per_epoch)
    batches = list(recipe_batches(recipe, pixels, labels, seed))[:updates]
    loss64, norm64, final64 = recipe_losses(net, recipe, per_epoch, batches, torch.float64)
    loss32, norm32, final32 = recipe_losses(net, recipe, per_epoch, batches, torch.float32)
    relative = [abs(a - b) / abs(b) for a, b in zip(loss32, loss64)]
    final = max(abs(final32[n] - v) / v for n, v in final64.items())
    if max(relative) > 2e-5 or final > 2e-4:
        sys.exit(f"make_golden.py: {name} with seed {seed}: fp32 parts from double by {max(relative):.1e}, "
                 f"in batch norm's statistics by {final:.1e}; another seed does better")
    write(name, {
        "about": f"scripts/make_golden.py {name}; PyTorch {torch.__version__.split('+')[0]}, CPU, {options.threads} thread(s). "
                 "Losses are means over the batch, before the update. Lockstep's configuration: the file of this name with .ini.",
        "recipe": dataclasses.asdict(recipe), "widths": RECIPE_WIDTHS, "samples": RECIPE_SAMPLES, "updates": updates, "seed": seed,
        "loss_fp32": loss32, "loss_fp64": loss64, "relative_fp32_to_fp64": relative,
        "grad_norm_fp32": norm32, "grad_norm_fp64": norm64, "parameters": initial, "final_sum_squares": final64,
    }, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=[*NETWORKS, *RECIPES])
    parser.add_argument("--reference", help="Python file with build(name), to compare the networks (not the recipes) with")
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "golden"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    check_philox()
    os.makedirs(options.out, exist_ok=True)
    for name in options.networks:
        if name in RECIPES:
            make_recipe(name, options)
        elif name in NETWORKS:
            make(name, options)
        else:
            sys.exit(f"make_golden.py: no '{name}'; one of {', '.join([*NETWORKS, *RECIPES])}")


if __name__ == "__main__":
    main()
