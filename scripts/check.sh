#!/usr/bin/env bash
# check.sh - everything that must hold before a change goes in; continuous integration runs this.
#
#   scripts/check.sh [STAGE]...     stages (default: all): test, arm64, cuda, asan, tsan, lint
#
#   test   build with warnings as errors, and every test
#   arm64  cross-compiled, under qemu: unit tests and short trainings, with the bits of the same kernels on x86-64
#   cuda   registers and spills of every CUDA kernel
#   asan   most of the tests under the address and undefined-behaviour sanitizers
#   tsan   what has threads of its own (pool, loader, reducer, watchdog) under the thread sanitizer
#   lint   formatting, includes, lines of each room, words of comments, shell scripts, cppcheck
#
# Installs the packages that it needs. No GPU is needed: the CUDA device is tested on an emulated one. Where no CUDA toolkit is
# installed, scripts/fetch-cuda.sh fetches one, to compile the kernels and to ask cuDNN for its plans; LOCKSTEP_CHECK_CUDA=off leaves
# that out. Where cuda12/ is there (scripts/fetch-cuda.sh 12), the plugin for CUDA 12 is built, too.
# SLURM is installed for its test where that starts no services (root, no systemd: a container). Uses ccache where it is installed.
#
# Says first how long it takes and how much disk. Of a stage with sanitizers nothing stays when it has passed, unless its folder
# (build/asan, build/tsan) was there before; build/check and cuda/ stay. The last line adds up all stages.
set -uo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "$(dirname "$0")/.." || exit 1

# Tests of what has threads of its own.
readonly threaded='base.pool base.spans data.loader dist.ranks dist.watch.flight_recorder dist.ranks_mpi fault.rank_silent fault.rank_late fault.rank_leaves sweep.together'
# Tests that stage asan leaves out: of scripts (launchers, SLURM, texts), of scripts whose parts have limits of time, of other programs
# that read our files, and whole trainings that are compared with others, which take minutes there and run the code of other tests.
readonly unsanitized='device.cuda.gpu_check dist.slurm fault.slurm_stop fault.launch fault.launch_command fault.launch_hosts dist.hosts
cli.export_c cli.int8 cli.scripts_help cli.completion cli.audit cli.bench cli.trace data.fetch emulation.planted_faults mutation.places
device.bench_kernels device.ref.operators real_readers.foreign_weights real_readers.import_runs real_readers.known_networks real_readers.onnxruntime
real_readers.real_readers real_readers.tensorboard train.cross_check_ranks train.cuda_ranks train.golden'
# Tests that stage arm64 runs: kernels and their convolutions, bits of numbers and files, threads without locks.
readonly emulated='base.half base.philox base.pool base.portable_math base.spans data.loader device.cpu.conv_direct device.cpu.kernels dist.watch.flight_recorder formats.safetensors system.cpus'
# Operators' cases that cost more are left out of stages arm64 and asan: they run in stage test.
readonly emulated_flops=1e5 sanitized_flops=1e7
# Minutes of each stage from a fresh clone on two free cores (AMD EPYC, Debian 12, gcc 12, no ccache), rounded up generously: each stage
# prints what it took. MB in the repository's folder, measured there.
declare -rA minutes=([test]=15 [arm64]=6 [cuda]=5 [asan]=25 [tsan]=4 [lint]=2)
declare -rA megabytes=([test]=130 [arm64]=400 [cuda]=0 [asan]=750 [tsan]=100 [lint]=0)
readonly cuda_minutes=3 cuda_megabytes=1900 # loading the toolkit, at 10 MB/s
passed=0 failed=0 skipped=0
started=$SECONDS
[ $# -gt 0 ] || set -- test arm64 cuda asan tsan lint
for stage in "$@"; do
  case $stage in
  test | arm64 | cuda | asan | tsan | lint) ;;
  *)
    echo "check.sh: unknown stage '$stage'; stages are test, arm64, cuda, asan, tsan and lint" >&2
    exit 2
    ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }
