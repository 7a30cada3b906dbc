#!/usr/bin/env python3
"""Do other programs read our files and compute the same? Weights by Python's safetensors into PyTorch, exported models by ONNX's
checker and onnxruntime; logits are compared with those of `train predict --logits`, of int8 models with those of the int8 C file.

    python3 tests/real_readers/real_readers.py build/release/bin/train [lenet resnet9 resnet20 airbench94 every-layer every-integer]

Needs numpy, and of the --readers torch (with safetensors), onnx and onnxruntime what is there; what is missing is reported as
skipped (exit 77). A network is trained for some updates on synthetic pictures, so that weights and running statistics are no initial values.
"""
import argparse
import ctypes
import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1e-5  # of a logit, as a share of the largest one, or of 1
PICTURES = 19
LOWEST_SET = 11  # that is written
LIMIT_INT8 = 4  # steps of the logits' scale, because rounding differs (deploy/write_onnx.h)

EVERY_LAYER = """
[network]
input = 3x21x18
[stem]
layer = conv2d
out_channels = 8
kernel = 5
stride = 2
padding = 1
[norm]
layer = batchnorm2d
eps = 1e-3
[relu]
layer = relu
[oblong]
layer = conv2d
out_channels = 8
kernel = 3x5
stride = 1x1
padding = 1x2
[oblong.pool]
layer = maxpool2d
kernel = 3x1
stride = 1
padding = 1x0
[oblong.mean]
layer = avgpool2d
kernel = 1x3
stride = 1
padding = 0x1
[relu.two]
layer = relu
[grouped]
layer = conv2d
out_channels = 8
kernel = 3
padding = 2
dilation = 2
groups = 4
bias = false
[sum]
layer = add
inputs = grouped, relu.two
[max]
layer = maxpool2d
kernel = 3
stride = 2
padding = 1
[mean]
layer = avgpool2d
kernel = 2
stride = 1
padding = 1
[drop]
layer = dropout
p = 0.5
[all]
layer = globalavgpool
[top]
layer = globalmaxpool
inputs = drop
[both]
layer = add
inputs = all, top
[vector]
layer = flatten
inputs = all
[mixed]
layer = add
inputs = vector, both
[hidden]
layer = linear
out_features = 12
bias = false
[bend]
layer = gelu
[swish]
layer = silu
[leaky]
layer = leaky_relu
slope = 0.25
[elu]
layer = elu
[bend2]
layer = gelu_tanh
[hard]
layer = hardswish
[mish]
layer = mish
[soft]
layer = softplus
[six]
layer = relu6
[tanh]
layer = tanh
[hard2]
layer = hardsigmoid
[half]
layer = scale
factor = 0.5
[short]
layer = linear
inputs = top
out_features = 12
[join]
layer = add
inputs = half, short
[fewer]
layer = linear
out_features = 8
[gate]
layer = sigmoid
[gated]
layer = multiply
inputs = sum, gate
[wide]
layer = shortcut
out_channels = 13
[joined]
layer = concat
inputs = gated, sum, gated
[groups]
layer = groupnorm
groups = 6
[instances]
layer = groupnorm
groups = 24
affine = false
[pixels]
layer = layernorm
[factors]
layer = layerscale
value = 0.5
[dense1]
layer = conv2d
out_channels = 24
kernel = 1
matrix = true
[narrow]
layer = shortcut
out_channels = 24
stride = 2
[left]
layer = slice
inputs = narrow
channels = 12
[right]
layer = slice
inputs = narrow
from = 12
channels = 12
[turns]
layer = concat
inputs = left, right
interleave = true
[dense]
layer = concat
inputs = turns, wide
[adapted]
layer = avgpool2d
output = 3x2
[squeezed]
layer = globalmaxpool
[last]
layer = concat
inputs = join, squeezed, gate
[squared]
layer = multiply
inputs = last, last
[out]
layer = linear
out_features = 10
"""
# The same without layers that have no integer form, and with a depthwise convolution.
EVERY_INTEGER = re.sub(r"\[(groups|instances|adapted)\]\n(.+ = .+\n)+", "", EVERY_LAYER).replace(
    "layer = layernorm", "layer = conv2d\nout_channels = 24\nkernel = 3\npadding = 1\ngroups = 24")
