# Runs that are cut and go on with several ranks: with as many the bits of an uninterrupted run; in ordered mode with any number; in
# fast mode with any number every sample is there once. Argument: the folder of the built programs.
set -u
# shellcheck source=tests/train/resume_runs.sh
. tests/train/resume_runs.sh "$1" || exit 1
cpu="--set device.type=cpu" ordered="--set run.deterministic=true"
muon="--set optimizer.kind=muon --set optimizer.nesterov=true --set optimizer.renormalise_every=2 --set optimizer.renormalise_growth=2 --set"
groups="optimizer.groups=c1.* frozen; n?.bias end=1.3; l.* kind=adamw lr=0.1 frozen_after=1.6"
rests="optimizer.groups=n2.* frozen_after=1.2"
lookahead="--set average.kind=lookahead --set average.every=3 --set average.decay=0.7 --set average.decay_power=1"

# shellcheck disable=SC2086 # several words
{
  train fast 2 $cpu
  for update in 5 7; do
    cut fast-$update fast $update
    go_on fast-$update 2 $cpu
    check "2 ranks: resumed after update $update = uninterrupted" "$(same_run fast fast-$update)" yes
  done

  train whole 1 $cpu $ordered
  train parts 4 $cpu $ordered --set train.max_updates=3
  go_on parts 2 $cpu $ordered --set train.max_updates=7
  go_on parts 3 $cpu $ordered
  check "ordered: 4, then 2, then 3 ranks = 1 uninterrupted: weights" "$(field parts weights_hash)" "$(field whole weights_hash)"
  check "ordered: optimizer's memory" "$(cmp "$(checkpoint parts 10)/state.safetensors" "$(checkpoint whole 10)/state.safetensors" && echo same)" same

  # with several optimizers, frozen weights and an average of the others, ranks come and go
  train recipe 1 $cpu $ordered $muon "$groups" $lookahead
  train recipe-4 4 $cpu $ordered $muon "$groups" $lookahead
  check "muon, groups, lookahead: 4 ranks = 1: weights" "$(field recipe-4 weights_hash)" "$(field recipe weights_hash)"
  cut recipe-2 recipe-4 3
  go_on recipe-2 2 $cpu $ordered $muon "$groups" $lookahead
  cut recipe-1 recipe-2 7
  go_on recipe-1 1 $cpu $ordered $muon "$groups" $lookahead
  check "muon, groups, lookahead: 4, then 2, then 1 rank = 1 uninterrupted: weights" "$(field recipe-1 weights_hash)" "$(field recipe weights_hash)"
  check "muon, groups, lookahead: optimizers' memory and average" \
    "$(cmp "$(checkpoint recipe-1 10)/state.safetensors" "$(checkpoint recipe 10)/state.safetensors" && echo same)" same

  # one batch norm with stored statistics, the statistics of another at rest from an update in the middle of the run on
  train rests 1 $cpu $ordered --set train.stored_statistics=n1 --set "$rests"
  train rests-4 4 $cpu $ordered --set train.stored_statistics=n1 --set "$rests"
  check "stored and resting statistics: 4 ranks = 1: weights" "$(field rests-4 weights_hash)" "$(field rests weights_hash)"
  for update in 3 8; do
    cut rests-$update rests-4 $update
    go_on rests-$update 2 $cpu $ordered --set train.stored_statistics=n1 --set "$rests"
    check "stored and resting statistics: 4, then 2 ranks after update $update" "$(field rests-$update weights_hash)" "$(field rests weights_hash)"
  done

  # Counted on the devices, over all parts of the run: samples of the second epoch after its fourth window.
  train any 4 $cpu --set train.max_updates=3
  go_on any 2 $cpu --set train.max_updates=7
  go_on any 3 $cpu
  check "fast: 4, then 2, then 3 ranks: samples" "$(field any samples_seen)" 406
  for update in 4 9; do
    check "fast: computed of the epoch at update $update" \
      "$(sed -n 's/.*"of_epoch_count":[[:space:]]*\([0-9]*\).*/\1/p' "$(checkpoint any $update)/manifest.json")" 192
  done
  check "fast: loss within 1 % of one rank's" "$(awk -v a="$(field any train_loss)" -v b="$(field whole train_loss)" \
    'BEGIN { d = a - b; print (d < 0 ? -d : d) < 0.01 * b ? "yes" : a " and " b }')" yes
}
finish
