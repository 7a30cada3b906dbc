#!/usr/bin/env python3
"""Makes tests/golden/trivial-augment.json: what torchvision's TrivialAugmentWide makes of three pictures, for
tests/device/test_trivial_augment.c to be compared with.

    python3 scripts/make_trivial_golden.py [--out tests/golden/trivial-augment.json]

The pictures follow from a formula, and of each result the file has the 32-bit FNV-1a hash: for each kind of change, one hash for each
strength, from -30 to 30 if the change has a sign, else from 0 to 30. Needs torch and torchvision (made with 0.29); the test needs neither.
"""
import argparse
import json
import os

import numpy as np
import torch
from torchvision.transforms import InterpolationMode, autoaugment

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHAPES = ((3, 32, 32), (1, 28, 28), (3, 33, 47))
BINS = 31


def picture(channels, height, width):
    i = np.arange(height * width, dtype=np.int64)
    planes = [20 + (i * i * 7 + i * 13 + c * 5) % (200 - 40 * c) for c in range(channels)]
    return np.stack(planes).reshape(channels, height, width).astype(np.uint8)


def fnv(pixels):
    value = 0x811C9DC5
    for byte in pixels.tobytes():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def changed(pixels, kind, magnitude):
    tensor = torch.from_numpy(pixels)
    return autoaugment._apply_op(tensor, kind, magnitude, InterpolationMode.NEAREST, None).numpy()


def hashes(pixels, kind, magnitudes, has_sign):
    row = []
    for strength in range(1 - BINS if has_sign else 0, BINS):
        size = float(magnitudes[abs(strength)]) if magnitudes.ndim else 0.0
        row.append(fnv(changed(pixels, kind, -size if strength < 0 else size)))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "tests", "golden", "trivial-augment.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    space = autoaugment.TrivialAugmentWide()._augmentation_space(BINS)
    rows = [{"shape": list(shape), "kinds": list(space), "hashes": [hashes(picture(*shape), kind, *space[kind]) for kind in space]}
            for shape in SHAPES]
    with open(args.out, "w", encoding="utf-8") as file:
        file.write(",\n".join(json.dumps(row) for row in rows).join(("[\n", "\n]\n")))


if __name__ == "__main__":
    main()
