#!/usr/bin/env bash
# train sweep: runs, going on after kills, tasks, tables, refusals.
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
# Without times: options, n, mean, deviation, interval; of a run without seconds and images/s.
settings() { cut -d , -f 1-6 "$1/settings.csv"; }
hashes() { sed 's/"[^"]*"//' "$1/runs.csv" | cut -d , -f 3-8,13; }
setting=(--set "optimizer.lr=0.01,5e-2" --set device.type=cpu --set log.every=20 --set checkpoint.every_updates=40
    --set checkpoint.every_epochs=0)
sweep=("$train" sweep tiny.ini --seeds 1-3 "${setting[@]}" --set train.epochs=60)

# --- undisturbed, two at a time
output=$("${sweep[@]}" --run-dir whole --jobs 2 2>lines)
check "a sweep: exit" $? 0
says "a sweep: table" "lr = 0.05  3 " "$output"
says "a sweep: comparison" "3 pairs" "$output"
check "a sweep: lines" "$(grep -c ' of 6  lr=0.0[15],seed=[123]: test accuracy' lines)" 6
check "a sweep: runs" "$(cut -d , -f 1,2,5,6 whole/runs.csv | grep -c 'complete$\|seed=')" 6
check "a sweep: no run in any other folder" "$(ls)" "lines
net.ini
tiny.ini
whole"
# By hand.
"$train" tiny.ini --quiet --set optimizer.lr=0.05 --set device.type=cpu --set train.epochs=60 --set run.seed=2 --run-dir hand
check "a run has the bits of one by hand" "$(cmp "whole/lr=0.05,seed=2/weights.safetensors" hand/weights.safetensors && echo same)" same
rm whole/settings.csv
output=$("${sweep[@]}" --run-dir whole 2>lines)
check "again, when all is complete: exit" $? 0
check "again, when all is complete: starts nothing" "$(grep -c 'test accuracy' lines)" 0
check "again, when all is complete: log" "$(grep -c '^lockstep ' "whole/lr=0.05,seed=2/log.txt")" 1
check "the table alone" "$("${sweep[@]}" --run-dir whole --table 2>/dev/null)" "$output"

rm whole/settings.csv && mkdir whole/settings.csv # so it cannot be written
check "the table of a folder that cannot be written" "$("${sweep[@]}" --run-dir whole --table 2>lines)" "$output"
check "the table of a folder that cannot be written: why" "$(grep -c '^error: whole/settings.csv' lines)" 1
rm -r whole/settings.csv
"${sweep[@]}" --run-dir whole --table >out 2>&1
"${sweep[@]}" --run-dir whole --dry-run >/dev/full 2>lines
check "a list that cannot be written: exit" $? 7
# A damaged summary is named. The other runs go on, and without it so does this one.
mv "whole/lr=0.01,seed=1/summary.json" kept
echo '{' >"whole/lr=0.01,seed=1/summary.json"
says "a damaged summary: the table" "5 of 6 runs are complete" "$("${sweep[@]}" --run-dir whole --table 2>lines)"
says "a damaged summary: what to do" "warning: whole/lr=0.01,seed=1/summary.json: no valid JSON at byte 2 of 2: without this file" "$(cat lines)"
"${sweep[@]}" --run-dir whole >out 2>lines
check "a damaged summary: exit" $? 7
says "a damaged summary: the run" "5 of 6 runs are complete, 1 failed: lr=0.01,seed=1 failed (exit 7)" "$(cat lines)"
rm "whole/lr=0.01,seed=1/summary.json"
"${sweep[@]}" --run-dir whole >out 2>lines
check "without the summary: exit" $? 0
check "without the summary: the same weights" "$(field "whole/lr=0.01,seed=1" weights_hash)" "$(field kept weights_hash)"
rm kept

