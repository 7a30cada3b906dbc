# train replay: a run on two ranks that ends as not finite leaves a folder that repeats it, from anywhere and on other devices; and
# what it refuses. Argument: the folder of the built programs.
set -u
# shellcheck source=tests/cli/common.sh
. tests/cli/common.sh || exit 1
bin=$(dirname "$train")
tests=$OLDPWD/tests/cli

sed -i 's/^layer = flatten/layer = globalavgpool/' net.ini # for any resolution
diverge="--set device.type=cpu --set train.resolution=0:12,1:9x8 --set train.class_weights=balanced --set data.pad=1 --set data.flip=true --set data.cutout=3 --set optimizer.lr=1000 --set optimizer.weight_decay=1 --set train.epochs=40 --set train.micro_batch=8"
# shellcheck disable=SC2086 # several words
ranks 2 60 "$train" tiny.ini --quiet --run-dir run $diverge >log 2>&1
check "two ranks: exit" $? 6
check "two ranks: one line" "$(grep -c . log)" 1
folder=$(echo run/nonfinite-update-*)
check "the folder is named" "$(grep -c "train replay $folder repeats it" log)" 1
check "its files" "$(cd "$folder" && echo *)" \
    "batch.safetensors config.ini network.ini nonfinite.json weights.safetensors"
check "no path of this machine" "$(grep -cF "$here" "$folder/config.ini" "$folder/nonfinite.json" | grep -vc ':0')" 0
check "no half-written folder" "$(find run -name '*.partial')" ""
layer=$(field "$folder/nonfinite.json" layer)
tensor=$(field "$folder/nonfinite.json" tensor)
case $(cat log) in *"layer '$layer'"*) check "the message's layer" yes yes ;; *) check "the message's layer" "$(cat log)" "$layer" ;; esac
check "the event" "$(grep -c "\"event\":\"nonfinite\".*\"layer\":\"$layer\".*\"folder\":\"${folder#run/}\"" run/metrics.jsonl)" 1
check "the end" "$(grep -c '"event":"end".*"exit_code":6' run/metrics.jsonl)" 1

# replays FOLDER OPTIONS...: repeats it; its line of the first tensor in $first
replays() {
    "$train" replay "$@" >out 2>&1
    check "replay $*: exit" $? 0
    check "replay $*: one first tensor" "$(grep -c '^>' out)" 1
    first=$(grep '^>' out)
}
replays "$folder"
check "the same tensor" "$(grep -c 'the run    named the same tensor' out)" 1
check "the resolution of its epoch" "$(grep -c ' 1 forward  input            resize  *output  *576 ' out)" 1
case $first in *" $layer "*"$tensor"*) check "its line" yes yes ;; *) check "its line" "$first" "$layer, $tensor" ;; esac
mkdir -p elsewhere
mv "$folder" elsewhere/moved
mv run gone
mv net.ini gone/
replays elsewhere/moved
check "moved: the same tensor" "$(grep -c 'the run    named the same tensor' out)" 1
replays elsewhere/moved --set device.type=ref
if [ -r "$bin/emulated/lockstep_cuda.so" ]; then
    LOCKSTEP_CUDA_PLUGIN=$bin/emulated/lockstep_cuda.so replays elsewhere/moved --set device.type=cuda
fi
mv gone/net.ini .

# A folder of the time when a sample had 4 bytes, written by that program: the pictures are cropped, mirrored as they were then.
replays "$tests/nonfinite_4_bytes" --set device.type=cpu
check "4 bytes a sample: augmented as then" \
    "$(grep -c ' 0 forward  input            augment  *output  *288  *-2  *0.1176  *-1.002  *0$' out)" 1
check "4 bytes a sample: the same tensor" "$(grep -c 'the run    named the same tensor' out)" 1
refused "draws of another configuration" 2 "was augmented with dx = 4; its config.ini has up to 2" \
    "$train" replay "$tests/nonfinite_4_bytes" --set data.pad=1

# An overflow of fp16 is none in fp32.
# shellcheck disable=SC2086
"$train" tiny.ini --quiet --run-dir half --set device.type=ref --set train.precision=fp16 --set loss_scale.initial=16777216 \
    --set loss_scale.minimum=16777216 --set loss_scale.maximum=16777216 --set loss_scale.max_skips=3 >log 2>&1
check "fp16: exit" $? 6
check "fp16: told" "$(grep -c 'updates in a row overflowed in fp16.*at loss scale 1.67772e+07' log)" 1
half=$(echo half/nonfinite-update-*)
replays "$half"
check "fp16: cause" "$(grep -c 'cause      fp16 overflow' out)" 1
"$train" replay "$half" --set train.precision=fp32 >out 2>&1
check "fp16, in fp32: all finite" "$(grep -c '^all finite' out)" 1

refused "no folder" 2 "nowhere: is not there" "$train" replay nowhere
refused "a run's folder" 7 "nonfinite.json" "$train" replay gone
refused "two ranks" 2 "start it on one rank" ranks 2 60 "$train" replay elsewhere/moved
refused "fp16 on cpu" 2 "fp16" "$train" replay "$half" --set device.type=cpu
refused "a larger shift" 2 "data.pad" "$train" replay elsewhere/moved --set data.pad=oops
for file in batch.safetensors weights.safetensors network.ini nonfinite.json; do
    cp -r elsewhere/moved broken
    head -c 100 "elsewhere/moved/$file" >"broken/$file"
    "$train" replay broken >out 2>&1
    rc=$?
    [ $rc = 2 ] && [ "$file" = network.ini ] && rc=7 # a network file is the user's, too
    check "cut $file: exit" $rc 7
    check "cut $file: one error line" "$(grep -c 'error:' out)" 1
    check "cut $file: is named" "$(grep -c "broken/$file" out)" 1
    rm -r broken
done
finish
