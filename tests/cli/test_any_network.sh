# The networks that bench/any_network.py draws: a seed's files are the same every time and for every Python, and `train` accepts them,
# as all that docs/layers.md allows. Whether they compute what PyTorch does: `any_network.py check`.
root=$PWD
. "$(dirname "$0")/common.sh" "$1" || exit 1
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}

for seed in 1 2 3 4 5 6 7 8; do
    size=small
    [ $seed -gt 6 ] && size=large
    config=$(python3 "$root/bench/any_network.py" write $seed --size $size --out $size-$seed)
    check "$size network $seed: written" $? 0
    "$train" "$config" --dry-run >plan.txt 2>&1
    check "$size network $seed: accepted" $? 0
    grep 'error:' plan.txt
done
# of seed 1: what other versions of Python must write, too
check "the same network everywhere" "$(cksum <small-1/network.ini)" "4282264302 1118"
finish
