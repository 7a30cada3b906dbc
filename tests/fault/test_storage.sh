# Disks that are full, read-only, over a quota, slow or failing, for all of a run or for a part of it: training goes on, checkpoints come
# back when the disk does, what was good stays good, and a run that cannot keep its result says so. Argument: the folder of the built
# programs. Where root may mount, real file systems are full and read-only, besides those of tests/support/disk.c.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
if ! command -v cc >/dev/null; then
    echo "skipped: no C compiler, to build tests/support/disk.c"
    exit 77
fi
# Mounts of this script are its own, and gone with it.
mounts=
if [ "$(id -u)" = 0 ] && [ -z "${LOCKSTEP_TEST_MOUNTS-}" ] && unshare -m true 2>/dev/null; then
    LOCKSTEP_TEST_MOUNTS=1 exec unshare -m bash "$0" "$1"
fi
[ -z "${LOCKSTEP_TEST_MOUNTS-}" ] || mounts=yes
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
cp tests/support/small_run/*.ini "$work"
cc -shared -fPIC -O1 -o "$work/disk.so" tests/support/disk.c -ldl || exit 2
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
options="--quiet --set device.type=cpu --set device.threads=1 --set train.epochs=6 --set checkpoint.every_updates=2 --set log.every=3
    --set checkpoint.every_epochs=0 --set run.deterministic=true"

# disk LINES...: of runs from now on, and of those that are running
disk() {
    printf '%s\n' "$@" >"$work/disk.new"
    mv "$work/disk.new" "$work/disk"
}

# start NAME RANKS OPTIONS...: a run in the background, its process in pid
start() {
    local name=$1 n=$2 launch=
    shift 2
    run=$work/$name
    # shellcheck disable=SC2086 # several words
    [ "$n" = 1 ] || launch="$MPIRUN $mpi_root $mpi_quiet --oversubscribe --bind-to none ${MPI_FLAGS-} -np $n"
    # shellcheck disable=SC2086 # several words
    $launch env LD_PRELOAD="$work/disk.so" LOCKSTEP_TEST_DISK="$work/disk" LOCKSTEP_TEST_DISK_BELOW="$run/" \
        "$bin/train" "$work/run.ini" $options --run-dir "$run" "$@" </dev/null >"$work/log" 2>&1 &
    pid=$!
    guard $pid 600
}

# ended WHAT EXIT
ended() {
    wait $pid
    local rc=$?
    wait $guard
    [ $rc = "$2" ] || grep -vE '^epoch' "$work/log" | tail -n 20
    check "$1: exit" $rc "$2"
}

# await EVENT COUNT [WORDS]: until the run has so many of them in its metrics, or is over
await() {
    until [ "$(count "$1" "${3-}")" -ge "$2" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
}

# The run that was started last: its launcher passes that on to all ranks.
ask_to_stop() { kill -USR1 $pid; }

count() { # EVENT [WORDS]
    grep "\"event\":\"$1\"" "$run/metrics.jsonl" 2>/dev/null | grep -c -- "${2-}"
}

yes_if() { if "$@"; then echo yes; else echo no; fi; }
last() { basename "$(find "$run/checkpoints" -path '*/update-*/manifest.json' | sort | tail -n 1 | xargs -r dirname)"; }

# whole WHAT: the run is complete, with the bits of an undisturbed one, and nothing half-written lies there
whole() {
    local good=$work/good file
    for file in weights.safetensors checkpoints/update-000000000030/weights.safetensors checkpoints/update-000000000030/state.safetensors; do
        cmp -s "$run/$file" "$good/$file" || check "$1: $file" differs same
    done
    check "$1: complete" "$(field "$run" status) $(field "$run" weights_hash)" "completed $hash"
    check "$1: nothing half-written" "$(find "$run" -name '*.tmp*' -o -name '.*' | tr '\n' ' ')" ""
    check "$1: metrics are JSON lines" "$(grep -vc '^{.*}$' "$run/metrics.jsonl")" 0
}

# resumes WHAT AT: goes on, on a good disk, from update AT to the end
resumes() {
    disk
    start "$(basename "$run")" 1 --resume
    ended "$1, resumed" 0
    check "$1: resumed at" "$(grep -o '"resumed_at_update":[0-9]*' "$run/metrics.jsonl" | tail -n 1)" "\"resumed_at_update\":$2"
    whole "$1, resumed"
}

