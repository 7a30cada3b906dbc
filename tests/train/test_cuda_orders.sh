#!/usr/bin/env bash
# Whole runs of the program on the emulated CUDA device. Whatever legal order the device works in, with recordings or without, with
# either loader and far ahead of the host, the weights are the same bits; and what breaks in mid-run ends it with one message.
set -uo pipefail
bin=$1
plugin=$bin/emulated/lockstep_cuda.so
[ -e "$plugin" ] || { echo "skipped: $plugin is not there; it needs a C++ compiler when Lockstep is built"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp tests/support/tiny.ini "$folder/run.ini"
cp tests/support/small_net.ini "$folder/net.ini"
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# run NAME EMULATION OPTIONS...: sets `code` and `hash`
run() {
  local name=$1 emulation=$2
  shift 2
  LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATION=$emulation "$bin/train" "$folder/run.ini" --quiet --run-dir "$folder/$name" \
    --set device.type=cuda --set data.train_samples=96 --set data.test_samples=16 --set train.global_batch=16 \
    --set train.micro_batch=8 --set train.epochs=1 --set log.every=3 "$@" >"$folder/$name.out" 2>"$folder/$name.err"
  code=$?
  hash=$(grep -oE '"weights_hash":[[:space:]]*"[^"]+"' "$folder/$name/summary.json" 2>/dev/null)
}

expected=
for variant in "seed=1 true stream" "seed=2 true stream" "seed=3 true stream" "seed=4 false stream" "seed=5 true resident" \
  "seed=6,backlog=3 true stream" "seed=7,multiprocessors=1 false resident"; do
  read -r emulation graphs loader <<<"$variant"
  name=${variant//[ ,=]/_}
  run "$name" "$emulation" --set device.graphs="$graphs" --set data.loader="$loader"
  [ $code = 0 ] && [ -n "$hash" ] || fail "$variant: exit $code, weights '$hash': $(cat "$folder/$name.err")"
  : "${expected:=$hash}"
  [ "$hash" = "$expected" ] || fail "$variant: weights $hash, expected $expected"
done

# broken NAME EMULATION WORDS...: exit 4, one message, with these words
broken() {
  local name=$1 emulation=$2 lines
  shift 2
  run "$name" "$emulation"
  [ $code = 4 ] || fail "$name: exit $code, expected 4: $(cat "$folder/$name.err")"
  lines=$(grep -c . "$folder/$name.err")
  [ "$lines" = 1 ] || fail "$name: $lines lines instead of one: $(cat "$folder/$name.err")"
  for word in "$@"; do
    grep -qF -- "$word" "$folder/$name.err" || fail "$name: the message lacks '$word': $(cat "$folder/$name.err")"
  done
}

broken "a kernel fails in mid-run" "launch_fail=200" "CUDA error 700" "layer" "CUDA_LAUNCH_BLOCKING=1"
broken "no memory for a slab" "malloc_fail=3" "memory"
# the one message that has more lines: with the table
run "memory too small" "memory=30K"
[ $code = 4 ] && grep -q "does not fit" "$folder/memory too small.err" && grep -q "input slots" "$folder/memory too small.err" ||
  fail "memory too small: exit $code: $(cat "$folder/memory too small.err")"
broken "no card" "devices=0" "sees no GPU"
broken "no driver" "driver=0" "driver"
exit $failed
