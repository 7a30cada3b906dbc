#!/usr/bin/env bash
# quickstart.sh - from a fresh Debian or Ubuntu machine to a trained network.
#
#   scripts/quickstart.sh [OPTION OF train]...
#
# Installs the system packages that are missing (by sudo if you are not root), builds, gets Fashion-MNIST, trains
# configs/fashion-mnist.ini and tells which commands come next. Prints the commands that you would type yourself, says before each step
# about how long it takes, and after it how long it took. Everything stays in this folder except the packages. The program is built for
# this machine's processor alone (docs/packages.md builds it for others). May be repeated: what is there is used, and each training is a
# run of its own.
#
#   scripts/quickstart.sh --set train.epochs=1      options are passed on to ./train
#
# Exit: 0 trained; otherwise the exit code of the step that failed.
set -euo pipefail

case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "$(dirname "$0")/.."

# Seconds of work on one core (AMD EPYC, Zen 4), from which the length of a step is estimated.
readonly build_work=140 training_work=150

begun=$SECONDS times=() name=''
# step NAME ABOUT: says what comes next and about how long it takes, after what the step before took.
step() {
  finish
  name=$1
  printf '\n== %s: %s\n' "$1" "$2"
}
finish() {
  [ -z "$name" ] || {
    printf -- '-- %s: %d s\n' "$name" $((SECONDS - begun))
    times+=("$name $((SECONDS - begun)) s")
  }
  begun=$SECONDS name=''
}
command_line() { printf '$ %s\n' "$*"; }
about() { # SECONDS OF WORK, CORES
  local seconds=$(($1 / $2))
  if [ $seconds -lt 90 ]; then
    echo "about $(((seconds + 9) / 10 * 10)) seconds on $2 core(s)"
  else
    echo "about $(((seconds + 59) / 60)) minutes on $2 core(s)"
  fi
}
# Passes ninja's output on. A terminal gets ninja's own progress line; a file or a pipe a line for every tenth of the steps.
tenths() {
  local line last=''
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      [ "$last" != $((10 * BASH_REMATCH[1] / BASH_REMATCH[2])) ] || continue
      last=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    fi
    printf '%s\n' "$line"
  done
}

# Physical cores that this shell may use: those in the affinity mask, SMT siblings counted once.
allowed_cores() {
  local mask
  mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
  lscpu -p=CPU,CORE,SOCKET | awk -F, -v mask="$mask" '
    BEGIN {
      parts = split(mask, range, ",")
      for (i = 1; i <= parts; i++) {
        ends = split(range[i], edge, "-")
        for (cpu = edge[1] + 0; cpu <= edge[ends] + 0; cpu++) allowed[cpu] = 1
      }
    }
    !/^#/ && ($1 in allowed) && !(($2, $3) in seen) { seen[$2, $3] = 1; cores++ }
    END { print cores + 0 }'
}

# CPUs of the container's quota (cgroup v2, v1), rounded up; empty without one.
quota_cpus() {
  local quota='' period=''
  if [ -r /sys/fs/cgroup/cpu.max ]; then
    read -r quota period </sys/fs/cgroup/cpu.max
  elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
    quota=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us)
    period=$(cat /sys/fs/cgroup/cpu/cpu.cfs_period_us)
  fi
  case $quota in '' | max | -1) return ;; esac
  echo $(((quota + period - 1) / period))
}

# The number of cores that may be used.
usable_cores() {
  local cores quota
  cores=$(allowed_cores) quota=$(quota_cpus)
  if [ -n "$quota" ] && [ "$quota" -lt "$cores" ]; then cores=$quota; fi
  [ "$cores" -ge 1 ] || cores=1
  echo "$cores"
}

# Writes 16 test pictures of each of Fashion-MNIST's classes to $pictures, a folder a class: to predict, and as an example of a
# folder of pictures.
readonly pictures=build/pictures
write_pictures() {
  local images=data/fashion-mnist i label labels work
  local -A written=()
  local classes=(t-shirt trouser pullover dress coat sandal shirt sneaker bag ankle-boot)
  [ -d $images ] || images=/usr/share/datasets/fashion-mnist
  work=$(mktemp)
  # The files begin with 16 and 8 bytes that are no pixels or labels. zcat complains that head stops reading.
  { zcat $images/t10k-images-idx3-ubyte.gz 2>/dev/null || true; } | head -c $((16 + 400 * 784)) >"$work"
  labels=$({ zcat $images/t10k-labels-idx1-ubyte.gz 2>/dev/null || true; } | head -c 408 | tail -c 400 | od -An -v -w1 -tu1)
  i=0
  for label in $labels; do
    if [ "${written[$label]-0}" -lt 16 ]; then
      written[$label]=$((${written[$label]-0} + 1))
      mkdir -p "$pictures/${classes[label]}"
      { printf 'P5 28 28 255\n' && tail -c +$((17 + i * 784)) "$work" | head -c 784 || true; } >"$pictures/${classes[label]}/$i.pgm"
    fi
    i=$((i + 1))
  done
  rm -f "$work"
}

