# device.autotune in whole runs on the emulated CUDA device, whose stand-in for cuDNN has two plans of a convolution: plans are
# measured once and kept, shown, and the same on all ranks; run.deterministic measures nothing; a file of choices that is damaged or
# cannot be written stops no run; the cpu device goes by its rule.
# Argument: the folder of the built programs.
set -u
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
bin=$(cd "$1" && pwd) || exit 1
plugin=$bin/emulated/lockstep_cuda.so
[ -e "$plugin" ] || { echo "skipped: $plugin is not there; it needs a C++ compiler when Lockstep is built"; exit 77; }
export LOCKSTEP_CUDA_PLUGIN=$plugin LOCKSTEP_EMULATED_LIBRARIES=1 LOCKSTEP_EMULATION=devices=2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset XDG_CACHE_HOME

cat >net.ini <<'END'
[network]
input = 3x8x8
[c1]
layer = conv2d
out_channels = 16
kernel = 3
padding = 1
[r1]
layer = relu
[c2]
layer = conv2d
out_channels = 16
kernel = 3
padding = 1
[r2]
layer = relu
[c3]
layer = conv2d
out_channels = 16
kernel = 3
padding = 1
stride = 2
[p]
layer = globalavgpool
[f]
layer = flatten
[l]
layer = linear
out_features = 10
END
cat >run.ini <<'END'
[data]
dataset = synthetic
shape = 3x8x8
train_samples = 200
test_samples = 64
[model]
file = net.ini
[device]
type = cuda
autotune = true
[train]
micro_batch = 32
global_batch = 64
epochs = 1
END

# plan CACHE ARGS...: the plan of the run, errors.txt what it says besides
plan() {
  local -x XDG_CACHE_HOME=$1
  shift
  "$bin/train" --dry-run run.ini "$@" >plan.txt 2>errors.txt
  check "--dry-run ends well" $? 0
}
# how TEXT: convolutions (eight) that were chosen so
how() { grep -cE "^ *[0-9]+ +conv .*  $1\$" plan.txt; }
lines() { grep -c "^plans  *the algorithms of 8 convolutions measured in [0-9.]* s, $1" errors.txt; }
# algorithms: as shown
algorithms() { sed -nE 's/^ *[0-9]+ +(conv (forward|backward [a-z]+)) +(c[123]) +(.*[^ ]) +[0-9.]+  .*$/\1 \3 \4/p' plan.txt; }

plan "$work/cold"
check "a cold start measures all" "$(how "measured now")" 8
check "a cold start says so in one line" "$(lines "kept in $work/cold/lockstep/plans$")" 1
chosen=$(algorithms)
check "eight algorithms are shown" "$(grep -c 'engine 1' <<<"$chosen")" 8
plan "$work/cold"
check "a second start measures nothing" "$(how "measured before")" 8
check "a second start says nothing" "$(grep -c '^plans' errors.txt)" 0
check "a second start has the same algorithms" "$(algorithms)" "$chosen"

plan "$work/cold" --set run.deterministic=true
check "run.deterministic: the rule decides" "$(how "by rule")" 8
plan "$work/ordered" --set run.deterministic=true
check "run.deterministic measures nothing" "$(how "by rule") $(ls -d ordered 2>/dev/null)" "8 "
plan "$work/off" --set device.autotune=false
check "without autotune the rule decides" "$(how "by rule") $(ls -d off 2>/dev/null)" "8 "
plan "$work/short" --set device.autotune=auto
check "auto: a short run measures nothing" "$(how "by rule") $(ls -d short 2>/dev/null)" "8 "
plan "$work/cold" --set device.autotune=auto
check "auto: a short run takes what was measured before" "$(how "measured before")" 8
plan "$work/long" --set device.autotune=auto --set train.epochs=300
check "auto: a long run measures" "$(how "measured now") $(lines "kept in $work/long/lockstep/plans$")" "8 1"

"$bin/plant_plans" cold/lockstep "engine 0" || check "choices are planted" 1 0
plan "$work/cold"
check "planted choices are obeyed" "$(algorithms | grep -c 'emulated library$') $(how "measured before")" "8 8"
"$bin/plant_plans" cold/lockstep "engine 7" || check "choices are planted" 1 0
plan "$work/cold"
check "a choice that the library does not have is measured again" "$(algorithms | grep -c 'engine 1') $(how "measured now")" "8 8"
plan "$work/cold" --set device.workspace=64
check "choices for another workspace are not taken" "$(how "measured now")" 8
plan "$work/cold" --set train.micro_batch=16
check "choices for another batch are not" "$(how "measured now")" 8
plan "$work/cold" --set train.precision=bf16
check "choices for fp32 are not for bf16" "$(how "measured now")" 8

