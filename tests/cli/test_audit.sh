#!/usr/bin/env bash
# train audit: runs of many kinds have the bits of their record at other numbers of ranks; every alteration of a run is found and
# named; what cannot be computed is said; nothing in the run's folder changes. Argument: the folder of the built programs.
set -u
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1
cp "$OLDPWD"/tests/support/small_run/*.ini .
export XDG_CACHE_HOME=$here/cache TMPDIR=$here/t
mkdir t

saves="--set checkpoint.every_updates=3 --set checkpoint.keep_last=99 --set log.every=1"
ordered="--set run.deterministic=true"
cpu="--set device.type=cpu"

# on RANKS COMMAND...
on() {
    local n=$1
    shift
    if [ "$n" = 1 ]; then "$@"; else ranks "$n" 60 "$@"; fi
}
# make NAME RANKS OPTION...: a run of run.ini
make() {
    local name=$1 n=$2
    shift 2
    # shellcheck disable=SC2086 # several words
    on "$n" "$train" run.ini --quiet --run-dir "$name" $saves "$@" >"$name.log" 2>&1 || {
        cat "$name.log"
        check "$name: exit" 1 0
    }
}
# equal NAME RANKS STRETCHES: all of its stretches, computed on RANKS, have the same bits
equal() {
    on "$2" "$train" audit "$1" --all --quiet >"$1.audit" 2>&1
    check "$1 on $2 ranks: exit" $? 0
    check "$1 on $2 ranks: stretches" "$(grep -c '^updates [0-9]* to [0-9]*: same bits$' "$1.audit")" "$3"
    check "$1 on $2 ranks: nothing else" "$(grep -vc '^updates .*: same bits$' "$1.audit")" 1
}

# --- the same bits -----------------------------------------------------------------------------------
# shellcheck disable=SC2086 # several words
{
    # a checkpoint after updates 3, 5 (an epoch), 6, 9 and 10
    make base 1 $cpu $ordered --set average.kind=ema --set average.decay=0.9
    sums=$(find base -type f -exec md5sum {} + | sort | md5sum)
    equal base 3 5
    check "the run is only read" "$(find base -type f -exec md5sum {} + | sort | md5sum)" "$sums"
    check "no temporary folder" "$(ls t)" ""
    make ref 2 --set device.type=ref $ordered --set optimizer.kind=adamw --set optimizer.lr=0.01
    equal ref 1 5
    make mixed 3 $cpu $ordered --set data.mixup=0.4 --set data.cutmix=1 --set data.cutout=3 --set data.crop_scale=0.5
    equal mixed 2 5
    make resolution 2 $cpu $ordered --set train.resolution=0:6x5,1:8 --set eval.tta=flip-shift
    equal resolution 3 5
    make bf16 1 $cpu $ordered --set train.precision=bf16
    equal bf16 2 5
    make fp16 2 --set device.type=ref $ordered --set train.precision=fp16 --set loss_scale.growth_interval=3
    equal fp16 1 5
    make frozen 1 $cpu $ordered --set optimizer.kind=muon --set "optimizer.groups=c1.* frozen; n?.bias end=1.3; l.* kind=adamw lr=0.1 frozen_after=1.6"
    equal frozen 3 5
    make held 2 $cpu $ordered --set data.validation_fraction=0.2 --set average.kind=lookahead --set average.every=3 --set train.class_weights=balanced
    equal held 1 4
    make patient 1 $cpu $ordered --set data.validation_fraction=0.2 --set train.patience=1 --set train.epochs=9 --set optimizer.lr=0.5
    check "patience ended it" "$(grep -c '"stopped_early"' patient/summary.json)" 1
    equal patient 2 "$(find patient/checkpoints -mindepth 1 | grep -c 'update-[0-9]*$')"
    # three parts: other ranks, another rate, another length; checkpoints of the changes are gone
    make parts 3 $cpu $ordered --set train.max_updates=4
    make parts 2 $cpu $ordered --set train.max_updates=8 --set optimizer.lr=0.05 --set log.every=2 --resume
    make parts 1 $cpu $ordered --set optimizer.weight_decay=0.01 --resume
    rm -r parts/checkpoints/*00[48]
    equal parts 2 5
    # killed after update 8, of which the checkpoint is 6
    cp -r base killed
    rm -r killed/summary.json killed/evaluation.json killed/weights.safetensors killed/checkpoints/*009 killed/checkpoints/*010
    awk -F '"update":' '$2 + 0 <= 8' base/metrics.jsonl >killed/metrics.jsonl
    printf '{"event": "train", "upd' >>killed/metrics.jsonl
    equal killed 2 4
    make final 1 $cpu $ordered --set checkpoint.every_updates=0 --set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0
    on 2 "$train" audit final --quiet >final.audit 2>&1
    check "without a checkpoint: exit" $? 0
    check "without a checkpoint: said" "$(grep -c '^the run kept no checkpoint: it is one stretch, from its start to weights.safetensors$' final.audit)" 1
    check "without a checkpoint: the whole run" "$(grep -c '^updates 0 to 10: same bits$' final.audit)" 1
    make init 2 $cpu $ordered --set model.init=base/weights.safetensors
    equal init 1 5
    # fast mode
    make fast 2 $cpu
    equal fast 2 5
    check "in a pipe the error comes last" "$("$train" audit fast --quiet 2>&1 | sed -n '1s/:.*//p;$s/:.*//p')" "fast