took() { printf -- '-- %s: %d s\n' "$1" $((SECONDS - $2)); }

summary() {
  printf '\n-- all stages: %d s\n' $((SECONDS - started))
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" = 0 ]
}

# check NAME COMMAND...: one check that is no test of ctest's. Its output is shown if it fails.
check() {
  local name=$1 output rc
  shift
  output=$("$@" 2>&1)
  rc=$?
  if [ $rc = 0 ]; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    printf '%s\nFAILED  %s (exit %d)\n' "$output" "$name" $rc
  fi
  return $rc
}

skip() { # NAME REASON
  skipped=$((skipped + 1))
  echo "skipped $1: $2"
}

# Sets nvcc, and toolkit: options for cmake where it is the fetched one.
nvcc='' toolkit=()
find_toolkit() {
  nvcc=$(installed_nvcc)
  if needs_toolkit; then
    step "CUDA toolkit"
    if check "fetch-cuda" scripts/fetch-cuda.sh; then
      nvcc=$PWD/cuda/bin/nvcc toolkit=(-DLOCKSTEP_CUDA_ROOT="$PWD/cuda")
    fi
  fi
  if [ -n "$nvcc" ] && [ -e cuda12/packages ]; then toolkit=("-DLOCKSTEP_CUDA_ROOT=${nvcc%/bin/nvcc};$PWD/cuda12"); fi
}

installed_nvcc() { [ "${LOCKSTEP_CHECK_CUDA:-on}" = off ] || command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null; }
needs_toolkit() { [ "${LOCKSTEP_CHECK_CUDA:-on}" != off ] && [ -z "$(installed_nvcc)" ]; }

# announce STAGE...: says how long they take, and how much disk; sets lacking: MB that are not free.
lacking=0
announce() {
  local stage time=0 disk=0 largest=0 here free folders=()
  for stage in "$@"; do
    time=$((time + ${minutes[$stage]}))
    folders+=("build/${stage/test/check}")
    case $stage in
    asan | tsan) [ "${megabytes[$stage]}" -le $largest ] || largest=${megabytes[$stage]} ;; # they go, one after the other
    *) disk=$((disk + ${megabytes[$stage]})) ;;
    esac
  done
  disk=$((disk + largest))
  if needs_toolkit; then
    disk=$((disk + cuda_megabytes))
    folders+=(cuda)
    [ -e cuda/packages ] || time=$((time + cuda_minutes))
  fi
  here=$(du -cms "${folders[@]}" 2>/dev/null | awk 'END { print $1 }')
  free=$(df -Pm . | awk 'NR == 2 { print $4 }')
  echo "stages $*: about $time minutes on two free cores, and $disk MB of disk in $PWD, where $here MB of it are and $free MB are free"
  lacking=$((disk - here - free))
}
has_room() {
  [ $lacking -le 0 ] || {
    echo "check.sh: $lacking MB more must be free in $PWD"
    return 1
  }
}

# build PRESET [TARGET]...
build() {
  local preset=$1
  shift
  check "$preset: configure" cmake --preset "$preset" -G Ninja -Wno-dev "${toolkit[@]}" &&
    check "$preset: build" cmake --build --preset "$preset" ${1:+--target "$@"}
}

# sanitized PRESET COMMAND...: a stage with a build folder that only the stage needs: it goes when all is well, unless it was there.
sanitized() {
  local folder=build/$1 made='' before=$failed
  [ -e "$folder" ] || made=yes
  shift
  "$@"
  [ -z "$made" ] || [ "$failed" != "$before" ] || rm -rf "$folder"
}

