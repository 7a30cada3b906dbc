# Which GPU each rank takes, on emulated ones: all visible, one visible each, shared; and what is refused, with one message on all
# ranks before anything is trained. Argument: the folder of the built programs.
. "$(dirname "$0")/../support/mpi.sh"
train=$1/train
export LOCKSTEP_CUDA_PLUGIN=$1/emulated/lockstep_cuda.so
if [ ! -e "$LOCKSTEP_CUDA_PLUGIN" ]; then
    echo "skipped: no emulated CUDA device in this build (it needs a C++ compiler)"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
host=$(hostname)
card() { printf 'GPU-656d756c-6174-6564-0000-00000000000%d' "$1"; }

cat >"$work/net.ini" <<'END'
[network]
input = 1x6x6
[flat]
layer = flatten
[fc]
layer = linear
out_features = 4
END
cat >"$work/run.ini" <<'END'
[data]
dataset = synthetic
shape = 1x6x6
classes = 4
train_samples = 48
test_samples = 12
[model]
file = net.ini
[train]
epochs = 1
global_batch = 12
[device]
type = cuda
threads = 1
END

# Every rank's GPUs: visible 0,1 2 ... gives rank r the r-th word as CUDA_VISIBLE_DEVICES; "all" and "none" are words, too.
cat >"$work/rank.sh" <<'END'
set -- "$@"
words=$1
shift
set -f
i=0
for word in $words; do
    [ "$i" = "$OMPI_COMM_WORLD_RANK" ] && mine=$word
    i=$((i + 1))
done
case $mine in
all) unset CUDA_VISIBLE_DEVICES ;;
none) export CUDA_VISIBLE_DEVICES= ;;
*) export CUDA_VISIBLE_DEVICES="$mine" ;;
esac
exec "$@"
END

# refused WHAT DEVICES "VISIBLE..." RC TEXT OPTIONS...: one error line, which begins with TEXT
refused() {
    local what=$1 devices=$2 visible=$3 rc=$4 text=$5 output got
    shift 5
    # shellcheck disable=SC2086 # a word for each rank
    output=$(LOCKSTEP_EMULATION="devices=$devices" ranks "$(set -f -- $visible && echo $#)" 60 sh "$work/rank.sh" "$visible" "$train" \
        "$work/run.ini" --run-dir "$work/refused" "$@" 2>&1)
    got=$?
    check "$what: exit" "$got" "$rc"
    check "$what: error lines" "$(grep -c error: <<<"$output")" 1
    case $(grep error: <<<"$output") in
    "error: $text"*) check "$what: text" same same ;;
    *) check "$what: text" "$output" "error: $text" ;;
    esac
    check "$what: no run folder" "$(ls "$work/refused" 2>/dev/null)" ""
}

refused "three ranks, two GPUs" 2 "all all all" 2 "host $host shows 2 GPUs, but 3 ranks were started there: start at most 2, or set device.share"
refused "two ranks, one GPU" 1 "all all" 2 "host $host shows 1 GPU, Emulated GPU ($(card 0)), but 2 ranks were started there: start one, or"
refused "auto, too" 1 "all all" 2 "host $host shows 1 GPU" --set device.type=auto
refused "two ranks see one of four" 4 "2 2" 2 "host $host shows 1 GPU, Emulated GPU ($(card 2)), but 2 ranks"
refused "the second sees what the first has taken" 4 "3,1 3" 2 "rank 1 on host $host sees 1 GPU, and lower ranks there have it already, Emulated GPU ($(card 3))"
refused "one rank without a GPU" 2 "all none" 4 "device.type = cuda: rank 1 on host $host: the NVIDIA driver sees no GPU"
refused "one rank without a GPU, auto" 2 "none all" 4 "rank 0 on host $host can use no GPU, but 1 other rank can: the NVIDIA driver sees no GPU" --set device.type=auto
refused "shared, summed by NCCL" 2 "all all all" 2 "dist.backend = nccl: ranks 0 and 2 on host $host share a GPU, Emulated GPU ($(card 0))" \
    --set device.share=true --set dist.backend=nccl
refused "a network that is not there" 2 "all all" 2 "" --set model.file=nowhere.ini

LOCKSTEP_EMULATION=devices=0 ranks 2 60 "$train" "$work/run.ini" --set device.type=auto --run-dir "$work/cpu" >/dev/null 2>"$work/cpu.log"
check "auto without GPUs: exit" $? 0
check "auto without GPUs: says why" "$(grep -c '^no GPU is used: the NVIDIA driver sees no GPU' "$work/cpu.log")" 1
finish
