#!/usr/bin/env python3
"""kill_every.py BIN [--minutes 30] [--every 120] [--ranks 2] [--seed 1] [--slow-ms 3] [--set KEY=VALUE]

A training run in ordered mode under scripts/launch.sh, in which every --every seconds SIGKILL ends either one rank, or mpirun, or "the
host": all processes at once, launch.sh among them, which then is started again with the same command, as a scheduler would. After
--minutes the run is asked to stop (TERM to launch.sh: exit code 75), and made complete 20 updates later.

  effective   the seconds of the updates that count in the end, by the records (`seconds` of metrics.jsonl, without the time for which
              checkpoints held the training), over the time from the first start to the end
  samples     each part begins at an update and a sample that the part before it has saved, and the counts are those of the epochs
  bits        weights, last checkpoint and each record are those of an undisturbed run on one rank

BIN is the folder of the built programs. The network is that of tests/support/small_run, on more pictures. Kinds and moments depend only
on the seed. Exit 0: as above, and at least 97 % effective; 1: not; 77: cannot be run here.
"""
import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import resume_campaign as runs

KINDS = ("rank", "mpirun", "host")
SAMPLES, BATCH = 20003, 48
OPTIONS = ["device.type=cpu", "device.threads=1", "run.deterministic=true", f"data.train_samples={SAMPLES}", "train.epochs=1000000",
           "train.eval_every=50", "log.every=500", "checkpoint.every_epochs=0", "checkpoint.every_minutes=0.02",
           "run.max_restarts=1000"]
TARGET = 0.97
# Preloaded: a larger network's time for an update, without its work, so that the undisturbed run does not take as long again.
SLOW_SUMS = """#include <time.h>
int PMPI_Iallreduce(const void *, void *, int, void *, void *, void *, void *);
int MPI_Iallreduce(const void *from, void *to, int count, void *type, void *op, void *comm, void *request) {
    nanosleep(&(struct timespec){ .tv_nsec = SLOW_MS * 1000000 }, NULL);
    return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}
"""


