# hosts.sh - for test and bench scripts: several hosts on this machine, as network namespaces. Sourced by them; sources mpi.sh.
#   hosts_lack [latency]          prints why there can be no hosts here (none with latency); nothing if there can
#   hosts_or_skip [latency]       the same, as the end of a test that is skipped
#   hosts_up N [LATENCY_MS] [RATE_MBIT]   N hosts (2 to 16); 0: as fast as the machine. LATENCY_MS is one way: a round trip has two
#   hosts_name I                  host name of host I (from 0), as the program's messages have it; also its namespace's
#   hosts_run RANKS_PER_HOST SECONDS PROGRAM ARGS...   under mpirun, launched from host 0; ended by force after ten times SECONDS (then 124)
#   hosts_exec I COMMAND...       COMMAND on host I
#   hosts_measure BIN             prints what the links give between the first two hosts: round trip, 1 MB all-reduce
#   hosts_cut I data|control|both, hosts_mend I
#   hosts_pids                    numbers of the processes that run on the hosts
#   hosts_are_idle                there are none; else they are in left
#   hosts_down                    ends them and removes everything; for the script's own EXIT trap, may be called twice
# Environment: MPI_FLAGS, further flags for mpirun. Output that is caught is better sent to a file than to $(...), which bash waits for
# before it hears a signal.
#
# Each host has two networks, so that the one that carries data can be cut while the launcher's stays: net0 (10.77.0.I+1) and ctl0
# (10.78.0.I+1). Addresses exist in the namespaces only, names contain this script's process number: runs do not meet. What a script
# that was killed left behind, the next hosts_up removes. The launcher reaches a host as by ssh: with none of the environment, so
# variables need mpirun's -x. Rates are limited by tbf, latency is made by netem, or where the kernel has none by delay_link.c.
# shellcheck source=tests/support/mpi.sh
[ -n "${MPIRUN-}" ] || . "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
hosts_source=$(dirname "${BASH_SOURCE[0]}")
hosts_tag=lockstep$$
hosts_count=0 hosts_scratch='' hosts_link_pid=''

hosts_are_idle() {
    left=$(hosts_pids)
    [ -z "$left" ]
}

hosts_name() { echo "$hosts_tag-h$1"; }

hosts_has_netem() {
    unshare --net sh -c 'ip link set lo up && tc qdisc add dev lo root netem delay 1ms' 2>/dev/null
}

hosts_lack() {
    if [ "$(id -u)" != 0 ]; then
        echo "hosts as network namespaces need root"
    elif ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
        echo "no ip and tc (Debian, Ubuntu: apt-get install iproute2)"
    elif ! unshare --net --uts --mount sh -c 'ip link add name x type bridge && ip link add name y type veth peer name z' 2>/dev/null ||
        ! ip netns add "$hosts_tag-try" 2>/dev/null; then
        echo "no network namespaces with veth and bridge on this kernel, or not in this container"
    else
        ip netns del "$hosts_tag-try"
        if [ "${1-}" = latency ] && ! hosts_has_netem; then
            if ! command -v cc >/dev/null; then
                echo "no latency: this kernel has no netem, and there is no C compiler for delay_link.c"
            elif ! unshare --net ip tuntap add dev x mode tap 2>/dev/null; then
                echo "no latency: this kernel has neither netem nor TAP devices"
            fi
        fi
    fi
}

hosts_or_skip() {
    local reason
    reason=$(hosts_lack "$@")
    [ -z "$reason" ] || {
        echo "skipped: $reason"
        exit 77
    }
}

# A cable between host I and the switch's bridge. HOST I DEVICE BRIDGE NETWORK
hosts_cable() {
    ip link add name "$2-$1" netns "$hosts_tag-net" type veth peer name "$2" netns "$(hosts_name "$1")" &&
        ip -n "$hosts_tag-net" link set "$2-$1" master "$3" up
}

# A device that is down, with more addresses than a host's monitor has room for: nobody is reached there.
hosts_unused() { # NAMESPACE
    local i
    ip -n "$1" link add name unused type bridge || return
    for i in 1 2 3 4 5 6 7 8; do ip -n "$1" addr add "10.79.0.$i/24" dev unused || return; done
}

# net0 of all hosts by the kernel: a bridge, tbf and netem at both ends of a cable.
hosts_wire_kernel() { # LATENCY_MS RATE_MBIT
    local i burst=$(($2 / 8 > 16 ? $2 / 8 : 16)) # kilobytes: 1 ms of the rate
    ip -n "$hosts_tag-net" link add name data type bridge && ip -n "$hosts_tag-net" link set data up || return
    for ((i = 0; i < hosts_count; i++)); do
        hosts_cable "$i" net0 data || return
        if [ "$1" != 0 ]; then
            # shellcheck disable=SC2046
            tc -n "$(hosts_name "$i")" qdisc add dev net0 root netem limit 10000 delay "$1ms" $([ "$2" = 0 ] || echo rate "$2mbit") || return
        elif [ "$2" != 0 ]; then
            tc -n "$(hosts_name "$i")" qdisc add dev net0 root tbf rate "$2mbit" burst "${burst}kb" latency 200ms || return
        fi
        [ "$2" = 0 ] ||
            tc -n "$hosts_tag-net" qdisc add dev "net0-$i" root tbf rate "$2mbit" burst "${burst}kb" latency 200ms || return
    done
}

