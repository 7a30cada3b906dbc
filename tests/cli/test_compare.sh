#!/usr/bin/env bash
# train compare: what differs first between runs, checkpoints and weights files, in any mix, and the exit code.
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
run() { "$train" tiny.ini --quiet --set device.type=cpu --set checkpoint.every_updates=4 --run-dir "$@" >/dev/null 2>&1; }
section() { sed -n "/^$1 /,/^[a-z]/p" out | sed '1!{/^[a-z]/d}'; }

run a
run b --set log.every=2 --set device.threads=1
run c --set optimizer.lr=0.04 --set log.every=2
run d --set train.epochs=1
run d --set train.epochs=2 --resume
run e --set run.seed=2
run f --set data.train_samples=239

"$train" compare a b >out 2>errors
check "the same but for what decides nothing: exit" $? 0
check "the same: errors" "$(cat errors)" ""
says "the same: configuration" "log.every  4  |  2  (decides no result)" "$(section configuration)"
check "the same: weights" "$(section weights)" "weights        same: the same at 4 checkpoints"
check "the same: losses" "$(section losses)" "losses         same: at 4 updates of both metrics.jsonl"
says "the same: tensors" "are the same, in the checkpoints of update 16" "$(section tensors)"
check "the same: the last line" "$(tail -n 1 out)" "the same weights and losses"

"$train" compare a c >out 2>errors
check "another learning rate: exit" $? 6
check "another learning rate: error" "$(cat errors)" "error: a and c differ, first in configuration: optimizer.lr"
says "another learning rate: configuration" "optimizer.lr  0.05  |  0.04" "$(section configuration)"
says "another learning rate: weights" "differ at the checkpoint of update 4 (epochs done: 0), the same at 0 checkpoints before it" "$(section weights)"
says "another learning rate: losses" "differ first at update 4, " "$(section losses)"
says "another learning rate: results" "weights_hash  $(field a weights_hash)  |  $(field c weights_hash)" "$(section results)"
check "another learning rate: data" "$(section data)" "data           same"
says "another learning rate: tensors" "differ, in the checkpoints of update 12" "$(section tensors)"

# The losses that came of a part which has been computed again are not looked at.
"$train" compare a d >out 2>errors
check "in two parts: exit" $? 0
says "in two parts" "parts  1  |  2" "$(section device)"
check "in two parts: losses" "$(section losses)" "losses         same: at 4 updates of both metrics.jsonl"

cp -r a again
python3 - <<'END'
import json
lines = [json.loads(line) for line in open("a/metrics.jsonl")]
part = [e for e in lines if e["update"] <= 8]
lost = [dict(e, train_loss=9, test_loss=9) for e in lines if e["event"] in ("train", "eval") and e["update"] > 8]
start = dict(lines[0], part=2, resumed_at_update=8)
rest = [e for e in lines if e["update"] > 8]
open("again/metrics.jsonl", "w").writelines(json.dumps(e) + "\n" for e in part + lost + [start] + rest)
END
"$train" compare a again >out 2>errors
check "computed again after a kill: exit" $? 0

"$train" compare a e >out 2>/dev/null
check "another seed: exit" $? 6
says "another seed" "run.seed  1  |  2" "$(section configuration)"
"$train" compare a f >out 2>errors
check "other data: exit" $? 6
says "other data" "train_samples  240  |  239" "$(section data)"
says "other data: checksum" "checksum  " "$(section data)"

# The last bit of one number is a difference.
cp -r a g
python3 - <<'END'
import json, math
lines = [json.loads(line) for line in open("g/metrics.jsonl")]
for event in lines:
    if event["event"] == "train" and event["update"] == 12:
        event["grad_norm"] = math.nextafter(event["grad_norm"], 9)
open("g/metrics.jsonl", "w").writelines(json.dumps(event, separators=(",", ":")) + "\n" for event in lines)
END
"$train" compare a g >out 2>errors
check "one bit: exit" $? 6
says "one bit" "differ first at update 12, grad_norm by" "$(section losses)"
check "one bit: the rest" "$(grep -c "  same" out)" 9

"$train" compare a c --json >out 2>/dev/null
check "json: exit" $? 6
check "json" "$(python3 -c 'import json, sys
r = json.load(open("out"))
s = {x["name"]: x for x in r["sections"]}
print(r["a"], r["b"], r["same"], r["first"], list(s), s["weights"]["verdict"], s["configuration"]["differences"][0])')" \
    "a c False configuration: optimizer.lr ['version', 'configuration', 'data', 'device', 'weights', 'losses', 'evaluations', 'results', 'counters', 'tensors'] different {'what': 'optimizer.lr', 'a': '0.05', 'b': '0.04'}"

