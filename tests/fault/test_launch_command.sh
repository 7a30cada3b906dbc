# scripts/launch.sh, its command line: which run a command is for, what it refuses. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
launch=$(cd "$(dirname "$0")/../../scripts" && pwd)/launch.sh
# shellcheck source=tests/support/mpi.sh
. "$(dirname "$0")/../support/mpi.sh" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export MPIRUN OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cp "$(dirname "$launch")/../tests/support/small_net.ini" net.ini
cat >x.ini <<'END'
[data]
dataset = synthetic
shape = 1x12x12
classes = 4
train_samples = 64
test_samples = 20
[model]
file = net.ini
[train]
epochs = 1
global_batch = 32
END
mkdir other
sed 's#net.ini#../net.ini#' x.ini >other/x.ini

# --- which run

# launched NAME EXIT RUNS [OPTION OF train]...: launch.sh ends with this code; these runs are in runs/ then.
config=x.ini
launched() {
  "$launch" --bind-to none -np 1 "$bin/train" $config --quiet "${@:4}" >log 2>&1 </dev/null
  check "$1: exit" $? "$2"
  check "$1: runs" "$(cd runs 2>/dev/null && echo *)" "$3"
}
said() { grep -c "^launch\\.sh: $1" log; }
# A train that saves and stops after two updates, as one that is asked to.
cat >train <<END
#!/bin/sh
case "\$*" in *--print-config*) exec "$bin/train" "\$@" ;; esac
"$bin/train" "\$@" --set checkpoint.every_updates=1 && rm -f "\$(ls -d runs/*/summary.json | tail -n 1)" && exit 75
END
chmod +x train
stopped() { # NAME RUNS [OPTION OF train]...
  "$launch" --bind-to none -np 1 train $config --quiet "${@:3}" >log 2>&1 </dev/null
  check "$1: exit" $? 75
  check "$1: runs" "$(cd runs && echo *)" "$2"
}

launched "a first run" 0 "x-001"
launched "a completed run is not gone on with" 0 "x-001 x-002" --set optimizer.lr=0.25
check "... and --set has an effect" "$(grep -c '^lr = 0.25$' runs/x-002/config.ini)" 1
launched "a completed run in a folder that is named" 2 "x-001 x-002" --run-dir runs/x-001
check "... is refused with a message" "$(grep -c 'holds a run already' log)" 1
launched "--resume of a completed run" 0 "x-001 x-002" --resume
launched "refused options leave no folder" 2 "x-001 x-002" --set train.epochs=many
launched "a refused start leaves no folder" 3 "x-001 x-002" --set data.dataset=folder --set data.path=none
launched "a dry run leaves no folder" 0 "x-001 x-002" --dry-run

"$bin/train" x.ini --quiet --set checkpoint.every_updates=1 && rm runs/x-003/summary.json
launched "an unfinished run that train started by itself" 0 "x-001 x-002 x-003 x-004"

stopped "stopped" "x-001 x-002 x-003 x-004 x-005"
stopped "the same command goes on" "x-001 x-002 x-003 x-004 x-005"
check "... and says so" "$(said 'goes on with runs/x-005')" 1
stopped "other options begin a new run" "x-001 x-002 x-003 x-004 x-005 x-006" --set optimizer.lr=0.25
stopped "the first command again" "x-001 x-002 x-003 x-004 x-005 x-006"
check "... goes on with its own run" "$(said 'goes on with runs/x-005')" 1
stopped "run.resume=off begins a new run" "x-001 x-002 x-003 x-004 x-005 x-006 x-007" --set run.resume=off
config=other/x.ini
stopped "another configuration of the same name" "x-001 x-002 x-003 x-004 x-005 x-006 x-007 x-008"

rm -r runs
config=x.ini
launched "--resume without a run" 2 "" --resume
mkdir named
echo "a user's file" >named/launched.ini
launched "a folder with a file of the mark's name" 0 "" --run-dir named
check "... keeps it" "$(cat named/launched.ini)" "a user's file"

# --- what it refuses

# refused TEXT WORD...: exit 2 and one line with the text, before anything is tried or computed. $TEXT may not run a command.
refused() {
  local text=$1
  shift
  "$launch" "$@" -np 1 "$bin/train" x.ini --run-dir refused >log 2>&1 </dev/null
  check "$*: exit" $? 2
  check "$*: says" "$(said ".*$text")" 1
  check "$*: starts nothing" "$(ls -d refused planted 2>/dev/null)" ""
}
# An agent that would plant a file, as ssh does with -oProxyCommand=...
printf '#!/bin/sh\ntouch "%s/planted"\n' "$work" >agent
chmod +x agent
export OMPI_MCA_plm_rsh_agent=$work/agent
# shellcheck disable=SC2016,SC2043 # commands that must not run
while read -r name; do
  refused "is no name of a host" --host "$name:1"
  printf '%s slots=1' "$name" >hosts # no newline at the end
  refused "is no name of a host" --hostfile hosts
done <<'END'
-oProxyCommand=touch${IFS}planted
-l
a;b
a$(touch${IFS}planted)
a*
END
# shellcheck disable=SC2016 # commands that must not run
for count in 'x[$(touch planted)]' x -1 '*' 1e3 ''; do refused "is no number of slots" --host "localhost:$count"; done
# shellcheck disable=SC2016
printf 'localhost slots=x[$(touch${IFS}planted)]\n' >hosts
refused "is no number of slots" --hostfile hosts
refused "cannot be read" --hostfile missing
# shellcheck disable=SC2016
for pause in 'x[$(touch planted)]' 1e3 -1 0,5 . 5s; do
  LOCKSTEP_RESTART_PAUSE=$pause refused "LOCKSTEP_RESTART_PAUSE = '.*': a number of seconds is expected"
done
# shellcheck disable=SC2016
"$launch" --host localhost:1 -np 'x[$(touch planted)]' "$bin/train" x.ini >log 2>&1 </dev/null
check "ranks that are no number: exit" $? 2
check "ranks that are no number: starts nothing" "$(ls planted 2>/dev/null)" ""

# Other commands of train: each is named as what it is.
for word in $(sed -n 's/^COMMAND([^"]*"\([^"]*\)".*/\1/p' "$(dirname "$launch")/../src/command/commands.def"); do
  [ "$word" != train ] || continue
  "$launch" -np 1 "$bin/train" "$word" x.ini --seeds 1 >log 2>&1 </dev/null
  check "train $word: exit" $? 2
  check "train $word: says" "$(cat log)" "launch.sh: this script starts training runs: for 'train $word', write ${MPIRUN:-mpirun} in its place"
done

# What it accepts: functions of the script by themselves.
eval "$(sed -n '/^is_count() {/p; /^hosts=()/,/^read_host_file() {/p' "$launch" | sed '$d')"
eval "$(sed -n '/^read_host_file() {/,/^}/p' "$launch")"
refuse() { echo "refused: $*"; }
printf 'a slots=08\r\n# b slots=3\nuser@c max_slots=9 slots = 2 # slots=7\n\nfe80::1%%eth0 cpus=4\nd_e.f' >hosts
# shellcheck disable=SC2034 # read_host_file reads it
host_file=hosts
read_host_file
# shellcheck disable=SC2154 # hosts, slots: from the script
for name in "${hosts[@]}"; do printf '%s:%s ' "$name" "${slots[$name]}"; done >listed
check "a host file" "$(cat listed)" "a:8 c:2 fe80::1%eth0:4 d_e.f:1 "
finish
