# Collectives, sums, agreement and fingerprints on 1 to 4 ranks.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
program=$1/test_dist_ranks

for n in 1 2 3 4; do
    ranks $n 60 "$program"
    check "collectives and sums, $n ranks" $? 0
done

for failing in -1 0 2; do
    text=$(ranks 3 20 "$program" agree $failing 2>&1)
    rc=$?
    if [ "$failing" = -1 ]; then
        check "nobody has failed: exit" "$rc" 0
        check "nobody has failed: text" "$text" ""
    else
        check "rank $failing has failed: exit" "$rc" 3
        check "rank $failing has failed: text" "$text" "rank $failing cannot read %s train.gz"
    fi
done

ranks 4 20 "$program" fingerprint same
check "same facts" $? 0
text=$(ranks 4 20 "$program" fingerprint global_batch 2>&1)
check "facts differ: exit" $? 5
check "facts differ: table" "$text" "ranks differ before the first update:
  fact                ranks 0, 2                        ranks 1, 3
  train.global_batch  128                               64
  train.epochs        an even rank's much longer value  five
  only.odd            (none)                            here"
text=$(ranks 3 20 "$program" fingerprint gpu 2>&1)
check "GPUs differ: exit" $? 0
check "GPUs differ: warning" "$text" "ranks differ, which is allowed: updates wait for the slowest, and another set of ranks gives other bits:
  fact  ranks 0, 2  rank 1
  GPU   H100        A100"
text=$(ranks 3 20 "$program" fingerprint both 2>&1)
check "GPUs and NCCL differ: exit" $? 5
check "GPUs and NCCL differ: table" "$text" "ranks differ before the first update:
  fact  rank 0  rank 1  rank 2
  GPU   H100    A100    H100
  NCCL  2.28    2.28    2.27"
text=$(ranks 2 20 "$program" fingerprint long 2>&1)
check "a difference at the end of a long value: exit" $? 5
case $text in
*"optimizer.groups  000"*"... "*) check "a difference at the end of a long value: named" 1 1 ;;
*) check "a difference at the end of a long value: named" "$text" "..." ;;
esac
text=$(ranks 3 20 "$program" fingerprint many 2>&1)
check "more differences than fit: exit" $? 5
case $text in
*"more facts differ") check "more differences than fit: says so" 1 1 ;;
*) check "more differences than fit: says so" "$text" "..." ;;
esac
finish