error"
    refused "fast mode on other ranks" 2 "in fast mode the bits depend on the number of ranks, which was 2" "$train" audit fast --quiet
    make synced 3 $cpu --set train.sync_batchnorm=true
    equal synced 3 5
    # pictures
    for class in a b; do
        for i in 0 1 2 3 4 5; do
            mkdir -p pictures/train/$class pictures/test/$class
            printf 'P6\n8 8\n255\n%0192d' "$i$i" >pictures/train/$class/$i.ppm
            printf 'P6\n8 8\n255\n%0192d' "$i" >pictures/test/$class/$i.ppm
        done
    done
    sed 's/^out_features = 10/out_features = classes/' net.ini >classes.ini
    folder="--set data.dataset=folder --set data.path=pictures --set data.image_size=8x8 --set data.train_samples=0 --set data.test_samples=0
        --set model.file=classes.ini --set train.global_batch=4 --set train.micro_batch=1"
    make pictures-run 1 $cpu $ordered $folder
    equal pictures-run 2 2
    make pictures-final 1 $cpu $ordered $folder --set checkpoint.every_updates=0 --set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0
}

# --- choosing ----------------------------------------------------------------------------------------
"$train" audit base --quiet --from 4 --to 7 >out 2>&1
check "a range" "$(tr '\n' ';' <out)" "base: 3 of 5 stretches, 4 of 10 updates;updates 3 to 5: same bits;updates 5 to 6: same bits;updates 6 to 7: same bits;"
refused "an empty range" 2 "--from 10 --to 10: the run has the updates 0 to 10, and FROM is below TO" "$train" audit base --from 10
for i in 1 2 3; do
    "$train" audit base --quiet --segments 2 >out 2>&1
    check "at random: exit" $? 0
    check "at random: two stretches after the first checkpoint" "$(grep -c '^updates [3569] to' out)" 2
done
check "another device in ordered mode: exit" "$("$train" audit base --quiet --set device.type=ref >out 2>&1; echo $?)" 6
check "another device in ordered mode: other bits" "$(grep -c "tensor '.*': \[[0-9]*\] is .*, computed " out)" \
    "$(grep -c "    checkpoints/update-.* tensor " out)"
"$train" audit base --quiet --inspect 6 >out 2>&1
check "inspect: exit" $? 0
check "inspect: its head" "$(head -n 1 out)" "update 6 (epoch 1), micro-batch 11 of 12 (rank 0 of 1), 4 samples, loss scale 1"
check "inspect: tensors" "$(grep -c '^    *[0-9][0-9]* \(forward\|backward\) ' out)" "$(grep -c 'ward  *[a-z]' out)"
refused "two choices" 2 "choose one of --segments, --from and --to, --all, --inspect" "$train" audit base --all --segments 2
refused "no number" 2 "--segments x: expected an integer" "$train" audit base --segments x
refused "beyond the end" 2 "the run has the updates 0 to 10" "$train" audit base --from 3 --to 11
refused "an inspected update beyond the end" 2 "the run has done 10 updates, numbered from 0" "$train" audit base --inspect 10
refused "nothing that is not finite" 2 "every value of the run was finite" "$train" audit base --inspect nonfinite
refused "too many ranks" 2 "train.global_batch" ranks 5 60 "$train" audit base
refused "an option of the run" 2 "train audit takes the run's own options" "$train" audit base --set optimizer.lr=1
refused "a checkpoint" 2 "is no run's folder" "$train" audit base/checkpoints/update-000000000003
refused "an empty folder" 7 "holds no run" "$train" audit t

# --- what is not finite ------------------------------------------------------------------------------
# shellcheck disable=SC2086 # several words
on 2 "$train" run.ini --quiet --run-dir bad $saves $cpu $ordered --set optimizer.lr=1000 --set optimizer.momentum=0.99 \
    --set optimizer.weight_decay=1 --set train.clip_norm=0 --set train.epochs=30 >log 2>&1
