#!/usr/bin/env bash
# fetch-cuda.sh - assembles a CUDA toolkit (compiler, runtime, cuDNN, cuBLAS, NCCL, headers) in a local folder, from the Python
# packages that NVIDIA publishes. No root, nothing is installed elsewhere; the driver is not among them.
#
#   scripts/fetch-cuda.sh [--arm64] [12|13] [FOLDER]
#     13 (the default) needs driver 580 or later, 12 needs 525.60.13 or later. FOLDER: cuda/ or cuda12/ in the repository, where
#     `train` also looks for libraries at run time; it must be named where this script is installed. --arm64: also the libraries for
#     arm64, into FOLDER/targets/sbsa-linux, with which another processor builds the plugin for arm64.
#
# Loads about 1.1 GB (12: 1.8 GB) and leaves 1.7 GB (12: 2.7 GB). The folder appears whole or not at all; one that holds this set
# already and whose compiler works is left as it is. Needs python3 with pip or venv, and a C++ compiler for nvcc to use.
# CUDA 12 also needs apt-get, because its Python packages lack nvcc: Debian 13's package nvidia-cuda-toolkit has it. The script takes
# that from the Debian mirror of this machine's apt sources, or from DEBIAN_MIRROR. Its nvcc takes g++ up to version 13. cuBLAS is 12.9's,
# because 12.4's has no code for compute capability 10.0 and 12.0.
# Exit: 0 the toolkit is there and compiles; 2 wrong use; 4 not to be had, or it does not compile.
set -euo pipefail

case ${1-} in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
    ;;
esac

# One set of versions of each toolkit, those that Lockstep is built and tested with. cuDNN 9.10 is the last one with code for
# compute capability 7.0. CCCL 12.4 lacks cuda/std, so it is 12.9's.
readonly packages_13='nvidia-cuda-nvcc==13.0.88
nvidia-nvvm==13.0.88
nvidia-cuda-crt==13.0.88
nvidia-cuda-runtime==13.0.96
nvidia-cuda-cccl==13.0.85
nvidia-cuda-nvrtc==13.0.88
nvidia-cublas==13.1.0.3
nvidia-cudnn-cu13==9.19.0.56
nvidia-nccl-cu13==2.28.9'
readonly packages_12='nvidia-cuda-nvcc-cu12==12.4.131
nvidia-cuda-runtime-cu12==12.4.127
nvidia-cuda-cccl-cu12==12.9.27
nvidia-cuda-nvrtc-cu12==12.4.127
nvidia-cublas-cu12==12.9.1.4
nvidia-cudnn-cu12==9.10.2.21
nvidia-nccl-cu12==2.27.7'
readonly debian_package=nvidia-cuda-toolkit debian_version=12.4.131~12.4.1-2 debian_suite=trixie

say() { printf 'fetch-cuda: %s\n' "$*"; }
fail() {
    local code=$1
    shift
    printf 'fetch-cuda: %s\n' "$*" >&2
    exit "$code"
}

readonly usage="usage: scripts/fetch-cuda.sh [--arm64] [12|13] [FOLDER]"
major=13 arm64=
case ${1-} in
--arm64)
    arm64=yes
    shift
    ;;
esac
case ${1-} in
12 | 13)
    major=$1
    shift
    ;;
esac
[ $# -le 1 ] || fail 2 "$usage"
case ${1-} in -* | [0-9]*) fail 2 "$usage" ;; esac # no folder: a number is a version that is not to be had
case $major in
12) packages=$packages_12 gigabytes=1.8 name=cuda12 ;;
13) packages=$packages_13 gigabytes=1.1 name=cuda ;;
esac
readonly packages
repository=$(cd "$(dirname "$0")/.." && pwd)
[ -e "$repository/CMakeLists.txt" ] || repository= # it is installed
[ -n "${1:-$repository}" ] || fail 2 "name the folder for the toolkit: $0 $major FOLDER"
folder=${1:-$repository/$name}
mkdir -p "$(dirname "$folder")" || fail 4 "$(dirname "$folder"): cannot be made"
folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")

work=$(mktemp -d "$folder.XXXXXX") || fail 4 "$(dirname "$folder"): cannot be written"
trap 'rm -rf "$work"' EXIT

# A kernel, compiled and linked with the runtime, for a card that needs not be there. CUDA 12's package of the runtime lacks cudadevrt,
# which nvcc would link by default.
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
    local by=()
    [ "$major" != 12 ] || [ "$(c++ -dumpversion 2>/dev/null | cut -d . -f 1)" -lt 14 ] || by=(-ccbin g++-13) # the newest that nvcc 12.4 takes
    (cd "$work" && unset CUDA_HOME && "$1/bin/nvcc" "${by[@]}" -arch=sm_80 -cudart shared -cudadevrt none -I "$1/include" try.cu -o try -L "$1/lib" \
        -l:libcudnn.so.9 "-l:libcublasLt.so.$major" -l:libnccl.so.2 && LD_LIBRARY_PATH=$1/lib ./try)
}

told() {
    say "$folder: $1"
    printf 'configure with it:   cmake --preset release -G Ninja -DLOCKSTEP_CUDA_ROOT=%s\n' "$folder"
    [ -n "$repository" ] || printf 'run with it:         export LD_LIBRARY_PATH=%s/lib\n' "$folder"
}