class Campaign:
    def __init__(self, args, work):
        self.args, self.work, self.path = args, work, work + "/run"
        self.train = os.path.abspath(args.bin) + "/train"
        self.tag, self.kills, self.starts = f"kill_every.{os.getpid()}", [], 0
        self.options = [word for option in OPTIONS + args.set for word in ("--set", option)]
        self.environment = dict(os.environ, LOCKSTEP_CAMPAIGN=self.tag, LOCKSTEP_RESTART_PAUSE="0", MPIRUN=runs.open_mpi.find()[0],
                                LOCKSTEP_CUDA_PLUGIN="/nonexistent", OMPI_MCA_orte_tmpdir_base=work,
                                OMPI_MCA_btl_vader_backing_directory=work)
        for name in ("net.ini", "run.ini"):
            shutil.copy(os.path.join(runs.HERE, "../support/small_run", name), work)
        if args.slow_ms:
            self.environment["LD_PRELOAD"] = work + "/slow.so"
            subprocess.run(["cc", "-shared", "-fPIC", f"-DSLOW_MS={args.slow_ms}", "-xc", "-", "-o", work + "/slow.so"], input=SLOW_SUMS.encode(),
                           check=True)
        self.log = open(work + "/output", "ab")

    def start(self):
        script = os.path.join(runs.HERE, "../../scripts/launch.sh")
        words = ["bash", script, *runs.open_mpi.words()[1:], "--oversubscribe", "--bind-to", "none", "-np", str(self.args.ranks), self.train,
                 "run.ini", "--quiet", "--run-dir", "run", *self.options]
        self.starts += 1
        self.script = subprocess.Popen(words, env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL, stdout=self.log,
                                       stderr=self.log, start_new_session=True)

    def whom(self, kind, rank):
        """The processes to kill; []: not there now."""
        found = runs.tagged(self.tag.encode())
        if kind == "host":
            return list(found)
        if kind == "rank":
            return [process for process, environment in found.items() if b"OMPI_COMM_WORLD_RANK=%d\0" % rank in environment][:1]
        name = os.path.basename(self.environment["MPIRUN"]).encode()
        return [process for process in found if os.path.basename(runs.read(f"/proc/{process}/cmdline").split(b"\0")[0]) in (name, b"prterun")]

    def kill(self, kind, rank):
        processes = []
        while not processes:
            processes = self.whom(kind, rank)
        for process in processes:
            runs.send(process, signal.SIGKILL)
        self.kills.append((kind, time.time()))
        if kind == "host":
            self.script.wait()
            while runs.tagged(self.tag.encode()):
                time.sleep(0.005)  # its scheduler starts nothing beside it
            self.start()

    def disturb(self):
        """Returns the seconds of all."""
        count, rng = int(self.args.minutes * 60 / self.args.every - 0.5), random.Random(self.args.seed)
        kinds = [KINDS[i % len(KINDS)] for i in range(count)]
        rng.shuffle(kinds)
        begun = time.monotonic()
        self.start()
        for number, kind in enumerate(kinds, 1):
            moment = self.args.every * (number + rng.uniform(-0.05, 0.05))
            while time.monotonic() - begun < moment:
                if self.script.poll() is not None:
                    raise runs.Bad(f"exit: launch.sh ended with {self.script.returncode} before kill {number}")
                time.sleep(0.01)
            self.kill(kind, rng.randrange(self.args.ranks))
        time.sleep(max(0, self.args.minutes * 60 - (time.monotonic() - begun)))
        self.script.terminate()
        code = self.script.wait()
        seconds = time.monotonic() - begun
        if code != 75:
            raise runs.Bad(f"exit: {code} of the run that was asked to stop")
        return seconds

    def finish(self, folder, updates, *words):
        """On one rank, to its end."""
        process = subprocess.run([self.train, "run.ini", "--quiet", "--run-dir", folder, *self.options, "--set", f"train.max_updates={updates}",
                                  *words], env=self.environment, cwd=self.work, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        if process.returncode != 0:
            raise runs.Bad(f"exit: {process.returncode} of {folder}, to be complete after {updates} updates")

    def check_samples(self, summary):
        """Each part begins where one before it has saved, and no part saw a sample of another."""
        saved = {0} | {event["update"] for event in runs.events(self.path, "checkpoint")}
        per_epoch = -(-SAMPLES // BATCH)
        for part in summary["parts"]:
            epochs, windows = divmod(part["after_update"], per_epoch)
            if part["after_update"] not in saved or part["samples_before"] != epochs * SAMPLES + windows * BATCH:
                raise runs.Bad(f"samples: a part begins after update {part['after_update']} and {part['samples_before']} samples")
        epochs, windows = divmod(summary["updates"], per_epoch)
        if summary["samples_seen"] != epochs * SAMPLES + windows * BATCH:
            raise runs.Bad(f"samples: {summary['samples_seen']} seen after {summary['updates']} updates")

    def report(self, wall):
        end = runs.events(self.path, "end")[-1]
        checkpoints = runs.events(self.path, "checkpoint")
        held = sum(event["held_seconds"] for event in checkpoints)
        begins = [event["time"] for event in runs.events(self.path, "start")]
        effective = (end["seconds"] - held) / wall
        print(f"{wall:.0f} s, {runs.checkpoints(self.path)[-1]} updates in {len(begins)} parts, {len(checkpoints)} checkpoints; {self.starts} starts of "
              f"launch.sh, load {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores")
        for kind in KINDS:
            down = sorted(min([begin - at for begin in begins if begin > at], default=0) for what, at in self.kills if what == kind)
            if down:
                print(f"  {kind:8}{len(down):3} kills; seconds until it trains again: median {statistics.median(down):.2f}, worst {down[-1]:.2f}")
        print(f"effective {100 * effective:.2f} % ({end['seconds']:.1f} s of updates that count, {held:.1f} s of them held by checkpoints)")
        return effective

    def perform(self):
        wall = self.disturb()
        updates = runs.checkpoints(self.path)[-1] + 20
        effective = self.report(wall)
        self.finish("run", updates, "--resume")
        begun = time.monotonic()
        self.finish("undisturbed", updates)
        summary = json.loads(runs.read(self.path + "/summary.json"))
        self.check_samples(summary)
        runs.compare(runs.fingerprint(self.path), runs.fingerprint(self.work + "/undisturbed"))
        runs.check_folder(self.path)
        print(f"samples   {summary['samples_seen']} in {updates} updates, none lost, none twice\nbits      {summary['weights_hash']}: those of an "
              f"undisturbed run on one rank ({time.monotonic() - begun:.0f} s)")
        if effective < TARGET:
            raise runs.Bad(f"effective: below {100 * TARGET:.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=120)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow-ms", type=int, default=3, help="added to each sum over ranks, of which an update has two")
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    runs.take_signals()
    if not runs.open_mpi.find():
        print(f"skipped: {runs.open_mpi.MISSING}")
        return 77
    work = tempfile.mkdtemp(prefix="lockstep.")
    campaign = Campaign(args, work)
    try:
        campaign.perform()
    except runs.Bad as error:
        print(f"{error}\n{runs.read(work + '/output').decode(errors='replace')[-4000:]}")
        return 1
    finally:
        for process in runs.tagged(campaign.tag.encode()):
            runs.send(process, signal.SIGKILL)
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
