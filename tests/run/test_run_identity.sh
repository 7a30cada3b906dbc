# A run is neither lost nor mislabelled: what is refused leaves every byte of its folder; checkpoints of another run are nobody's by
# accident; what has vanished is not begun anew; of two starts at once one is refused; what a run was made by is written down.
# Argument: the folder of the built programs.
set -u
# shellcheck source=tests/train/resume_runs.sh
. tests/train/resume_runs.sh "$1" || exit 1
cpu=(--set device.type=cpu --set device.threads=1)
content() { (cd "$1" && find . -exec stat -c '%n %F' {} + && find . -type f -exec cksum {} + && find . -type l -exec readlink {} +) | sort; }
id() { grep -oE '"run":[[:space:]]*"[0-9a-f]{32}"' "$1" | head -n 1 | grep -oE '[0-9a-f]{32}'; }
starts() { grep '"event":"start"' "$work/$1/metrics.jsonl"; }
# at NAME COPY: a fresh copy to spoil
at() { rm -rf "${work:?}/$2" && cp -r "$work/$1" "$work/$2"; }
# refused WHAT CODE TEXT NAME RANKS OPTIONS...: one line, and the folder as it was
refused() {
  local what=$1 code=$2 text=$3 name=$4 n=$5 launch=()
  shift 5
  [ "$n" = 1 ] || launch=(ranks "$n" 120)
  content "$work/$name" >"$work/before"
  "${launch[@]}" "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" "${cpu[@]}" "$@" >"$work/refused.log" 2>&1
  check "$what: exit" $? "$code"
  check "$what: one line" "$(grep . "$work/refused.log")" "$(grep -m 1 . "$work/refused.log")"
  check "$what: says" "$(grep -cE "^error: .*$text" "$work/refused.log")" 1
  check "$what: the folder is as it was" "$(content "$work/$name" | cmp - "$work/before" && echo same)" same
}

train whole 1 "${cpu[@]}"
cut cut whole 7
check "an identity everywhere" "$(for file in run.json metrics.jsonl summary.json config.ini checkpoints/update-000000000007/manifest.json; do
  grep -qF "$(id "$work/whole/run.json")" "$work/whole/$file" && echo yes
done | sort | uniq -c | tr -d ' \n')" 5yes
check "an identity of 128 bits" "$(id "$work/whole/run.json" | wc -c)" 33

# --- what is refused changes nothing
sed 's/^out_channels = 8/out_channels = 6/' "$work/net.ini" >"$work/net6.ini"
for run in cut whole; do
  refused "$run, another seed" 2 'run.seed = 1, but now it is 8' $run 1 --resume --set run.seed=8
  refused "$run, other data" 2 'data.train_samples = 203' $run 1 --resume --set data.train_samples=204
  refused "$run, other test data" 2 'data.test_samples = 37' $run 1 --resume --set data.test_samples=36
  refused "$run, another optimizer" 2 'optimizer.kind = sgd' $run 1 --resume --set optimizer.kind=adamw
