# `train --trace`: the file is complete and true to the run, for devices, ranks and modes; weights are the same bits without it.
report=$(cd "$(dirname "$0")/../.." && pwd)/scripts/trace_report.py
. "$(dirname "$0")/common.sh" "$1" || exit 1
checker=$(dirname "$train")/test_run_trace_file
export LOCKSTEP_CUDA_PLUGIN=${train%/*}/emulated/lockstep_cuda.so
have_cuda=1
[ -e "$LOCKSTEP_CUDA_PLUGIN" ] || have_cuda=0

# tiny.ini's network with batch norm: 4 trained tensors, in 2 buckets of 4096 bytes, the last one with the statistics. No short window.
sed '/^\[relu1\]/i [bn1]\nlayer = batchnorm2d' net.ini >bn.ini
sed -i 's/^file = .*/file = bn.ini/; s/^train_samples = .*/train_samples = 256/' tiny.ini

instructions() { # DEVICE
    "$train" tiny.ini --set device.type="$1" --dry-run 2>/dev/null | awk '/^program/ { p = 1 } /^$/ { p = 0 } p && $1 ~ /^[0-9]+$/' | wc -l
}

# run NAME RANKS OPTIONS...: NAME/ with and plain.NAME/ without a trace; NAME.json
run() {
    local name=$1 n=$2 launch=()
    shift 2
    [ "$n" = 1 ] || launch=(ranks "$n" 60)
    "${launch[@]}" "$train" tiny.ini --quiet --run-dir "$name" --trace "$name.json" "$@" >"$name.text" 2>&1
    check "$name: exit" $? 0
    check "$name: says nothing" "$(cat "$name.text")" ""
}

# file NAME DEVICE RANKS FIRST UPDATES MICRO_BATCHES BUCKETS: what NAME.json must hold
file() {
    local text
    text=$("$checker" "$1.json" "$3" "$4" "$5" "$(instructions "$2")" "$6" "$7" 2>&1 | head -n 20)
    check "$1: the trace" "$text" ""
}

same_weights() { # NAME RANKS OPTIONS...: the run without a trace gives the same
    local name=$1 n=$2 launch=()
    shift 2
    [ "$n" = 1 ] || launch=(ranks "$n" 60)
    "${launch[@]}" "$train" tiny.ini --quiet --run-dir "plain.$name" "$@" >/dev/null 2>&1
    check "$name: weights as without a trace" "$(cmp "$name/weights.safetensors" "plain.$name/weights.safetensors" && echo same)" same
}

for device in ref cpu; do
    run "$device" 1 --set device.type=$device
    file "$device" "$device" 1 5 11 1 0
done
same_weights cpu 1 --set device.type=cpu
accumulate="--set device.type=cpu --set train.micro_batch=8"
# shellcheck disable=SC2086 # options are several words
{
    run accumulated 1 $accumulate --trace-updates 0:3 --set data.workers=2
    file accumulated cpu 1 0 3 4 0
    small="--set device.type=cpu --set dist.bucket_bytes=4096 --set train.micro_batch=8"
    run two 2 $small --trace-updates 7:16
    file two cpu 2 7 9 2 2
    waits=$(grep '"name":"gradients"' two.json | grep -c '"cat":"waits"')
    check "two: waits for gradients are seen" "$((waits > 0))" 1
    run blocking 2 $small --trace-updates 7:16 --set dist.overlap=false
    file blocking cpu 2 7 9 2 2
    run ordered 2 $small --trace-updates 4:6 --set run.deterministic=true --set device.type=ref
    file ordered ref 2 4 2 2 2
    check "ordered: every rank's flag of every update" "$(grep -c '"name":"flags"' ordered.json)" 4
    same_weights ordered 2 $small --set run.deterministic=true --set device.type=ref
    if [ $have_cuda = 1 ]; then
        run cuda 1 --set device.type=cuda --set train.micro_batch=16 --trace-updates 3:9
        file cuda cuda 1 3 6 2 0
        same_weights cuda 1 --set device.type=cuda --set train.micro_batch=16
        run "cuda 2" 2 $small --set device.type=cuda --set device.share=true --set dist.backend=mpi --trace-updates 3:9
        file "cuda 2" cuda 2 3 6 2 2
        export LOCKSTEP_EMULATION=devices=2 # sums on the device's queues
        run nccl 2 $small --set device.type=cuda --set dist.backend=nccl --set run.deterministic=true --trace-updates 3:9
        file nccl cuda 2 3 6 2 3 # 64-bit integers: more buckets
        same_weights nccl 2 $small --set device.type=cuda --set dist.backend=nccl --set run.deterministic=true
    else
        echo "skipped: the emulated device was not built; it needs a C++ compiler"
    fi
}

if command -v python3 >/dev/null; then
    python3 "$report" two.json >report.text 2>&1
    check "report: exit" $? 0
    check "report: ranks" "$(grep -cE '^ +[01]( +[0-9.]+){6}' report.text)" 2
    check "report: compares with the counter" "$(grep -c "exposed communication, all updates" report.text)" 2
    python3 "$report" --json two.json >report.json &&
        text=$(python3 -c '
import json
for rank in json.load(open("report.json"))["two.json"]:
    m = rank["sum_ms"]
    print(rank["updates"], 0 < m["compute"] <= m["update"], 0 < m["sums"], m["overlapped"] <= m["sums"], 0 <= m["exposed"] <= m["update"])')
    check "report: figures fit together" "$text" "$(printf '9 True True True True\n9 True True True True')"
    python3 "$report" tiny.ini >report.text 2>&1
    check "report: of what is no trace" "$(($? > 0))" 1
else
    echo "skipped: the report; it needs python3"
fi
finish
