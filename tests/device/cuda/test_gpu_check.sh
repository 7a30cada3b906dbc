# scripts/gpu-check.sh without a card: its driver with stand-ins for slow items, killed at several moments; real items on the emulated card;
# refusals; what carry.sh says when it fails; bench/compare_pytorch_gpu.py with an arrangement that fails.
# Argument: the folder of the built programs.
set -u
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
bin=$(cd "$1" && pwd) || exit 1
plugin=$bin/emulated/lockstep_cuda.so
[ -e "$plugin" ] || { echo "skipped: $plugin is not there; it needs a C++ compiler when Lockstep is built"; exit 77; }
export LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATION=protect=0 PYTHONDONTWRITEBYTECODE=1
unset OUT PYTHON
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
check() { # WHAT GOT EXPECTED
    [ "$2" = "$3" ] && return
    printf 'FAILED %s: "%s", expected "%s"\n' "$1" "$2" "$3"
    failed=1
}

python3 tests/device/cuda/gpu_check.py || failed=1

# Real items, in two calls: the second one finds nothing left to do.
for call in first second; do
    timeout 1200 scripts/gpu-check.sh devices/found beside-cpu/lenet peers/all --minutes 60 --bin "$bin" --results "$work/results" \
        --from "$work/none" --python "$work/no-python" >"$work/$call" 2>&1
    check "$call call: exit" $? 0
done
check "first call" "$(grep -cE '^ok +(devices/found|beside-cpu/lenet) ' "$work/first")" 2
check "first call: no PyTorch" "$(grep -cE '^skipped +peers/all' "$work/first")" 1
check "second call: what was skipped is tried again, nothing else" "$(grep -cE '^(ok|failed|skipped|cut) ' "$work/second")" 1
check "the card is in the report" "$(head -n 1 "$work/results/report.md" | grep -c '^# Emulated GPU.*, lockstep ')" 1
check "both calls are in the record" "$(grep -c '"note": "machine"' "$work/results/record.jsonl")" 2

# A lease runs its own items in its own order; a second call measures nothing twice. Here there is neither PyTorch nor time for more.
timeout 1200 scripts/gpu-check.sh lease 2 --bin "$bin" --results "$work/lease" --from "$work/none" --python "$work/no-python" >"$work/log" 2>&1
check "lease 2: exit" $? 0
check "lease 2: its items" "$(grep -cE '^skipped +peers/all' "$work/log")" 1
for lease in 4 '' '1 2'; do
    # shellcheck disable=SC2086 # words
    scripts/gpu-check.sh lease $lease --bin "$bin" >"$work/log" 2>&1
    check "lease '$lease': exit" $? 2
    check "lease '$lease': says which there are" "$(grep -c "lease $lease: 1, 2, 3 is expected" "$work/log")" 1
done
python3 tests/device/cuda/carried_cifar.py || failed=1

scripts/gpu-check.sh nonsense >"$work/log" 2>&1
check "an unknown part: exit" $? 2
check "an unknown part: says which there are" "$(grep -c "unknown part 'nonsense'; parts are first, all, devices, " "$work/log")" 1
LOCKSTEP_CUDA_PLUGIN=/no/such/plugin.so scripts/gpu-check.sh devices --bin "$bin" --results "$work/none" >"$work/log" 2>&1
check "a program that finds no card: exit" $? 1
check "a program that finds no card: says why" "$(grep -c 'the program named by --bin is not used: .*/no/such/plugin.so' "$work/log")" 1
mkdir "$work/empty"
scripts/carry.sh results "$work/empty" >"$work/log" 2>&1
check "carry.sh: exit" $? 1
check "carry.sh: says why it failed" "$(grep -c "^carry.sh: '$work/empty' holds no record.jsonl" "$work/log")" 1

# PyTorch fails in every way, as there is none; Lockstep runs, and the next call runs nothing again.
compare() {
    timeout 1200 python3 bench/compare_pytorch_gpu.py --train "$bin/train" --device cpu --torch-device cpu --networks lenet:4:fp32 --rounds 1 \
        --updates 2 --arrangements 'pytorch eager,lockstep resident' --out "$work/peers.json" >"$work/table" 2>"$work/log"
}
if ! python3 -c 'import torch' 2>/dev/null; then
    compare
    check "peers without PyTorch: exit" $? 0
    check "peers without PyTorch: recorded" "$(grep -c '| pytorch eager | failed: .*torch' "$work/table")" 1
    check "peers without PyTorch: Lockstep ran" "$(grep -cE '^\| lockstep resident \| [0-9]+ ' "$work/table")" 1
    compare
    check "peers again: nothing is run again" "$(wc -l <"$work/log")" 0
fi
exit $failed
