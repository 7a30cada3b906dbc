#!/usr/bin/env bash
# train sweep --together: tables as of runs one after the other; kills, signals, threads and memory, a
# GPU with too little memory, refusals.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

says() {
    case $3 in
    *"$2"*) check "$1" yes yes ;;
    *) check "$1" "$3" "...$2..." ;;
    esac
}
# Without times: options, n, mean, deviation, interval; of a run without seconds and images/s.
settings() { cut -d , -f 1-6 "$1/settings.csv"; }
hashes() { sed 's/"[^"]*"//' "$1/runs.csv" | cut -d , -f 3-8,13; }
sweep=("$train" sweep tiny.ini --seeds 1-4 --set "optimizer.lr=0.01,0.05" --set device.type=cpu --set log.every=20
    --set checkpoint.every_updates=40 --set checkpoint.every_epochs=0 --set train.epochs=60)

# --- one after the other, and together
"${sweep[@]}" --run-dir whole >/dev/null 2>&1
check "one after the other: exit" $? 0
output=$("${sweep[@]}" --together 3 --run-dir beside 2>lines)
check "together: exit" $? 0
says "together: table" "lr = 0.05  4 " "$output"
check "together: lines" "$(grep -c ' of 8  lr=0.0[15],seed=[1-4]: test accuracy' lines)" 8
check "together: nothing else on the terminal" "$(grep -cv ' of 8  \|^results\|^jobs\|^warning: lr=' lines)" 0
check "together: the table of runs one after the other" "$(settings beside)" "$(settings whole)"
check "together: the runs of runs one after the other" "$(hashes beside)" "$(hashes whole)"
check "together: a run's lines are in its folder" "$(cat beside/*/log.txt | grep -c '^lockstep \|completed: test accuracy')" 16
check "together: nothing in any other folder" "$(ls | tr '\n' ' ')" "beside lines net.ini tiny.ini whole "

# --- killed at random moments
begin() { setsid "${sweep[@]}" --together 3 --run-dir broken >out 2>lines & pid=$!; }
for _ in 1 2 3 4 5; do
    begin
    sleep "0.$((RANDOM % 10))"
    kill -9 -- -$pid 2>/dev/null
    wait $pid 2>/dev/null
done
"${sweep[@]}" --together 3 --run-dir broken >out 2>lines
check "after kills: exit" $? 0
check "after kills: the table" "$(settings broken)" "$(settings whole)"
check "after kills: the runs" "$(hashes broken)" "$(hashes whole)"

# --- ranks share the runs; the whole job is killed once
# The processes below a process.
below() {
    local child
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        echo "$child"
        below "$child"
    done
}
ranks 2 60 "${sweep[@]}" --together 2 --run-dir ranks >out 2>lines
check "two ranks: exit" $? 0
check "two ranks: the table" "$(settings ranks)" "$(settings whole)"
check "two ranks: the runs" "$(hashes ranks)" "$(hashes whole)"
check "two ranks: each run began once" "$(cat ranks/*/log.txt | grep -c '^lockstep ')" 8
rm -rf ranks
ranks 2 60 "${sweep[@]}" --together 2 --run-dir ranks >out 2>lines &
pid=$!
eventually under_way "ranks/lr=0.05,seed=1"
# shellcheck disable=SC2046 # one number each
kill -9 $(below $pid) 2>/dev/null
wait $pid 2>/dev/null
ranks 2 60 "${sweep[@]}" --together 2 --run-dir ranks >out 2>lines
check "two ranks, again: exit" $? 0
check "two ranks, again: the runs" "$(hashes ranks)" "$(hashes whole)"
output=$(ranks 2 60 "$train" sweep tiny.ini --seeds 1-4 --set 'model.init="none",""' --set device.type=cpu --together 2 --run-dir rankfail 2>&1)
check "two ranks, failures: exit" $? 2
says "two ranks, failures: all are counted" "4 of 8 runs are complete, 4 failed: init=none" "$output"

