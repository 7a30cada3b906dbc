# Training under SLURM: srun on one node and on two, its exit codes, and the job files of scripts/slurm/. SLURM's own daemons run in
# namespaces of this script (processes, mounts, network), which end with it: nothing of them is seen outside, nothing stays.
# Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
if [ -z "${LOCKSTEP_SLURM_INSIDE-}" ]; then
  for tool in srun sbatch slurmctld slurmd munged ip; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || {
      echo "skipped: no $tool (Debian, Ubuntu: scripts/install-packages.sh cluster)"
      exit 77
    }
  done
  apart=(unshare --mount --net --uts --ipc --pid --fork --kill-child --mount-proc)
  if [ "$(id -u)" != 0 ] || ! "${apart[@]}" true 2>/dev/null; then
    echo "skipped: SLURM's daemons need root, and a kernel or container with namespaces"
    exit 77
  fi
  LOCKSTEP_SLURM_INSIDE=1 exec "${apart[@]}" bash "$0" "$bin"
fi
PATH=$PATH:/usr/sbin:/sbin
# shellcheck source=tests/support/mpi.sh
. "$(dirname "$0")/../support/mpi.sh"
jobs=$(cd "$(dirname "$0")/../../scripts/slurm" && pwd)
mount -t tmpfs none /run && mount -t tmpfs none /dev/shm && mkdir -p /run/munge /run/work && cd /run/work || exit 1

# A host named n1 with an address of its own; SLURM takes none from the loopback device. Node n2 is a second host name on it.
cat >slurm.conf <<EOF
ClusterName=lockstep
SlurmctldHost=n1(10.79.0.1)
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
StateSaveLocation=$PWD/state
TmpFS=$PWD/tmp.%n
SlurmctldPidFile=$PWD/slurmctld.pid
SlurmctldLogFile=$PWD/slurmctld.log
SlurmdSpoolDir=$PWD/spool.%n
SlurmdPidFile=$PWD/slurmd.%n.pid
SlurmdLogFile=$PWD/slurmd.%n.log
NodeName=n1 NodeHostname=n1 NodeAddr=10.79.0.1 Port=17001 CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname=n2 NodeAddr=10.79.0.1 Port=17002 CPUs=2 RealMemory=1000
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
EOF
export SLURM_CONF=$PWD/slurm.conf TMPDIR=$PWD # TMPDIR: Open MPI's
start_slurm() {
  echo n1 >/proc/sys/kernel/hostname
  ip link set lo up && ip link add name net0 type bridge && ip addr add 10.79.0.1/24 dev net0 && ip link set net0 up || return
  mkdir state spool.n1 spool.n2 tmp.n1 tmp.n2 && head -c 128 /dev/urandom >key && chmod 600 key || return
  munged --force --key-file="$PWD/key" --pid-file="$PWD/munged.pid" --seed-file="$PWD/seed" --log-file="$PWD/munged.log" || return
  slurmctld -c && slurmd -N n1 && unshare --uts sh -c 'echo n2 >/proc/sys/kernel/hostname; exec slurmd -N n2' || return
  for _ in $(seq 100); do
    [ "$(timeout 2 sinfo -h -N -o %t | grep -c idle)" = 2 ] && return
    sleep 0.1
  done
  return 1
}
if ! start_slurm 2>start.log; then
  tail -n 5 ./*.log
  check "SLURM has started" no yes
  finish
fi

cat >net.ini <<EOF
[network]
input = 1x12x12
[conv1]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
[relu1]
layer = relu
[flat]
layer = flatten
[fc]
layer = linear
out_features = 4
EOF
cat >run.ini <<EOF
[run]
deterministic = true
[data]
dataset = synthetic
shape = 1x12x12
classes = 4
train_samples = 240
test_samples = 100
[model]
file = net.ini
[train]
global_batch = 32
[device]
threads = 1
[log]
every = 4
EOF
# The program, leaving its process number behind.
cat >rank.sh <<EOF
#!/bin/sh
echo \$\$ >"$PWD/pid.\$SLURM_PROCID"
exec "$bin/train" "\$@"
EOF
chmod +x rank.sh
train=$bin/train

field() { grep -oE "\"$2\": *[^,}]*" "$1/summary.json" 2>/dev/null | head -n 1 | sed 's/.*:[[:space:]]*//; s/"//g'; }
same() { # FOLDER RC RANKS
  check "$1: exit" "$2" 0
  check "$1: ranks" "$(field "$1" world_size)" "$3"
  check "$1: weights_hash" "$(field "$1" weights_hash)" "$(field alone weights_hash)"
  [ -n "$(field "$1" weights_hash)" ] || cat "$(basename "$1").log" lockstep-"$(basename "${1%-1}" | grep -oE '[0-9]+$')".log 2>/dev/null
}
"$train" run.ini --quiet --run-dir alone || exit 1
ranks 2 30 "$train" run.ini --quiet --run-dir mpirun >mpirun.log 2>&1
same mpirun $? 2
timeout 30 srun --mpi=pmix -N1 -n2 "$train" run.ini --run-dir srun >srun.log 2>&1
same srun $? 2
check "srun: lines, no bar and no colours" "$(grep -c $'[\r\033]' srun.log)" 0
timeout 30 srun --mpi=pmix -N2 -n2 "$train" run.ini --quiet --run-dir nodes >nodes.log 2>&1
same nodes $? 2
timeout 30 srun --mpi=pmix -N2 -n4 "$train" run.ini --quiet --run-dir nodes4 >nodes4.log 2>&1
same nodes4 $? 4