# ignored WHY: lines that say so of the file of choices
ignored() { grep -c "^warning: plans  *$work/cold/lockstep/plans $1: nothing of it is used" errors.txt; }
cp cold/lockstep/plans good
for fault in "is damaged" "is of another version of this program" "is not a file of measured plans"; do
  case $fault in
  "is damaged") sed '2s/engine 1/engine 0/' good ;;
  "is of another"*) sed '1s/plans 2/plans 1/' good ;;
  *) printf '[device]\nautotune = false\n' ;;
  esac >cold/lockstep/plans
  plan "$work/cold"
  check "a file that $fault is replaced" "$(how "measured now") $(lines "kept in ") $(ignored "$fault")" "8 1 1"
  plan "$work/cold"
  check "a file that $fault is replaced: the next start" "$(how "measured before") $(grep -c plans errors.txt)" "8 0"
done
touch a-file
plan "$work/a-file"
check "an unwritable folder: measured all the same" "$(how "measured now")" 8
check "an unwritable folder is told" "$(grep -c 'the next start will measure again: .*a-file' errors.txt) $(lines "not kept$")" "1 1"
HOME='' plan ''
check "no folder at all" "$(how "measured now") $(lines "not kept: neither XDG_CACHE_HOME nor HOME is set")" "8 1"

# What is measured decides: equals go by the library's order, and so does what is less than 3 % faster; what does not run is left out.
chosen_by() { # TIMES
  local -x LOCKSTEP_EMULATED_TIMES=$1
  rm -rf times
  plan "$work/times" >/dev/null
  echo "$(algorithms | grep -c 'engine 1$') $(how "measured now")"
}
check "equal times" "$(chosen_by 1,1)" "0 8"
check "2 % faster" "$(chosen_by 1,0.98)" "0 8"
check "4 % faster" "$(chosen_by 1,0.96)" "8 8"
check "the first does not run" "$(chosen_by x,5)" "8 8"
check "the second does not run" "$(chosen_by 5,x)" "0 8"
LOCKSTEP_EMULATED_TIMES=x,x XDG_CACHE_HOME=$work/none "$bin/train" --dry-run run.ini >plan.txt 2>errors.txt
check "none runs: refused" $? 4
check "none runs: is said" "$(grep -c "layer c1: conv forward: none of the library's 3 algorithms runs on this GPU; .*engine 0 does not run" errors.txt)" 1

# With runs of each algorithm, on memory of its own, as on a card.
rm -rf times
LOCKSTEP_EMULATED_LIBRARIES=timed plan "$work/times" --set train.micro_batch=2
check "timed on the device" "$(how "measured now")" 8

# The cpu device has nothing to measure: it says so, and no choice is shown.
plan "$work/cpu" --set device.type=cpu
check "cpu: nothing is measured" "$(how "by rule")$(how "measured now") $(ls -d cpu 2>/dev/null)" "00 "
XDG_CACHE_HOME=$work/cpu "$bin/train" run.ini --set device.type=cpu --set train.max_updates=1 --run-dir "$work/run-cpu" >output.txt 2>&1
check "cpu: runs" $? 0
check "cpu: is told" "$(grep -c 'no effect device.autotune (only with device.type = cuda)' output.txt)" 1

# --- two ranks, each with a cache folder of its own, so that it shows who keeps what. algorithms that differ are told.
cat >rank.sh <<'END'
export XDG_CACHE_HOME=$PWD/$1/${OMPI_COMM_WORLD_RANK:?}
shift
exec "$@"
END
# both FOLDER: two ranks train
both() {
  ranks 2 120 bash rank.sh "$1" "$bin/train" run.ini --set dist.backend=mpi --set train.max_updates=2 --run-dir "$work/run-$1" >output.txt 2>&1
  check "$1: two ranks train" $? 0
  check "$1: no algorithms differ" "$(grep -c algorithms output.txt | tr -d '\n'; grep -c 'convolutions measured' output.txt)" "$2"
}
mkdir -p one/0 one/1
both one 11
check "one host: its lowest rank measures" "$(ls one/0 one/1 | tr '\n' ' ')" "one/0: lockstep  one/1: "

# Two hosts that have measured differently before: rank 0's choices count, and both keep them.
for first in 0 1; do
  folder=two-$first
  mkdir -p $folder
  cp -r one/0 $folder/0
  cp -r one/0 $folder/1
  "$bin/plant_plans" $folder/$first/lockstep "engine 0" || check "choices are planted" 1 0
  expected=$(tail -n +2 $folder/0/lockstep/plans)
  LOCKSTEP_TEST_HOSTS=0,1 both $folder 00
  check "$folder: both keep rank 0's" "$(tail -n +2 $folder/1/lockstep/plans)" "$expected"
done
finish
