# A rank that is alive and makes the others wait: the job ends with one line that names it, a table and exit code 5; where nobody
# waits, computing may last.
. "$(dirname "$0")/rank_fault.sh" || exit 1

late="is alive but has not joined"
has="it has been in \"training\" of update 17 for"
#     what                                   kind  rank wait      timeout rc errors pattern
fault "one computes longer than the timeout" sleep 1    allreduce $soon     5 1 "error: rank 1 on $host (pid *) $late all-reduce of update 17: $has"
fault "rank 0 does"                          sleep 0    reducer   $soon     5 1 "error: rank 0 on $host (pid *) $late bucket * of update 17: $has"
fault "one does, no overlap"                 sleep 2    blocking  $soon     5 1 "error: rank 2 on $host (pid *) $late bucket 0 of update 17: $has"
fault "all compute longer than the timeout"  sleep -1   reducer   $soon     0 0 ""
fault "slow, but a bucket comes now and then" slow 1    reducer   $soon     0 0 ""
fault "the others nap meanwhile"             sleep 1    nap       $soon     0 0 ""
finish
