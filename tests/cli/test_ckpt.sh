#!/usr/bin/env bash
# train ckpt verify, show.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

# says WHAT TEXT OUTPUT
says() {
    case $3 in
    *"$2"*) check "$1" yes yes ;;
    *) check "$1" "$3" "...$2..." ;;
    esac
}
at() { printf 'a/checkpoints/update-%012d' "$1"; }

small="--set data.train_samples=100 --set device.type=cpu --quiet"
# 100 samples in windows of 32: four updates an epoch
# shellcheck disable=SC2086 # several words
"$train" tiny.ini --run-dir a $small --set checkpoint.every_updates=3 --set checkpoint.keep_last=9 >/dev/null || exit 1

output=$("$train" ckpt verify a)
check "verify a run: exit" $? 0
check "verify a run: lines" "$(grep -c 'good$' <<<"$output")" 4
check "verify a folder of checkpoints" "$("$train" ckpt verify a/checkpoints/ | wc -l)" 4
check "verify two checkpoints" "$("$train" ckpt verify "$(at 3)" "$(at 4)/" | cut -f 2 | tr '\n' ' ')" "good good "
refused "verify nothing" 2 "no-such: is not there" "$train" ckpt verify no-such
mkdir empty
refused "verify an empty folder" 7 "empty: is no checkpoint, and has none in it" "$train" ckpt verify empty

says "show a run: the newest is the best" "update-000000000008       8      2           1" "$("$train" ckpt show a)"
says "show a run: newest" "newest" "$("$train" ckpt show a | tail -n 1)"
output=$("$train" ckpt show "$(at 3)")
check "show one: exit" $? 0
says "show one: cursor" "cursor      epoch 0, window 3, update 3, samples 96" "$output"
says "show one: config" "  train.global_batch = 32" "$output"
says "show one: tensors" "conv1.weight.momentum            fp32  (8, 1, 3, 3)" "$output"

refused "diff is another command" 2 "train ckpt has no 'diff'; did you mean 'train compare'? (verify and show are what it does)" "$train" ckpt diff a a

# One bit of one weight.
python3 - "$(at 3)/weights.safetensors" 2>/dev/null <<'END' || printf '\001' | dd of="$(at 3)/weights.safetensors" bs=1 seek=4000 conv=notrunc status=none
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-4, 2)
    byte = f.read(1)[0]
    f.seek(-4, 2)
    f.write(bytes([byte ^ 1]))
END
output=$("$train" ckpt verify a 2>errors)
check "verify a damaged one: exit" $? 7
check "verify a damaged one: the others are good" "$(grep -c 'good$' <<<"$output")" 3
says "verify a damaged one: reason" "weights.safetensors: damaged" "$(grep damaged <<<"$output")"
says "verify a damaged one: sum" "1 of 4 checkpoints are damaged" "$(cat errors)"
"$train" ckpt show a >shown 2>/dev/null
check "show a damaged one: exit" $? 7
says "show a damaged one" "damaged" "$(grep 000000003 shown)"
rm "$(at 8)/manifest.json"
says "a lost manifest: the one before is newest" "newest" "$("$train" ckpt show a 2>/dev/null | grep 000000006)"
finish
