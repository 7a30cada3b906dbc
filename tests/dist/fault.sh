# fault.sh - for test_faults.sh and test_watchdog.sh: runs one fault on 3 ranks and checks how the job ends.
. "$(dirname "$0")/../support/mpi.sh"
program=$1/test_dist_ranks
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
host=$(hostname) # for the patterns
export host

# fault WHAT KIND RANK WAIT TIMEOUT_S RC SECONDS ERRORS PATTERN   ERRORS: lines "error: ..."; PATTERN: the output has it
fault() {
    rm -f "$folder"/*
    local start now text rc
    start=$(date +%s%N)
    text=$(ranks 3 30 "$program" fault "$2" "$3" "$4" "$5" "$folder" 2>&1)
    rc=$?
    now=$(date +%s%N)
    check "$1: exit" $rc "$6"
    check "$1: within $7 s" $(((now - start) / 1000000 < $7 * 1000 ? $7 : (now - start) / 1000000000)) "$7"
    check "$1: error lines" "$(grep -c '^error: ' <<<"$text")" "$8"
    # shellcheck disable=SC2254 # a pattern
    case $text in
    *$9*) ;;
    *) check "$1: text" "$text" "...$9..." ;;
    esac
    none_left "$folder"/pid.*
}
