#!/usr/bin/env bash
# accuracy.sh - what own convolution kernels do to accuracy: the same training with Winograd and without, over some seeds.
#
#   bench/accuracy.sh lenet|resnet9 SEEDS FOLDER [OPTION...]     OPTION: as after --set, "data.path=..." and others
#
# lenet: configs/fashion-mnist.ini, 5 epochs; resnet9: configs/cifar10-resnet9.ini, 3 epochs. One rank of one thread a
# run, as many runs at once as there are cores. FOLDER keeps the runs: cut off, the same command goes on where it was.
# Prints accuracy by seed, mean and standard deviation of both. Recorded in bench/results/ by the caller.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 3 ]; then
  echo "usage: bench/accuracy.sh lenet|resnet9 SEEDS FOLDER [OPTION...]" >&2
  exit 2
fi
network=$1 seeds=$2 folder=$3
shift 3
case $network in
lenet) config=configs/fashion-mnist.ini epochs=5 ;;
resnet9) config=configs/cifar10-resnet9.ini epochs=3 ;;
*) echo "accuracy.sh: no network $network here: lenet or resnet9" >&2 && exit 2 ;;
esac
sets=()
for option in "$@"; do sets+=(--set "$option"); done
mkdir -p "$folder"

# train KIND SEED: unless it is complete
train() {
  local run=$folder/$network-$1-$2
  [ ! -f "$run/summary.json" ] || return 0
  ./train "$config" --quiet --set run.resume=auto --run-dir "$run" --set "device.winograd=$1" --set "run.seed=$2" --set device.threads=1 \
    --set "train.epochs=$epochs" --set checkpoint.every_minutes=5 "${sets[@]}" >"$run.log" 2>&1 || echo "$run: exit $?, see $run.log" >&2
}

for ((seed = 1; seed <= seeds; seed++)); do
  for kind in auto off; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    train "$kind" "$seed" &
  done
done
wait

echo "# $network, $config, $epochs epochs, $(git describe --always --dirty), $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs)"
echo "device.winograd, accuracy on the test pictures with seed 1 to $seeds, mean, standard deviation"
for kind in auto off; do
  for ((seed = 1; seed <= seeds; seed++)); do
    grep -oE '"test_accuracy":[[:space:]]*[0-9.]+' "$folder/$network-$kind-$seed/summary.json" | grep -oE '[0-9.]+$'
  done | awk -v kind="$kind" '
    { text = text sprintf(" %.4f", $1); sum += $1; squares += $1 * $1 }
    END { mean = sum / NR; printf "%s,%s, %.4f, %.4f\n", kind, text, mean, sqrt((squares - NR * mean * mean) / (NR - 1)) }'
done
