#!/usr/bin/env bash
# ranks_and_threads.sh - one rank of N threads against N ranks of one thread, on all N cores, in turns.
#
#   bench/ranks_and_threads.sh [PAIRS]      default 5; prints images/s of both and their ratio, pair by pair
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} cores=$(nproc)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# rate RANKS THREADS NETWORK SHAPE UPDATES: training throughput from the run's own summary
rate() {
  local launch=()
  [ "$1" = 1 ] || launch=(mpirun -np "$1" --bind-to core -quiet)
  rm -rf "$folder/run"
  "${launch[@]}" ./train configs/bench-cpu.ini --quiet --run-dir "$folder/run" --set "device.threads=$2" \
    --set "model.file=models/$3.ini" --set "data.shape=$4" --set "train.max_updates=$5" --set train.epochs=50 \
    --set data.test_samples=128
  grep -oE '"train_images_per_second":[[:space:]]*[0-9.]+' "$folder/run/summary.json" | grep -oE '[0-9.]+$'
}

echo "network, 1 rank x $cores threads, $cores ranks x 1 thread, ratio"
for row in "lenet 1x28x28 150" "resnet9 3x32x32 8"; do
  read -r network shape updates <<<"$row"
  for ((pair = 0; pair < pairs; pair++)); do
    threads=$(rate 1 "$cores" "$network" "$shape" "$updates")
    ranks=$(rate "$cores" 1 "$network" "$shape" "$updates")
    awk -v n="$network" -v a="$threads" -v b="$ranks" 'BEGIN { printf "%s, %.0f, %.0f, %.3f\n", n, a, b, b / a }'
  done
done
