# A run goes on with other arithmetic: in ordered mode a warning says so, since the bits are others; with the same arithmetic, on other
# ranks or in fast mode nothing is said. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp configs/models/resnet20.ini "$work/net.ini"
cat >"$work/run.ini" <<'END'
[data]
dataset = synthetic
shape = 3x16x16
classes = 4
train_samples = 64
test_samples = 16
[model]
file = net.ini
[train]
epochs = 2
global_batch = 16
[checkpoint]
every_updates = 2
[device]
type = cpu
threads = 1
END
said() { grep -c '^warning: .*the arithmetic (other bits from here on)' "$work/$1.log"; }
field_of() { grep -oE '"arithmetic":[[:space:]]*"[^"]*"' "$(find "$work/$1/checkpoints" -name manifest.json | sort | tail -n 1)"; }
# part NAME RANKS WORDS...: a part of run NAME
part() {
    local name=$1 n=$2 launch=
    shift 2
    [ "$n" = 1 ] || launch="ranks $n 120"
    # shellcheck disable=SC2086 # several words
    $launch "$bin/train" "$work/run.ini" --run-dir "$work/$name" --set run.deterministic=$deterministic "$@" >"$work/$name.log" 2>&1
    check "$name, $n ranks: exit" $? 0
}
deterministic=true
for name in same ranks other device; do
    part $name 1 --set train.max_updates=2
done
check "a checkpoint has the arithmetic" "$(field_of same | grep -c 'cpu, AVX.*oneDNN.*algorithms')" 1
part same 1 --resume
check "the same arithmetic: warnings" "$(said same)" 0
part ranks 2 --resume
check "other ranks: warnings" "$(said ranks)" 0
DNNL_MAX_CPU_ISA=SSE41 part other 1 --resume
check "other vector instructions of the library: warnings" "$(said other)" 1
DNNL_MAX_CPU_ISA=SSE41 part other 1 --resume --set train.max_updates=6
check "the same other instructions again: warnings" "$(said other)" 0
part device 1 --resume --set device.type=ref
check "another device: warnings" "$(said device)" 1
deterministic=false
part fast 1 --set train.max_updates=2
DNNL_MAX_CPU_ISA=SSE41 part fast 1 --resume
check "fast mode: warnings" "$(said fast)" 0
finish
