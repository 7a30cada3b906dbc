# scripts/launch.sh: a run whose rank is killed goes on by itself, and ends with the bits of an undisturbed one; it is given up where
# that leads nowhere; requests to stop reach the ranks. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
launch=$(cd "$(dirname "$0")/../../scripts" && pwd)/launch.sh
# shellcheck source=tests/fault/common.sh
. "$(dirname "$0")/common.sh" || exit 1
trap 'rm -rf "$work"' EXIT
export MPIRUN LOCKSTEP_RESTART_PAUSE=0
[ -z "$mpi_root" ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# start NAME RANKS [OPTION OF TRAIN]...: in the background; its output in $work/NAME.log. (A shell's children in the background ignore
# INT, which they cannot undo.)
start() {
  name=$1
  env --default-signal=INT "$launch" $mpi_quiet --oversubscribe --bind-to none -np "$2" "${program-$work/bin/train}" "$work/run.ini" \
    --run-dir "$work/$1" --quiet "${@:3}" >"$work/$1.log" 2>&1 </dev/null &
  pid=$!
}
ends() { # CODE
  wait $pid
  check "$name: exit" $? "$1"
  nothing_left "$name"
}

# A rank is killed in mid-run. It goes on until it is asked to stop. The same command goes on with it, and so does --resume with other
# options, until it is complete.
start killed 2
progress killed
kill -9 "$(tail -n 1 "$work/pids")"
until [ "$(said restart)" != 0 ]; do sleep 0.1; done
progress killed
kill -USR1 $pid
ends 75
says 1 'exit 137: SIGKILL ended a rank; restart 1 of 3 in 0 s, from update [0-9]* (.*/killed/checkpoints/update-[0-9]*)$'
says 1 'SIGUSR1: the run is asked to save and stop$'
says 2 ''
start killed 2
progress killed
kill -USR1 $pid
ends 75
says 1 'goes on with .*/killed, which the same command started'
says 0 restart
start killed 2 --resume --set train.max_updates=$(($(newest killed) + 100))
ends 0
says 0 ''
check "killed: ranks" "$(field killed world_size)" 2
undisturbed killed

# The other requests to stop. The second and third start go on with the run.
for signal in TERM INT HUP; do
  start stopped 2
  progress stopped
  kill -$signal $pid
  ends 75
  says 1 "SIG$signal: the run is asked to save and stop"
  says 0 restart
done
undisturbed stopped
# Closed descriptors, as some daemons start programs: mpirun's pipes do not take their place, where a line's end would be a signal.
name=closed
"$launch" $mpi_quiet --oversubscribe --bind-to none -np 2 "$work/bin/train" "$work/run.ini" --run-dir "$work/closed" --set train.max_updates=100 \
  <&- >&- 2>&- &
pid=$!
ends 0
undisturbed closed
# Two INTs, where ranks do not heed the first.
mkdir "$work/deaf"
cat >"$work/deaf/train" <<END
#!/bin/sh
case "\$*" in *--print-config*) exec "$bin/train" "\$@" ;; esac
trap '' USR1
echo \$\$ >>"$work/pids"
sleep 60
END
chmod +x "$work/deaf/train"
before=$(wc -l <"$work/pids")
program=$work/deaf/train start deaf 2
until [ "$(wc -l <"$work/pids")" -ge $((before + 2)) ]; do sleep 0.05; done
kill -INT $pid
until [ "$(said SIGINT)" = 1 ]; do sleep 0.05; done
kill -INT $pid
ends 130
says 1 'ended by a second SIGINT$'
says 2 ''

# While its ranks start.
before=$(wc -l <"$work/pids")
start early 2
until [ "$(wc -l <"$work/pids")" -ge $((before + 2)) ]; do sleep 0.02; done # of --print-config, and one
kill -TERM $pid
ends 75
says 1 'SIGTERM: the run is asked to save and stop'
says 0 restart

# A program whose rank 1 dies at every start: given up after the second that leaves nothing new.
mkdir "$work/dying"
cat >"$work/dying/train" <<END
#!/bin/sh
[ "\${OMPI_COMM_WORLD_RANK-0}" != 1 ] || kill -9 \$\$
exec "$work/bin/train" "\$@"
END
chmod +x "$work/dying/train"
program=$work/dying/train start dying 2
ends 137
says 1 'restart 1 of 3 in 0 s, from the beginning: there is no checkpoint yet$'
says 1 'two starts in a row have left no newer checkpoint: not started again'
says 2 ''

# No restarts are wanted.
program=$work/dying/train start never 2 --set run.max_restarts=0
ends 137
says 1 'not started again (run.max_restarts = 0)'
says 1 ''

