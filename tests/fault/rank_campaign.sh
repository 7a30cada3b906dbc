#!/usr/bin/env bash
# rank_campaign.sh - faults of random ranks at random moments of a real training run, many times: every run must end with the
# documented exit code, in time, with exactly one error line, and leave no process and no shared memory behind.
#
#   tests/fault/rank_campaign.sh BIN [OPTIONS]      BIN: the folder of the built programs
#
#   --repetitions N     of each kind (default 5)
#   --kinds "KIND ..."  default: all that the device has
#   --ranks "N ..."     numbers of ranks, one after the other (default "2 3 4")
#   --device cpu|cuda   cuda: the emulated one (default cpu)
#   --seed N            of ranks and moments (default 1)
#   --limit S           seconds from the fault to the end (default 12)
#   --out PREFIX        writes PREFIX.json and PREFIX.md
#
# Kinds: kill (-9), stop (SIGSTOP), hang (the main thread), crash (abort), exit0 exit3 exit75 (exit), quit3 (_exit), launcher (killed), config
# (one rank is started with another configuration); on cuda also nccl_error, nccl_hang (one rank's N-th collective), nccl_version (one
# rank has another), gpus (fewer than ranks). Exit 0: all as it must be; 1: not; 77: cannot be run here.
set -u
here=$(dirname "$0")
bin=$(cd "$1" && pwd) || exit 2
shift
repetitions=5 kinds='' ranks_list="2 3 4" device=cpu seed=1 limit_s=12 out=''
while [ $# -gt 1 ]; do
    case $1 in
    --repetitions) repetitions=$2 ;;
    --kinds) kinds=$2 ;;
    --ranks) ranks_list=$2 ;;
    --device) device=$2 ;;
    --seed) seed=$2 ;;
    --limit) limit_s=$2 ;;
    --out) out=$2 ;;
    *) echo "rank_campaign.sh: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done
# shellcheck source=tests/support/mpi.sh
. "$here/../support/mpi.sh" || exit 1
if [ "$device" = cuda ]; then
    export LOCKSTEP_CUDA_PLUGIN=$bin/emulated/lockstep_cuda.so
    if [ ! -e "$LOCKSTEP_CUDA_PLUGIN" ]; then
        echo "skipped: no emulated CUDA device in this build (it needs a C++ compiler)"
        exit 77
    fi
fi
if ! command -v cc >/dev/null; then
    echo "skipped: no C compiler, to build tests/support/misbehave.c"
    exit 77
fi
every_kind="kill stop hang crash exit0 exit3 exit75 quit3 launcher config"
[ "$device" = cpu ] || every_kind="$every_kind nccl_error nccl_hang nccl_version gpus"
kinds=${kinds:-$every_kind}

timeout_s=3 # dist.timeout
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -shared -fPIC -O1 -o "$work/misbehave.so" "$here/../support/misbehave.c" -lpthread || exit 2

cat >"$work/net.ini" <<'EOF'
[network]
input = 3x16x16
[conv1]
layer = conv2d
out_channels = 16
kernel = 3
padding = 1
bias = false
[norm1]
layer = batchnorm2d
[relu1]
layer = relu
[pool1]
layer = maxpool2d
kernel = 2
[flat]
layer = flatten
[fc]
layer = linear
out_features = 10
EOF
cat >"$work/run.ini" <<EOF
[data]
dataset = synthetic
shape = 3x16x16
classes = 10
train_samples = 960
test_samples = 200
[model]
file = net.ini
[train]
epochs = 100000
global_batch = 96
[device]
type = $device
threads = 1
[dist]
timeout = $timeout_s
bucket_bytes = 8192
[log]
every = 5
EOF

# rank.sh: the program, leaving its process number behind; one rank with another configuration, or with another emulation
cat >"$work/rank.sh" <<EOF
echo \$\$ >"$work/pid.\$OMPI_COMM_WORLD_RANK"
if [ "\$OMPI_COMM_WORLD_RANK" = "\${OTHER_RANK-}" ]; then
    set -- "\$@" \${OTHER_OPTIONS-}
    export LOCKSTEP_EMULATION="\${LOCKSTEP_EMULATION-}\${OTHER_EMULATION-}"
