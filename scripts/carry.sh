#!/usr/bin/env bash
# carry.sh - gathers in carry/ (ignored by git) what scripts/gpu-check.sh needs on a machine with a card but without network and packages.
#
#   scripts/carry.sh [program [CAPABILITY]]   the program with its tests, built here for every card, or for one kind of card (90: H100 and H200;
#                                 27 MB), its libraries, and Fashion-MNIST, so that nothing is built there. Needs nvcc and cuDNN
#                                 here (scripts/fetch-cuda.sh)
#   scripts/carry.sh mpi          Open MPI's launcher and plugins, so that two ranks can share one card there
#   scripts/carry.sh cifar FOLDER 1|2   a part of CIFAR-10's binary files: 1 (40 MB), 2 (60 MB), for two calls on the same machine. Needs libjxl-tools here
#   scripts/carry.sh packages     Debian packages for building there, with Open MPI, and Fashion-MNIST: about 45 MB
#   scripts/carry.sh results FOLDER   what an earlier call found there, so that the next one continues
#
# All kinds may lie in carry/ at once; `rm -r carry` if that is too much for one call. The checkout's commit goes along, for a copy without git.
set -uo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "$(dirname "$0")/.." || exit 1

fail() {
  echo "carry.sh: $*" >&2
  exit 1
}

readonly data=(dataset-fashion-mnist)
readonly packages=(libdnnl-dev libdnnl2 ocl-icd-libopencl1 libgomp1 libcjson-dev libcjson1 libxxhash-dev libxxhash0 zlib1g-dev zlib1g libdeflate-dev
  libdeflate0 libstb-dev libstb0 libcmocka-dev libcmocka0 pkgconf pkgconf-bin pkg-config libpkgconf3 ninja-build
  libopenmpi-dev)
# What ranks of one host need of Open MPI; its drivers of fabrics stay unloaded without their libraries.
readonly mpi=(libopenmpi3 openmpi-bin openmpi-common libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7 libpmix2 libudev1 libmunge2
  libnuma1 libatomic1)

# load PACKAGE...: as files, those that are not there yet
load() {
  local package said
  command -v apt-get >/dev/null || fail "no apt-get here, which loads the packages $*"
  for package in "$@"; do
    compgen -G "carry/${package}_*.deb" >/dev/null && continue
    said=$(cd carry && apt-get download -qq "$package" 2>&1) ||
      fail "$package cannot be loaded (apt-get update may be due): $(tail -n 1 <<<"$said")"
  done
}

[ $# -gt 0 ] || set -- program
mkdir -p carry || fail "carry/ cannot be made"
if [ "$(git rev-parse --show-prefix 2>/dev/null)" = "" ] && commit=$(git describe --always --dirty --tags 2>/dev/null); then
  echo "$commit" >carry/commit
fi
case $1 in
program)
  load "${data[@]}"
  scripts/gpu-check.sh pack ${2:+--architecture "$2"} || fail "the program could not be packed: see above, and build/gpu/results/logs.txt"
  ;;
mpi) load "${mpi[@]}" ;;
cifar)
  [ $# = 3 ] || fail "carry.sh cifar FOLDER 1|2: the folder of the binary files, and which part"
  scripts/gpu-check.sh pack-cifar "$2" "$3" || fail "CIFAR-10 could not be packed: see above"
  ;;
packages) load "${data[@]}" "${packages[@]}" "${mpi[@]}" ;;
results)
  [ -s "${2-}/record.jsonl" ] || fail "'${2-}' holds no record.jsonl: the results folder of an earlier call is expected"
  rm -rf carry/results && mkdir carry/results && cp -- "$2"/*.* carry/results/ || fail "$2 cannot be copied"
  ;;
*)
  echo "carry.sh: unknown argument '$1'; expected is program, mpi, cifar FOLDER 1|2, packages or results FOLDER" >&2
  exit 2
  ;;
esac
echo "carry/: $(du -sh carry | cut -f1)"
