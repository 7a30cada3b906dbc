# Ranks that cannot start together: one that never comes to MPI's start (the others say so and end, instead of waiting for ever), ranks with
# other commands, processes of a launcher that MPI does not know. Argument: the folder of the built programs.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/rank.sh" <<'EOT'
echo $$ >"$WORK/pid.$OMPI_COMM_WORLD_RANK"
[ "$OMPI_COMM_WORLD_RANK" != "$MISSING" ] || exec sleep 60
exec "$@"
EOT
export WORK=$work MISSING LOCKSTEP_START_TIMEOUT=2
for MISSING in 0 2; do
    ranks 3 50 sh "$work/rank.sh" "$bin/train" configs/bench-cpu.ini --dry-run >"$work/output" 2>&1
    check "rank $MISSING is missing: exit" $? 5
    check "rank $MISSING is missing: one message" "$(grep -c '^error: rank . of 3 on .* has waited 2 s for the others while MPI starts' "$work/output")" 1
    none_left "$work"/pid.*
done
LOCKSTEP_START_TIMEOUT=0 MISSING=none ranks 2 50 sh "$work/rank.sh" "$bin/train" configs/bench-cpu.ini --dry-run >"$work/output" 2>&1
check "no limit: exit" $? 0

# Ranks with other commands: named before they exchange anything else. (Open MPI 5.0.7's mpirun crashes if it is given two programs.)
cat >"$work/others.sh" <<'EOT'
[ "$OMPI_COMM_WORLD_RANK" != 0 ] || eval "set -- $FIRST"
exec sh "$WORK/rank.sh" "$TRAIN" "$@"
EOT
export TRAIN=$bin/train FIRST
rm -f "$work"/pid.*
mixed() { # COMMAND OF RANKS 1 AND 2...
    FIRST="configs/bench-cpu.ini --run-dir $work/run --quiet" ranks 3 30 sh "$work/others.sh" "$@" >"$work/output" 2>&1
    check "beside train $*: exit" $? 5
    check "beside train $*: one error" "$(grep -c 'error: ' "$work/output")" 1
    check "beside train $*: named" "$(grep -cE "^  command  train   +train ${named:-$1}$" "$work/output")" 1
    none_left "$work"/pid.*
}
export MISSING=none
mixed bench configs/bench-cpu.ini
mixed eval configs/bench-cpu.ini weights
named="--trace $work/trace" mixed configs/bench-cpu.ini --trace "$work/trace"
named=--dry-run mixed configs/bench-cpu.ini --dry-run
check "no run was begun" "$(ls "$work/run" 2>/dev/null)" ""
# A rank with a wrong command line is told what is wrong with it.
FIRST="configs/bench-cpu.ini --dry-run" ranks 2 30 sh "$work/others.sh" bench --dry-run >"$work/output" 2>&1
check "beside a wrong option: exit" $? 2
check "beside a wrong option: named" "$(grep -c '^rank 1: error: --dry-run: not an option' "$work/output")" 1

# Launchers that left no way to their other processes.
alone() { # VARIABLE VALUE RANK
    env "$1=$2" "$3=0" timeout 30 "$bin/train" configs/bench-cpu.ini --dry-run >"$work/output" 2>&1
    check "$1=$2: exit" $? 2
    check "$1=$2: one error" "$(grep -c "^error: .* has started $2 processes, .* unset $1\$" "$work/output")" 1
}
alone PMI_SIZE 2 PMI_RANK
alone SLURM_STEP_NUM_TASKS 3 SLURM_PROCID
alone FLUX_JOB_SIZE 4 FLUX_TASK_RANK
SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$bin/train" configs/bench-cpu.ini --dry-run >"$work/output" 2>&1
check "srun's only task: exit" $? 0
finish
