#!/usr/bin/env python3
"""Seconds that a reference network takes for a batch of pictures, forward only, in PyTorch or onnxruntime.

  latency.py --model resnet20 --batch 1 --threads 2          PyTorch, eager, inference mode
  latency.py --model resnet20 --onnx FILE.onnx ...           onnxruntime, of what `train export` has written

Prints one line of JSON: the median over the batches that fit into --seconds, and the seconds from process start to the first result.
"""
import argparse
import json
import os
import statistics
import time

ap = argparse.ArgumentParser(description="latency of a network's forward pass")
ap.add_argument("--model", required=True)
ap.add_argument("--onnx", help="run this file by onnxruntime instead")
ap.add_argument("--shape", default="3x32x32", help="--onnx: of a picture")
ap.add_argument("--batch", type=int, default=1)
ap.add_argument("--threads", type=int, default=1)
ap.add_argument("--seconds", type=float, default=1.0)
a = ap.parse_args()


def since_process_start():
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def of_torch():
    import torch
    from models import INPUT, build
    torch.set_num_threads(a.threads)
    net, pictures = build(a.model).eval(), torch.rand(a.batch, *INPUT[a.model])

    def run():
        with torch.inference_mode():
            return net(pictures)
    return run, f"torch {torch.__version__}"


def of_onnxruntime():
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    session = onnxruntime.InferenceSession(a.onnx, options, providers=["CPUExecutionProvider"])
    pictures = {session.get_inputs()[0].name: numpy.random.rand(a.batch, *map(int, a.shape.split("x"))).astype("float32")}
    return lambda: session.run(None, pictures), f"onnxruntime {onnxruntime.__version__}"


run, version = of_onnxruntime() if a.onnx else of_torch()
run()
first = since_process_start()
for _ in range(5):
    run()
times, end = [], time.perf_counter() + a.seconds
while time.perf_counter() < end:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
print(json.dumps({"seconds": statistics.median(times), "first_s": first, "version": version}))
