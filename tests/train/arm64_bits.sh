#!/usr/bin/env bash
# arm64_bits.sh - short trainings in ordered mode by an arm64 build under qemu, on 1 and 2 ranks, against x86-64: the weights have the
# same bits as those of the 4-wide kernels with AVX2's fused multiply-add (train_fused), and on ref.
#
#   arm64_bits.sh X86_BIN ARM64_BIN     the folders of the built programs; run by scripts/check.sh arm64
set -u
x86=$1 arm64=$2
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"
emulator=(qemu-aarch64-static -L "$PWD/arm64")
# Ranks under the emulator are started by this processor's mpirun. Their tables in shared memory have locks of the other size.
export PMIX_MCA_gds=hash PMIX_MCA_psec=native

# train NAME RANKS COMMAND... -- OPTIONS...
train() {
  local name=$1 n=$2 launch command=()
  shift 2
  while [ "$1" != -- ]; do command+=("$1") && shift; done
  shift
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 600"; fi
  # shellcheck disable=SC2086 # several words
  if ! $launch "${command[@]}" "$work/run.ini" --quiet --run-dir "$work/$name" --set run.deterministic=true "$@" >"$work/$name.log" 2>&1
  then
    cat "$work/$name.log"
    check "$name: exit status" 1 0
  fi
}

while read -r name options; do
  # shellcheck disable=SC2086 # several options
  {
    train "$name-x86" 1 "$x86/train_fused" -- $options
    for n in 1 2; do
      train "$name-$n" $n "${emulator[@]}" "$arm64/train" -- $options
      check "$name: weights_hash on $n ranks" "$(field "$name-$n" weights_hash)" "$(field "$name-x86" weights_hash)"
    done
  }
done <<'RUNS'
cpu --set device.type=cpu
bf16 --set device.type=cpu --set train.precision=bf16
ref --set device.type=ref
RUNS
finish
