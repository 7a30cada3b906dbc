# resume_runs.sh - for scripts that cut runs and go on with them: sourced with the folder of the built programs as argument, from the root.
#   $bin, $work                   that folder; a new one for runs, removed at the end
#   train NAME RANKS OPTIONS...   a run of support/small_run into $work/NAME; a checkpoint after each update, all kept
#   cut NAME FROM UPDATE          $work/NAME: what of run FROM is there when it is killed after the checkpoint of UPDATE
#   go_on NAME RANKS OPTIONS...   train with run.resume = auto
#   same_run A B                  "yes" where both end with the same bits: weights, optimizer, counters; else what differs
#   emulated                      the emulated CUDA device from now on; fails where there is none
bin=$1
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"
sed -i 's/^micro_batch = 4$/&\nresolution = 0:6, 1:8x7/' "$work/run.ini" # changes after update 5; earlier programs read small_run, too

train() {
  local name=$1 n=$2 launch
  shift 2
  if [ "$n" = 1 ]; then launch=; else launch="ranks $n 120"; fi
  # shellcheck disable=SC2086 # several words
  $launch "$bin/train" "$work/run.ini" --quiet --run-dir "$work/$name" --set checkpoint.every_updates=1 \
    --set checkpoint.keep_last=99 "$@" >"$work/$name.log" 2>&1 && return 0
  cat "$work/$name.log"
  check "$name: exit status" "not 0" 0
}
go_on() { train "$@" --set run.resume=auto; }
checkpoint() { printf '%s/%s/checkpoints/update-%012d' "$work" "$1" "$2"; }
cut() {
  local folder
  cp -r "$work/$2" "$work/$1"
  rm -f "$work/$1/summary.json" "$work/$1/weights.safetensors"
  for folder in "$work/$1"/checkpoints/update-*; do
    [[ "$folder" > "$(checkpoint "$1" "$3")" ]] && rm -r "$folder"
  done
  awk -F '"update":' -v last="$3" '$2 + 0 <= last' "$work/$2/metrics.jsonl" >"$work/$1/metrics.jsonl"
  printf '{"event": "train", "upd' >>"$work/$1/metrics.jsonl"
}
last() { for last_one in "$work/$1"/checkpoints/update-*; do :; done; }
same_run() {
  local last_one one
  last "$1"
  one=$last_one
  last "$2"
  if "$bin/train" compare "$one" "$last_one" >"$work/diff" 2>&1 && cmp -s "$work/$1/weights.safetensors" "$work/$2/weights.safetensors"; then
    echo yes
  else
    head -n 3 "$work/diff"
  fi
}
emulated() {
  [ -e "$bin/emulated/lockstep_cuda.so" ] || return 1
  export LOCKSTEP_CUDA_PLUGIN=$bin/emulated/lockstep_cuda.so
}
