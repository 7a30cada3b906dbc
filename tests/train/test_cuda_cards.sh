#!/usr/bin/env bash
# Short trainings on the emulated cards of several generations. Those before compute capability 8.0 train in fp16 with a loss scale that
# overflows and recovers, and refuse bf16 in one line; a card that is too old is refused.
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

# run NAME CARD OPTIONS...: sets `code`
run() {
  local name=$1 card=$2
  shift 2
  LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATION=seed=1,protect=0,sm=$card "$bin/train" "$folder/run.ini" --quiet \
    --run-dir "$folder/$name" --set device.type=cuda --set data.train_samples=128 --set data.test_samples=32 \
    --set train.global_batch=16 --set train.epochs=2 "$@" >"$folder/$name.out" 2>"$folder/$name.err"
  code=$?
}
field() { sed -nE "s/.*\"$2\":[[:space:]]*\"?([^\",}]*)\"?[,}]?.*/\1/p" "$folder/$1/summary.json" | head -n 1; }

# trains CARD PRECISION OPTIONS...: the run ends well, and its loss is near that of the cpu in fp32
trains() {
  local card=$1 precision=$2 name=$1-$2
  shift 2
  run "$name" "$card" --set train.precision="$precision" "$@"
  [ $code = 0 ] || fail "$name: exit $code: $(cat "$folder/$name.err")"
  awk -v got="$(field "$name" train_loss)" -v want="$want" 'BEGIN { exit !(got > 0 && got < want * 1.1 && got > want * 0.9) }' ||
    fail "$name: loss $(field "$name" train_loss), on the cpu $want"
}

"$bin/train" "$folder/run.ini" --quiet --run-dir "$folder/cpu" --set device.type=cpu --set data.train_samples=128 \
  --set data.test_samples=32 --set train.global_batch=16 --set train.epochs=2 || fail "cpu"
want=$(field cpu train_loss)

for card in 70 75; do
  trains $card fp16
  # the first of 16 updates overflow and are skipped, and the scale recovers
  run $card-overflow $card --set train.precision=fp16 --set loss_scale.initial=8388608
  skipped=$(field $card-overflow skipped_updates)
  [ $code = 0 ] && [ "$skipped" -gt 0 ] && [ "$skipped" -lt 12 ] || fail "$card: exit $code, $skipped updates of 16 overflowed"
  run $card-bf16 $card --set train.precision=bf16
  [ $code = 2 ] && [ "$(grep -c . "$folder/$card-bf16.err")" = 1 ] &&
    grep -qF "bf16 needs a GPU of compute capability 8.0 or later, and the Emulated GPU has ${card:0:1}.${card:1}: use train.precision = fp16" \
      "$folder/$card-bf16.err" || fail "$card, bf16: exit $code: $(cat "$folder/$card-bf16.err")"
done
trains 75 fp32
for card in 86 90 120; do trains $card bf16; done

run too-old 60
[ $code = 4 ] && grep -qF "has compute capability 6.0, which is too old: this build is for sm_70" "$folder/too-old.err" ||
  fail "a card that is too old: exit $code: $(cat "$folder/too-old.err")"

[ $failed = 0 ] && echo "all cards train"
exit $failed
