#!/usr/bin/env bash
# bit_equality.sh - which runs end with the same bits: a table of pairs of real runs of one small network (batch norm, dropout,
# augmentation, a short last window; two epochs of five updates), each compared in weights, statistics, the optimizer's memory, and the
# counters with the sums of losses.
#
#   bench/bit_equality.sh        builds nothing: BIN (default build/release/bin)
#
# Writes tests/results/DATE-bit-equality.txt (OUT: elsewhere) and prints it; exit 1 where a pair that must be equal is not. On the
# emulated CUDA device where it was built. bf16 on the CPU only where the processor has it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=${BIN:-build/release/bin}
out=${OUT:-tests/results/$(date +%F)-bit-equality.txt}
trap 'exit 1' INT TERM
# shellcheck source=tests/train/resume_runs.sh
. tests/train/resume_runs.sh "$bin"
failed=0

# The last checkpoints' files of two runs, and what of their counters differs.
tensors_same() {
  local one file
  last "$1"
  one=$last_one
  last "$2"
  for file in weights.safetensors state.safetensors; do
    cmp -s "$one/$file" "$last_one/$file" || return 1
  done
}

# row WHAT A B [RANKS]: prints a line. RANKS: A and B had other numbers of ranks, whose losses are added up in another order: then the
# mean losses that metrics report may differ by rounding, and nothing else.
row() {
  local tensors=no counters=no
  tensors_same "$2" "$3" && tensors=yes
  if [ "$(same_run "$2" "$3")" = yes ]; then
    counters=yes
  elif [ -n "${4-}" ] && [ -s "$work/diff" ] && ! grep -qvE '^(batches|config|sums|evaluation\.test_loss|error: )' "$work/diff"; then
    counters=rounding
  fi
  [ $tensors = yes ] && [ $counters != no ] || failed=$((failed + 1))
  printf '%-98s %-7s %-8s %s\n' "$1" $tensors $counters "$(field "$3" weights_hash)"
}

ranked() { if [ "$1" = 1 ]; then echo "1 rank"; else echo "$1 ranks"; fi; }

# resumed NAME LABEL RANKS OPTIONS...: twice the same run; then cut in mid-epoch, at an epoch's end, in the short window's place
resumed() {
  local name=$1 label=$2 n=$3 update
  shift 3
  train "$name" "$n" "$@" >&2 || return
  train "$name-again" "$n" "$@" >&2
  row "$label, $(ranked "$n"): the same run twice" "$name" "$name-again"
  for update in 2 5 7 9; do
    cut "$name-$update" "$name" $update
    go_on "$name-$update" "$n" "$@" >&2
    row "$label, $(ranked "$n"): resumed after update $update = uninterrupted" "$name" "$name-$update"
  done
}

# any_ranks NAME LABEL OPTIONS...: ordered mode: 1 rank with accumulation = 2 = 4 ranks; 4, then 2, then 3 ranks = 1 uninterrupted
any_ranks() {
  local name=$1 label=$2 n
  shift 2
  for n in 1 2 4; do
    train "$name-$n" $n "$@" --set run.deterministic=true >&2 || return
    [ $n = 1 ] || row "$label, ordered: 1 rank accumulating 12 = $n ranks accumulating $((12 / n))" "$name-1" "$name-$n" ranks
  done
  train "$name-parts" 4 "$@" --set run.deterministic=true --set train.max_updates=3 >&2
  go_on "$name-parts" 2 "$@" --set run.deterministic=true --set train.max_updates=7 >&2
  go_on "$name-parts" 3 "$@" --set run.deterministic=true >&2
  row "$label, ordered: 4 ranks to update 3, 2 to 7, 3 to 10 = 1 rank" "$name-1" "$name-parts" ranks
}

cpu="--set device.type=cpu" ref="--set device.type=ref" cuda="--set device.type=cuda" adamw="--set optimizer.kind=adamw --set optimizer.lr=0.01"
moving="--set train.precision=fp16 --set loss_scale.initial=16777216 --set loss_scale.growth_interval=3"
bf16="--set train.precision=bf16"
# shellcheck disable=SC2086 # several words
table() {
  printf '%-98s %-7s %-8s %s\n' "runs" "tensors" "counters" "hash of the weights"
  resumed cpu "cpu fp32, sgd" 1 $cpu
  resumed cpu-two "cpu fp32, sgd" 2 $cpu
  resumed cpu-three "cpu fp32, sgd" 3 $cpu
  resumed cpu-adamw "cpu fp32, adamw" 1 $cpu $adamw
  any_ranks cpu-o "cpu fp32, sgd" $cpu
  any_ranks cpu-adamw-o "cpu fp32, adamw" $cpu $adamw
  if "$bin/train" "$work/run.ini" --dry-run $cpu $bf16 >/dev/null 2>"$work/why"; then
    resumed cpu-bf16 "cpu bf16" 1 $cpu $bf16
    any_ranks cpu-bf16-o "cpu bf16" $cpu $bf16
  else
    printf 'cpu bf16: left out: %s\n' "$(cat "$work/why")"
  fi
  resumed ref "ref fp32" 1 $ref
  any_ranks ref-o "ref fp32" $ref
  resumed ref-fp16 "ref fp16, loss scale in motion" 1 $ref $moving
  any_ranks ref-fp16-o "ref fp16, loss scale in motion" $ref $moving
  if ! emulated; then
    echo "cuda: left out: the emulated device was not built"
    return
  fi
  export LOCKSTEP_EMULATION=devices=4
  resumed cuda "emulated cuda fp32" 1 $cuda
  resumed cuda-fp16 "emulated cuda fp16, loss scale in motion" 1 $cuda $moving
  resumed cuda-fp16-two "emulated cuda fp16, loss scale in motion" 2 $cuda $moving
  resumed cuda-bf16 "emulated cuda bf16" 1 $cuda $bf16
  any_ranks cuda-o "emulated cuda fp32" $cuda
  any_ranks cuda-fp16-o "emulated cuda fp16, loss scale in motion" $cuda $moving
}
{
  echo "Bit equality, Lockstep $(git rev-parse --short HEAD), $(date +%F): bench/bit_equality.sh"
  echo "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores; $("$bin/train" --version | sed -n 's/^libraries *//p')"
  echo
  table
  echo
  echo "tensors: weights, statistics and the optimizer's memory; counters: cursor, loss scale, skips, sums of losses, evaluation."
  echo "rounding: only mean losses, as metrics report them, differ, in their last digits: several ranks add them up in another order."
  echo "$failed pairs differ"
} >"$out"
cat "$out"
! grep -q '^[1-9][0-9]* pairs differ' "$out"
