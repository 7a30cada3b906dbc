# What a run says on machines whose driver, card or libraries do not serve: `device.type = cuda` ends with exit code 4 and one line,
# `auto` trains on the cpu and says the same line. And `train devices`. By fake libraries (support/fake_cuda.c) in LD_LIBRARY_PATH.
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/common.sh" "$1" || exit 1

unset LOCKSTEP_CUDA_PLUGIN CUDA_VISIBLE_DEVICES
mkdir bin fake
if ! cc -shared -fPIC -o fake.so "$root/tests/support/fake_cuda.c" ||
    ! cc -shared -fPIC -I "$root/src" -o bin/lockstep_cuda13.so "$root/tests/support/fake_plugin.c"; then
    echo "skipped: no C compiler for the fake libraries"
    exit 77
fi
cp "$train" bin/train # beside a plugin that only says that it was reached
emulated=$(dirname "$train")/emulated/lockstep_cuda.so
train=$here/bin/train
major=$("$train" devices | awk '/CUDA runtime/ { for (i = 1; i <= NF; i++) if ($i == "or") { print int($(i - 1)); exit } }')
before=$((major - 1))
here_too=$("$train" devices) # with the paths of what is found without the fake libraries

for name in cuda.so.1 "cudart.so.$major" cudnn.so.9 "cublasLt.so.$major" nccl.so.2 nvidia-ml.so.1; do
    cp fake.so "fake/lib$name"
done
for name in graph heuristic engines_precompiled engines_runtime_compiled; do
    cc -shared -fPIC -DPART -Wl,-soname,"libcudnn_$name.so.9" -o "fake/libcudnn_$name.so.9" "$root/tests/support/fake_cuda.c" || exit 1
done

# says WHAT TEXT [NAME=VALUE]...: the line of both device types, with these answers of the fake libraries
says() {
    local what=$1 text=$2 output
    shift 2
    runs=$((runs + 1))
    refused "$what, cuda" 4 "$text" env LD_LIBRARY_PATH="$libraries" "$@" "$train" tiny.ini --set device.type=cuda
    output=$(env LD_LIBRARY_PATH="$libraries" "$@" "$train" tiny.ini --set train.epochs=1 --run-dir "run-$runs" 2>&1)
    check "$what, auto: exit" $? 0
    check "$what, auto: lines that say it" "$(grep -cF "no GPU is used: $text" <<<"$output")" 1
    check "$what, auto: trained on" "$(field "run-$runs/summary.json" device)" cpu
}

