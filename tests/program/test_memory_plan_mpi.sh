# train.micro_batch = auto on several ranks, one of which has less memory: all take the micro-batch that fits there, and rank 0 says so.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
program=$1/test_program_memory_plan

for short in 0 1; do
    text=$(ranks 2 60 "$program" ranks $short 2>/tmp/lockstep_memory_ranks.$$ | sort)
    check "rank $short is short: all take 16 samples" "$text" "rank 0: 16
rank 1: 16"
    check "rank $short is short: one line says so" "$(grep -c "train.micro_batch = auto: 16 samples and 2" /tmp/lockstep_memory_ranks.$$)" 1
done
text=$(ranks 2 60 "$program" ranks -1 2>/tmp/lockstep_memory_ranks.$$ | sort)
check "none is short" "$text" "rank 0: 32
rank 1: 32"
check "none is short: nothing to say" "$(cat /tmp/lockstep_memory_ranks.$$)" ""
rm -f /tmp/lockstep_memory_ranks.$$
finish
