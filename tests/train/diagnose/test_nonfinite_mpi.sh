# What is not finite on one of several ranks: rank, micro-batch and sample are named on the cpu, on ref, on emulated GPUs, whichever
# rank has it; statistics that ranks share; sums over ranks in bf16. Argument: the folder of the built programs.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case $bin in /*) ;; *) bin=$PWD/$bin ;; esac
emulated=$bin/emulated/lockstep_cuda.so

black='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' bright='\377\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
gray='\010\010\010\010\010\010\010\010\010\010\010\010\010\010\010\010'
# idx NAME SAMPLE COUNT [GRAY]: COUNT black pictures of 4x4, but for a bright pixel in SAMPLE and a gray picture, and their labels
# 0 to 9
idx() {
  local images=$work/$1-images-idx3-ubyte labels=$work/$1-labels-idx1-ubyte
  # shellcheck disable=SC2059 # escapes
  {
    printf "\\0\\0\\010\\003\\0\\0\\0\\$(printf %03o "$3")\\0\\0\\0\\004\\0\\0\\0\\004"
    for ((i = 0; i < $3; i++)); do
      case $i in
      "$2") printf "$bright" ;;
      "${4-}") printf "$gray" ;;
      *) printf "$black" ;;
      esac
    done
  } >"$images"
  # shellcheck disable=SC2059
  {
    printf "\\0\\0\\010\\001\\0\\0\\0\\$(printf %03o "$3")"
    for ((i = 0; i < $3; i++)); do printf "\\$(printf %03o $((i % 10)))"; done
  } >"$labels"
}
# network NAME LAYERS: a small one whose first layers these are
network() {
  cat >"$work/$1.ini" <<END
[network]
input = 1x4x4
$2
[c1]
layer = conv2d
out_channels = 4
kernel = 3
padding = 1
[r1]
layer = relu
[f]
layer = flatten
[l]
layer = linear
out_features = 10
END
}
# Only the bright pixel is not finite once it is normalised; gray becomes 3.1e38, and not finite by the first scale. Masked: behind a
# ReLU that nobody sees, while the bright pixel comes by the other way, too.
network net $'[s]\nlayer = scale\nfactor = 10'
network masked $'[s]\nlayer = scale\nfactor = -10\n[r]\nlayer = relu\n[b]\nlayer = scale\ninputs = input\nfactor = 1e-38\n[a]\nlayer = add\ninputs = r, b'
network norm $'[n]\nlayer = batchnorm2d'
cat >"$work/run.ini" <<'END'
[data]
dataset = mnist
path = .
mean = 0
std = 1e-40
shuffle = false
[model]
file = net.ini
[train]
epochs = 2
global_batch = 16
micro_batch = 4
[device]
threads = 1
END
idx t10k 0 20

# fails NAME RANKS OPTIONS...: a run that ends with 6 and one line, which is in $line
fails() {
  local name=$1 n=$2 launch=
  shift 2
  [ "$n" = 1 ] || launch="ranks $n 60"
  # shellcheck disable=SC2086 # several words
  $launch "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" "$@" >"$work/$name.log" 2>&1
  check "$name: exit" $? 6
  check "$name: one line" "$(grep . "$work/$name.log")" "$(grep -m 1 . "$work/$name.log")"
  line=$(cat "$work/$name.log")
}
says() { # WHAT WORDS
  case $line in
  *"$2"*) check "$1" yes yes ;;
  *) check "$1" "$line" "...$2..." ;;
  esac
}

