#!/usr/bin/env python3
"""TensorBoard's own reader on the event files of a whole run, a run in two parts with work done again, and one with gradients that are not
finite: scalars, steps and the text are compared with metrics.jsonl.

    python3 tests/real_readers/read_tensorboard.py build/release/bin/train
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import check_tensorboard  # noqa: E402

try:
    from tensorboard.backend.event_processing import event_accumulator, event_multiplexer
    from tensorboard.backend.event_processing import plugin_event_accumulator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def train(program, folder, run, *sets):
    command = [program, "tiny.ini", "--quiet", "--run-dir", run, "--set", "log.tensorboard=true", "--set", "log.every=1",
               "--set", "device.type=cpu"]
    for word in sets:
        command += [word] if word.startswith("--") else ["--set", word]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (command, done.returncode, done.stderr)


def check_old(run):
    """EventAccumulator: simple values as they are."""
    reader = event_accumulator.EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    got = {(tag, point.step): point.value for tag in reader.Tags()["scalars"] for point in reader.Scalars(tag)}
    return got


def check_new(run):
    """What the web page's server reads: values as tensors, the text for its plugin."""
    reader = plugin_event_accumulator.EventAccumulator(os.path.join(run, "tensorboard"), size_guidance={"tensors": 0})
    reader.Reload()
    import tensorboard.util.tensor_util as tensor_util
    scalars = reader.PluginTagToContent("scalars")
    got = {(tag, point.step): float(tensor_util.make_ndarray(point.tensor_proto))
           for tag in scalars for point in reader.Tensors(tag)}
    assert list(reader.PluginTagToContent("text")) == ["configuration"], reader.PluginTagToContent("text")
    text = tensor_util.make_ndarray(reader.Tensors("configuration")[-1].tensor_proto)[0].decode()
    assert "    tensorboard = true\n" in text and "    [train]\n" in text, text[:200]
    return got


def compare(name, run):
    wanted = check_tensorboard.expected(run)
    assert len(wanted) > 20
    for reader in check_old, check_new:
        got = reader(run)
        assert got.keys() == wanted.keys(), (name, reader.__name__, sorted(got.keys() ^ wanted.keys())[:5])
        wrong = [key for key in wanted if not check_tensorboard.same(got[key], wanted[key])]
        assert not wrong, (name, reader.__name__, wrong[:5])
        print(f"ok     {name}, {reader.__name__}: {len(got)} values of {len({tag for tag, _ in got})} tags, equal as float32")


def main():
    program = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp()
    try:
        shutil.copy(os.path.join(ROOT, "tests/support/tiny.ini"), folder)
        shutil.copy(os.path.join(ROOT, "tests/support/small_net.ini"), os.path.join(folder, "net.ini"))
        os.environ["LOCKSTEP_CUDA_PLUGIN"] = "/nonexistent"
        runs = {name: os.path.join(folder, name) for name in ("one", "parts", "lost")}
        train(program, folder, "one", "data.validation_fraction=0.2", "eval.tta=flip")
        train(program, folder, "parts", "train.max_updates=12", "checkpoint.every_updates=8")
        shutil.rmtree(os.path.join(runs["parts"], "checkpoints", "update-000000000012"))
        train(program, folder, "parts", "--resume")
        train(program, folder, "lost", "device.type=ref", "train.precision=fp16", "loss_scale.initial=16777216")
        for name, run in runs.items():
            compare(name, run)
        multiplexer = event_multiplexer.EventMultiplexer().AddRunsFromDirectory(folder)
        multiplexer.Reload()
        assert sorted(multiplexer.Runs()) == [f"{name}/tensorboard" for name in sorted(runs)], multiplexer.Runs()
        print("ok     runs are found below a folder")
        path = glob.glob(os.path.join(runs["one"], "tensorboard", "*"))[0]
        with open(path, "r+b") as file:
            file.seek(-6, 2)
            file.truncate()  # a process that was killed
        assert len(check_old(runs["one"])) < len(check_tensorboard.expected(runs["one"]))
        print("ok     a file that is cut off is read up to there")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
