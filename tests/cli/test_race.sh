#!/usr/bin/env bash
# train race: runs in turns, the two clocks, the tests, going on after a kill, refusals.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

cp tiny.ini rival.ini
short=(--set device.type=cpu --set train.epochs=8)
# numbers FOLDER: recomputed from the runs' summaries by Python's statistics, "same" if race.json has them
numbers() {
    python3 - "$1" <<'CODE'
import json, math, statistics, sys
race = json.load(open(f"{sys.argv[1]}/race.json"))
def near(a, b):
    return abs(a - b) <= 1e-9 * max(1, abs(b))
times = {}
for side in race["configurations"]:
    name = side["config"].removesuffix(".ini")
    runs = [json.load(open(f"{sys.argv[1]}/{name}/seed={run['seed']}/summary.json")) for run in side["runs"]]
    accuracy = [s["test_accuracy"] for s in runs]
    training = [s["samples_seen"] / s["train_images_per_second"] for s in runs]
    process = [sum(s["startup_seconds"].values()) + s["time"]["seconds"] for s in runs]
    times[name] = training
    mean, deviation = statistics.mean(accuracy), statistics.stdev(accuracy)
    assert near(side["accuracy"]["mean"], mean) and near(side["accuracy"]["deviation"], deviation), "accuracy"
    assert near(side["t"], (mean - race["gate"]) / (deviation / math.sqrt(len(runs)))), "t"
    assert (side["p"] < 0.5) == (mean > race["gate"]), "p"
    assert near(side["training_seconds"]["mean"], statistics.mean(training)), "training"
    assert near(side["process_seconds"]["mean"], statistics.mean(process)), "process"
    assert all(p < s["wall_seconds"] + 60 for p, s in zip(process, runs)), "clocks"
if len(times) == 2:
    logs = [math.log(b / a) for a, b in zip(times["tiny"], times["rival"])]
    assert near(race["training_ratio"]["mean"], math.exp(statistics.mean(logs))), "ratio"
print("same")
CODE
}

# --- a rival, in turns
output=$("$train" race tiny.ini --seeds 1-4 --gate 40 --against rival.ini "${short[@]}" --run-dir r 2>lines)
check "a race: exit" $? 0
check "a race: turns" "$(sed -n 's/^run  *//p' lines | tr '\n' ';')" \
    "tiny, seed 1;rival, seed 1;rival, seed 2;tiny, seed 2;tiny, seed 3;rival, seed 3;rival, seed 4;tiny, seed 4;"
check "a race: lines to quote" "$(grep -cE '^(tiny|rival): 4 seeds, test accuracy [0-9.]+ % .* 40 % ' <<<"$output")" 2
check "a race: the ratio" "$(grep -cE '^rival takes [0-9.]+ times as long in training \(95' <<<"$output")" 1
check "a race: numbers" "$(numbers r)" same
check "a race: the same data" "$(grep -c 'different data' lines)" 0
check "the same configuration has the same bits" "$(cmp r/tiny/seed=3/weights.safetensors r/rival/seed=3/weights.safetensors && echo same)" same

# --- again: nothing to do; more seeds
again=$("$train" race tiny.ini --seeds 1-4 --gate 40 --against rival.ini "${short[@]}" --run-dir r 2>lines)
check "again: starts nothing" "$(grep -c '^run' lines)" 0
check "again: the same lines" "$again" "$output"
"$train" race tiny.ini --seeds 1-5 --gate 99 "${short[@]}" --run-dir r >out 2>lines
check "another seed: runs" "$(grep -c '^run' lines)" 1
check "a gate that is too high" "$(grep -c 'not shown to be above 99 %' out)" 1

# --- a run that was interrupted has no time of its process
long=(--set device.type=cpu --set train.epochs=400 --set checkpoint.every_updates=20 --set checkpoint.every_epochs=0)
"$train" race tiny.ini --seeds 1 "${long[@]}" --run-dir k >out 2>&1 &
pid=$!
for _ in $(seq 600); do
    [ -e k/tiny/seed=1/checkpoints ] && [ -n "$(ls k/tiny/seed=1/checkpoints)" ] && break
    sleep 0.05
done
kill -TERM $pid
wait $pid
check "stopped: exit" $? 75
"$train" race tiny.ini --seeds 1 "${long[@]}" --run-dir k >out 2>&1
check "it goes on: exit" $? 0
check "it goes on: no time of the process" "$(grep -c 'of the 0 runs that nothing interrupted' out)" 1

# --- other data
sed 's/^train_samples = .*/train_samples = 200/' rival.ini >other.ini
"$train" race tiny.ini --seeds 1 --against other.ini "${short[@]}" --run-dir other >out 2>lines
check "other data: a warning" "$? $(grep -c 'tiny and other have different data' lines)" "0 1"

# --- refused
refused "no seeds" 2 "--seeds 1-40" "$train" race tiny.ini
refused "a number of seeds" 2 "--seeds 1-40 has 40" "$train" race tiny.ini --seeds 40
refused "two values" 2 "train sweep compares several" "$train" race tiny.ini --seeds 1-2 --set optimizer.lr=0.1,0.2
refused "a rival of the same name" 2 "give one file another name" "$train" race tiny.ini --seeds 1-2 --against tiny.ini
refused "a rival that is not there" 2 "nope.ini" "$train" race tiny.ini --seeds 1-2 --against nope.ini
refused "a gate beyond 100" 2 "a number from 0 to 100" "$train" race tiny.ini --seeds 1-2 --gate 940
finish
