#!/usr/bin/env python3
"""export_campaign.py BIN [--networks resnet20,...] [--seeds 1-40] [--limit SECONDS] [--out PAGE.md]

Exports networks as C files in floats and in int8 (docs/deploy.md): drawn ones (bench/any_network.py write), then those of
configs/models. Their weights are random and have had two updates. BIN is the folder of the built programs. Each C file must

  check    pass its own check (--test), compiled by gcc with the sanitizers of addresses and of undefined behaviour
  float    give the logits of `train predict` within 1e-5 of the largest, for two pictures. No file can have pictures of 4 channels:
           there the loss of `train eval` on four pictures is compared
  int8     give the loss of `train eval --int8` on four pictures in all digits; or export refuses it with exit code 2 and one message
           that names the layer
  memory   have the RAM and the constants that its comment and --report promise: in the linker's map with -O0, where gcc leaves nothing
           out, and with -O2, where it may leave out constants. The -O2 program runs on 4096 bytes of stack with a guard page below

gcc needs many seconds and 300 MB for a million numbers of C text. A file with more than MANY gets its arrays, of the same names and sizes, from
a file of bytes that this script makes from the text. Exit 0: all agree; 1: not; 77: gcc is missing.
"""
import argparse
import array
import collections
import datetime
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
PLAIN = ["-fno-pie", "-fdata-sections", "-static", "-no-pie"]
MANY, STACK, PICTURES, CALIBRATE = 400000, 4096, 4, ["--int8", "--calibrate", "8"]
BYTES = {"float": 4, "int8": 1}   # of a weight
LAYER = {"float": 80, "int8": 96}  # bytes of a layer's struct with pointers of 32 bits, which the promise counts
ARRAY = re.compile(r"static const (float|int8_t|int32_t) ((?:weight|bias|multiplier|shift)_\d+)(\[\d+\]) = \{$")
SHAPES = {"lenet": (1, 28, 28), "mnist-fast": (1, 28, 28), "vgg11_bn": (3, 224, 224)}
KNOWN = ("resnet18", "resnet34", "resnet50", "wide_resnet50_2", "squeezenet1_1", "densenet121", "mobilenet_v2", "mobilenet_v3_small",
         "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny", "shufflenet_v2_x1_0")  # take 64x64 here, others 32x32
Network = collections.namedtuple("Network", "name shape classes seed")


class Bad(Exception):
    """A network does not agree."""