# --- signals: all runs save and end
long=("$train" sweep tiny.ini --seeds 1-4 --set device.type=cpu --set train.epochs=1000000 --together 2)
for signal in TERM USR1; do
    setsid "${long[@]}" --run-dir "asked$signal" >out 2>lines &
    pid=$!
    eventually under_way "asked$signal/seed=1"
    eventually under_way "asked$signal/seed=2"
    kill -$signal $pid
    wait $pid
    check "SIG$signal: exit" $? 75
    says "SIG$signal: message" "0 of 4 runs are complete; the same command goes on" "$(cat lines)"
    check "SIG$signal: both have saved" "$(cat "asked$signal"/*/log.txt | grep -c '^stopped by SIG')" 2
done

# --- finished runs leave no threads, files and memory behind (the address sanitizer keeps what is freed, by default 256 MB)
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=4"
setsid "$train" sweep tiny.ini --seeds 1-40 --set device.type=cpu --set train.epochs=20 --together 2 --run-dir many >out 2>lines &
pid=$!
complete() { [ "$(grep -c ': test accuracy' lines)" -ge "$1" ]; }
# Threads, open files and kilobytes of memory now.
now() { echo $(($(ls "/proc/$pid/task" | wc -l))) $(($(ls "/proc/$pid/fd" | wc -l))) "$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")"; }
eventually complete 5
read -r threads files memory <<<"$(now)"
eventually complete 35
kill -STOP $pid
read -r threads_later files_later memory_later <<<"$(now)"
kill -CONT $pid
wait $pid
check "many runs: exit" $? 0
check "many runs: threads ($threads, later $threads_later)" $((threads_later <= threads + 12)) 1
check "many runs: files ($files, later $files_later)" $((files_later <= files + 12)) 1
check "many runs: memory ($memory kB, later $memory_later)" $((memory_later <= memory + memory / 2)) 1

# --- the memory of a GPU has room for one run of three: the others begin again later
export LOCKSTEP_CUDA_PLUGIN=${train%/*}/emulated/lockstep_cuda.so
if [ -e "$LOCKSTEP_CUDA_PLUGIN" ]; then
    fits() { LOCKSTEP_EMULATION=memory=$1 "$train" sweep tiny.ini --seeds 1-3 --set device.type=cuda --set train.epochs=1 "${@:2}" >out 2>lines; }
    fits 64M --run-dir room
    fits 1536K --run-dir tight --together 3
    check "too little memory: exit" $? 0
    says "too little memory: what is said" "begins again later, and from now on 2 runs at a time: " "$(cat lines)"
    check "too little memory: the runs of runs one after the other" "$(hashes tight)" "$(hashes room)"
    fits 700K --run-dir none --together 3
    check "a run does not fit alone: exit" $? 4
    check "a run does not fit alone: message" "$(grep -c '^error: 0 of 3 runs are complete, 3 failed: seed=1 failed (exit 4): the run does not fit' lines)" 1
    rm -r none
else
    echo "skipped: memory of a GPU: this build has no emulated device"
fi
unset LOCKSTEP_CUDA_PLUGIN

# --- refusals
no() { refused "$1" "$2" "$3" "$train" sweep tiny.ini --run-dir none "${@:4}"; }
no "processes and together" 2 "--together 2: not with --jobs" --together 2 --jobs 2
no "a task and together" 2 "--together 2: not with --task" --together 2 --task 1
no "a table and together" 2 "--together 2: not with --table" --together 2 --table
no "no number" 2 "--together many: a whole number from 1 to 256, or auto" --together many
no "none" 2 "--together 0: a whole number from 1 to 256, or auto" --together 0
no "sizes by free memory" 2 "--together: train.micro_batch = auto would depend on" --together 2 --set device.type=cuda --set train.micro_batch=auto
no "too many" 2 "--together 257: a whole number" --together 257
check "refusals make nothing" "$(test -e none; echo $?)" 1
"$train" sweep tiny.ini --seeds 1-2 --set device.type=cpu --together auto --quiet --run-dir auto >out 2>&1
check "as many as there are cores: exit" $? 0
finish
