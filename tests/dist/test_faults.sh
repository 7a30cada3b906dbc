# A rank that dies, leaves or fails, and a launcher that dies: the job ends within seconds and no process stays.
. "$(dirname "$0")/fault.sh"

#     what                                   kind  rank wait      timeout rc s lines text
fault "nothing"                              none  0    reducer   30   0  5 0 ""
fault "killed while others reduce"           kill  1    reducer   30 137 10 0 ""
fault "killed while others are in a barrier" kill  0    allreduce 30 137 10 0 ""
fault "left early"                           exit  1    reducer   30   1 10 0 ""
fault "aborts"                               abort 2    allreduce 30   7 10 1 "error: no room"

# The launcher dies: no rank stays. With one rank, which has no MPI, too.
for n in 1 3; do
    rm -f "$folder"/*
    # not through timeout: its child would be killed, not the launcher
    # shellcheck disable=SC2086
    "$MPIRUN" $mpi_root -quiet --oversubscribe --bind-to none -np $n "$program" fault forever -1 allreduce 0 "$folder" \
        </dev/null >/dev/null 2>&1 &
    launcher=$!
    for _ in $(seq 100); do
        [ "$(cat "$folder"/pid.* 2>/dev/null | wc -l)" = $n ] && break
        sleep 0.1
    done
    check "$n ranks have started" "$(cat "$folder"/pid.* | wc -l)" $n
    kill -9 $launcher
    wait $launcher 2>/dev/null
    none_left "$folder"/pid.*
done
finish
