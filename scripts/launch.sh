#!/usr/bin/env bash
# launch.sh - mpirun that starts a run again when a fault has ended it. Write it in place of mpirun (Open MPI's; or MPICH's, on one host):
#
#   scripts/launch.sh -np 4 ./train config.ini
#   scripts/launch.sh --host a:4,b:4 -np 8 --bind-to none ./train config.ini --set run.max_restarts=10
#
# The first argument that is a program named train (or lockstep-train) divides mpirun's options from train's. train gets run.resume = auto: the run folder's
# run goes on from its newest good checkpoint, or is started where there is none (a line says so); the same command after a reboot goes
# on, too. With --resume among train's options there must be a run. The folder must be seen from here.
#
# Started again, run.max_restarts times: after exit codes of faults (1, 4, 5, those of signals, mpirun's own). Not started again: what
# is complete (0), stopped on request (75), or would end so once more (2, 3, 6, 7); nor where two starts in a row have left no newer
# checkpoint. Each time there is one line that says why and from where.
# Hosts of --host, --hostfile: before it starts again, each is tried in the way mpirun would reach it (ssh, or plm_rsh_agent); those that
# do not answer are left out, and as many ranks started as the others have slots for and the batch allows. Later they are tried again.
# With Open MPI it adds what mpirun refuses to go without: --allow-run-as-root for root; --oversubscribe, where no hosts are named and
# there are more ranks than cores. It says so.
# Signals: USR1, TERM, INT and HUP to this script ask the run to save and stop (75). A second INT ends it at once (130).
# The exit code is the program's.
# Environment: MPIRUN, its name; LOCKSTEP_RESTART_PAUSE, seconds before the first restart (default 5; twice as long each time, up to 60).
set -u

# What is closed would be taken by the first file or pipe that is opened, of mpirun's too: a line for stderr that lands in its pipe of
# signals is one (a line end has USR1's number).
true >&2 || exec 2>/dev/null # its message goes nowhere
{ true >&1; } 2>/dev/null || exec >/dev/null
{ true <&0; } 2>/dev/null || exec </dev/null

say() { printf 'launch.sh: %s\n' "$*" >&2; }
refuse() {
  say "$*"
  exit 2
}

# --- the command line

is_program() {
  local name=${1##*/}
  case $name in
  train) [ -f "$1" ] && [ -x "$1" ] ;;
  lockstep-train) command -v "$1" >/dev/null ;; # as packages install it, on the PATH
  *) false ;;
  esac
}

mpi=()
while [ $# -gt 0 ] && ! is_program "$1"; do
  mpi+=("$1")
  shift
done
[ $# -gt 0 ] || refuse "no program named train in the command: scripts/launch.sh [MPIRUN OPTION]... ./train CONFIG.ini [TRAIN OPTION]..."
program=$1
shift
arguments=("$@")
mpirun=${MPIRUN:-mpirun}
command -v "$mpirun" >/dev/null || refuse "no $mpirun (Debian, Ubuntu: apt-get install openmpi-bin)"
# Whose it is decides about its options. Open MPI's launcher was ORTE up to version 4 and is PRRTE since 5.
case $("$mpirun" --version 2>&1) in
*OpenRTE* | *"(Open MPI) "[1-4].*) family=orte parameter=--mca prefix=OMPI_MCA_ ;;
*"(Open MPI) "* | *PRRTE*) family=prrte parameter=--prtemca prefix=PRTE_MCA_ ;;
*HYDRA* | *"Intel(R) MPI"*) family=hydra ;;
*) refuse "$mpirun: neither Open MPI's nor MPICH's mpirun (environment: MPIRUN names it)" ;;
esac

# CONFIG.ini and --run-dir among train's arguments.
config='' run_dir=''
for ((i = 0; i < ${#arguments[@]}; i++)); do
  case ${arguments[i]} in
  --run-dir) run_dir=${arguments[++i]-} ;;
  --run-dir=*) run_dir=${arguments[i]#*=} ;;
  --set | --trace | --trace-updates) i=$((i + 1)) ;;
  -*) ;;
  *) config=${config:-${arguments[i]}} ;;
  esac
done

