#!/usr/bin/env bash
# quickstart.sh - from a fresh Debian or Ubuntu machine to a trained network: installs packages, builds, gets Fashion-MNIST and
# trains configs/fashion-mnist.ini. Prints the commands that you would type yourself. Arguments are passed on to ./train.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }
command_line() { printf '$ %s\n' "$*"; }

step "system packages"
command_line scripts/install-packages.sh run
scripts/install-packages.sh run

step "build"
command_line cmake --preset release -G Ninja
cmake --preset release -G Ninja -Wno-dev >/dev/null
command_line cmake --build --preset release --target train
cmake --build --preset release --target train | tail -n 1

step "data: Fashion-MNIST"
if scripts/install-packages.sh data; then
  echo "from the system's package dataset-fashion-mnist"
else
  echo "the system has no package dataset-fashion-mnist: downloading"
  command_line scripts/fetch-data.sh fashion-mnist
  scripts/fetch-data.sh fashion-mnist
fi

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

# One rank per core, at most 4: with more cores, the ranks use the others as threads.
cores=$(allowed_cores)
quota=$(quota_cpus)
ranks=$cores
if [ -n "$quota" ] && [ "$quota" -lt "$ranks" ]; then ranks=$quota; fi
if [ "$ranks" -gt 4 ]; then ranks=4; fi
if [ "$ranks" -lt 1 ]; then ranks=1; fi

# GPUs take one rank each.
devices=$(./train devices --json)
gpus=0
case $devices in *'"auto":{"device":"cuda"'*) gpus=$(grep -o '"type":"cuda"' <<<"$devices" | wc -l) ;; esac
if [ "$gpus" -gt 0 ]; then ranks=$gpus; fi

step "training: $cores core(s) may be used here${quota:+, with a quota of $quota}, $gpus GPU(s): $ranks rank(s)"
command=(./train configs/fashion-mnist.ini "$@")
if [ "$ranks" -gt 1 ]; then
  command=(mpirun -np "$ranks" "${command[@]}")
  if [ "$(id -u)" = 0 ]; then # Open MPI wants root to say twice that it is meant, as in a container
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    command_line export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
fi
command_line "${command[@]}"
"${command[@]}"
