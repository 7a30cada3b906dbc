#!/usr/bin/env python3
"""power_loss.py BIN [--every N] [--resume N]: a power cut after every file operation of a run that writes checkpoints.

train_injected (tests/support/inject.c) records what a run does to files and folders: names made, renamed and removed, bytes
written, what is synced. For each prefix of that record this program builds what a file system may hold after a power cut there:

  synced    only what was synced: contents by fsync of the file, names by fsync of their folder
  names     all names, but of contents only what was synced: files are short, or empty
  holes     all names and lengths; what was not synced reads as zeros
  early     names as synced, but for renames and removals, which were kept although their folder was not synced
  all       everything

In each of them, from the moment on when a checkpoint was reported as written (in metrics.jsonl), the search that --resume makes
must find that one, or a later one, and it must be good; files written whole (run.json, config.ini, weights, summary) are whole or not there.
A sample of the states is resumed: it must end with the weights of the undisturbed run. Prints how many states were looked at.
"""
import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from injection import CHECKPOINTS, prepare_synthetic

MODELS = ("synced", "names", "holes", "early", "all")
RUN = ["run.ini", "--run-dir", "runs/a", *CHECKPOINTS, "--quiet"]
ENVIRONMENT = dict(os.environ, LOCKSTEP_CUDA_PLUGIN="/nonexistent")


class File:
    def __init__(self):
        self.data, self.synced = b"", b""


class Folder:
    """Names: as they are now, as they were when it was synced, and those with renames and removals kept early."""

    def __init__(self):
        self.now, self.synced, self.early = {}, {}, {}


class Disk:
    def __init__(self):
        self.root, self.open = Folder(), {}

    def find(self, name):
        """The folder that holds `name`, and its last part."""
        at, parts = self.root, [p for p in name.split("/") if p not in ("", ".")]
        for part in parts[:-1]:
            at = at.now[part]
        return at, parts[-1] if parts else ""

    def lookup(self, name):
        folder, last = self.find(name)
        return folder.now.get(last) if last else folder

    def play(self, words):
        what = words[0]
        if what == "mkdir":
            folder, name = self.find(words[1])
            folder.now[name] = Folder()
        elif what == "open":
            self.play_open(int(words[1]), words[2], words[3])
        elif what == "write":
            self.play_write(self.open.get(int(words[1])), int(words[2]), bytes.fromhex(words[3]))
        elif what == "cut":
            file = self.open.get(int(words[1]))
            if file:
                file.data = file.data[:int(words[2])]
        elif what == "sync":
            self.play_sync(self.open.get(int(words[1])))
        elif what == "close":
            self.open.pop(int(words[1]), None)
        elif what == "rename":
            self.play_rename(words[1], words[2])
        elif what in ("unlink", "rmdir"):
            folder, name = self.find(words[1])
            for names in (folder.now, folder.early):
                names.pop(name, None)
        else:
            raise ValueError(f"unknown operation {what}")

    def play_open(self, number, name, how):
        try:
            folder, last = self.find(name)
        except KeyError:
            return  # what the run found there: its configuration
        if how in "ca" and last not in folder.now:
            folder.now[last] = File()
        thing = folder.now.get(last) if last else folder
        if how == "c":
            thing.data = b""
        if thing:
            self.open[number] = thing

    @staticmethod
    def play_write(file, offset, data):
        if isinstance(file, File):
            file.data = file.data[:offset].ljust(offset, b"\0") + data + file.data[offset + len(data):]

    @staticmethod
    def play_sync(thing):
        if isinstance(thing, File):
            thing.synced = thing.data
        elif thing:
            thing.synced, thing.early = dict(thing.now), dict(thing.now)

    def play_rename(self, old, new):
        (source, old), (target, new) = self.find(old), self.find(new)
        thing = source.now.pop(old)
        source.early.pop(old, None)
        target.now[new] = target.early[new] = thing

    def build(self, model, where, folder=None):
        """What is left after a power cut now, below `where`. Returns a text that tells it from others."""
        folder = folder or self.root
        names = folder.synced if model == "synced" else folder.early if model == "early" else folder.now
        text = ""
        for name, thing in sorted(names.items()):
            path = f"{where}/{name}"
            if isinstance(thing, Folder):
                if where:
                    os.makedirs(path, exist_ok=True)
                text += f"{name}({self.build(model, path if where else '', thing)})"
                continue
            data = thing.data if model == "all" else thing.synced
            if model == "holes":
                data = data[:len(thing.data)].ljust(len(thing.data), b"\0")
            text += f"{name}={hash(data)} "
            if where:
                with open(path, "wb") as file:
                    file.write(data)
        return text


