# Ctrl-C in a terminal: once it stops the run with a checkpoint and says the command that goes on, which does; twice it ends at once.
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/common.sh" "$1" || exit 1
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 to make a terminal with"
    exit 77
fi
export TERM=xterm LANG=C.UTF-8
unset NO_COLOR LC_ALL LC_CTYPE
press() { timeout 120 python3 "$tests/cli/interrupt.py" "$@"; }
lines() { tr '\r' '\n' <out | sed 's/\x1b\[[0-9;]*[A-Za-z]//g'; }
goes_on() { lines | sed -n 's/^go on by  //p'; }

quick=(--set log.every=1 --set train.eval_every=0 --set checkpoint.every_epochs=0 --set train.epochs=9000)
press "left" -- "$train" tiny.ini "${quick[@]}" --set train.max_updates=3000 --run-dir "a run" >out
check "once: exit" $? 75
check "once: it answers at once" "$(lines | grep -c '^stopping: a checkpoint is written after this update; another Ctrl-C ends at once$')" 1
check "once: it stops" "$(lines | grep -c '^stopped by SIGINT on rank 0 after update [0-9]* of 3000: a run/checkpoints/update-[0-9]* holds all of it$')" 1
check "once: no ^C is left in a line" "$(lines | grep -c '^.*\^C.*[a-z]')" 0
expected="$train tiny.ini ${quick[*]} --set train.max_updates=3000 --run-dir 'a run' --resume"
check "once: the command that goes on" "$(goes_on)" "$expected"
(eval "$(goes_on)") >gone-on 2>&1
check "the command goes on: exit" $? 0
check "the command goes on: from there" "$(grep -c "^resumed   after update $(lines | sed -n 's/^stopped by .* update \([0-9]*\) of.*/\1/p') of 3000" gone-on)" 1
check "the command goes on: to the end" "$(grep -c '^completed: .* after 3000 updates' gone-on)" 1

# Without --run-dir, and with --resume: the folder is named all the same.
press "left" -- "$train" --resume "--run-dir=a run" tiny.ini "${quick[@]}" --set train.max_updates=90000 >out
check "of a resumed run" "$(goes_on)" "$train tiny.ini ${quick[*]} --set train.max_updates=90000 --run-dir 'a run' --resume"
press "left" -- "$train" tiny.ini "${quick[@]}" >out
check "of a run without a folder of its own" "$(goes_on)" "$train tiny.ini ${quick[*]} --run-dir runs/tiny-001 --resume"

# A slow update: minutes on this device.
press "run       " "stopping: " -- "$train" tiny.ini --run-dir slow --set device.type=ref --set "model.file=$tests/../configs/models/resnet9.ini" \
    --set train.global_batch=240 --set data.shape=3x32x32 >out
check "twice: exit" $? 130
check "twice: it says how to go on" "$(lines | grep -A 1 '^ended at once; from the newest checkpoint it goes on by$' | tail -n 1)" \
    "  $train tiny.ini --set device.type=ref --set model.file=$tests/../configs/models/resnet9.ini --set train.global_batch=240 --set data.shape=3x32x32 --run-dir slow --resume"

# mpirun's own words come before.
env --default-signal=INT "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none -np 2 "$train" tiny.ini "${quick[@]}" --run-dir two \
    >out 2>&1 </dev/null &
pid=$!
eventually under_way two
kill -USR1 $pid
wait $pid
check "two ranks: exit" $? 75
check "two ranks: the command that goes on" "$(goes_on)" \
    "$MPIRUN ${mpi_root:+$mpi_root }${mpi_quiet:+$mpi_quiet }--oversubscribe --bind-to none -np 2 $train tiny.ini ${quick[*]} --run-dir two --resume"
finish
