# A rank that is stopped for more than half of the time is named as the one for which the others wait, in a warning and in the summary;
# every record has all ranks' times. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
# Where threads wait longer for a core than for each other, nobody can tell who is late.
awk -v cores="$(nproc)" '{ exit !($1 > 8 * cores) }' /proc/loadavg && {
  echo "skipped: the machine is too busy to see who waits for whom (load $(cut -d ' ' -f 1 /proc/loadavg) on $(nproc) cores)"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"

cat >"$work/rank.sh" <<EOF2
echo \$\$ >"$work/pid.\$OMPI_COMM_WORLD_RANK"
exec "$bin/train" "\$@"
EOF2

train() { # NAME RANKS OPTIONS...
  local name=$1 n=$2
  shift 2
  ranks "$n" 120 sh "$work/rank.sh" "$work/run.ini" --quiet --run-dir "$work/$name" --set train.epochs=1000000 --set train.eval_every=0 \
    --set checkpoint.every_epochs=0 --set log.every=20 --set device.threads=1 "$@" >"$work/$name.log" 2>&1
}

warned() { grep -c '"event": *"warning".*arrives last' "$work/$1/metrics.jsonl" 2>/dev/null; }

# Pulses until the run has warned, then the end by SIGUSR1; at most some 40 s.
disturb() { # NAME PID_FILE
  local pid
  eventually under_way "$work/$1"
  pid=$(cat "$2")
  for _ in $(seq 160); do
    kill -STOP "$pid" 2>/dev/null || return
    sleep 0.17
    kill -CONT "$pid"
    sleep 0.08
    [ "$(warned "$1")" = 0 ] || break
  done
  kill -USR1 "$pid"
}

disturb pulses "$work/pid.1" &
train pulses 2
code=$?
wait
check "pulses: exit" $code 75
check "pulses: one warning" "$(warned pulses)" 1
check "pulses: names rank 1" \
  "$(grep -cE '"message": *"rank 1 \(host [^ ]*, cpus [0-9,-]+\) arrives last: the others wait 0\.[0-9]+ s of every second for it; ' "$work/pulses/metrics.jsonl")" 1
[ "$failures" = 0 ] || { cat "$work/pulses.log"; tail -n 2 "$work/pulses/metrics.jsonl"; }
times='\[[0-9.e-]+,[0-9.e-]+\]'
check "records have both ranks' times" "$(tr -d ' \t' <"$work/pulses/metrics.jsonl" | grep '"event":"train"' |
  grep -cvE "\"ranks\":\{\"wait_seconds\":$times,\"loader_wait_seconds\":$times,\"core_wait_seconds\":$times,\"compute_seconds\":$times\}")" 0
finish