# What is wrong with the configuration is said here, once.
options=$("$program" "${arguments[@]}" --print-config) || exit
# option SECTION.KEY: its value
option() {
  awk -v section="[${1%.*}]" -v key="${1#*.}" '
    /^\[/ { here = $0 == section }
    here && $1 == key && $2 == "=" { sub(/^[^=]*= ?/, ""); print }' <<<"$options"
}
max_restarts=$(option run.max_restarts)

# --- the run's folder, as train chooses it (src/files/run_folder.h)

holds_run() {
  [ -e "$1/run.json" ] || [ -e "$1/metrics.jsonl" ]
}

run_folder() {
  local name base folder number highest=0 found=''
  name=$(option run.name) base=${config##*/}
  [ -z "$run_dir" ] || { echo "$run_dir" && return; }
  [ -z "$name" ] || { echo "runs/$name" && return; }
  folder=.
  case $config in */*) folder=${config%/*} ;; esac
  if [ "$base" = config.ini ] && holds_run "$folder"; then
    echo "$folder"
    return
  fi
  for folder in runs/"${base%.*}"-*; do
    number=${folder##*-}
    case $number in '' | *[!0-9]*) continue ;; esac
    [ $((10#$number)) -gt $highest ] && holds_run "$folder" && highest=$((10#$number)) found=$folder
  done
  echo "$found"
}

newest_checkpoint() {
  local folder newest=''
  for folder in "$(run_folder)"/checkpoints/update-*[0-9]; do [ ! -e "$folder/manifest.json" ] || newest=$folder; done
  echo "$newest"
}

# from CHECKPOINT: "from update 481 (runs/x-001/checkpoints/update-000000000481)"
from() {
  [ -n "$1" ] || { echo "from the beginning: there is no checkpoint yet" && return; }
  echo "from update $((10#${1##*-})) ($1)"
}

# --- hosts and ranks

# hosts, slots: what mpirun's options name, each host once; given_ranks: -np.
hosts=() given_ranks='' host_file='' agent=${OMPI_MCA_plm_rsh_agent-${PRTE_MCA_plm_ssh_agent-}}
declare -A slots=()
add_host() { # NAME SLOTS
  [ -n "${slots[$1]-}" ] || hosts+=("$1")
  slots[$1]=$((${slots[$1]-0} + $2))
}
read_hosts() {
  local i word line name count parts
  for ((i = 0; i < ${#mpi[@]}; i++)); do
    word=${mpi[i]}
    if [ $family = hydra ]; then
      case $word in
      -host | -hosts | --host | --hosts | -f | -hostfile | -machine | -machinefile | --hostfile | --machinefile)
        refuse "$word: hosts are tried and left out with Open MPI's mpirun only; with $mpirun ranks are of this host"
        ;;
      esac
    fi
    case $word in
    -np | --np | -n | --n | -c) given_ranks=${mpi[++i]-} ;;
    -host | --host | -H)
      IFS=, read -ra parts <<<"${mpi[++i]-}"
      for line in "${parts[@]}"; do
        name=${line%%:*} count=1
        [ "$name" = "$line" ] || count=${line##*:}
        add_host "$name" "$count"
      done
      ;;
    -hostfile | --hostfile | -machinefile | --machinefile)
      host_file=${mpi[++i]-}
      [ -r "$host_file" ] || refuse "$host_file: cannot be read"
      while read -r name line; do
        case $name in '' | '#'*) continue ;; esac
        count=$(grep -oE 'slots *= *[0-9]+' <<<"$line" | head -n 1 | grep -oE '[0-9]+')
        add_host "${name#*@}" "${count:-1}"
      done <"$host_file"
      ;;
    -mca | --mca | -gmca | --gmca | -prtemca | --prtemca)
      case ${mpi[i + 1]-} in plm_rsh_agent | plm_ssh_agent) agent=${mpi[i + 2]-} ;; esac
      i=$((i + 2))
      ;;
    esac
  done
  for name in "${hosts[@]}"; do
    case ${slots[$name]} in '' | *[!0-9]*) refuse "host $name: '${slots[$name]}' is no number of slots" ;; esac
  done
}

is_this_host() {
  local mine address
  mine=" $(hostname -I 2>/dev/null) 127.0.0.1 ::1 "
  case $1 in localhost | "$(hostname)" | "$(hostname -s 2>/dev/null)") return 0 ;; esac
  while read -r address _; do
    case $mine in *" $address "*) return 0 ;; esac
  done < <(getent ahosts "$1")
  return 1
}

answers() { # HOST
  local command
  is_this_host "$1" && return
  read -ra command <<<"${agent:-ssh}"
  [ "${command[0]##*/}" != ssh ] || command+=(-o BatchMode=yes -o ConnectTimeout=5)
  timeout -k 1 10 "${command[@]}" "$1" true </dev/null >/dev/null 2>&1
}

# May this number of ranks share a batch? As ls_batches_plan (src/data/sampler.c) decides.
batch_allows() { # RANKS
  local batch micro
  batch=$(option train.global_batch) micro=$(option train.micro_batch)
  if [ "$micro" = auto ] || [ "$micro" = 0 ]; then
    micro=1
    if [ "$(option run.deterministic)" = true ]; then
      micro=$((batch % 4 == 0 ? batch / 4 : batch))
      local share=$micro
      [ $micro -le 512 ] || micro=512
      while [ $((share % micro)) != 0 ]; do micro=$((micro - 1)); done
    fi
  fi
  [ "$1" -ge 1 ] && [ $((batch % (micro * $1))) = 0 ]
}

# Sets alive (those of hosts that answer) and ranks ('': as the options say).
alive=() ranks=''
try_hosts() {
  local host all=0 left=0
  ranks='' alive=()
  for host in "${hosts[@]}"; do
    all=$((all + slots[$host]))
    if answers "$host"; then
      alive+=("$host")
      left=$((left + slots[$host]))
    else
      say "host $host does not answer: left out"
    fi
  done
  [ ${#alive[@]} != ${#hosts[@]} ] || return 0
  [ ${#alive[@]} != 0 ] || return 1
  local wanted=${given_ranks:-$all}
  ranks=$wanted
  if [ "$wanted" -gt "$all" ]; then # more ranks than slots: as many to each as before
    ranks=$((wanted * left / all))
  elif [ "$wanted" -gt "$left" ]; then
    ranks=$left
  fi
  [ "$ranks" -ge 1 ] || ranks=1
  while ! batch_allows "$ranks"; do ranks=$((ranks - 1)); done
  [ "$ranks" = "$wanted" ] || say "$ranks ranks in place of $wanted"
}

cores() {
  local threads by_core
  threads=$(nproc)
  by_core=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
  echo $((by_core > 0 && by_core < threads ? by_core : threads))
}

# allowed: options without which Open MPI's mpirun would refuse what the others say.
allowed=()
allow() { # OPTION, WHY
  case " ${mpi[*]} " in *" $1 "* | *" ${1#-} "*) return ;; esac
  allowed+=("$1")
  say "$2: $1"
}
make_allowed() {
  [ $family != hydra ] || return 0
  [ "$(id -u)" != 0 ] || [ -n "${OMPI_ALLOW_RUN_AS_ROOT-}" ] || allow --allow-run-as-root "as root"
  # A scheduler says itself how many ranks its hosts take.
  [ ${#hosts[@]} = 0 ] && [ -z "${SLURM_JOB_ID-}${PBS_NODEFILE-}${LSB_DJOB_HOSTFILE-}${PE_HOSTFILE-}" ] || return 0
  case $given_ranks in '' | *[!0-9]*) return ;; esac
  case " ${mpi[*]} " in *[-_:]oversubscribe* | *OVERSUBSCRIBE* | *-use-hwthread-cpus*) return ;; esac
  [ "$given_ranks" -le "$(cores)" ] || allow --oversubscribe "$given_ranks ranks share $(cores) cores"
}

# mpirun's options for the hosts that are left.
kept_file=''
make_options() {
  local i list='' host word
  line=("${allowed[@]}")
  if [ ${#hosts[@]} -gt 1 ]; then
    # A host that is lost must be noticed by mpirun before the ranks' watchdogs end the run (docs/cluster.md). What the options or the
    # environment say goes before.
    for word in "oob_tcp_keepalive_time 5" "oob_tcp_keepalive_intvl 5" "oob_tcp_keepalive_probes 3"; do
      host=$prefix${word% *}
      case " ${mpi[*]} " in *" ${word% *} "*) continue ;; esac
      [ -n "${!host-}" ] || line+=("$parameter" "${word% *}" "${word#* }")
    done
  fi
  if [ -z "$ranks" ]; then
    line+=("${mpi[@]}")
    return
  fi
  for host in "${alive[@]}"; do list=$list${list:+,}$host:${slots[$host]}; done
  for ((i = 0; i < ${#mpi[@]}; i++)); do
    word=${mpi[i]}
    case $word in
    -np | --np | -n | --n | -c) i=$((i + 1)) ;;
    -host | --host | -H) line+=("$word" "$list") && i=$((i + 1)) ;;
    -hostfile | --hostfile | -machinefile | --machinefile)
      [ -n "$kept_file" ] || kept_file=$(mktemp)
      awk -v kept=" ${alive[*]} " '{ name = $1; sub(/.*@/, "", name); if (index(kept, " " name " ")) print }' "$host_file" >"$kept_file"
      line+=("$word" "$kept_file") && i=$((i + 1))
      ;;
    *) line+=("$word") ;;
    esac
  done
  line+=(-np "$ranks")
}

# --- requests to stop

pid='' asked='' again_at=0 again_after=1
running() { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; }

# mpirun passes USR1 on to the ranks, once it listens to it (signal 10: bit 9 of the mask).
pass_on() {
  local mask
  running || return 0
  mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null)
  [ $((0x${mask:-0} & 0x200)) = 0 ] || kill -USR1 "$pid" 2>/dev/null
}

end_at_once() {
  local try
  say "ended by a second SIGINT"
  if running; then
    kill -TERM "$pid" # it ends its ranks within two seconds
    for ((try = 0; try < 50; try++)); do
      running || break
      sleep 0.1
    done
    running && kill -KILL "$pid" # they go with it
  fi
  exit 130
}

heard() { # NAME
  [ "$1" != INT ] || [ -z "$asked" ] || end_at_once
  [ -z "$asked" ] || return 0
  asked=SIG$1
  say "$asked: the run is asked to save and stop$([ "$1" != INT ] || echo " (once more ends it at once)")"
  again_at=$SECONDS
}
for name in USR1 TERM INT HUP; do
  # shellcheck disable=SC2064 # now
  trap "heard $name" $name
done
trap '[ -z "$kept_file" ] || rm -f "$kept_file"' EXIT

# nap SECONDS: may be cut short by a signal.
nap() {
  sleep "$1" &
  wait $!
  kill $! 2>/dev/null
}

# In a session of its own, so that the terminal's INT and HUP reach this script alone; ended with it.
own=()
! command -v setsid >/dev/null || own+=(setsid)
! setpriv --pdeathsig TERM true 2>/dev/null || own+=(setpriv --pdeathsig TERM)

# Runs mpirun; sets code. A request is repeated (after 1, 2, 4, ... s): ranks that are only being started do not hear it yet.
run_once() {
  "${own[@]}" "$mpirun" "${line[@]}" "$program" "${arguments[@]}" --set run.resume=auto </dev/null &
  pid=$!
  again_after=1
  while :; do
    wait "$pid"
    code=$?
    running || break
    while running && [ -n "$asked" ]; do
      if [ $SECONDS -ge $again_at ]; then
        pass_on
        again_at=$((SECONDS + again_after)) again_after=$((again_after * 2))
      fi
      nap 0.2
    done
  done
  wait "$pid" # its own status, if a signal came last
  code=$?
  pid=''
}

# --- starts

# ended_with CODE: a run that has ended by itself says so, in the last line of its metrics. MPICH's launcher returns a signal's number as a
# code, joins the codes of several ranks by OR (6 and 7 may be faults there: SIGABRT of a transport that misses its peer), and after a signal
# to itself may return 0.
ended_with() { tail -n 1 "$(run_folder)/metrics.jsonl" 2>/dev/null | grep -q "\"event\":\"end\".*\"exit_code\":$1\>"; }

# Would the run end so once more?
is_final() { # CODE
  case $family:$1 in
  hydra:6 | hydra:7) ended_with "$1" ;;
  *:[02367] | *:75) ;;
  *) false ;;
  esac
}

