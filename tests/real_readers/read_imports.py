#!/usr/bin/env python3
"""What scripts/import_runs.py has written, read by the package itself (of Weights & Biases: by its messages, which the program that
syncs them reads), and compared with the runs' files.

    read_imports.py wandb FOLDER RUN... | mlflow URI RUN...        prints "equal"
"""
import glob
import json
import math
import os
import struct
import sys
import zlib


def expected(run):
    """{name: {update: value}} of what is not done again, by another way than the script's."""
    points = {}
    with open(os.path.join(run, "metrics.jsonl")) as file:
        for event in map(json.loads, file):
            if event["event"] == "start":
                after = event.get("resumed_at_update", 0)
                for name in points:
                    points[name] = {update: value for update, value in points[name].items() if update <= after}
            if event["event"] == "train":
                for field, name in (("train_loss", "train/loss"), ("grad_norm", "train/grad_norm"), ("learning_rate", "train/learning_rate"),
                                    ("images_per_second", "train/images_per_second"), ("samples_seen", "train/samples_seen")):
                    points.setdefault(name, {})[event["update"]] = event[field]
            if event["event"] == "eval":
                for field, name in (("test_loss", "test/loss"), ("test_accuracy", "test/accuracy")):
                    points.setdefault(name, {})[event["update"]] = event[field]
    return points


def same(got, wanted):
    return math.isnan(float(got)) if wanted is None else float(got) == wanted


def compare(run, points, options, summary):
    wanted = expected(run)
    for name, values in wanted.items():
        assert points[name].keys() == values.keys(), (run, name, points[name].keys() ^ values.keys())
        for update, value in values.items():
            assert same(points[name][update], value), (run, name, update, points[name][update], value)
    assert options["train.global_batch"] == "32" and options["model.file"] == "network.ini", options
    with open(os.path.join(run, "summary.json")) as file:
        assert float(summary("test_accuracy")) == json.load(file)["test_accuracy"]


def records(path):
    """Of a .wandb file, which is a log as LevelDB has it, behind seven bytes: pieces in blocks of 32 KiB, with CRC-32, length and kind
    (whole, first, middle, last)."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == b":W&B", path
    at, joined = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        crc, length, kind = struct.unpack_from("<IHB", data, at)
        if kind == 0:
            break
        piece = data[at + 7:at + 7 + length]
        assert crc == zlib.crc32(data[at + 6:at + 7] + piece), f"{path}: checksum at byte {at}"
        at += 7 + length
        joined += piece
        if kind in (1, 4):
            yield joined
            joined = b""


def read_wandb(folder, run):
    from wandb.proto import wandb_internal_pb2
    with open(os.path.join(run, "run.json")) as file:
        identity = json.load(file)["run"]
    path, = glob.glob(os.path.join(folder, "wandb", f"offline-run-*-{identity}", f"run-{identity}.wandb"))
    points, options, summary = {}, {}, {}
    for data in records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for name, value in row.items():
            points.setdefault(name, {})[row["update"]] = value
        for item in list(record.run.config.update) + list(record.config.update):
            options[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
        for item in record.summary.update:
            summary[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        last = [event["time"] for event in map(json.loads, file) if event["event"] == "eval"][-1]
    assert abs(max(points.pop("_timestamp").values()) - last) < 1e-3, "times are the run's"
    compare(run, points, options, lambda name: summary[name])


def read_mlflow(uri, run):
    from mlflow import MlflowClient
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tests")
    found, = [made for made in client.search_runs([experiment.experiment_id]) if made.info.run_name == run]
    points = {}
    for name in expected(run):
        points[name] = {metric.step: metric.value for metric in client.get_metric_history(found.info.run_id, name)}
    assert found.info.status == "FINISHED" and len(found.data.tags["lockstep.run"]) == 32, found.info
    compare(run, points, found.data.params, lambda name: found.data.metrics["summary/" + name])


def main():
    for run in sys.argv[3:]:
        {"wandb": read_wandb, "mlflow": read_mlflow}[sys.argv[1]](sys.argv[2], run)
    print("equal")


if __name__ == "__main__":
    main()
