# common.sh - for this folder's scripts: a run in ordered mode without an end that saves often, and what must be found after it was
# disturbed. Sourced after bin (the folder of the built programs) is set; sources mpi.sh, unless hosts.sh has. The caller removes $work.
#   $work/run.ini            some hundred to some thousand updates a second, a checkpoint about every third of one
#   $work/bin/train          the program; each of its processes leaves its number in $work/pids
#   newest NAME              update of the newest checkpoint of run $work/NAME; 0: there is none
#   progress NAME            waits until that is a later one than now
#   undisturbed NAME         goes on with it for some updates, on one rank: the weights are those of a run that was never disturbed, and no
#                            checkpoint of it was damaged
#   running TEXT             the processes that have TEXT in their command
#   said PATTERN             how many lines of launch.sh in $work/$name.log match
#   says COUNT PATTERN       that many do
#   nothing_left NAME        no process has $work in its command, none of $work/pids runs
# shellcheck source=tests/support/mpi.sh
[ -n "${MPIRUN-}" ] || . "$(dirname "${BASH_SOURCE[0]}")/../support/mpi.sh"
work=$(mktemp -d)
mkdir "$work/bin"
# shellcheck disable=SC2154 # bin: the caller's
cat >"$work/bin/train" <<END
#!/bin/sh
echo \$\$ >>"$work/pids"
exec "$bin/train" "\$@"
END
chmod +x "$work/bin/train"
cp "$(dirname "${BASH_SOURCE[0]}")/../support/small_net.ini" "$work/net.ini"
cat >"$work/run.ini" <<'END'
[run]
deterministic = true
[checkpoint]
every_minutes = 0.005
every_epochs = 0
[data]
dataset = synthetic
shape = 1x12x12
classes = 4
train_samples = 240
test_samples = 100
pad = 1
[model]
file = net.ini
[train]
epochs = 1000000
eval_every = 100
global_batch = 32
[optimizer]
lr = 0.005
[device]
threads = 1
[log]
every = 1000
[dist]
timeout = 20
END

newest() {
  local folder newest=''
  for folder in "$work/$1"/checkpoints/update-*[0-9]; do [ ! -e "$folder/manifest.json" ] || newest=$folder; done
  newest=${newest##*-}
  echo $((10#${newest:-0}))
}

saved_after() { [ "$(newest "$1")" -gt "$2" ]; }
progress() {
  local since
  since=$(newest "$1")
  eventually saved_after "$1" "$since" || check "$1: saves" "no checkpoint after update $since" "one"
}


undisturbed() {
  local end
  end=$(($(newest "$1") + 20))
  "$bin/train" "$work/run.ini" --resume --run-dir "$work/$1" --quiet --set train.max_updates=$end >"$work/last.log" 2>&1
  check "$1: goes on to its end" "$? $(cat "$work/last.log")" "0 "
  "$bin/train" "$work/run.ini" --run-dir "$work/$1-undisturbed" --quiet --set train.max_updates=$end >"$work/last.log" 2>&1
  check "$1: the undisturbed run" "$? $(cat "$work/last.log")" "0 "
  check "$1: the same bits after $end updates" "$(field "$1" weights_hash)" "$(field "$1-undisturbed" weights_hash)"
}

# shellcheck disable=SC2154 # name: the caller's
said() { grep -c "^launch\\.sh: .*$1" "$work/$name.log"; }
says() {
  check "$name: lines '$2'" "$(said "$2")" "$1"
  [ "$(said "$2")" = "$1" ] || cat "$work/$name.log"
}

# shellcheck disable=SC2062 # the pattern comes from standard input, so that grep does not find itself
running() { grep -alF --file=- /proc/[0-9]*/cmdline <<<"$1" 2>/dev/null; }

nothing_runs() {
  left=$(running "$work/")
  [ -z "$left" ]
}
nothing_left() {
  local left
  eventually nothing_runs
  check "$1: nothing runs" "$left" ""
  touch "$work/pids"
  none_left "$work/pids"
}
