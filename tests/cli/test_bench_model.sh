# `train bench --model`: complete, the sums of its parts, monotone, a layer counted by hand; the same program as the emulated card's;
# nothing is written; refusals.
tests=$(cd "$(dirname "$0")" && pwd)
models=$PWD/configs/models
. "$tests/common.sh" "$1"

consistent() { # WHAT ARGUMENTS OF check_cost.py
    local what=$1 seen
    shift
    seen=$(python3 "$tests/check_cost.py" "$@" 2>&1)
    check "$what" "$seen" ""
}
model() { # OUT ARGUMENTS: JSON into OUT.json, tables into OUT.txt
    local out=$1
    shift
    "$train" bench tiny.ini --model "$@" --json >"$out.json" 2>"$out.log" &&
        "$train" bench tiny.ini --model "$@" >"$out.txt" 2>>"$out.log"
}
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3"
    exit 77
fi

mkdir empty
mv tiny.ini net.ini empty
cd empty || exit 1
model h200 h200 --scaling both --ranks 1,4,8,2x8
check "h200: exit" $? 0
consistent "h200: sums of parts" h200.json h200.txt
check "nothing else is written" "$(ls | tr '\n' ' ')" "h200.json h200.log h200.txt net.ini tiny.ini "
check "h200: places" "$(python3 -c 'import json; print([(p["ranks"], p["hosts"], p["scaling"]) for p in json.load(open("h200.json"))["points"]])')" \
    "[(1, 1, 'strong'), (4, 1, 'strong'), (8, 1, 'strong'), (16, 2, 'strong'), (1, 1, 'weak'), (4, 1, 'weak'), (8, 1, 'weak'), (16, 2, 'weak')]"
# H200 is H100 with more bandwidth.
for device in h100 h200; do
    model "large-$device" "$device" --set train.global_batch=65536 --set train.micro_batch=65536
done
consistent "more bandwidth is never slower" large-h200.json --slower large-h100.json
for device in a100 b200 4090; do
    model "$device" "$device" --set train.precision=bf16 --set train.micro_batch=16
    check "$device: exit" $? 0
    consistent "$device: sums of parts, with accumulation" "$device.json" "$device.txt"
done
check "places up to 1024, while the batch divides" "$(grep -c '"scaling":' b200.json)" 2
model weak b200 --scaling weak
check "weak scaling up to 1024" "$(grep -c '"scaling":' weak.json)" 11
model ordered h100 --set run.deterministic=true --ranks 1,2
consistent "ordered mode" ordered.json ordered.txt
model wire h100 --set dist.reduce_dtype=bf16 --ranks 1,2,8
consistent "sums in bf16" wire.json wire.txt
model sync h100 --set train.sync_batchnorm=true --ranks 1,2,8
consistent "synchronised batch norm" sync.json sync.txt

# conv1 by hand: 32 pictures of 1 channel, 12x12, to 8 channels by 3x3 with bias: 2*32*8*144*9 FLOP; 1 and 8 channels lie as 8, fp32:
# src 32*144*8*4, weight 8*8*9*4, bias 8*4, dst 32*144*8*4 bytes
check "a convolution counted by hand" \
    "$(python3 -c '
import json
r = next(r for r in json.load(open("h200.json"))["instructions"] if r["operator"] == "conv forward")
print(r["flops"], r["memory_bytes"] + r["cache_bytes"], r["launches"])')" "663552 297280 2"

check "what comes before and after the program" "$(python3 -c '
import json
print([r["operator"] for r in json.load(open("h200.json"))["instructions"]
       if r["layer"] in ("update", "gradients", "optimizer")])')" \
    "['update begin', 'update control', 'sgd']"

