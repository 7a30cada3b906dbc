#!/usr/bin/env bash
# replicas.sh - what comparing replicas costs (dist.check_replicas): runs with and without in turns, on synthetic pictures.
#
#   bench/replicas.sh [PAIRS [RANKS [NETWORK...]]]     default 5 2 lenet resnet20 resnet9. Builds nothing: BIN (default build/release/bin)
#
# A check takes a time of its own, whatever lies between two. So that the larger networks need no hour, theirs are done more often, and the
# share at the default of every 100 updates is computed from the time of one: ms a check / (100 * ms an update). The ratio is that of
# images per second with and without, pair by pair: directly seen, at the interval of the column "every".
# Writes CSV to bench/results/DATE-replicas.csv (OUT: elsewhere) and prints it; medians and spread follow as comments.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} ranks=${2:-2} bin=${BIN:-build/release/bin}
out=${OUT:-bench/results/$(date +%F)-replicas.csv}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- lenet resnet20 resnet9
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

number() { tr -d '[:space:]' <"$work/run/summary.json" | sed -nE "s/.*$1([0-9.e+-]+).*/\1/p"; }

# one NETWORK UPDATES EVERY: images per second, and seconds a check
one() {
  local shape=3x32x32
  [ "$1" != lenet ] || shape=1x28x28
  rm -rf "$work/run"
  ranks "$ranks" 3600 "$bin/train" configs/bench-cpu.ini --quiet --run-dir "$work/run" --set model.file="configs/models/$1.ini" \
    --set data.shape=$shape --set data.train_samples=1280000 --set data.test_samples=128 --set train.max_updates="$2" \
    --set dist.check_replicas="$3" --set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0 --set log.every=1000000 >&2
  echo "$(number '"train_images_per_second":') $(number '"replica_checks":\{"count":[0-9]+,"seconds":') $(number '"replica_checks":\{"count":')"
}

{
  echo "# $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $ranks ranks, $("$bin/train" --version | head -n 1)"
  echo "network, every, pair, images/s with, images/s without, ratio, ms a check, share of time at every 100 updates"
  for ((pair = 1; pair <= pairs; pair++)); do
    for network in "$@"; do
      updates=1500 every=100
      [ "$network" != resnet20 ] || updates=60 every=10
      [ "$network" != resnet9 ] || updates=20 every=5
      if ((pair % 2)); then
        with=$(one "$network" $updates $every) without=$(one "$network" $updates 0)
      else
        without=$(one "$network" $updates 0) with=$(one "$network" $updates $every)
      fi
      awk -v network="$network" -v every=$every -v pair=$pair -v with="$with" -v without="$without" 'BEGIN {
        split(with, w, " "); split(without, o, " ")
        check = w[2] / w[3]
        printf "%s, %d, %d, %.1f, %.1f, %.4f, %.3f, %.4f%%\n", network, every, pair, w[1], o[1], w[1] / o[1], 1e3 * check,
          100 * check / (100 * 128 / o[1]) }'
    done
  done
} | tee "$work/rows"
{
  cat "$work/rows"
  for network in "$@"; do
    awk -F', ' -v network="$network" '
      function sort(v,   i, j, t) {
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      }
      $1 == network { ratio[++n] = $6; check[n] = $7; share[n] = $8 + 0 }
      END {
        m = int((n + 1) / 2)
        sort(ratio); sort(check); sort(share)
        printf "# %s: ratio %.4f (%.4f to %.4f), %.3f ms a check (%.3f to %.3f), %.4f %% at every 100 updates\n", network, ratio[m],
          ratio[1], ratio[n], check[m], check[1], check[n], share[m]
      }' "$work/rows"
  done
} >"$work/all"
mkdir -p "$(dirname "$out")"
mv "$work/all" "$out"
grep '^# .*ratio' "$out"