# --- the CUDA plugin: built for this machine's GPUs, and only if there are any or the options ask for one

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }
has_nvcc() { command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; }
cuda_is_on() { grep -qix 'LOCKSTEP_CUDA:STRING=on' build/native/CMakeCache.txt 2>/dev/null; } # the user's choice, by cmake

# Sets cuda: options for cmake.
cuda=()
choose_cuda() {
  local capabilities
  ! cuda_is_on || return 0
  if ! has_gpu && [[ " $* " != *" device.type=cuda "* && " $* " != *"=device.type=cuda "* ]]; then
    ! has_nvcc || echo "no GPU here: without the CUDA plugin ('cmake --preset native -G Ninja -DLOCKSTEP_CUDA=on' before this builds it)"
    cuda=(-DLOCKSTEP_CUDA=off)
    return
  fi
  cuda=(-DLOCKSTEP_CUDA=auto)
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d . | paste -sd ';') || capabilities=''
  [[ ! $capabilities =~ ^[0-9]+(;[0-9]+)*$ ]] || cuda+=(-DLOCKSTEP_CUDA_ARCHITECTURES="${capabilities//;/-real;}-real")
}

cores=$(usable_cores)
step packages "about a minute if none of them is there"
command_line scripts/install-packages.sh run
scripts/install-packages.sh run

step build "$(about $build_work "$cores")"
choose_cuda "$@"
command_line cmake --preset native -G Ninja "${cuda[@]}"
cmake --preset native -G Ninja -Wno-dev "${cuda[@]}" >/dev/null
command_line cmake --build --preset native --target train lockstep_help
if [ -t 1 ]; then
  cmake --build --preset native --target train lockstep_help
else
  cmake --build --preset native --target train lockstep_help | tenths
fi

step data "Fashion-MNIST, 30 MB"
if scripts/install-packages.sh data; then
  echo "from the system's package dataset-fashion-mnist"
else
  echo "the system has no package dataset-fashion-mnist: downloading"
  command_line scripts/fetch-data.sh fashion-mnist
  scripts/fetch-data.sh fashion-mnist
fi
write_pictures

# One rank per core, at most 4: with more cores, the ranks use the others as threads.
ranks=$cores
if [ "$ranks" -gt 4 ]; then ranks=4; fi

# GPUs take one rank each.
devices=$(./train devices --json)
gpus=0
case $devices in *'"auto":{"device":"cuda"'*) gpus=$(grep -o '"type":"cuda"' <<<"$devices" | wc -l) ;; esac
if [ "$gpus" -gt 0 ]; then ranks=$gpus; fi

time=$(about $training_work "$cores")
[ "$gpus" = 0 ] || time="a minute"
step training "$ranks rank(s), as $cores core(s) and $gpus GPU(s) may be used here; 5 epochs take $time"
command=(./train configs/fashion-mnist.ini "$@")
if [ "$ranks" -gt 1 ]; then
  command=(mpirun -np "$ranks" "${command[@]}")
  if [ "$(id -u)" = 0 ]; then # Open MPI wants root to say twice that it is meant, as in a container
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    command_line export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi
command_line "${command[@]}"
before=$(mktemp)
trap 'rm -f "$before"' EXIT
"${command[@]}"
finish
run=$(find runs -mindepth 2 -maxdepth 2 -name summary.json -newer "$before" 2>/dev/null | tail -n 1)
run=${run%/summary.json}

printf '\n== done in %d s: ' $SECONDS
printf '%s' "${times[0]}"
printf ', %s' "${times[@]:1}"
printf '\nWhat you can do next:\n'
[ -z "$run" ] || cat <<END
  ./train report runs/*                                                     draws all runs as one page, report.html
  ./train predict $run $pictures/ankle-boot              the likeliest classes of pictures (here: test pictures)
END
cat <<END
  ./train configs/folder-example.ini --set data.path=$pictures        trains on a folder of pictures; put your own in its place:
                                                                            a folder for each class (docs/your-pictures.md)
END
