#!/usr/bin/env bash
# train find-lr: the rates of its updates, the same losses on any number of ranks, its texts and refusals.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

short=(--set data.train_samples=256 --set device.type=cpu --set run.deterministic=true --updates 60)
output=$("$train" find-lr tiny.ini "${short[@]}" 2>lines)
check "exit" "$? $(cat lines)" "0 "
check "a suggestion" "$(grep -cE '^suggested  optimizer\.lr = [0-9.e-]+: the loss falls fastest there; it is least at [0-9.e-]+$' <<<"$output")" 1
check "bars" "$(grep -cE "^[0-9.e+-]+ +[0-9]+\.[0-9]{4} +#+\$" <<<"$output")" 25
check "no run" "$(ls)" "$(printf 'lines\nnet.ini\ntiny.ini')"

# The rates rise by equal factors, across epochs too (8 updates an epoch), and the rest follows from the losses.
numbers() {
    python3 - "$1" "$2" "$3" <<'CODE'
import json, math, sys
test = json.loads(sys.argv[1])
first, last = float(sys.argv[2]), float(sys.argv[3])
loss, smooth, reach = test["loss"], [], 3
for i, rate in enumerate(test["rate"]):
    expected = first * (last / first) ** (i / 59)
    assert abs(rate / expected - 1) < 1e-3, f"rate {i}: {rate}, expected {expected}"
for i in range(len(loss)):
    near = [(reach + 1 - abs(i - j), loss[j]) for j in range(max(0, i - reach), min(len(loss), i + reach + 1))]
    smooth.append(sum(w * x for w, x in near) / sum(w for w, _ in near))
    assert abs(smooth[i] - test["smooth"][i]) < 1e-9, f"smooth {i}"
assert test["least"] == test["rate"][smooth.index(min(smooth))], "least"
assert test["suggested"] is None or test["suggested"] in test["rate"], "suggested"
print("same")
CODE
}
json=$("$train" find-lr tiny.ini "${short[@]}" --json)
check "json" "$(numbers "$json" 1e-6 10)" same
check "another range" "$(numbers "$("$train" find-lr tiny.ini "${short[@]}" --json --from 1e-4 --to 0.1)" 1e-4 0.1)" same
check "a schedule of the configuration has no effect" \
    "$("$train" find-lr tiny.ini "${short[@]}" --json --set schedule.kind=one-cycle --set train.epochs=1 --set optimizer.lr=3)" "$json"
check "two ranks" "$(ranks 2 60 "$train" find-lr tiny.ini "${short[@]}" --json)" "$json"

output=$("$train" find-lr tiny.ini "${short[@]}" --from 1e-12 --to 1e-11 2>&1)
check "too low a range: exit" $? 0
check "too low a range: no suggestion" "$(tail -n 1 <<<"$output")" \
    "no suggestion: no rate from 1e-12 to 1e-11 lowers the loss clearly within 60 updates"
output=$("$train" find-lr tiny.ini "${short[@]}" --to 1000 --set optimizer.momentum=0.99 2>&1)
check "a loss without bound: exit" $? 0
check "a loss without bound: said" "$(grep -c '^the loss grows without bound from a rate of about [0-9.e+]*$' <<<"$output")" 1

refused "no data" 3 "no training set found" "$train" find-lr tiny.ini --set data.dataset=mnist --set data.path=none
refused "three ranks" 2 "train.global_batch = 32 is no multiple of the 3 ranks" ranks 3 60 "$train" find-lr tiny.ini
refused "a network without a file" 2 "none.ini" "$train" find-lr tiny.ini --set model.file=none.ini
refused "a range upside down" 2 "--to 1e-07: not above --from 1e-06" "$train" find-lr tiny.ini --to 1e-7
refused "no number" 2 "--from: expected a number" "$train" find-lr tiny.ini --from many
refused "too short" 2 "--updates 5" "$train" find-lr tiny.ini --updates 5
refused "a folder of results" 2 "--run-dir: not an option of 'train find-lr'" "$train" find-lr tiny.ini --run-dir x
finish
