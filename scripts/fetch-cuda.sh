#!/usr/bin/env bash
# fetch-cuda.sh - assembles a CUDA toolkit (compiler, runtime, cuDNN, cuBLAS, NCCL, headers) in a local folder, from the Python
# packages that NVIDIA publishes. No root, nothing is installed elsewhere; the driver is not among them.
#
#   scripts/fetch-cuda.sh [FOLDER]     (FOLDER: cuda/ in the repository, where `train` also looks for libraries at run time;
#                                       to be named where this script is installed)
#
# Loads about 1.1 GB and leaves 1.7 GB. The folder appears whole or not at all; one that holds this set already and whose compiler
# works is left as it is. Needs python3 with pip or venv, and a C++ compiler for nvcc to use.
# Exit: 0 the toolkit is there and compiles; 2 wrong use; 4 not to be had, or it does not compile.
set -euo pipefail

case ${1-} in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
    ;;
esac

# One set of versions, those that Lockstep is built and tested with.
readonly packages='nvidia-cuda-nvcc==13.0.88
nvidia-nvvm==13.0.88
nvidia-cuda-crt==13.0.88
nvidia-cuda-runtime==13.0.96
nvidia-cuda-cccl==13.0.85
nvidia-cuda-nvrtc==13.0.88
nvidia-cublas==13.1.0.3
nvidia-cudnn-cu13==9.19.0.56
nvidia-nccl-cu13==2.28.9'

say() { printf 'fetch-cuda: %s\n' "$*"; }
fail() {
    local code=$1
    shift
    printf 'fetch-cuda: %s\n' "$*" >&2
    exit "$code"
}

[ $# -le 1 ] || fail 2 "usage: scripts/fetch-cuda.sh [FOLDER]"
case ${1-} in -*) fail 2 "usage: scripts/fetch-cuda.sh [FOLDER]" ;; esac
repository=$(cd "$(dirname "$0")/.." && pwd)
[ -e "$repository/CMakeLists.txt" ] || repository= # it is installed
[ -n "${1:-$repository}" ] || fail 2 "name the folder for the toolkit: $0 FOLDER"
folder=${1:-$repository/cuda}
mkdir -p "$(dirname "$folder")" || fail 4 "$(dirname "$folder"): cannot be made"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")

work=$(mktemp -d "$folder.XXXXXX") || fail 4 "$(dirname "$folder"): cannot be written"
trap 'rm -rf "$work"' EXIT

# A kernel, compiled and linked with the runtime, for a card that needs not be there.
compiles() { # TOOLKIT
    cat >"$work/try.cu" <<'CODE'
#include <cuda_bf16.h>
#include <cudnn.h>
#include <cublasLt.h>
#include <nccl.h>
__global__ void twice(__nv_bfloat16 *x) { x[threadIdx.x] = __hadd(x[threadIdx.x], x[threadIdx.x]); }
int main() {
    twice<<<1, 32>>>(nullptr);
    return (int)(cudnnGetVersion() / 10000) + (cublasLtGetVersion() == 0) - CUDNN_MAJOR;
}
CODE
    (cd "$work" && unset CUDA_HOME && "$1/bin/nvcc" -arch=sm_80 -cudart shared -I "$1/include" try.cu -o try -L "$1/lib" \
        -l:libcudnn.so.9 -l:libcublasLt.so.13 -l:libnccl.so.2 && LD_LIBRARY_PATH=$1/lib ./try)
}

told() {
    say "$folder: $1"
    printf 'configure with it:   cmake --preset release -G Ninja -DLOCKSTEP_CUDA_ROOT=%s\n' "$folder"
    [ -n "$repository" ] || printf 'run with it:         export LD_LIBRARY_PATH=%s/lib\n' "$folder"
}

if [ "$(cat "$folder/packages" 2>/dev/null)" = "$packages" ] && compiles "$folder" >"$work/log" 2>&1; then
    told "is there already, and compiles"
    exit 0
fi
if [ -e "$folder" ] && [ ! -e "$folder/packages" ]; then
    fail 2 "$folder: is there, but was not made by this script; name another folder, or remove it"
fi

command -v c++ >/dev/null || command -v g++ >/dev/null ||
    fail 4 "no C++ compiler, which nvcc needs; Debian, Ubuntu: apt-get install g++"
command -v python3 >/dev/null || fail 4 "no python3; Debian, Ubuntu: apt-get install python3 python3-pip"
python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv "$work/venv" >/dev/null 2>&1 ||
        fail 4 "python3 has neither pip nor venv; Debian, Ubuntu: apt-get install python3-pip (or python3-venv)"
    python=$work/venv/bin/python
fi

say "loading $(wc -l <<<"$packages") packages, about 1.1 GB"
# shellcheck disable=SC2086 # one package a word
PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile --only-binary=:all: \
    --target "$work/packages" $packages || fail 4 "the packages are not to be had: see above"

# nvidia/cu13 holds the toolkit, nvidia/cudnn and nvidia/nccl their own include and lib: into one tree.
mkdir "$work/cuda"
for part in "$work"/packages/nvidia/*/; do
    cp -rl "$part." "$work/cuda/"
done
[ -x "$work/cuda/bin/nvcc" ] || fail 4 "the packages hold no bin/nvcc; found: $(ls "$work/cuda")"
find "$work/cuda" -name __init__.py -delete
[ -e "$work/cuda/lib64" ] || ln -s lib "$work/cuda/lib64" # where nvcc and CMake look
for library in "$work"/cuda/lib/lib*.so.*; do             # the name that a linker looks for
    name=$(basename "$library")
    [ -e "$work/cuda/lib/${name%%.so.*}.so" ] || ln -s "$name" "$work/cuda/lib/${name%%.so.*}.so"
done

compiles "$work/cuda" >"$work/log" 2>&1 ||
    fail 4 "the toolkit does not compile a kernel: $(grep -m 1 -iE 'error|fatal' "$work/log" || tail -n 1 "$work/log")"
printf '%s\n' "$packages" >"$work/cuda/packages"
rm -rf "$folder"
mv "$work/cuda" "$folder"
told "$(du -sh "$folder" | cut -f 1), compiles; $("$folder/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p')"
