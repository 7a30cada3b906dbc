#!/usr/bin/env bash
# scaling.sh - measures how training scales over CPU ranks of one thread on this machine, which must be idle otherwise.
#
#   bench/scaling.sh [PART...]          all parts by default:
#     ranks      1 and 2 ranks on cores of their own: efficiency of strong and weak scaling, lenet and resnet9
#     loopback   1, 2 and 4 ranks that talk over loopback TCP; those that are more than the cores share them
#     hosts      1, 2 and 4 hosts (network namespaces: needs root) with 1 ms latency, one rank each
#
# Environment: SECONDS_EACH (of one measurement, default 4), ROUNDS (default 9: fewer than 6 have no 95 % interval), BIN (default
# build/release/bin, which it does not build), OUT (default bench/results), LATENCY_MS (one way, default 1).
# Writes OUT/DATE-scaling-PART-NETWORK.{txt,json}; prints the tables. `train report FOLDER` draws a FOLDER/bench.json.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/${BIN:-build/release/bin} out=${OUT:-bench/results} seconds=${SECONDS_EACH:-4} rounds=${ROUNDS:-9}
[ $# -gt 0 ] || set -- ranks loopback hosts
# shellcheck source=tests/support/hosts.sh
. tests/support/hosts.sh
folder=$(mktemp -d)
chmod 755 "$folder"
trap 'hosts_down; rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$out"

# measure PART NETWORK LAUNCHER... -- OPTIONS...: one benchmark, its files into OUT
measure() {
  local part=$1 network=$2 shape name file launcher=()
  shift 2
  case $network in lenet) shape=1x28x28 ;; *) shape=3x32x32 ;; esac
  while [ "$1" != -- ]; do
    launcher+=("$1")
    shift
  done
  shift
  name=$out/$(date +%F)-scaling-$part-$network
  echo "== $part, $network"
  "${launcher[@]}" "$bin/train" bench "$PWD/configs/bench-cpu.ini" --quiet --seconds "$seconds" --repeats "$rounds" --run-dir "$folder" \
    --set "model.file=configs/models/$network.ini" --set "data.shape=$shape" --set device.type=cpu --set device.threads=1 "$@" \
    >"$folder/bench.txt"
  for file in txt json; do sed "s|$PWD/||g" "$folder/bench.$file" >"$name.$file"; done
  cat "$name.txt"
}

part_ranks() {
  local network
  for network in lenet resnet9; do measure ranks "$network" ranks 2 3600 -- --scaling both; done
}

part_loopback() {
  local network
  for network in lenet resnet9; do
    MPI_FLAGS="--mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo" \
      measure loopback "$network" ranks 4 3600 -- --scaling both --sweep ranks=1,2,4
  done
}

part_hosts() {
  local network reason
  reason=$(hosts_lack latency)
  [ -z "$reason" ] || {
    echo "left out: $reason" >&2
    return
  }
  hosts_up 4 "${LATENCY_MS:-1}"
  for network in lenet resnet9; do measure hosts "$network" hosts_run 1 3600 -- --scaling both --sweep ranks=1,2,4; done
  hosts_down
}

for part in "$@"; do
  case $part in
  ranks | loopback | hosts) "part_$part" ;;
  *)
    echo "scaling.sh: unknown part '$part'; parts are ranks, loopback and hosts" >&2
    exit 2
    ;;
  esac
done
