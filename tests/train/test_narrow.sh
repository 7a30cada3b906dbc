# Vectors of 4 floats, which any x86-64 and arm64 have: whole runs of train_narrow, `train` on a processor that seems to have no
# AVX2. The same bits on 1 and 2 ranks, the loss of wider vectors. Under qemu, on a processor that has no AVX, `train` itself takes
# them and gives the same bits: nothing outside the kernels' files needs AVX.
# Argument: the folder of the built programs.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"

# train NAME RANKS COMMAND...: a run in ordered mode; its summary in $work/NAME/summary.json
train() {
  local name=$1 n=$2 launch
  shift 2
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 120"; fi
  # shellcheck disable=SC2086 # several words
  if ! $launch "$@" "$work/run.ini" --quiet --run-dir "$work/$name" --set device.type=cpu --set run.deterministic=true \
    --set train.precision=$precision >"$work/$name.log" 2>&1; then
    cat "$work/$name.log"
    check "$name: exit status" 1 0
  fi
}
near() { # NAME NAME: their training losses
  awk -v a="$(field "$1" train_loss)" -v b="$(field "$2" train_loss)" \
    'BEGIN { d = a - b; if (d < 0) d = -d; print (b > 0 && d < 0.01 * b) ? "yes" : "no: " a " and " b }'
}

[ "$(uname -m)" = x86_64 ] && isa=SSE2 || isa=NEON
check "the device" "$("$bin/train_narrow" "$work/run.ini" --set device.type=cpu --dry-run | grep -oE "$isa \\(own kernels only\\)")" \
  "$isa (own kernels only)"
for precision in fp32 bf16; do
  train wide-$precision 1 "$bin/train"
  train narrow-$precision 1 "$bin/train_narrow"
  train narrow-2-$precision 2 "$bin/train_narrow"
  check "$precision: weights_hash on 2 ranks" "$(field narrow-2-$precision weights_hash)" "$(field narrow-$precision weights_hash)"
  check "$precision: train_loss within 1 %" "$(near narrow-$precision wide-$precision)" yes
done

qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64) || qemu=
if [ "$(uname -m)" != x86_64 ] || [ -z "$qemu" ] || grep -q sanitize <<<"$("$bin/train" --version)"; then
  echo "left out: a processor without AVX: it takes x86-64, qemu-x86_64 (Debian: qemu-user-static) and a build without sanitizers"
else
  precision=fp32
  train nehalem 1 "$qemu" -cpu Nehalem "$bin/train"
  check "without AVX: weights_hash" "$(field nehalem weights_hash)" "$(field narrow-fp32 weights_hash)"
fi
finish