# Sample 29 is the 13th of the second window: micro-batch 3, which is rank 1's of 2 and rank 3's of 4.
idx train 29 40
fails alone 1 --set device.type=ref
says "one rank" "update 1 (epoch 0)"
says "one rank" "rank 0 of 1"
fails cpu 2 --set device.type=cpu
says "rank" "rank 1 of 2 ("
says "micro-batch" "micro-batch 3 of 4, layer 'input' (augment), forward: 1 of 64 elements"
says "sample" "; in sample 29; "
fails resident 2 --set device.type=cpu --set data.loader=resident
says "resident: sample" "in sample 29;"
fails ordered 4 --set device.type=cpu --set run.deterministic=true
says "ordered: rank" "rank 3 of 4 ("
fails shuffled 2 --set device.type=cpu --set data.shuffle=true --set data.flip=true
says "shuffled: sample" "in sample 29;"
check "event: rank" "$(grep -c '"event":"nonfinite".*"rank":1,.*"micro_batch":3,"micro_batches":4,"position":12,"samples":\[29\].*"layer":"input"' "$work/cpu/metrics.jsonl")" 1
if [ -r "$emulated" ]; then
  for backend in nccl mpi; do
    LOCKSTEP_EMULATION=devices=2 LOCKSTEP_CUDA_PLUGIN=$emulated fails "cuda-$backend" 2 --set device.type=cuda \
      --set dist.backend=$backend
    says "cuda, $backend: rank" "rank 1 of 2 ("
    says "cuda, $backend: sample" "in sample 29;"
  done
fi
fails fp16 2 --set device.type=ref --set train.precision=fp16
says "fp16: rank 1's loss stops both" "update 1 (epoch 0): the loss of 1 sample is not finite"
# Both ranks at once, the first of them later in the network.
idx train 25 40 17
fails both 2 --set device.type=cpu
says "both ranks: the earlier instruction" "rank 1 of 2 ("
says "both ranks: sample" "layer 'input' (augment), forward: 1 of 64 elements"
idx train 99 40 17
fails gray 2 --set device.type=cpu
says "the other alone: update" "update 1 (epoch 0)"
says "the other alone: rank" "rank 0 of 2 ("
says "the other alone: elements" "layer 's' (scale), forward: 16 of 64 elements of its output are not finite (0 NaN, 16 infinite), the first at [1, 0, 0, 0]"
# What harms no gradient is not where it began, though it comes first.
idx train 29 40 17
fails masked 2 --set device.type=cpu --set "model.file=$work/masked.ini"
says "masked: rank" "rank 1 of 2 ("
says "masked: sample" "micro-batch 3 of 4, layer 'input' (augment), forward: 1 of 64 elements"
# The last, short window: 8 samples, which are all rank 0's.
idx train 38 40
fails short 2 --set device.type=cpu
says "short window" "update 2 (epoch 0)"
says "short window: rank" "rank 0 of 2 ("
says "short window: sample" "micro-batch 1 of 4, layer 'input' (augment), forward: 1 of 64 elements"

# Statistics that ranks share: with a rank that only joins; with blocks computed twice; where the first layers have come to their end,
# and so have the sums of their gradients.
fails joined 2 --set device.type=ref --set "model.file=$work/norm.ini" --set train.sync_batchnorm=true
says "joined" "update 2 (epoch 0)"
says "joined: rank" "rank 0 of 2 ("
cp tests/support/small_run/*.ini "$work"
diverges() { # NAME OPTIONS...
  fails "$1" 3 --set device.type=ref --set train.sync_batchnorm=true --set optimizer.lr=1000 --set train.clip_norm=0 \
    --set optimizer.weight_decay=1 --set optimizer.momentum=0.99 --set train.epochs=30 "${@:2}"
  says "$1: diverged" "the network diverged"
  ranks 3 60 "$bin/train" audit "$work/$1" --quiet --inspect nonfinite >"$work/inspected"
  check "$1: inspected: exit" $? 0
  check "$1: inspected: the same tensor" "$(grep -cF "$(sed 's/.*of [0-9]*, \(layer .*\), the first at.*/\1/' <<<"$line")" "$work/inspected")" 1
}
diverges synced --set train.recompute=blocks
diverges ended --set "optimizer.groups=*1.* frozen_after=1"
diverges frozen --set "optimizer.groups=*1.* frozen"

line=$(ranks 2 60 "$bin/test_train_diagnose_nonfinite_search" sums-in-bf16 "$work/sums.ini")
check "sums in bf16: exit" $? 0
says "sums in bf16" "in the sums over micro-batches and ranks"
says "sums in bf16: what to do" "dist.reduce_dtype = fp32"
finish
