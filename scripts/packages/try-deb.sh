#!/usr/bin/env bash
# try-deb.sh - installs the packages that cpack has made on a machine that can be thrown away, trains, and removes them without a trace.
#
#   scripts/packages/try-deb.sh FOLDER        FOLDER: of the .deb files; root, in a bare Debian (a container, debootstrap's root)
#
# Prints sizes and times. Exit: 0 as it must be; 1 what was not.
set -euo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
export LC_ALL=C # decimal points
[ $# = 1 ] || {
  sed -n '2,6p' "$0" >&2
  exit 2
}
packages=$(realpath "$1")
export DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fail() {
  printf 'try-deb: %s\n' "$*" >&2
  exit 1
}
quiet() { "$@" >/tmp/try-deb.log 2>&1 || { cat /tmp/try-deb.log; fail "$*"; }; }
# What is there, but for caches of apt, the linker and the system that others rewrite.
everything() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var -o -path /src -o -path /root -o -name __pycache__ \
  -o -path /etc/ld.so.cache \) -prune -o -print | sort; }

quiet apt-get update
# What it depends on stays: only its own files are looked for afterwards.
read -ra needed < <(dpkg-deb -f "$packages"/lockstep_*.deb Depends | sed 's/([^)]*)//g; s/,/ /g')
quiet apt-get install -y --no-install-recommends openmpi-bin dataset-fashion-mnist "${needed[@]}"
everything >/tmp/before
start=$(date +%s.%N)
quiet apt-get install -y --no-install-recommends "$packages"/lockstep_*.deb "$packages"/lockstep-doc_*.deb
installed=$(date +%s.%N)
dpkg-query -W -f='${Package} ${Version}: ${Installed-Size} KiB installed\n' lockstep lockstep-doc
for package in "$packages"/*.deb; do printf '%s: %s KiB to fetch\n' "${package##*/}" $(($(stat -c %s "$package") / 1024)); done
printf 'installed in %.1f s\n' "$(echo "$installed $start" | awk '{ print $1 - $2 }')"

mkdir -p /tmp/try-deb
cd /tmp/try-deb
lockstep-train --version | head -n 1
begin=$(date +%s.%N)
lockstep-train configs/fashion-mnist.ini --set train.max_updates=1 --set train.eval_every=0 --run-dir one --quiet
printf 'from the command to a trained, saved and tested first update: %.2f s; the first update after %s s\n' "$(date +%s.%N | awk -v b="$begin" '{ print $1 - b }')" \
  "$(sed -n 's/.*"time_to_first_update_seconds":[^0-9]*\([0-9.]*\).*/\1/p' one/summary.json)"
mpirun -np 2 --oversubscribe lockstep-train configs/fashion-mnist.ini --set train.epochs=1 --run-dir two | tail -n 4
/usr/share/lockstep/scripts/launch.sh -np 2 lockstep-train configs/fashion-mnist.ini --set train.max_updates=5 --run-dir three --quiet
lockstep-train predict two --help >/dev/null
lockstep-train doctor --quick | sed -n '/to train here/,/^$/p'
[ -s /usr/share/man/man1/lockstep-train.1 ] || [ -s /usr/share/man/man1/lockstep-train.1.gz ] || fail "no man page"
if lockstep-train configs/mnist.ini 2>missing; then fail "MNIST is not there"; fi
grep -q 'run /usr/share/lockstep/scripts/fetch-data.sh mnist' missing || fail "$(cat missing)"
cat missing

cd /
quiet dpkg -P lockstep-doc lockstep
everything >/tmp/after
diff /tmp/before /tmp/after || fail "something is left"
echo "removed without a trace"