fi
export LD_PRELOAD=$work/misbehave.so LOCKSTEP_TEST_MISBEHAVE=$work/word ASAN_OPTIONS=\${ASAN_OPTIONS:+\$ASAN_OPTIONS:}verify_asan_link_order=0
exec "$bin/train" "\$@"
EOF

seconds_since() { awk "BEGIN { printf \"%.2f\", ($(date +%s%N) - $1) / 1e9 }"; }

# expected KIND: exit codes, error lines
expected() {
    case $1 in
    kill) echo "137 1" ;;
    crash) echo "134 1" ;;
    exit0) echo "1 1" ;;
    exit3 | quit3) echo "3 1" ;;
    exit75) echo "75 1" ;;
    launcher) echo "137 0" ;;
    gpus) echo "2 1" ;;
    *) echo "5 1" ;;
    esac
}

# The moment: some time after the first records of the metrics. Faults of the start have none.
await_moment() {
    for _ in $(seq 300); do
        [ "$(grep -c '"train"' "$work/run/metrics.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null && break
        kill -0 "$launcher" 2>/dev/null || return
        sleep 0.05
    done
    sleep "$(awk "BEGIN { print $RANDOM % 1500 / 1000 }")"
}

misbehave() { # KIND RANK
    case $1 in
    kill) kill -9 "$(cat "$work/pid.$2")" ;;
    stop) kill -STOP "$(cat "$work/pid.$2")" ;;
    launcher) kill -9 "$launcher" ;;
    exit* | quit*) echo "${1%%[0-9]*} ${1##*[a-z]}" >"$work/word.$2" ;;
    hang | crash) echo "$1" >"$work/word.$2" ;;
    esac
}

# one KIND RANKS RANK: sets rc, seconds, errors, text, left
one() {
    local kind=$1 n=$2 rank=$3 at=0 shared=''
    rm -rf "$work"/run "$work"/pid.* "$work"/word.*
    unset OTHER_RANK OTHER_OPTIONS OTHER_EMULATION LOCKSTEP_EMULATION
    [ "$kind" != config ] || export OTHER_RANK=$rank OTHER_OPTIONS="--set train.epochs=99999"
    [ "$kind" != nccl_version ] || export OTHER_RANK=$rank OTHER_EMULATION=,collective_version=22703
    if [ "$device" = cuda ]; then
        export LOCKSTEP_EMULATION=devices=$n
        case $kind in
        gpus) export LOCKSTEP_EMULATION=devices=$((n - 1)) ;;
        nccl_error) LOCKSTEP_EMULATION+=,collective_rank=$rank,collective_fail=$((RANDOM % 200 + 20)) ;;
        nccl_hang) LOCKSTEP_EMULATION+=,collective_rank=$rank,collective_hang=$((RANDOM % 200 + 20)) ;;
        esac
    fi
    # Not through timeout: its child would be killed, not the launcher.
    # shellcheck disable=SC2086 # several words
    "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none ${MPI_FLAGS-} -np "$n" sh "$work/rank.sh" "$work/run.ini" --quiet \
        --run-dir "$work/run" </dev/null >"$work/output" 2>&1 &
    launcher=$!
    guard $launcher 300
    at=$(date +%s%N)
    case $kind in
    config | gpus | nccl_*) ;;
    *)
        await_moment
        shared=$(segments "$work"/pid.*)
        at=$(date +%s%N)
        misbehave "$kind" "$rank"
        ;;
    esac
    wait $launcher 2>/dev/null
    rc=$?
    seconds=$(seconds_since "$at")
    wait $guard
    errors=$(grep -c '^error: ' "$work/output")
    text=$(grep -m 1 '^error: ' "$work/output")
    find_left "$kind" "$shared"
}

# Processes, and shared memory: that of a launcher which was killed is removed here.
find_left() {
    left=$(none_left "$work"/pid.* | sed -n 's/^FAILED no process left: is "\(.*\)", expected.*/\1/p')
    local file
    for file in $2; do
        [ -e "$file" ] || continue
        [ "$1" = launcher ] || left="$left $file"
        rm -f "$file"
    done
}

