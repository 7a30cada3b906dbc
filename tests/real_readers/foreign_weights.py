#!/usr/bin/env python3
"""Do weights that PyTorch has trained give PyTorch's own count of right answers in `train eval`?

    PYTHON tests/real_readers/foreign_weights.py TRAIN [--data FOLDER] [--pictures 100] [--test 100] [--epochs 1] [--out FILE.md]

ResNet-20 with option A shortcuts and the names of akamaster/pytorch_resnet_cifar10, whose published weights are the most used ones, is
trained a little by PyTorch, and saved as that program does, under `state_dict` with `module.` before all names.
scripts/torch_to_safetensors.py makes a .safetensors file of it, model.init_rules rename it. FOLDER holds cifar-10-batches-bin; without
it both are given noise with a pattern a class. Needs PyTorch and NumPy; exits 77 without them.
"""
import argparse
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
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # akamaster's
RULES = ("conv1.* -> stem.conv.*; bn1.* -> stem.bn.*; layer*.*.conv1.* -> stage*.*.a.conv.*; layer*.*.bn1.* -> stage*.*.a.bn.*; "
         "layer*.*.conv2.* -> stage*.*.b.conv.*; layer*.*.bn2.* -> stage*.*.b.bn.*; linear.* -> head.*")


class Block(nn.Module):
    def __init__(self, before, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.added, self.stride = channels - before, stride

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.added or self.stride > 1:
            x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, self.added // 2, self.added // 2))
        return F.relu(out + x)


class ResNet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        before = 16
        for stage, channels in ((1, 16), (2, 32), (3, 64)):
            blocks = [Block(before if b == 0 else channels, channels, 2 if stage > 1 and b == 0 else 1) for b in range(3)]
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
            before = channels
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        return self.linear(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


def network_file():
    text = "[network]\ninput = 3x32x32\n"

    def conv(name, channels, stride, source=""):
        return (f"[{name}.conv]\nlayer = conv2d\nout_channels = {channels}\nkernel = 3\nstride = {stride}\npadding = 1\nbias = false\n{source}"
                f"[{name}.bn]\nlayer = batchnorm2d\n")
    text += conv("stem", 16, 1) + "[stem.relu]\nlayer = relu\n"
    last = "stem.relu"
    for stage, channels in ((1, 16), (2, 32), (3, 64)):
        for b in range(3):
            name, short, stride = f"stage{stage}.{b}", last, 2 if stage > 1 and b == 0 else 1
            if stride > 1:
                short = f"{name}.short"
                text += f"[{short}]\nlayer = shortcut\nout_channels = {channels}\ninputs = {last}\n"
            text += conv(f"{name}.a", channels, stride, f"inputs = {last}\n") + f"[{name}.a.relu]\nlayer = relu\n"
            text += conv(f"{name}.b", channels, 1)
            last = f"{name}.relu"
            text += f"[{name}.add]\nlayer = add\ninputs = {name}.b.bn, {short}\n[{last}]\nlayer = relu\n"
    return text + "[pool]\nlayer = globalavgpool\n[flat]\nlayer = flatten\n[head]\nlayer = linear\nout_features = 10\n"


def made_records(count, seed):
    """Noise with a pattern a class, as records of CIFAR-10's binary files."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    patterns = np.random.default_rng(1).integers(0, 256, (10, 3, 4, 4)).repeat(8, 2).repeat(8, 3)
    pixels = (random.integers(0, 256, (count, 3, 32, 32)) * 3 + patterns[labels]) // 4
    return np.concatenate([labels[:, None].astype(np.uint8), pixels.astype(np.uint8).reshape(count, -1)], 1)


def write_records(folder, options):
    """Training and test records, of FOLDER or made; for `train` they lie in the folder as CIFAR-10's files."""
    os.makedirs(folder)
    if options.data:
        read = lambda name: np.fromfile(os.path.join(options.data, "cifar-10-batches-bin", name), np.uint8).reshape(-1, 3073)
        train = np.concatenate([read(f"data_batch_{i}.bin") for i in range(1, 6)])[:options.pictures]
        test = read("test_batch.bin")[:options.test]
    else:
        train, test = made_records(options.pictures, 1), made_records(options.test, 2)
    for i, part in enumerate(np.array_split(train, 5)):
        part.tofile(os.path.join(folder, f"data_batch_{i + 1}.bin"))
    test.tofile(os.path.join(folder, "test_batch.bin"))
    return train, test


def tensors(records):
    pixels = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float64) / 255)
    mean, std = (torch.tensor(v, dtype=torch.float32).double().view(1, 3, 1, 1) for v in (MEAN, STD))
    return ((pixels - mean) / std).float(), torch.from_numpy(records[:, 0].astype(np.int64))