def philox(seed, split, sample, index):
    """A block of the stream of synthetic pictures: src/base/philox.h, src/data/synthetic.c"""
    c, k = [index, 0, split, sample], [seed, 5 * 0x9E3779B9 & 0xFFFFFFFF]
    for _ in range(10):
        x, y = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [y >> 32 ^ c[1] ^ k[0], y & 0xFFFFFFFF, x >> 32 ^ c[3] ^ k[1], x & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return c


def synthetic(network, sample):
    """Pixels and label of a test picture"""
    count = math.prod(network.shape)
    label = philox(network.seed, 1, sample, (1 << 20) // 4)[0] * network.classes >> 32
    words = (word for block in range((count + 15) // 16) for word in philox(network.seed, 1, sample, block))
    return b"".join(((word >> 1 & 0x7F7F7F7F) + 8 * (label % 8) * 0x01010101).to_bytes(4, "little") for word in words)[:count], label


class Folder:
    """The files of a network, and programs that run there"""

    def __init__(self, path, network, a):
        self.path, self.network, self.limit, self.train = path, network, a.limit, str(pathlib.Path(a.bin, "train").resolve())

    def call(self, *command, stdin=b""):
        try:
            return subprocess.run(command, cwd=self.path, input=stdin, capture_output=True, timeout=self.limit)
        except subprocess.TimeoutExpired:
            raise Bad(f"{' '.join(command[:3])} took more than {self.limit} s") from None

    def output(self, *command, stdin=b""):
        done = self.call(*command, stdin=stdin)
        if done.returncode:
            raise Bad(f"{' '.join(command[:3])}: exit {done.returncode}: {(done.stderr or done.stdout).decode()[-400:].strip()}")
        return done.stdout.decode()

    def logits(self, pictures):
        numbers = array.array("f", map(float, self.output("./checked", "logits", stdin=b"".join(pictures)).split()))
        return [list(numbers[i:i + self.network.classes]) for i in range(0, len(numbers), self.network.classes)]

    def compile(self, source, program, *options):
        sizes = [f"-DPIXELS={math.prod(self.network.shape)}", f"-DCLASSES={self.network.classes}", f"-DSTACK={STACK}"]
        self.output("gcc", "-std=c99", *options, "-Dmain=net_check", "-c", source, "-o", "net.o")
        self.output("gcc", "-std=c99", *options, *sizes, f"-Wl,-Map={program}.map", ROOT / "tests/deploy/export_main.c", "net.o", "-o", program, "-lm")


def fill_from_bytes(folder):
    """Copies net.c to filled.c, whose arrays of constants are filled from the file `bytes` before main."""
    names = []
    with open(folder / "net.c") as text, open(folder / "filled.c", "w") as copy, open(folder / "bytes", "wb") as numbers:
        for line in text:
            found = ARRAY.match(line)
            if not found:
                copy.write(line)
                continue
            kind, name, count = found.groups()
            convert, code, left = float if kind == "float" else int, {"float": "f", "int8_t": "b", "int32_t": "i"}[kind], int(count[1:-1])
            copy.write(f"static {kind} {name}{count};\n")
            names.append(name)
            while not line.endswith("};\n"):
                line = next(text)
                row = array.array(code, map(convert, line.strip("};,\n").replace("f", "").split(",")))
                row.tofile(numbers)
                left -= len(row)
            if left:
                raise Bad(f"{name}{count}: {left} numbers are missing")
        reads = "".join(f" || fread({name}, 1, sizeof {name}, file) != sizeof {name}" for name in names)
        copy.write('#include <stdlib.h>\nstatic void __attribute__((constructor)) fill(void) {\n    FILE *file = fopen("bytes", "rb");\n'
                   f"    if (!file{reads}) abort();\n    fclose(file);\n}}\n")


def export(f, kind):
    """Writes net.c. Returns the promised bytes of RAM and of constants, or the message that refuses int8."""
    done = f.call(f.train, "export", "run", "net.c", "--test", "--report", *(CALIBRATE if kind == "int8" else []))
    errors = [line.split("error: ", 1)[1] for line in done.stderr.decode().splitlines() if "error: " in line]
    if done.returncode == 2 and kind == "int8" and len(errors) == 1 and re.search(r"layer '[^']+'", errors[0]):
        return re.sub(r"^\S+: |; .*|: leave out.*", "", errors[0])
    if done.returncode:
        raise Bad(f"{kind}: export: exit {done.returncode}: {errors}")
    with open(f.path / "net.c") as file:
        comment = file.read(20000)
    promised = [[int(re.search(rf"^{begin}{what} +(\d+)", text, re.M)[1]) for what in ("RAM", "flash", "multiplications")]
                for begin, text in ((r" \* ", comment), ("", done.stdout.decode()))]
    if promised[0] != promised[1]:
        raise Bad(f"{kind}: the comment promises {promised[0]}, --report {promised[1]}")
    return promised[0][:2]


def check_map(f, kind, level, ram, constants):
    """Compares RAM and constants with the promise."""
    text = (f.path / f"plain{level}.map").read_text().split("Memory Configuration")[1]
    sections = [(name, int(size, 16)) for name, size in re.findall(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) net\.o$", text, re.M)]
    static = sum(size for name, size in sections if re.match(r"\.(bss|data)", name) and not re.search(r"_\d+$", name))
    found = sum(LAYER[kind] if ".layer_" in name else size for name, size in sections if re.search(r"\.[a-z]+_\d+$", name))
    if static != ram or found > constants or (found < constants and level == "-O0"):
        raise Bad(f"{kind}, {level}: RAM of {static} bytes and constants of {found}, promised are {ram} and {constants}")


def compare_logits(f):
    """Returns the worst difference from `train predict`, relative to the largest logit."""
    c, h, w = f.network.shape
    pictures = [random.Random(f"{f.network.name} {i}").randbytes(c * h * w) for i in (1, 2)]
    for i, planes in enumerate(pictures):
        (f.path / f"{i}.pnm").write_bytes(b"P%d\n%d %d\n255\n" % (5 if c == 1 else 6, w, h) + bytes(v for pixel in zip(
            *(planes[k * h * w:(k + 1) * h * w] for k in range(c))) for v in pixel))
    lines = f.output(f.train, "predict", "--quiet", "--logits", "run", "0.pnm", "1.pnm", "--set", "device.winograd=off").splitlines()
    theirs = [[float(word) for word in line.split("\t")[1:]] for line in lines]
    return max(max(abs(x - y) for x, y in zip(a, b, strict=True)) / max(map(abs, b)) for a, b in zip(f.logits(pictures), theirs, strict=True))


def compare_loss(f, *options):
    """Returns the difference from the loss of `train eval`, relative to the largest logit."""
    pictures = [synthetic(f.network, i) for i in range(PICTURES)]
    rows, loss = f.logits([pixels for pixels, _ in pictures]), 0.0
    for row, (_, label) in zip(rows, pictures, strict=True):
        total = 0.0  # not sum(): from Python 3.12 it is more exact than the program
        for logit in row:
            total += math.exp(logit - max(row))
        loss += max(row) + math.log(total) - row[label]
    theirs = json.loads(f.output(f.train, "eval", "run", "--quiet", "--json", *options))["loss"]
    return abs(loss / PICTURES - theirs) / max(abs(logit) for row in rows for logit in row)


def check(f, row):
    """Adds facts of float and int8 to the row."""
    options = ["train.max_updates=2", f"data.test_samples={PICTURES}", f"run.seed={f.network.seed}", "device.type=cpu", "optimizer.lr=0.01"]
    f.output(f.train, "train.ini", "--quiet", "--run-dir", "run", *(word for option in options for word in ("--set", option)))
    for kind in ("float", "int8"):
        promised = export(f, kind)
        if isinstance(promised, str):
            row["refused"] = promised
            break
        many = promised[1] > MANY * BYTES[kind]
        if many:
            fill_from_bytes(f.path)
        source = "filled.c" if many else "net.c"
        f.compile(source, "checked", *SANITIZED)
        said = f.output("./checked")
        if said != f"{f.network.classes} logits are as expected\n":
            raise Bad(f"{kind}: its own check: {said}")
        off = (compare_loss(f, *CALIBRATE) if kind == "int8" else compare_logits(f) if f.network.shape[0] in (1, 3) else
               compare_loss(f, "--set", "device.winograd=off"))
        if not off <= (0 if kind == "int8" else 1e-5):
            raise Bad(f"{kind}: off by {off} of the largest logit")
        for level in ("-O0", "-O2"):
            f.compile(source, f"plain{level}", level, *PLAIN)
            check_map(f, kind, level, *promised)
        row[kind] = {"off": off, "ram": promised[0], "constants": promised[1], "stack": int(f.output("./plain-O2", "stack")), "many": many}


def shipped(name, path):
    shape = SHAPES.get(name, (3, 64, 64) if name in KNOWN else (3, 32, 32))
    (path / "train.ini").write_text(f"[data]\ndataset = synthetic\nshape = {'x'.join(map(str, shape))}\nclasses = 10\ntrain_samples = 16\nmean =\n"
                                    f"std =\n[model]\nfile = {ROOT}/configs/models/{name}.ini\n[train]\nepochs = 1\nglobal_batch = 8\n")
    return Network(name, shape, 10, 1)


def drawn(seed, path):
    subprocess.run([sys.executable, ROOT / "bench/any_network.py", "write", str(seed), "--out", path], check=True, stdout=subprocess.DEVNULL)
    shape, classes = (re.search(rf"^{key} = (.*)$", (path / "train.ini").read_text(), re.M)[1] for key in ("shape", "classes"))
    return Network(f"seed {seed}", tuple(map(int, shape.split("x"))), int(classes), seed)


def line_of(name, row):
    cells = [f"{row[kind][key]:,}" if kind in row else "" for key in ("constants", "ram", "stack") for kind in ("float", "int8")]
    off, int8 = f"{row['float']['off']:.1e}" if "float" in row else "", "equal" if "int8" in row else row.get("refused", "")
    return f"| {name} | {row['input']} | {off} | {int8} | {' | '.join(cells)} | {row.get('bad', 'yes')} |"


def page(rows, words):
    files = {kind: [row[kind] for row in rows.values() if kind in row] for kind in ("float", "int8")}
    stack = {kind: max((file["stack"] for file in files[kind]), default=0) for kind in files}
    many = [name for name, row in rows.items() if any(row.get(kind, {"many": 0})["many"] for kind in files)]
    commit, gcc = (subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0]
                   for command in (["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], ["gcc", "--version"]))
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text() + "model name: unknown")[1]
    return f"""# Exported C files: every shipped network and drawn ones

`tests/deploy/export_campaign.py {' '.join(words)}`, {datetime.date.today()}, commit {commit}, {gcc}, {os.cpu_count()} cores, {cpu}.

- {sum('bad' not in row for row in rows.values())} of {len(rows)} networks agree.
- float: {len(files['float'])} files; the worst logit is off by {max((file['off'] for file in files['float']), default=0):.1e} of the largest
  (pictures of 4 channels: the loss).
- int8: {len(files['int8'])} files have the loss of `train eval --int8` in all digits; networks refused by name: {sum('refused' in row for row in rows.values())}.
- RAM and constants of files that agree are as promised, byte for byte. Stack: at most {stack['float']} bytes in float, {stack['int8']} in int8.
- Arrays from a file of bytes: {', '.join(many) or 'no network'}.

| network | input | float: off by | int8 | constants, float | int8 | RAM, float | int8 | stack, float | int8 | agrees |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |
""" + "".join(line_of(name, row) + "\n" for name, row in rows.items())


def seeds_of(text):
    ranges = [part.split("-") for part in text.split(",") if part]
    return [seed for r in ranges for seed in range(int(r[0]), int(r[-1]) + 1)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("bin")
    ap.add_argument("--networks", type=lambda text: [name for name in text.split(",") if name],
                    default=sorted(path.stem for path in (ROOT / "configs/models").glob("*.ini")))
    ap.add_argument("--seeds", type=seeds_of, default=seeds_of("1-40"))
    ap.add_argument("--limit", type=int, default=1800, help="seconds of a command (1800)")
    ap.add_argument("--out", type=pathlib.Path)
    a = ap.parse_args()
    if not shutil.which("gcc"):
        print("skipped: no gcc")
        return 77
    rows = {}
    for make, which in [(drawn, seed) for seed in a.seeds] + [(shipped, name) for name in a.networks]:
        with tempfile.TemporaryDirectory() as work:
            network = make(which, pathlib.Path(work))
            row = rows[network.name] = {"input": "x".join(map(str, network.shape))}
            try:
                check(Folder(pathlib.Path(work), network, a), row)
            except Bad as problem:
                row["bad"] = f"NO: {problem}"
        print(line_of(network.name, row), flush=True)
        if a.out:  # after every network: the rows stay if the rest is interrupted
            a.out.write_text(page(rows, sys.argv[1:]))
    print(f"{sum('bad' not in row for row in rows.values())} of {len(rows)} networks agree")
    return int(any("bad" in row for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
