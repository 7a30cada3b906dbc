# A rank that is heard no more: the job ends with one line that names it, a table and exit code 5; a job that is stopped as a whole
# and goes on is left alone.
. "$(dirname "$0")/rank_fault.sh" || exit 1

silent="has been silent for * s: stopped, dead, or its host or network is gone; when last heard, it was in \"training\" of update 17"
#     what                                   kind  rank wait      timeout rc errors pattern
fault "stopped while others reduce"          stop  1    reducer   $soon     5 1 "error: rank 1 on $host (pid *) $silent; rank * has waited"
fault "stopped while others all-reduce"      stop  2    allreduce $soon     5 1 "error: rank 2 on $host (pid *) $silent"
fault "rank 0 stopped"                       stop  0    allreduce $soon     5 1 "error: rank 0 on $host (pid *) $silent"
fault "stopped, no overlap"                  stop  2    blocking  $soon     5 1 "error: rank 2 on $host (pid *) $silent"
fault "stopped while the others nap"         stop  1    nap       $soon     5 1 "error: rank 1 on $host (pid *) $silent"

# Stopped as a whole in the middle of a wait, for longer than the timeout.
rm -f "$folder"/*
ranks 3 30 "$program" fault slow 1 reducer $soon "$folder" >"$folder/output" 2>&1 &
eventually [ -e "$folder/now" ]
# shellcheck disable=SC2046 # numbers
kill -s STOP $(cat "$folder"/pid.*)
sleep $((2 * soon))
# shellcheck disable=SC2046
kill -s CONT $(cat "$folder"/pid.*)
wait $!
check "stopped as a whole: exit" $? 0
check "stopped as a whole: output" "$(cat "$folder/output")" ""
finish
