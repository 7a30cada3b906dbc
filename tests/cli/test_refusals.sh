# What must be refused at start: one message from one rank, the documented exit code, nothing created. Alone and on two ranks.
. "$(dirname "$0")/common.sh" "$1" || exit 1

alone() { "$train" "$@"; }
two() { ranks 2 60 "$train" "$@"; }

sed 's/^epochs/epoch/' tiny.ini >misspelt.ini
sed 's/^global_batch = .*/global_batch = many/' tiny.ini >type.ini
sed 's/^file = .*/file = nowhere.ini/' tiny.ini >network.ini
sed 's/^out_features = 4/out_features = 5/' net.ini >net5.ini
sed -e 's/kernel = 3/kernel = 12/' -e '/padding/d' -e '/pool1/,/^$/d' net.ini >ones.ini # norm1 is on a map of 1x1
mkdir used && cp tiny.ini used/config.ini
mkdir -p elsewhere/models && cp net.ini elsewhere/models/other.ini && cp tiny.ini elsewhere/
touch file
mkfifo pipe
truncate -s 1T sparse
"$train" tiny.ini --quiet --set train.max_updates=1 --run-dir weights >/dev/null 2>&1 && mv weights/weights.safetensors w.safetensors && rm -r weights
ln -s tiny.ini link.ini
ln tiny.ini hard.ini
sed 's/^input = .*/input = 1x28x28/; s/^out_features = .*/out_features = 10/' net.ini >mnist.ini
sed 's/^input = .*/input = 3x12x12/; s/^out_features = .*/out_features = classes/' net.ini >rgb.ini
python3 - <<'END'
import os, struct, zlib
os.makedirs("idx")
for name, count in (("train", 40), ("t10k", 8)):
    open(f"idx/{name}-images-idx3-ubyte", "wb").write(struct.pack(">4I", 2051, count, 28, 28) + bytes(count * 784))
    open(f"idx/{name}-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 2049, count) + bytes(i % 10 for i in range(count)))
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
for c in "ab":
    os.makedirs(f"pictures/{c}")
    for i in range(40):
        rows = bytes(12 * (1 + 36)) if c == "a" else (b"\0" + bytes([i] * 36)) * 12
        open(f"pictures/{c}/{i}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 12, 12, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
echo '/* mine */ int x;' >own.c
cp own.c own.onnx
sha256sum w.safetensors own.c own.onnx tiny.ini >sums
touch before
find . | sort >before

refused "no configuration" 2 "no configuration file" alone
refused "unknown option" 2 "unknown option --quit; did you mean --quiet?" alone tiny.ini --quit
refused "two configurations" 2 "two configuration files" alone tiny.ini tiny.ini
refused "missing configuration" 2 "missing.ini" alone missing.ini
refused "a folder in place of its configuration" 2 "./used: is a folder; a configuration in it is ./used/config.ini" alone ./used
refused "misspelt key" 2 "epochs" alone misspelt.ini
refused "wrong type" 2 "many" alone type.ini
refused "--set of an unknown key" 2 "train.epochs" alone tiny.ini --set train.epoch=1
refused "--set without '='" 2 "--set" alone tiny.ini --set train.epochs
refused "missing network" 2 "nowhere.ini" alone network.ini
refused "network of other classes" 2 "net5.ini" alone tiny.ini --set model.file=net5.ini
refused "network of --set: beside the configuration only" 2 \
    "--set model.file=models/other.ini: no such file in the current folder, where a path on the command line starts; there is elsewhere/models/other.ini" \
    alone elsewhere/tiny.ini --set model.file=models/other.ini
cp elsewhere/tiny.ini elsewhere/lenet.ini # a configuration with the name of a shipped network
check "network of --set: a configuration of its name beside it" \
    "$("$train" elsewhere/lenet.ini --set model.file=lenet --set data.shape=1x28x28 --dry-run 2>&1 | sed -n '1s/^.*configs\///p')" \
    "models/lenet.ini: input 1x28x28, 4 classes"
rm elsewhere/lenet.ini
for network in resnet18 tiny-resnet8 models/lenet.ini; do # beside the configuration lies the shipped network itself
    refused "network of --set: $network, shipped as the configuration is" 3 "no folder no; set data.path" \
        alone folder-example --set model.file=$network --set data.path=no
done
refused "network of --set: nowhere" 2 "error: --set model.file=no/other.ini: is not there" alone elsewhere/tiny.ini --set model.file=no/other.ini
refused "data of --set: relative to here" 3 "looked in no/data or no/data/cifar-10-batches-bin for" \
    alone elsewhere/tiny.ini --set model.file=net.ini --set data.dataset=cifar10 --set data.path=no/data
for samples in 33 49; do # full windows of 32; 1 sample left, or 16 + 1 on two ranks
    [ $samples = 33 ] && n=alone left="1 sample (" micro=32 || n=two left="17 samples (" micro=16
    refused "no variance in the last window of $samples samples" 2 "ones.ini:10: layer 'norm1' normalises a map of 1x1, for which a micro-batch needs 2 samples at least: the last window of an epoch has ${left}of train.global_batch = 32), which leaves 1 to its last micro-batch (of $micro); set data.drop_last = true" \
        $n tiny.ini --set model.file=ones.ini --set data.train_samples=$samples
done
refused "no variance in any window" 2 "it has 1 of train.global_batch = 1 on 1 rank; set a larger train.micro_batch or train.global_batch" \
    alone tiny.ini --set model.file=ones.ini --set train.global_batch=1
for mix in mixup cutmix; do
    for options in train.micro_batch=1 train.global_batch=1 data.train_samples=1; do
        refused "$mix of one sample: $options" 2 "error: --set data.$mix=1: mixes pictures of a micro-batch, which has 1 of train.global_batch = " \
            alone tiny.ini --set data.$mix=1 --set $options
    done
    refused "$mix: two ranks have a sample each" 2 "which has 1 of train.global_batch = 2 on 2 ranks and of" two tiny.ini --set data.$mix=1 --set train.global_batch=2
done
refused "a period below an update" 2 "error: --set schedule.period=0.001: shorter than an update, of which an epoch has " \
    alone tiny.ini --set schedule.kind=cosine-restarts --set schedule.period=0.001
check "stored statistics normalise one sample" "$("$train" tiny.ini --quiet --set model.file=ones.ini --set train.global_batch=1 --set "train.stored_statistics=*" --set train.max_updates=2 --run-dir one 2>&1; echo $?; rm -rf one)" 0
refused "missing data" 3 "$here/nodata" alone tiny.ini --set data.dataset=cifar10 --set data.path="$here/nodata"
refused "fp16 on cpu" 2 "the cpu device stores activations in fp32 or bf16: use train.precision = fp32 or bf16; fp16 is for device.type = cuda, or ref" \
    alone tiny.ini --set device.type=cpu --set train.precision=fp16
refused "no cuda here" 4 "cuda" alone tiny.ini --set device.type=cuda
refused "run folder holds what no run has written" 2 "used holds a config.ini that no run has written" alone tiny.ini --run-dir used
refused "run folder is a file" 2 "is a file" alone tiny.ini --run-dir file
refused "run folder below a file" 7 "file" alone tiny.ini --run-dir file/run
refused "run folder on /proc" 7 "/proc/lockstep" alone tiny.ini --run-dir /proc/lockstep
refused "eval without weights" 2 "no weights" alone eval tiny.ini
refused "eval of missing weights" 2 "nothing.safetensors" alone eval tiny.ini nothing.safetensors
refused "eval of what are no weights" 2 "tiny.ini" alone eval tiny.ini tiny.ini
refused "bench into a file" 7 "file" alone bench tiny.ini --run-dir file
refused "trace in a folder that is not there" 7 "nowhere/t.json" alone tiny.ini --trace nowhere/t.json
read="this command reads that file, and would replace it: name another file"
refused "trace into the configuration" 2 "--trace ./tiny.ini: $read" alone tiny.ini --trace ./tiny.ini
refused "trace into the network" 2 "--trace net.ini: $read" alone tiny.ini --trace net.ini
refused "trace into the weights it begins with" 2 "--trace w.safetensors: $read" alone tiny.ini --set model.init=w.safetensors --trace w.safetensors
refused "sheet into the configuration, by a link" 2 "--out link.ini: $read" alone augment tiny.ini --out link.ini
refused "sheet into the configuration, by a hard link" 2 "--out hard.ini: $read" alone augment tiny.ini --out hard.ini
refused "sheet into the network" 2 "--out ./net.ini: $read" alone augment tiny.ini --out ./net.ini
refused "sheet into a data file" 2 "--out idx/train-labels-idx1-ubyte: $read" \
    alone augment tiny.ini --set data.train_samples=0 --set data.test_samples=0 --set data.dataset=mnist --set data.path=idx --set model.file=mnist.ini --out idx/train-labels-idx1-ubyte
refused "sheet into a picture of the set" 2 "--out pictures/a/1.png: $read" \
    alone augment tiny.ini --set data.train_samples=0 --set data.test_samples=0 --set data.dataset=folder --set data.path=pictures --set data.image_size=12x12 --set model.file=rgb.ini --out pictures/a/1.png
refused "export into the weights" 2 "w.safetensors: export writes ONNX (OUT.onnx) or C (OUT.c): train export WEIGHTS OUT" alone export w.safetensors w.safetensors
stays="it stays; name another file"
for out in tiny.ini weights.onnx.old none "" -; do
    refused "export into '$out'" 2 "${out:-''}: export writes ONNX (OUT.onnx) or C (OUT.c): train export WEIGHTS OUT" alone export w.safetensors "$out"
done
refused "export into another C file" 2 "OUT own.c: is there, and no C file of this program: $stays" alone export w.safetensors own.c
refused "export into another .onnx" 2 "OUT own.onnx: is there, and no ONNX model: $stays" alone export w.safetensors own.onnx
refused "trace into weights" 2 "--trace w.safetensors: is there, and no timeline of this program: $stays" alone tiny.ini --trace w.safetensors
refused "sheet into weights" 2 "--out w.safetensors: is there, and no PNG picture: $stays" alone augment tiny.ini --out w.safetensors
check "what is there stays" "$(sha256sum w.safetensors own.c own.onnx tiny.ini | diff sums - && echo same)" same
refused "trace into a folder" 7 "is a folder" alone tiny.ini --trace used
refused "trace into a pipe" 7 "is a pipe that no process reads" alone tiny.ini --quiet --run-dir piped --trace pipe
rm -r piped
# What waits or has no end is not read.
for file in pipe /dev/zero used sparse; do
    place=$file && [ "${file#/}" != "$file" ] || place=./$file
    refused "$file as a configuration" 2 "$file: " timeout 20 "$train" "$place" --dry-run
    refused "$file as a network" 2 "$file: " timeout 20 "$train" tiny.ini --set model.file="$file"
    code=7 && [ "$file" != used ] || code=2 # a folder of something else
    refused "$file as weights" $code "$file: " timeout 20 "$train" predict "$file" x.png
done
mkdir -p c/update-000000000001
for file in pipe sparse; do
    ln -sf "$here/$file" c/update-000000000001/manifest.json
    refused "$file as a manifest" 7 "update-000000000001/manifest.json: cannot read: " timeout 20 "$train" ckpt verify c
done
rm -r c
refused "trace of updates beyond the run" 2 "updates 0 to 15" alone tiny.ini --trace t.json --trace-updates 10:17
refused "trace of updates that are none" 2 "--trace-updates 7:3" alone tiny.ini --trace t.json --trace-updates 7:3
# On two ranks: one for every step of the start.
refused "two ranks: unknown option" 2 "unknown option --quit; did you mean --quiet?" two tiny.ini --quit
refused "two ranks: misspelt key" 2 "epochs" two misspelt.ini
refused "two ranks: missing data" 3 "$here/nodata" two tiny.ini --set data.dataset=cifar10 --set data.path="$here/nodata"
refused "two ranks: run folder holds what no run has written" 2 "used holds a config.ini that no run has written" two tiny.ini --run-dir used
refused "two ranks: eval of missing weights" 2 "nothing.safetensors" two eval tiny.ini nothing.safetensors
refused "two ranks: trace in a folder that is not there" 7 "nowhere/t.json" two tiny.ini --trace nowhere/t.json
refused "two ranks: trace of updates beyond the run" 2 "updates 0 to 15" two tiny.ini --trace t.json --trace-updates 10:17
refused "global batch smaller than the ranks" 2 "global_batch" ranks 4 60 "$train" tiny.ini --set train.global_batch=2
refused "global batch that the ranks do not divide" 2 "global_batch" ranks 3 60 "$train" tiny.ini
check "nothing was created" "$(find . | sort | diff before - && echo same)" same

# Ranks with different configurations: rank 1 reads another file. A table of the differences, once.
cat >wrapper.sh <<'END'
#!/bin/sh
[ "${OMPI_COMM_WORLD_RANK:-0}" = 1 ] && set -- "$@" --set run.seed=2
exec "$TRAIN" "$@"
END
chmod +x wrapper.sh
TRAIN=$train refused "ranks with different configurations" 5 "run.seed" ranks 2 60 ./wrapper.sh tiny.ini --run-dir different
check "no folder of the refused run" "$(ls -d different 2>/dev/null)" ""

if [ "$(id -u)" = 0 ]; then # root may write into any folder: as somebody else, where that is possible
    if command -v setpriv >/dev/null && chmod 755 "$here" && setpriv --reuid=65534 --clear-groups test -x "$train"; then
        refused "run folder not writable" 7 "error" setpriv --reuid=65534 --regid=65534 --clear-groups "$train" tiny.ini
    fi
else
    mkdir locked && chmod 555 locked
    refused "run folder not writable" 7 "locked" alone tiny.ini --run-dir locked
fi
finish