RANDOM=$seed
all=0 wrong=0
: >"$work/rows"
for kind in $kinds; do
    read -r want_rc want_errors <<<"$(expected "$kind")"
    for ((i = 0; i < repetitions; i++)); do
        # shellcheck disable=SC2206 # words
        list=($ranks_list)
        n=${list[$((i % ${#list[@]}))]}
        rank=$((RANDOM % n))
        one "$kind" "$n" "$rank"
        verdict=ok
        [ "$rc" = "$want_rc" ] || verdict="exit $rc instead of $want_rc"
        [ "$errors" = "$want_errors" ] || verdict="$errors error lines instead of $want_errors"
        [ -z "$left" ] || verdict="left behind: $left"
        awk "BEGIN { exit !($seconds <= $limit_s) }" || case $kind in config | gpus | nccl_*) ;; *) verdict="took $seconds s" ;; esac
        all=$((all + 1))
        [ "$verdict" = ok ] || wrong=$((wrong + 1))
        printf '%-10s  %d ranks, rank %d: exit %3d after %6s s: %s\n' "$kind" "$n" "$rank" "$rc" "$seconds" "$verdict"
        if [ "$verdict" = ok ]; then echo "    $text"; else sed 's/^/    /' "$work/output"; fi
        # without what differs from run to run
        words=$(sed -E 's/^error: //; s/rank [0-9]+/rank R/g; s/(update|bucket) [0-9]+/\1 N/g; s/ on [^ ]+ \(pid [0-9]+\)/ on HOST (pid N)/; s/[0-9.]+ s\b/N s/g; s/"[^"]*"/PHASE/g; s/[;:].*//' <<<"$text" | cut -c 1-110)
        printf '%s\t%s\t%s\t%s\t%s\n' "$kind" "$rc" "$seconds" "$verdict" "${words:-(none)}" >>"$work/rows"
    done
done
echo "$all runs, $wrong not as they must be"

# Columns of a kind: runs, as expected, exit codes, first words, median and worst seconds.
summary() {
    local kind
    for kind in $kinds; do
        awk -F '\t' -v kind="$kind" '$1 == kind { print $3 }' "$work/rows" | sort -n >"$work/times"
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$kind" "$(wc -l <"$work/times")" \
            "$(awk -F '\t' -v kind="$kind" '$1 == kind && $4 == "ok"' "$work/rows" | wc -l)" \
            "$(awk -F '\t' -v kind="$kind" '$1 == kind { print $2 }' "$work/rows" | sort -un | paste -sd ' ')" \
            "$(awk -F '\t' -v kind="$kind" '$1 == kind { print $5 }' "$work/rows" | sort | uniq -c | sort -rn | head -n 1 | sed 's/^ *[0-9]* //')" \
            "$(awk '{ t[NR] = $1 } END { print NR % 2 ? t[(NR + 1) / 2] : (t[NR / 2] + t[NR / 2 + 1]) / 2 }' "$work/times")" \
            "$(tail -n 1 "$work/times")"
    done
}

if [ -n "$out" ]; then
    summary >"$work/summary"
    {
        echo "Faults of random ranks at random moments of a training run: $device device, $ranks_list ranks, dist.timeout = $timeout_s s, seed $seed;"
        echo "$all runs, $wrong not as they must be (exit code, one error line, in $limit_s s, nothing left behind)."
        echo "Seconds: from the fault to the end of mpirun; config, gpus and nccl_*: from the start."
        echo "$(nproc) cores, $("$MPIRUN" --version | head -n 1), $("$bin/train" --version | head -n 1)"
        echo
        echo "| kind | runs | as expected | exit | message | median s | worst s |"
        echo "| --- | --- | --- | --- | --- | --- | --- |"
        awk -F '\t' '{ printf "| %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, $7 }' "$work/summary"
    } >"$out.md"
    {
        echo "{"
        echo "  \"device\": \"$device\", \"ranks\": \"$ranks_list\", \"timeout_s\": $timeout_s, \"limit_s\": $limit_s, \"seed\": $seed,"
        echo "  \"runs\": $all, \"wrong\": $wrong,"
        echo "  \"kinds\": ["
        awk -F '\t' '{ gsub(/["\\]/, "\\\\&", $5); printf "%s    { \"kind\": \"%s\", \"runs\": %s, \"as_expected\": %s, \"exit\": \"%s\", \"message\": \"%s\", \"median_s\": %s, \"worst_s\": %s }", (NR > 1 ? ",\n" : ""), $1, $2, $3, $4, $5, $6, $7 } END { print "" }' "$work/summary"
        echo "  ]"
        echo "}"
    } >"$out.json"
fi
[ "$wrong" = 0 ]
