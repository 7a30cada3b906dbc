# Clocks of 1 to 4 ranks.
. "$(dirname "$0")/../support/mpi.sh" || exit 1
for n in 1 2 4; do
    text=$(ranks $n 20 "$1/test_dist_clock_align" 2>&1)
    check "offsets of $n ranks: exit" $? 0
    check "offsets of $n ranks: text" "$text" ""
done
finish