NETWORKS = {  # shape; file, or text
    "lenet": ("1x28x28", "configs/models/lenet.ini"),
    "resnet9": ("3x32x32", "configs/models/resnet9.ini"),
    "resnet20": ("3x32x32", "configs/models/resnet20.ini"),
    "airbench94": ("3x32x32", "configs/models/airbench94.ini"),
    "every-layer": ("3x21x18", EVERY_LAYER),
    "every-integer": ("3x21x18", EVERY_INTEGER),
}

READERS = {"torch": ("torch", "safetensors"), "onnx": ("onnx",), "onnxruntime": ("onnxruntime",)}  # modules


def has(*modules):
    """All of them can be imported; else says which cannot."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"skipped: {error}")
            return False
    return True


def write_png(path, pixels):
    """pixels: uint8 (channels, height, width), 1 or 3 channels."""
    channels, height, width = pixels.shape
    rows = pixels.transpose(1, 2, 0).reshape(height, width * channels)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


class Case:
    """A trained network, pictures, and our logits of them."""

    def __init__(self, train, name, folder):
        shape, network = NETWORKS[name]
        self.name, self.train = name, train
        self.weights = os.path.join(folder, "run", "weights.safetensors")
        if "\n" in network:
            text, network = network, os.path.join(folder, "network.ini")
            with open(network, "w") as file:
                file.write(text)
        config = os.path.join(folder, "config.ini")
        with open(config, "w") as file:
            file.write(f"[data]\ndataset = synthetic\nshape = {shape}\nclasses = 10\ntrain_samples = 320\ntest_samples = 16\n"
                       f"[model]\nfile = {os.path.join(ROOT, network)}\n[train]\nepochs = 1\nglobal_batch = 32\n"
                       "[optimizer]\nlr = 0.01\n")
        run(train, config, "--quiet", "--set", "device.type=cpu", "--run-dir", os.path.join(folder, "run"))
        channels, height, width = map(int, shape.split("x"))
        self.pixels = np.random.default_rng(7).integers(0, 256, (PICTURES, channels, height, width), np.uint8)
        paths = [os.path.join(folder, f"{i}.png") for i in range(PICTURES)]
        for path, pixels in zip(paths, self.pixels):
            write_png(path, pixels)
        lines = run(train, "predict", "--quiet", "--logits", "--set", "device.type=cpu", self.weights, *paths).splitlines()
        self.logits = np.array([[float(v) for v in line.split("\t")[1:]] for line in lines], np.float32)
        assert [line.split("\t")[0] for line in lines] == paths

    def compare(self, reader, logits):
        assert logits.shape == self.logits.shape, (logits.shape, self.logits.shape)
        difference, largest = float(np.abs(logits - self.logits).max()), float(np.abs(self.logits).max())
        good = difference <= LIMIT * max(1.0, largest)
        print(f"{'ok' if good else 'FAILED'}  {self.name}, {reader}: logits differ by {difference:.2g} at most, the largest is "
              f"{largest:.3g}")
        return good

    def by_pytorch(self):
        import safetensors
        import torch
        from safetensors.torch import load_file
        spec = importlib.util.spec_from_file_location("models", os.path.join(ROOT, "bench", "peers", "models.py"))
        models = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(models)
        model = models.build(self.name)
        model.load_state_dict(load_file(self.weights))  # strict: every name and shape must be there
        model.eval()
        with safetensors.safe_open(self.weights, "pt") as file:
            notes = file.metadata()
        assert notes["format"] == "pt" and len(json.loads(notes["lockstep.classes"])) == 10
        mean, std = (torch.tensor([float(v) for v in notes[key].split(",")]).view(1, -1, 1, 1)
                     for key in ("lockstep.mean", "lockstep.std"))
        with torch.no_grad():
            logits = model((torch.from_numpy(self.pixels).float() / 255 - mean) / std).numpy()
        return self.compare(f"safetensors {safetensors.__version__} and PyTorch {torch.__version__}", logits)

    def export(self, *options):
        path = self.weights.replace(".safetensors", ".onnx")
        run(self.train, "export", "--quiet", os.path.dirname(self.weights), path, *options)
        return path

    def by_checker(self, *options):
        import onnx
        model = onnx.load(self.export(*options))
        onnx.checker.check_model(model, full_check=True)  # infers shapes, too
        opset, lower = model.opset_import[0].version, []
        for model.opset_import[0].version in range(LOWEST_SET, opset):
            try:
                onnx.checker.check_model(model)
                lower.append(model.opset_import[0].version)
            except onnx.checker.ValidationError:
                pass
        model.opset_import[0].version = opset
        classes = {prop.key: prop.value for prop in model.metadata_props}["classes"]
        good = json.loads(classes) == [str(i) for i in range(10)] and model.graph.input[0].name == "input"
        good &= not lower and model.ir_version == onnx.helper.find_min_ir_version_for(list(model.opset_import))
        print(f"{'ok' if good else 'FAILED'}  {self.name}{''.join(options)}, ONNX {onnx.__version__}: checked, {len(model.graph.node)} nodes, "
              f"operator set {opset}, IR {model.ir_version}; lower sets that would do: {lower or 'none'}")
        return good

    def by_onnxruntime(self):
        import onnxruntime
        session = onnxruntime.InferenceSession(self.export(), providers=["CPUExecutionProvider"])
        pixels = self.pixels.astype(np.float32)
        good = True
        for batch in (PICTURES, 1):  # the batch is of any size
            logits = np.concatenate([session.run(None, {"input": pixels[i:i + batch]})[0] for i in range(0, PICTURES, batch)])
            good &= self.compare(f"onnxruntime {onnxruntime.__version__} in batches of {batch}", logits)
        return good

    def logits_in_c(self):
        """The logits of the int8 C file, which are those of `train eval --int8`, and their scale."""
        source, library = self.weights.replace(".safetensors", ".c"), self.weights.replace(".safetensors", ".so")
        run(self.train, "export", "--quiet", os.path.dirname(self.weights), source, "--int8", "--name", "net")
        run("gcc", "-O2", "-shared", "-fPIC", source, "-o", library, "-lm")
        predict, logits = ctypes.CDLL(library).net_predict, np.zeros_like(self.logits)
        for pixels, to in zip(np.ascontiguousarray(self.pixels), logits):
            predict(pixels.ctypes.data_as(ctypes.c_void_p), to.ctypes.data_as(ctypes.c_void_p))
        return logits, np.diff(np.unique(logits)).min()

    def by_onnxruntime_int8(self):
        import onnxruntime
        wanted, scale = self.logits_in_c()
        good = True
        for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
            # without it, sums of two products saturate at 16 bits on processors without VNNI
            options.add_session_config_entry("session.x64quantprecision", "1")
            session = onnxruntime.InferenceSession(self.export("--int8"), options, providers=["CPUExecutionProvider"])
            logits, = session.run(None, {"input": self.pixels.astype(np.float32)})
            steps = np.abs(logits - wanted).max() / scale
            first, second = np.sort(wanted)[:, [-1, -2]].T
            differs = logits.argmax(1) != wanted.argmax(1)
            clear = first - second > 2.5 * scale  # rounding may swap classes that are nearly equal
            fits = bool(steps <= LIMIT_INT8 and not (differs & clear).any())
            good &= fits
            print(f"{'ok' if fits else 'FAILED'}  {self.name} --int8, onnxruntime {onnxruntime.__version__}, {level}: logits differ by "
                  f"{steps:.1f} of {(wanted.max() - wanted.min()) / scale:.0f} steps at most; the classes of {PICTURES} pictures: "
                  f"{int(differs.sum())} differ")
        return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("networks", nargs="*", default=[], help="of " + " ".join(NETWORKS))
    parser.add_argument("--readers", nargs="+", choices=READERS, default=list(READERS), help="those that must be there")
    options = parser.parse_args()
    there = {reader: has(*READERS[reader]) for reader in options.readers}
    compiles = shutil.which("gcc") is not None
    if not compiles:
        print("skipped: no gcc, so no int8 logits to compare with")
    good = True
    for name in options.networks or NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            case = Case(os.path.abspath(options.train), name, folder)
            if there.get("torch") and not name.startswith("every-"):
                good &= case.by_pytorch()
            if there.get("onnx"):
                good &= case.by_checker()
            if there.get("onnxruntime"):
                good &= case.by_onnxruntime()
            if name == "every-layer":  # has no integer form
                continue
            if there.get("onnx"):
                good &= case.by_checker("--int8")
            if there.get("onnxruntime") and compiles:
                good &= case.by_onnxruntime_int8()
    return 1 if not good else 0 if compiles and all(there.values()) else 77


if __name__ == "__main__":
    try:
        import numpy as np
    except ImportError as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(main())
