#!/usr/bin/env python3
"""Makes tests/golden/init.json: initial values by weight_init, for tests/model/test_init.c to be compared with.

    python3 scripts/make_golden_init.py [--cifar10 FOLDER]

Random words come from make_golden.py's second generator, the rest from PyTorch and NumPy in double: dirac_, std, eigh. Needs both; the
test needs neither. --cifar10 names a folder of data_batch_1.bin, and prints the filters of its first 5000 pictures instead.
"""
import argparse
import json
import math
import os

import numpy as np
import torch

from make_golden import PURPOSE_SYNTHETIC, ROOT, check_philox, he_normal, uniform, words

SEED = 5
CASES = [ # name, input, section of the layer [x], shape of its weight
    ("dirac", "2x4x4", "layer = conv2d\nout_channels = 5\nkernel = 3\nweight_init = dirac\n", (5, 2, 3, 3)),
    ("dirac in groups", "4x4x4", "layer = conv2d\nout_channels = 6\nkernel = 2\ngroups = 2\nweight_init = dirac\n", (6, 2, 2, 2)),
    ("dirac, fewer filters than channels", "4x4x4", "layer = conv2d\nout_channels = 3\nkernel = 1\nweight_init = dirac\n", (3, 4, 1, 1)),
    ("he-normal", "3x4x4", "layer = conv2d\nout_channels = 4\nkernel = 3\nweight_init = he-normal\n", (4, 3, 3, 3)),
    ("he-normal, odd count", "1x5x3", "layer = flatten\n[y]\nlayer = linear\nout_features = 7\nweight_init = he-normal\n", (7, 15)),
    ("unit-std", "2x4x4", "layer = flatten\n[y]\nlayer = linear\nout_features = 6\nweight_init = unit-std\n", (6, 32)),
    ("constant", "2x4x4", "layer = conv2d\nout_channels = 2\nkernel = 2\nweight_init = -0.3\n", (2, 2, 2, 2)),
]
WHITEN = {"shape": [3, 9, 11], "pictures": 30, "kernel": [2, 3], "mean": [0.45, 0.5, 0.55], "std": [0.2, 0.25, 0.3], "eps": 0.01,
          "out_channels": 25}


def values_of(name, section, shape):
    count, fan_in = math.prod(shape), math.prod(shape[1:])
    if name.startswith("he-normal"):
        return he_normal(SEED, 0, count, fan_in)
    if name == "constant":
        return np.full(count, -0.3)
    weight = torch.from_numpy(uniform(SEED, 0, count, 1 / math.sqrt(fan_in))).double().reshape(shape)
    if name == "unit-std":
        weight = weight / weight.std()
    else:
        groups = 2 if "groups" in section else 1
        for part in weight.chunk(groups):
            torch.nn.init.dirac_(part[:part.shape[1]])
    return weight.reshape(-1).numpy()


def pictures():
    """Noise that is smoothed unequally along columns, rows and channels, so that no two eigenvalues are close."""
    c, h, w = WHITEN["shape"]
    out = np.zeros((WHITEN["pictures"], c, h, w), np.uint8)
    for k, picture in enumerate(out):
        noise = words(SEED, PURPOSE_SYNTHETIC, 0, k, 0, c * h * w // 4 + 1).astype("<u4").view(np.uint8)[:c * h * w].reshape(c, h, w).astype(int)
        for z, y, x in np.ndindex(c, h, w):
            own = noise[z, y, x]
            left, up, below = (int(picture[at]) if min(at) >= 0 else own for at in ((z, y, x - 1), (z, y - 1, x), (z - 1, y, x)))
            picture[z, y, x] = (2 * own + 3 * left + 2 * up + below) // 8
    return out


def filters(images, mean, std, kernel, eps, out_channels):
    """As airbench94's init_whitening_conv, in double; and a sign for each eigenvector."""
    mean, std = (np.array(v, np.float32).astype(np.float64).reshape(1, -1, 1, 1) for v in (mean, std))
    x = torch.from_numpy((images.astype(np.float64) / 255 - mean) / std)
    h, w = kernel
    patches = x.unfold(2, h, 1).unfold(3, w, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, images.shape[1] * h * w)
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    values, vectors = values.flip(0).numpy(), vectors.T.flip(0).numpy().copy()
    for v in vectors:
        large = abs(v) >= abs(v).max() / 2
        assert (abs(abs(v) - abs(v).max() / 2) > 1e-4).all(), "a sign that rounding decides"
        v *= np.sign(v[large][0])
    gap = (-np.diff(values) / values[1:]).min()
    scaled = vectors / np.sqrt(values + eps)[:, None]
    return np.concatenate([scaled, -scaled])[:out_channels], values, gap


def cifar10(folder):
    records = np.fromfile(os.path.join(folder, "data_batch_1.bin"), np.uint8).reshape(-1, 3073)[:5000]
    weight, values, gap = filters(records[:, 1:].reshape(-1, 3, 32, 32), (.4914, .4822, .4465), (.2470, .2435, .2616), (2, 2), 5e-4, 24)
    print(json.dumps({"eigenvalues": values.tolist(), "gap": gap, "weight": weight.reshape(-1).tolist()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar10", metavar="FOLDER")
    options = parser.parse_args()
    if options.cifar10:
        return cifar10(options.cifar10)
    check_philox()
    digits = lambda array: [float(f"{v:.9g}") for v in array.reshape(-1)]
    weight, values, gap = filters(pictures(), WHITEN["mean"], WHITEN["std"], WHITEN["kernel"], WHITEN["eps"], WHITEN["out_channels"])
    assert gap > 0.01, gap
    golden = {
        "about": f"scripts/make_golden_init.py; PyTorch {torch.__version__.split('+')[0]}, NumPy {np.__version__}, in double",
        "seed": SEED,
        "cases": [{"name": name, "network": f"[network]\ninput = {size}\n[x]\n{section}", "values": digits(values_of(name, section, shape))}
                  for name, size, section, shape in CASES],
        "whiten": {**WHITEN, "pixel_sum": int(pictures().astype(int).sum()), "eigenvalues": digits(values), "values": digits(weight)},
    }
    path = os.path.join(ROOT, "tests", "golden", "init.json")
    with open(path, "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    print(f"{path}: eigenvalues differ by {gap:.3g} and more")


if __name__ == "__main__":
    main()