reason() { # CODE
  case $1 in
  1) echo "exit 1: an internal error, or mpirun's own" ;;
  4) echo "exit 4: device, driver, library or memory" ;;
  5) echo "exit 5: communication" ;;
  205) echo "exit 205: mpirun lost a host" ;;
  *)
    if [ $family = hydra ] && [ "$1" -lt 32 ] && name=$(kill -l "$1" 2>/dev/null); then
      echo "exit $1: SIG$name (if one) ended a rank"
    elif [ "$1" -gt 128 ] && name=$(kill -l $(($1 - 128)) 2>/dev/null); then
      echo "exit $1: SIG$name ended a rank"
    else
      echo "exit $1"
    fi
    ;;
  esac
}

read_hosts
make_allowed
make_options
pause=${LOCKSTEP_RESTART_PAUSE:-5} still=0
for ((attempt = 1; ; attempt++)); do
  before=$(newest_checkpoint)
  run_once
  after=$(newest_checkpoint)
  [ "$family:$code:${asked:+asked}" != hydra:0:asked ] || ! ended_with 75 || code=75
  ! is_final "$code" || exit "$code"
  if [ -n "$asked" ]; then
    say "$(reason $code), after $asked; the same command goes on $(from "$after")"
    [ $code = 138 ] && exit 75 # SIGUSR1 met a rank that did not listen yet
    exit $code
  fi
  still=$([ "$after" = "$before" ] && echo $((still + 1)) || echo 0)
  if [ $attempt -gt "$max_restarts" ]; then
    say "$(reason $code); not started again (run.max_restarts = $max_restarts); the same command goes on $(from "$after")"
    exit $code
  elif [ $still -ge 2 ]; then
    say "$(reason $code), and two starts in a row have left no newer checkpoint: not started again; it would go on $(from "$after")"
    exit $code
  fi
  say "$(reason $code); restart $attempt of $max_restarts in $pause s, $(from "$after")"
  [ "$pause" = 0 ] || nap "$pause"
  if [ -z "$asked" ] && ! try_hosts; then
    say "no host answers: not started again"
    exit $code
  fi
  if [ -n "$asked" ]; then
    say "stopped between two starts; the same command goes on $(from "$after")"
    exit 75
  fi
  make_options
  pause=$((pause * 2 < 60 ? pause * 2 : 60))
done
