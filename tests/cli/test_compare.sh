#!/usr/bin/env bash
# train compare: what differs first, and the exit code.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1"

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
check "the same: the last line" "$(tail -n 1 out)" "the same weights and losses"

"$train" compare a c >out 2>errors
check "another learning rate: exit" $? 6
check "another learning rate: error" "$(cat errors)" "error: a and c differ, first in configuration: optimizer.lr"
says "another learning rate: configuration" "optimizer.lr  0.05  |  0.04" "$(section configuration)"
says "another learning rate: weights" "differ at the checkpoint of update 4 (epochs done: 0), the same at 0 checkpoints before it" "$(section weights)"
says "another learning rate: losses" "differ first at update 4, " "$(section losses)"
says "another learning rate: results" "weights_hash  $(field a weights_hash)  |  $(field c weights_hash)" "$(section results)"
check "another learning rate: data" "$(section data)" "data           same"

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
check "one bit: the rest" "$(grep -c same out)" 7

"$train" compare a c --json >out 2>/dev/null
check "json: exit" $? 6
check "json" "$(python3 -c 'import json, sys
r = json.load(open("out"))
s = {x["name"]: x for x in r["sections"]}
print(r["a"], r["b"], r["same"], r["first"], list(s), s["weights"]["verdict"], s["configuration"]["differences"][0])')" \
    "a c False configuration: optimizer.lr ['version', 'configuration', 'data', 'device', 'weights', 'losses', 'evaluations', 'results'] different {'what': 'optimizer.lr', 'a': '0.05', 'b': '0.04'}"

# What is missing or cut off
rm -r g/checkpoints g/summary.json g/config.ini
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
refused "no run" 7 "empty: holds no run" "$train" compare empty a
refused "one run" 2 "no second run's folder" "$train" compare a
refused "three runs" 2 "one file too many" "$train" compare a b c
printf '{"event":"start","version":"x\\u001b[31m","update":0}\n' >h/metrics.jsonl
"$train" compare a h >out 2>/dev/null
says "text from files is escaped" '|  x\x1b[31m' "$(section version)"
finish
