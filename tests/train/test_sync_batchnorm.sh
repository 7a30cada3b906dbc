# train.sync_batchnorm in whole runs: 2 and 4 ranks with micro-batches of n samples have the losses of one rank with 2n and 4n; with
# accumulation, with a short last window (a smaller micro-batch, and ranks without one), with recomputation, on ref and cpu and, where it
# was built, on the emulated GPU. Without it they do not: the test can fail.
# Argument: the folder of the built programs.
#
# Tolerance: a loss is a mean over some 32 samples of fp32 values, rounded by 2^-24 in each of some ten layers; an update carries
# differences of that size on, and momentum 0.9 adds up ten of them: up to 1e-6 after some updates, allowed is ten times that. Other
# statistics (of half of the samples, or of other samples) change losses by some 1e-3 to 1e-1.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tolerance=1e-5

cat >"$work/net.ini" <<'EOF2'
[network]
input = 1x28x28
[c1]
layer = conv2d
out_channels = 6
kernel = 3
stride = 2
padding = 1
[n1]
layer = batchnorm2d
[r1]
layer = relu
[p1]
layer = maxpool2d
kernel = 2
[c2]
layer = conv2d
out_channels = 6
kernel = 3
padding = 1
bias = false
[n2]
layer = batchnorm2d
[a2]
layer = add
inputs = n2, p1
[r2]
layer = relu
[c3]
layer = conv2d
out_channels = 10
kernel = 3
stride = 2
padding = 1
bias = false
[n3]
layer = batchnorm2d
[f]
layer = flatten
[l]
layer = linear
out_features = 10
EOF2
cat >"$work/run.ini" <<'EOF2'
[data]
dataset = synthetic
shape = 1x28x28
test_samples = 40
[model]
file = net.ini
[train]
global_batch = 32
epochs = 2
sync_batchnorm = true
[optimizer]
lr = 0.02
[log]
every = 1
EOF2

# train NAME RANKS OPTIONS...: a run
train() {
  local name=$1 n=$2 launch
  shift 2
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 120"; fi
  # shellcheck disable=SC2086 # several words
  if ! $launch "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" "$@" >"$work/$name.log" 2>&1; then
    cat "$work/$name.log"
    check "$name: exit status" 1 0
  fi
}
# values NAME KEY: of all records of a run, one a line
values() { grep -oE "\"$2\": *[^,}]*" "$work/$1/metrics.jsonl" | sed 's/.*:[[:space:]]*//'; }
# apart NAME NAME KEY: the largest relative difference
apart() {
  paste <(values "$1" "$3") <(values "$2" "$3") |
    awk 'NF != 2 { bad = 1 } { d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > w) w = d } END { print bad || !NR ? "unlike" : w }'
}
# near NAME NAME: losses of all updates, and of the test samples, which see the running statistics
near() {
  local key worst
  for key in "${@:3}"; do
    worst=$(apart "$1" "$2" "$key")
    check "$1 has the $key of $2 (apart by $worst)" "$(awk -v w="$worst" -v t="$tolerance" 'BEGIN { print (w + 0 == w && w <= t) }')" 1
  done
}
differs() {
  local worst
  worst=$(apart "$1" "$2" train_loss)
  check "$1 differs from $2 (by $worst)" "$(awk -v w="$worst" -v t="$tolerance" 'BEGIN { print (w + 0 == w && w > 20 * t) }')" 1
}

# One micro-batch a rank. 74 samples: 32, 32, and 10, of which the last rank has none; 84: 32, 32, 20.
for device in ref cpu; do
  set -- --set device.type=$device --set device.threads=1 --set data.train_samples=74
  train $device-2 2 "$@" --set train.micro_batch=16
  train $device-1 1 "$@" --set train.micro_batch=32
  near $device-2 $device-1 train_loss test_loss
  train $device-without 2 "$@" --set train.micro_batch=16 --set train.sync_batchnorm=false
  differs $device-without $device-1
done
set -- --set device.type=cpu --set device.threads=1 --set data.train_samples=84
train short-4 4 "$@" --set train.micro_batch=8
train short-2 2 "$@" --set train.micro_batch=16 --set train.recompute=blocks
train short-1 1 "$@" --set train.micro_batch=32
near short-4 short-1 train_loss test_loss
near short-2 short-1 train_loss test_loss
train alone-off 1 "$@" --set train.micro_batch=32 --set train.sync_batchnorm=false
check "one rank: the option changes nothing" "$(values alone-off train_loss; values alone-off test_loss)" \
  "$(values short-1 train_loss; values short-1 test_loss)"