# Each task by itself, where MPI was forgotten: said once.
timeout 30 srun --mpi=none -N2 -n2 "$train" run.ini --dry-run >apart.log 2>&1
check "without --mpi=pmix: exit" $? 0
check "without --mpi=pmix: one warning" "$(grep -c '^warning: srun started 2 tasks without MPI' apart.log)" 1

# How a step ends: WHAT RC ERRORS COMMAND...; ERRORS: a pattern of their number
ends() {
  local what=$1 rc=$2 errors=$3
  shift 3
  timeout 30 "$@" >ends.log 2>&1
  check "$what: exit" $? "$rc"
  rc=$(grep -c '^error:' ends.log)
  check "$what: errors" "$rc" "$(grep -oE "^$errors\$" <<<"$rc")"
  none_left pid.*
}
# Sends SIGNAL to rank 1 of the run in FOLDER when some updates are done.
strike() { # SIGNAL FOLDER
  for _ in $(seq 200); do
    [ "$(grep -c '"train"' "$2/metrics.jsonl" 2>/dev/null)" -ge 2 ] 2>/dev/null && break
    sleep 0.1
  done
  kill "-$1" "$(cat pid.1)"
}
long="run.ini --quiet --set train.epochs=1000000 --set dist.timeout=2 --run-dir"
ends "refused" 2 1 srun --mpi=pmix -N1 -n2 "$train" run.ini --set train.epochs=many
strike KILL killed &
# shellcheck disable=SC2086 # several words
ends "a rank is killed" 137 "[01]" srun --mpi=pmix -N1 -n2 ./rank.sh $long killed
strike STOP stopped &
# shellcheck disable=SC2086
ends "a rank hangs" 5 1 srun --mpi=pmix -N1 -n2 ./rank.sh $long stopped
strike STOP stopped2 &
# shellcheck disable=SC2086
ends "a rank on another node hangs" 5 1 srun --mpi=pmix -N2 -n2 ./rank.sh $long stopped2

# The job files. Their sizes are for real nodes: -n, -c and the like go before them.
export TRAIN=$train
ended() { # JOB: prints its state and exit code
  for _ in $(seq 200); do
    case $(scontrol show job "$1" | grep -oE 'JobState=[A-Z]+') in
    *=PENDING | *=CONFIGURING | *=RUNNING | *=COMPLETING) sleep 0.1 ;;
    *) break ;;
    esac
  done
  scontrol show job "$1" | grep -oE '(JobState|ExitCode)=[^ ]+' | tr '\n' ' '
}
one=$(sbatch --parsable -n2 -c1 "$jobs/one-node.sbatch" run.ini --quiet)
many=$(DATA_INTERFACE=net0 sbatch --parsable -N2 --ntasks-per-node=1 -c1 "$jobs/many-nodes.sbatch" run.ini --quiet)
check "one-node.sbatch" "$(ended "$one")" "JobState=COMPLETED ExitCode=0:0 "
same "runs/lockstep-$one" 0 2
check "many-nodes.sbatch" "$(ended "$many")" "JobState=COMPLETED ExitCode=0:0 "
same "runs/lockstep-$many" 0 2
bad=$(sbatch --parsable -n2 -c1 "$jobs/one-node.sbatch" run.ini --set train.epochs=many)
check "one-node.sbatch, refused" "$(ended "$bad")" "JobState=FAILED ExitCode=2:0 "

# requeue.sbatch with a program that returns 75 at first. SLURM waits two minutes before it starts such a job again, here two seconds:
# a node refuses a job that it has ended in the same second.
cat >stopped.sh <<EOF
#!/bin/sh
[ -n "\${SLURM_RESTART_COUNT-}" ] || exit 75
exec "$train" "\$@"
EOF
chmod +x stopped.sh
again=$(TRAIN=$PWD/stopped.sh sbatch --parsable -n2 -c1 "$jobs/requeue.sbatch" run.ini --quiet)
for _ in $(seq 100); do
  scontrol show job "$again" | grep -q 'Restarts=1' && sleep 2 && scontrol update JobId="$again" StartTime=now && break
  sleep 0.1
done
check "requeue.sbatch, the second time" "$(ended "$again")" "JobState=COMPLETED ExitCode=0:0 "
same "runs/lockstep-$again-1" 0 2
check "requeue.sbatch: nothing of the first time" "$(ls -d "runs/lockstep-$again-0" 2>/dev/null)" ""
finish
