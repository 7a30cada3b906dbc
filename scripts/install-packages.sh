#!/usr/bin/env bash
# install-packages.sh - the system packages that Lockstep needs, by apt on Debian and Ubuntu.
#
#   scripts/install-packages.sh [GROUP]...
#   scripts/install-packages.sh --print GROUP...     only prints their names
#
# Groups: run (the default: building, training), test (scripts/check.sh), data (Fashion-MNIST), cluster (SLURM, for its test),
# fuzz (scripts/fuzz.sh), package (making .deb files: docs/packages.md), arm64 (compiling for arm64 and running it on another processor).
# Installs only what is missing; needs root or sudo for that alone. This is the one list of packages in the repository.
# Exit: 0 all are installed; 1 they cannot be installed; 2 wrong use.
set -euo pipefail

case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac

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
fuzz=(clang libclang-rt-dev) # libFuzzer; not with a version in the name, so that both are of the release's default version
arm64=(gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static)
package=(dpkg-dev file) # dpkg-shlibdeps; file finds the programs and libraries in a package

print=
if [ "${1-}" = --print ]; then
  print=yes
  shift
fi
[ $# -gt 0 ] || set -- run
packages=()
for group in "$@"; do
  case $group in
  run) packages+=("${run[@]}") ;;
  test) packages+=("${test[@]}") ;;
  data) packages+=("${data[@]}") ;;
  cluster) packages+=("${cluster[@]}") ;;
  fuzz) packages+=("${fuzz[@]}") ;;
  package) packages+=("${package[@]}") ;;
  arm64) packages+=("${arm64[@]}") ;;
  *)
    echo "install-packages.sh: unknown group '$group'; groups are run, test, data, cluster, fuzz, package and arm64" >&2
    exit 2
    ;;
  esac
done

if [ -n "$print" ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

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

# Shows how far apt is, by its lines "dlstatus:1:42.1:..." (loading) and "pmstatus:gcc:12.5:..." (installing): on one line of a
# terminal, elsewhere by a line for every quarter. Other lines go to the log.
show_progress() {
  local line doing last='' percent
  while IFS= read -r line; do
    if [[ $line =~ ^dlstatus:[0-9]+:([0-9]+) ]]; then
      doing=loading
    elif [[ $line =~ ^pmstatus:[^:]+(:[a-z0-9]+)?:([0-9]+) ]]; then
      doing=installing
    else
      printf '%s\n' "$line" >>"$log"
      continue
    fi
    percent=${BASH_REMATCH[${#BASH_REMATCH[@]} - 1]}
    if [ -t 1 ]; then
      printf '\r%-10s %3d %%' $doing "$percent"
    elif [ "$last" != "$doing $((percent / 25))" ]; then
      last="$doing $((percent / 25))"
      printf '%-10s %3d %%\n' $doing "$percent"
    fi
  done
  [ ! -t 1 ] || printf '\r%-16s\r' ''
}

echo "installing by apt-get: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o APT::Status-Fd=1 -- "${missing[@]}" \
  2>&1 </dev/null | show_progress || {
  cat "$log" >&2
  exit 1
}
