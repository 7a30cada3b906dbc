#!/usr/bin/env python3
"""Makes a .safetensors file of a PyTorch checkpoint (.pt, .pth, .th), for model.init or `train eval`.

    python3 scripts/torch_to_safetensors.py resnet20.th resnet20.safetensors

Takes a state_dict, also one that lies under `state_dict`, `model`, `model_state_dict` or `net` beside an optimizer's state, and takes
`module.` (DataParallel) and `_orig_mod.` (torch.compile) away from the beginning of names. Tensors keep their type; counters
(num_batches_tracked) and what is no tensor are left out. Needs PyTorch; nothing in the file is executed (weights_only).
"""
import argparse
import ctypes
import json
import os
import struct
import sys

FOLDERS = ("state_dict", "model", "model_state_dict", "net")
PREFIXES = ("module.", "_orig_mod.")


def find_tensors(torch, tree, path):
    """The state_dict: a dictionary in which tensors stand under their names."""
    for key in FOLDERS:
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    tensors = {k: v for k, v in tree.items() if isinstance(v, torch.Tensor)} if isinstance(tree, dict) else {}
    if not tensors:
        keys = ", ".join(map(str, list(tree)[:8])) if isinstance(tree, dict) else type(tree).__name__
        sys.exit(f"{path}: no state_dict, neither itself nor under {', '.join(FOLDERS)}; it has: {keys}")
    return tensors


def short_name(name):
    for prefix in PREFIXES * 2:
        name = name.removeprefix(prefix)
    return name


def write(torch, path, tensors):
    types = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64"}
    header, parts, at = {"__metadata__": {"format": "pt"}}, [], 0
    # Larger elements first, so that each tensor begins at a multiple of its own.
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        if tensor.dtype not in types:
            print(f"left out: {name}, {tensor.dtype}")
            continue
        tensor = tensor.detach().cpu().contiguous()
        parts.append(ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b"")
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
        print(f"{name:40} {types[tensor.dtype]:4} {'x'.join(map(str, tensor.shape))}")
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    options = parser.parse_args()
    if os.path.exists(options.out):
        sys.exit(f"{options.out}: is there already: name another file")
    try:
        import torch
    except ImportError:
        sys.exit("needs PyTorch: python3 -m pip install torch, or run it where the checkpoint was made")
    try:
        tree = torch.load(options.checkpoint, map_location="cpu", weights_only=True)
    except Exception as error: # of several kinds, by the file's
        sys.exit(f"{options.checkpoint}: {str(error).splitlines()[0]}; save model.state_dict() where the model was made")
    tensors = {}
    for name, tensor in find_tensors(torch, tree, options.checkpoint).items():
        if name.endswith("num_batches_tracked"):
            continue
        if short_name(name) in tensors:
            sys.exit(f"{options.checkpoint}: two tensors are called {short_name(name)} without {' and '.join(PREFIXES)}")
        tensors[short_name(name)] = tensor
    write(torch, options.out, tensors)


if __name__ == "__main__":
    main()
