# Training on several emulated GPUs, one process each, whose sums meet as NCCL's do, on the device's queues, or as MPI's, in host memory:
# whole runs with short windows, batch norm, dropout and augmentation.
# Argument: the folder of the built programs.
set -u
bin=$1
plugin=$bin/emulated/lockstep_cuda.so
[ -e "$plugin" ] || { echo "skipped: $plugin is not there; it needs a C++ compiler when Lockstep is built"; exit 77; }
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"
# small_run is read by earlier programs, too
sed -i 's/^flip = true$/&\ncutout = 3\nbrightness = 0.1\ncontrast = 0.2\ncrop_scale = 0.5\nmixup = 0.4\ncutmix = 1\nerase = 0.5\ntrivial_augment = true/; s/^micro_batch = 4$/&\nresolution = 0:6x5, 1:8/' "$work/run.ini"
export LOCKSTEP_CUDA_PLUGIN=$plugin


# train NAME RANKS EMULATION OPTIONS...: a run, whose exit status is in code
train() {
  local name=$1 n=$2 launch
  export LOCKSTEP_EMULATION=devices=4,$3
  shift 3
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 120"; fi
  # shellcheck disable=SC2086 # several words
  $launch "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" --set device.type=cuda "$@" >"$work/$name.log" 2>&1
  code=$?
}

# same NAME AS RANKS EMULATION OPTIONS...: the same weights as run AS
same() {
  local name=$1 as=$2
  shift 2
  train "$name" "$@"
  [ $code = 0 ] || cat "$work/$name.log"
  check "$name: weights" "$code $(field "$name" weights_hash)" "0 $(field "$as" weights_hash)"
}

# refused NAME RANKS EXIT WORDS OPTIONS...: one message with these words, and no run
refused() {
  local name=$1 n=$2 exit=$3 words=$4
  shift 4
  train "$name" "$n" seed=1 "$@"
  check "$name: exit" $code "$exit"
  check "$name: one message" "$(grep -c . "$work/$name.log")" 1
  check "$name: message" "$(grep -cF -- "$words" "$work/$name.log")" 1
}

# Ordered mode: whatever the number of ranks, the way of the sums, and the order in which the device works
ordered="--set run.deterministic=true"
# shellcheck disable=SC2086 # several words
{
  train one 1 seed=1 $ordered
  check "one rank: exit" $code 0
  same ordered-2 one 2 seed=2 $ordered --set dist.backend=nccl
  same ordered-3 one 3 seed=3 $ordered --set device.graphs=false --set dist.bucket_bytes=4096
  same ordered-4 one 4 seed=4,collective_delay=2 $ordered --set dist.bucket_bytes=4096 --set data.loader=resident
  same ordered-2-mpi one 2 seed=5 $ordered --set dist.backend=mpi --set dist.bucket_bytes=4096
  same ordered-1-nccl one 1 seed=6 $ordered --set dist.backend=nccl
  same ordered-shared one 3 seed=7,devices=1 $ordered --set device.share=true
}
check "samples seen" "$(field ordered-4 samples_seen)" 406
check "test samples, each once" "$(field ordered-3 test_samples)" 37

# fp16 with a loss scale in motion: an overflow is one on all ranks
scaled="--set train.precision=fp16 --set run.deterministic=true --set loss_scale.initial=16777216 --set loss_scale.growth_interval=3"
# shellcheck disable=SC2086 # several words
{
  train fp16 1 seed=1 $scaled
  check "fp16: updates were skipped" "$([ "$(field fp16 skipped_updates)" -gt 0 ] && echo yes)" yes
  same fp16-2 fp16 2 seed=2 $scaled
  same fp16-2-mpi fp16 2 seed=3 $scaled --set dist.backend=mpi
  check "fp16: as many on two ranks" "$(field fp16-2 skipped_updates)" "$(field fp16 skipped_updates)"
}

# Fast mode: two terms have one sum
train fast 2 seed=1
check "fast: exit" $code 0
same fast-eager fast 2 seed=2 --set device.graphs=false
same fast-blocking fast 2 seed=3,collective_delay=2 --set dist.overlap=false
same fast-mpi fast 2 seed=4 --set dist.backend=mpi --set dist.bucket_bytes=4096
same fast-mpi-blocking fast 2 seed=5 --set dist.backend=mpi --set dist.overlap=false
train wire 2 seed=6 --set dist.reduce_dtype=bf16 --set dist.bucket_bytes=4096
check "bf16 on the way: exit" $code 0
same wire-mpi wire 2 seed=7 --set dist.reduce_dtype=bf16 --set dist.backend=mpi
check "bf16 on the way: other weights" "$([ "$(field wire weights_hash)" != "$(field fast weights_hash)" ] && echo yes)" yes
check "bf16 on the way: loss within 1 %" "$(awk -v a="$(field wire train_loss)" -v b="$(field fast train_loss)" \
  'BEGIN { d = a - b; if (d < 0) d = -d; print (b > 0 && d < 0.01 * b) ? "yes" : "no: " a " and " b }')" yes

# Switches add in no order that could be kept: not in ordered mode, whatever the environment says; else as it says.
export NCCL_NVLS_ENABLE=1
# shellcheck disable=SC2086 # several words
same ordered-switches one 2 seed=8,report=1 $ordered
check "ordered: NCCL's switches" "$(grep -c 'NCCL_NVLS_ENABLE=0$' "$work/ordered-switches.log")" 2
check "ordered: a line" "$(grep -c '^warning: NCCL_NVLS_ENABLE=1 in the environment is taken as 0' "$work/ordered-switches.log")" 1
same fast-switches fast 2 seed=8,report=1
check "fast: NCCL's switches" "$(grep -c 'NCCL_NVLS_ENABLE=1$' "$work/fast-switches.log")" 2
check "fast: no line" "$(grep -c '^warning: NCCL_NVLS' "$work/fast-switches.log")" 0
unset NCCL_NVLS_ENABLE

# Without NCCL sums go through host memory, and the reason is told; where one rank alone lacks it, nothing begins.
export LOCKSTEP_EMULATION=devices=4,seed=1,collective=0
ranks 2 120 "$bin/train" "$work/run.ini" --run-dir "$work/without" --set device.type=cuda >"$work/without.log" 2>&1
check "without NCCL: exit" $? 0
check "without NCCL: the reason" "$(grep '^sums ' "$work/without.log")" \
  "sums      of gradients by MPI through host memory: NCCL was not found: the emulation has none (collective=0)"
check "without NCCL: weights" "$(field without weights_hash)" "$(field fast-mpi weights_hash)"
export LOCKSTEP_EMULATION=devices=4,seed=1
# shellcheck disable=SC2016 # the rank's own variable
text=$(ranks 2 120 bash -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || LOCKSTEP_EMULATION+=,collective=0; exec "$@"' rank \
  "$bin/train" "$work/run.ini" --run-dir "$work/one-without" --set device.type=cuda 2>&1)
check "one rank without NCCL: exit" $? 5
check "one rank without NCCL: message" "$(grep -c '^ *nccl *NCCL 2.28.9 *none$' <<<"$text")" 1

refused self 2 2 "dist.backend = self is for one rank" --set dist.backend=self
refused nccl-on-cpu 2 2 "dist.backend = nccl sums gradients between GPUs" --set dist.backend=nccl --set device.type=cpu
finish
