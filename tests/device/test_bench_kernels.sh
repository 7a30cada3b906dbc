#!/usr/bin/env bash
# bench_kernels is not built by default: that it builds, verifies its steps and writes what it promises is seen here. Times are not.
set -euo pipefail
bin=$1
command -v cmake >/dev/null || { echo "skipped: no cmake to build bench_kernels with"; exit 77; }
grep -qw avx2 /proc/cpuinfo || { echo "skipped: bench_kernels compares kernels for AVX2"; exit 77; }
cmake --build "$bin/.." --target bench_kernels >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }
has() { grep -qF -- "$2" "$1" || { cat "$1" >&2; fail "\"$2\" is missing"; }; }

for only in "resnet20 64->64" "lenet 32->64" "resnet20 3->16" "lenet 128->10" "resnet20 16 @32" "mobilenet 512 @4" "groups 48->48"; do
  "$bin/bench_kernels" --quick --rounds 1 --threads 2 --only "$only" --json "$work/quick.json" >"$work/$only.md" || fail "$only"
  grep -q '"rms_error"' "$work/quick.json" || fail "$only: no steps in the JSON"
done
has "$work/resnet20 64->64.md" "| resnet20 64->64 @8 | backward weight | winograd f(4,3) |"
has "$work/resnet20 64->64.md" "| resnet20 64->64 @8 | backward data | winograd f(2,3) |"
has "$work/lenet 32->64.md" "| lenet 32->64 @14, 5x5 | forward | winograd f(3,5) |"
has "$work/resnet20 3->16.md" "| resnet20 3->16 @32 | backward weight | own direct |"
has "$work/mobilenet 512 @4.md" "| mobilenet 512 @4 | backward data | own grouped |"
has "$work/groups 48->48.md" "| groups 48->48 @16 in 2 | backward weight | own grouped |"
has "$work/lenet 128->10.md" "| lenet 128->10 | forward | own sgemm |"
has "$work/resnet20 16 @32.md" "| batch norm + ReLU, backward | resnet20 16 @32 | own, fused |"

"$bin/bench_kernels" --errors --only "errors 512->512 @4 forward" >"$work/errors.md" || fail "--errors"
has "$work/errors.md" "| 512->512 @4 | forward | after ReLU |"
if "$bin/bench_kernels" --rounds 0 2>"$work/refused"; then fail "--rounds 0 was taken"; fi
has "$work/refused" "--rounds needs a number from 1 to"
if "$bin/bench_kernels" --fast 2>"$work/refused"; then fail "--fast was taken"; fi
has "$work/refused" "--fast: options are"
