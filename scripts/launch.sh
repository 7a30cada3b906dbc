#!/usr/bin/env bash
# launch.sh - runs mpirun, and starts a run again after a fault. Write it in place of mpirun (Open MPI's; or MPICH's, on one host):
#
#   scripts/launch.sh -np 4 ./train config.ini
#   scripts/launch.sh --host a:4,b:4 -np 8 --bind-to none ./train config.ini --set run.max_restarts=10
#
# The first argument that is a program named train (or lockstep-train) divides mpirun's options from train's.
#
# Which run: each command begins a new run, as train does. It goes on with an earlier run only if launch.sh started that run with the
# same options and the run is not complete; so the same command may be given again after a reboot. It says which run it goes on with.
# --resume among train's options goes on with any run; --set run.resume=off always begins a new one.
# The options of a run that launch.sh started are in RUN/launched.ini. The run's folder must be visible from this host.
#
# Restarts: the run is started again from its newest good checkpoint, up to run.max_restarts times, after exit codes of faults (1, 4, 5,
# those of signals, mpirun's own). It is not started again when it is complete (0), when it was stopped on request (75), when it would
# end in the same way again (2, 3, 6, 7), or when two starts in a row have left no newer checkpoint. One line says why it is started
# again and from where.
# Hosts of --host and --hostfile: before each restart, each host is tried in the way in which mpirun would reach it (ssh, or
# plm_rsh_agent). Hosts that do not answer are left out. As many ranks are started as the others have slots for and the batch allows.
# With Open MPI, options are added without which mpirun refuses to start: --allow-run-as-root for root; --oversubscribe if no hosts are
# named and there are more ranks than cores. A line says so.
# Signals: USR1, TERM, INT and HUP to this script ask the run to save and stop (75). A second INT ends it at once (130).
#
# The exit code is the program's; 2 if the command, a host or the environment is not as expected.
# Environment: MPIRUN, the name of mpirun; LOCKSTEP_RESTART_PAUSE, seconds before each restart, such as 5 (the default) or 0.5.
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
is_count() { [[ $1 =~ ^[0-9]{1,9}$ ]]; } # digits only: bash would run commands in other text that it computes with

case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac

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
[ $# -gt 0 ] || refuse "no program named train in the command: scripts/launch.sh [MPIRUN OPTION]... ./train CONFIG.ini [TRAIN OPTION]..." \
  "(--help says more)"
program=$1
[ "$program" != train ] || program=./train # the shell would look for it on the PATH
shift
arguments=("$@")
mpirun=${MPIRUN:-mpirun}
command -v "$mpirun" >/dev/null || refuse "no $mpirun (Debian, Ubuntu: apt-get install openmpi-bin)"
# Whose it is decides about its options. Open MPI's launcher was ORTE up to version 4 and is PRRTE since 5.
version=$("$mpirun" --version 2>&1)
[ $? -lt 128 ] || version=$("$mpirun" --version 2>&1) # a signal to all of the job's processes met it
case $version in
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

case $config in
bench | report | sweep | find-lr | race | compare | eval | predict | export | augment | ckpt | metrics | audit | doctor | verdict | devices | help)
  refuse "this script starts training runs: for 'train $config', write $mpirun in its place" ;;
esac

