#!/usr/bin/env python3
"""Do the shipped networks take torchvision's weights, and compute the same?

    PYTHON tests/real_readers/known_networks.py TRAIN [NAME...] [--side 64] [--updates 10 --rate 0.001] [--out FILE.md]
    PYTHON tests/real_readers/known_networks.py --record        rows for tests/model/known_networks.def

For each network, torchvision's module gets random weights and running estimates. It is saved as safetensors, with its own names and its
own num_batches_tracked. Lockstep starts from it through model.init, without rules:

- a run with rate 0 and stored statistics must save the same tensors, bit by bit, and `train predict --logits` must give the module's
  logits in double, within 1e-4 of their largest;
- one update (rate 1, no momentum, no decay, dropout and stochastic depth off) must have the module's loss in double within 1e-5, and its
  gradient within a hundredth of its length, or within five times the distance of the module in fp32. Where 0 and the input of a relu,
  or two maxima of a window, are equal to rounding, any fp32 run may take the other side.

With --updates there are two more columns: the worst difference of a loss of as many updates of one batch from those of the module in
double, relative to it, and that of the module in fp32. They have no bar.

wrn-* stand in bench/peers/models.py. Needs PyTorch, torchvision,
safetensors and NumPy; exits 77 without them.
"""
import argparse
import copy
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torchvision
    from safetensors.torch import load_file, save_file
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "bench/peers")]
import make_golden as golden  # noqa: E402
import models  # noqa: E402

CLASSES, PICTURES, BATCH, MEAN, STD = 10, 2, 8, 0.5, 0.25
CIFAR = ("wrn-16-4", "wrn-28-10")
SIDES = {"wrn-16-4": 32, "wrn-28-10": 32, "vgg11_bn": 224}  # of pictures, instead of --side
NETWORKS = ("resnet18", "resnet34", "resnet50", "wide_resnet50_2", "vgg11_bn", "squeezenet1_1", "densenet121", "mobilenet_v2",
            "mobilenet_v3_small", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "shufflenet_v2_x1_0") + CIFAR


def build(name):
    torch.manual_seed(1)
    net = models.build(name)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
    return net


def tensors_of(net):
    return {name: tensor for name, tensor in net.state_dict().items() if not name.endswith("num_batches_tracked")}


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def record():
    """Rows X(name, tensors, trained parameters, sum of the hashes of "NAME 64x3x7x7")"""
    for name in NETWORKS:
        net = build(name)
        tensors = tensors_of(net)
        total = sum(fnv(f"{n} {'x'.join(map(str, t.shape))}") for n, t in tensors.items()) & 0xFFFFFFFFFFFFFFFF
        print(f"X(\"{name}\", {len(tensors)}, {sum(p.numel() for p in net.parameters())}, 0x{total:016x})")


def write_files(folder, name, net, side):
    """The module's weights, the network without dropout, a configuration"""
    save_file(net.state_dict(), os.path.join(folder, "weights.safetensors"))
    with open(os.path.join(ROOT, "configs", "models", name + ".ini")) as file:
        text = re.sub(r"(layer = (?:dropout|dropout2d|droppath)\n)(?:(?:p|inputs) = .*\n)*", lambda m: m[0] if "$" in m[0] else
                      re.sub(r"p = .*\n", "", m[0]) + "p = 0\n", file.read())
        text = re.sub(r"(?m)^drop = .+$", "drop = 0", text)
    with open(os.path.join(folder, "network.ini"), "w") as file:
        file.write(text)
    with open(os.path.join(folder, "config.ini"), "w") as file:
        file.write(f"""[run]
seed = 1
[data]
dataset = synthetic
shape = 3x{side}x{side}
classes = {CLASSES}
train_samples = {BATCH}
test_samples = {BATCH}
mean = {MEAN}, {MEAN}, {MEAN}
std = {STD}, {STD}, {STD}
shuffle = false
[model]
file = network.ini
init = weights.safetensors
[train]
epochs = 1
global_batch = {BATCH}
micro_batch = {BATCH}
[optimizer]
kind = sgd
lr = 1
momentum = 0
weight_decay = 0
[device]
type = cpu
[log]
every = 1
""")


