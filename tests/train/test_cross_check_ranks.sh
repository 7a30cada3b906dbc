# Ranks whose devices compute wrong gradients are found by their neighbours, named, and ended or left out of the update; healthy runs are
# never disturbed, and keep their bits.
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

quiet=--quiet
# train NAME RANKS DEVICE FAULTS OPTIONS...: a run, whose exit status is in code; FAULTS: lines as in tests/support/miscompute.c, "" for none
train() {
  local name=$1 n=$2 device=$3 program=train_miscomputing
  export LOCKSTEP_TEST_MISCOMPUTE=$work/$name.faults LOCKSTEP_CUDA_PLUGIN=/nonexistent
  [ "$device" = cpu ] || LOCKSTEP_CUDA_PLUGIN=$plugin
  printf '%s\n' "$4" >"$LOCKSTEP_TEST_MISCOMPUTE"
  shift 4
  ranks "$n" 120 "$bin/$program" "$work/run.ini" $quiet --run-dir "$work/$name" --set device.type="$device" "$@" >"$work/$name.log" 2>&1
  code=$?
}

has() { grep -cE -- "$2" "$work/$1.log"; }
counts() { tr -d '[:space:]' <"$work/$1/summary.json" | grep -oE '"cross_checks":\{[^}]*\}' | sed -E 's/"seconds":[-+0-9.e]+//; s/.*\{//; s/,?\}$//; s/"//g'; }

# healthy NAME RANKS DEVICE COUNT OPTIONS...: COUNT checks, nothing said, and the weights of a run without checks
healthy() {
  local name=$1 n=$2 device=$3 count=$4
  shift 4
  train "$name-off" "$n" "$device" "" "$@"
  train "$name" "$n" "$device" "" --set run.cross_check=1 "$@"
  check "$name: exit" $code 0
  check "$name: nothing to say" "$(grep -c . "$work/$name.log")" 0
  [ $code = 0 ] || cat "$work/$name.log"
  check "$name: checks" "$(counts "$name")" "count:$count,differences:0"
  check "$name: weights" "$(field "$name" weights_hash)" "$(field "$name-off" weights_hash)"
}

# The run has 10 updates; 5 and 10 are of short windows, which are not checked.
healthy two 2 cpu 8
healthy three 3 cpu 8 --set run.deterministic=true
healthy four 4 cpu 8 --set optimizer.kind=adamw --set optimizer.lr=0.001 --set average.kind=ema
healthy wire 3 cpu 8 --set dist.reduce_dtype=bf16 --set train.precision=bf16
healthy one-micro 4 cpu 3 --set train.micro_batch=12 --set run.cross_check=3 --set dist.overlap=false
healthy resident 2 cpu 1 --set data.loader=resident --set run.cross_check=5
check "off: no checks in the summary" "$(counts two-off)" ""

place='\(host .*\)'
hash='[0-9a-f]{16}'

# stopped NAME RANKS DEVICE FAULTS WORDS OPTIONS...: exit code 6 and one line
stopped() {
  local name=$1 words=$5
  local -a run=("$1" "$2" "$3" "$4")
  shift 5
  train "${run[@]}" --set run.cross_check=1 --set checkpoint.every_updates=2 "$@"
  check "$name: exit" $code 6
  check "$name: one error" "$(has "$name" '^error: ')" 1
  check "$name: message" "$(has "$name" "^error: cross-check of update $words")" 1
  [ "$(has "$name" "^error: cross-check of update $words")" = 1 ] || cat "$work/$name.log"
  check "$name: no weights" "$(ls "$work/$name/weights.safetensors" 2>/dev/null)" ""
}

# A stuck lane: from update 3 on, bit 20 of every eighth element of a gradient is 1 on one rank.
lane() { echo "$1 $2 $3 $4 0 8 3 set 20"; } # RANK FROM TO PASS
stopped stuck-3 3 cpu "$(lane 1 3 99 -1)" \
  "3: rank 1 $place computes wrong gradients: of micro-batch 4, rank 1 has $hash, rank 0 has $hash, rank 2 has $hash; the check of update 2 found no difference; leave the faulty device out, and --resume from the checkpoint of update 2 \(docs/faults.md\)"
stopped stuck-4 4 cpu "$(lane 0 3 99 -1)" "3: rank 0 $place computes wrong gradients: of micro-batch 0, rank 0 " --set run.deterministic=true
stopped late 3 cpu "$(lane 2 4 99 -1)" "6: rank 2 .*; the check of update 3 found .* of update [45], which may already have wrong weights" --set run.cross_check=3
stopped repeats 2 cpu "$(lane 1 3 99 -1)" \
  "3: one of two ranks computes wrong gradients: of micro-batch 0, rank 0 $place has $hash, rank 1 $place has $hash, rank 1 .*; each repeats its own, and a third rank would decide; the check"
