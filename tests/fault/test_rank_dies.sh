# A rank that dies or fails, and a launcher that dies or is stopped: the job ends without a timeout, with one message and the
# documented exit code, and no process stays.
. "$(dirname "$0")/rank_fault.sh" || exit 1

gone="is gone: its process was killed or crashed, or it left the run; when last heard, it was in \"training\" of update 17"
#     what                                   kind   rank wait      timeout rc errors pattern
fault "nothing"                              none   0    reducer   $never    0 0 ""
fault "killed while others reduce"           kill   1    reducer   $never  137 1 "error: rank 1 on $host (pid *) $gone"
fault "killed while others are in a barrier" kill   0    allreduce $never  137 1 "error: rank 0 on $host (pid *) $gone"
fault "killed while others nap"              kill   2    nap       $never  137 1 "error: rank 2 on $host (pid *) $gone"
fault "aborts"                               abort  2    allreduce $never    7 1 "error: no room"

started() { [ -e "$folder/now" ] && [ "$(cat "$folder"/pid.* | wc -l)" = "$n" ]; }

# Starts the job in the background, and returns when it is in update 17 of $n ranks. Not through timeout: its child would be
# signalled, not the launcher.
launch() {
    rm -f "$folder"/*
    # shellcheck disable=SC2086
    "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none -np $n "$program" fault "$1" "$2" allreduce "$3" "$folder" \
        </dev/null >"$folder/output" 2>&1 &
    launcher=$!
    eventually started
    check "$n ranks have started" "$(cat "$folder"/pid.* | wc -l)" "$n"
}

# The launcher dies: no rank stays. With one rank, which has no MPI, too.
for n in 1 3; do
    launch forever -1 0
    left_over=$(segments "$folder"/pid.*) # which a launcher removes unless it is killed itself
    kill -9 $launcher
    wait $launcher 2>/dev/null
    none_left "$folder"/pid.*
    [ -z "$left_over" ] || rm -f $left_over
done

# The launcher is told to end: nobody calls that a fault.
n=3
for signal in TERM INT; do
    launch forever -1 $never
    kill -s $signal $launcher
    wait $launcher 2>/dev/null
    check "launcher ended by $signal: error lines" "$(grep -c '^error: ' "$folder/output")" 0
    none_left "$folder"/pid.*
done
finish
