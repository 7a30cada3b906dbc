# A rank that says nothing: its peers end the job with one line and exit code 5; a rank that computes for long is left alone.
. "$(dirname "$0")/fault.sh"

lost="no answer from its peers for 1 s in training of update 17"
rank0="rank 0 on $(hostname): $lost"
#     what                                   kind  rank wait      timeout rc s lines text
fault "stopped while others reduce"          stop  1    reducer   1   5 10 1 "$rank0 (all-reduce of bucket 0)"
fault "stopped while others all-reduce"      stop  1    allreduce 1   5 10 1 "$rank0 (all-reduce)"
fault "rank 0 stopped"                       stop  0    allreduce 1   5 10 1 "rank 1 on $(hostname): $lost (all-reduce)"
fault "stopped, no overlap"                  stop  2    blocking  1   5 10 1 "$rank0 (all-reduce of bucket 0)"
fault "one computes longer than the timeout" sleep 1    reducer   1   5 10 1 "$lost"
fault "all compute longer than the timeout"  sleep -1   reducer   1   0 10 0 ""
fault "slow, but a bucket comes now and then" slow 1   reducer   1   0 10 0 ""
fault "the others nap meanwhile"             sleep 1    nap       1   0 10 0 ""
finish