libraries=$here/fake runs=0
says "everything right" "the plugin for CUDA 13 was reached"
says "the toolkit's stub" "no NVIDIA driver: found the CUDA toolkit's stub, $here/fake/libcuda.so.1; this build needs driver" FAKE_INIT=34
says "no card" "no GPU: the NVIDIA driver" FAKE_CARDS=0
says "a card too old" "no GPU that is new enough: found Fake GPU 0 of compute capability 7.0; this build needs 7.5" FAKE_CAPABILITY=70
says "a driver too old" "the NVIDIA driver is too old: found" "FAKE_DRIVER=${before}020"
says "cuDNN too old" "cuDNN is too old: found 9.1.1, $here/fake/libcudnn.so.9; this build needs 9.8.0 or later" FAKE_CUDNN=90101
says "cuDNN for another CUDA" "cuDNN 9.19.0 is built for another CUDA version: found $here/fake/libcudnn.so.9 for CUDA $before" "FAKE_CUDNN_CUDA=${before}080"
# Without a library, where none of the same name is found elsewhere; system.machine tests it everywhere.
missing() { # WHAT FILE TEXT [NAME=VALUE]...
    if grep -q "/$2" <<<"$here_too"; then
        echo "left out: $1: this machine has $2"
    else
        mv "fake/$2" .
        says "$1" "$3" "${@:4}"
        [ "$2" != libcuda.so.1 ] || not_expected
        mv "$2" fake/
    fi
}
mkdir -p card/sys/bus/pci/devices/0000:3b:00.0 none/sys/bus/pci/devices/0000:00:02.0
printf '0x10de\n' >card/sys/bus/pci/devices/0000:3b:00.0/vendor
printf '0x030200\n' | tee card/sys/bus/pci/devices/0000:3b:00.0/class >none/sys/bus/pci/devices/0000:00:02.0/class
printf '0x8086\n' >none/sys/bus/pci/devices/0000:00:02.0/vendor
not_expected() { # neither a card nor a driver: one word
    output=$(LD_LIBRARY_PATH=$libraries LOCKSTEP_SYS_ROOT=$here/none "$train" tiny.ini --set train.epochs=1 --run-dir run-none 2>&1)
    check "no card and no driver: no reason" "$(grep -c "no GPU is used" <<<"$output")" 0
    check "no card and no driver: a word" "$(grep -c '^device    cpu (.*; no GPU$' <<<"$output")" 1
    check "no card and no driver: short lines" "$(sed '/^run /,$d' <<<"$output" | awk 'length > 100' | wc -l)" 0
}
missing "a card without a driver" libcuda.so.1 "no NVIDIA driver: libcuda.so.1 not found; this build needs driver" "LOCKSTEP_SYS_ROOT=$here/card"
missing "no cuDNN" libcudnn.so.9 "cuDNN is missing: libcudnn.so.9 not found; this build needs 9.8.0 or later"
missing "no cuBLASLt" "libcublasLt.so.$major" "cuBLASLt is missing: libcublasLt.so.$major not found; this build needs $major.0.0 or later"
mv fake/libcudnn_graph.so.9 . # half an installation; parts of another one are not taken for it
says "cuDNN without a part" "cuDNN is incomplete: found $here/fake/libcudnn.so.9 without libcudnn_graph.so.9; this build needs 9.8.0 or later"
mv libcudnn_graph.so.9 fake/
# Files of two releases in one folder, as a half update leaves them.
mkdir mixed && cp fake/*.so* mixed/ && cd mixed || exit 1
mv libcudnn.so.9 libcudnn.so.9.19.0 && ln -s libcudnn.so.9.19.0 libcudnn.so.9
for name in graph heuristic engines_precompiled engines_runtime_compiled; do
    mv "libcudnn_$name.so.9" "libcudnn_$name.so.9.19.0" && ln -s "libcudnn_$name.so.9.19.0" "libcudnn_$name.so.9"
done
cd ..
libraries=$here/mixed
says "cuDNN of one version in all parts" "the plugin for CUDA 13 was reached"
mv mixed/libcudnn_heuristic.so.9.19.0 mixed/libcudnn_heuristic.so.9.10.1
ln -sf libcudnn_heuristic.so.9.10.1 mixed/libcudnn_heuristic.so.9
says "cuDNN of two versions" "cuDNN's files are of two versions: found $here/mixed/libcudnn.so.9 (9.19.0) beside $here/mixed/libcudnn_heuristic.so.9 (9.10.1)"
libraries=$here/fake
# The emulated device in the plugin's place, on a machine where everything is right.
if [ -e "$emulated" ]; then
    cp "$emulated" bin/lockstep_cuda13.so
    check "the emulated device in its place: the last line" "$(LD_LIBRARY_PATH=$libraries "$train" devices | tail -n 1 | cut -d ' ' -f 1-5)" \
        "device.type = auto takes cuda"
fi
rm bin/lockstep_cuda13.so
says "no plugin" "this build has no CUDA device: $here/bin/lockstep_cuda*.so is not there"

# train devices
json() { # TEXT: it is JSON
    if command -v python3 >/dev/null; then
        python3 -m json.tool <<<"$1" >/dev/null
    elif command -v jq >/dev/null; then
        jq . <<<"$1" >/dev/null
    else
        grep -qE '^\{.*\}$' <<<"$1"
    fi
}
value() { sed -nE "s/.*\"$1\":\"?([^\",}]*)\"?[,}].*/\1/p" <<<"$text"; }

