# A run from configuration to summary, alone and on two ranks: the files of the run folder and what they say; evaluation of its
# weights; repetition from its own configuration; what prints only.
. "$(dirname "$0")/common.sh" "$1" || exit 1

summary_fields="status device precision world_size threads_per_rank dataset model parameters seed epochs updates samples_seen
global_batch micro_batch accumulation_steps train_loss test_accuracy test_samples train_images_per_second wall_seconds startup_seconds
time_to_first_update_seconds peak_memory_bytes comm_seconds_exposed loader_wait_seconds weights_hash"

# run WHAT FOLDER RANKS ARGS...
run() {
    local what=$1 folder=$2 n=$3 text rc name
    shift 3
    if [ "$n" = 1 ]; then text=$("$train" "$@" --run-dir "$folder" 2>&1); else text=$(ranks "$n" 60 "$train" "$@" --run-dir "$folder" 2>&1); fi
    rc=$?
    check "$what: exit" $rc 0
    [ $rc = 0 ] || echo "$text"
    check "$what: files" "$(ls "$folder" | tr '\n' ' ')" "checkpoints config.ini evaluation.json metrics.jsonl network.ini run.json summary.json weights.safetensors "
    for name in $summary_fields; do
        grep -q "\"$name\":" "$folder/summary.json" || check "$what: summary.json has $name" no yes
    done
    check "$what: status" "$(field "$folder/summary.json" status)" completed
    check "$what: ranks" "$(field "$folder/summary.json" world_size)" "$n"
    check "$what: updates" "$(field "$folder/summary.json" updates)" 16
    check "$what: samples" "$(field "$folder/summary.json" samples_seen)" 480
    check "$what: test samples" "$(field "$folder/summary.json" test_samples)" 100
    check "$what: parameters" "$(field "$folder/summary.json" parameters)" 1252
    check "$what: first event" "$(head -n 1 "$folder/metrics.jsonl" | grep -c '"event":"start"')" 1
    check "$what: train events" "$(grep -c '"event":"train"' "$folder/metrics.jsonl")" 4
    check "$what: eval events" \
        "$(grep -cE '"event":"eval".*"test_loss":[0-9.e-]+,"test_accuracy":[0-9.e-]+,"test_samples":100,"seconds":[0-9]' "$folder/metrics.jsonl")" 2
    for name in "$folder"/checkpoints/*; do
        check "$what: bytes of ${name##*/}" \
            "$(sed -nE "s/.*\"event\":\"checkpoint\".*\"name\":\"${name##*/}\",\"bytes\":([0-9]+),.*/\1/p" "$folder/metrics.jsonl")" \
            "$(cat "$name"/* | wc -c)"
    done
    check "$what: last event" "$(tail -n 1 "$folder/metrics.jsonl" | grep -c '"event":"end".*"status":"completed"')" 1
    check "$what: events with update, epoch and time" "$(grep -c '"update":.*"epoch":.*"time":' "$folder/metrics.jsonl")" \
        "$(wc -l <"$folder/metrics.jsonl")"
}

run "alone" one 1 tiny.ini
# The phases of the start follow each other without gaps, up to the end of the first update.
check "phases of the start" "$(awk -F'[:,]' '/"startup_seconds"/ { on = 1; next } on && /}/ { on = 0 } on { sum += $2; names = names $1 }
    /time_to_first_update/ { all = $2 } END { gsub(/[" \t]+/, " ", names); print names (sum - all < 0.001 && all - sum < 0.001 ? "" : "sum " sum " of " all) }' one/summary.json)" \
    " process device data plans pictures sums memory folder weights first update "
run "two ranks" two 2 tiny.ini
run "ordered, alone" ordered1 1 tiny.ini --set run.deterministic=true
run "ordered, two ranks" ordered2 2 tiny.ini --set run.deterministic=true
check "ordered mode: same weights on 1 and 2 ranks" "$(field ordered2/summary.json weights_hash)" "$(field ordered1/summary.json weights_hash)"
# Losses over all ranks' samples: sums of fp32 values, in another order.
losses() { grep -ohE '"train_loss":[[:space:]]*[^,]+' "$1/metrics.jsonl" "$1/summary.json" | sed 's/.*://'; }
check "ordered mode: same losses on 1 and 2 ranks" "$(paste <(losses ordered2) <(losses ordered1) |
    awk '{ d = $1 / $2 - 1; same += d > -1e-6 && d < 1e-6 } END { print same, "of", NR }')" "5 of 5"
run "from the run's own configuration" again 1 ordered1/config.ini
check "repeated: same weights" "$(field again/summary.json weights_hash)" "$(field ordered1/summary.json weights_hash)"
check "repeated: same weights file" "$(cmp again/weights.safetensors ordered1/weights.safetensors && echo same)" same

# When checkpoints are due: each reason alone, and the end of a run that has one. Of 9 updates, 8 of which are an epoch.
# saves OPTIONS...: the updates of its checkpoints, in $saved
saves() {
    "$train" tiny.ini --quiet --run-dir saves --set train.max_updates=9 --set checkpoint.keep_last=20 --set checkpoint.keep_best=0 \
        --set checkpoint.every_epochs=0 --set checkpoint.every_minutes=0 "$@"
    saved=$(find saves -name 'update-*' | sed 's/.*update-0*//' | sort -n | tr '\n' ' ')
    rm -r saves
}
saves
check "checkpoints at no time" "$saved" ""
saves --set checkpoint.every_updates=4
check "checkpoints by updates" "$saved" "4 8 9 "
saves --set checkpoint.every_epochs=1
check "checkpoints by epochs" "$saved" "8 9 "
saves --set checkpoint.every_minutes=1000
check "checkpoints by minutes, of which none is over" "$saved" "9 "
saves --set checkpoint.every_minutes=1e-9
check "checkpoints by minutes: when is not known beforehand" "$(grep -cE '^[1-8] (.* )?9 $' <<<"$saved")" 1

