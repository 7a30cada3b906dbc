# The wall clock stands still in 1970 while checkpoints are slow to write: the run waits for them and ends. And no source waits on the
# wall clock. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1

# Conditions are made and deadlines computed in one place; the wall clock is read in one place, for dates.
found=$(grep -rnE 'pthread_cond_init|PTHREAD_COND_INITIALIZER|CLOCK_REALTIME|pthread_mutex_timedlock|(sem|mq)_timed|\bgettimeofday\(|\btime\(NULL\)|system_clock' \
    src --include=*.c --include=*.h --include=*.cu --include=*.cuh | grep -vE '^src/base/(thread|clock)\.c:|^src/data/file_content\.c:[0-9]+:.*clock_gettime\(CLOCK_REALTIME, &now\)')
check "sources that wait on the wall clock, or may" "$found" ""
check "conditions of base/thread.c" "$(grep -c 'CLOCK_REALTIME\|pthread_cond_init(cond, NULL)' src/base/thread.c)" 0

if ! command -v cc >/dev/null; then
    echo "skipped: no C compiler, to build tests/support/stuck_clock.c"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tests/support/tiny.ini "$work/run.ini"
cp tests/support/small_net.ini "$work/net.ini"
for part in stuck_clock disk; do cc -shared -fPIC -O1 -o "$work/$part.so" tests/support/$part.c -ldl || exit 2; done
export ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0
echo "slow 20" >"$work/disk"
for n in 1 2; do
    if [ "$n" = 1 ]; then launch="timeout -k 5 300"; else launch="ranks $n 30"; fi
    # shellcheck disable=SC2086 # several words
    $launch env LOCKSTEP_TEST_DISK="$work/disk" LOCKSTEP_TEST_DISK_BELOW="$work/run$n/checkpoints" LD_PRELOAD="$work/stuck_clock.so $work/disk.so" \
        "$bin/train" "$work/run.ini" --quiet --run-dir "$work/run$n" --set device.type=cpu --set checkpoint.every_updates=3 --set checkpoint.keep_best=0 >"$work/log$n" 2>&1
    check "$n ranks: exit status" $? 0
    check "$n ranks: checkpoints" "$(find "$work/run$n/checkpoints" -name 'update-*' | grep -c .)" 2
done
finish