done
refused "another network" 7 'weights of another network' cut 1 --resume --set model.file="$work/net6.ini"
refused "two ranks, another network" 7 'weights of another network' cut 2 --resume --set model.file="$work/net6.ini"
refused "two ranks, another seed" 2 'run.seed = 1' cut 2 --resume --set run.seed=8
refused "a trace of updates before" 2 'updates 7 to 9' cut 1 --resume --trace "$work/t.json" --trace-updates 3:5
refused "a start where a run is" 2 'holds a run already \(run.json\) and is never overwritten' whole 1
refused "fewer epochs than are done" 2 '7 updates are done, but .* plan 5 only.* train.epochs to 2 at least' cut 1 --resume --set train.epochs=1
at cut lost
for manifest in "$work"/lost/checkpoints/*/manifest.json; do : >"$manifest"; done
mkdir "$work/lost/checkpoints/.update-000000000008.tmp" && echo half >"$work/lost/config.ini.tmp-4711"
content "$work/lost" >"$work/before"
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/lost" "${cpu[@]}" --resume >"$work/refused.log" 2>&1
check "all damaged: exit" $? 7
check "all damaged: the folder is as it was" "$(content "$work/lost" | cmp - "$work/before" && echo same)" same
if command -v flock >/dev/null; then
  flock "$work/cut" sleep 60 &
  holder=$!
  sleep 0.5
  refused "in use" 2 'another process is writing into it' cut 1 --resume
  kill $holder
fi

# --- checkpoints that have vanished
for run in cut whole; do
  for way in deleted linked; do
    at $run gone
    rm -r "$work/gone/checkpoints"
    [ $way = deleted ] || ln -s unmounted "$work/gone/checkpoints"
    if [ $run = cut ]; then
      refused "unfinished, $way" 7 'has written a checkpoint of update 7, but no checkpoint is in ' gone 1 --resume
      refused "unfinished, $way, auto" 7 'has written a checkpoint of update 7' gone 2 --set run.resume=auto
    else
      refused "complete, $way, more epochs" 7 'has completed 10 updates, of 15 now, but no checkpoint' gone 1 --resume --set train.epochs=3
      content "$work/gone" >"$work/before"
      "$bin/train" "$work/run.ini" --run-dir "$work/gone" "${cpu[@]}" --resume >"$work/log" 2>&1
      check "complete, $way: stays so" "$? $(grep -c 'is complete: 10 updates are done, of 10' "$work/log")" "0 1"
      check "complete, $way: the folder is as it was" "$(content "$work/gone" | cmp - "$work/before" && echo same)" same
    fi
  done
done
at cut fewer
rm -r "$(checkpoint fewer 7)"
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/fewer" "${cpu[@]}" --resume >"$work/log" 2>&1
check "the newest has vanished: exit" $? 0
check "the newest has vanished: told" "$(grep -c 'warning: .*update 7 was written, and is not there or not good: goes on from update 6' "$work/log")" 1
# A run that was killed before its first checkpoint begins once more, as the same run.
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/early" "${cpu[@]}" --set train.epochs=1000000 --set checkpoint.every_epochs=0 2>/dev/null &
pid=$!
for _ in $(seq 600); do [ -s "$work/early/metrics.jsonl" ] && break || sleep 0.05; done
{ kill -9 $pid && wait $pid; } 2>/dev/null
before=$(id "$work/early/run.json")
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/early" "${cpu[@]}" --resume >"$work/log" 2>&1
check "no checkpoint yet: begins once more" "$? $(id "$work/early/run.json")" "0 $before"
check "no checkpoint yet: the weights of an undisturbed run" "$(field early weights_hash)" "$(field whole weights_hash)"

# --- going on needs a run
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/mistyped" "${cpu[@]}" --resume >"$work/log" 2>&1
check "--resume without a run: exit" $? 2
check "--resume without a run: says" "$(grep -c 'error: .*mistyped holds no run to go on with' "$work/log")" 1
check "--resume without a run: nothing is made" "$(ls -d "$work/mistyped" 2>/dev/null)" ""
"$bin/train" "$work/run.ini" --run-dir "$work/first" "${cpu[@]}" --set run.resume=auto >"$work/log" 2>&1
check "run.resume = auto: starts, and says so" "$? $(grep -c 'first holds no run to go on with: a new one begins' "$work/log")" "0 1"

# --- what a run would replace, and no run has written
mkdir "$work/mine" && cp "$work/net.ini" "$work/run.ini" "$work/mine" && mv "$work/mine/run.ini" "$work/mine/config.ini"
program=$(cd "$bin" && pwd)/train
for options in "" --resume "--set run.resume=auto"; do
  content "$work/mine" >"$work/before"
  # shellcheck disable=SC2086 # several words
  (cd "$work/mine" && "$program" config.ini --run-dir . --quiet "${cpu[@]}" $options) >"$work/log" 2>&1
  check "a hand-written config.ini${options:+, $options}: exit" $? 2
  check "a hand-written config.ini${options:+, $options}: named" "$(grep -cE 'error: .*config.ini (that no run has written|was written by no run)' "$work/log")" 1
  check "a hand-written config.ini${options:+, $options}: stays" "$(content "$work/mine" | cmp - "$work/before" && echo same)" same
done

# --- checkpoints of another run
train other 1 "${cpu[@]}" --set optimizer.lr=0.01
mkdir "$work/fork" && cp -r "$work/whole/checkpoints" "$work/fork"
for resume in off auto must; do
  refused "checkpoints alone, $resume" 2 'holds checkpoints of another run' fork 1 --set run.resume=$resume --set optimizer.lr=0.01
done
at cut mixed
cp -r "$(checkpoint other 10)" "$work/mixed/checkpoints"
refused "one of another run" 2 "update-000000000010: is a checkpoint of another run \($(id "$work/other/run.json")" mixed 1 --resume
go_on fork 1 "${cpu[@]}" --set optimizer.lr=0.01 --set train.epochs=3 --set run.adopt=true
check "a fork: has an identity of its own" "$(id "$work/fork/summary.json" | grep -cE "^[0-9a-f]{32}$") $([ "$(id "$work/fork/run.json")" = "$(id "$work/whole/run.json")" ] || echo own)" "1 own"
check "a fork: --quiet says what it is made from" "$(grep -cE "warning: .*(checkpoints of another run \($(id "$work/whole/run.json")\), up to update 10|optimizer.lr 0.1, now 0.01)" "$work/fork.log")" 2
check "a fork: its last checkpoint is its own" "$(id "$(checkpoint fork 15)/manifest.json")" "$(id "$work/fork/run.json")"
go_on fork 1 "${cpu[@]}" --set optimizer.lr=0.01 --set train.epochs=4
check "a fork: goes on without run.adopt" "$(field fork updates)" 20

# --- two starts at once
for number in 1 2 3 4 5 6; do
  "$bin/train" "$work/run.ini" --quiet --run-dir "$work/race-$number" "${cpu[@]}" --set run.seed=1 >"$work/race-1.log" 2>&1 &
  one=$!
  "$bin/train" "$work/run.ini" --quiet --run-dir "$work/race-$number" "${cpu[@]}" --set run.seed=2 >"$work/race-2.log" 2>&1 &
  two=$!
  wait $one
  codes=$?
  wait $two
  codes="$codes $?"
  check "two starts at once: one is refused" "$(tr ' ' '\n' <<<"$codes" | sort | tr '\n' ' ')" "0 2 "
  winner=$([ "$codes" = "0 2" ] && echo 1 || echo 2)
  check "two starts at once: the other's files" \
    "$(sed -n 's/^seed = //p' "$work/race-$number/config.ini") $(field "race-$number" seed) $(starts "race-$number" | wc -l)" "$winner $winner 1"
done

# --- what a run was made by
cut parts whole 4
"$bin/train" "$work/run.ini" --quiet --run-dir "$work/parts" "${cpu[@]}" --resume --set optimizer.lr=0.05 --set checkpoint.keep_last=9 \
  --set train.micro_batch=8 >"$work/parts.log" 2>&1
check "other options: exit" $? 0
check "other options: --quiet tells them" "$(sed "s|$work/||g" "$work/parts.log")" \
  "warning: run folder parts: goes on after update 4 with other options than before: train.micro_batch 4, now 8; optimizer.lr 0.1, now 0.05"
check "other options: in metrics" "$(starts parts | tail -n 1 | grep -oE '"part":[0-9]+|"resumed_at_update":[0-9]+|\{"option":"(opt|train)[^}]*\}' | tr '\n' ' ')" \
  '"part":2 "resumed_at_update":4 {"option":"train.micro_batch","before":"4","now":"8"} {"option":"optimizer.lr","before":"0.1","now":"0.05"} '
check "other options: config.ini says that it does not repeat the run" "$(grep -E '^;' "$work/parts/config.ini" | tail -n 3)" \
  "; No file repeats this run: it went on in parts that are not alike.
;   after update 0: 1 rank on cpu, micro-batches of 4
;   after update 4: 1 rank on cpu, micro-batches of 8; checkpoint.every_updates 1, now 0; checkpoint.keep_last 99, now 9; train.micro_batch 4, now 8; optimizer.lr 0.1, now 0.05"
check "other options: the summary has both parts" "$(grep -oE '"(after_update|micro_batch|samples_before)":[[:space:]]*[0-9]+' "$work/parts/summary.json" | tr -d '[:space:]"')" \
  "micro_batch:8after_update:0samples_before:0micro_batch:4after_update:4samples_before:192micro_batch:8"
check "a whole run: config.ini repeats it" "$(grep -c '^; The same ranks and device repeat it by this file' "$work/whole/config.ini")" 1
train again 1 "${cpu[@]}"
"$bin/train" "$work/whole/config.ini" --quiet --run-dir "$work/repeated" "${cpu[@]}"
check "a whole run: repeated by its config.ini" "$(field repeated weights_hash)" "$(field whole weights_hash)"
go_on parts 2 "${cpu[@]}" --set optimizer.lr=0.05 --set train.micro_batch=8 --set train.epochs=3
check "other ranks: in the record" "$(starts parts | tail -n 1 | grep -oE '"(part|world_size)":[0-9]+' | tr '\n' ' ')" '"part":3 "world_size":2 '
check "other ranks: in config.ini" "$(grep -c '^;   after update 10: 2 ranks on cpu, micro-batches of 8' "$work/parts/config.ini")" 1

# --- totals are of all parts, as samples_seen
check "totals: samples and updates" "$(field parts samples_seen) $(field parts updates)" "609 15"
check "totals: the last part's" "$(sed -n '/"last_part"/,/}/p' "$work/parts/summary.json" | grep -E '"(updates|samples)"' | grep -oE '[0-9]+' | tr '\n' ' ')" "5 203 "
check "totals: seconds" "$(awk -v all="$(field parts wall_seconds)" \
  -v before="$(starts parts | tail -n 1 | grep -oE '"seconds_before":[0-9.e-]+' | sed 's/.*://')" \
  -v last="$(sed -n '/"last_part"/,/}/p' "$work/parts/summary.json" | grep '"seconds"' | grep -oE '[0-9][0-9.e-]*')" \
  'BEGIN { d = all - before - last; print (before > 0 && d < 1e-9 && d > -1e-9) ? "the sum of the parts" : all " " before " " last }')" "the sum of the parts"
check "totals: each train line" "$(grep '"event":"train"' "$work/parts/metrics.jsonl" | tail -n 1 | grep -oE '"(part_)?seconds":[0-9.e-]+' | sed 's/.*://' | tr '\n' ' ' |
  awk '{ print ($1 > $2) ? "all is more than the part" : $0 }')" "all is more than the part"
# A checkpoint in mid-epoch that is to be the last is evaluated.
train seven 1 "${cpu[@]}" --set train.max_updates=7
cut ended whole 7
go_on ended 1 "${cpu[@]}" --set train.max_updates=7
check "ended in mid-epoch: evaluated" "$(field ended test_loss) $(field ended weights_hash)" "$(field seven test_loss) $(field seven weights_hash)"

# --- the best checkpoint
"$bin/train" "$work/run.ini" --run-dir "$work/best" "${cpu[@]}" --set train.epochs=6 >"$work/log" 2>&1
best=$(sed -nE 's/^best +(.*), test accuracy ([0-9.]+) %$/\1 \2/p' "$work/log")
check "the best is named, and there" "$([ -e "${best% *}/manifest.json" ] && echo there)" there
check "the best is the one that ckpt show names" "$("$bin/train" ckpt show "$work/best" | grep -c "^$(basename "${best% *}") .*best")" 1
check "the best: its accuracy is the highest" "$(printf '%.2f' "${best#* }")" \
  "$(grep -oE '"test_accuracy":[0-9.e-]+' "$work/best/metrics.jsonl" | sed 's/.*://' | sort -g | tail -n 1 | awk '{ printf "%.2f", 100 * $1 }')"
finish
