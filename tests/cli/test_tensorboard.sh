# log.tensorboard: event files that have metrics.jsonl's values, of a whole run, one that was resumed, one with values that are not
# finite, and one whose disk is full for a while. Checked by plain Python (check_tensorboard.py); by TensorBoard itself:
# tests/real_readers/test_tensorboard.sh.
checker=$PWD/tests/cli/check_tensorboard.py
. "$(dirname "$0")/common.sh" "$1" || exit 1
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

options="--quiet --set log.tensorboard=true --set log.every=1"
# shellcheck disable=SC2086 # several words
run() { "$train" tiny.ini $options "$@" 2>&1 || echo "exit $?"; }
good() { check "$1" "$(python3 "$checker" "$2" "$3" 2>&1 | tail -n 1)" ""; }

check "off by default" "$("$train" tiny.ini --quiet --run-dir off 2>&1; [ -e off/tensorboard ] && echo there)" ""
check "a run" "$(run --run-dir one)" ""
good "a run: its file" one 1
check "a name as TensorBoard wants it" "$(find one/tensorboard -type f -printf '%f\n' | grep -cE '^events\.out\.tfevents\.[0-9]{10}\.[A-Za-z0-9._-]+\.[0-9]+$')" 1
check "validation, test-time augmentation, two ranks" \
    "$(ranks 2 60 "$train" tiny.ini $options --run-dir val --set data.validation_fraction=0.2 --set eval.tta=flip 2>&1)" ""
good "validation: its file" val 1
check "validation: tags" "$(grep -aoE '(val|test|tta)/(loss|accuracy)' val/tensorboard/* | sort -u | tr '\n' ' ')" \
    "test/accuracy test/loss tta/accuracy tta/loss val/accuracy val/loss "

# Goes on from update 8, so that 9 to 12 are done twice; the clock of the first part was ahead.
check "a part" "$(run --run-dir parts --set train.max_updates=12 --set checkpoint.every_updates=8)" ""
rm -r parts/checkpoints/update-000000000012
mv parts/tensorboard/* parts/tensorboard/events.out.tfevents.2999999999.ahead.1
check "another part" "$(run --run-dir parts --resume 2>&1 | grep -c 'goes on from update 8')" 1
good "two parts: their files" parts 2
check "two parts: a later name" "$(ls parts/tensorboard | cut -d . -f 4 | tr '\n' ' ')" "2999999999 3000000000 "

# Gradients that overflow: null in metrics.jsonl, not finite here.
check "values that are not finite" "$(run --run-dir lost --set device.type=ref --set train.precision=fp16 --set loss_scale.initial=16777216)" ""
check "values that are not finite: some" "$([ "$(grep -c '"grad_norm":null' lost/metrics.jsonl)" -gt 1 ] && echo some)" some
good "values that are not finite: its file" lost 1

# What is damaged is seen.
cp -r one bad
printf 'x' | dd of="$(ls bad/tensorboard/*)" bs=1 seek=300 conv=notrunc 2>/dev/null
check "the check sees a byte that differs" "$(python3 "$checker" bad 1 2>&1 | tail -n 1 | grep -c checksum)" 1
cp -r one wrong
sed -i 's/"grad_norm":[0-9]/"grad_norm":7/' wrong/metrics.jsonl
check "the check sees a value that differs" "$(python3 "$checker" wrong 1 2>&1 | tail -n 1 | grep -c train/grad_norm)" 1

# A folder that cannot be made ends the run with a message, and metrics.jsonl says so.
refused "no folder" 7 "nofolder/tensorboard: cannot create the folder: mkdir: " bash -c "mkdir -p nofolder && cp -r one/run.json nofolder && cp -r one/checkpoints one/metrics.jsonl nofolder &&
    : >nofolder/tensorboard && '$train' tiny.ini $options --run-dir nofolder --resume --set train.epochs=3"
check "no folder: told in metrics.jsonl" "$(tail -n 1 nofolder/metrics.jsonl | grep -c '"event":"end".*"status":"failed","exit_code":7')" 1
finish
