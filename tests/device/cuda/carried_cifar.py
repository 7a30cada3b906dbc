"""Mosaics of scripts/gpu_check/cifar.py: a binary file becomes a mosaic and the same bytes again; a lease names items that are there."""
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts/gpu_check"))
sys.dont_write_bytecode = True

import cifar     # noqa: E402
import items     # noqa: E402
import leases    # noqa: E402

numbers = random.Random(1)
records = bytes(numbers.randrange(256) for _ in range(2 * cifar.ROW * cifar.RECORD))
with tempfile.TemporaryDirectory() as work:
    path = pathlib.Path(work, "mosaic.ppm")
    cifar.to_mosaic(records, path)
    assert cifar.from_mosaic(path, records[::cifar.RECORD]) == records, "a mosaic's bytes are not those of the file"
for lease in leases.LEASES:
    found = leases.items_of(lease, items.ITEMS)
    if lease != "3":  # its later items wait for another call
        assert sum(item.seconds for item in found) < 60 * leases.minutes_of(lease), f"lease {lease} takes longer than its minutes"
    assert len(set(item.name for item in found)) == len(found), f"lease {lease} names an item twice"
