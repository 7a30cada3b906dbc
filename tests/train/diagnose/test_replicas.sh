# Replicas that are no longer the same: a bit flipped in one rank's weight, statistic or momentum, or a counter of its own, ends the run
# with one message that names tensor and ranks, and evidence in files; healthy runs of every kind never do.
# Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"
plugin=$bin/emulated/lockstep_cuda.so
export LOCKSTEP_EMULATION=devices=4

# train NAME RANKS DEVICE FAULT OPTIONS...: a run, whose exit status is in code; FAULT as in tests/support/flip.c, "" for none
train() {
  local name=$1 n=$2 device=$3 program=train
  export LOCKSTEP_TEST_FLIP=$4 LOCKSTEP_CUDA_PLUGIN=/nonexistent
  [ "$device" = cpu ] || LOCKSTEP_CUDA_PLUGIN=$plugin
  [ -z "$4" ] && unset LOCKSTEP_TEST_FLIP || program=train_flipped
  shift 4
  ranks "$n" 120 "$bin/$program" "$work/run.ini" --quiet --run-dir "$work/$name" --set device.type="$device" \
    --set checkpoint.every_updates=2 --set dist.check_replicas=3 "$@" >"$work/$name.log" 2>&1
  code=$?
}

newest() { ls "$work/$1/checkpoints" 2>/dev/null | tail -n 1; }
has() { grep -cE -- "$2" "$work/$1.log"; }

# found NAME RANKS DEVICE FAULT UPDATE NEWEST FILES WORDS OPTIONS...: the run ends after UPDATE, its newest checkpoint is NEWEST's
found() {
  local name=$1 update=$5 newest=$6 files=$7 words=$8
  local -a run=("$1" "$2" "$3" "$4")
  shift 8
  train "${run[@]}" "$@"
  check "$name: exit" $code 6
  check "$name: one error" "$(has "$name" '^error: ')" 1
  check "$name: message" "$(has "$name" "^error: replicas have diverged: after update $update $words")" 1
  [ "$(has "$name" "^error: replicas have diverged: after update $update $words")" = 1 ] || cat "$work/$name.log"
  check "$name: evidence" "$(ls "$work/$name/diverged-update-$update" 2>&1 | paste -sd ' ')" "$files"
  check "$name: newest checkpoint" "$(newest "$name")" "$newest"
  check "$name: no weights" "$(ls "$work/$name/weights.safetensors" 2>/dev/null)" ""
}

hash='[0-9a-f]{16}'
one_bit='first in number 17: [-0-9.e]+ on rank 0, [-0-9.e]+ on rank 1 \(one bit apart\)'
found weight 2 cpu "1 4 c1.weight 17 20" 4 update-000000000002 "rank-0.safetensors rank-1.safetensors" \
  "tensor 'c1.weight' differs \(rank 0: $hash, rank 1: $hash\); after update 3 all ranks were the same; in 1 of its 216 elements, $one_bit.*update 2 is from before"
found statistic 4 cpu "3 5 n1.running_var 2 22" 5 update-000000000004 "rank-0.safetensors rank-3.safetensors" \
  "tensor 'n1.running_var' differs \(ranks 0-2: $hash, rank 3: $hash\); after update 4 .* 1 of its 8 elements"
found momentum 4 cpu "0 5 l.weight.momentum 79 20" 5 update-000000000004 "rank-0.safetensors rank-1.safetensors" \
  "tensor 'l.weight.momentum' differs \(rank 0: $hash, ranks 1-3: $hash\);"
found adam 2 cpu "1 2 c2.weight.exp_avg_sq 5 21" 2 "" "rank-0.safetensors rank-1.safetensors" \
  "tensor 'c2.weight.exp_avg_sq' differs .*; at the start all ranks were the same; in 1 of its" --set optimizer.kind=adamw --set optimizer.lr=0.001
found counter 4 cpu "2 3 applied" 3 update-000000000002 "rank-0.safetensors rank-2.safetensors" \
  "the number of applied updates differs \(ranks 0, 1, 3: 3, rank 2: 4\); after update 2 "
found scale 2 cpu "1 2 loss_scale" 3 "" "rank-0.safetensors rank-1.safetensors" \
  "the loss scale differs \(rank 0: 1, rank 1: 2\), tensor 'c1.weight' differs .*, the first of 16 that do; at the start" --set checkpoint.every_updates=0
check "scale: more than a bit" "$(has scale 'one bit apart')" 0
found last 2 cpu "1 10 l.bias 0 20" 10 "" "rank-0.safetensors rank-1.safetensors" \
  "tensor 'l.bias' differs" --set checkpoint.every_updates=0 --set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0

