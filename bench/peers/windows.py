"""Timed windows of training in PyTorch, for peers that a comparison keeps running: a peer says "ready" once it is warm, then runs one
window for each line of standard input and answers with one line of JSON."""
import json
import os
import sys
import time

import torch


def since_process_start():
    """Seconds since this process started, imports included."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def sync(device):
    if device == "cuda":
        torch.cuda.synchronize()


def window(run, steps, batch, device):
    """Images/s of `steps` updates of `batch` samples: by the device's events, and by the host's clock."""
    sync(device)
    began = time.perf_counter()
    if device == "cuda":
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        run(steps)
        last.record()
    else:
        run(steps)
    sync(device)
    host = time.perf_counter() - began
    on_device = first.elapsed_time(last) / 1e3 if device == "cuda" else host
    return steps * batch / on_device, steps * batch / host


def capture(step):
    """One CUDA graph of step(), which has run before."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def serve(report):
    """Answers each line of standard input with report(), until the input ends."""
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(report()), flush=True)