# net0 of all hosts by delay_link: TAP devices, one in each namespace.
hosts_wire_program() { # LATENCY_MS RATE_MBIT
    local i files=()
    for ((i = 0; i < hosts_count; i++)); do files+=("/run/netns/$(hosts_name "$i")"); done
    cc -O2 -D_GNU_SOURCE -o "$hosts_scratch/delay_link" "$hosts_source/delay_link.c" || return
    "$hosts_scratch/delay_link" "$1" "$2" "${files[@]}" >"$hosts_scratch/ready" &
    hosts_link_pid=$!
    for ((i = 0; i < 100; i++)); do
        grep -q ready "$hosts_scratch/ready" && return
        kill -0 "$hosts_link_pid" 2>/dev/null || return
        sleep 0.05
    done
    return 1
}

hosts_up() {
    local latency=${2:-0} rate=${3:-0} i name
    hosts_down
    hosts_reap
    hosts_count=$1
    hosts_scratch=$(mktemp -d "${TMPDIR:-/tmp}/$hosts_tag.XXXXXX") || return
    ip netns add "$hosts_tag-net" && ip -n "$hosts_tag-net" link add name control type bridge &&
        ip -n "$hosts_tag-net" link set control up || return
    for ((i = 0; i < hosts_count; i++)); do
        name=$(hosts_name "$i")
        ip netns add "$name" && ip -n "$name" link set lo up && hosts_unused "$name" && hosts_cable "$i" ctl0 control || return
    done
    if [ "$latency" = 0 ] || hosts_has_netem; then
        hosts_wire_kernel "$latency" "$rate" || return
    else
        hosts_wire_program "$latency" "$rate" || return
    fi
    for ((i = 0; i < hosts_count; i++)); do
        name=$(hosts_name "$i")
        ip -n "$name" addr add "10.77.0.$((i + 1))/24" dev net0 && ip -n "$name" link set net0 up &&
            ip -n "$name" addr add "10.78.0.$((i + 1))/24" dev ctl0 && ip -n "$name" link set ctl0 up || return
    done
    # What mpirun calls in place of ssh: HOST COMMAND...
    cat >"$hosts_scratch/agent" <<END
#!/bin/sh
host=\$1
shift
exec ip netns exec "\$host" unshare --uts env -i PATH="$PATH" sh -c "echo \$host >/proc/sys/kernel/hostname; \$*"
END
    chmod +x "$hosts_scratch/agent"
}

hosts_exec() {
    local name
    name=$(hosts_name "$1")
    shift
    # shellcheck disable=SC2016 # for the inner shell
    ip netns exec "$name" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"' "$name" "$@"
}

hosts_run() {
    local per_host=$1 seconds=$2 list='' i name pass=()
    shift 2
    for ((i = 0; i < hosts_count; i++)); do list=$list${list:+,}$(hosts_name "$i"):$per_host; done
    for name in ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS; do [ -z "${!name+x}" ] || pass+=(-x "$name"); done
    name=$(hosts_name 0)
    # In the background, so that a signal to the script ends it at once.
    # shellcheck disable=SC2086,SC2016 # flags are several words; for the inner shell
    timeout -k 2 $((10 * seconds)) ip netns exec "$name" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname; exec "$@"' "$name" \
        "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none --host "$list" -np $((hosts_count * per_host)) \
        --mca plm rsh --mca plm_rsh_agent "$hosts_scratch/agent" --mca orte_tmpdir_base "$hosts_scratch" \
        --mca oob_tcp_if_include ctl0 --mca btl_tcp_if_include net0 --mca pml ob1 --mca btl self,vader,tcp \
        --mca oob_tcp_keepalive_time 1 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3 \
        "${pass[@]}" ${MPI_FLAGS-} "$@" </dev/null &
    { wait $!; } 2>/dev/null # bash would report a launcher that was killed
}

hosts_measure() {
    hosts_run 1 30 "$1/test_dist_ranks" link
}

hosts_cut() {
    local name
    name=$(hosts_name "$1")
    [ "$2" = control ] || ip -n "$name" link set net0 down
    [ "$2" = data ] || ip -n "$name" link set ctl0 down
}

hosts_mend() {
    local name
    name=$(hosts_name "$1")
    ip -n "$name" link set net0 up
    ip -n "$name" link set ctl0 up
}

hosts_pids() {
    local i
    for ((i = 0; i < hosts_count; i++)); do ip netns pids "$(hosts_name "$i")" 2>/dev/null; done
}

# TAG...: the namespaces of these scripts, what runs in them, and what Open MPI left of theirs.
hosts_remove() {
    local tag name pids try
    for tag in "$@"; do
        for name in $(ip netns list 2>/dev/null | grep -oE "^$tag-[a-z]+[0-9]*"); do
            for ((try = 0; try < 50; try++)); do
                pids=$(ip netns pids "$name" 2>/dev/null)
                [ -n "$pids" ] || break
                # shellcheck disable=SC2086
                kill -9 $pids 2>/dev/null
                sleep 0.05
            done
            ip netns del "$name"
        done
        rm -rf "${TMPDIR:-/tmp}/$tag".?????? /dev/shm/vader_segment."$tag"-h*
    done
}

# Of scripts that are no more.
hosts_reap() {
    local tag
    for tag in $(ip netns list 2>/dev/null | grep -oE '^lockstep[0-9]+' | sort -u); do
        [ -e "/proc/${tag#lockstep}" ] || hosts_remove "$tag"
    done
}

hosts_down() {
    hosts_remove "$hosts_tag"
    if [ -n "$hosts_link_pid" ]; then
        kill "$hosts_link_pid" 2>/dev/null
        wait "$hosts_link_pid" 2>/dev/null
    fi
    hosts_count=0 hosts_link_pid=''
}