# run_tests PRESET [CTEST ARGUMENTS]: adds the outcome up from ctest's own report, and says why tests were skipped.
run_tests() {
  local report=$PWD/build/$1/tests.xml log=build/$1/Testing/Temporary/LastTest.log jobs
  local folder=build/$1
  shift
  jobs=$((2 * $(nproc))) # of which a script takes two: its ranks wait for a good part of the time
  rm -f "$report"
  "${wrapper[@]}" ctest --test-dir "$folder" -j "$jobs" --output-on-failure --no-tests=error --output-junit "$report" "$@" |
    grep -vE '^( *Start +[0-9]+:|Internal ctest changing|Test project|$)'
  if [ ! -s "$report" ]; then
    failed=$((failed + 1))
    echo "FAILED  ctest wrote no report"
    return
  fi
  count() { grep -oE "$1=\"[0-9]+\"" "$report" | head -n 1 | grep -oE '[0-9]+'; }
  local all bad left_out
  all=$(count tests) bad=$(count failures) left_out=$(($(count skipped) + $(count disabled)))
  passed=$((passed + all - bad - left_out)) failed=$((failed + bad)) skipped=$((skipped + left_out))
  [ "$left_out" = 0 ] || grep -hoE '^skipped: .*' "$log" | sort | uniq -c
}
wrapper=()

stage_test() {
  step "build with warnings as errors, all tests"
  build check && run_tests check
}

