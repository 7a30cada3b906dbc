# rank_fault.sh - for test_rank_dies.sh and test_rank_silent.sh: runs one fault on 3 ranks and checks how the job ends.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
program=$1/test_dist_ranks
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
host=$(hostname) # for the patterns
export host

# fault WHAT KIND RANK WAIT TIMEOUT_S RC ERRORS PATTERN   ERRORS: lines "error: ..."; PATTERN: the output has it
# TIMEOUT_S: $never where the job must end without the timeout; $soon where it ends by it. Threads of a busy machine may wait for a core
# for a good part of a second, in which nothing is heard of a rank: half of $soon would be taken for silence.
# shellcheck disable=SC2034 # used by the scripts
never=1000 soon=2
fault() {
    rm -f "$folder"/*
    local text rc errors launcher_text=$folder/launcher
    text=$(ranks 3 30 "$program" fault "$2" "$3" "$4" "$5" "$folder" 2>&1)
    rc=$?
    check "$1: exit" $rc "$6"
    errors=$(grep -c '^error: ' <<<"$text")
    # Open MPI 5 ends the other ranks before they report. Its own text names the rank then.
    if [ "$errors" = 0 ] && grep -qsE "rank $3 with PID|Process name: .*,$3\]" "$launcher_text"; then
        check "$1: named by the launcher" 1 "$7"
        none_left "$folder"/pid.*
        return
    fi
    check "$1: error lines" "$errors" "$7"
    # shellcheck disable=SC2254 # a pattern
    case $text in
    *$8*) ;;
    *) check "$1: text" "$text" "...$8..." ;;
    esac
    none_left "$folder"/pid.*
}
