# Which GPU each rank takes, on emulated ones: all visible, one visible each, shared; and what is refused, with one message on all
# ranks before anything is trained. Argument: the folder of the built programs.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
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

# refused WHAT DEVICES "VISIBLE..." RC TEXT OPTIONS...: one error line, which begins with TEXT, on whichever rank
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
    "error: $text"* | "rank "[0-9]": error: $text"*) check "$what: text" same same ;; # by the rank that found it
    *) check "$what: text" "$output" "error: $text" ;;
    esac
    check "$what: no run folder" "$(ls "$work/refused" 2>/dev/null)" ""
}

refused "three ranks, two GPUs" 2 "all all all" 2 "host $host shows 2 GPUs, but 3 ranks were started there: start at most 2, or set device.share"
refused "two ranks, one GPU" 1 "all all" 2 "host $host shows 1 GPU, Emulated GPU ($(card 0)), but 2 ranks were started there: start one, or"
LOCKSTEP_TEST_HOSTS=0,0,1 refused "two ranks, one GPU, beside another host" 1 "all all all" 2 \
    "host $host shows 1 GPU, Emulated GPU ($(card 0)), but 2 ranks were started there: start one, or"
refused "auto, too" 1 "all all" 2 "host $host shows 1 GPU" --set device.type=auto
refused "the second sees what the first has taken" 4 "3,1 3" 2 "rank 1 on host $host sees 1 GPU, and lower ranks there have it already, Emulated GPU ($(card 3))"
refused "one rank without a GPU" 2 "all none" 4 "device.type = cuda: rank 1 on host $host: the NVIDIA driver sees no GPU"
refused "one rank without a GPU, auto" 2 "none all" 4 "rank 0 on host $host can use no GPU, but 1 other rank can: the NVIDIA driver sees no GPU" --set device.type=auto
refused "shared, summed by NCCL" 2 "all all all" 2 "dist.backend = nccl: ranks 0 and 2 on host $host share a GPU, Emulated GPU ($(card 0))" \
    --set device.share=true --set dist.backend=nccl

LOCKSTEP_EMULATION=devices=0 ranks 2 60 "$train" "$work/run.ini" --set device.type=auto --run-dir "$work/cpu" >/dev/null 2>"$work/cpu.log"
check "auto without GPUs: exit" $? 0
check "auto without GPUs: says why" "$(grep -c '^no GPU is used: the NVIDIA driver sees no GPU' "$work/cpu.log")" 1

# placed WHAT RANKS OPTIONS...: trains; the log is $work/log, the first line of the metrics $work/start
placed() {
    local what=$1 n=$2
    shift 2
    rm -rf "$work/run"
    ranks "$n" 60 "$@" "$work/run.ini" --run-dir "$work/run" >"$work/log" 2>&1
    check "$what: exit" $? 0
    head -n 1 "$work/run/metrics.jsonl" | grep -o '"ranks":.*' >"$work/start"
}
said() { check "$1" "$(grep -c "$2" "$work/log")" "$3"; }
own() { grep -o "\"$1\":\"[^\"]*\"" "$work/start" | cut -d'"' -f4 | tr '\n' ' '; }

# Cores: both GPUs are near all of them, so that two ranks divide them, if there are two.
mkdir -p "$work/sys/bus/pci/devices/0000:01:00.0" "$work/sys/bus/pci/devices/0000:02:00.0"
for device in "$work"/sys/bus/pci/devices/*; do
    echo 0 >"$device/numa_node"
    echo 0-8191 >"$device/local_cpulist"
done
mkdir "$work/root" && mv "$work/sys" "$work/root/sys"
export LOCKSTEP_SYS_ROOT=$work/root LOCKSTEP_EMULATION=devices=2
placed "two ranks, two GPUs" 2 "$train"
said "two ranks, two GPUs: rank 0's line" "^rank 0    $host  Emulated GPU  $(card 0)  0000:01:00.0  CPUs " 1
said "two ranks, two GPUs: rank 1's line" "^rank 1    $host  Emulated GPU  $(card 1)  0000:02:00.0  CPUs " 1
check "two ranks, two GPUs: in the metrics" "$(own uuid)$(own pci)" "$(card 0) $(card 1) 0000:01:00.0 0000:02:00.0 "
read -r first second <<<"$(own cpus)"
expected=different
[ "$(nproc)" -gt 1 ] || expected=same
check "cores of the two" "$([ "$first" = "$second" ] && echo same || echo different)" $expected
unset LOCKSTEP_SYS_ROOT

# One visible each, of different models.
# shellcheck disable=SC2016 # the rank's own shell expands it
placed "one visible each" 2 sh -c 'LOCKSTEP_EMULATION=devices=4,name=Model$OMPI_COMM_WORLD_RANK
    CUDA_VISIBLE_DEVICES=$((3 - OMPI_COMM_WORLD_RANK)); export CUDA_VISIBLE_DEVICES LOCKSTEP_EMULATION; exec "$@"' sh "$train"
check "one visible each: in the metrics" "$(own uuid)$(own name)" "$(card 3) $(card 2) Model0 Model1 "
said "different models: one warning" "^warning: ranks differ, which is allowed: updates wait for the slowest" 1
said "different models: the table" "^  GPU   Model0, compute capability 9.0  Model1" 1
check "different models: in the metrics" "$(grep -c '"event":"warning"' "$work/run/metrics.jsonl")" 1

# Shared: three ranks on two GPUs.
echo 'share = true' >>"$work/run.ini"
placed "three ranks share two GPUs" 3 "$train"
check "three ranks share two GPUs: in the metrics" "$(own pci)" "0000:01:00.0 0000:02:00.0 0000:01:00.0 "

# Libraries of different versions.
# shellcheck disable=SC2016
text=$(ranks 2 60 sh -c 'LOCKSTEP_EMULATION=devices=2,runtime=130${OMPI_COMM_WORLD_RANK}0; export LOCKSTEP_EMULATION; exec "$@"' sh \
    "$train" "$work/run.ini" --run-dir "$work/versions" 2>&1)
check "different versions: exit" $? 5
check "different versions: table" "$text" "error: ranks differ before the first update:
  fact       rank 0               rank 1
  libraries  CUDA 13.0, emulated  CUDA 13.1, emulated"
finish
