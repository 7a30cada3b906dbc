#!/usr/bin/env bash
# hierarchy.sh - sums by hosts against sums of all ranks at once (dist.hierarchy) over a slow link between hosts: network namespaces,
# so it needs root. Ranks are placed host by host (slot) and dealt out in turn (node).
#
#   bench/hierarchy.sh [PAIRS [LATENCY_MS [RATE_MBIT [SHAPE...]]]]     default 5 0 1000 2x2; SHAPE: hosts x ranks on each; latency is one
#                                                                       way. Builds nothing: BIN (default build/release/bin)
#
# Writes CSV to bench/results/DATE-hierarchy.csv (OUT: elsewhere) and prints it: shape, placement, mode, bytes, median ms of a sum in the
# foreground, of the same in 1 MB buckets in the background, and what the busiest host sent or received for a sum, over its bytes;
# modes in turns, PAIRS times. The medians of the PAIRS follow as comments.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-5} latency=${2:-0} rate=${3:-1000} bin=${BIN:-build/release/bin}
out=${OUT:-bench/results/$(date +%F)-hierarchy.csv}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- 2x2
# shellcheck source=tests/support/hosts.sh
. tests/support/hosts.sh
reason=$(hosts_lack "$([ "$latency" = 0 ] || echo latency)")
[ -z "$reason" ] || {
  echo "hierarchy.sh: $reason" >&2
  exit 1
}
now=$(mktemp)
trap 'hosts_down; rm -f "$now"' EXIT
trap 'exit 1' INT TERM
readonly repeats=10

# Bytes that each host has sent and received on the data network, one number a line.
counters() {
  local i
  for ((i = 0; i < hosts_count; i++)); do
    ip -n "$(hosts_name "$i")" -s link show net0 | awk '/RX:|TX:/ { getline; print $1 }'
  done
}

# one SHAPE PLACEMENT MODE BYTES: a line of the CSV
one() {
  local before after
  before=$(counters)
  MPI_FLAGS="--map-by $2" hosts_run "${1#*x}" 300 "$PWD/$bin/test_dist_reduce_hierarchy" time "$3" "$4" $repeats >"$now"
  after=$(counters)
  # a warm-up and the repeats, each in the foreground and in the background
  paste <(echo "$before") <(echo "$after") | awk -v line="$(cat "$now")" -v head="$1,$2" -v sums=$((2 * repeats + 2)) -v bytes="$4" '
    $2 - $1 > most { most = $2 - $1 }
    END { line = sprintf("%s,%s,%.2f", head, line, most / bytes / sums); gsub(",", ", ", line); print line }'
}

medians() {
  awk -F', ' '
    function median(v, n,   i, j, t) {
      for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
      return v[int((n + 1) / 2)]
    }
    function of(column, key, mode,   v, i) {
      for (i = 1; i <= n[key, mode]; i++) v[i] = value[key, mode, column, i]
      return median(v, n[key, mode])
    }
    /^[0-9]+x/ {
      key = $1 ", " $2 ", " $4
      if (!(key in seen)) order[++keys] = key
      seen[key]; i = ++n[key, $3]
      for (c = 5; c <= 7; c++) value[key, $3, c, i] = $c
    }
    END {
      for (k = 1; k <= keys; k++) {
        key = order[k]
        printf "# %s bytes, on and off: foreground %.1f, %.1f ms; background %.1f, %.1f ms; on the link %.2f, %.2f of the data\n", key,
          of(5, key, "on"), of(5, key, "off"), of(6, key, "on"), of(6, key, "off"), of(7, key, "on"), of(7, key, "off")
      }
    }' "$out"
}

echo "# commit $(git rev-parse --short HEAD), $(grep -m 1 'model name' /proc/cpuinfo | cut -d: -f2 | xargs), $(nproc) cores," \
  "link of $latency ms and $rate Mbit/s (0: no limit), $repeats repeats, load $(cut -d' ' -f1 /proc/loadavg) before" >"$out"
echo "hosts x ranks, placement, mode, bytes, foreground ms, background ms, link bytes / bytes" >>"$out"
cat "$out"
for shape in "$@"; do
  hosts_up "${shape%x*}" "$latency" "$rate"
  for placement in slot node; do
    for bytes in 262144 1048576 8388608; do
      for ((pair = 0; pair < pairs; pair++)); do
        for mode in on off; do
          one "$shape" $placement $mode $bytes | tee -a "$out"
        done
      done
    done
  done
  hosts_down
done
medians | tee "$now"
cat "$now" >>"$out"
