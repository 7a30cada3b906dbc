# A run with validation: which set each figure is of, where the test set is touched, early stopping, going on from before and after
# it, ranks, train eval, and what is refused. Argument: the folder of the built programs.
set -u
# shellcheck source=tests/cli/common.sh
. tests/cli/common.sh || exit 1

validate="--set device.type=cpu --set run.deterministic=true --set data.validation_fraction=0.2 --set data.drop_last=true --set train.micro_batch=8 --set optimizer.lr=0.3"
evals() { grep '"event":"eval"' "$1/metrics.jsonl"; }

# shellcheck disable=SC2086 # several words
{
"$train" tiny.ini --run-dir whole $validate --set train.epochs=8 >whole.log 2>&1
check "run: exit" $? 0
check "the start says how many" "$(grep -c 'data      synthetic, 193 to train on, 47 to validate with, 100 to test on' whole.log)" 1
check "every evaluation is of validation" "$(evals whole | grep -c '"val_accuracy":.*"val_samples":47')" 8
check "the test set is touched once" "$(evals whole | grep -c test_accuracy)" 1
check "at the end" "$(evals whole | tail -n 1 | grep -c '"update":48.*"val_loss".*"test_accuracy"')" 1
check "a line of validation" "$(grep -c 'epoch 2/8  validation accuracy .* (47 samples in' whole.log)" 1
check "the last line has both" "$(grep -c 'epoch 8/8  validation accuracy .*; test accuracy .* (147 samples in' whole.log)" 1
check "the end is of the test" "$(grep -c 'completed: test accuracy .* of 100' whole.log)" 1
check "summary" "$(field whole val_samples) $(field whole test_samples)" "47 100"
best=$(evals whole | sed 's/.*"update":\([0-9]*\),.*"val_accuracy":\([0-9.e-]*\),.*/\2 \1/' | sort -g -k1,1 -k2,2 | tail -n 1)
check "the best checkpoint is of validation" "$(sed -n '/"best_checkpoint"/,/}/p' whole/summary.json | grep -c '"update":[[:space:]]*'"${best#* },\$")" 1
check "and says so" "$(grep -c "best .*update-0*${best#* }, validation accuracy" whole.log)" 1
for n in 2 4; do
  ranks $n 60 "$train" tiny.ini --quiet --run-dir whole-$n $validate --set train.epochs=8
  check "$n ranks: weights" "$(field whole-$n weights_hash)" "$(field whole weights_hash)"
  check "$n ranks: validation" "$(field whole-$n val_accuracy)" "$(field whole val_accuracy)"
done

# Early stopping: with a rate of 0 nothing improves after the first evaluation.
still="$validate --set optimizer.lr=0 --set train.epochs=9 --set train.patience=3"
"$train" tiny.ini --run-dir early $still >early.log 2>&1
check "early stop: exit" $? 0
check "early stop: updates" "$(field early updates)" 24
check "early stop: completed" "$(grep -c '"status":[[:space:]]*"completed"' early/summary.json)" 1
check "early stop: is said" "$(grep -c 'stopped   early: no validation accuracy above .* % (of update 6) in 3 evaluations' early.log)" 1
check "early stop: is in the summary" "$(sed -n '/"stopped_early"/,/}/p' early/summary.json | grep -c '"without_improvement":[[:space:]]*3\|"best_update":[[:space:]]*6')" 2
check "early stop: counted" "$(evals early | sed 's/.*"without_improvement":\([0-9]*\).*/\1/' | tr '\n' ' ')" "0 1 2 3 "
check "early stop: tested once" "$(evals early | grep -c test_accuracy)" 1
ranks 2 60 "$train" tiny.ini --quiet --run-dir early-2 $still
check "early stop on two ranks" "$(field early-2 updates)" 24
# It is the end; more patience goes on, to the end of a run that had it from the start.
"$train" tiny.ini --run-dir early $still --resume >again.log 2>&1
check "again: exit" $? 0
check "again: complete" "$(grep -c 'is complete: 24 updates are done, of 24 (a larger train.patience would go on, another --run-dir begins anew)' again.log)" 1
"$train" tiny.ini --quiet --run-dir early $still --resume --set train.patience=5 >/dev/null 2>&1
"$train" tiny.ini --quiet --run-dir longer $still --set train.patience=5
check "more patience" "$(field early updates) $(field early test_loss)" "36 $(field longer test_loss)"
# Killed before it: the evaluations that had been counted still are.
"$train" tiny.ini --quiet --run-dir cut $still --set checkpoint.every_updates=5 --set checkpoint.keep_last=99
rm -r cut/summary.json cut/weights.safetensors cut/checkpoints/update-*2[0-9] cut/checkpoints/update-*18
"$train" tiny.ini --quiet --run-dir cut $still --resume >/dev/null 2>&1
check "cut and resumed: stops where it would have" "$(field cut updates)" 24

"$train" eval tiny.ini whole/weights.safetensors $validate >out 2>&1
check "eval is of the test set" "$(head -n 4 out | cut -d ' ' -f 1 | tr '\n' ' ')" "test_accuracy test_loss test_samples test_calibration_error "
"$train" eval tiny.ini whole/weights.safetensors $validate --set eval.split=validation >out 2>&1
check "eval of validation" "$(head -n 4 out | cut -d ' ' -f 1 | tr '\n' ' ')" "val_accuracy val_loss val_samples val_calibration_error "
check "eval of validation: the run's" "$(awk '$1 == "val_accuracy" { print $2 }' out)" "$(printf '%.6f' "$(field whole val_accuracy)")"

refused "patience without validation" 2 "train.patience=2: it goes by validation, for which nothing is held out" \
    "$train" tiny.ini --run-dir none --set device.type=cpu --set train.patience=2
check "nothing was made" "$([ -e none ] && echo there)" ""
refused "eval without validation" 2 "nothing is held out for validation" \
    "$train" eval tiny.ini whole/weights.safetensors --set device.type=cpu --set eval.split=validation
refused "another share" 2 "was made with data.validation_fraction = 0.2, but now it is 0.1" \
    "$train" tiny.ini --run-dir whole $validate --set train.epochs=9 --resume --set data.validation_fraction=0.1
}
finish
