#!/usr/bin/env bash
# checkpoints.sh - what checkpoints and replica checks cost: the same training with a checkpoint every epoch and dist.check_replicas = 100,
# and without either, in turns.
#
#   bench/checkpoints.sh [--build FOLDER] [--rounds N] [--ranks N] [--out NAME]
#
# Default: ./build/release, 5 rounds, 2 ranks of one thread. lenet (28x28 pictures, batches of 128, 60000 in a real epoch, as Fashion-MNIST has; SGD with
# momentum) and resnet9 (32x32, 50000, as CIFAR-10; batches of 16, for one
# replica check in 128 updates). An epoch here is a part of a real one (8192 and 512 pictures, four epochs), so
# checkpoints are more frequent than they would be, and their cost per real epoch is what they cost here times the share that an epoch
# here is of a real one. Some 40 s a round. Writes bench/results/NAME.md (default: DATE-checkpoints): throughput of each round, the ratio
# (median, range), seconds that a checkpoint held training up and was being written, and the cost per real epoch
#   (held + slowdown of training, as measured) / time of a real epoch without
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release rounds=5 ranks=2 out=$(date +%F)-checkpoints
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "checkpoints.sh: $1 needs a value" >&2 && exit 2; }
  case $1 in
  --build) build=$2 ;;
  --rounds) rounds=$2 ;;
  --ranks) ranks=$2 ;;
  --out) out=$2 ;;
  *) echo "checkpoints.sh: unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
case $build in /*) ;; *) build=$PWD/$build ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=
[ "$(id -u)" != 0 ] || root=--allow-run-as-root
launch=
# shellcheck disable=SC2086 # several words
[ "$ranks" = 1 ] || launch="$(command -v mpirun.openmpi || command -v mpirun) $root -quiet --oversubscribe --bind-to none -np $ranks"

declare -A saving=(
  [with]="--set checkpoint.every_epochs=1 --set dist.check_replicas=100"
  [without]="--set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0 --set dist.check_replicas=0"
)
lenet="--set data.train_samples=8192"
resnet9="--set model.file=configs/models/resnet9.ini --set data.shape=3x32x32 --set data.train_samples=512 --set train.global_batch=16"

# one NETWORK ROUND WAY OPTIONS...
one() {
  local network=$1 round=$2 way=$3
  shift 3
  echo "$network, round $round of $rounds, $way" >&2
  # shellcheck disable=SC2086 # several words
  $launch "$build/bin/train" configs/bench-cpu.ini --quiet --run-dir "$folder/$network.$round.$way" --set device.type=cpu \
    --set device.threads=1 --set data.test_samples=64 --set train.epochs=4 --set checkpoint.every_minutes=0 "$@" </dev/null
}

for ((round = 1; round <= rounds; round++)); do
  order="with without"
  [ $((round % 2)) = 1 ] || order="without with" # neither always goes first
  for way in $order; do
    # shellcheck disable=SC2086 # several words
    one lenet "$round" "$way" $lenet ${saving[$way]}
    # shellcheck disable=SC2086 # several words
    one resnet9 "$round" "$way" $resnet9 ${saving[$way]}
  done
done

python3 - "$folder" "$rounds" "$ranks" "bench/results/$out.md" <<'PYTHON'
import datetime, json, os, platform, statistics, sys

folder, rounds, ranks, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
REAL_EPOCH = {"lenet": 60000, "resnet9": 50000}
EPOCH = {"lenet": 8192, "resnet9": 512}


def summary(network, number, way):
    return json.load(open(f"{folder}/{network}.{number}.{way}/summary.json"))


def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


lines = [f"Checkpoints every epoch and replica checks every 100 updates, {datetime.date.today()}",
         f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {ranks} ranks of 1 thread, {rounds} rounds, load at the end "
         f"{os.getloadavg()[0]:.2f}", ""]
for network in REAL_EPOCH:
    rates = {way: [summary(network, n, way)["train_images_per_second"] for n in range(1, rounds + 1)] for way in ("with", "without")}
    walls = {way: [summary(network, n, way)["wall_seconds"] for n in range(1, rounds + 1)] for way in ("with", "without")}
    ratios = [a / b for a, b in zip(rates["with"], rates["without"])]
    times = [a / b for a, b in zip(walls["without"], walls["with"])]
    events = [json.loads(line) for n in range(1, rounds + 1) for line in open(f"{folder}/{network}.{n}.with/metrics.jsonl")]
    events = [event for event in events if event["event"] == "checkpoint"]
    held = [event["held_seconds"] for event in events]
    epoch_s = REAL_EPOCH[network] / statistics.median(rates["without"])
    # Slower training here is the writing of one checkpoint an epoch, and the checks of as many updates as there are in a real epoch.
    slower = max(0.0, 1 - statistics.median(ratios)) * EPOCH[network] / statistics.median(rates["without"])
    cost = (statistics.median(held) + slower) / epoch_s
    lines += [f"## {network}: {100 * cost:.3f} % of a real epoch of {REAL_EPOCH[network]} pictures ({epoch_s:.1f} s)", "",
              "| | median (range) |", "| --- | --- |",
              f"| images/s with | {spread(rates['with'], lambda v: f'{v:.0f}')} |",
              f"| images/s without | {spread(rates['without'], lambda v: f'{v:.0f}')} |",
              f"| with / without, same round | {spread(ratios, lambda v: f'{v:.4f}')} |",
              f"| whole run, without / with, same round | {spread(times, lambda v: f'{v:.4f}')} |",
              f"| a checkpoint holds training up | {spread(held, lambda v: f'{1e3 * v:.2f} ms')} |",
              f"| a checkpoint is written in | {spread([e['seconds'] for e in events], lambda v: f'{1e3 * v:.1f} ms')} |",
              f"| bytes | {events[0]['bytes']} |", f"| checkpoints measured | {len(events)}, every {EPOCH[network]} pictures |", ""]
text = "\n".join(lines)
print(text)
with open(out, "w") as file:
    file.write(text)
PYTHON
