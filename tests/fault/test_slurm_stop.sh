# Requests to stop under SLURM, and scripts/slurm/requeue.sbatch: jobs that are put back into the queue and end with the bits of an
# undisturbed run. Argument: the folder of the built programs.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/slurm.sh
. "$root/tests/support/slurm.sh" || exit 1
# shellcheck source=tests/fault/common.sh
. "$root/tests/fault/common.sh" || exit 1
export TRAIN=$work/bin/train

# A step: HOW CODE COMMAND...: COMMAND when it has saved something; its exit code.
step() {
  local how=$1 code=$2 pid
  shift 2
  srun --mpi=pmix -N1 -n2 "$TRAIN" "$work/run.ini" --run-dir "$work/step" --set run.resume=auto >"$work/step.log" 2>&1 &
  pid=$!
  progress step
  "$@" "$pid"
  wait $pid
  check "$how: exit" $? "$code"
  check "$how: one line" "$(grep -c '^stopped by SIG.* holds all of it$' "$work/step.log")" "$([ "$code" = 75 ] && echo 1 || echo 0)"
  nothing_left "$how"
}
job() { squeue -h -o %i; }
forwarded() { kill -USR1 "$1"; }
usr1() { scancel --signal=USR1 "$(job)"; }
cancel() { scancel "$(job)"; }
terminated() { kill -TERM "$1"; }
step "USR1 to srun" 75 forwarded
step "scancel --signal=USR1" 75 usr1
step "scancel: TERM" 75 cancel
step "TERM to srun: killed at once" 137 terminated
undisturbed step

# The job puts itself back after 75. SLURM waits two minutes before it starts such a job again, here two seconds (a node refuses a job
# that it has ended in the same second): time to give the run an end.
submit() { sbatch --parsable -n2 -c1 "$jobs/requeue.sbatch" "$work/run.ini" --quiet "$@"; }
restarts() { scontrol show job "$1" | grep -oE 'Restarts=[0-9]+'; }
was_put_back() { [ "$(restarts "$1")" = "Restarts=$2" ]; }
put_back() { # JOB TIMES
  eventually was_put_back "$@" || check "job $1 is put back" "$(restarts "$1")" "Restarts=$2"
}
again() { sleep 2 && scontrol update JobId="$1" StartTime=now; }
export RUN=$work/queued
queued=$(submit)
progress queued
scancel --signal=USR1 "$queued"
put_back "$queued" 1
again "$queued"
progress queued
# Its node fails: the cluster puts the job back, and starts it on the other one.
node=$(squeue -h -j "$queued" -o %N)
# shellcheck disable=SC2046
kill -9 "$(cat "slurmd.$node.pid")" $(running slurmstepd | cut -d / -f 3)
scontrol update NodeName="$node" State=DOWN Reason=test
put_back "$queued" 2
cp "$work/run.ini" "$work/endless.ini"
sed -i "s/^\[train\]/[train]\nmax_updates = $(($(newest queued) + 20))/" "$work/run.ini"
again "$queued"
check "requeue.sbatch, at its end" "$(ended "$queued")" "JobState=COMPLETED ExitCode=0:0 "
check "requeue.sbatch: not on the failed node" "$(scontrol show job "$queued" | grep -c "NodeList=$node\$")" 0
check "requeue.sbatch: put back after 75" "$(grep -c '^requeue.sbatch: exit 75: back into the queue, to go on from' "lockstep-$queued.log")" 1
check "requeue.sbatch: three starts" "$(grep -c '"event":"start"' "$RUN/metrics.jsonl")" 3
mv "$work/endless.ini" "$work/run.ini"
undisturbed queued

# Neither is a refused configuration, nor a cancelled job, nor one that makes no progress.
RUN=$work/refused
refused=$(submit --set train.epochs=many)
check "refused" "$(ended "$refused") $(restarts "$refused")" "JobState=FAILED ExitCode=2:0  Restarts=0"
RUN=$work/cancelled
cancelled=$(submit)
progress cancelled
scancel "$cancelled"
check "cancelled" "$(ended "$cancelled" | cut -d ' ' -f 1) $(restarts "$cancelled")" "JobState=CANCELLED Restarts=0"
RUN=$work/still
printf '#!/bin/sh\nexit 75\n' >"$work/still.sh" && chmod +x "$work/still.sh"
still=$(TRAIN=$work/still.sh submit)
check "no progress" "$(ended "$still") $(restarts "$still")" "JobState=FAILED ExitCode=75:0  Restarts=0"
check "no progress: said" "$(grep -c 'exit 75 without a newer checkpoint: not put back' "lockstep-$still.log")" 1
nothing_left "at the end"
finish