check "not finite: exit" $? 6
check "not finite: what to do" "$(grep -c 'train audit bad --inspect nonfinite shows its tensors' log)" 1
on 1 "$train" audit bad --quiet --all >out 2>&1
check "not finite: ends as the run did: exit" $? 0
check "not finite: ends as the run did" "$(grep -c '^updates 0 to 2: same bits$' out)" 1
on 3 "$train" audit bad --quiet --inspect nonfinite >out 2>&1
check "not finite: inspected: exit" $? 0
check "not finite: marked" "$(grep -c '^> ' out)" 1
check "not finite: cause" "$(grep -c '^cause      ' out)" 1

# --- alterations -------------------------------------------------------------------------------------
cat >alter.py <<'END'
import json, struct, sys
what, path, *rest = sys.argv[1:]
data = bytearray(open(path, "rb").read())
if what == "tensor":  # NAME ELEMENT: one bit of it
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])[rest[0]]
    data[8 + length + entry["data_offsets"][0] + 4 * int(rest[1])] ^= 1
elif what == "byte":  # OFFSET; counted from the end if it is negative
    data[int(rest[0])] ^= 4
elif what == "cut":
    data = data[:int(rest[0])]
else:  # lines: KIND UPDATE, then FIELD VALUE, or nothing to remove the line
    lines = data.decode().splitlines()
    at = next(i for i, l in enumerate(lines) if l.startswith('{"event":"%s","update":%s,' % (rest[0], rest[1])))
    if what == "remove":
        del lines[at]
    elif what == "break":
        lines[at] = lines[at].replace(":", ";", 3)
    else:
        event = json.loads(lines[at])
        event[rest[2]] = type(event[rest[2]])(rest[3])
        lines[at] = json.dumps(event, separators=(",", ":"))
    data = "\n".join(lines + [""]).encode()