# --- killed three times
# A process group of its own, of which the sweep is the first.
begin() { setsid "${sweep[@]}" --run-dir broken >out 2>lines 8<&- & pid=$!; }
children() { cat "/proc/$pid/task/$pid/children" 2>/dev/null; }
# The last run waits for this script, so the sweep does not end before it is killed.
mkdir -p "broken/lr=0.05,seed=3"
exec 8<"broken/lr=0.05,seed=3"
flock 8
begin
eventually under_way "broken/lr=0.01,seed=1"
children >pids
kill -9 $pid
wait $pid 2>/dev/null
none_left pids
begin
eventually under_way "broken/lr=0.05,seed=1"
children >pids
kill -9 -- -$pid
wait $pid 2>/dev/null
none_left pids
begin
eventually under_way "broken/lr=0.01,seed=2"
children >pids
kill -TERM $pid
wait $pid
check "SIGTERM: exit" $? 75
says "SIGTERM: message" "runs are complete; the same command goes on" "$(cat lines)"
none_left pids
exec 8<&-
"${sweep[@]}" --run-dir broken >out 2>lines
check "goes on to the end: exit" $? 0
check "the table of a broken sweep is that of the undisturbed one" "$(settings broken)" "$(settings whole)"
check "the runs of a broken sweep are those of the undisturbed one" "$(hashes broken)" "$(hashes whole)"
for run in whole/*=*; do
    "$train" compare "$run" "broken/${run#whole/}" >out 2>&1
    check "compare: $run" $? 0
done
says "a run went on from its checkpoint" "resumed   after update" "$(cat broken/*/log.txt)"

# --- a second SIGINT
# A shell's background job ignores SIGINT, and so does what it starts.
setsid python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])' \
    "$train" sweep tiny.ini --seeds 4-5 "${setting[@]}" --set train.epochs=1000000 --run-dir endless >out 2>lines &
pid=$!
eventually under_way "endless/lr=0.01,seed=4"
children | tr -d ' ' >pids
kill -STOP "$(cat pids)" # it cannot save
kill -INT $pid
eventually grep -q "SIGINT: 1 run under way will save and end" lines
kill -INT $pid
wait $pid 2>/dev/null
check "a second SIGINT: exit" $? 130
none_left pids

# --- two at once
exec 9<broken
flock -n 9 || exit 1
refused "two at once" 2 "another train sweep is at work in it" "${sweep[@]}" --run-dir broken
exec 9<&-

# --- tasks: two of them at the same time, then all together; more seeds leave the numbers as they are
small=("$train" sweep tiny.ini --set "optimizer.lr=0.01,0.05" --set device.type=cpu --run-dir tasks)
"${small[@]}" --seeds 1-2 --task 2 >out2 2>&1 &
second=$!
"${small[@]}" --seeds 1-2 --task 3 >out3 2>&1
check "a task: exit" $? 0
wait $second
check "a task beside it: exit" $? 0
check "tasks: which" "$(cd tasks && echo *seed*)" "lr=0.01,seed=2 lr=0.05,seed=1"
says "a task's lines are its own" "completed: test accuracy" "$(cat out3)"
check "a complete task: exit" "$("${small[@]}" --seeds 1-3 --task 2 >out 2>&1; echo $?)" 0
says "a complete task" "is complete" "$(cat out)"
says "a table before the end" "2 of 4 runs are complete" "$("${small[@]}" --seeds 1-2 --table 2>/dev/null)"
check "runs and their states" "$("${small[@]}" --seeds 1-2 --dry-run 2>/dev/null | cut -f 1,2 | tr '\n\t' ' :')" \
    "1:new 2:complete 3:complete 4:new "
ranks 2 60 "${small[@]}" --seeds 1-2 --task 4 >out 2>&1
check "a task of two ranks: exit" $? 0
check "a task of two ranks" "$(field "tasks/lr=0.05,seed=2" world_size)" 2
refused "a task too many" 2 "--task 5: the sweep has 4 runs, counted from 1" "${small[@]}" --seeds 1-2 --task 5
refused "no task" 2 "--task 0: a whole number from 1" "${small[@]}" --seeds 1-2 --task 0
refused "a task and the table" 2 "--task 1: with --table" "${small[@]}" --seeds 1-2 --task 1 --table
says "two ranks without a task" "train sweep starts its runs itself" "$(ranks 2 60 "${small[@]}" --seeds 1-2 2>&1)"