# What is wrong with the configuration is said here, once.
options=$("$program" "${arguments[@]}" --print-config) || exit
# option SECTION.KEY: its value
option() {
  awk -v section="[${1%.*}]" -v key="${1#*.}" '
    /^\[/ { here = $0 == section }
    here && $1 == key && $2 == "=" { sub(/^[^=]*= ?/, ""); print }' <<<"$options"
}
max_restarts=$(option run.max_restarts)

# --- the run and its folder

holds_run() { # FOLDER
  [ -e "$1/run.json" ] || [ -e "$1/metrics.jsonl" ]
}

# latest_run TEST: the folder with the highest number of this configuration that passes the test; with --resume and holds_run it is the one
# that train chooses (src/run/run_folder.c).
latest_run() {
  local base=${config##*/} folder=. number highest=0 found=''
  case $config in */*) folder=${config%/*} ;; esac
  if [ "$resume" != off ] && [ "$base" = config.ini ] && holds_run "$folder"; then
    echo "$folder"
    return
  fi
  for folder in runs/"${base%.*}"-*; do
    number=${folder##*-}
    is_count "$number" || continue
    [ $((10#$number)) -gt $highest ] && "$1" "$folder" && highest=$((10#$number)) found=$folder
  done
  echo "$found"
}

# Makes the folder with the lowest free number for a new run, and prints it; as train chooses it, so that two starts at the same time
# get different folders. Prints nothing if it cannot be made: train says why.
new_folder() {
  local base=${config##*/} number folder
  mkdir -p runs 2>/dev/null
  for ((number = 1; number < 100000; number++)); do
    printf -v folder 'runs/%s-%03d' "${base%.*}" $number
    mkdir -- "$folder" 2>/dev/null && echo "$folder" && return
    [ -e "$folder" ] || return
  done
}

# RUN/launched.ini, the mark of a run that launch.sh started: the configuration's name and all options.
readonly mark_head='; launch.sh started this run. The same command goes on with it, until it is complete.'
mark() { printf '%s\n; %s\n%s\n' "$mark_head" "$(realpath -- "$config" 2>/dev/null)" "$options"; }
# Did launch.sh start the run in this folder, with the options of now, and is the run not complete?
is_ours() { # FOLDER
  holds_run "$1" && [ ! -e "$1/summary.json" ] && [ "$(cat -- "$1/launched.ini" 2>/dev/null)" = "$(mark)" ]
}

# Sets folder (empty: train says what is wrong), goes_on (yes: the next start goes on with its run) and new_run (yes: it holds no run yet).
folder='' goes_on='' new_run='' resume=$(option run.resume)
choose_run() {
  local name given=$run_dir
  name=$(option run.name)
  [ -n "$given" ] || [ -z "$name" ] || given=runs/$name
  folder=$given
  if [ "$resume" != off ]; then
    [ -n "$folder" ] || folder=$(latest_run holds_run)
  elif [[ " ${arguments[*]} " != *" run.resume=off "* ]]; then
    [ -n "$folder" ] || folder=$(latest_run is_ours)
    if [ -n "$folder" ] && is_ours "$folder"; then
      goes_on=yes
      say "goes on with $folder, which the same command started and which is not complete (--set run.resume=off begins a new run)"
    fi
  fi
  [ "$resume" != must ] || return
  [ -n "$folder" ] || folder=$(new_folder)
  [ -n "$folder" ] || return
  [ -n "$run_dir" ] || arguments+=(--run-dir "$folder")
  holds_run "$folder" || new_run=yes
}

# A new run's folder gets its mark before the start, so that the same command finds the run after a reboot.
marked=''
mark_run() {
  [ -n "$new_run" ] && mkdir -p -- "$folder" 2>/dev/null || return
  [ ! -e "$folder/launched.ini" ] && [ ! -L "$folder/launched.ini" ] ||
    [ "$(head -n 1 -- "$folder/launched.ini")" = "$mark_head" ] || return # a file of the user's
  mark 2>/dev/null >"$folder/launched.ini" && marked=yes
}
# A start that was refused leaves no folder.
unmark_run() {
  [ -n "$new_run" ] && ! holds_run "$folder" || return
  [ -z "$marked" ] || rm -f -- "$folder/launched.ini"
  rmdir -- "$folder" 2>/dev/null
}

newest_checkpoint() {
  local checkpoint newest=''
  for checkpoint in "$folder"/checkpoints/update-*[0-9]; do
    [[ ${checkpoint##*/update-} =~ ^[0-9]+$ ]] && [ -e "$checkpoint/manifest.json" ] && newest=$checkpoint
  done
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
# A name is given to ssh, and so may not be an option: letters, digits, and . _ - : % [ ] after the first; with --host also USER@.
add_host() { # NAME SLOTS WHERE
  [[ $1 =~ ^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[][A-Za-z0-9_:][][A-Za-z0-9._:%-]*$ ]] ||
    refuse "$3: '$1' is no name of a host: letters, digits and . _ - : are expected, and no - at the beginning"
  is_count "$2" || refuse "$3: host $1: '$2' is no number of slots"
  [ -n "${slots[$1]-}" ] || hosts+=("$1")
  slots[$1]=$((${slots[$1]-0} + 10#$2))
}
# read_host_file: the lines of a host file: NAME [slots=N] [max_slots=N]...  # comment
read_host_file() {
  local line name count
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line%%#*}
    read -r name line <<<"${line%$'\r'}"
    [ -n "$name" ] || continue
    count=1
    [[ " $line" =~ [[:space:]](slots|count|cpus?)[[:space:]]*=[[:space:]]*([^[:space:]]*) ]] && count=${BASH_REMATCH[2]}
    add_host "${name#*@}" "$count" "$host_file"
  done <"$host_file"
}
read_hosts() {
  local i word entry name count parts
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
      for entry in "${parts[@]}"; do
        name=${entry%%:*} count=1
        [ "$name" = "$entry" ] || count=${entry#*:}
        add_host "$name" "$count" "$word"
      done
      ;;
    -hostfile | --hostfile | -machinefile | --machinefile)
      host_file=${mpi[++i]-}
      [ -r "$host_file" ] || refuse "$word '$host_file': cannot be read"
      read_host_file
      ;;
    -mca | --mca | -gmca | --gmca | -prtemca | --prtemca)
      case ${mpi[i + 1]-} in plm_rsh_agent | plm_ssh_agent) agent=${mpi[i + 2]-} ;; esac
      i=$((i + 2))
      ;;
    esac
  done
  [ -z "$given_ranks" ] || is_count "$given_ranks" || refuse "-np '$given_ranks': a number of ranks is expected"
}

is_this_host() {
  local mine address
  mine=" $(hostname -I 2>/dev/null) 127.0.0.1 ::1 "
  case $1 in localhost | "$(hostname)" | "$(hostname -s 2>/dev/null)") return 0 ;; esac
  while read -r address _; do
    case $mine in *" $address "*) return 0 ;; esac
  done < <(getent ahosts -- "$1")
  return 1
}

answers() { # HOST
  local command
  is_this_host "$1" && return
  read -ra command <<<"${agent%%:*}" # of several, as "ssh : rsh", the first
  [ ${#command[@]} != 0 ] || command=(ssh)
  [ "${command[0]##*/}" != ssh ] || command+=(-o BatchMode=yes -o ConnectTimeout=5 --)
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
  threads=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
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
  [ -n "$given_ranks" ] || return 0
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
      awk -v kept=" ${alive[*]} " '{ name = $1; sub(/[#\r].*/, "", name); sub(/.*@/, "", name); if (index(kept, " " name " ")) print }' \
        <"$host_file" >"$kept_file"
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
trap '[ -z "$kept_file" ] || rm -f "$kept_file"; unmark_run' EXIT

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

# Runs mpirun, which is to go on with the run or not; sets code. A request is repeated (after 1, 2, 4, ... s): ranks that are only being started do not hear it yet.
run_once() {
  "${own[@]}" "$mpirun" "${line[@]}" "$program" "${arguments[@]}" ${goes_on:+--set run.resume=auto} </dev/null &
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
ended_with() { tail -n 1 "$folder/metrics.jsonl" 2>/dev/null | grep -q "\"event\":\"end\".*\"exit_code\":$1\>"; }

# is_complete: the run has its summary, or this command trains none.
is_complete() { ! holds_run "$folder" || [ -e "$folder/summary.json" ]; }

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
  213) echo "exit 213: mpirun could not begin" ;;
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

pause=${LOCKSTEP_RESTART_PAUSE:-5}
[[ $pause =~ ^[0-9]{0,6}([0-9]|\.[0-9]{1,6})$ ]] ||
  refuse "LOCKSTEP_RESTART_PAUSE = '$pause': a number of seconds is expected, such as 5 or 0.5"

read_hosts
make_allowed
make_options
choose_run
mark_run
still=0
for ((attempt = 1; ; attempt++)); do
  before=$(newest_checkpoint)
  run_once
  goes_on=yes
  after=$(newest_checkpoint)
  [ "$family:$code:${asked:+asked}" != hydra:0:asked ] || ! ended_with 75 || code=75
  # MPICH 4.2's mpirun sometimes returns 0 though a rank has failed.
  [ "$family:$code" != hydra:0 ] || is_complete || code=5
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
  nap "$pause"
  if [ -z "$asked" ] && ! try_hosts; then
    say "no host answers: not started again"
    exit $code
  fi
  if [ -n "$asked" ]; then
    say "stopped between two starts; the same command goes on $(from "$after")"
    exit 75
  fi
  make_options
done
