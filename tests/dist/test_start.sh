# A rank that never comes to MPI's start: the others say so and end, instead of waiting for ever. Argument: the folder of the built programs.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh
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
finish