# --- a run that SIGKILL ends: the reason is said as far as it is known
mkdir -p root/proc/self root/sys/fs/cgroup
echo "0::/" >root/proc/self/cgroup
killed_under_way() { under_way "$(echo killed/*seed=1)"; }
# ended_by_kill WHAT COUNT_BEFORE COUNT_AFTER TEXT: counts of the kernel, "" where it shows none
ended_by_kill() {
    rm -rf killed root/sys/fs/cgroup/memory.events
    [ -z "$2" ] || echo "oom_kill $2" >root/sys/fs/cgroup/memory.events
    LOCKSTEP_SYS_ROOT=$PWD/root "$train" sweep tiny.ini --seeds 1-1 --set optimizer.lr=0.01 --set device.type=cpu \
        --set train.epochs=1000000 --run-dir killed >out 2>lines &
    pid=$!
    eventually killed_under_way
    [ -z "$3" ] || echo "oom_kill $3" >root/sys/fs/cgroup/memory.events
    # shellcheck disable=SC2046 # one number each
    kill -KILL $(children)
    wait $pid
    check "$1: exit" $? 4
    says "$1" "ended by signal 9 (Killed): $4" "$(cat lines)"
}
ended_by_kill "killed, nothing is known" "" "" "by a person or a program, or by the kernel for lack of memory"
ended_by_kill "killed, no lack of memory" 3 3 "by a person or a program; the kernel has ended no process of this group"
ended_by_kill "killed for lack of memory" 3 4 "meanwhile the kernel ended a process of this group for lack of memory"

