# scripts/import_runs.py: what Weights & Biases and MLflow have of a run, offline, read by the packages themselves. PYTHON (default:
# python3) has wandb or mlflow; what is missing is skipped.
script=$PWD/scripts/import_runs.py reader=$PWD/tests/real_readers/read_imports.py
. tests/cli/common.sh "$1" || exit 1
python=${PYTHON:-python3}
"$python" -c 'import json' 2>/dev/null || { echo "skipped: no $python"; exit 77; }
missing=
for package in wandb mlflow; do
    "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$package') is None)" || missing="$missing $package"
done

# Without a package there is no import, but a message.
"$python" -S "$script" wandb nothing >log 2>&1
check "no package: exit" $? 2
check "no package: message" "$(grep -c '^import_runs.py: wandb cannot be used (.*): pip install wandb$' log)" 1

"$train" tiny.ini --quiet --run-dir parts --set log.every=1 --set train.max_updates=12 --set checkpoint.every_updates=8 || exit 1
rm -r parts/checkpoints/update-000000000012
"$train" tiny.ini --quiet --run-dir parts --set log.every=1 --set data.validation_fraction=0 --resume 2>/dev/null || exit 1
"$train" tiny.ini --quiet --run-dir null --set log.every=1 --set device.type=ref --set train.precision=fp16 --set loss_scale.initial=16777216 || exit 1
cp -r null bad
sed -i -e '4s/.*/{"event":[[[/' bad/metrics.jsonl
printf '{"event":"train","upd' >>bad/metrics.jsonl
export WANDB_MODE=offline WANDB_DIR=$here HOME=$here MLFLOW_ENABLE_TELEMETRY=false DO_NOT_TRACK=true
for package in wandb mlflow; do
    case $missing in *$package*) continue ;; esac
    to=$here/$package
    mkdir -p "$to"
    [ $package = wandb ] || to=sqlite:///$here/mlflow/runs.db
    "$python" "$script" $package parts null --to "$to" --project tests >log 2>&1
    check "$package: exit" $? 0
    check "$package: lines" "$(grep -cE '^(parts|null): [0-9]+ events$' log)" 2
    "$python" "$reader" $package "$to" parts null >read.log 2>&1
    check "$package: read back" "$? $(tail -n 1 read.log)" "0 equal"
    "$python" "$script" $package bad nowhere --to "$to" --project damaged >log 2>&1
    check "$package: damaged: exit" $? 7
    check "$package: damaged: told" "$(grep -c '^import_runs.py: bad/metrics.jsonl: damaged lines, left out: 4$' log) $(grep -c 'has no end and is left out$' log) $(
        grep -c '^import_runs.py: nowhere: is no run' log) $(grep -c '^bad: ' log)" "1 1 1 1"
done
[ $failures = 0 ] && [ "$missing" = " wandb mlflow" ] && { echo "skipped: $python has neither wandb nor mlflow"; exit 77; }
[ -z "$missing" ] || echo "skipped in part: $python has no$missing"
finish
