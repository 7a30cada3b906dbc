# CIFAR-10's records, and PNG files written from them: the same pixels, so that the same seed gives the same losses, augmented and
# shuffled, and the same weights, from either; decoded, packed and from the packed file. Records are made here, or are the first ones of
# the real data_batch_1.bin where LOCKSTEP_CIFAR10 names its folder.
. "$(dirname "$0")/common.sh" "$1" || exit 1
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
export XDG_CACHE_HOME=$here/cache # not the user's

python3 - "${LOCKSTEP_CIFAR10:-}" <<'END' || exit 1
import os, struct, sys, zlib

RECORD, SIDE, CLASSES = 3073, 32, 10
names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

def records(count, first):
    if sys.argv[1]:
        with open(sys.argv[1] + "/data_batch_1.bin", "rb") as file:
            data = file.read((first + count) * RECORD)[first * RECORD:]
        return [data[i:i + RECORD] for i in range(0, len(data), RECORD)]
    made, state = [], first + 1
    for i in range(count):
        label, pixels = i * 7 % CLASSES, bytearray()
        for k in range(RECORD - 1):
            state = (state * 1103515245 + 12345) % 2**31
            pixels.append((state >> 16 & 127) + (64 if k // SIDE % SIDE // 3 == label else 0))
        made.append(bytes([label]) + bytes(pixels))
    return made

# As a folder has its samples: the first of each class, then the second of each.
def in_turn(all):
    ranks, keyed = [0] * CLASSES, []
    for record in all:
        keyed.append((ranks[record[0]], record[0], record))
        ranks[record[0]] += 1
    return sorted(keyed)

def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

def write_png(path, record):
    plane, rows = SIDE * SIDE, b""
    for y in range(SIDE):
        rows += b"\0" + bytes(record[1 + c * plane + y * SIDE + x] for x in range(SIDE) for c in range(3))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

os.mkdir("records")
for split, count, first in (("train", 300, 0), ("test", 100, 300)):
    samples = in_turn(records(count, first))
    for name in names:
        os.makedirs(f"pictures/{split}/{name}")
    for rank, label, record in samples:
        write_png(f"pictures/{split}/{names[label]}/{rank:05}.png", record)
    joint = b"".join(record for _, _, record in samples)
    if split == "test":
        open("records/test_batch.bin", "wb").write(joint)
    for part in range(5 if split == "train" else 0):
        open(f"records/data_batch_{part + 1}.bin", "wb").write(joint[part * 60 * RECORD:(part + 1) * 60 * RECORD])
END

cat >net.ini <<'END'
[network]
input = data
[conv]
layer = conv2d
out_channels = 8
kernel = 4
stride = 4
[norm]
layer = batchnorm2d
[relu]
layer = relu
[flat]
layer = flatten
[fc]
layer = linear
out_features = classes
END
cat >run.ini <<'END'
[data]
image_size = 32x32
mean = 0.4914, 0.4822, 0.4465
std = 0.2470, 0.2435, 0.2616
pad = 4
flip = true
[model]
file = net.ini
[train]
epochs = 2
global_batch = 32
[log]
every = 1
[device]
threads = 1
END
losses() { # FOLDER: of every update and evaluation, all digits
    python3 -c '
import json, sys
for line in open(sys.argv[1] + "/metrics.jsonl"):
    event = json.loads(line)
    if event["event"] in ("train", "eval"):
        print([event[key] for key in ("update", "train_loss", "test_loss", "test_accuracy", "grad_norm") if key in event])' "$1"
}
run() { "$train" run.ini --quiet "$@" || echo "exit $?"; }
check "records" "$(run --run-dir records_run --set data.dataset=cifar10 --set data.path=records)" ""
check "pictures" "$(run --run-dir decoded --set data.dataset=folder --set data.path=pictures --set data.cache=off)" ""
check "pictures, packed" "$(run --run-dir packing --set data.dataset=folder --set data.path=pictures)" ""
check "pictures, from the packed file" "$(run --run-dir packed --set data.dataset=folder --set data.path=pictures)" ""
losses records_run >losses.txt
check "losses: some" "$(wc -l <losses.txt | tr -d ' ') lines, $(sort -u losses.txt | wc -l | tr -d ' ') different" "22 lines, 22 different"
for name in decoded packing packed; do
    check "$name: losses" "$(losses $name | diff losses.txt - | head -5)" ""
    check "$name: weights" "$("$train" compare records_run/weights.safetensors $name/weights.safetensors >/dev/null 2>&1 || echo "differ")" ""
done
# That the comparison can fail: one pixel of one picture.
python3 -c '
import zlib
data = open("pictures/train/cat/00003.png", "rb").read()
at = data.index(b"IDAT")
length = int.from_bytes(data[at - 4:at], "big")
rows = bytearray(zlib.decompress(data[at + 4:at + 4 + length]))
rows[500] ^= 1
packed = zlib.compress(bytes(rows))
body = b"IDAT" + packed
end = data[at + 8 + length:]
open("pictures/train/cat/00003.png", "wb").write(data[:at - 4] + len(packed).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big") + end)'
check "another pixel" "$(run --run-dir other --set data.dataset=folder --set data.path=pictures)" ""
check "another pixel: other losses" "$(losses other | cmp -s losses.txt - && echo the same)" ""
check "another pixel: other weights" "$("$train" compare records_run/weights.safetensors other/weights.safetensors >/dev/null 2>&1 && echo the same)" ""
finish