# Also where an update's batch, 32, could not be shared.
for n in 1 2 3; do
    accuracy=$(printf '%.6f' "$(field one/summary.json test_accuracy)")
    text=$(ranks $n 60 "$train" eval tiny.ini one/weights.safetensors 2>/dev/null)
    check "eval on $n rank(s): exit" $? 0
    check "eval on $n rank(s): accuracy" "$(sed -n 's/^test_accuracy //p' <<<"$text")" "$accuracy"
    check "eval on $n rank(s): samples" "$(sed -n 's/^test_samples //p' <<<"$text")" 100
    check "eval on $n rank(s): lines" "$(wc -l <<<"$text")" 10
done
# No updates: what is refused for their sake is none of evaluation's business (ones.ini's norm has no variance of one sample).
sed -e 's/kernel = 3/kernel = 12/' -e '/padding/d' -e '/pool1/,/^$/d' net.ini >ones.ini
options="--set data.train_samples=33 --set model.file=ones.ini"
# shellcheck disable=SC2086 # several words
"$train" tiny.ini --quiet --run-dir ones $options --set data.drop_last=true
check "a map of 1x1 without the last window: exit" $? 0
accuracy=$(printf '%.6f' "$(field ones/summary.json test_accuracy)")
for other in data.drop_last=false train.global_batch=1 "train.global_batch=5000 --set train.micro_batch=1 --set run.deterministic=true"; do
    # shellcheck disable=SC2086 # several words
    text=$("$train" eval tiny.ini ones/weights.safetensors $options --set $other 2>&1)
    check "eval with $other: exit" $? 0
    check "eval with $other: accuracy" "$(sed -n 's/^test_accuracy //p' <<<"$text")" "$accuracy"
done

# Standard descriptors that are closed at the start: no file takes their place, and no line lands in it.
for closed in "" "<&-" ">&-" "2>&-" "<&- >&-" "<&- 2>&-" ">&- 2>&-" "<&- >&- 2>&-"; do
    eval "'$train' tiny.ini --run-dir closed --set checkpoint.every_updates=4 --set log.every=1 </dev/null >/dev/null 2>&1 $closed"
    check "closed $closed: exit" $? 0
    check "closed $closed: metrics are JSON lines" "$(grep -vc '^{.*}$' closed/metrics.jsonl)" 0
    [ -z "$closed" ] || check "closed $closed: config.ini" "$(diff <(grep -v '^;' closed/config.ini) <(grep -v '^;' open/config.ini) && echo same)" same
    for file in network.ini weights.safetensors checkpoints/update-000000000016/weights.safetensors \
        checkpoints/update-000000000016/state.safetensors; do
        [ -n "$closed" ] || continue
        check "closed $closed: $file" "$(cmp closed/$file open/$file && echo same)" same
    done
    if [ -z "$closed" ]; then mv closed open; else rm -r closed; fi
done
check "closed: printing fails as it should" "$("$train" --version 2>&1 >&-)" "error: standard output: cannot be written: Bad file descriptor"

# Numbered folders: the configuration's name and the next free number.
"$train" tiny.ini --quiet --set train.max_updates=1 && "$train" tiny.ini --quiet --set train.max_updates=1
check "numbered run folders" "$(ls runs | tr '\n' ' ')" "tiny-001 tiny-002 "
text=$("$train" tiny.ini --quiet --set train.max_updates=1 --set run.name=named 2>&1)
check "run.name" "$? $(ls runs/named/summary.json)" "0 runs/named/summary.json"
check "--quiet says nothing" "$text" ""
"$train" runs/tiny-002/config.ini --quiet --resume >/dev/null 2>&1
check "--resume with a run's own configuration means that run" "$? $(ls runs | tr '\n' ' ')" "0 named tiny-001 tiny-002 "