# Accumulation. Of a window of 32 in micro-batches of 8, rank 0 has the first two and rank 1 the others; a step's joined batch is one
# of each. One rank with micro-batches of 16 has the same if its files have them in the order 0 2 1 3. 88 samples: the last window has
# three of them, so that rank 1 joins the second step without one: 0 2, 1.
picture=784
awk 'BEGIN { srand(7); for (i = 0; i < 88 * 784; i++) printf "%c", 1 + int(rand() * 127) }' </dev/null >"$work/pictures"
awk 'BEGIN { srand(8); for (i = 0; i < 88; i++) printf "\\%03o", int(rand() * 10) }' </dev/null | xargs -0 printf >"$work/labels"
block() { dd if="$work/$1" bs=$((8 * $2)) skip="$3" count=1 2>/dev/null; } # 8 samples of so many bytes
# files FOLDER BLOCKS...: a data set of these
files() {
  local folder=$work/$1 kind b
  shift
  mkdir -p "$folder"
  for kind in train t10k; do
    printf '\0\0\010\003\0\0\0\130\0\0\0\034\0\0\0\034' >"$folder/$kind-images-idx3-ubyte"
    printf '\0\0\010\001\0\0\0\130' >"$folder/$kind-labels-idx1-ubyte"
    for b in "$@"; do
      block pictures $picture "$b" >>"$folder/$kind-images-idx3-ubyte"
      block labels 1 "$b" >>"$folder/$kind-labels-idx1-ubyte"
    done
  done
}
files in-order 0 1 2 3 4 5 6 7 8 9 10
files by-steps 0 2 1 3 4 6 5 7 8 10 9
accumulate() { # NAME RANKS FOLDER MICRO OPTIONS...
  local name=$1 n=$2 folder=$3 micro=$4
  shift 4
  train "$name" "$n" --set device.type=cpu --set device.threads=1 --set data.dataset=mnist --set data.shuffle=false \
    --set "data.path=$work/$folder" --set train.micro_batch="$micro" "$@"
}
for samples in 64 88; do
  accumulate steps-$samples-2 2 in-order 8 --set data.train_samples=$samples
  accumulate steps-$samples-1 1 by-steps 16 --set data.train_samples=$samples
  near steps-$samples-2 steps-$samples-1 train_loss
done
near steps-64-2 steps-64-1 test_loss # of 88 the last window's statistics are weighted by micro-batches, 2 to 1
accumulate steps-other 1 in-order 16 --set data.train_samples=64
differs steps-other steps-64-2

emulated=$bin/emulated/lockstep_cuda.so
if [ -e "$emulated" ]; then
  export LOCKSTEP_CUDA_PLUGIN=$emulated LOCKSTEP_EMULATION=${LOCKSTEP_EMULATION-seed=3,devices=2}
  set -- --set device.type=cuda --set device.tf32=false --set data.train_samples=74
  train cuda-1 1 "$@" --set train.micro_batch=32
  near cuda-1 cpu-1 train_loss test_loss
  for backend in nccl mpi; do
    train cuda-$backend 2 "$@" --set train.micro_batch=16 --set dist.backend=$backend
    near cuda-$backend cuda-1 train_loss test_loss
  done
  # 1100 channels: more sums than go through the host's scratch memory (16 KiB) at once.
  cat >"$work/wide.ini" <<'EOF2'
[network]
input = 1x28x28
[c]
layer = conv2d
out_channels = 1100
kernel = 2
stride = 14
[n]
layer = batchnorm2d
[f]
layer = flatten
[l]
layer = linear
out_features = 10
EOF2
  set -- "$@" --set "model.file=$work/wide.ini" --set train.epochs=1
  train wide-1 1 "$@" --set train.micro_batch=32
  train wide-mpi 2 "$@" --set train.micro_batch=16 --set dist.backend=mpi
  near wide-mpi wide-1 train_loss test_loss
else
  echo "skipped: the emulated GPU was not built"
fi
finish