def train_here(records, epochs):
    torch.manual_seed(1)
    net = ResNet20().train()
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    for epoch in range(epochs):
        for batch in torch.from_numpy(np.random.default_rng(epoch).permutation(len(records))).split(20):
            images, labels = tensors(records[batch.numpy()])
            optimizer.zero_grad()
            F.cross_entropy(net(images), labels).backward()
            optimizer.step()
    return net.eval()


def count_here(net, records):
    right, loss, margin = 0, 0.0, float("inf")
    with torch.no_grad():
        for at in range(0, len(records), 500):
            images, labels = tensors(records[at:at + 500])
            logits = net(images)
            right += int((logits.argmax(1) == labels).sum())
            loss += float(F.cross_entropy(logits.double(), labels, reduction="sum"))
            two = logits.topk(2, 1).values
            margin = min(margin, float((two[:, 0] - two[:, 1]).min()))
    return right, loss / len(records), margin


def count_there(options, folder):
    config = os.path.join(folder, "config.ini")
    with open(os.path.join(folder, "network.ini"), "w") as file:
        file.write(network_file())
    with open(config, "w") as file:
        file.write(f"[data]\ndataset = cifar10\npath = records\nmean = {', '.join(map(str, MEAN))}\nstd = {', '.join(map(str, STD))}\n"
                   f"[model]\nfile = network.ini\ninit = weights.safetensors\ninit_rules = {RULES}\n"
                   "[device]\ntype = cpu\n")
    done = subprocess.run([options.train, "eval", config, "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED  train eval: exit {done.returncode}: {done.stderr}")
    number = lambda name: float(re.search(rf"{name} (\S+)", done.stdout).group(1))
    return round(number("test_accuracy") * options.test), number("test_loss")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--data")
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out")
    options = parser.parse_args()
    options.train = os.path.abspath(options.train)
    with tempfile.TemporaryDirectory() as folder:
        train, test = write_records(os.path.join(folder, "records"), options)
        net = train_here(train, options.epochs)
        right, loss, margin = count_here(net, test)
        checkpoint = os.path.join(folder, "weights.th")
        torch.save({"state_dict": {"module." + k: v for k, v in net.state_dict().items()}, "best_prec1": 100 * right / len(test)}, checkpoint)
        subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "torch_to_safetensors.py"), checkpoint,
                        os.path.join(folder, "weights.safetensors")], check=True, stdout=subprocess.DEVNULL)
        ours, our_loss = count_there(options, folder)
    good = ours == right and abs(our_loss - loss) < 1e-5 * max(1, loss)
    text = (f"{'ok' if good else 'FAILED'}  ResNet-20 with option A, {options.epochs} epoch{'s' if options.epochs > 1 else ''} of "
            f"{options.pictures} {'CIFAR-10' if options.data else 'made'} pictures in PyTorch {torch.__version__.split('+')[0]}: right of "
            f"{len(test)}: PyTorch {right}, train eval {ours}; loss {loss:.6f} and {our_loss:.6f}; the closest two logits are {margin:.2g} apart")
    print(text)
    if options.out:
        with open(options.out, "w") as file:
            file.write(text + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