text=$("$train" tiny.ini --set train.max_updates=1 --set optimizer.kind=adamw --set optimizer.momentum=0.9 --run-dir unused 2>&1)
check "an option without effect is told" "$(grep -c '^no effect optimizer.momentum (only with optimizer.kind = sgd' <<<"$text")" 1
text=$("$train" unused/config.ini --run-dir unused2 2>&1)
check "but not those of a run's own configuration" "$? $(grep -c '^no effect' <<<"$text")" "0 0"

# Told by a run and by its plan, not with --quiet; a run's own configuration is no exception.
late=(--set average.kind=ema --set average.start=50)
told() { grep -c '^warning: .*average.start.*: the average starts after [0-9]* updates, but the run has [0-9]* (train.epochs = [0-9]*): there is none$'; }
check "an option that the run never reaches is told" "$("$train" tiny.ini "${late[@]}" --run-dir late 2>&1 | told)" 1
check "in the run's own configuration" "$("$train" late/config.ini --run-dir late2 2>&1 | told)" 1
check "in the plan" "$("$train" tiny.ini "${late[@]}" --dry-run 2>&1 >/dev/null | told)" 1
check "--quiet hides it" "$("$train" tiny.ini "${late[@]}" --quiet --run-dir late3 2>&1)" ""
text=$("$train" tiny.ini --dry-run 2>&1 >/dev/null)
check "an ordinary run is told nothing" "$text" ""

# Decimal numbers that are whole numbers of updates or pictures, though not in binary: 8 updates an epoch, the last of which is short.
"$train" tiny.ini --quiet --run-dir decimal --set log.every=1 --set schedule.kind=cosine-restarts --set schedule.period=0.25 \
    --set train.epochs=2 --set eval.tta=flip --set eval.tta_share=0.29
check "restarts at every second update" "$(grep -oE '"learning_rate":[^,]*|"lr":[^,]*' decimal/metrics.jsonl | sed 's/.*://' | awk '{ printf "%.2g ", $1 / 0.05 }')" \
    "1 0.5 1 0.5 1 0.5 1 0.25 1 0.5 1 0.5 1 0.5 1 0.25 "
check "0.29 of 100 pictures" "$(field decimal/summary.json tta_samples)" 29

# What prints and creates nothing.
touch before
find . | sort >before
text=$("$train" tiny.ini --dry-run --run-dir none 2>/dev/null)
check "--dry-run: exit" $? 0
check "--dry-run: layers" "$(grep -cE '^ *(conv1|fc) ' <<<"$text" | awk '{ print ($1 >= 2) }')" 1
check "--dry-run: the groups hold all parameters" \
    "$("$train" tiny.ini --dry-run --set optimizer.weight_decay=0.01 2>/dev/null |
        sed -nE 's/^ *sgd *lr x .* ([0-9]+) parameters \(.*/\1/p' | awk '{ sum += $1 } END { print NR, sum }')" "2 1252"
ranks 2 60 "$train" tiny.ini --dry-run >plan 2>/dev/null
check "--dry-run on 2 ranks: exit" $? 0
check "--dry-run on 2 ranks: printed once" "$(grep -c '^memory of one rank' plan)" "$(grep -c '^memory of one rank' <<<"$text")"
rm -f plan
"$train" tiny.ini --print-config --set train.clip_norm=0.1 >effective.ini
check "--print-config: exit" $? 0
"$train" effective.ini --print-config >again.ini
check "--print-config reads back to itself" "$(cmp effective.ini again.ini && echo same)" same
check "--print-config: --set is in it" "$(grep -c '^clip_norm = 0.1$' effective.ini)" 1
check "--print-config on 2 ranks" "$(ranks 2 60 "$train" effective.ini --print-config | cmp - again.ini && echo same)" same
rm -f effective.ini again.ini
check "nothing was created" "$(find . | sort | diff before - && echo same)" same

for word in --help --list --version help; do
    check "$word on 2 ranks prints once" "$(ranks 2 60 "$train" $word | cmp - <("$train" $word) && echo same)" same
done

# A reader that goes ends what prints, quietly.
for words in --help --list "ckpt show one one one"; do
    # shellcheck disable=SC2086 # several words
    said=$( { "$train" $words | true; } 2>&1)
    check "$words, and nobody reads it" "$said" ""
done
check "a full device is told" "$("$train" --help 2>/dev/null >/dev/full; echo $?)" 7
finish
