"""CIFAR-10 for a machine without network. The binary files are too large for one call, so they travel in two parts: pictures as losslessly
compressed mosaics (JPEG XL), labels as they are. Part 1 also has djxl with its libraries, which unpacks both."""
import hashlib
import pathlib
import shutil
import subprocess
import tempfile

import machine
from machine import BUILD, ROOT, Unfit

FILES = {"1": ("data_batch_1", "data_batch_2"), "2": ("data_batch_3", "data_batch_4", "data_batch_5", "test_batch")}
TOOL = "1"  # the part that has djxl
SIDE, ROW = 32, 100       # pixels of a picture; pictures in a row of a mosaic
RECORD = 1 + 3 * SIDE * SIDE
TARGET = BUILD / "cifar10"  # where the binary files are put together


def to_mosaic(records, path):
    """Pictures of a binary file, each a label and three planes, as one PPM."""
    pictures = [records[at + 1:at + RECORD] for at in range(0, len(records), RECORD)]
    plane = SIDE * SIDE
    with open(path, "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (ROW * SIDE, len(pictures) // ROW * SIDE))
        for first in range(0, len(pictures), ROW):
            for y in range(SIDE):
                line = bytearray(ROW * SIDE * 3)
                for i, picture in enumerate(pictures[first:first + ROW]):
                    for c in range(3):
                        line[i * SIDE * 3 + c:(i + 1) * SIDE * 3:3] = picture[c * plane + y * SIDE:c * plane + (y + 1) * SIDE]
                file.write(line)


def from_mosaic(path, labels):
    """The bytes of the binary file again."""
    raw = path.read_bytes()
    width = ROW * SIDE * 3
    pixels = raw[len(raw) - len(labels) // ROW * SIDE * width:]
    out = bytearray()
    for n, label in enumerate(labels):
        first = n // ROW * SIDE * width + n % ROW * SIDE * 3
        rows = b"".join(pixels[first + y * width:first + y * width + SIDE * 3] for y in range(SIDE))
        out += bytes([label]) + rows[0::3] + rows[1::3] + rows[2::3]
    return bytes(out)


def find(folder, name):
    for path in (folder / f"{name}.bin", folder / "cifar-10-batches-bin" / f"{name}.bin"):
        if path.exists():
            return path
    raise Unfit(f"{folder} has no {name}.bin: the folder of CIFAR-10's binary files is expected (scripts/fetch-data.sh cifar10)")


def pack(folder, part):
    """carry/cifar-<part>; raises Unfit. Returns what was made, in words."""
    if part not in FILES:
        raise Unfit(f"part '{part}': 1 or 2 is expected")
    for program in ("cjxl", "djxl"):
        if not shutil.which(program):
            raise Unfit(f"{program} is not installed: Debian's package libjxl-tools has it")
    out = ROOT / f"carry/cifar-{part}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in FILES[part]:
        records = find(folder, name).read_bytes()
        with tempfile.TemporaryDirectory() as work:
            to_mosaic(records, pathlib.Path(work, "mosaic.ppm"))
            machine.text_of(["cjxl", "-d", "0", "-e", "7", f"{work}/mosaic.ppm", out / f"{name}.jxl"], limit=600)
        (out / f"{name}.labels").write_bytes(records[::RECORD])
        (out / f"{name}.sha256").write_text(hashlib.sha256(records).hexdigest())
    if part == TOOL:
        pack_tool(out / "tool")
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return f"{out}: {size / 2**20:.0f} MiB"


def pack_tool(out):
    """djxl and its libraries."""
    out.mkdir()
    djxl = shutil.which("djxl")
    shutil.copy2(djxl, out / "djxl")
    for name, path in machine.libraries_of(djxl).items():
        shutil.copy2(path, out / name)


def decode(picture, ppm):
    tool = TARGET / "tool"
    if not tool.exists():
        carried = ROOT / f"carry/cifar-{TOOL}/tool"
        if not carried.exists():
            raise Unfit(f"{picture}: djxl is not here; carry part {TOOL} first")
        shutil.copytree(carried, tool)
    machine.text_of([tool / "djxl", picture, ppm], {"LD_LIBRARY_PATH": str(tool)})


def unpack():
    """Binary files out of each part that was carried here; a part of an earlier call stays."""
    for part, names in FILES.items():
        carried = ROOT / f"carry/cifar-{part}"
        for name in names if carried.is_dir() else ():
            target = TARGET / f"{name}.bin"
            if target.exists():
                continue
            TARGET.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as work:
                decode(carried / f"{name}.jxl", f"{work}/mosaic.ppm")
                records = from_mosaic(pathlib.Path(work, "mosaic.ppm"), (carried / f"{name}.labels").read_bytes())
            if hashlib.sha256(records).hexdigest() != (carried / f"{name}.sha256").read_text():
                raise Unfit(f"{carried / name}.jxl: the unpacked bytes are not those that were packed; carry it again")
            target.write_bytes(records)


def folder():
    """The folder of the binary files, or None."""
    for found in (ROOT / "data/cifar10", TARGET):
        try:
            for names in FILES.values():
                for name in names:
                    find(found, name)
            return found
        except Unfit:
            continue
    return None
