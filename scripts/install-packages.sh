#!/usr/bin/env bash
# install-packages.sh - the system packages that Lockstep needs, by apt on Debian and Ubuntu.
#
#   scripts/install-packages.sh [GROUP]...      groups: run (default), test, data, cluster, fuzz
#
# Installs only what is missing; needs root or sudo for that alone. This is the one list of packages in the repository.
set -euo pipefail

run=(
  gcc libc6-dev cmake ninja-build pkg-config git ca-certificates curl # the build, data
  libopenmpi-dev openmpi-bin                                    # processes
  libdnnl-dev                                                   # CPU operators: oneDNN
  libcjson-dev libxxhash-dev zlib1g-dev libdeflate-dev libstb-dev # JSON, hashes, gzip, images
  libjpeg-dev                                                   # JPEG by libjpeg-turbo; without it by stb, slower
  libprotobuf-c-dev protobuf-c-compiler                         # ONNX files
)
test=(
  python3-venv g++ libcmocka-dev python3 clang-format shellcheck cppcheck
  iproute2           # hosts as network namespaces
  zsh mandoc         # completion and man page, tried by their readers
  libmpich-dev mpich # beside Open MPI, which stays the default of mpicc and mpirun
)
data=(dataset-fashion-mnist)
cluster=(slurmctld slurmd slurm-client munge) # SLURM, for its test; they are started as services where there is systemd
fuzz=(clang libclang-rt-14-dev) # libFuzzer

[ $# -gt 0 ] || set -- run
packages=()
for group in "$@"; do
  case $group in
  run) packages+=("${run[@]}") ;;
  test) packages+=("${test[@]}") ;;
  data) packages+=("${data[@]}") ;;
  cluster) packages+=("${cluster[@]}") ;;
  fuzz) packages+=("${fuzz[@]}") ;;
  *)
    echo "install-packages.sh: unknown group '$group'; groups are run, test, data, cluster and fuzz" >&2
    exit 2
    ;;
  esac
done

command -v apt-get >/dev/null || {
  echo "install-packages.sh: no apt-get here; install what these Debian packages hold by your own means: ${packages[*]}" >&2
  exit 1
}

missing=()
for package in "${packages[@]}"; do
  # ${db:...} is dpkg's, not the shell's
  # shellcheck disable=SC2016
  state=$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [ "${state:0:2}" = ii ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "install-packages.sh: as root, please, or install sudo: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -qq
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
  >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
