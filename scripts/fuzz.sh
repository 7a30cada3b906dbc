#!/usr/bin/env bash
# fuzz.sh - fuzzes what Lockstep reads: libFuzzer with the address and undefined-behaviour sanitizers.
#
#   scripts/fuzz.sh [TARGET]... [--minutes N] [--jobs N]     default: all targets (tests/fuzz/fuzz_*.c), 10 minutes each, one at a time
#
# Starts from tests/fuzz/corpus/TARGET, from inputs that the build makes from the table of options, and from inputs that earlier runs
# kept (build/fuzz/corpus/TARGET). An input that crashes, hangs, leaks or takes too much memory ends that target and stays as
# build/fuzz/findings/TARGET-*; the exit status is then 1. The last lines, one for each target, say executions, branches reached
# ("edges", of the whole program) and findings. docs/testing.md says more.
set -euo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "$(dirname "$0")/.."

readonly folder=build/fuzz
minutes=10 jobs=1 targets=()
while [ $# -gt 0 ]; do
  case $1 in
  --minutes)
    minutes=${2:?--minutes: expected a number}
    shift 2
    ;;
  --jobs)
    jobs=${2:?--jobs: expected a number}
    shift 2
    ;;
  -*)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
  *)
    targets+=("$1")
    shift
    ;;
  esac
done
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/fuzz_*.c; do
    source=${source##*/fuzz_}
    targets+=("${source%.c}")
  done
fi
for target in "${targets[@]}"; do
  [ -e "tests/fuzz/fuzz_$target.c" ] || {
    echo "fuzz.sh: no target '$target': there is no tests/fuzz/fuzz_$target.c" >&2
    exit 2
  }
done

seconds=$(awk -v minutes="$minutes" 'BEGIN { printf "%d", minutes * 60 }')
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || {
  echo "fuzz.sh: --jobs $jobs: expected a whole number above 0" >&2
  exit 2
}
[ "$seconds" -gt 0 ] || {
  echo "fuzz.sh: --minutes $minutes: expected a number above 0, as 0.5 or 10" >&2
  exit 2
}
mkdir -p $folder
scripts/install-packages.sh run test fuzz
# Debug keeps assertions; -O1 is what the sanitizers are fastest with. Warnings are gcc's matter.
CC=clang cmake -S . -B $folder -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DCMAKE_C_FLAGS=-w \
  -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_SANITIZE=address,undefined -DLOCKSTEP_CUDA=off >$folder.log 2>&1 || {
  cat $folder.log >&2
  exit 1
}
nice -n 10 cmake --build $folder --target "${targets[@]/#/fuzz_}"

mkdir -p $folder/findings
work=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # in memory where possible: targets link files there
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work UBSAN_OPTIONS=print_stacktrace=1

# Inputs longer than this only cost time.
longest() {
  case $1 in
  cifar) echo 32768 ;;
  image | checkpoint) echo 8192 ;;
  packed) echo 8448 ;;
  set) echo 512 ;;
  *) echo 4096 ;;
  esac
}

# Fuzzes one target; its line of the summary goes to $work/TARGET.line.
fuzz() {
  local target=$1 log=$work/$1.log status=0 executions edges line input inputs options
  mkdir -p "$folder/corpus/$target"
  # The timeout is of the clock: a busy machine may stand still for longer than any input takes.
  options=(-max_total_time="$seconds" -max_len="$(longest "$target")" -timeout=120 -rss_limit_mb=2048 -print_final_stats=1
    -artifact_prefix="$folder/findings/$target-")
  cat "tests/fuzz/$target.dict" "$folder/generated/fuzz/$target.dict" >"$work/$target.dict" 2>/dev/null || true
  [ ! -s "$work/$target.dict" ] || options+=(-dict="$work/$target.dict")
  inputs=("$folder/corpus/$target" "tests/fuzz/corpus/$target") # new inputs go into the first
  [ ! -d "$folder/generated/fuzz/corpus/$target" ] || inputs+=("$folder/generated/fuzz/corpus/$target")
  echo "-- $target: $minutes minutes"
  nice -n 10 "$folder/bin/fuzz_$target" "${options[@]}" "${inputs[@]}" >"$log" 2>&1 || status=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -n 1)
  edges=$(grep -aoE ' cov: [0-9]+' "$log" | tail -n 1 | grep -oE '[0-9]+' || true)
  line=$(printf '%-12s %10s executions  %6s edges  %3s minutes' "$target" "${executions:-?}" "${edges:-?}" "$minutes")
  if [ $status = 0 ]; then
    line+="  no finding"
  else
    grep -avE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|INITED|RELOAD)' "$log" | head -n 60
    input=$(grep -aoE "$folder/findings/[^ ]+" "$log" | tail -n 1 || true)
    line+="  FOUND ${input:-nothing kept}: $folder/bin/fuzz_$target ${input:-}"
  fi
  echo "$line" >"$work/$target.line"
}

running=0
for target in "${targets[@]}"; do
  if [ $running -ge "$jobs" ]; then
    wait -n
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
wait
summary=$(for target in "${targets[@]}"; do cat "$work/$target.line"; done)
echo "$summary"
! grep -q FOUND <<<"$summary"
