# Runs that are cut and go on: on one rank the bits of an uninterrupted run, on every device, in mid-epoch and at an epoch's end; what
# the run's files say; damaged checkpoints; what is refused. Argument: the folder of the built programs.
set -u
# shellcheck source=tests/train/resume_runs.sh
. tests/train/resume_runs.sh "$1" || exit 1

# resumes NAME UPDATE OPTIONS...: a run of NAME that is cut there and goes on is the whole one.
resumes() {
  local name=$1 update=$2
  shift 2
  [ -e "$work/$name" ] || train "$name" 1 "$@"
  cut "$name-$update" "$name" "$update"
  go_on "$name-$update" 1 "$@"
  check "$name: resumed after update $update = uninterrupted" "$(same_run "$name" "$name-$update")" yes
}

cpu="--set device.type=cpu" moving="--set train.precision=fp16 --set loss_scale.initial=16777216 --set loss_scale.growth_interval=3"
adamw="--set optimizer.kind=adamw --set optimizer.lr=0.01"
muon="--set optimizer.kind=muon --set optimizer.nesterov=true --set optimizer.renormalise_every=2 --set optimizer.renormalise_growth=2"
muon+=" --set schedule.kind=linear --set schedule.epochs=1.5 --set schedule.floor=0.1 --set"
groups="optimizer.groups=c1.* frozen; n?.bias end=1.3; l.* kind=adamw lr=0.1 frozen_after=1.6"
lookahead="--set average.kind=lookahead --set average.every=3 --set average.decay=0.7 --set average.decay_power=1"
ema="--set average.kind=ema --set average.every=2 --set average.decay=0.9 --set average.start=0.9"
# shellcheck disable=SC2086 # several words
{
  resumes cpu 7 $cpu
  resumes cpu 5 $cpu
  resumes cpu 9 $cpu
  # the first epoch at its resolution and no other, the second alike: what both make together
  train apart 1 $cpu --set train.resolution=0:6 --set train.max_updates=5
  go_on apart 1 $cpu --set train.resolution=0:8x7
  check "train.resolution: each epoch has its own" "$(same_run cpu apart)" yes
  resumes ref 7 --set device.type=ref
  resumes adamw 3 $cpu $adamw
  resumes ref-fp16 6 --set device.type=ref $moving
  resumes cpu-bf16 6 $cpu --set train.precision=bf16
  # several optimizers, rates with an end, weights rescaled now and then, averages: each cut before, at and behind its start
  resumes muon 6 $cpu $muon "$groups" $lookahead
  resumes muon 8 $cpu $muon "$groups" $lookahead
  resumes ema 4 $cpu $adamw $ema
  resumes ema 5 $cpu $adamw $ema
  resumes ema 9 $cpu $adamw $ema
  if emulated; then
    resumes cuda-fp16 6 --set device.type=cuda $moving
    resumes cuda-muon 7 --set device.type=cuda $muon "$groups" $lookahead
    check "cuda-fp16: updates skipped by the loss scale" "$([ "$(field cuda-fp16-6 skipped_updates)" -gt 0 ] && echo some)" some
    # to another kind of device and back: no bits promised, but the same samples and nearly the same loss
    train there 1 --set device.type=cuda --set train.max_updates=4
    go_on there 1 $cpu
    check "cuda, then cpu: samples" "$(field there samples_seen)" 406
    check "cuda, then cpu: loss within 1 % of the cpu's" "$(awk -v a="$(field there train_loss)" -v b="$(field cpu train_loss)" \
      'BEGIN { d = a - b; print (d < 0 ? -d : d) < 0.01 * b ? "yes" : a " and " b }')" yes
  fi
  train back 1 $cpu --set train.max_updates=3
  go_on back 1 --set device.type=ref --set train.max_updates=6
  go_on back 1 $cpu
  check "cpu, ref, cpu: samples" "$(field back samples_seen)" 406
  check "cpu, ref, cpu: loss within 1 % of the cpu's" "$(awk -v a="$(field back train_loss)" -v b="$(field cpu train_loss)" \
    'BEGIN { d = a - b; print (d < 0 ? -d : d) < 0.01 * b ? "yes" : a " and " b }')" yes

  # metrics of cpu-7: a line that was half written is gone, and they say where the run went on
  check "metrics: every line is whole" "$(grep -cvE '^\{.*\}$' "$work/cpu-7/metrics.jsonl")" 0
  check "metrics: go on after update 7" "$(grep -c '"resumed_at_update":7' "$work/cpu-7/metrics.jsonl")" 1
  check "summary: resumed" "$(grep -c '"resumed_at_update":[[:space:]]*7' "$work/cpu-7/summary.json")" 1

  # the newest one is damaged: named, the one before it used, and the end is the same
  cut damaged cpu 7
  printf 'x' | dd of="$(checkpoint damaged 7)/state.safetensors" bs=1 seek=4200 conv=notrunc status=none
  go_on damaged 1 $cpu
  check "damaged newest: the one before is used" "$(grep -c '"resumed_at_update":6' "$work/damaged/metrics.jsonl")" 1
  check "damaged newest: written again, same end" "$(same_run cpu damaged)" yes
  cut named cpu 7
  : >"$(checkpoint named 7)/manifest.json"
  "$bin/train" "$work/run.ini" --run-dir "$work/named" --resume $cpu >"$work/named.log" 2>&1
  check "damaged newest: is named" "$(grep -c 'warning: .*update-000000000007/manifest.json: .*an older one looked for' "$work/named.log")" 1
  # all are damaged: refused, and nothing is touched
  cut lost cpu 7
  for manifest in "$work"/lost/checkpoints/*/manifest.json; do : >"$manifest"; done
  count=$(find "$work/lost/checkpoints" -name manifest.json | wc -l)
  (cd "$work/lost" && find . -type f -exec cksum {} + | sort) >"$work/before"
  "$bin/train" "$work/run.ini" --run-dir "$work/lost" --resume $cpu >"$work/lost.log" 2>&1
  check "all damaged: exit" $? 7
  check "all damaged: says so" "$(grep -c "lost/checkpoints: none of its checkpoints ($count) is good; the newest: .*update-000000000007/manifest.json: .*move this folder away" "$work/lost.log")" 1
  (cd "$work/lost" && find . -type f -exec cksum {} + | sort) >"$work/after"
  check "all damaged: nothing changed" "$(cmp "$work/before" "$work/after" && echo same)" same

  # nothing there: it starts
  go_on fresh 1 $cpu
  check "run.resume = auto with nothing there" "$(same_run cpu fresh)" yes
  # complete: it says so and changes nothing
  (cd "$work/cpu" && find . -type f -exec cksum {} + | sort) >"$work/before"
  "$bin/train" "$work/run.ini" --run-dir "$work/cpu" --resume $cpu --set checkpoint.every_updates=1 --set checkpoint.keep_last=99 >"$work/complete.log" 2>&1
  check "complete: exit" $? 0
  check "complete: says so" "$(grep -c 'is complete: 10 updates are done, of 10' "$work/complete.log")" 1
  (cd "$work/cpu" && find . -type f -exec cksum {} + | sort) >"$work/after"
  check "complete: nothing changed" "$(cmp "$work/before" "$work/after" && echo same)" same
  # more epochs
  train three 1 $cpu --set train.epochs=3
  cp -r "$work/cpu" "$work/more"
  go_on more 1 $cpu --set train.epochs=3
  check "another epoch later = from the start" "$(same_run three more)" yes

  # refused: exit and one line
  refused() {
    local what=$1 rc=$2 text=$3
    shift 3
    "$bin/train" "$work/run.ini" --quiet --run-dir "$work/back" --resume $cpu "$@" >"$work/refused.log" 2>&1
    check "$what: exit" $? "$rc"
    check "$what: says" "$(grep -c "error: .*$text" "$work/refused.log")" 1
  }
  refused "another seed" 2 "was made with run.seed = 1, but now it is 2" --set run.seed=2
  refused "other data" 2 "was made with data.train_samples = 203, but now it is 204" --set data.train_samples=204
  refused "another optimizer" 2 "optimizer.kind = sgd" --set optimizer.kind=adamw
}
finish
