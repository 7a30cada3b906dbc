#!/usr/bin/env bash
# fetch-arm64.sh - the libraries that an arm64 build needs, for cross compiling on another processor.
#
#   scripts/fetch-arm64.sh [FOLDER]     FOLDER: where they go (default: arm64 in this repository)
#
# Loads the packages of this machine's release from its own sources of apt (110 MB) and unpacks them. It needs no root and changes
# nothing outside FOLDER. Then, with the packages of scripts/install-packages.sh arm64:
#   cmake --preset arm64 && cmake --build --preset arm64 --target train
# FOLDER that is complete is left as it is.
# Exit: 0 they are there; 1 they cannot be loaded; 2 wrong use.
set -euo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
if [ $# -gt 1 ] || [[ ${1-} == -* ]]; then
  echo "fetch-arm64.sh: one folder is expected; see --help" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
root=$(realpath -m -- "${1:-arm64}")
mapfile -t packages < <(scripts/install-packages.sh --print run test | grep -E '^lib.*-dev$' | grep -vE '^lib(dnnl|mpich)-')
packages+=(libc6-dev linux-libc-dev)
stamp=$root/packages wanted=${packages[*]}
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || [ ! -e "$root/shlibs" ] || exit 0

command -v apt-get >/dev/null || {
  echo "fetch-arm64.sh: no apt-get here; unpack the arm64 packages of your system into $root: $wanted" >&2
  exit 1
}
made=$root.new
rm -rf "$made"
mkdir -p "$made/apt/lists/partial" "$made/apt/archives/partial" "$made/usr/lib"
ln -s usr/lib "$made/lib"
: >"$made/apt/status"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User="$(id -un)"
  -o Dir::State::status="$made/apt/status" -o Dir::State::lists="$made/apt/lists/" -o Dir::State::extended_states="$made/apt/extended"
  -o Dir::Cache::archives="$made/apt/archives/" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Acquire::Languages=none
  -o Debug::NoLocking=true -o DPkg::Post-Invoke= -o APT::Update::Post-Invoke=)
{
  apt-get "${options[@]}" update &&
    apt-get "${options[@]}" install -y --no-install-recommends --download-only -- "${packages[@]}"
} </dev/null >"$made/log" 2>&1 || {
  tail -n 5 "$made/log" >&2
  echo "fetch-arm64.sh: this machine's sources of apt do not give the arm64 packages; see $made/log" >&2
  exit 1
}
for package in "$made"/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink --no-same-owner -C "$made"
  # Its libraries, for packages made of the build: `libmpi 40 libopenmpi3 (>= 4.1.4)`. Some packages have only a list of symbols.
  dpkg-deb -I "$package" shlibs 2>/dev/null | grep -v : >>"$made/shlibs" ||
    dpkg-deb -I "$package" symbols 2>/dev/null | sed -nE 's/^(lib[^ ]+)\.so\.([0-9]+) ([^ ]+) .*/\1 \2 \3/p' >>"$made/shlibs" || true
done
rm -rf "$made/apt" "$made/log"
echo "$wanted" >"$made/packages"
rm -rf "$root"
mv "$made" "$root"
