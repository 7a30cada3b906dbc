#!/usr/bin/env python3
"""Are the event files of RUN/tensorboard what TensorBoard reads? By Python's own means: framing, checksums, protobuf; the values are
metrics.jsonl's as float32, of what no later part of the run has done again.

    python3 tests/cli/check_tensorboard.py RUN FILES        prints what is wrong; FILES: how many there must be
"""
import glob
import json
import math
import os
import struct
import sys

TRAIN = {"train/" + tag: field for tag, field in (
    ("loss", "train_loss"), ("accuracy", "train_accuracy"), ("learning_rate", "learning_rate"), ("loss_scale", "loss_scale"),
    ("grad_norm", "grad_norm"), ("skipped", "skipped"), ("images_per_second", "images_per_second"))}
EVAL = {f"{part}/{what}": f"{part}_{what}" for part in ("val", "test", "tta") for what in ("loss", "accuracy")}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283  # of the standard (RFC 3720's polynomial)


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), f"{path}: checksum of the length at byte {at}"
        body = data[at + 12:at + 12 + length]
        crc, = struct.unpack_from("<I", data, at + 12 + length)
        assert crc == masked(body), f"{path}: checksum of the data at byte {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [values]} of a protobuf message; fixed-size fields as their bytes."""
    out, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                assert kind == 2, f"wire type {kind}"
                size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        out.setdefault(tag >> 3, []).append(value)
    return out


def read(path):
    """(wall_time, step, [(tag, float or None)], text or None, started) of each event; checks how the file begins."""
    events = [fields(body) for body in records(path)]
    assert events[0][3] == [b"brain.Event:2"], f"{path}: file version"
    for event in events[1:]:
        values, text = [], None
        for summary in event.get(5, []):
            for value in map(fields, fields(summary).get(1, [])):
                if 2 in value:
                    values.append((value[1][0].decode(), struct.unpack("<f", value[2][0])[0]))
                else:
                    assert fields(fields(value[9][0])[1][0])[1] == [b"text"], "plugin"
                    tensor = fields(value[8][0])
                    assert tensor[1] == [7] and fields(fields(tensor[2][0])[2][0])[1] == [1], "a tensor of one string"
                    text = tensor[8][0].decode()
        started = 7 in event and fields(event[7][0])[1] == [1]
        yield struct.unpack("<d", event[1][0])[0], event.get(2, [0])[0], values, text, started


def as_float32(value):
    return math.nan if value is None else struct.unpack("<f", struct.pack("<f", value))[0]


def expected(run):
    """{(tag, step): value} of what is not done again."""
    points = {}
    with open(os.path.join(run, "metrics.jsonl")) as file:
        for event in map(json.loads, file):
            if event["event"] == "start":
                after = event.get("resumed_at_update", 0)
                points = {key: value for key, value in points.items() if key[1] <= after}
            for tag, field in {"train": TRAIN, "eval": EVAL}.get(event["event"], {}).items():
                if field in event:
                    points[tag, event["update"]] = as_float32(event[field])
    return points


def same(got, wanted):
    return got == wanted or (math.isnan(wanted) and not math.isfinite(got))


def main():
    run, files = sys.argv[1], int(sys.argv[2])
    paths = sorted(glob.glob(os.path.join(glob.escape(run), "tensorboard", "*")))
    assert len(paths) == files, paths
    assert all(os.path.basename(path).startswith("events.out.tfevents.") for path in paths), paths
    points, texts, last_time, starts = {}, [], 0, 0
    for path in paths:
        for time, step, values, text, started in read(path):
            assert time >= last_time, f"{path}: time goes back"
            last_time = time
            if started:
                starts += 1
                points = {key: value for key, value in points.items() if key[1] < step}
            points.update({(tag, step): value for tag, value in values})
            texts += [text] if text else []
    assert starts == files, "a session log in each file"
    wanted = expected(run)
    assert wanted, "metrics.jsonl has no values"
    for key in sorted(wanted.keys() | points.keys()):
        assert key in points and key in wanted and same(points[key], wanted[key]), (key, points.get(key), wanted.get(key))
    assert len(texts) == files, f"{len(texts)} configurations"
    lines = [line[4:] for line in texts[-1].splitlines() if line.strip()]
    with open(os.path.join(run, "config.ini")) as file:
        ini = file.read()
    assert "[train]" in lines and "tensorboard = true" in lines and "tensorboard = true" in ini, lines[:5]


if __name__ == "__main__":
    main()
