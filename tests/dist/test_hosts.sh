# Training on several hosts over TCP: the same weights as one rank alone on 2 and 4 hosts, over slow links, and after a link that was
# cut for a while; links that are cut for good, ranks and daemons that are killed: how the job ends. The hosts are network namespaces
# of this machine. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/hosts.sh
. tests/support/hosts.sh || exit 1
hosts_or_skip
work=$(mktemp -d)
trap 'hosts_down; rm -rf "$work"' EXIT

cp tests/support/small_net.ini "$work/net.ini"
sed 's/^epochs = .*/epochs = 5/' tests/support/tiny.ini - >"$work/run.ini" <<'EOF'
[run]
deterministic = true
[dist]
bucket_bytes = 4096
EOF
# The program, leaving its process number behind.
cat >"$work/rank.sh" <<EOF
echo \$\$ >"$work/pid.\$OMPI_COMM_WORLD_RANK"
exec "$bin/train" "\$@"
EOF
# Host 0 alone has the folder of the run: elsewhere there is an empty one, which must stay empty.
cat >"$work/only.sh" <<EOF
[ "\$OMPI_COMM_WORLD_RANK" != 0 ] || exec "$bin/train" "\$@"
exec unshare --mount sh -c 'mount -t tmpfs none "$work/only" && "$bin/train" "\$@" && ls -A "$work/only" >"$work/elsewhere"' sh "\$@"
EOF

# train NAME RANKS_PER_HOST OPTIONS...: a run on all hosts (0: alone); its output in $work/NAME.log, its files in $work/NAME; sets rc
train() {
  local name=$1 per_host=$2
  shift 2
  set -- "$work/run.ini" --run-dir "$work/$name" "$@"
  rm -f "$work"/pid.*
  if [ "$per_host" = 0 ]; then
    "$bin/train" "$@" >"$work/$name.log" 2>&1
  else
    hosts_run "$per_host" 60 sh "${script-$work/rank.sh}" "$@" >"$work/$name.log" 2>&1
  fi
  rc=$?
}

# same NAME AS RANKS: NAME ended well, on so many ranks, with the weights of AS
same() {
  check "$1: exit" "$rc" 0
  [ "$rc" = 0 ] || cat "$work/$1.log"
  check "$1: ranks" "$(field "$1" world_size)" "$3"
  check "$1: weights_hash" "$(field "$1" weights_hash)" "$(field "$2" weights_hash)"
}

# midway NAME COMMAND...: COMMAND as soon as run NAME has done some updates, in the background
midway() {
  local name=$1
  shift
  (
    eventually under_way "$work/$name"
    "$@"
  ) &
  midway_job=$!
}

# ended NAME CODES: exit code and end of a run that has lost something
ended() {
  wait $midway_job
  case " $2 " in
  *" $rc "*) check "$1: exit" "$rc" "$rc" ;;
  *)
    check "$1: exit" "$rc" "one of $2"
    cat "$work/$1.log"
    ;;
  esac
  none_left "$work"/pid.*
}

train alone 0 --quiet
hosts_up 2
hosts_measure "$bin"
hosts_run 1 60 "$bin/train" doctor >"$work/doctor.log" 2>&1
check "doctor: sums" "$(grep -c '^  ok       all-reduce: 1 MiB over 2 ranks on 2 hosts: exact; ' "$work/doctor.log")" 1
check "doctor: a command for both hosts" "$(grep -cE '^  mpirun.* --host [^ ]+:[0-9]+,[^ ]+:[0-9]+ -np ' "$work/doctor.log")" 1
MPI_FLAGS="-x TERM=xterm" train two 1
same two alone 2
check "two: lines, no bar and no colours" "$(grep -c $'[\r\033]' "$work/two.log")" 0
mkdir "$work/only"
script=$work/only.sh train only/run 1 --quiet
same only/run alone 2
check "nothing is written where rank 0 is not" "$(wc -l <"$work/elsewhere")" 0
for hierarchy in on off; do
  train $hierarchy 2 --quiet --set dist.hierarchy=$hierarchy
  same $hierarchy alone 4
