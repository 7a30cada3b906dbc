#!/usr/bin/env bash
# seeds.sh - what a configuration reaches: the same training with several seeds, one after another, on the whole machine.
#
#   bench/seeds.sh CONFIG SEEDS FOLDER [OPTION...]     SEEDS: the first ones, 5 say; OPTION: as after --set, "data.path=..." and others
#
# FOLDER keeps the runs: cut off, the same command goes on where it was. Prints accuracy and times by seed, mean and standard
# deviation. Recorded in bench/results/ by the caller.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "usage: bench/seeds.sh CONFIG SEEDS FOLDER [OPTION...]" >&2
  exit 2
fi
config=$1 seeds=$2 folder=$3
shift 3
train=${LOCKSTEP_TRAIN:-$(dirname "$0")/../train}
sets=()
for option in "$@"; do sets+=(--set "$option"); done
mkdir -p "$folder"

for ((seed = 1; seed <= seeds; seed++)); do
  run=$folder/seed-$seed
  [ ! -f "$run/summary.json" ] || continue
  "$train" "$config" --quiet --set run.resume=auto --run-dir "$run" --set "run.seed=$seed" "${sets[@]}" >"$run.log" 2>&1 || {
    echo "seeds.sh: $run: exit $?, see $run.log" >&2
    exit 1
  }
done

echo "# bench/seeds.sh $config $seeds $*: $(git -C "$(dirname "$0")" describe --always --dirty), $(nproc) cores, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs)"
python3 - "$folder" "$seeds" <<'PYTHON'
import json, statistics, sys
folder, seeds = sys.argv[1], int(sys.argv[2])
rows = [json.load(open(f"{folder}/seed-{seed}/summary.json")) for seed in range(1, seeds + 1)]
accuracy = [100 * row.get("tta_accuracy", row["test_accuracy"]) for row in rows]
wall = [row["wall_seconds"] for row in rows]
for seed, (row, percent) in enumerate(zip(rows, accuracy), 1):
    training = row["samples_seen"] / row["train_images_per_second"]
    plain = f" ({100 * row['test_accuracy']:.2f} without test-time augmentation)" if "tta_accuracy" in row else ""
    print(f"seed {seed}: {percent:.2f} %{plain}, {training:.1f} s of training, {row['wall_seconds']:.1f} s in all")
print(f"mean {statistics.mean(accuracy):.3f} %, standard deviation {statistics.stdev(accuracy) if seeds > 1 else 0:.3f}, "
      f"lowest {min(accuracy):.2f}, highest {max(accuracy):.2f}; median {statistics.median(wall):.1f} s in all")
PYTHON