disk
start good 1
ended "undisturbed" 0
hash=$(field "$run" weights_hash)
check "undisturbed: checkpoints" "$(count checkpoint)" 15

# --- writing fails for a while
while IFS='|' read -r what rule text; do
    disk "slow 3"
    start "$what" 1
    await checkpoint 1
    disk "slow 3" "$rule" "hold 8" # the run waits until the disk is good again
    await warning 2 "could not be written.*$text"
    before=$(last)
    disk "slow 1"
    ended "$what" 0
    check "$what: the warning repeats and says why" "$(yes_if test "$(count warning "could not be written (older ones are untouched).*$text")" -ge 2)" yes
    check "$what: an older checkpoint was there meanwhile" "$(yes_if test -n "$before")" yes
    whole "$what"
done <<'END'
full|room 0 ENOSPC|No space left
quota|room 0 EDQUOT|quota
failing-fsync|fail fsync EIO|fsync.*Input/output
failing-rename|fail rename EIO|rename: Input/output
failing-close|fail close EIO|close: Input/output
read-only|fail open EROFS|Read-only
no-permission|fail mkdir EACCES|Permission
END

# --- no file may grow further than this (ulimit -f): as a full disk
disk "slow 3"
start limited 1 --set log.every=1000 # the metrics stay below it
await checkpoint 2
prlimit --pid $pid --fsize=$(($(stat -c %s "$run/checkpoints/$(last)/weights.safetensors") - 1)):
await warning 2 "could not be written"
prlimit --pid $pid --fsize=unlimited:
disk
ended limited 0
check "limited: the warning repeats and says why" \
    "$(yes_if test "$(count warning "could not be written (older ones are untouched).*write: File too large")" -ge 2)" yes
whole limited

disk
(ulimit -f 2 && start limited-start 1 && ended "limited from the start" 7 &&
    check "limited from the start: one error" \
        "$(grep -c "^error: $run: the weights and a checkpoint need a file of .* KiB, but files have at most 2.0 KiB (ulimit -f)" "$work/log")" 1
    [ $failures = 0 ]) || failures=$((failures + 1))

# --- and is asked to stop meanwhile
stops_full() { # NAME RANKS LINES...: the disk has these from the first checkpoint on
    local name=$1 n=$2 newest text
    shift 2
    disk "slow 3"
    start "$name" "$n"
    await checkpoint 1
    disk "$@"
    await warning 1 "could not be written"
    newest=$(last)
    ask_to_stop
    ended "$name" 7
    text=$(grep '^error: ' "$work/log")
    check "$name: one error" "$(grep -c '^error: ' "$work/log")" 1
    check "$name: it says why, and what is left" "$(yes_if grep -q "stopped by SIGUSR1.*could not be written.*newest good one is .*$newest: the same command with --resume" <<<"$text")" yes
    resumes "$name" "$((10#${newest#update-}))"
}
stops_full stopped-full 1 "slow 3" "room 0 ENOSPC"
stops_full stopped-quota 2 "slow 3" "room 0 EDQUOT"

# --- the final weights cannot be written: the last checkpoint has them
disk "fail rename EIO stuck/weights.safetensors"
start stuck 2
ended "no final weights" 7
check "no final weights: one error" "$(grep -c '^error: .*stuck/weights.safetensors' "$work/log")" 1
check "no final weights: the last checkpoint" "$(last)" update-000000000030
trained=$(count train)
resumes "no final weights" 30
check "no final weights: nothing was trained again" "$(count train)" "$trained"

# --- slow: held up by the copy only; what is due meanwhile is left out
disk "slow 1" "pause 60 2000"
start slow 1
ended "slow" 0
check "slow: what is left out is told once" "$(count warning 'is left out')" 1
check "slow: what is left out" "$(yes_if test "$(count checkpoint)" -ge 2 -a "$(count checkpoint)" -lt 15)" yes
held=$(grep -o '"held_seconds":[0-9.e-]*' "$run/metrics.jsonl" | cut -d : -f 2 | sort -g | tail -n 1)
check "slow: an update waits for the copy, not for the disk" "$(awk -v held="$held" 'BEGIN { print held < 2 ? "yes" : held }')" yes
cmp -s "$run/weights.safetensors" "$work/good/weights.safetensors" || check "slow: weights" differ same
# The last checkpoint takes longer than ranks otherwise wait for each other; 18 calls are of run.json, config.ini and network.ini.
disk "pause 26 3000"
start slow-end 2 --set checkpoint.every_updates=1000 --set dist.timeout=2
ended "slow at the end" 0
disk "pause 26 3000"
start slow-stop 2 --set checkpoint.every_updates=100000 --set checkpoint.every_minutes=0 --set dist.timeout=2 --set train.epochs=10000
await train 1
ask_to_stop
ended "slow at a stop" 75