# The emulated card compiles the same program.
plugin=${train%/*}/emulated/lockstep_cuda.so
if [ -e "$plugin" ]; then
    LOCKSTEP_CUDA_PLUGIN=$plugin "$train" tiny.ini --set device.type=cuda --set device.tf32=false --dry-run >plan.txt 2>plan.log
    check "dry run on the emulated card: exit" $? 0
    check "the emulated card's program" "$(python3 -c '
import json
print([(r["operator"], r["layer"]) for r in json.load(open("h200.json"))["instructions"]
       if r["layer"] not in ("update", "gradients", "optimizer")])')" \
        "$(awk '/^program/ { programs++ } programs == 1 && $1 ~ /^[0-9]+$/' plan.txt | python3 -c '
import re, sys
print([tuple(re.match(r" *\d+  (.{26}) (.{20})", line).group(i).strip() for i in (1, 2)) for line in sys.stdin])')"
    # Batch norm's launches, and which of them wait for a whole grid, are by one rule.
    resnet20="--set model.file=$models/resnet20.ini --set data.shape=3x32x32 --set train.global_batch=128 --set train.precision=bf16"
    # shellcheck disable=SC2086 # several words
    while read -r card sm units several; do
        model "norms-$card" "$card" $resnet20 $several
        LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATION="sm=$sm,multiprocessors=$units,memory=64G,protect=0" \
            "$train" tiny.ini --set device.type=cuda --dry-run $resnet20 $several >"norms-$card.plan" 2>&1
        check "$card: batch norms as the emulated card launches them" "$(python3 -c '
import json, sys
print([(r["layer"], r["operator"], {(2, 0): "own, 2 passes", (1, 0): "own, 1 pass", (1, 1): "own, 1 pass, grid"}[r["launches"], r["grid_waits"]])
       for r in json.load(open(sys.argv[1]))["instructions"] if r["operator"].startswith("batch norm")])' "norms-$card.json")" \
            "$(awk '/^program/ { programs++ } programs == 1 && /batch norm/' "norms-$card.plan" | python3 -c '
import re, sys
rows = [re.match(r" *\d+  (.{26}) (.{20}) (.{32})", line) for line in sys.stdin]
print([(r.group(2).strip(), r.group(1).strip(), r.group(3).strip()) for r in rows])')"
    done <<END
h200 90 132
a100 80 108
4090 89 128
h100 90 132 --set run.deterministic=true
END
    check "batch norms of resnet20 by a grid" "$(for card in h200 a100 4090 h100; do grep -c '"grid_waits":.*1' norms-$card.json; done | xargs)" "42 42 38 0" # two gradients of the first stage do not fit on a 4090
    # shellcheck disable=SC2086 # several words
    LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATION="devices=2,sm=90,multiprocessors=132,memory=64G,protect=0" \
        ranks 2 60 "$train" tiny.ini --set device.type=cuda --dry-run $resnet20 >ranks.plan 2>&1
    check "two ranks: no grid beside sums" "$(grep -c 'own, 2 passes' ranks.plan) $(grep -c 'pass, grid' ranks.plan)" "28 0"
else
    echo "skipped: the emulated card's program: no emulated CUDA device was built"
fi

model cpu cpu
check "cpu: exit" $? 0
consistent "cpu: sums of parts" cpu.json cpu.txt
check "cpu: algorithms of its plans" "$(python3 -c '
import json
print(all(r["algorithm"] for r in json.load(open("cpu.json"))["instructions"]))')" True

refused "an unknown device" 2 "--model h300: no such device (did you mean h100?); there are h100, h200, a100, b200, 4090, and cpu" \
    "$train" bench tiny.ini --model h300
refused "a list of ranks" 2 "--ranks 8x: expected numbers of GPUs" "$train" bench tiny.ini --model h100 --ranks 8x
refused "a batch that does not divide" 2 "32" "$train" bench tiny.ini --model h100 --ranks 1,5
refused "ranks without a model" 2 "--ranks: only with --model DEVICE" "$train" bench tiny.ini --ranks 1,2
refused "JSON without a model" 2 "--json: only with --model DEVICE" "$train" bench tiny.ini --json
refused "with --layers" 2 "it goes without --layers" "$train" bench tiny.ini --model h100 --layers
refused "with --sweep" 2 "it goes without --sweep" "$train" bench tiny.ini --model h100 --sweep ranks=1,2
refused "with --run-dir" 2 "it goes without --run-dir" "$train" bench tiny.ini --model h100 --run-dir out
refused "ranks of the cpu" 2 "bench --model cpu is of one rank" "$train" bench tiny.ini --model cpu --ranks 1,2
refused "fp16 on the cpu" 2 "train.precision = fp32 or bf16" "$train" bench tiny.ini --model cpu --set train.precision=fp16
refused "several ranks" 2 "start it without mpirun" ranks 2 20 "$train" bench tiny.ini --model h100
finish