text=$("$train" devices 2>errors)
check "devices: exit" $? 0
check "devices: nothing on stderr" "$(cat errors)" ""
check "devices: the cpu" "$(grep -cE '^  cpu  +.*[0-9]+ threads? a rank' <<<"$text")" 1
check "devices: rows" "$(grep -cE '^  (driver|CUDA runtime|cuDNN|cuBLASLt|NCCL|NVML) .* (required|several GPUs|optional) ' <<<"$text")" 6
check "devices: the last line" "$(tail -n 1 <<<"$text" | cut -d ' ' -f 1-5)" "device.type = auto takes cpu"
text=$(LD_LIBRARY_PATH=$libraries FAKE_CARDS=2 FAKE_CUDNN=90101 "$train" devices)
check "devices: two cards" "$(grep -cE '^  cuda [01] +Fake GPU [01], compute capability 9.0, 80.0 GiB, driver [0-9.]+, GPU-[0-9a-f-]{36}, 0000:3[bc]:00.0$' <<<"$text")" 2
mkdir -p bin/cuda/lib driver && cp fake/libcud[nar]*.so.* bin/cuda/lib && cp fake/libcuda.so.1 driver # but no cuBLASLt
beside=$(LD_LIBRARY_PATH=$here/driver "$train" devices)
check "devices: cuda/lib beside the program" "$(grep -cE "^  (CUDA runtime|cuDNN) .* $here/bin/cuda/lib/lib" <<<"$beside")" 2
check "devices: cuDNN's version, by the parts beside it" "$(grep -cE "^  cuDNN +9.19.0 " <<<"$beside")" 1
mkdir linked && ln -s "$here/fake/libcudnn.so.9" linked/
check "devices: by the parts beside its link's target" "$(LD_LIBRARY_PATH=$here/linked "$train" devices | grep -cE "^  cuDNN +9.19.0 .* $here/linked/")" 1
rm bin/cuda/lib/libcudnn_heuristic.so.9
beside=$(LD_LIBRARY_PATH=$here/driver "$train" devices)
check "devices: cuDNN without a part" "$(grep -cF "cuDNN is incomplete: found $here/bin/cuda/lib/libcudnn.so.9 without libcudnn_heuristic.so.9" <<<"$beside")" 1
beside=$(LD_LIBRARY_PATH=$libraries "$train" devices)
check "devices: LD_LIBRARY_PATH before it" "$(grep -cE "^  (CUDA runtime|cuDNN) .* $here/fake/lib" <<<"$beside")" 2
mv bin/cuda . # a folder above the program's is not the program's: others may be able to write there
above=$(LD_LIBRARY_PATH=$here/driver "$train" devices)
check "devices: no cuda/lib above the program" "$(grep -c "$here/cuda/lib" <<<"$above")" 0
rm -r cuda
check "devices: a problem" "$(grep -c "^  cuDNN is too old: found 9.1.1" <<<"$text")" 1
cc -shared -fPIC -I "$root/src" -o bin/lockstep_cuda13.so "$root/tests/support/fake_plugin.c"
text=$(LD_LIBRARY_PATH=$libraries FAKE_CAPABILITY=70 "$train" devices --json 2>errors)
check "devices --json: exit" $? 0
check "devices --json: nothing on stderr" "$(cat errors)" ""
check "devices --json: one line" "$(wc -l <<<"$text")" 1
check "devices --json: parses" "$(json "$text" && echo yes)" yes
check "devices --json: capability" "$(value compute_capability)" 7.0
check "devices --json: new enough" "$(value new_enough)" false
check "devices --json: PCI" "$(value pci)" 0000:3b:00.0
check "devices --json: auto" "$(sed -nE 's/.*"auto":\{"device":"([^"]*)".*/\1/p' <<<"$text")" cpu
check "devices on 2 ranks: printed once" "$(ranks 2 60 "$train" devices | grep -c '^device.type = auto')" 1
check "devices to a full disk" "$("$train" devices --json 2>/dev/null >/dev/full; echo $?)" 7

# Plugins for CUDA 12 and 13, with the libraries of both beside the program; system.machine has the table of drivers and libraries.
cc -shared -fPIC -I "$root/src" -o bin/lockstep_cuda13.so "$root/tests/support/fake_plugin.c"
cc -shared -fPIC -I "$root/src" -DRUNTIME=12040 -DCAPABILITY=70 -o bin/lockstep_cuda12.so "$root/tests/support/fake_plugin.c"
mkdir -p bin/cuda/lib bin/cuda12/lib
cp fake/libcud[nar]*.so.* fake/libcublasLt.so.* bin/cuda/lib
cp fake/libcudnn*.so.9 bin/cuda12/lib
for name in cudart cublasLt; do cp fake.so bin/cuda12/lib/lib$name.so.12; done
libraries=$here/driver
says "two plugins, an old driver" "the plugin for CUDA 12 was reached" FAKE_DRIVER=12040
says "two plugins, a new driver" "the plugin for CUDA 13 was reached" FAKE_DRIVER=13010
says "two plugins, a V100" "the plugin for CUDA 12 was reached" FAKE_CAPABILITY=70
text=$(LD_LIBRARY_PATH=$libraries FAKE_DRIVER=12040 "$train" devices)
check "devices: the plugin that is taken" "$(grep -c '^  12.4 *lockstep_cuda12.so is taken: ' <<<"$text")" 1
check "devices: why not the newer one" "$(grep -cE '^  13.0 *lockstep_cuda13.so: the NVIDIA driver is too old: found .*CUDA 12.4.*; this build needs 580' <<<"$text")" 1
check "devices: libraries of the one that is taken" "$(grep -cE "^  (CUDA runtime|cuBLASLt|cuDNN) .* $here/bin/cuda12/lib/lib" <<<"$text")" 3
check "doctor: the plugin that is taken" "$(LD_LIBRARY_PATH=$libraries FAKE_DRIVER=12040 "$train" doctor --quick | grep -c '^  12.4 *lockstep_cuda12.so is taken: ')" 1
text=$(LD_LIBRARY_PATH=$libraries FAKE_DRIVER=12040 "$train" devices --json)
check "devices --json: plugins" "$(grep -oE '"runtime":[0-9]+,"taken":[a-z]+' <<<"$text" | tr '\n' ' ')" '"runtime":13000,"taken":false "runtime":12040,"taken":true '
mv bin/cuda12/lib/libcublasLt.so.12 .
says "two plugins, an old driver, no cuBLASLt" "lockstep_cuda12.so: cuBLASLt " FAKE_DRIVER=12040
mv libcublasLt.so.12 bin/cuda12/lib
rm -r bin/cuda bin/cuda12 bin/lockstep_cuda12.so
libraries=$here/fake

# train sweep --jobs: a GPU each, of those that this process sees
jobs() { env LD_LIBRARY_PATH="$libraries" FAKE_CARDS=2 "$@"; }
refused "more jobs than GPUs" 2 "--jobs 3: a run takes a GPU, and there are 2" \
    jobs "$train" sweep tiny.ini --seeds 1-3 --jobs 3 --run-dir gpus
jobs "$train" sweep tiny.ini --seeds 1-2 --jobs 2 --set device.type=cuda --run-dir gpus >/dev/null 2>&1
check "a GPU each" "$(cat gpus/*/log.txt | grep -o 'reached, of GPU .*' | sort | tr '\n' ' ')" "reached, of GPU 0 reached, of GPU 1 "
jobs CUDA_VISIBLE_DEVICES=GPU-a,GPU-b "$train" sweep tiny.ini --seeds 1-2 --jobs 2 --set device.type=cuda --run-dir named >/dev/null 2>&1
check "a GPU each, by name" "$(cat named/*/log.txt | grep -o 'reached, of GPU .*' | sort | tr '\n' ' ')" "reached, of GPU GPU-a reached, of GPU GPU-b "
finish
