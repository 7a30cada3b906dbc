#!/usr/bin/env bash
# train sweep --share: updates that settings share are computed once, with the bits of runs alone; kills; refusals.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

says() {
    case $3 in
    *"$2"*) check "$1" yes yes ;;
    *) check "$1" "$3" "...$2..." ;;
    esac
}
# Of each run of a sweep: folder, updates, loss of training and test accuracy, hash of the weights.
results() {
    local run
    for run in "$1"/*seed=*; do
        case $run in */until=*) continue ;; esac
        echo "${run#*/} $(field "$run" updates) $(field "$run" train_loss) $(field "$run" test_accuracy) $(field "$run" weights_hash)"
    done
}
# Updates that the runs and stems of a sweep have computed themselves.
computed() {
    local run sum=0 from
    for run in "$1"/*seed=*; do
        from=$(field "$run" resumed_at_update 2>/dev/null)
        sum=$((sum + $(field "$run" updates) - ${from:-0}))
    done
    echo $sum
}
basic=(--set device.type=cpu --set log.every=50)

# shares KIND WORK UPDATES STEMS SET...: a sweep with and without --share. An epoch has 8 updates. WORK is promised, UPDATES are computed.
shares() {
    local kind=$1 work=$2 updates=$3 stems=$4 sweep
    shift 4
    sweep=("$train" sweep tiny.ini "${basic[@]}" "$@")
    "${sweep[@]}" --run-dir "$kind-alone" >/dev/null 2>&1
    check "$kind, alone: exit" $? 0
    says "$kind: promised" "for the work of $work (--share)" "$("${sweep[@]}" --share --dry-run --run-dir "$kind" 2>&1)"
    "${sweep[@]}" --share --run-dir "$kind" --jobs 2 >out 2>lines
    check "$kind: exit" $? 0
    check "$kind: results" "$(results "$kind")" "$(results "$kind-alone")"
    check "$kind: computed" "$(computed "$kind")" "$updates"
    check "$kind: stems" "$(find "$kind" -maxdepth 1 -name 'until=*' | wc -l)" "$stems"
    check "$kind: the table" "$(cut -d , -f 1-6 "$kind/settings.csv")" "$(cut -d , -f 1-6 "$kind-alone/settings.csv")"
}
# All share 10 epochs, two of them 30: 80 + 240 + 160 + 2 * 80 updates instead of 3 * 320
shares milestones 2.0 640 2 --set train.epochs=40 --set schedule.kind=step --set 'schedule.milestones="10","20,30","20,35"'
# 10 epochs of 10, 20 and 30; then 10 of the last two: the longest run's 240 updates instead of 480
shares longer 1.5 240 2 --set train.epochs=10,20,30
# The warm-up of 10 epochs, and the update after it: 81 + 2 * 159 updates instead of 2 * 240, for each of two seeds
shares ends 3.3 798 2 --seeds 1-2 --set train.epochs=30 --set schedule.kind=cosine --set schedule.warmup_epochs=10 --set schedule.final=0,0.2
# 20 epochs; 160 + 80 + 80 updates instead of 2 * 240
shares averages 1.3 320 1 --set train.epochs=30 --set average.kind=ema --set average.start=20,25
# Learning rates differ from the start; settings of one rate share 10 epochs: 2 * (80 + 2 * 80) updates instead of 4 * 160
shares rates 3.0 480 2 --set train.epochs=20 --set optimizer.lr=0.01,0.05 --set schedule.kind=step --set 'schedule.milestones="10","15"'

# --- proof; the same command again; runs that are complete need no stem
sweep=("$train" sweep tiny.ini "${basic[@]}" --set "train.epochs=10,20,30" --share)
"${sweep[@]}" --prove --run-dir longer >out 2>lines
check "proof: exit" $? 0
check "proof: runs" "$(grep -c '^proved    epochs=[13]0,seed=1: the same bits alone' lines)" 2
check "again: starts nothing" "$("${sweep[@]}" --run-dir longer 2>&1 | grep -c 'test accuracy .*%, \|^shared')" 0
"${sweep[@]}" --run-dir longer-alone >out 2>lines
check "complete without stems: exit" $? 0
check "complete without stems: nothing is made" "$(ls -d longer-alone/until=* 2>/dev/null)" ""
says "a run's parts name the stem's process" "update 80" "$(grep '^; ' "longer/epochs=20,seed=1/config.ini")"
# An audit looks for the events of a run alone.
cp -r "longer/epochs=30,seed=1" longer/audited
audit() { "$train" audit longer/audited --all --quiet >out 2>&1; }
audit
check "audit: exit" $? 0
says "audit: of two runs" "metrics.jsonl begins after update 160: the folder of another run has the earlier events" "$(cat out)"
sed -i '/"event":"train","update":200,/d' longer/audited/metrics.jsonl
audit
check "audit, an event is lost: exit" $? 6
check "audit, an event is lost" "$(grep '^ ' out)" "    metrics.jsonl: the train event of update 200 is missing"
rm -r longer/audited
# A run that differs is named: a stem of another rate.
rm -rf longer/alone
"$train" tiny.ini "${basic[@]}" --quiet --set train.epochs=30 --set optimizer.lr=0.01 --run-dir other
cp other/summary.json "longer/epochs=30,seed=1/summary.json"
refused "a proof that fails" 1 "epochs=30,seed=1: its weights are" "${sweep[@]}" --prove --run-dir longer

# --- runs together, and kills at random moments
sweep=("$train" sweep tiny.ini "${basic[@]}" --set train.epochs=40 --set schedule.kind=step
    --set 'schedule.milestones="10","20,30","20,35"' --share --together 2)
for _ in 1 2 3 4 5; do
    setsid "${sweep[@]}" --run-dir broken >out 2>lines &
    pid=$!
    sleep "0.$((RANDOM % 10))"
    kill -9 -- -$pid 2>/dev/null
    wait $pid 2>/dev/null
done
"${sweep[@]}" --run-dir broken >out 2>lines
check "together, after kills: exit" $? 0
check "together, after kills: results" "$(results broken)" "$(results milestones-alone)"

# --- refusals
no() { refused "$1" "$2" "$3" "$train" sweep tiny.ini --run-dir none "${@:4}"; }
no "nothing to share" 2 "these settings share no updates" --set optimizer.lr=0.1,0.2 --share
no "data" 2 "--share: not with several values of data.train_samples" --set data.train_samples=100,200 --share
no "patience" 2 "--share: not with train.patience" --set train.epochs=10,20 --set train.patience=3 --set data.validation_fraction=0.1 --share
no "a task" 2 "--share: not with --task" --set train.epochs=10,20 --share --task 1
no "proof of nothing" 2 "--prove: only with --share" --set train.epochs=10,20 --prove
no "proof of no run" 2 "--prove: not with --dry-run" --set train.epochs=10,20 --share --prove --dry-run
says "ranks" "--share: runs wait" "$(ranks 2 60 "$train" sweep tiny.ini --set train.epochs=10,20 --share --together 2 --run-dir none 2>&1)"
finish