# --- a run that fails does not stop the others
output=$("$train" sweep tiny.ini --seeds 1-2 --set model.file='"net.ini","no.ini"' --run-dir failing 2>&1)
check "a network that is missing: exit" $? 2
refused "a network that is missing: --dry-run" 2 "no.ini: " "$train" sweep tiny.ini --set model.file='"net.ini","no.ini"' --run-dir failing --dry-run
check "a network that is missing: nothing is made" "$(ls -d failing 2>/dev/null)" ""
fails=("$train" sweep tiny.ini --seeds 1-4 --set device.type=cpu)
output=$("${fails[@]}" --set 'model.init="","none"' --run-dir failing 2>&1)
check "runs that fail: exit" $? 2
says "runs that fail: which" "4 of 8 runs are complete, 4 failed: init=none,seed=1 failed (exit 2): none" "$output"
says "runs that fail: the table of the others" "init = none  0" "$output"
"${fails[@]}" --set optimizer.lr=0.01,1000 --set optimizer.weight_decay=1 --set train.epochs=20 --run-dir failing3 >/dev/null 2>&1
check "runs that are not finite: exit" $? 6
check "runs that are not finite: have begun" "$(grep -c '1000,[1-4],begun,,,,,,,,$' failing3/runs.csv)" 4
check "runs that are not finite: a field for each column" "$(sed 's/"[^"]*"//' failing3/runs.csv | tr -cd ',\n' | sort -u | wc -l)" 1
cp failing3/lr=0.01,seed=1/weights.safetensors first.safetensors
gone=("$train" sweep tiny.ini --set device.type=cpu --set model.init=first.safetensors --run-dir gone)
"${gone[@]}" --seeds 1-2 >/dev/null 2>&1
rm first.safetensors
says "first weights that are gone: only a new run fails" "2 of 3 runs are complete, 1 failed: seed=3 failed (exit 2): first.safetensors: is not there" \
    "$("${gone[@]}" --seeds 1-3 2>&1)"
output=$("${fails[@]}" --set 'model.init="none"' --run-dir failing2 2>&1)
check "all runs fail: exit" $? 2
says "all runs fail: not all are tried" "0 of 4 runs are complete, 3 failed, and no more were started" "$output"

# --- names
names() { "$train" sweep tiny.ini --dry-run --run-dir n "$@" 2>/dev/null | sed 's/.*--run-dir //'; }
check "names of two options" "$(names --set optimizer.lr=0.1,0.2 --set optimizer.momentum=0.5,.9 --seeds 7 | tr '\n' ' ')" \
    "n/lr=0.1,momentum=0.5,seed=7 n/lr=0.1,momentum=0.9,seed=7 n/lr=0.2,momentum=0.5,seed=7 n/lr=0.2,momentum=0.9,seed=7 "
check "names of lists" "$(names --set schedule.kind=step --set 'schedule.milestones="2, 4","3"' | sed 's/~[0-9a-f]*/~H/' | tr '\n' ' ')" \
    "n/milestones=2,-4~H,seed=1 n/milestones=3,seed=1 "
check "one value is common to all" "$(names --set optimizer.lr=0.1 --seeds 1,3-4 | tr '\n' ' ')" "n/seed=1 n/seed=3 n/seed=4 "
check "a command of the list trains that run" "$("$train" sweep tiny.ini --dry-run --run-dir n --set 'data.mean="0.25"' --seeds 2 2>/dev/null | cut -f 3)" \
    "train tiny.ini --set data.mean=0.25 --set run.seed=2 --set run.resume=auto --run-dir n/seed=2"

# --- the columns of the table stand below each other, whatever the letters
cp net.ini ünét.ini
output=$("$train" sweep tiny.ini --set 'model.file="net.ini","ünét.ini"' --run-dir letters 2>/dev/null)
at() { sed -n "$1s/%.*//p" <<<"$output" | LC_ALL=C.UTF-8 wc -m; }
check "columns below letters of two bytes" "$(at 2)" "$(at 3)"

# --- refusals
no() { refused "$1" "$2" "$3" "$train" sweep tiny.ini --run-dir none "${@:4}"; }
no "an unknown option" 2 "no such key in [optimizer]; did you mean optimizer.momentum?" --set optimizer.momentun=1,2
no "a wrong value" 2 "--set optimizer.lr=x: expected a number" --set optimizer.lr=0.1,x
no "a value twice" 2 "the value 0.1 stands there twice" --set optimizer.lr=0.1,1e-1
no "no value" 2 "value 2 is empty" --set optimizer.lr=0.1,
no "an option twice" 2 "optimizer.lr is set twice" --set optimizer.lr=0.1 --set optimizer.lr=0.2
no "a list without quotes" 2 "is this one value of schedule.milestones, or several?" --set schedule.milestones=2,4
no "a quote that does not end" 2 'begins with " and does not end' --set 'schedule.milestones="2,4'
no "seeds by --set" 2 "given by --seeds" --set run.seed=1,2
no "a name" 2 "--run-dir names its folder" --set run.name=x
no "seeds that are none" 2 "as in 1-25 or 1-5,9" --seeds 1-
no "seeds backwards" 2 "as in 1-25 or 1-5,9" --seeds 5-1
no "a seed twice" 2 "3 stands there twice" --seeds 1-5,3
no "too many runs" 2 "a sweep has 4096 runs at most" --seeds 1-5000
no "an option that nothing reads" 2 "no run of the sweep would read it: optimizer.beta1" --set optimizer.beta1=0.8,0.9
no "an impossible combination" 2 "micro_batch = 64" --set train.micro_batch=0,64 --set train.global_batch=32
no "a text option without a value" 2 "--set model.init: expected section.key=value" --set model.init
check "refusals make nothing" "$([ ! -e none ] || echo made)" ""
refused "another configuration in its place" 2 "holds a run with another configuration (train.epochs 60, now 61)" \
    "$train" sweep tiny.ini --seeds 1 "${setting[@]}" --set train.epochs=61 --set log.progress=off --run-dir whole
refused "another configuration, other seeds" 2 "lr=0.01,seed=1: holds a run with another configuration (train.epochs 60, now 61)" \
    "$train" sweep tiny.ini --seeds 7 "${setting[@]}" --set train.epochs=61 --set log.progress=off --run-dir whole
refused "other options: --dry-run" 2 "holds a sweep over other options" "$train" sweep tiny.ini --set optimizer.momentum=0.1,0.2 --run-dir whole --dry-run
refused "other options" 2 "holds a sweep over other options" "$train" sweep tiny.ini --seeds 9 --set optimizer.momentum=0.1,0.2 --run-dir whole
echo text >file
refused "a file in its place" 2 "--run-dir file: is a file" "$train" sweep tiny.ini --seeds 1-2 --run-dir file
refused "a race: a file in its place" 2 "is a file, or is below one" "$train" race tiny.ini --seeds 1-2 --run-dir file
for words in "audit whole" "compare whole hand" "compare hand whole" "metrics whole" "verdict whole" "ckpt show whole" "ckpt verify whole" \
    "predict whole file" "eval whole" "export whole x.c"; do
    # shellcheck disable=SC2086
    refused "a sweep's folder: $words" 2 "whole: is the folder of a sweep or race, whose runs are in folders in it; expected " "$train" $words
done
check "... but report shows its runs" "$("$train" report whole --quiet -o sweep.html 2>&1; echo $?)" 0
rm file sweep.html
mkdir other && cp hand/run.json other
refused "a run's folder" 2 "holds a run.json, and no sweep" "$train" sweep tiny.ini --seeds 1-2 --run-dir other
echo >>net.ini
refused "another network: --dry-run" 2 "is not what it was when the sweep began" "${sweep[@]}" --run-dir whole --dry-run
refused "another network" 2 "is not what it was when the sweep began" "${sweep[@]}" --run-dir whole
finish
