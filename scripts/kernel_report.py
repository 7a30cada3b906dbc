#!/usr/bin/env python3
"""Registers and spills of every CUDA kernel, as ptxas reports them, held against the recorded figures.

  scripts/kernel_report.py [--nvcc PATH] [--update] [--only sm_70,sm_75]

Compiles each file of src/device/cuda/kernels for every architecture with warnings as errors. A kernel that spills, one that is not
in the record (tests/device/cuda/registers.txt), or one that needs more registers than recorded, fails the check: --update
renews the record, and the difference shows in the change that brings it. With another compiler than the record's, eight registers
more are allowed. With --only, another compiler looks at the architectures that it knows; of those that are not in the record, only
spills count.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "src/device/cuda/kernels"
RECORD = ROOT / "tests/device/cuda/registers.txt"
ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
OTHER_COMPILER = 8


def compile_file(nvcc, source, architecture):
    command = [nvcc, f"-arch={architecture}", "-std=c++17", "-O3", "-Werror=all-warnings", "-Xptxas=-v", f"-I{ROOT / 'src'}",
               "-c", str(source), "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{source.name} for {architecture}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def readable(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"c++filt: {done.stderr}")
    return done.stdout.splitlines()


def short(name):
    """sgd<float> of "void sgd<float>(sgd_constants, ...)"; namespaces and arguments say nothing here."""
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            return name[:at].replace(", ", ",")
    return name


def figures(text, file, architecture):
    """(file, kernel, architecture) -> (registers, spilled bytes)"""
    found, mangled, spills = [], None, 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)'", line):
            mangled, spills = match[1], 0
        elif match := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = int(match[1]) + int(match[2])
        elif (match := re.search(r"Used (\d+) registers", line)) and mangled:
            found.append((mangled, int(match[1]), spills))
            mangled = None
    names = readable([f[0] for f in found]) if found else []
    return {(file, short(n), architecture): (registers, spilled) for n, (_, registers, spilled) in zip(names, found)}


def version_of(nvcc):
    out = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    match = re.search(r"release (\d+\.\d+), V([\d.]+)", out)
    return match[2] if match else "unknown"


def measure(nvcc, architectures):
    jobs = [(source, a) for source in sorted(KERNELS.glob("*.cu")) for a in architectures]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = pool.map(lambda job: compile_file(nvcc, *job), jobs)
        result = {}
        for (source, architecture), text in zip(jobs, texts):
            result.update(figures(text, source.name, architecture))
    return result


def read_record():
    if not RECORD.exists():
        return "none", {}
    lines = RECORD.read_text().splitlines()
    version = lines[0].rsplit(" ", 1)[1]
    record = {}
    for line in lines[2:]:
        file, rest = line.split(maxsplit=1)
        kernel, *registers = rest.rsplit(maxsplit=len(ARCHITECTURES))  # a kernel's name may have blanks: unsigned char
        record.update({(file, kernel, a): int(r) for a, r in zip(ARCHITECTURES, registers)})
    return version, record


def write_record(version, measured):
    kernels = sorted({key[:2] for key in measured})
    widths = [max(len(k[i]) for k in kernels) for i in (0, 1)]
    lines = [f"# registers a thread, by scripts/kernel_report.py --update with nvcc {version}",
             f"# {'file':{widths[0] - 2}} {'kernel':{widths[1]}} " + " ".join(f"{a:>6}" for a in ARCHITECTURES)]
    for file, kernel in kernels:
        registers = " ".join(f"{measured[file, kernel, a][0]:6}" for a in ARCHITECTURES)
        lines.append(f"{file:{widths[0]}} {kernel:{widths[1]}} {registers}")
    RECORD.write_text("\n".join(lines) + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--nvcc", default="nvcc")
    ap.add_argument("--update", action="store_true")
    ap.add_argument("--only", default=",".join(ARCHITECTURES), metavar="ARCHITECTURES")
    a = ap.parse_args()
    architectures = a.only.split(",")
    if a.update and architectures != ARCHITECTURES:
        sys.exit("--update records all architectures: without --only")
    version, measured = version_of(a.nvcc), measure(a.nvcc, architectures)
    recorded_with, record = read_record()
    slack = 0 if version == recorded_with else OTHER_COMPILER
    faults = []
    for key, (registers, spilled) in sorted(measured.items()):
        where = f"{key[0]}: {key[1]} for {key[2]}"
        if spilled:
            faults.append(f"{where} spills {spilled} bytes: fewer values at a time, or __launch_bounds__ that allow more registers")
        if a.update or key[2] not in ARCHITECTURES:
            continue
        if key not in record:
            faults.append(f"{where} is not in {RECORD.name}: --update adds it")
        elif registers > record[key] + slack:
            faults.append(f"{where} needs {registers} registers, recorded are {record[key]}: --update if that is meant")
    if a.update:
        write_record(version, measured)
    elif gone := sorted({key[:2] for key in record} - {key[:2] for key in measured}):
        faults += [f"{file}: {kernel} is in {RECORD.name}, but not in the source: --update" for file, kernel in gone]
    most = max(r for r, _ in measured.values())
    print(f"nvcc {version}: {len(measured)} kernels in {len(architectures)} architectures, {most} registers at most, "
          f"{sum(s > 0 for _, s in measured.values())} spill")
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main()