is_complete() {
    [ "$(cat "$folder/packages" 2>/dev/null)" = "$packages" ] && { [ -z "$arm64" ] || [ -d "$folder/targets/sbsa-linux" ]; } &&
        compiles "$folder" >"$work/log" 2>&1
}
if is_complete; then
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

# Debian's package with nvcc 12, unpacked into $work/debian. apt gets its own lists and cache, so that it needs no root.
load_debian_package() {
    local apt=$work/apt mirror=${DEBIAN_MIRROR-} keys=/usr/share/keyrings/debian-archive-keyring.gpg
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
        fail 4 "no apt-get and dpkg-deb, by which nvcc 12 comes; take CUDA 13, or name an installed toolkit with -DLOCKSTEP_CUDA_ROOT"
    # shellcheck disable=SC2016 # apt-get's variable
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/*$') ||
        fail 4 "this machine's apt sources name no Debian mirror: set DEBIAN_MIRROR=http://.../debian"
    [ -e "$keys" ] || fail 4 "$keys is missing, which proves that the package is Debian's: apt-get install debian-archive-keyring"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    printf 'deb [signed-by=%s] %s %s non-free\n' "$keys" "$mirror" "$debian_suite" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::status "/dev/null";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Sandbox::User "";
CONF
    (cd "$apt" && export APT_CONFIG=$apt/apt.conf && apt-get -qq update && apt-get -qq download "$debian_package=$debian_version") \
        >"$work/log" 2>&1 || fail 4 "$debian_package $debian_version is not to be had from $mirror: $(tail -n 1 "$work/log")"
    dpkg-deb -x "$apt"/*.deb "$work/debian"
}

# nvcc and its parts into the tree, where nvcc's own profile looks for them
add_debian_package() {
    local from=$work/debian/usr to=$work/cuda part
    mkdir -p "$to/bin/crt" "$to/nvvm/bin"
    for part in cudafe++ fatbinary nvlink cuobjdump cu++filt; do cp "$from/bin/$part" "$to/bin/"; done
    cp "$from"/lib/nvidia-cuda-toolkit/bin/crt/*.stub "$to/bin/crt/"
    cp "$from/lib/nvidia-cuda-toolkit/bin/nvcc" "$to/bin/"
    cp "$from/lib/nvidia-cuda-toolkit/bin/cicc" "$to/nvvm/bin/"
    cat >"$to/bin/nvcc.profile" <<'PROFILE'
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
LD_LIBRARY_PATH += $(TOP)/lib:$(TOP)/nvvm/lib64:
PATH += $(CICC_PATH):$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib"
PROFILE
}

# load TREE PLATFORM PACKAGE...: the packages' folders as one tree. nvidia/cu13 holds the toolkit, nvidia/cudnn and nvidia/nccl (of CUDA 12:
# every package) their own include and lib. PLATFORM: options of pip for another processor, or nothing.
load() {
    local tree=$1 platform=$2 part
    shift 2
    rm -rf "$work/packages"
    # shellcheck disable=SC2086 # several options
    PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-compile \
        --only-binary=:all: $platform --target "$work/packages" "$@" || fail 4 "the packages are not to be had: see above"
    find "$work/packages" -name __init__.py -delete
    mkdir -p "$tree"
    for part in "$work"/packages/nvidia/*/; do
        cp -rl "$part." "$tree/"
    done
}

# The name that a linker looks for.
name_libraries() { # FOLDER
    local library name
    for library in "$1"/lib*.so.*; do
        name=$(basename "$library")
        [ -e "$1/${name%%.so.*}.so" ] || ln -s "$name" "$1/${name%%.so.*}.so"
    done
}

mapfile -t list <<<"$packages"
say "loading ${#list[@]} packages, about $gigabytes GB"
[ "$major" != 12 ] || load_debian_package
load "$work/cuda" "" "${list[@]}"
[ "$major" != 12 ] || add_debian_package
[ -x "$work/cuda/bin/nvcc" ] || fail 4 "the packages hold no bin/nvcc; found: $(ls "$work/cuda")"
[ -e "$work/cuda/lib64" ] || ln -s lib "$work/cuda/lib64" # where nvcc and CMake look
name_libraries "$work/cuda/lib"
if [ -n "$arm64" ]; then
    mapfile -t list < <(grep -E 'runtime|cublas|cudnn|nccl' <<<"$packages")
    say "loading ${#list[@]} packages for arm64"
    load "$work/cuda/targets/sbsa-linux" "--platform manylinux_2_27_aarch64 --platform manylinux_2_18_aarch64 --platform manylinux2014_aarch64" "${list[@]}"
    name_libraries "$work/cuda/targets/sbsa-linux/lib"
    cp -rln "$work/cuda/include/." "$work/cuda/targets/sbsa-linux/include/" # the compiler's, which are the same
fi

compiles "$work/cuda" >"$work/log" 2>&1 ||
    fail 4 "the toolkit does not compile a kernel: $(grep -m 1 -iE 'error|fatal|cannot find|undefined' "$work/log" || tail -n 1 "$work/log")"
printf '%s\n' "$packages" >"$work/cuda/packages"
rm -rf "$folder"
mv "$work/cuda" "$folder"
told "$(du -sh "$folder" | cut -f 1), compiles; $("$folder/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p')"
