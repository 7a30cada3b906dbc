# Ordered mode: the same weights, bit for bit, for 1, 2, 3 and 4 ranks, and on a second run; with a short last window, batch norm,
# dropout, augmentation, on ref (fp32, fp16) and cpu (fp32, bf16). Fast mode with several ranks: near, and exact in its counts.
# Argument: the folder of the built programs.
set -u
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp tests/support/small_run/*.ini "$work"
# small_run is read by earlier programs, too
sed -i 's/^flip = true$/&\ncutout = 3\nbrightness = 0.1\ncontrast = 0.2\ncrop_scale = 0.5\nmixup = 0.4\ncutmix = 1\nerase = 0.5\ntrivial_augment = true/; s/^micro_batch = 4$/&\nresolution = 0:6x5, 1:8/' "$work/run.ini"
sed -i 's/^\[p\]$/[pixels]\nlayer = layernorm\n[factors]\nlayer = layerscale\nvalue = 0.5\n&/' "$work/net.ini"

# train NAME RANKS OPTIONS...: a run; its weights_hash in hash_NAME, its summary in $work/NAME/summary.json
train() {
  local name=$1 n=$2 launch
  shift 2
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 120"; fi
  # shellcheck disable=SC2086 # several words
  if ! $launch "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" "$@" >"$work/$name.log" 2>&1; then
    cat "$work/$name.log"
    check "$name: exit status" 1 0
  fi
}
# What the records of training and evaluation say, without times.
records() {
  grep -E '"event":"(train|eval)"' "$work/$1/metrics.jsonl" |
    grep -oE '"(update|train_loss|train_accuracy|learning_rate|grad_norm|(test|val|tta)_(loss|accuracy))":[^,}]*' | md5sum
}
details() { md5sum <"$work/$1/evaluation.json"; }
same() { check "$1: weights_hash" "$(field "$1" weights_hash)" "$(field "$2" weights_hash)"; }

for device in ref cpu; do
  options="--set device.type=$device --set run.deterministic=true --set eval.tta=flip-shift --set eval.tta_share=0.4"
  # shellcheck disable=SC2086
  for n in 1 2 3 4; do train $device-$n $n $options; done
  # shellcheck disable=SC2086
  train $device-again 2 $options
  for n in 2 3 4 again; do same $device-$n $device-1; done
  check "$device: samples seen" "$(field $device-4 samples_seen)" 406
  check "$device: test samples, each once" "$(field $device-3 test_samples)" 37
  check "$device: test accuracy on 4 ranks" "$(field $device-4 test_accuracy)" "$(field $device-1 test_accuracy)"
  for n in 2 3 4; do
    check "$device: on $n ranks, the same test pictures in all views" "$(field $device-$n tta_samples)" 14
    check "$device: their accuracy on $n ranks" "$(field $device-$n tta_accuracy)" "$(field $device-1 tta_accuracy)"
    for metric in train_loss test_loss test_accuracy tta_loss; do
      check "$device: $metric on $n ranks" "$(field $device-$n $metric)" "$(field $device-1 $metric)"
    done
    check "$device: records on $n ranks" "$(records $device-$n)" "$(records $device-1)"
    check "$device: evaluation.json on $n ranks" "$(details $device-$n)" "$(details $device-1)"
  done
done
# Three ranks on two hosts, that sum by hosts.
LOCKSTEP_TEST_HOSTS=0,1,1 train cpu-hosts 3 --set device.type=cpu --set run.deterministic=true --set dist.hierarchy=on
same cpu-hosts cpu-1
# However the gradients are cut into sums.
for bytes in 4096 9000; do
  train cpu-buckets-$bytes 3 --set device.type=cpu --set run.deterministic=true --set dist.bucket_bytes=$bytes
  same cpu-buckets-$bytes cpu-1
done
# Every metric, with the average of the weights, validation, class weights and mixed targets.
for device in ref cpu; do
  for n in 1 2 4; do
    train all-$device-$n $n --set device.type=$device --set run.deterministic=true --set train.class_weights=balanced --set data.mixup=0.3 \
      --set data.validation_fraction=0.2 --set average.kind=ema --set average.decay=0.9 --set log.every=1
  done
  for n in 2 4; do
    same all-$device-$n all-$device-1
    for metric in train_loss test_loss test_accuracy val_loss val_accuracy; do
      check "$device: $metric on $n ranks, with all of that" "$(field all-$device-$n $metric)" "$(field all-$device-1 $metric)"
    done
    check "$device: records on $n ranks, with all of that" "$(records all-$device-$n)" "$(records all-$device-1)"
    check "$device: evaluation.json on $n ranks, with all of that" "$(details all-$device-$n)" "$(details all-$device-1)"
  done
done
train cpu-resident 2 --set device.type=cpu --set run.deterministic=true --set data.loader=resident
same cpu-resident cpu-1
for option in flip=false flip=alternating cutout=0 brightness=0 contrast=0 crop_scale=0 mixup=0 cutmix=0 erase=0; do
  train "without-$option" 1 --set device.type=cpu --set run.deterministic=true --set "data.$option"
  check "data.$option has an effect" "$([ "$(field "without-$option" weights_hash)" != "$(field cpu-1 weights_hash)" ] && echo yes)" yes
done
train full 1 --set device.type=cpu --set run.deterministic=true --set train.resolution=
check "train.resolution has an effect" "$([ "$(field full weights_hash)" != "$(field cpu-1 weights_hash)" ] && echo yes)" yes
train own 1 --set device.type=cpu --set run.deterministic=true --set train.resolution=0:8
check "train.resolution as the data has it" "$(field own weights_hash)" "$(field full weights_hash)"
for n in 1 2 4; do
  train weighted-$n $n --set device.type=cpu --set run.deterministic=true --set train.class_weights=balanced --set data.mixup=0.3
done
for n in 2 4; do same weighted-$n weighted-1; done
# Balanced draws, with weights of the classes; also cut in the middle of an epoch.
balanced="--set device.type=cpu --set run.deterministic=true --set data.balance=classes --set train.class_weights=1,2,0.5,1,1,1,1,1,1,3 --set data.mixup=0.3"
# shellcheck disable=SC2086
{
  for n in 1 2 4; do train balanced-$n $n $balanced; done
  train balanced-parts 4 $balanced --set train.max_updates=3
  train balanced-parts 2 $balanced --set train.max_updates=7 --set run.resume=must
  train balanced-parts 1 $balanced --set run.resume=must
}
for n in 2 4 parts; do same balanced-$n balanced-1; done
check "data.balance: train_loss on 4 ranks" "$(field balanced-4 train_loss)" "$(field balanced-1 train_loss)"
check "data.balance: samples seen" "$(field balanced-4 samples_seen)" 406
for n in 1 2; do train fp16-$n $n --set device.type=ref --set train.precision=fp16 --set run.deterministic=true; done
same fp16-2 fp16-1
for n in 1 2 3; do train bf16-$n $n --set device.type=cpu --set train.precision=bf16 --set run.deterministic=true; done
for n in 2 3; do same bf16-$n bf16-1; done
check "bf16 has an effect" "$([ "$(field bf16-1 weights_hash)" != "$(field cpu-1 weights_hash)" ] && echo yes)" yes
check "another seed gives other weights" "$(train seed 1 --set device.type=cpu --set run.deterministic=true --set run.seed=2
  [ "$(field seed weights_hash)" != "$(field cpu-1 weights_hash)" ] && echo yes)" yes

# Fast mode sums floats in an order of the library's own: the loss agrees to rounding, the counts exactly.
for n in 1 4; do train fast-$n $n --set device.type=cpu; done
check "fast mode: samples seen" "$(field fast-4 samples_seen)" "$(field fast-1 samples_seen)"
check "fast mode: loss on 4 ranks within 1 %" "$(awk -v a="$(field fast-4 train_loss)" -v b="$(field fast-1 train_loss)" \
  'BEGIN { d = a - b; if (d < 0) d = -d; print (b > 0 && d < 0.01 * b) ? "yes" : "no: " a " and " b }')" yes
finish