stopped both 4 cpu "$(lane 1 3 99 -1; lane 3 3 99 -1)" "3: more than one rank computes wrong gradients: " --set run.cross_check_action=continue
# One pass that goes wrong, also with two ranks: 0 is the neighbour's micro-batch, 1 this rank's own.
stopped once-owner 2 cpu "$(lane 1 3 3 1)" "3: rank 1 $place computes wrong gradients: of micro-batch 6, rank 1 has"
stopped once-checker 2 cpu "$(lane 0 3 3 0)" "3: rank 0 $place computes wrong gradients: of micro-batch 6, rank 1 has"
# The run goes on from its checkpoint, and ends as an undisturbed one.
train stuck-3 3 cpu "" --resume --set run.cross_check=2
check "resumed: exit" $code 0
train whole-3 3 cpu "" --set run.cross_check=0
check "resumed: weights" "$(field stuck-3 weights_hash)" "$(field whole-3 weights_hash)"

quiet=
due=8 # checks of each run below
# goes_on NAME RANKS DEVICE FAULTS RANK DIFFERENCES LINES OPTIONS...: the rank is named, and the weights are those of an undisturbed run
goes_on() {
  local name=$1 wrong=$5 differences=$6 lines=$7
  local -a run=("$1" "$2" "$3" "$4")
  shift 7
  train "$name-undisturbed" "${run[1]}" "${run[2]}" "" "$@"
  train "${run[@]}" --set run.cross_check=1 --set run.cross_check_action=continue "$@"
  check "$name: exit" $code 0
  check "$name: warnings" "$(has "$name" "^warning: cross-check of update [0-9]+: rank $wrong $place computes wrong gradients: .*; rank $(((wrong + 1) % run[1])) has computed its micro-batches and the update was repeated")" "$lines"
  [ $code = 0 ] && [ "$(has "$name" "^warning: cross")" = "$lines" ] || cat "$work/$name.log"
  check "$name: found" "$(counts "$name")" "count:$due,differences:$differences,last_wrong_rank:$wrong"
  check "$name: weights" "$(field "$name" weights_hash)" "$(field "$name-undisturbed" weights_hash)"
  check "$name: in the metrics" "$(grep -c '"event":"warning".*cross-check' "$work/$name/metrics.jsonl")" "$lines"
}
goes_on once-2 2 cpu "$(lane 1 3 3 1)" 1 1 1
goes_on twice-3 3 cpu "$(lane 0 1 1 0; lane 0 7 7 1)" 0 2 2 --set run.deterministic=true
goes_on lanes-3 3 cpu "$(lane 2 2 4 -1)" 2 3 1
goes_on warp-4 4 cpu "3 1 4 -1 2 32 0 flip 30" 3 4 1 --set run.deterministic=true
goes_on zero-4 4 cpu "1 2 3 -1 1 1 0 clear 23" 1 2 1 --set train.micro_batch=12
goes_on nan-3 3 cpu "1 3 3 -1 0 1000000 5 nan 0" 1 1 1
goes_on wire-3 3 cpu "$(lane 2 2 4 -1)" 2 3 1 --set dist.reduce_dtype=bf16 --set dist.bucket_bytes=4096
# Faulty hardware is named with --quiet, too.
quiet=--quiet
goes_on quiet-3 3 cpu "$(lane 1 3 3 1)" 1 1 1
quiet=
# After a difference the next updates are checked, too: here 3, then 4, 6, 7, and 9 as every third one.
due=5
goes_on watched-3 3 cpu "$(lane 1 3 4 -1)" 1 2 1 --set run.cross_check=3
due=8
# A gradient beyond fixed point skips no update, because the wrong rank does not take part.
goes_on fixed-3 3 cpu "1 3 3 -1 0 1000000 5 flip 30" 1 1 1 --set run.deterministic=true

# Refusals: one rank, no whole window, processors of other kinds.
train one 1 cpu "" --set run.cross_check=10
check "one rank: exit" "$code $(has one '^error: --set run.cross_check=10: .* one rank has none; start at least 2 ranks, or set it to 0')" "2 1"
train short 2 cpu "" --set run.cross_check=10 --set train.global_batch=480
check "no whole window: exit" "$code $(has short '^error: --set run.cross_check=10: only updates of .* an epoch has 203; ')" "2 1"
cat >"$work/mixed.sh" <<'SCRIPT'
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && export DNNL_MAX_CPU_ISA=SSE41
exec "$@"
SCRIPT
ranks 2 120 bash "$work/mixed.sh" "$bin/train" "$work/run.ini" --quiet --run-dir "$work/mixed" --set device.type=cpu --set run.cross_check=10 \
  --set model.file=configs/models/resnet20.ini >"$work/mixed.log" 2>&1
check "other algorithms: exit" "$? $(has mixed 'algorithms .run.cross_check needs the same.')" "5 1"

if [ -e "$plugin" ]; then
  scaled="--set train.precision=fp16 --set loss_scale.initial=16777216 --set loss_scale.growth_interval=3"
  # shellcheck disable=SC2086 # several words
  {
    quiet=--quiet
    healthy cuda 3 cuda 8
    healthy cuda-fp16 2 cuda 8 $scaled
    quiet=
    goes_on cuda-fp16-3 3 cuda "$(lane 2 2 4 -1)" 2 3 1 $scaled --set device.graphs=false
  }
  goes_on cuda-4 4 cuda "$(lane 0 2 2 1)" 0 1 1 --set run.deterministic=true
  goes_on cuda-host-3 3 cuda "$(lane 1 2 4 -1)" 1 3 1 --set dist.backend=mpi --set device.graphs=false
else
  echo "skipped: the emulated device: it needs a C++ compiler when Lockstep is built"
fi
finish
