# A rank that ends its process in the middle of the run: the job ends without a timeout, with one message and the rank's exit code (1 for
# 0), and no process stays.
. "$(dirname "$0")/rank_fault.sh" || exit 1

gone="is gone: its process was killed or crashed, or it left the run; when last heard, it was in \"training\" of update 17"
left="called exit() in \"training\", while the other ranks go on; it ends the job"
#     what                                   kind   rank wait      timeout rc errors pattern
fault "exits without an error"               exit0  1    reducer   $never    1 1 "error: rank 1 on $host (pid *) $left"
fault "exits with 3"                         exit3  0    allreduce $never    3 1 "error: rank 0 on $host (pid *) $left"
fault "exits with 75"                        exit75 2    blocking  $never   75 1 "error: rank 2 on $host (pid *) $left"
fault "exits at once with 3"                 quit3  1    reducer   $never    3 1 "error: rank 1 on $host (pid *) $gone"
fault "exits at once without an error"       quit0  1    reducer   $never    1 1 "error: rank 1 on $host (pid *) $gone"
finish
