# Sums by hosts and by all ranks at once, on 1 to 4 ranks of this machine that are told to be several hosts.
. tests/support/mpi.sh || exit 1
program=$1/test_dist_reduce_hierarchy

for hosts in 0,0 0,1 0,1,0 0,1,1 0,1,2 0,0,0,1 0,1,1,0; do
    n=$(printf '%s' "$hosts" | tr ',' '\n' | grep -c .)
    LOCKSTEP_TEST_HOSTS=$hosts ranks "$n" 60 "$program"
    check "sums over hosts $hosts" $? 0
done

# Two hosts of two ranks each, not neighbours: all ranks at once would add in another order.
order() { LOCKSTEP_TEST_HOSTS=$1 ranks 4 30 "$program" order "$2" 2>&1; }
check "hierarchy on" "$(order 0,1,0,1 on)" "by hosts, by hosts"
check "hierarchy auto, several ranks on several hosts" "$(order 0,1,0,1 auto)" "by hosts, by hosts"
check "hierarchy off" "$(order 0,1,0,1 off)" "at once, at once"
check "hierarchy auto, one host" "$(order 0,0,0,0 auto)" "at once, at once"
check "hierarchy auto, one rank on each host" "$(order 0,1,2,3 auto)" "at once, at once"
finish