# Checkpoints and weights files
at() { printf '%s/checkpoints/update-%012d' "$1" "$2"; }
"$train" compare "$(at a 12)" "$(at b 12)/" >out 2>errors
check "checkpoints of like runs: exit" $? 0
check "checkpoints of like runs: errors" "$(cat errors)" ""
says "checkpoints: options that decide nothing are told" "log.every  4  |  2  (decides no result)" "$(section configuration)"
check "checkpoints: the last line" "$(tail -n 1 out)" "the same state"
"$train" compare "$(at a 12)" "$(at a 16)" >out 2>errors
check "checkpoints of two updates: exit" $? 6
check "checkpoints of two updates: error" "$(cat errors)" "error: $(at a 12) and $(at a 16) differ, first in counters: cursor.epoch"
says "checkpoints of two updates: counters" "cursor.update  12  |  16" "$(section counters)"
says "checkpoints of two updates: tensors" "conv1.weight  [0] is " "$(section tensors)"
says "checkpoints of two updates: a long list" " more (--json has all)" "$(section tensors)"
"$train" compare "$(at a 16)" "$(at f 16)" >out 2>errors
check "checkpoints on other data: exit" $? 6
says "checkpoints on other data" "data.samples  240  |  239" "$(section counters)"
for pair in "$(at a 16)/weights.safetensors a/weights.safetensors" "$(at a 16) a/weights.safetensors" "a/weights.safetensors a" "b $(at b 16)/weights.safetensors"; do
    # shellcheck disable=SC2086 # two words
    "$train" compare $pair >out 2>errors
    check "$pair: exit" $? 0
    check "$pair: only tensors" "$(grep -c . out) $(tail -n 1 out)" "2 the same weights"
done
# Counters decide, too: with other test data the tensors are the same.
run t --set data.test_samples=99
"$train" compare "$(at a 12)" "$(at t 12)" >out 2>errors
check "checkpoints with other counters: exit" $? 6
says "checkpoints with other counters" "evaluation.test_samples  100  |  99" "$(section counters)"
says "checkpoints with other counters: tensors" "tensors        same: 14 of 14 are the same" "$(section tensors)"
# A run stands for its checkpoint of the same update, or for its newest one.
"$train" compare a "$(at b 12)" >out 2>errors
check "a run and a checkpoint: exit" $? 0
"$train" compare "$(at a 16)" d >out 2>errors
check "a checkpoint and a run: exit" $? 0
cp -r b old && rm -r old/checkpoints/*16
"$train" compare old "$(at a 16)" >out 2>errors
check "a run without that update: exit" $? 6
says "a run without that update" "cursor.update  12  |  16" "$(section counters)"

# The last bit of one weight, first in the file alone, then in a checkpoint that is whole.
flip='import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(-4, 2)
    byte = f.read(1)[0]
    f.seek(-4, 2)
    f.write(bytes([byte ^ 1]))'
cp a/weights.safetensors flipped.safetensors
python3 -c "$flip" flipped.safetensors
"$train" compare a flipped.safetensors >out 2>errors
check "one bit of a weight: exit" $? 6
says "one bit of a weight" "1 of " "$(section tensors)"
says "one bit of a weight: how much" "(one bit apart; 1 of 4 elements differ, at most by " "$(section tensors)"
python3 - <<'CODE'
import json, struct
data = open("flipped.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data) - 8 - size] * 2}
text = json.dumps(header).encode()
open("more.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
CODE
for order in "flipped more" "more flipped"; do
    "$train" compare "${order% *}.safetensors" "${order#* }.safetensors" >out 2>errors
    says "$order: a tensor that one lacks" "1 of $(($(python3 -c 'import json; d = open("flipped.safetensors", "rb").read(); print(len([k for k in json.loads(d[8:8 + int.from_bytes(d[:8], "little")]) if k != "__metadata__"]))') + 1)) differ" "$(section tensors)"
done
cp -r b damaged
python3 -c "$flip" "$(at damaged 12)/weights.safetensors"
refused "a damaged checkpoint" 7 "weights.safetensors: damaged" "$train" compare "$(at damaged 12)" "$(at a 12)"
"$train" compare a damaged >out 2>errors
check "a run with a damaged checkpoint: exit" $? 0

# What is missing or cut off
rm -r g/checkpoints g/summary.json g/config.ini g/weights.safetensors
truncate -s -30 g/metrics.jsonl
"$train" compare a g >out 2>/dev/null
check "less of a run: exit" $? 6
check "less of a run: data" "$(section data | grep -c earlier)" 0
says "less of a run: results" "summary.json  complete  |  not complete" "$(section results)"
head -n 1 g/metrics.jsonl >g/start && mv g/start g/metrics.jsonl
cp -r g h
refused "nothing computed" 7 "have nothing to compare" "$train" compare g h
refused "no such folder" 2 "nothing: is not there" "$train" compare a nothing
mkdir empty
refused "no run" 7 "empty: holds no run (no metrics.jsonl with a start in it), and is no checkpoint or weights file" "$train" compare empty a
refused "one run" 2 "no second run, checkpoint or weights file" "$train" compare a
refused "three runs" 2 "one file too many" "$train" compare a b c
printf '{"event":"start","time":0,"epoch":0,"version":"x\\u001b[31m","update":0}\n' >h/metrics.jsonl
"$train" compare a h >out 2>/dev/null
says "text from files is escaped" '|  x\x1b[31m' "$(section version)"
finish
