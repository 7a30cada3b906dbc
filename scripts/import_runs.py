#!/usr/bin/env python3
"""import_runs.py - Lockstep's runs into Weights & Biases or MLflow, offline.

    scripts/import_runs.py wandb RUN... [--to FOLDER] [--project NAME]    folders offline-run-* in FOLDER/wandb; `wandb sync` sends them
    scripts/import_runs.py mlflow RUN... [--to URI] [--project NAME]      into the tracking store URI (default: MLflow's own, such as
                                                                          sqlite:///mlflow.db), as experiment NAME

RUN is a run's folder. Of its metrics.jsonl the train and eval events become metrics by update, with their own times: train/loss,
train/learning_rate, val/accuracy, test/loss... (what is null is not a number); what a part of the run has done again later is there once.
The options of config.ini are the run's configuration, as section.key, the numbers of summary.json its summary. Needs the package itself
(pip install wandb, or mlflow) and no network. A run is imported anew each time; in Weights & Biases it keeps its identity.

Exit: 0; 2 wrong use, or the package is missing; 7 a file cannot be read, or has damaged lines: the others are imported.
"""
import argparse
import json
import os
import sys

MISSING = float("nan")


class Run:
    """What a run's folder says, each file of which may be missing or damaged but metrics.jsonl."""

    def __init__(self, folder):
        self.folder = folder
        self.name = os.path.basename(os.path.abspath(folder))
        self.damaged = []
        self.events = self._read_events(os.path.join(folder, "metrics.jsonl"))
        self.starts = [event for event in self.events if event["event"] == "start"]
        self.options = self._read_options(os.path.join(folder, "config.ini"))
        self.summary = self._read_summary(os.path.join(folder, "summary.json"))

    def _read_events(self, path):
        events = []
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                event = parse(line)
                if not event and not line.endswith(b"\n"):
                    print(f"import_runs.py: {path}: line {number} has no end and is left out", file=sys.stderr)
                elif not event:
                    self.damaged.append(number)
                else:
                    if event["event"] == "start":  # what follows this update above is done again
                        after = event.get("resumed_at_update", 0)
                        after = after if is_whole(after) else 0
                        events = [old for old in events if old["update"] <= after or old["event"] in ("start", "end")]
                    events.append(event)
        return events

    def _read_options(self, path):
        options, section = {}, ""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return {}
        for line in map(str.strip, lines):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1].strip()
            elif "=" in line and not line.startswith((";", "#")):
                key, value = line.split("=", 1)
                options[f"{section}.{key.strip()}"] = value.strip()
        return options

    def _read_summary(self, path):
        try:
            with open(path, "rb") as file:
                summary = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return summary if isinstance(summary, dict) else {}

    def metrics(self):
        """(update, time, {name: value}) of each train and eval event."""
        for event in self.events:
            if event["event"] == "train":
                yield event["update"], event["time"], {train_name(name): value for name, value in numbers(event)}
            elif event["event"] == "eval":
                yield event["update"], event["time"], {eval_name(name): value for name, value in numbers(event)}

    def facts(self):
        """Of the first start: what decides nothing, and is of interest."""
        start = self.starts[0] if self.starts else {}
        names = ("run", "version", "device", "device_name", "precision", "world_size", "dataset", "model", "parameters")
        return {name: start[name] for name in names if isinstance(start.get(name), (str, int, float))}

    def status(self):
        """Of the last end: completed, stopped, failed; "" where there is none."""
        last = self.events[-1] if self.events else {}
        return str(last.get("status", "")) if last.get("event") == "end" else ""


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


def parse(line):
    """An event, or None where the line is damaged."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return None
    time = event.get("time")
    good = is_whole(event.get("update")) and isinstance(time, (int, float)) and not isinstance(time, bool) and 0 <= time < 1e11
    return event if good else None


def numbers(event):
    for name, value in event.items():
        if name in ("event", "update", "time"):
            continue
        if value is None:
            yield name, MISSING
        elif isinstance(value, float) or is_whole(value):
            yield name, float(value)


def train_name(field):
    return "train/" + field.removeprefix("train_")


def eval_name(field):
    part, _, what = field.partition("_")
    return f"{part}/{what}" if part in ("val", "test", "tta") and what else f"eval/{field}"


def into_wandb(run, to, project):
    import wandb
    settings = wandb.Settings(mode="offline", silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True,
                              x_disable_meta=True)
    config = dict(run.options, **{f"lockstep.{name}": value for name, value in run.facts().items()})
    with wandb.init(project=project, dir=to, name=run.name, id=run.facts().get("run") or None, config=config, settings=settings) as out:
        out.define_metric("*", step_metric="update")
        for update, time, values in run.metrics():
            out.log(dict(values, update=update, _timestamp=time))
        out.summary.update({name: value for name, value in numbers(run.summary)})
        if run.status() == "failed":
            out.finish(exit_code=1)


def into_mlflow(run, to, project):
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    client = MlflowClient(tracking_uri=to)
    experiment = client.get_experiment_by_name(project)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(project)
    times = [event["time"] for event in run.events]
    made = client.create_run(experiment_id, start_time=int(1000 * times[0]), run_name=run.name).info.run_id
    params = [Param(key, value[:6000]) for key, value in run.options.items()]
    tags = [RunTag(f"lockstep.{key}", str(value)[:5000]) for key, value in run.facts().items()]
    metrics = [Metric(name, value, int(1000 * time), update) for update, time, values in run.metrics() for name, value in values.items()]
    end = int(1000 * times[-1])
    metrics += [Metric(f"summary/{name}", value, end, 0) for name, value in numbers(run.summary)]
    client.log_batch(made, tags=tags)
    for at in range(0, len(params), 100):  # MLflow's limits of one call
        client.log_batch(made, params=params[at:at + 100])
    for at in range(0, len(metrics), 1000):
        client.log_batch(made, metrics=metrics[at:at + 1000])
    status = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}.get(run.status())
    if status:
        client.set_terminated(made, status=status, end_time=end)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=("wandb", "mlflow"))
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--to", help="wandb: a folder (default: the current one); mlflow: a tracking URI")
    parser.add_argument("--project", default="lockstep")
    args = parser.parse_args()
    try:
        __import__(args.package)
    except ImportError as error:
        print(f"import_runs.py: {args.package} cannot be used ({error}): pip install {args.package}", file=sys.stderr)
        return 2
    failed = 0
    for folder in args.runs:
        try:
            run = Run(folder)
        except OSError as error:
            print(f"import_runs.py: {folder}: is no run's folder: {error}", file=sys.stderr)
            failed = 7
            continue
        if run.damaged:
            first = ", ".join(map(str, run.damaged[:8])) + (", ..." if len(run.damaged) > 8 else "")
            print(f"import_runs.py: {folder}/metrics.jsonl: damaged lines, left out: {first}", file=sys.stderr)
            failed = 7
        if not run.events:
            print(f"import_runs.py: {folder}/metrics.jsonl: no line of it is an event", file=sys.stderr)
            failed = 7
            continue
        if args.package == "wandb":
            into_wandb(run, args.to or ".", args.project)
        else:
            into_mlflow(run, args.to, args.project)
        print(f"{folder}: {sum(1 for _ in run.metrics())} events")
    return failed


if __name__ == "__main__":
    sys.exit(main())
