#!/usr/bin/env bash
# bench_gpu is not built by default, and has something to time on a GPU only: that it builds and refuses what it does not know is seen here.
set -euo pipefail
bin=$1
command -v cmake >/dev/null || { echo "skipped: no cmake to build bench_gpu with"; exit 77; }
cmake --build "$bin/.." --target bench_gpu >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

rc=0
"$bin/bench_gpu" fast 2>"$work/refused" || rc=$?
[ $rc = 2 ] || fail "an unknown word: exit $rc"
grep -qF "unknown word 'fast'; expected is launches, convolutions or norms" "$work/refused" || fail "what it says of an unknown word"
echo "bench_gpu builds and refuses what it does not know"
