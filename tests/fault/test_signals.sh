# Requests to stop: signals to one process, to one of several ranks and to mpirun, at any time of a run, and time limits. Each ends the run
# with one line, its exit code and a checkpoint, from which it goes on to the bits of an undisturbed run. (Under SLURM:
# test_slurm_stop.sh.) Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/fault/common.sh
. "$(dirname "$0")/common.sh" || exit 1
trap 'rm -rf "$work"' EXIT

# begin NAME RANKS [OPTION]...: in the background, to be gone on with; pid is the process's or mpirun's. (A shell's children in the
# background ignore INT, which they cannot undo.)
begin() {
  name=$1
  local launcher=()
  # shellcheck disable=SC2206 # flags are several words
  [ "$2" = 1 ] || launcher=("$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none -np "$2")
  : >"$work/pids"
  env --default-signal=INT "${launcher[@]}" "$work/bin/train" "$work/run.ini" --run-dir "$work/$1" --set run.resume=auto "${@:3}" \
    >"$work/$1.log" 2>&1 </dev/null &
  pid=$!
}
rank() { sed -n "$1p" "$work/pids"; } # process number of the rank that began as number $1
ended() { # CODE
  wait $pid
  check "$name${how:+, $how}: exit" $? "$1"
  nothing_left "$name"
}
# stopped CODE REASON: ended so, with one line that names reason and checkpoint; the checkpoint is there
stopped() {
  ended "$1"
  local line pattern
  line=$(grep '^stopped by ' "$work/$name.log")
  pattern="stopped by $2 after update $(newest "$name") of *: $work/$name/checkpoints/update-* holds all of it"
  # shellcheck disable=SC2254 # a pattern
  case $line in
  $pattern) ;;
  *)
    check "$name${how:+, $how}: its line" "$line" "$pattern"
    tail -n 3 "$work/$name.log"
    ;;
  esac
  check "$name${how:+, $how}: no error" "$(grep -c '^error:' "$work/$name.log")" 0
}
has_event() { grep -q "\"event\":\"$2\"" "$work/$1/metrics.jsonl" 2>/dev/null; }
until_event() { # NAME EVENT: its metrics have one
  eventually has_event "$@" || check "$1: event $2" none one
}
# The process is the program (a shell that is about to become it may have handlers, too) and has a handler for USR1.
listens() {
  local mask # signal 10: bit 9 of the mask
  mask=$(sed -nE '1s/^Name:[[:space:]]*train$/named/p; s/^SigCgt:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  [[ $mask = named* ]] && [ $((0x${mask#*$'\n'} & 0x200)) != 0 ]
}
until_listening() { # PROCESS
  eventually listens "$1" || check "$name: listens" no yes
}
has_taken() { # PROCESS: no signal waits for it
  [ "$(sed -nE 's/^ShdPnd:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)" = 0000000000000000 ]
}

# --- one process
for signal in USR1 TERM INT; do
  how="SIG$signal"
  begin one 1
  progress one
  kill -$signal $pid
  stopped 75 "SIG$signal on rank 0"
done
how='while a checkpoint is written'
begin one 1 --set checkpoint.every_updates=1
progress one
kill -TERM $pid
stopped 75 "SIGTERM on rank 0"
how='while it starts'
begin one 1
until_listening $pid
kill -USR1 $pid
stopped 75 "SIGUSR1 on rank 0"
how='time limit'
begin one 1 --set run.max_minutes=0.01
stopped 75 "run.max_minutes = 0.01"
SLURM_JOB_END_TIME=$(($(date +%s) + 61)) begin one 1
stopped 75 "the scheduler's time limit"
# What is no time of a job that it runs in stops nothing.
for end in 0 1 -1 never nan 17:30 $(($(date +%s) - 3600)); do
  SLURM_JOB_END_TIME=$end "$bin/train" "$work/run.ini" --run-dir "$work/end$end" --quiet --set train.max_updates=8 >"$work/end.log" 2>&1
  check "SLURM_JOB_END_TIME=$end: exit" $? 0
done
how=
undisturbed one

# A pipe that nobody reads any more (train ... 2>&1 | head -1): the run goes on to its end.
mkfifo "$work/pipe"
head -n 1 <"$work/pipe" >"$work/head" &
"$work/bin/train" "$work/run.ini" --run-dir "$work/unread" --set train.max_updates=300 >"$work/pipe" 2>&1
check "unread: exit" $? 0
wait $!
check "unread: somebody read its first line" "$(grep -c '^lockstep' "$work/head")" 1
check "unread: complete" "$(field unread status)" completed
check "unread: told once, where it can be" "$(grep -c '"event":"warning".*standard error could not be written (Broken pipe)' "$work/unread/metrics.jsonl")" 1

# Evaluation is not interrupted: it takes some seconds here, after the only epoch.
slow=(--set data.test_samples=100000 --set train.eval_every=1)
begin evaluating 1 "${slow[@]}"
until_event evaluating train
kill -USR1 $pid
stopped 75 "SIGUSR1 on rank 0"
check "evaluating: it was" "$(grep -c '"event":"eval"' "$work/evaluating/metrics.jsonl")" 1
begin impatient 1 "${slow[@]}"
until_event impatient train
kill -INT $pid
eventually has_taken $pid # two that wait are one
kill -INT $pid
ended 130
check "impatient: not evaluated" "$(grep -c '"event":"eval"' "$work/impatient/metrics.jsonl")" 0
begin last 1 "${slow[@]}" --set train.max_updates=8
until_event last train
kill -TERM $pid
ended 0
check "last: complete" "$(field last updates)" 8

# --- two ranks
for signal in USR1 TERM INT; do
  how="SIG$signal to a rank"
  begin two 2
  progress two
  kill -$signal "$(rank 2)"
  stopped 75 "SIG$signal on rank [01]"
done
how="SIGUSR1 to mpirun"
begin two 2
progress two
kill -USR1 $pid
stopped 75 "SIGUSR1 on rank [01]"
# mpirun's own code, but its ranks have a second after TERM: enough here, if the machine lets them run.
for signal in TERM INT HUP; do
  how="SIG$signal to mpirun"
  begin two 2
  progress two
  kill -$signal $pid
  ended 1
  at=$(grep -oE '^stopped by SIGTERM on rank [01] after update [0-9]+' "$work/two.log" | grep -oE '[0-9]+$')
  echo "       $how: ${at:-not} saved in time"
  check "$how: what the line says is there" "${at:-$(newest two)}" "$(newest two)"
done
how=
undisturbed two
finish
