#!/usr/bin/env bash
# Data that have changed since: for every format and split, --resume, the comparison of ranks, a sweep and an evaluation
# notice it, though names, sizes and times of the files are the same.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1
export XDG_CACHE_HOME=$here/cache # not the user's

# make FORMAT SPLIT SEED: that split of a small set in the folder FORMAT.
make() {
    python3 - "$@" <<'END'
import gzip, os, random, struct, sys
kind, split, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
folder, test = kind, split == "test"
noise = random.Random(f"{split} {seed}")
os.makedirs(folder, exist_ok=True)
def put(name, data):
    path = f"{folder}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path + ".new", "wb").write(data)
    os.utime(path + ".new", (10 ** 9, 10 ** 9))
    os.replace(path + ".new", path)
if kind == "folder":
    for label, name in enumerate("ab"):
        for i in range(8):
            put(f"{split}/{name}/{i}.ppm", b"P6\n8 8\n255\n" + bytes(min(255, noise.randrange(100) + 120 * label) for _ in range(192)))
elif kind.startswith("cifar"):
    record = lambda i: bytes([i % 10]) + noise.randbytes(3072)
    for name in ["test_batch"] if test else [f"data_batch_{k}" for k in range(1, 6)]:
        put(name + ".bin", b"".join(record(i) for i in range(10)))
else:
    name, count, side = "t10k" if test else "train", 3000 if kind == "idx.gz" else 30, 28
    pixels, labels = noise.randbytes(count * side * side), bytes(i % 10 for i in range(count))
    for part, data in ("images-idx3-ubyte", struct.pack(">IIII", 2051, count, side, side) + pixels), (
            "labels-idx1-ubyte", struct.pack(">II", 2049, count) + labels):
        if kind == "idx.gz": put(f"{name}-{part}.gz", gzip.compress(data, 0, mtime=0))
        else: put(f"{name}-{part}", data)
END
}
printf '[network]\ninput = data\n[flat]\nlayer = flatten\n[fc]\nlayer = linear\nout_features = classes\n' >any.ini
# configure FORMAT OPTION...: FORMAT.ini, of the set in the folder FORMAT.
configure() {
    local format=$1 dataset=mnist more
    shift
    case $format in folder) dataset="folder" more="image_size = 8x8" ;; cifar10) dataset=cifar10 more= ;; *) more= ;; esac
    printf '%s\n' '[data]' "dataset = $dataset" "path = $format" "$more" "$@" '[model]' 'file = any.ini' '[train]' 'epochs = 1' \
        'global_batch = 4' 'max_updates = 2' '[device]' 'type = cpu' 'threads = 1' '[checkpoint]' 'every_updates = 1' >"$format.ini"
}
go() { "$train" "$format.ini" --quiet "$@"; }
# The second rank's folder has the set in another state.
two_ranks() {
    ranks 2 60 sh -c 'if [ "${OMPI_COMM_WORLD_RANK-${PMI_RANK-0}}" = 1 ]; then cd beside; fi; exec "$@"' sh \
        "$train" "$format.ini" --quiet --run-dir together "$@"
}

while read -r format split extra; do
    configure "$format" ${extra:+"$extra"}
    for part in train test val; do [ "$format$part" = "${format#folder}val" ] || make "$format" $part 1; done
    for cache in auto off; do
        what="$format, $split, cache $cache"
        make "$format" "$split" 1
        rm -rf run beside together
        mkdir beside
        cp -rp "$format" "$format.ini" any.ini beside
        two_ranks --set data.cache=$cache
        check "$what: ranks of the same data: exit" $? 0
        rm -r together
        go --run-dir run --set data.cache=$cache
        check "$what: exit" $? 0
        go --run-dir run --resume --set train.max_updates=3 --set data.cache=$cache
        check "$what, unchanged: exit" $? 0
        make "$format" "$split" 2
        which=$split
        [ "$split" != train ] || which=training
        [ "$split" != val ] || which=validation
        refused "$what: resume" 3 "the $which data are not those that it was made with" \
            "$train" "$format.ini" --quiet --run-dir run --resume --set train.max_updates=4 --set data.cache=$cache
        output=$(two_ranks --set data.cache=$cache 2>&1)
        check "$what: ranks: exit" $? 5
        check "$what: ranks: message" "$(grep -c "^ *$which data  *[0-9a-f]\{16\}  *[0-9a-f]\{16\}" <<<"$output")" 1
        output=$("$train" eval "$format.ini" run --quiet --set data.cache=$cache 2>&1)
        check "$what: eval: exit" $? 0
        check "$what: eval: told" "$(grep -c 'warning: .*these test data .* are not those of its run' <<<"$output")" \
            "$([ "$split" = test ] && echo 1 || echo 0)"
        "$train" eval "$format.ini" run --quiet --set data.cache=$cache --set eval.split=validation >out 2>&1
        check "$what: eval of validation: told" "$(grep -c 'warning: .*these validation data .* are not those of its run' out)" \
            "$([ "$split" = val ] && echo 1 || echo 0)"
    done
done <<'END'
folder train
folder test
folder val
idx train
idx test
idx.gz train
idx.gz test
cifar10 train
cifar10 test
idx train validation_fraction = 0.2
END

# A sweep does not compare runs of different data. Which samples are held out depends on the seed; the data do not.
for format in folder idx; do
    configure $format 'validation_fraction = 0.25'
    rm -rf folder/val
    for split in train test; do
        make $format $split 1
        "$train" sweep $format.ini --seeds 1-2 --run-dir sweep >out 2>&1
        check "sweep, $format, $split: exit" $? 0
        make $format $split 2
        refused "sweep, $format, $split" 3 "data of seed=1 and of seed=3 are not the same" \
            "$train" sweep $format.ini --seeds 1-4 --run-dir sweep
        check "sweep, $format, $split: no more runs" "$([ -e sweep/seed=4 ] && echo there)" ""
        refused "sweep, $format, $split: again" 3 "are not the same" "$train" sweep $format.ini --seeds 1-4 --run-dir sweep
        rm -r sweep
    done
done

finish