# The programs of tests named NAME...: base.pool is test_base_pool, if it is no script.
programs_of() {
  local test source
  for test in "$@"; do
    source=tests/${test//./\/}
    [ ! -e "${source%/*}/test_${source##*/}.c" ] || echo "test_${test//./_}"
  done
}

stage_arm64() {
  step "arm64 under qemu: unit tests and short trainings"
  local output programs here
  here=$(uname -m)
  if [ "$here" != x86_64 ]; then
    skip "arm64" "it is compared with x86-64, and this is $here"
    return
  elif ! output=$(scripts/install-packages.sh arm64 2>&1) || ! output=$(scripts/fetch-arm64.sh 2>&1); then
    skip "arm64" "${output##*$'\n'}"
    return
  fi
  # shellcheck disable=SC2086 # names
  mapfile -t programs < <(programs_of $emulated)
  build check train_fused && build arm64 train "${programs[@]}" || return
  LOCKSTEP_TEST_FLOPS_MAX=$emulated_flops run_tests arm64 -R "^(${emulated// /|})\$"
  check "trainings have the bits of x86-64" tests/train/arm64_bits.sh build/check/bin build/arm64/bin
}

stage_cuda() {
  step "CUDA kernels: registers and spills"
  if [ -n "$nvcc" ]; then
    # The oldest, the newest, and that with kernels of its own; without --only the record's five take almost twice the time.
    check "registers and spills" python3 scripts/kernel_report.py --nvcc "$nvcc" --only sm_75,sm_90,sm_120
  else
    skip "registers and spills" "no nvcc: LOCKSTEP_CHECK_CUDA=off, or it could not be fetched"
  fi
}

stage_asan() {
  step "address and undefined-behaviour sanitizers, all tests"
  sanitized asan build_and_run_asan
}
build_and_run_asan() {
  local names
  read -r -d '' -a names <<<"$unsanitized"
  build asan && LOCKSTEP_TEST_FLOPS_MAX=$sanitized_flops run_tests asan -E "^($(IFS='|' && echo "${names[*]}"))\$"
}

stage_tsan() {
  step "thread sanitizer, tests of what has threads"
  # gcc 12's runtime cannot place its shadow memory under strong address randomisation.
  if setarch "$(uname -m)" -R true 2>/dev/null; then wrapper=(setarch "$(uname -m)" -R); fi
  sanitized tsan build_and_run_tsan
  wrapper=()
}
build_and_run_tsan() {
  local programs
  # shellcheck disable=SC2086 # names
  mapfile -t programs < <(programs_of $threaded)
  build tsan "${programs[@]}" && run_tests tsan -R "^(${threaded// /|})\$"
}

stage_lint() {
  step "linters"
  local sources version
  # The emulation is C++ in the manner of CUDA's own headers.
  mapfile -t sources < <(git ls-files 'src/*.[ch]' 'tests/*.[ch]' 'bench/*.[ch]' ':!tests/emulation/')
  version=$(clang-format --version 2>/dev/null | grep -oE 'version [0-9]+' | grep -oE '[0-9]+')
  if [ "$version" = 14 ]; then
    check "clang-format" clang-format --dry-run -Werror "${sources[@]}"
  else
    skip "clang-format" "version 14 decides (others format differently); here is ${version:-none}"
  fi
  check "includes" scripts/check_includes.sh
  check "lines and comments" scripts/check_house.sh
  local scripts
  mapfile -t scripts < <(git ls-files '*.sh' '*.sbatch' .ci/run)
  check "shellcheck" shellcheck --severity=warning --shell=bash --external-sources --source-path=SCRIPTDIR "${scripts[@]}"
  # Left out: what it gets wrong here (lifetimes through LS_TRY, values that another branch sets, gcc's attributes, readdir on a
  # stream of one's own, which is safe); the compiler's own warnings and the sanitizers see those better. Also left out: version 2.17's
  # notes that it limits its analysis, which count as findings.
  local id suppressed=()
  for id in missingIncludeSystem returnDanglingLifetime invalidFunctionArg uninitvar legacyUninitvar nullPointer memleak \
    preprocessorErrorDirective syntaxError readdirCalled ctuuninitvar normalCheckLevelMaxBranches; do
    suppressed+=("--suppress=$id")
  done
  check "cppcheck" cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr "${suppressed[@]}" \
    --library=posix -D_GNU_SOURCE '-D_Noreturn=__attribute__((noreturn))' -DLS_VL=8 -Isrc -j "$(nproc)" src
  if command -v clang >/dev/null; then
    check "kernels by clang" clang_kernels
    check "types by clang" clang_types
  else
    skip "clang" "there is no clang, which fuzzing builds with"
  fi
}

# Types that gcc takes as equal: of functions that return, and of those that do not.
clang_types() {
  local mpi files
  mpi=$(mpicc --showme:compile) || return 1
  mapfile -t files < <(git ls-files 'src/*.c' | grep -vE '^src/device/(cuda|cpu/kernels)/|^src/formats/onnx|^src/base/version')
  # shellcheck disable=SC2086 # several options
  clang -fsyntax-only -std=c17 -D_GNU_SOURCE -Wno-everything -Werror=incompatible-function-pointer-types -Isrc -isystem /usr/include/cjson $mpi "${files[@]}"
}

# What gcc alone knows shows in the processor's kernels first.
clang_kernels() {
  local variant files
  for variant in "-DLS_VL=1" "-march=x86-64 -DLS_VL=4" "-DLS_VL=8" "-DLS_VL=16 -mavx512f -mavx512bw -mavx512dq -mavx512vl" "-DLS_VL=16 -DLS_EMULATED"; do
    files=(src/device/cpu/kernels/*.c)
    [ "$variant" = "-DLS_VL=1" ] && files=(src/device/cpu/kernels/[!w]*.c) # few channels have no Winograd kernels
    # shellcheck disable=SC2086 # a variant's options
    clang -w -fsyntax-only -std=c17 -D_GNU_SOURCE -march=haswell $variant -Isrc "${files[@]}" || return 1
  done
}

announce "$@"
if ! check "room on the disk" has_room; then
  summary
  exit 1
fi
if command -v ccache >/dev/null; then
  export CMAKE_{C,CXX,CUDA}_COMPILER_LAUNCHER=ccache
fi
step "system packages"
if ! check "packages" scripts/install-packages.sh run test; then
  summary
  exit 1
fi
case " $* " in
*" test "* | *" asan "*)
  if [ "$(id -u)" = 0 ] && [ ! -d /run/systemd/system ] && ! output=$(scripts/install-packages.sh cluster 2>&1); then
    echo "without SLURM, whose test is then skipped: ${output##*$'\n'}"
  fi
  ;;
esac
find_toolkit
for stage in "$@"; do
  begin=$SECONDS
  "stage_$stage"
  took "$stage" "$begin"
done
summary