done

# A GPU on each host, emulated, both with the same address. Not by NCCL: the emulated one knows no hosts.
export LOCKSTEP_CUDA_PLUGIN=$bin/emulated/lockstep_cuda.so LOCKSTEP_EMULATION=devices=1
if [ -e "$LOCKSTEP_CUDA_PLUGIN" ]; then
  train gpu 0 --quiet --set device.type=cuda
  MPI_FLAGS="-x LOCKSTEP_CUDA_PLUGIN -x LOCKSTEP_EMULATION" train gpus 1 --quiet --set device.type=cuda --set dist.backend=mpi
  same gpus gpu 2
else
  echo "left out: GPUs: there is no emulated one in this build"
fi
unset LOCKSTEP_CUDA_PLUGIN LOCKSTEP_EMULATION

# A variable reaches the other hosts' ranks by -x only.
for pass in "" "-x COLOUR"; do
  export COLOUR=red
  # shellcheck disable=SC2016
  MPI_FLAGS=$pass hosts_run 1 10 sh -c 'echo "$OMPI_COMM_WORLD_RANK $COLOUR"' >"$work/colours"
  check "environment of ranks, flags '$pass'" "$(sort "$work/colours" | tr '\n' ' ')" "0 red 1 ${pass:+red} "
done

# Slow links.
reason=$(hosts_lack latency)
if [ -z "$reason" ]; then
  hosts_up 4 1 100
  hosts_measure "$bin" | tee "$work/link"
  # Shorter it cannot be: twice the latency, and 3/2 MiB out of each host.
  check "the link has latency and a rate" "$(sed -E 's/.*round trip ([0-9.]+) .* ([0-9.]+) ms$/\1 \2/' "$work/link" |
    awk '{ print ($1 >= 2 && $2 >= 100) }')" 1
  train slow 1 --quiet
  same slow alone 4
else
  echo "left out: a link with latency: $reason"
fi

# A link on which an update takes some 20 ms on any machine, so that a run is in its middle when something happens.
hosts_up 2 0 5
train long 0 --quiet --set train.epochs=15
mend_later() { hosts_cut 1 data && sleep 2 && hosts_mend 1; }
midway mended mend_later
train mended 1 --quiet --set train.epochs=15 --set dist.timeout=20
wait $midway_job
same mended long 2

# lose NAME TIMEOUT_S COMMAND...: a long run that loses something
lose() {
  local name=$1 timeout_s=$2
  shift 2
  midway "$name" "$@"
  train "$name" 1 --quiet --set train.epochs=100000 --set dist.timeout="$timeout_s"
}
# says NAME: every line of an error names a rank, and no rank says more than one
says() {
  local lines
  lines=$(grep 'error:' "$work/$1.log")
  check "$1: errors name ranks" "$(grep 'error:' <<<"$lines" | grep -vcE 'error: rank [01] on ')" 0
  check "$1: a rank has one message: $lines" "$(grep -oE 'rank [0-9]+ on' <<<"$lines" | sort | uniq -d)" ""
}
lose data 2 hosts_cut 1 data
ended data 5
says data
check "data: one error, about the network" "$(grep -c 'error: .* the network that carries the data' "$work/data.log")" 1
hosts_mend 1

# The launcher cannot reach host 1 any more either: its ranks end by themselves, the launcher and the daemon when they give their
# connection up, 4 s after the cut. That must come before the watchdog: Open MPI 4.1.4 waits for a host that was lost in an abort.
lose both 7 hosts_cut 1 both
ended both "5 205"
says both
eventually hosts_are_idle
check "both: nothing runs on the hosts" "$left" ""
hosts_mend 1

kill_rank() { kill -9 "$(cat "$work/pid.1")"; }
lose rank 1000 kill_rank # not by the timeout
ended rank 137
says rank
kill_daemon() { kill -9 "$(ps -o ppid= "$(cat "$work/pid.1")")"; }
lose daemon 1000 kill_daemon
ended daemon 205
says daemon
finish
