# slurm.sh - for test scripts: SLURM on this machine, two nodes n1 and n2. Sourced by them before anything is done, with the script's
# argument, the folder of the built programs; sources mpi.sh. Or else the end of a test that is skipped, with the reason.
#   $bin        that folder;   $jobs   scripts/slurm;   the current folder is an empty one, gone with the script
#   ended JOB   waits for its end, prints its state and exit code
# The daemons run in namespaces of the script (processes, mounts, network), which end with it: nothing of them is seen outside, nothing
# stays. A killed step's ranks have 2 s between TERM and KILL (KillWait).
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
. "$(dirname "${BASH_SOURCE[0]}")/mpi.sh" || exit 1
# shellcheck disable=SC2034 # used by the scripts
jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts/slurm" && pwd)
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
  eventually nodes_are_idle
}
nodes_are_idle() { [ "$(timeout 10 sinfo -h -N -o %t | grep -c idle)" = 2 ]; }
if ! start_slurm 2>start.log; then
  tail -n 5 ./*.log
  check "SLURM has started" no yes
  finish
fi

has_ended() { [[ $(scontrol show job "$1" | grep -oE 'JobState=[A-Z]+') != *=@(PENDING|CONFIGURING|RUNNING|COMPLETING) ]]; }
ended() { # JOB: prints its state and exit code
  eventually has_ended "$1"
  scontrol show job "$1" | grep -oE '(JobState|ExitCode)=[^ ]+' | tr '\n' ' '
}
