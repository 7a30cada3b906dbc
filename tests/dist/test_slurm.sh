# Training under SLURM: srun on one node and on two, its exit codes, and the job files of scripts/slurm/ (requeue.sbatch:
# tests/fault/test_slurm_stop.sh). Argument: the folder of the built programs.
set -u
# shellcheck source=tests/support/slurm.sh
. "$(dirname "$0")/../support/slurm.sh" || exit 1

cp "$jobs/../../tests/support/small_net.ini" net.ini
sed 's/^epochs = .*/epochs = 5/' "$jobs/../../tests/support/tiny.ini" - >run.ini <<'EOF'
[run]
deterministic = true
EOF
# The program, leaving its process number behind.
cat >rank.sh <<EOF
#!/bin/sh
echo \$\$ >"$PWD/pid.\$SLURM_PROCID"
exec "$bin/train" "\$@"
EOF
chmod +x rank.sh
train=$bin/train
export SLURM_PMIX_FENCE=ring # docs/cluster.md, SLURM

same() { # FOLDER RC RANKS
  check "$1: exit" "$2" 0
  check "$1: ranks" "$(field "$1" world_size)" "$3"
  check "$1: weights_hash" "$(field "$1" weights_hash)" "$(field alone weights_hash)"
  [ -n "$(field "$1" weights_hash)" ] || cat "$(basename "$1").log" lockstep-"$(basename "${1%-1}" | grep -oE '[0-9]+$')".log 2>/dev/null
}
"$train" run.ini --quiet --run-dir alone || exit 1
ranks 2 30 "$train" run.ini --quiet --run-dir mpirun >mpirun.log 2>&1
same mpirun $? 2
timeout 30 srun --mpi=pmix -N1 -n2 "$train" run.ini --run-dir srun >srun.log 2>&1
same srun $? 2
check "srun: lines, no bar and no colours" "$(grep -c $'[\r\033]' srun.log)" 0
timeout 30 srun --mpi=pmix -N2 -n2 "$train" run.ini --quiet --run-dir nodes >nodes.log 2>&1
same nodes $? 2
timeout 30 srun --mpi=pmix -N2 -n4 "$train" run.ini --quiet --run-dir nodes4 >nodes4.log 2>&1
same nodes4 $? 4

# train doctor, under srun on both nodes.
timeout 60 srun --mpi=pmix -N2 -n2 "$train" doctor >doctor.log 2>&1
check "doctor: sums" "$(grep -c '^  ok       all-reduce: 1 MiB over 2 ranks on 2 hosts: exact; ' doctor.log)" 1
check "doctor: srun's command" \
  "$(grep -cE '^  srun --mpi=pmix -N2 --ntasks-per-node=[0-9]+ --cpus-per-task=[0-9]+ .*train config.ini$' doctor.log)" 1

# Tasks that would train each by itself, where MPI was forgotten: refused once.
timeout 30 srun --mpi=none -N2 -n2 "$train" run.ini --dry-run >apart.log 2>&1
check "without --mpi=pmix: exit" $? 2
check "without --mpi=pmix: one error" "$(grep -c '^error: srun has started 2 processes, .*srun --mpi=pmix' apart.log)" 1

# How a step ends: WHAT RC ERRORS COMMAND...; ERRORS: a pattern of their number
ends() {
  local what=$1 rc=$2 errors=$3
  shift 3
  timeout 300 "$@" >ends.log 2>&1
  check "$what: exit" $? "$rc"
  rc=$(grep -c '^error:' ends.log)
  check "$what: errors" "$rc" "$(grep -oE "^$errors\$" <<<"$rc")"
  none_left pid.*
}
# Sends SIGNAL to rank 1 of the run in FOLDER when some updates are done.
strike() { # SIGNAL FOLDER
  eventually under_way "$2"
  kill "-$1" "$(cat pid.1)"
}
long="run.ini --quiet --set train.epochs=1000000 --set dist.timeout=2 --run-dir"
ends "refused" 2 1 srun --mpi=pmix -N1 -n2 "$train" run.ini --set train.epochs=many
strike KILL killed &
# shellcheck disable=SC2086 # several words
ends "a rank is killed" 137 "[01]" srun --mpi=pmix -N1 -n2 ./rank.sh $long killed
strike STOP stopped &
# shellcheck disable=SC2086
ends "a rank hangs" 5 1 srun --mpi=pmix -N1 -n2 ./rank.sh $long stopped
strike STOP stopped2 &
# shellcheck disable=SC2086
ends "a rank on another node hangs" 5 1 srun --mpi=pmix -N2 -n2 ./rank.sh $long stopped2

# The job files. Their sizes are for real nodes: -n, -c and the like go before them.
export TRAIN=$train
one=$(sbatch --parsable -n2 -c1 "$jobs/one-node.sbatch" run.ini --quiet)
many=$(DATA_INTERFACE=net0 sbatch --parsable -N2 --ntasks-per-node=1 -c1 "$jobs/many-nodes.sbatch" run.ini --quiet)
check "one-node.sbatch" "$(ended "$one")" "JobState=COMPLETED ExitCode=0:0 "
same "runs/lockstep-$one" 0 2
check "many-nodes.sbatch" "$(ended "$many")" "JobState=COMPLETED ExitCode=0:0 "
same "runs/lockstep-$many" 0 2
bad=$(sbatch --parsable -n2 -c1 "$jobs/one-node.sbatch" run.ini --set train.epochs=many)
check "one-node.sbatch, refused" "$(ended "$bad")" "JobState=FAILED ExitCode=2:0 "
array=$(sbatch --parsable --array=1-3 -n1 -c1 "$jobs/sweep.sbatch" run.ini --quiet --seeds 1-3 --run-dir sweep)
for task in 1 2 3; do check "sweep.sbatch $task" "$(ended "${array}_$task")" "JobState=COMPLETED ExitCode=0:0 "; done
check "sweep.sbatch: a run by hand" "$(field sweep/seed=1 weights_hash)" "$(field alone weights_hash)"
check "sweep.sbatch: the table" "$("$train" sweep run.ini --seeds 1-3 --run-dir sweep --table --quiet | grep -c 'all runs  3')" 1
finish
