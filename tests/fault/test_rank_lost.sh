# A training run that loses a rank in its middle: killed (the launcher says so, exit 137), or stopped (the watchdog says so, exit 5).
# No process is left. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# rank.sh: the program, leaving its process number behind
cat >"$work/rank.sh" <<EOF
echo \$\$ >"$work/pid.\$OMPI_COMM_WORLD_RANK"
exec "$bin/train" "\$@"
EOF

# lose SIGNAL RUN TIMEOUT_S: starts 2 ranks, sends SIGNAL to rank 1 when a few updates are done; sets rc, text
lose() {
  (
    eventually under_way "$work/$2"
    kill "-$1" "$(cat "$work/pid.1")"
  ) &
  text=$(ranks 2 60 sh "$work/rank.sh" configs/bench-cpu.ini --quiet --run-dir "$work/$2" --set train.epochs=100000 \
    --set dist.timeout="$3" --set log.every=5 2>&1)
  rc=$?
  wait
}

lose KILL killed 1000 # not by the timeout
check "killed: exit" "$rc" 137
none_left "$work"/pid.*

lose STOP stopped 2
check "stopped: exit" "$rc" 5
check "stopped: names it: $text" "$(printf '%s' "$text" | grep -c '^error: rank 1 .* has been silent for .*; rank 0 has waited')" 1
none_left "$work"/pid.*
finish