# What would end so once more is not started again.
start refused 3
ends 2
says 0 ''
start wrong 2 --set train.epochs=many
ends 2
check "wrong: said once" "$(grep -c '^error:' "$work/wrong.log")" 1
says 0 ''

# More ranks than cores, root, no options for either: what mpirun would refuse is added, and said once.
name=plain
env -u OMPI_ALLOW_RUN_AS_ROOT -u OMPI_ALLOW_RUN_AS_ROOT_CONFIRM "$launch" -np $(($(nproc) + 2)) "$bin/train" "$work/run.ini" \
  --run-dir "$work/plain" --quiet --set train.max_updates=8 --set train.global_batch=$((($(nproc) + 2) * 4)) \
  --set run.deterministic=false >"$work/plain.log" 2>&1 </dev/null
check "plain: exit" $? 0
says "$([ "$(id -u)" = 0 ] && echo 1 || echo 0)" 'as root: --allow-run-as-root$'
says 1 "$(($(nproc) + 2)) ranks share [0-9]* cores: --oversubscribe\$"
says 0 restart

# MPICH's launcher: a rank that is killed, a request to stop; hosts are refused, and so is Open MPI's program.
hydra=$(command -v mpirun.mpich)
if [ -n "$hydra" ] && [ -x "$bin/train_mpich" ]; then
  mkdir "$work/mpich"
  printf '#!/bin/sh\necho $$ >>"%s"\nexec "%s" "$@"\n' "$work/pids" "$bin/train_mpich" >"$work/mpich/train"
  chmod +x "$work/mpich/train"
  # As MPICH 4.2's mpirun does now and then, this one returns 0 whatever happens.
  cat >"$work/mpich/silent" <<END
#!/bin/bash
"$hydra" "\$@" &
pid=\$!
trap 'kill -USR1 \$pid' USR1
trap 'kill -TERM \$pid' TERM
while kill -0 \$pid 2>/dev/null; do wait \$pid; done
exit 0
END
  chmod +x "$work/mpich/silent"
  begin_mpich() { # OPTION OF mpirun...
    name=mpich
    MPIRUN=$mpich env --default-signal=INT "$launch" "$@" -np 2 "$work/mpich/train" "$work/run.ini" --run-dir "$work/$run" --quiet \
      >"$work/mpich.log" 2>&1 </dev/null &
    pid=$!
  }
  for mpich in "$hydra" "$work/mpich/silent"; do
    run=mpich-run${mpich##*/}
    begin_mpich
    progress "$run"
    kill -9 "$(tail -n 1 "$work/pids")"
    for _ in $(seq 300); do [ "$(said restart)" = 0 ] && sleep 0.1 || break; done
    progress "$run"
    kill -TERM $pid
    ends 75
    says 1 'exit [0-9]*: .*; restart 1 of 3' # SIGKILL (if one), or ABRT of the other one, whose transport misses it; or no code
    says 2 ''
    undisturbed "$run"
  done
  mpich=$hydra
  begin_mpich -hosts a,b
  ends 2
  says 1 '-hosts: hosts are tried'
  MPIRUN=$hydra "$launch" -np 2 "$bin/train" "$work/run.ini" --run-dir "$work/foreign" --quiet >"$work/mpich.log" 2>&1 </dev/null
  check "mpich: Open MPI's program: exit" $? 2
  check "mpich: Open MPI's program: no restart" "$(said '')" 0
fi
MPIRUN=true "$launch" -np 2 "$bin/train" "$work/run.ini" >"$work/plain.log" 2>&1
check "plain: no mpirun: exit" $? 2

# The number of ranks that a batch allows is what the program says: BATCH MICRO_BATCH ORDERED.
eval "$(sed -n '/^batch_allows() {/,/^}/p' "$launch")"
while read -r of share ordered; do
  option() {
    case $1 in
    train.global_batch) echo "$of" ;;
    train.micro_batch) echo "$share" ;;
    run.deterministic) echo "$ordered" ;;
    esac
  }
  for n in 2 3 4; do
    ranks $n 30 "$bin/train" "$work/run.ini" --dry-run --quiet --set train.global_batch="$of" --set train.micro_batch="$share" \
      --set run.deterministic="$ordered" >/dev/null 2>&1
    rc=$?
    check "batch $of, micro-batch $share, ordered $ordered, $n ranks" "$(batch_allows $n && echo 0 || echo 2)" $rc
  done
done <<'END'
30 0 false
40 4 false
40 0 true
6 0 true
END
finish
