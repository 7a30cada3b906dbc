# Hosts and groups of ranks, on 1 to 4 ranks of this machine that are told to be several hosts.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
program=$1/test_dist_comm_groups
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for n in 1 2 3 4; do
    ranks $n 60 "$program"
    check "$n ranks on one host" $? 0
done
for hosts in 0,1 0,0,1 0,1,1 2,0,2,0 0,0,0,1 3,2,1,0; do
    n=$(printf '%s' "$hosts" | tr ',' '\n' | grep -c .)
    LOCKSTEP_TEST_HOSTS=$hosts ranks "$n" 60 "$program"
    check "ranks on hosts $hosts" $? 0
done

text=$(ranks 3 30 "$program" stop "$folder" 2>&1)
check "a rank stops inside a group: exit" $? 5
case $text in
"error: rank 1 on "*" has been silent for "*"; rank 0 has waited for "*barrier*) ;;
*) check "a rank stops inside a group: text" "$text" "error: rank 1 ... has been silent ...; rank 0 has waited for ... barrier ..." ;;
esac
none_left "$folder"/pid.*
finish