def lockstep(options, *arguments):
    done = subprocess.run([options.train, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(f"train {arguments[0]}: exit {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def compare_logits(folder, net, side, options):
    """The worst difference of a logit, relative to the largest"""
    config, run = os.path.join(folder, "config.ini"), os.path.join(folder, "same")
    norms = ["--set", "train.stored_statistics=*"] if any(isinstance(m, nn.BatchNorm2d) for m in net.modules()) else []
    lockstep(options, config, "--quiet", "--run-dir", run, "--set", "optimizer.lr=0", *norms)
    saved = load_file(os.path.join(run, "weights.safetensors"))
    for name, tensor in tensors_of(net).items():
        if not torch.equal(saved[name], tensor):
            raise RuntimeError(f"{name} is not the module's after a run without a rate")
    pixels = np.random.default_rng(1).integers(0, 256, (PICTURES, side, side, 3), dtype=np.uint8)
    names = []
    for i, picture in enumerate(pixels):
        names.append(os.path.join(folder, f"{i}.ppm"))
        with open(names[-1], "wb") as file:
            file.write(b"P6\n%d %d\n255\n" % (side, side) + picture.tobytes())
    lines = lockstep(options, "predict", "--quiet", "--logits", run, *names).splitlines()
    ours = torch.tensor([[float(v) for v in line.split("\t")[1:]] for line in lines], dtype=torch.float64)
    images = torch.from_numpy(golden.normalise(pixels, {"mean": MEAN, "std": STD}).transpose(0, 3, 1, 2).copy()).double()
    with torch.no_grad():
        theirs = copy.deepcopy(net).double().eval()(images)
    return float((ours - theirs).abs().max() / theirs.abs().max())


def loss_of(net, dtype, side):
    """The loss of the first batch"""
    pixels, labels = golden.batch_of({"batch": BATCH, "seed": 1, "classes": CLASSES}, (3, side, side), 0)
    images = torch.from_numpy(golden.normalise(pixels, {"mean": MEAN, "std": STD})).to(dtype)
    return F.cross_entropy(net(images), torch.tensor(labels))


def backward(net, dtype, side):
    """The loss of the first batch in training, and its gradient as one vector in double"""
    net = copy.deepcopy(net).to(dtype).train()
    loss = loss_of(net, dtype, side)
    loss.backward()
    return loss.item(), torch.cat([p.grad.double().flatten() for p in net.parameters()])


def losses(net, dtype, side, options):
    net = copy.deepcopy(net).to(dtype).train()
    optimizer, seen = torch.optim.SGD(net.parameters(), options.rate), []
    for _ in range(options.updates):
        optimizer.zero_grad()
        loss = loss_of(net, dtype, side)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def update(folder, name, options, *sets):
    """The run's folder, and the losses of its updates"""
    run = os.path.join(folder, name)
    lockstep(options, os.path.join(folder, "config.ini"), "--quiet", "--run-dir", run, *(word for s in sets for word in ("--set", s)))
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return run, [e["train_loss"] for e in map(json.loads, file) if e["event"] == "train"]


def compare_losses(folder, net, side, options):
    """The worst relative distances from the losses of the module in double: Lockstep's, and those of the module in fp32"""
    _, ours = update(folder, "updates", options, f"train.epochs={options.updates}", f"optimizer.lr={options.rate}")
    exact, single = (losses(net, dtype, side, options) for dtype in (torch.float64, torch.float32))
    if len(ours) != len(exact):
        raise RuntimeError(f"{len(ours)} losses of {len(exact)} updates")
    return tuple(max(abs(a - b) / b for a, b in zip(seen, exact)) for seen in (ours, single))


def compare_update(folder, net, side, options):
    """Relative distances from the module in double: Lockstep's loss and gradient, and the gradient of the module in fp32"""
    run, (loss,) = update(folder, "update", options)
    saved = load_file(os.path.join(run, "weights.safetensors"))
    ours = torch.cat([(p.detach().double() - saved[n].double()).flatten() for n, p in net.named_parameters()])
    (exact, gradient), (_, single) = (backward(net, dtype, side) for dtype in (torch.float64, torch.float32))
    length = gradient.norm()
    return abs(loss - exact) / exact, float((ours - gradient).norm() / length), float((single - gradient).norm() / length)


def check(name, options):
    side, net = SIDES.get(name, options.side), build(name)
    with tempfile.TemporaryDirectory() as folder:
        write_files(folder, name, net, side)
        logits = compare_logits(folder, net, side, options)
        loss, ours, single = compare_update(folder, net, side, options)
        more = compare_losses(folder, net, side, options) if options.updates else ()
    good = logits < 1e-4 and loss < 1e-5 and ours < max(1e-2, 5 * single)
    row = (f"| {name} | {side} | {len(tensors_of(net))} | {sum(p.numel() for p in net.parameters()):,} | {logits:.1e} | {loss:.1e} | "
           f"{ours:.1e} | {single:.1e} |" + "".join(f" {value:.1e} |" for value in more))
    print(row, "" if good else "FAILED", flush=True)
    return good, row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", nargs="?")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--updates", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.001)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.record:
        return record()
    options.train = os.path.abspath(options.train)
    shipped = [n for n in NETWORKS if os.path.exists(os.path.join(ROOT, "configs", "models", n + ".ini"))]
    bad, rows = [], []
    for name in options.names or shipped:
        try:
            good, row = check(name, options)
            rows.append(row)
        except RuntimeError as problem:
            good = print(f"{name}: FAILED: {problem}", flush=True)
        bad += [] if good else [name]
    print(f"{len(rows)} networks compared with torchvision {torchvision.__version__}, PyTorch {torch.__version__}"
          + (f"; FAILED: {', '.join(bad)}" if bad else ""))
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(rows) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
