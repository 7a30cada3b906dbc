# scripts/launch.sh over hosts, one of which vanishes: the run goes on with fewer ranks, takes the host again when it is back, and ends
# with the bits of an undisturbed one. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
launch=$(cd "$(dirname "$0")/../../scripts" && pwd)/launch.sh
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh" || exit 1
hosts_or_skip
# shellcheck source=tests/fault/common.sh
. "$(dirname "$0")/common.sh" || exit 1
trap 'hosts_down; rm -rf "$work"' EXIT
export MPIRUN LOCKSTEP_RESTART_PAUSE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts_up 3
h0=$(hosts_name 0) h1=$(hosts_name 1) h2=$(hosts_name 2)

# As ssh: a host that is cut off is not reached.
cat >"$work/agent" <<END
#!/bin/sh
ip -n "\$1" link show ctl0 2>/dev/null | grep -q 'state UP' || exit 255
exec "$hosts_scratch/agent" "\$@"
END
chmod +x "$work/agent"

start() { # NAME HOST OPTION, ITS VALUE, RANKS
  name=$1
  rm -f "$work/pid"
  # shellcheck disable=SC2016 # for the inner shell
  hosts_exec 0 sh -c 'echo $$ >"$0"; exec "$@"' "$work/pid" "$launch" $mpi_quiet --oversubscribe --bind-to none "$2" "$3" -np "$4" --mca plm rsh --mca plm_rsh_agent "$work/agent" \
    --mca orte_tmpdir_base "$hosts_scratch" --mca oob_tcp_if_include ctl0 --mca btl_tcp_if_include net0 --mca pml ob1 \
    --mca btl self,vader,tcp --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 \
    -x LOCKSTEP_CUDA_PLUGIN -x ASAN_OPTIONS "$work/bin/train" "$work/run.ini" --run-dir "$work/$1" --quiet >"$work/$1.log" 2>&1 </dev/null &
  job=$!
}
ends() { # CODE
  wait $job
  check "$name: exit" $? "$1"
}
ranks_of() { grep -oE '"world_size": *[0-9]+' "$work/$1/metrics.jsonl" | grep -oE '[0-9]+$' | tr '\n' ' '; }
restarted() { # COUNT: started again so often, and saved since
  until [ "$(said restart)" -ge "$1" ]; do sleep 0.1; done
  progress "$name"
}

# Four ranks on two hosts: the batch of four micro-batches allows two on the one that is left, and four when the other is back.
start lost --host "$h0:2,$h1:2" 4
progress lost
hosts_cut 1 both
restarted 1
says 1 "host $h1 does not answer: left out"
says 1 "2 ranks in place of 4"
hosts_mend 1
kill -9 "$(tail -n 1 "$work/pids")"
restarted 2
kill -TERM "$(cat "$work/pid")"
ends 75
check "lost: ranks" "$(ranks_of lost)" "4 2 4 "
says 5 ''
undisturbed lost

# Three hosts in a file, a rank each; with one of them lost, two.
printf '# three\n%s slots=1\n\n%s slots = 1\n%s\n' "$h0" "$h1" "$h2" >"$work/hosts"
start file --hostfile "$work/hosts" 3
ends 2
sed -i 's/global_batch = 32/global_batch = 48\nmicro_batch = 4/' "$work/run.ini"
start file --hostfile "$work/hosts" 3
progress file
hosts_cut 2 both
restarted 1
kill -USR1 "$(cat "$work/pid")"
ends 75
check "file: ranks" "$(ranks_of file)" "3 2 "
undisturbed file
eventually hosts_are_idle
check "nothing runs on the hosts" "$left" ""
finish
