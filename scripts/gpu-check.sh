#!/usr/bin/env bash
# gpu-check.sh - builds Lockstep on a machine with an NVIDIA GPU, checks it on the card and measures it.
#
#   scripts/gpu-check.sh [PART]...      (default: all, in this order; each takes less than ten minutes)
#
#   build      a release build for this card
#   tests      the operator suite, queues, recordings and whole training, on the card instead of the emulation
#   graphs     recorded updates against eager ones, ring against resident data: the same weights bit for bit
#   resume     a run that is saved and goes on is the uninterrupted one, bit for bit, in fp32, bf16 and fp16
#   accuracy   lenet on Fashion-MNIST in fp32, bf16 and fp16: as accurate as on the cpu
#   ranks      two ranks on this card, summed by NCCL and by MPI: as one rank bit for bit, recorded and eager; 20 starts and ends; bench
#   profile    time from start to the first update; how long the host waits for the device in an update
#   layers     every instruction of the shipped networks beside the card's measured limits
#   peers      training throughput beside PyTorch (eager, compiled, recorded), where python3 has it
#   sanitizer  compute-sanitizer: memcheck, racecheck and initcheck over training and operators
#
# Needs nvcc, cuDNN and cuBLASLt (installed, or as Python packages of python3) and the packages of install-packages.sh; without
# those, carry/ as scripts/carry.sh makes it. MPI is used if it is there. Needs no network. Every item is one line with a verdict;
# results go to build/gpu/results/ and, as one JSON file and a table, to bench/results/gpu-CARD.{json,md}.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
readonly root=$PWD build=$PWD/build/gpu
readonly results=$build/results
PATH=$PATH:/usr/local/cuda/bin # nvcc and compute-sanitizer, where the system does not name them
python=${PYTHON:-python3}
[ $# -gt 0 ] || set -- build tests graphs resume accuracy ranks profile layers peers sanitizer
mkdir -p "$results"
bad=0

# item PART NAME VERDICT DETAIL: one line for a reader, one for the report.
item() {
  printf '%-8s %-10s %-44s %s\n' "$3" "$1" "$2" "$4"
  [ "$3" != failed ] || bad=$((bad + 1))
  "$python" - "$@" >>"$results/items.jsonl" <<'PY'
import json, sys
print(json.dumps(dict(zip(("part", "item", "verdict", "detail"), sys.argv[1:5]))))
PY
}

# try PART NAME LIMIT_S COMMAND...: its output goes to a file, whose end is shown when it fails.
try() {
  local part=$1 name=$2 limit=$3 log rc started=$SECONDS
  shift 3
  log=$results/$part-${name//[^A-Za-z0-9]/_}.log
  timeout "$limit" "$@" >"$log" 2>&1
  rc=$?
  if [ $rc = 0 ]; then
    item "$part" "$name" ok "$((SECONDS - started)) s"
  elif [ $rc = 77 ]; then
    item "$part" "$name" skipped "$(grep -m1 '^skipped: ' "$log")"
  else
    item "$part" "$name" failed "exit $rc; $(tail -n 3 "$log" | tr '\n' ' ' | cut -c1-300)"
    tail -n 25 "$log" | sed 's/^/    /'
  fi
  return $rc
}

value() { "$python" -c 'import json,sys
v = json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): v = v[k]
print(v)' "$1" "$2"; }

# --- build

# Headers and libraries of the packages in carry/, where the system has none.
unpack_carried() {
  export DEPS=$build/deps
  if [ -d carry ] && [ ! -e "$DEPS/done" ]; then
    mkdir -p "$DEPS"
    for package in carry/*.deb; do dpkg -x "$package" "$DEPS" || return 1; done
    touch "$DEPS/done"
  fi
  [ -e "$DEPS/done" ] || return 0
  export PATH=$PATH:$DEPS/usr/bin PKG_CONFIG_SYSROOT_DIR=$DEPS
  export PKG_CONFIG_PATH=$DEPS/usr/lib/x86_64-linux-gnu/pkgconfig:$DEPS/usr/share/pkgconfig
  export LD_LIBRARY_PATH=$DEPS/usr/lib/x86_64-linux-gnu:$DEPS/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  [ "$(command -v mpirun.openmpi)" = "$DEPS/usr/bin/mpirun.openmpi" ] || return 0
  # Open MPI away from its place; it opens all its plugins, and some lack their fabric's library; it asks for ssh even on one host
  export OPAL_PREFIX=$DEPS/usr PMIX_INSTALL_PREFIX=$DEPS/usr/lib/x86_64-linux-gnu/pmix2 OMPI_MCA_mca_base_component_show_load_errors=0
  command -v ssh >/dev/null || export OMPI_MCA_plm_rsh_agent=true
}

# cuDNN and cuBLASLt of Python packages, as one folder of links: include/ and lib/.
link_python_toolkit() {
  local nvcc
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  if [ -e "$(dirname "$nvcc")/../include/cudnn.h" ] || [ -e /usr/include/cudnn.h ]; then return 0; fi
  "$python" - "$build/toolkit" <<'PY'
import pathlib, site, sys, sysconfig
out = pathlib.Path(sys.argv[1])
folders = {pathlib.Path(p) / "nvidia" for p in [*site.getsitepackages(), sysconfig.get_paths()["purelib"]]}
for kind in ("include", "lib"):
    (out / kind).mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for entry in folder.glob(f"*/{kind}/*"):
            link = out / kind / entry.name
            if not link.exists(): link.symlink_to(entry)
print(f"{out}: {len(list((out / 'lib').iterdir()))} libraries")
PY
}

part_build() {
  local mpi=OFF capability compiler
  compiler=$(command -v mpicc.openmpi || command -v mpicc) && mpi=ON
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader 2>/dev/null
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
  link_python_toolkit || return 1
  try build configure 120 cmake -S . -B "$build" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=on \
    -DLOCKSTEP_MPI=$mpi ${compiler:+-DMPI_C_COMPILER="$compiler"} -DLOCKSTEP_CUDA_ARCHITECTURES="${capability:-90}" \
    -DCMAKE_PREFIX_PATH="$build/deps/usr;$build/toolkit" || return 1
  try build compile 590 cmake --build "$build" || return 1
  try build devices 60 "$build/bin/train" devices --json
  cp "$results/build-devices.log" "$results/devices.json"
}

# --- checks

part_tests() {
  local program
  export LOCKSTEP_TEST_GPU=1
  for program in device_cuda_device device_cuda_operators device_cuda_queue train_cuda; do
    try tests "$program" 300 "$build/bin/test_$program"
  done
  unset LOCKSTEP_TEST_GPU
}

readonly short=(--set train.max_updates=4 --set data.train_samples=512 --set data.test_samples=64 --set train.global_batch=32)

part_sanitizer() {
  # Calls that fail inside NVIDIA's libraries, which ask for what may not be there, are no errors; the device checks its own.
  local tool quiet=(--report-api-errors no) options
  command -v compute-sanitizer >/dev/null || {
    item sanitizer compute-sanitizer skipped "it is not on the PATH"
    return
  }
  for tool in memcheck racecheck initcheck; do
    options=()
    [ $tool != memcheck ] || options=("${quiet[@]}")
    for model in lenet resnet20; do
      rm -rf "$results/$tool-$model"
      try sanitizer "$tool, training of $model" 280 compute-sanitizer --tool $tool "${options[@]}" --error-exitcode 9 "$build/bin/train" \
        configs/bench-cpu.ini --quiet --run-dir "$results/$tool-$model" "${short[@]}" --set device.type=cuda \
        --set device.graphs=false --set model.file=configs/models/$model.ini --set "data.shape=$(shape $model)"
    done
  done
  LOCKSTEP_TEST_GPU=1 try sanitizer "memcheck, queues and recordings" 200 compute-sanitizer --tool memcheck "${quiet[@]}" \
    --error-exitcode 9 "$build/bin/test_device_cuda_queue"
}

shape() { case $1 in lenet) echo 1x28x28 ;; *) echo 3x32x32 ;; esac; }

# train_once NAME OPTIONS...: a run of its own; prints nothing.
train_once() {
  local name=$1
  shift
  rm -rf "$results/runs/$name"
  "$build/bin/train" "$@" --quiet --run-dir "$results/runs/$name" --set device.type=cuda
}

part_graphs() {
  local model precision name first hash variant
  for model in lenet resnet9; do
    for precision in fp32 bf16 fp16; do
      first=
      for variant in "true ring" "false ring" "true resident"; do
        name=graphs-$model-$precision-${variant// /-}
        train_once "$name" configs/bench-cpu.ini --set model.file=configs/models/$model.ini --set "data.shape=$(shape $model)" \
          --set train.precision=$precision --set train.max_updates=60 --set device.graphs="${variant% *}" \
          --set data.loader="${variant#* }" >"$results/$name.log" 2>&1 || {
          item graphs "$model $precision" failed "$(tail -n 1 "$results/$name.log")"
          continue 2
        }
        hash=$(value "$results/runs/$name/summary.json" weights_hash)
        : "${first:=$hash}"
        [ "$hash" = "$first" ] || {
          item graphs "$model $precision" failed "graphs=${variant% *}, loader=${variant#* }: weights $hash, not $first"
          continue 2
        }
      done
      item graphs "$model $precision" ok "eager, recorded and resident: weights $first after 60 updates"
    done
  done
}

readonly least_accuracy=0.910 # five epochs on the cpu: 0.9175 to 0.9216

fashion() {
  local folder
  for folder in data/fashion-mnist "$build/deps/usr/share/datasets/fashion-mnist" /usr/share/datasets/fashion-mnist; do
    [ -d "$folder" ] && realpath "$folder" && return
  done
}

part_resume() {
  local model precision
  for model in lenet resnet20; do
    for precision in fp32 bf16 fp16; do
      try resume "$model in $precision" 120 "$build/bin/train" verify-resume configs/bench-cpu.ini --set device.type=cuda \
        --set data.train_samples=2048 --set loss_scale.growth_interval=3 --set train.precision=$precision \
        --set model.file=configs/models/$model.ini --set "data.shape=$(shape $model)"
    done
  done
}

part_accuracy() {
  local precision summary accuracy folder
  folder=$(fashion)
  [ -n "$folder" ] || {
    item accuracy lenet skipped "no Fashion-MNIST: scripts/fetch-data.sh fashion-mnist, or carry/"
    return
  }
  for precision in fp32 bf16 fp16; do
    summary=$results/runs/accuracy-$precision/summary.json
    if train_once accuracy-$precision configs/fashion-mnist.ini --set "data.path=$folder" --set train.precision=$precision \
      >"$results/accuracy-$precision.log" 2>&1; then
      accuracy=$(value "$summary" test_accuracy)
      item accuracy "lenet, 5 epochs, $precision" \
        "$("$python" -c "print('ok' if $accuracy >= $least_accuracy else 'failed')")" \
        "$accuracy, at least $least_accuracy; $(value "$summary" train_images_per_second) images/s"
    else
      item accuracy "lenet, $precision" failed "$(tail -n 1 "$results/accuracy-$precision.log")"
    fi
  done
}

# --- several ranks on this one card. NCCL refuses that, unless the ranks look like different hosts: NCCL_HOSTID.

# launch N COMMAND...
launch() {
  local n=$1 root_too=()
  shift
  [ "$(id -u)" != 0 ] || root_too=(--allow-run-as-root)
  # shellcheck disable=SC2016 # the rank's own shell expands it
  LOCKSTEP_NCCL_SHARED_GPU=1 NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=2 \
    timeout -k 5 "${LAUNCH_LIMIT:-120}" mpirun.openmpi "${root_too[@]}" -quiet --oversubscribe --bind-to none -np "$n" \
    sh -c 'NCCL_HOSTID=lockstep-$OMPI_COMM_WORLD_RANK exec "$@"' sh "$@"
}

# ranks_hash NAME N OPTIONS...: the weights' hash after a short run of N ranks into $hash; an item says when it fails.
ranks_hash() {
  local name=ranks-$1 n=$2
  shift 2
  rm -rf "$results/runs/$name"
  hash=
  launch "$n" "$build/bin/train" configs/bench-cpu.ini --quiet --run-dir "$results/runs/$name" --set device.type=cuda \
    --set device.share=true "${short[@]}" --set train.micro_batch=8 "$@" >"$results/$name.log" 2>&1 &&
    hash=$(value "$results/runs/$name/summary.json" weights_hash) && return
  item ranks "$name" failed "exit $?; $(tail -n 1 "$results/$name.log" | cut -c1-300)"
  return 1
}

# compare_hash NAME OF EXPECTED: $hash against another run's
compare_hash() {
  if [ "$hash" = "$3" ]; then
    item ranks "$1" ok "weights $hash, as $2"
  else
    item ranks "$1" failed "weights $hash, but $2 has $3"
  fi
}

part_ranks() {
  local model network one eager run good=0
  command -v mpirun.openmpi >/dev/null || {
    item ranks "two ranks" skipped "no Open MPI launcher (mpirun.openmpi)"
    return
  }
  for model in ${RANKS_MODELS:-lenet resnet20}; do
    network=(--set model.file="configs/models/$model.ini" --set "data.shape=$(shape "$model")")
    ranks_hash "$model-one" 1 "${network[@]}" --set run.deterministic=true || continue
    one=$hash
    ranks_hash "$model-nccl" 2 "${network[@]}" --set run.deterministic=true --set dist.backend=nccl &&
      compare_hash "$model, ordered, summed by NCCL" "one rank" "$one"
    ranks_hash "$model-mpi" 2 "${network[@]}" --set run.deterministic=true --set dist.backend=mpi &&
      compare_hash "$model, ordered, summed by MPI" "one rank" "$one"
    ranks_hash "$model-eager" 2 "${network[@]}" --set dist.backend=nccl --set device.graphs=false || continue
    eager=$hash
    ranks_hash "$model-recorded" 2 "${network[@]}" --set dist.backend=nccl --set device.graphs=true &&
      compare_hash "$model, NCCL inside the recording" "without recording" "$eager"
    ranks_hash "$model-fast-mpi" 2 "${network[@]}" --set dist.backend=mpi &&
      compare_hash "$model, two terms added by MPI" "NCCL" "$eager"
  done
  network=(--set model.file=configs/models/lenet.ini --set "data.shape=$(shape lenet)")
  for run in $(seq 1 "${RANKS_STARTS:-20}"); do
    LAUNCH_LIMIT=60 ranks_hash start 2 "${network[@]}" --set dist.backend=nccl --set device.graphs=true || break
    good=$run
  done
  [ "$good" != "${RANKS_STARTS:-20}" ] || item ranks "starts and ends with recordings" ok "$good of $good"
  mkdir -p "$results/ranks-bench"
  if LAUNCH_LIMIT=280 launch 2 "$build/bin/train" bench configs/bench-cpu.ini --sweep ranks=1,2 --seconds 1 --repeats 3 \
    --run-dir "$results/ranks-bench" --set device.type=cuda --set device.share=true --set dist.backend=nccl "${network[@]}" \
    --set train.global_batch="${RANKS_BATCH:-128}" >"$results/ranks-bench.log" 2>&1; then
    item ranks "bench, 1 and 2 ranks" ok "below"
    cat "$results/ranks-bench.log"
  else
    item ranks "bench, 1 and 2 ranks" failed "exit $?; $(tail -n 1 "$results/ranks-bench.log" | cut -c1-300)"
  fi
}

# --- measurements

part_profile() {
  local model summary
  cc -shared -fPIC -O2 -o "$build/sync_time.so" tests/support/sync_time.c -ldl ||
    { item profile "host waits" failed "tests/support/sync_time.c does not compile"; return; }
  for model in lenet resnet9; do
    summary=$results/runs/profile-$model/summary.json
    LD_PRELOAD=$build/sync_time.so train_once profile-$model configs/bench-cpu.ini --set model.file=configs/models/$model.ini \
      --set "data.shape=$(shape $model)" --set train.precision=bf16 --set train.max_updates=2000 --set train.epochs=100 \
      --set log.every=1000 --set data.loader=resident >"$results/profile-$model.log" 2>&1 ||
      { item profile "$model" failed "$(tail -n 1 "$results/profile-$model.log")"; continue; }
    item profile "$model, first update" ok "$(value "$summary" time_to_first_update_seconds) s after the start"
    item profile "$model, host waits for the device" ok "$(grep -h '^sync_time' "$results/profile-$model.log" | tail -n 1)"
  done
}

readonly networks=("lenet 128 fp32" "lenet 128 bf16" "resnet20 128 bf16" "resnet9 512 bf16" "resnet9 512 fp16")

part_layers() {
  local model batch precision
  for network in "${networks[@]}"; do
    read -r model batch precision <<<"$network"
    mkdir -p "$results/layers-$model-$precision"
    try layers "$model $batch $precision" 120 "$build/bin/train" bench configs/bench-cpu.ini --layers \
      --run-dir "$results/layers-$model-$precision" --seconds 1 --set device.type=cuda --set model.file=configs/models/$model.ini \
      --set "data.shape=$(shape $model)" --set train.global_batch="$batch" --set train.micro_batch="$batch" \
      --set train.precision="$precision" && tail -n 1 "$results/layers-${model}_${batch}_$precision.log"
  done
}

part_peers() {
  "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || {
    item peers PyTorch skipped "$python has no PyTorch that sees the GPU"
    return
  }
  try peers "lenet, resnet20, resnet9" 590 "$python" bench/compare_pytorch_gpu.py --train "$build/bin/train" \
    --out "$results/peers.json" ${PEERS_ARGS:-} && cat "$results/peers.md"
}

# --- all

unpack_carried || exit 1
if [ "$*" != build ] && [ -z "${LOCKSTEP_CUDA_PLUGIN:-}" ] && ! nvidia-smi -L 2>/dev/null | grep -q .; then
  echo "gpu-check.sh: nvidia-smi lists no GPU here; only the part 'build' works without one" >&2
  exit 4
fi
for part in "$@"; do
  case $part in
  build | tests | sanitizer | graphs | resume | accuracy | ranks | profile | layers | peers)
    started=$SECONDS
    "part_$part"
    printf -- '-- %s: %d s\n' "$part" $((SECONDS - started))
    ;;
  *)
    echo "gpu-check.sh: unknown part '$part'" >&2
    exit 2
    ;;
  esac
done
[ "$*" = build ] || "$python" bench/gpu_report.py "$results" "$root/bench/results"
[ $bad = 0 ]