# --- what should be a folder
disk
mkdir "$work/in-the-way"
echo >"$work/in-the-way/checkpoints"
start in-the-way 1
ended "checkpoints is a file" 7
check "checkpoints is a file: one error" "$(grep -c '^error: .*in-the-way/checkpoints' "$work/log")" 1
disk "slow 3"
start gone 1
await checkpoint 2
mv "$run/checkpoints" "$run/.away"
await checkpoint 4
rm -r "$run/.away"
disk
ended "checkpoints were removed" 0
whole "checkpoints were removed"

# --- the run's folder is moved, replaced or removed: nothing lands elsewhere, and the run ends
holds() { find "$1" -mindepth 1 2>/dev/null | wc -l; }
while read -r name n how; do
    disk "slow 3"
    start "$name" "$n" --set train.epochs=100000
    await checkpoint 2
    mv "$run" "$run-away"
    [ "$how" = moved ] || cp -r "$work/good" "$run" # of another run
    before=$(holds "$run")
    ended "$name" 7
    check "$name: one line says what and where" "$(grep -c "^error: .*run folder $run: was moved, renamed or replaced; stopped after \
update [0-9]* of .*; the run is in $run-away and goes on from there by --resume --run-dir" "$work/log")" 1
    check "$name: one error" "$(grep -c '^error: ' "$work/log")" 1
    check "$name: nothing landed where it was" "$(holds "$run")" "$before"
    run=$run-away
    from=$(last)
    start "$name-away" 1 --resume --set train.max_updates=$((10#${from#update-} + 10))
    ended "$name, where it is now" 0
    check "$name, where it is now: complete" "$(field "$run" status)" completed
done <<'END'
moved 1 moved
moved-ranks 2 moved
replaced 1 replaced
END
disk "slow 3"
start moved-late 1
await checkpoint 12
disk "slow 100"
await train 1 '"update":30,' # the last one is done, what is left is to be written
mv "$run" "$run-away"
disk "slow 3"
ended "moved at the end" 7
check "moved at the end: says where" \
    "$(grep -c "^error: run folder $run: was moved, renamed or replaced during the run, which is complete: its results are in $run-away$" "$work/log")" 1
check "moved at the end: nothing landed where it was" "$(holds "$run")" 0
run=$run-away
whole "moved at the end"
disk "slow 3"
start removed 1 --set train.epochs=100000
await checkpoint 2
until rm -rf "$run" 2>/dev/null; do :; done # files appear in it meanwhile
ended "removed" 7
check "removed: one error" "$(grep '^error: ' "$work/log" | sed 's/after update [0-9]*/after update N/')" \
    "error: run folder $run: was removed; stopped after update N of 500000, of which nothing is left"
check "removed: nothing landed where it was" "$(holds "$run")" 0

# --- metrics cannot be written
disk
start deaf 1 --set train.epochs=1
ended "to be deaf" 0
rm "$run/metrics.jsonl" "$run/summary.json"
ln -s /dev/full "$run/metrics.jsonl"
options=${options/--quiet/}
disk "fail write ENOSPC checkpoints/" # many failures follow the first one, which is still known at the end
start deaf 1 --set train.epochs=6 --set log.every=1 --set checkpoint.every_updates=2 --resume
options="--quiet $options"
ended "metrics cannot be written" 7
disk
check "metrics cannot be written: told once" "$(grep -c '^warning: .*metrics.jsonl.*No space left' "$work/log")" 1
check "metrics cannot be written: told at the end" "$(grep -c '^error: .*metrics.jsonl' "$work/log")" 1
cmp -s "$run/weights.safetensors" "$work/good/weights.safetensors" || check "metrics cannot be written: weights" differ same

disk "slow 3"
start cut 1
await train 2
: >"$run/metrics.jsonl" # by whoever needs room
disk
ended "metrics cut" 0
check "metrics cut: lines go on from the new end" "$(grep -vc '^{.*}$' "$run/metrics.jsonl")" 0
check "metrics cut: the end is there" "$(count end)" 1
rm "$run/metrics.jsonl" "$run/summary.json"
mkfifo "$run/metrics.jsonl"
start cut 1 --resume
ended "metrics are a pipe" 7
check "metrics are a pipe: one error" "$(grep -c '^error: .*metrics.jsonl: cannot be written: is a pipe, expected a regular file' "$work/log")" 1

# --- real file systems
await_said() { # WORDS COUNT
    until [ "$(grep -c -- "$1" "$work/log")" -ge "$2" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
}
if [ -n "$mounts" ] && mkdir "$work/small" && mount -t tmpfs -o size=1m tmpfs "$work/small" 2>/dev/null; then
    options=${options/--quiet/}
    disk # long enough for what happens here
    start small/full 1 --set train.epochs=100000 --set checkpoint.every_updates=10 --set log.every=1 --set train.eval_every=0 \
        --set log.tensorboard=true
    await checkpoint 2
    head -c 2000000 /dev/zero >"$work/small/filler" 2>/dev/null
    await_said "could not be written" 2
    await_said "metrics.jsonl: cannot write a line" 1
    await_said "events.out.tfevents.*: cannot write an event" 1
    rm "$work/small/filler"
    await checkpoint $(($(count checkpoint) + 1))
    ask_to_stop
    ended "a full file system, then a stop" 75
    check "a full file system: the warning says how much is missing" \
        "$(yes_if test "$(grep -c 'a checkpoint needs .* but only .* are free' "$work/log")" -ge 1)" yes
    check "a full file system: metrics have gaps, told once" "$(grep -c '^warning: .*metrics.jsonl: cannot write a line' "$work/log")" 1
    check "a full file system: TensorBoard's file has gaps, told once" "$(grep -c '^warning: .*tfevents.*: cannot write an event' "$work/log")" 1
    check "a full file system: TensorBoard's file has whole records" "$(python3 -c 'import sys
sys.path.insert(0, "tests/cli")
import check_tensorboard, glob
points = [event for event in check_tensorboard.read(*glob.glob(sys.argv[1] + "/tensorboard/*"))]
print(len(points) > 10, points[-1][1])' "$run" 2>&1 | tail -n 1)" "True $(grep '"event":"train"' "$run/metrics.jsonl" | tail -n 1 | grep -oE '"update":[0-9]+' | cut -d : -f 2)"
    check "a full file system: metrics are JSON lines" "$(grep -vc '^{.*}$' "$run/metrics.jsonl")" 0
    check "a full file system: the stop's checkpoint" "$(last)" "$(grep -o 'update-[0-9]* holds all of it' "$work/log" | cut -d ' ' -f 1)"
    umount "$work/small"

    # Too small from the start: said before the first update, and nothing is in the way of the next start.
    mount -t tmpfs -o size=72k tmpfs "$work/small"
    disk
    start small/tiny 1
    ended "too little room at the start" 7
    check "too little room at the start: one error" \
        "$(grep -c "^error: $run: the weights and a checkpoint need .* KiB, but only .* KiB are free" "$work/log")" 1
    check "too little room at the start: nothing was trained" "$(count train)" 0
    umount "$work/small"

    disk "slow 6"
    start small-read-only 1
    await checkpoint 2
    # The same folder, read-only, over itself: that takes effect at once, while remounting waits until no file is open for writing.
    mkdir "$work/same"
    mount --bind "$run/checkpoints" "$work/same"
    mount -o remount,bind,ro "$work/same"
    mount --bind "$work/same" "$run/checkpoints"
    await_said "could not be written.*Read-only file system" 2
    umount -l "$run/checkpoints"
    disk
    ended "a read-only file system" 0
    check "a read-only file system: the warning repeats" "$(yes_if test "$(count warning Read-only)" -ge 2)" yes
    whole "a read-only file system"
    umount "$work/same"
else
    echo "skipped: full and read-only file systems (only root may mount)"
fi
finish