# The files hold what their names say, and the message is in the metrics.
if python3 -c 'import safetensors, numpy' 2>/dev/null; then
  check "files: one element differs" "$(python3 - "$work/weight/diverged-update-4" <<'PYTHON'
import sys
from safetensors.numpy import load_file
a, b = (load_file(f"{sys.argv[1]}/rank-{r}.safetensors") for r in (0, 1))
print(len(a), [(k, int((a[k] != b[k]).sum()), int((a[k] != b[k]).argmax())) for k in sorted(a) if (a[k] != b[k]).any()])
PYTHON
)" "20 [('c1.weight', 1, 17)]"
fi
check "metrics: the end" "$(tail -n 1 "$work/weight/metrics.jsonl" | grep -c '"exit_code": *6.*replicas have diverged')" 1

# A run goes on from the checkpoint before, and ends as one that was never disturbed.
train whole 2 cpu ""
train weight 2 cpu "" --resume
check "resumed: exit" $code 0
check "resumed: the weights of an undisturbed run" "$(field weight weights_hash)" "$(field whole weights_hash)"
check "whole: checks after updates 2, 3, 4, 5, 6, 8, 9, 10" "$(tr -d '[:space:]' <"$work/whole/summary.json" | grep -o '"replica_checks":{"count":8,"seconds":[0-9]' | wc -l)" 1

# Evidence cannot be written: said, and the run ends alike.
mkdir -p "$work/blocked-run" && touch "$work/blocked-run/diverged-update-4"
train blocked-run 2 cpu "1 4 c1.weight 17 20"
check "no folder: exit" $code 6
check "no folder: said" "$(has blocked-run '^error: replicas have diverged.*; their states could not be saved: .*diverged-update-4')" 1

# Switched off, nobody looks.
train off 2 cpu "1 4 c1.weight 17 20" --set dist.check_replicas=0
check "off: exit" $code 0
check "off: no checks in the summary" "$(grep -c replica_checks "$work/off/summary.json")" 0
# With one rank there is nothing to compare.
train one 1 cpu ""
check "one rank: exit" "$code $(grep -c replica_checks "$work/one/summary.json")" "0 0"

# Healthy runs of every kind: short windows, resumed at another number of ranks, ordered, synchronised batch norm.
healthy() {
  local name=$1
  train "$@"
  check "$name: exit" $code 0
  [ $code = 0 ] || cat "$work/$name.log"
  check "$name: nothing to say" "$(grep -c . "$work/$name.log")" 0
}
healthy sync 3 cpu "" --set train.sync_batchnorm=true --set dist.check_replicas=1
healthy ordered 4 cpu "" --set run.deterministic=true --set dist.check_replicas=1 --set train.max_updates=6
healthy ordered 3 cpu "" --set run.deterministic=true --set dist.check_replicas=1 --set train.max_updates=10 --resume
healthy adamw 4 cpu "" --set optimizer.kind=adamw --set optimizer.lr=0.001 --set dist.check_replicas=1 --set dist.hierarchy=on
healthy bf16-on-the-way 3 cpu "" --set dist.reduce_dtype=bf16 --set dist.check_replicas=1

if [ -e "$plugin" ]; then
  scaled="--set train.precision=fp16 --set loss_scale.initial=16777216 --set loss_scale.growth_interval=3"
  found cuda-weight 4 cuda "1 4 c1.weight 17 20" 4 update-000000000002 "rank-0.safetensors rank-1.safetensors" \
    "tensor 'c1.weight' differs \(ranks 0, 2, 3: $hash, rank 1: $hash\); after update 3 "
  # shellcheck disable=SC2086 # several words
  {
    found cuda-fp16 2 cuda "0 4 n2.running_mean 1 20" 4 update-000000000002 "rank-0.safetensors rank-1.safetensors" \
      "tensor 'n2.running_mean' differs" $scaled --set device.share=true --set dist.backend=mpi
    healthy cuda-fp16-healthy 2 cuda "" $scaled --set dist.check_replicas=1
    check "fp16: updates were skipped" "$([ "$(field cuda-fp16-healthy skipped_updates)" -gt 0 ] && echo yes)" yes
    healthy cuda-fp16-mpi 3 cuda "" $scaled --set dist.backend=mpi --set run.deterministic=true
  }
  healthy cuda-sync 3 cuda "" --set train.sync_batchnorm=true --set dist.check_replicas=1
else
  echo "skipped: the emulated device: it needs a C++ compiler when Lockstep is built"
fi
finish
