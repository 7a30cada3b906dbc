# A rank that dies, hangs, leaves or fails: the run ends within seconds, with the documented code, and no process stays.
. "$(dirname "$0")/../support/mpi.sh"
program=$1/test_dist_ranks
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# fault WHAT KIND RANK WAIT RC SECONDS LINES TEXT   LINES: of output; TEXT: must be in it
fault() {
    rm -f "$folder"/*
    local start now text rc
    start=$(date +%s%N)
    text=$(ranks 3 30 "$program" fault "$2" "$3" "$4" 0.5 "$folder" 2>&1)
    rc=$?
    now=$(date +%s%N)
    check "$1: exit" $rc "$5"
    check "$1: seconds" $(((now - start) / 1000000 < $6 * 1000 ? $6 : (now - start) / 1000000000)) "$6"
    check "$1: lines of output: $text" "$(printf '%s' "$text" | grep -c .)" "$7"
    case $text in
    *"$8"*) ;;
    *) check "$1: text" "$text" "...$8..." ;;
    esac
    none_left "$folder"/pid.*
}

lost="no answer from its peers for 0.5 s in training of update 17"
#     what                                   kind    rank wait     rc  s  lines
fault "nothing"                              none    0    reducer   0  5  0 ""
fault "killed while others reduce"           kill    1    reducer   137 10 0 ""
fault "killed while others are in a barrier" kill    0    allreduce 137 10 0 ""
fault "stopped while others reduce"          stop    1    reducer   5  10 1 "rank 0 on $(hostname): $lost (all-reduce of bucket 0)"
fault "stopped while others all-reduce"      stop    1    allreduce 5  10 1 "$lost (all-reduce)"
fault "rank 0 stopped"                       stop    0    allreduce 5  10 1 "rank 1 on $(hostname): $lost (all-reduce)"
fault "stopped, no overlap"                  stop    2    blocking  5  10 1 "$lost (all-reduce of bucket 0)"
fault "left early"                           exit    1    reducer   1  10 0 ""
fault "aborts"                               abort   2    allreduce 7  10 1 "error: no room"
fault "all compute longer than the timeout"  sleep   -1   reducer   0  10 0 ""
fault "one computes longer than the timeout" sleep   1    reducer   5  10 1 "$lost"
fault "the others nap meanwhile"             sleep   1    nap       0  10 0 ""

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
