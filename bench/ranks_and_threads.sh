#!/usr/bin/env bash
# ranks_and_threads.sh - how the cores are best used, and what it costs to share them.
#
#   bench/ranks_and_threads.sh [ROUNDS] [NETWORK...]     default 5, all networks; recorded in bench/results/ by the caller
#
# In turns, images/s of: one rank of N threads (N cores); N ranks of one thread; N ranks of N threads, so N threads a core;
# and the first two again beside a foreign process that is busy all the time on core 0. One line a round, with the ratios
# to the first, or for the foreign process to the same arrangement alone; at the end their medians and ranges.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-5} cores=$(nproc)
shift || true
networks=("${@:-lenet resnet20 resnet9 airbench94}")
read -ra networks <<<"${networks[*]}"
folder=$(mktemp -d)
busy=''
trap 'rm -rf "$folder"; [ -z "$busy" ] || kill "$busy"' EXIT
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# updates that take some seconds
declare -A updates=([lenet]=150 [resnet20]=40 [resnet9]=10 [airbench94]=25)

# rate RANKS THREADS NETWORK: training throughput from the run's own summary
rate() {
  local launch=() shape=3x32x32
  [ "$3" != lenet ] || shape=1x28x28
  [ "$1" = 1 ] || launch=(mpirun -np "$1" --bind-to none -quiet)
  [ "$1 $2" != "$cores 1" ] || launch=(mpirun -np "$1" --bind-to core -quiet)
  rm -rf "$folder/run"
  "${launch[@]}" ./train configs/bench-cpu.ini --quiet --run-dir "$folder/run" --set "device.threads=$2" \
    --set "model.file=configs/models/$3.ini" --set "data.shape=$shape" --set "train.max_updates=${updates[$3]}" \
    --set train.epochs=50 --set data.test_samples=128
  grep -oE '"train_images_per_second":[[:space:]]*[0-9.]+' "$folder/run/summary.json" | grep -oE '[0-9.]+$'
}

# beside_busy COMMAND...: with a foreign process that never waits
beside_busy() {
  taskset -c 0 sh -c 'while :; do :; done' &
  busy=$!
  "$@"
  kill "$busy"
  wait "$busy" 2>/dev/null || true
  busy=''
}

echo "# $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs), $cores cores, commit $(git describe --always --dirty)," \
  "load $(cut -d' ' -f1 /proc/loadavg)"
echo "network, 1x$cores images/s, ${cores}x1, ${cores}x$cores, 1x$cores beside a busy process, ${cores}x1 beside it"
# Whoever is first in a turn is at times slower, so each round begins with another one.
arrangements=("1 $cores" "$cores 1" "$cores $cores" "busy 1 $cores" "busy $cores 1")
for network in "${networks[@]}"; do
  for ((round = 0; round < rounds; round++)); do
    rates=()
    for ((i = 0; i < 5; i++)); do
      at=$(((round + i) % 5))
      read -ra words <<<"${arrangements[at]}"
      if [ "${words[0]}" = busy ]; then
        beside_busy rate "${words[@]:1}" "$network" >"$folder/rate"
      else
        rate "${words[@]}" "$network" >"$folder/rate"
      fi
      rates[at]=$(<"$folder/rate")
    done
    echo "$network ${rates[*]}" |
      awk '{ printf "%s, %.0f, %.3f, %.3f, %.3f, %.3f\n", $1, $2, $3 / $2, $4 / $2, $5 / $2, $6 / $3 }'
  done
done | tee "$folder/rows"
awk -F', ' '
  function median(list, count,   i, j, t) {
    for (i = 2; i <= count; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return sprintf("%.3f (%.3f to %.3f)", (list[int((count + 1) / 2)] + list[int(count / 2) + 1]) / 2, list[1], list[count])
  }
  function line(   c, i, list, text) {
    text = last
    for (c = 2; c <= 6; c++) { delete list; for (i = 1; i <= n; i++) list[i] = value[i, c]; text = text ", " median(list, n) }
    print text
  }
  BEGIN { print "# medians (and ranges)" }
  last != "" && $1 != last { line(); n = 0 }
  { last = $1; n++; for (c = 2; c <= 6; c++) value[n, c] = $c }
  END { line() }' "$folder/rows"