open(path, "wb").write(data)
END
alter() { python3 alter.py "$@" || check "alter $*" failed altered; }
# found RC TEXT: the audit of the altered run ends with RC and names it; then the run is as before
found() {
    local output rc
    output=$("$train" audit altered --quiet --all 2>&1)
    rc=$?
    check "$2: exit" "$rc" "$1"
    case $output in *"$2"*) check "$2" named named ;; *) check "$2" "$output" "...$2..." ;; esac
    rm -rf altered
    cp -r "${3:-base}" altered
}
at() { printf 'altered/checkpoints/update-%012d' "$1"; }
cp -r base altered
alter tensor "$(at 3)/weights.safetensors" c1.weight 17
found 6 "checkpoints/update-000000000003: tensor 'c1.weight' was changed after it was written: [17] is "
alter tensor "$(at 6)/state.safetensors" n1.weight.momentum 5
found 6 "checkpoints/update-000000000006: tensor 'n1.weight.momentum' was changed after it was written: [5] is "
alter tensor "$(at 10)/weights.safetensors" l.bias 9
found 6 "checkpoints/update-000000000010: tensor 'l.bias' was changed after it was written: [9] is "
alter tensor "$(at 5)/state.safetensors" c2.weight.unaveraged 100
found 6 "tensor 'c2.weight.unaveraged' was changed after it was written: [100] is "
alter byte "$(at 6)/manifest.json" 700
found 6 "update-000000000006/manifest.json: damaged"
alter byte "$(at 9)/weights.safetensors" 12
found 6 "update-000000000009/weights.safetensors"
alter cut "$(at 9)/state.safetensors" 1000
found 6 "update-000000000009/state.safetensors"
alter tensor altered/weights.safetensors l.weight 3
found 6 "weights.safetensors: tensor 'l.weight': [3] is "
rm altered/weights.safetensors
found 6 "altered/weights.safetensors: "
# the end event, too, says that the run was complete, and after which update
alter tensor altered/weights.safetensors l.weight 3
rm altered/summary.json
found 6 "weights.safetensors: tensor 'l.weight': [3] is "
rm altered/summary.json
found 6 "altered/summary.json: "
echo '{}' >altered/summary.json
found 6 "summary.json: status is none, computed completed"
sed -i 's/"updates":.*,/"updates":6,/' altered/summary.json
found 6 "summary.json: updates is 6, computed 10"
sed -i 's/"updates":.*,/"updates":60,/' altered/summary.json
found 6 "summary.json: updates is 60, computed 10"
sed -i 's/"updates":.*,/"updates":6,/' altered/summary.json
sed -i '/"event":"end"/d' altered/metrics.jsonl
found 6 "the record says that the run was complete here, but its options let it go on"
rm altered/summary.json
sed -i '/"event":"end"/d' altered/metrics.jsonl
found 0 "the run is not complete: its weights.safetensors is not compared"
alter set altered/metrics.jsonl train 4 train_loss 1.5
found 6 "metrics.jsonl, line $(grep -n '"event":"train","update":4,' base/metrics.jsonl | cut -d : -f 1) (train, update 4): train_loss is 1.5, computed "
alter set altered/metrics.jsonl train 10 grad_norm 0.25
found 6 "(train, update 10): grad_norm is 0.25, computed "
alter set altered/metrics.jsonl train 7 samples_seen 1
found 6 "(train, update 7): samples_seen is 1, computed "
alter set altered/metrics.jsonl eval 5 test_accuracy 0.99
found 6 "(eval, update 5): test_accuracy is 0.99, computed "
alter set altered/metrics.jsonl checkpoint 6 weights_hash 0123456789abcdef
found 6 "(checkpoint, update 6): weights_hash is 0123456789abcdef, computed "
alter set altered/metrics.jsonl train 8 update 80
found 6 "metrics.jsonl: the train event of update 8 is missing"
alter remove altered/metrics.jsonl train 2
found 6 "metrics.jsonl: the train event of update 2 is missing"
alter break altered/metrics.jsonl train 3
found 6 "metrics.jsonl, line $(grep -n '"event":"train","update":3,' base/metrics.jsonl | cut -d : -f 1): is not an event"
alter set altered/metrics.jsonl start 0 seed 7
found 6 "(start, update 0): seed is 7, computed 1"
alter set altered/metrics.jsonl start 0 world_size 4
found 6 "(start, update 0): world_size is 4, in the checkpoint's manifest 1"
alter set altered/metrics.jsonl start 0 version 0.0.1
found 6 "(start, update 0): version is 0.0.1, in the checkpoint's manifest "
alter set altered/metrics.jsonl start 0 train_data 0123456789abcdef
found 6 "(start, update 0): train_data is 0123456789abcdef, computed "
sed -i 's/^lr = 0.1$/lr = 0.2/' altered/config.ini
found 6 "config.ini: optimizer.lr is 0.2, but the newest checkpoint was made with 0.1"
sed -i 's/^kind = ema$/kind = off/' altered/config.ini
found 6 "config.ini: average.kind is off, but the newest checkpoint was made with ema"
sed -i 's/^p = 0.2/p = 0.3/' altered/network.ini
found 6 "altered/network.ini: is not the network of the run"
sed -i 's/"test_accuracy":.*,/"test_accuracy":0.99,/' altered/summary.json
found 6 "summary.json: test_accuracy is 0.99, computed "
sed -i 's/"calibration_error":.*,/"calibration_error":0.99,/' altered/evaluation.json
found 6 "evaluation.json: calibration_error is 0.99, computed " final
# without a checkpoint there is less to go by
sed -i 's/^lr = 0.1$/lr = 0.2/' altered/config.ini
found 6 "(start, update 0): base_learning_rate is 0.1, computed 0.2" final
alter set altered/metrics.jsonl start 0 version 0.0.1
found 0 "warning: another version of the program computed the run: 0.0.1, this is " parts
sed -i '1,/"event":"end"/d' altered/metrics.jsonl
found 6 "metrics.jsonl: the start event of part 1 is missing" parts
alter set altered/metrics.jsonl start 4 resumed_at_update 3
found 6 "resumed_at_update is 3, in the checkpoint's manifest 4" parts
sed -i 's/^lr = 0.1$/lr = 0.3/' altered/config.ini # the part began with another change of it
found 6 "config.ini: optimizer.lr is 0.3, but the newest checkpoint was made with 0.1" init
# the weights that it began with
cp base/weights.safetensors first
alter tensor base/weights.safetensors l.weight 3
found 6 "model.init: $here/base/weights.safetensors has the hash " init
mv base/weights.safetensors away
found 6 "model.init: " pictures-run
mv first base/weights.safetensors
# the data
sleep 0.05 # a file's time stamps are as coarse as the kernel's ticks
mv pictures/train/a/3.ppm kept
cp pictures/train/b/1.ppm pictures/train/a/3.ppm
found 3 "changed since the run began: $here/pictures/train/a/3.ppm" pictures-final
found 3 "train_data: the run began with "
mv kept pictures/train/a/3.ppm
# a signal ends it: nothing stays
# shellcheck disable=SC2086 # several words
"$train" run.ini --quiet --run-dir long $cpu --set train.max_updates=0 --set train.epochs=100000 --set run.max_minutes=0.05 >/dev/null 2>&1
check "long: exit" $? 75
for signal in INT TERM; do
    (
        trap - INT # a shell's command in the background ignores it
        exec "$train" audit long --all >/dev/null 2>&1
    ) &
    until ls t/lockstep-audit-*/metrics.jsonl >/dev/null 2>&1; do kill -0 $! || break; done
    kill -$signal $!
    wait $! 2>/dev/null
    check "SIG$signal: exit" $? $((128 + $(kill -l $signal)))
    check "SIG$signal: what stays" "$(ls t)" ""
done
finish
