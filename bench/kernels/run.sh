#!/usr/bin/env bash
# run.sh - the ladder of the cpu device's kernels, and the errors of every convolution variant against double.
#
#   bench/kernels/run.sh [bench_kernels' options]      as: --quick, --errors, --only "resnet20 64->64", --threads 1
#
# Builds build/release, measures for some minutes (leave the machine alone meanwhile) and writes bench/results/DATE-kernels.md and
# .json (OUT: another name without its ending).
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-bench/results/$(date +%F)-kernels}
generator=()
[ -f build/release/CMakeCache.txt ] || ! command -v ninja >/dev/null || generator=(-G Ninja)
cmake --preset release "${generator[@]}" -Wno-dev >/dev/null
cmake --build --preset release --target bench_kernels -j "$(nproc)" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo "# Kernels of the cpu device, $(date +%F)"
  echo
  echo "Load of the machine before: $(cut -d ' ' -f 1 /proc/loadavg). What the columns mean: docs/cpu.md."
  echo
  build/release/bin/bench_kernels --json "$work/kernels.json" "$@"
} | tee "$work/kernels.md"
mv "$work/kernels.md" "$out.md"
mv "$work/kernels.json" "$out.json"
echo "$out.md, $out.json" >&2