def reported(words, disk):
    """The update whose checkpoint this operation reports as written, or None."""
    if words[0] == "write" and '"checkpoint"' in (line := bytes.fromhex(words[3]).decode(errors="replace")):
        found = re.search(r'"event":"checkpoint","update":(\d+)', line)
        return int(found[1]) if found else None
    return None


def judge_files(run, problems):
    """What is written whole is whole or not there. metrics.jsonl is written line by line: the cut may have taken its end."""
    for name in ("run.json", "config.ini", "network.ini", "evaluation.json", "summary.json", "weights.safetensors"):
        path = f"{run}/{name}"
        if not os.path.exists(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        try:
            if name.endswith(".ini") and not data.endswith(b"\n"):
                raise ValueError("is cut")
            if name.endswith(".json"):
                json.loads(data)
            if name.endswith(".safetensors"):
                length, = struct.unpack("<Q", data[:8])
                header = json.loads(data[8:8 + length])
                if max(t["data_offsets"][1] for k, t in header.items() if k != "__metadata__") != len(data) - 8 - length:
                    raise ValueError("is not whole")
        except (ValueError, struct.error) as error:
            problems.append(f"{name}: {error}")


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    return data[8 + struct.unpack("<Q", data[:8])[0]:]


class Search:
    """The program's own search for the newest good checkpoint."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def newest(self, folder):
        self.process.stdin.write(folder + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return int(answer) if answer else None


def resume(program, state, whole):
    done = subprocess.run([program, *RUN, "--set", "run.resume=auto"], cwd=state, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600, check=False)
    if done.returncode != 0:
        return f"could not be resumed: exit {done.returncode}: {done.stdout.strip()[-400:]}"
    if tensors(f"{state}/runs/a/weights.safetensors") != whole:
        return "resumed, but with other weights than those of the undisturbed run"
    with open(f"{state}/runs/a/metrics.jsonl", encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                json.loads(line)
            except ValueError:
                return f"resumed, but line {number} of metrics.jsonl is no JSON: {line[:60]!r}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--resume", type=int, default=25)
    args = parser.parse_args()
    program = os.path.abspath(f"{args.bin}/train")
    bad = looked = resumed = 0
    with tempfile.TemporaryDirectory() as work:
        prepare_synthetic(work, program)
        os.mkdir(f"{work}/state")
        subprocess.run([f"{program}_injected", *RUN], cwd=work, check=True, stdin=subprocess.DEVNULL,
                       env=dict(ENVIRONMENT, LOCKSTEP_INJECT_LOG=f"{work}/log", LOCKSTEP_INJECT_RECORD=f"{work}/record"))
        with open(f"{work}/record", encoding="utf-8") as file:
            operations = [line.split() for line in file]
        whole, search = tensors(f"{work}/runs/a/weights.safetensors"), Search(os.path.abspath(f"{args.bin}/newest_checkpoint"))
        disk, promised, seen, states = Disk(), -1, set(), []
        for number, words in enumerate(operations, 1):
            disk.play(words)
            promised = max(promised, reported(words, disk) or -1)
            if words[0] in ("close", "open") and number % args.every and number < len(operations):
                continue
            for model in MODELS:
                shape = f"{promised} {disk.build(model, '')}"
                if shape in seen:
                    continue
                seen.add(shape)
                state = f"{work}/state/{number}-{model}"
                os.mkdir(state)
                disk.build(model, state)
                problems = []
                found = search.newest(f"{state}/runs/a/checkpoints")
                if found is None or found < promised:
                    problems.append(f"checkpoint {promised} was reported as written; the newest good one is {found}")
                judge_files(f"{state}/runs/a", problems)
                looked += 1
                states.append((state, problems, f"operation {number} of {len(operations)} ({' '.join(words)[:80]}), {model}"))
                if problems:
                    bad += 1
                    if bad <= 20:
                        print(f"FAILED {states[-1][2]}: {'; '.join(problems)}")
                if len(states) % max(1, args.every) == 0 or not problems:
                    pass
        step = max(1, len(states) // max(1, args.resume))
        for state, _, what in states[::step]:
            prepare_synthetic(state, program)
            problem = resume(program, state, whole)
            resumed += 1
            if problem:
                bad += 1
                print(f"FAILED {what}: {problem}")
        search.process.stdin.close()
        search.process.wait()
        shutil.rmtree(f"{work}/state")
    print(f"power loss: {len(operations)} operations, {looked} different states looked at, {resumed} resumed; {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
