# Memory on a GPU that has little, and recomputation on one: the emulated CUDA device, with a limit of its memory.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
train=$1/train
case $train in /*) ;; *) train=$PWD/$train ;; esac
export LOCKSTEP_CUDA_PLUGIN=${train%/*}/emulated/lockstep_cuda.so
if [ ! -r "$LOCKSTEP_CUDA_PLUGIN" ]; then
    echo "skipped: $LOCKSTEP_CUDA_PLUGIN is not there; it needs a C++ compiler when Lockstep is built"
    exit 77
fi
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1

{
    printf '[network]\ninput = 3x16x16\n'
    for i in 1 2 3 4; do
        printf '[c%d]\nlayer = conv2d\nout_channels = 16\nkernel = 3\npadding = 1\nbias = false\n' $i
        printf '[n%d]\nlayer = batchnorm2d\n[r%d]\nlayer = relu\n' $i $i
        [ $i != 3 ] || printf '[p%d]\nlayer = maxpool2d\nkernel = 2\n' $i
    done
    printf '[p]\nlayer = globalavgpool\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n'
} >net.ini
cat >small.ini <<'END'
[device]
type = cuda
[data]
dataset = synthetic
shape = 3x16x16
train_samples = 64
test_samples = 16
[model]
file = net.ini
[train]
epochs = 1
global_batch = 32
END

# run MEMORY OPTIONS...   output in out, exit status in rc
run() {
    memory=$1
    shift
    LOCKSTEP_EMULATION="$memory" timeout 100 "$train" small.ini "$@" >out 2>&1
    rc=$?
}

says() { # WHAT PATTERN
    check "$1" "$(grep -c -- "$2" out)" 1
}

run memory=3M
check "does not fit: exit" $rc 4
says "does not fit: names the micro-batch" "^error: the run does not fit into the device's memory: with micro-batches of 32 "
says "does not fit: the table" "^  activations "
says "does not fit: what is free" "^  free on the device  *3.0 MiB"
says "does not fit: what to do" "train.micro_batch (auto chooses one), train.recompute = blocks or train.precision = bf16"
check "does not fit: no run folder" "$(ls)" "net.ini
out
small.ini"

run memory=3M --set train.micro_batch=auto --run-dir auto
check "auto: exit" $rc 0
says "auto: one line" "^memory    train.micro_batch = auto: 16 samples and 2 accumulation steps need "
check "auto: the micro-batch that ran" "$(grep -cE '^\s"micro_batch":\s*16' auto/summary.json)" 1
check "auto: and its accumulation" "$(grep -cE '^\s"accumulation_steps":\s*2' auto/summary.json)" 1

run memory=1G --set train.micro_batch=16 --run-dir given
check "the same, given: exit" $rc 0
check "the same, given: weights" "$(cmp auto/weights.safetensors given/weights.safetensors && echo same)" same

run memory=1G --dry-run
check "plenty: exit" $rc 0
says "plenty: what is free" "^  free on the device  *1.0 GiB"

run memory=1G --set train.micro_batch=16 --set train.recompute=blocks --run-dir blocks
check "recomputed: exit" $rc 0
check "recomputed: weights" "$(cmp blocks/weights.safetensors given/weights.safetensors && echo same)" same

# A prediction has no micro-batch of its own to make smaller: another device is what is left.
base64 -d >a.png <<<'iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mPQqDhBEmIY1TCqYfhqAADDSmgQB35GTAAAAABJRU5ErkJggg==' # 3x16x16
predict() { # MEMORY DEVICE
    LOCKSTEP_EMULATION="$1" timeout 100 "$train" predict auto/weights.safetensors a.png --set device.type="$2" >out 2>&1
    rc=$?
}
predict memory=200K cuda
check "prediction does not fit: exit" $rc 4
says "prediction does not fit: message" "^error: the network does not fit into the device's memory: with micro-batches of 8 it needs "
says "prediction does not fit: what to do" "use device.type = cpu; or stop what else uses this device"
check "prediction does not fit: no option of training" "$(grep -c 'train\.' out)" 0
predict memory=200K cpu
check "prediction on the cpu: exit" $rc 0
predict memory=1G cuda
check "prediction with plenty: exit" $rc 0

run memory=1G,malloc_fail=4
check "an allocation fails in spite of the plan: exit" $rc 4
says "an allocation fails in spite of the plan: names it" "^error: out of GPU memory: .* needs "
finish
