# mpi.sh - for test scripts: sourced by them.
#   ranks N SECONDS PROGRAM ARGS...   runs PROGRAM on N ranks of this host, which takes less than SECONDS on an idle machine; ended by
#                                     force after ten times that (then rc 124)
#   eventually COMMAND...             waits until COMMAND succeeds, for two minutes at most; COMMAND's last status
#   under_way FOLDER                  the run in FOLDER has done some updates
#   none_left PID_FILE...             fails when a process whose number stands in one of the files still exists
#   segments PID_FILE...              MPI's shared memory that those processes have
#   guard PID SECONDS                 ends PID by force if it is still there then; in the background: wait $guard after PID's end
#   field RUN KEY                     of the summary of a run: its folder, or the name of one in $work; or of another JSON file
#   check WHAT ACTUAL EXPECTED        one comparison; fails the script at its end
# Environment: MPI_FLAGS, further flags for mpirun. Exits 77 when there is no Open MPI launcher.
MPIRUN=$(command -v mpirun.openmpi || command -v mpirun) || MPIRUN=
if [ -z "$MPIRUN" ]; then
    echo "skipped: no mpirun (Debian, Ubuntu: apt-get install openmpi-bin)"
    exit 77
fi
# mpi_quiet: leaves mpirun's own text after a failed rank out. Open MPI's mpirun has no such option since version 5, so ranks removes the
# text, and writes it into the file $launcher_text, if that is set.
mpi_quiet=-quiet
case $("$MPIRUN" --version 2>&1) in
*"(Open MPI) "[1-4].* | *OpenRTE*) ;;
*"Open MPI"*) mpi_quiet='' ;;
*)
    echo "skipped: $MPIRUN is not Open MPI's"
    exit 77
    ;;
esac
mpi_root=
[ "$(id -u)" = 0 ] && mpi_root=--allow-run-as-root
checks=0 failures=0
# Ranks train on the CPU where a test does not ask for the emulated device: device.type = auto would refuse more ranks than GPUs.
export LOCKSTEP_CUDA_PLUGIN=${LOCKSTEP_CUDA_PLUGIN-/nonexistent}
# Open MPI is not built with sanitizers: its own locking, threads and leaks (of plugins that are gone by then) would be reported. Ours
# are seen in the tests that run without a launcher.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1:report_thread_leaks=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}"
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"

ranks() {
    local n=$1 seconds=$2
    shift 2
    # In a sanitizer build: what MPI's modules never free is not ours. Leaks are looked for where a rank is alone, without MPI.
    local -x ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
    # shellcheck disable=SC2206 # flags are several words
    local command=(timeout -k 2 $((10 * seconds)) "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none ${MPI_FLAGS-} -np "$n" "$@")
    if [ -n "$mpi_quiet" ]; then
        "${command[@]}" </dev/null
    else # mpirun's text stands between two lines of dashes; now and then PMIx has a line when a rank ends
        local rc=213
        # 213: no rank was started, because a killed mpirun of the same process number has left its folder
        for _ in 1 2 3; do
            [ "$rc" = 213 ] || break
            {
                "${command[@]}" </dev/null 2>&1 >&3 3>&- |
                    sed -u -e "/^-\{70,\}\$/,/^-\{70,\}\$/{w ${launcher_text:-/dev/null}" -e 'd}' -e '/^\[[^]]*\] P[MR][IT][XE] ERROR: /d' >&2
                rc=${PIPESTATUS[0]}
            } 3>&1
        done
        return "$rc"
    fi
}

check() {
    checks=$((checks + 1))
    if [ "$2" != "$3" ]; then
        failures=$((failures + 1))
        printf 'FAILED %s: is "%s", expected "%s"\n' "$1" "$2" "$3"
    else
        printf 'ok     %s\n' "$1"
    fi
}

eventually() {
    local end=$((SECONDS + 120))
    until "$@"; do
        [ $SECONDS -lt $end ] || return
        sleep 0.05
    done
}

# It ends without a signal: bash may run this script's traps, or none yet, in a child that is ended when it has just begun.
# shellcheck disable=SC2034 # guard: the scripts wait for it
guard() {
    (timeout "$2" tail -s 0.1 -f --pid="$1" /dev/null || kill -9 "$1") >/dev/null 2>&1 &
    guard=$!
}

field() {
    local file=$1
    [ ! -d "$file" ] || file=$1/summary.json
    [ -f "$file" ] || file=${work-.}/$1/summary.json
    grep -oE "\"$2\": *[^,}]*" "$file" 2>/dev/null | head -n 1 | sed 's/.*:[[:space:]]*//; s/"//g'
}

under_way() { [ "$(grep -c '"event":"train"' "$1/metrics.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null; }

# Sets left: processes that still run, of the numbers in these files. A zombie no longer runs.
list_running() {
    local pid state
    left=
    for pid in $(cat "$@" 2>/dev/null); do
        state=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1)
        [ -z "$state" ] || [ "$state" = Z ] || left="$left $pid"
    done
    [ -z "$left" ]
}

none_left() {
    local left
    eventually list_running "$@"
    check "no process left" "$left" ""
}

segments() { cat "$@" | while read -r pid; do grep -oE '/dev/shm/[^ ]+' "/proc/$pid/maps" 2>/dev/null; done | sort -u; }

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" = 0 ]
    exit
}
