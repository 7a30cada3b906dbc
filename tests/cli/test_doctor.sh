# `train doctor`: alone, on 2 and 3 ranks, on emulated GPUs, under a launcher of another MPI; every part of its self-test broken once. What
# it says of machines that this one is not: test_doctor_findings.c.
. "$(dirname "$0")/common.sh" "$1" || exit 1

bin=$(dirname "$train")
python=$(command -v python3)
# says WHAT TEXT: the last output has a line with it
says() { check "$1" "$(grep -cE "$2" <<<"$output")" 1; }
# doctor [NAME=VALUE...] -- ARGUMENTS: sets output and rc
doctor() {
    local settings=()
    while [ "$1" != -- ]; do settings+=("$1") && shift; done
    shift
    output=$(env "${settings[@]}" "${program:-$train}" doctor "$@" 2>&1)
    rc=$?
}

# Alone. What this machine is like decides the exit code; the last line says which.
before=$(ls -A)
doctor --
to_mend=$(grep -cE '^  (problem|failed) ' <<<"$output")
check "alone: exit" "$rc" "$([ "$to_mend" = 0 ] && echo 0 || echo 4)"
check "alone: the last line" "$(tail -n 1 <<<"$output" | grep -cE '^(nothing must be mended; |error: train doctor: )')" 1
says "alone: update" '^  ok       update: 16 pictures through 8 layers on cpu against ref: largest error [0-9.e-]+ of '
says "alone: no ranks to sum over" '^  skipped  all-reduce: one rank'
says "alone: checkpoint" '^  ok       checkpoint: .* read back, every byte the same'
says "alone: the devices part" '^device.type = auto takes cpu '
says "alone: a command" '^  /.*train config.ini$'
check "alone: nothing is left" "$(ls -A)" "$before"
doctor -- --quick
check "--quick: no self-test" "$(grep -cE '^self-test|^  ok       update' <<<"$output")" 0
check "to a full disk" "$("$train" doctor --quick 2>/dev/null >/dev/full; echo $?)" 7

# For a program.
json() { "$python" -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1" <<<"$output"; }
if [ -n "$python" ]; then
    output=$("$train" doctor --json 2>/dev/null)
    check "--json: one line" "$(wc -l <<<"$output")" 1
    check "--json: tests" "$(json '[t["name"] + " " + t["result"] for t in d["tests"]]')" \
        "['update ok', 'all-reduce skipped', 'checkpoint ok']"
    check "--json: what is to be mended" "$(json 'd["to_mend"] == sum(f["severity"] == "problem" for f in d["findings"])')" True
    check "--json: the devices, as train devices has them" "$(json '(d["devices"][0]["type"], d["auto"]["device"])')" "('cpu', 'cpu')"
    check "--json: a rank" "$(json 'd["ranks"][0]["memory_bytes"] > 0 and d["ranks"][0]["mpi"] in d["ranks"][0]["mpi"]')" True
fi

# What PATH has.
mkdir foreign slow
printf '#!/bin/sh\necho HYDRA build details:; echo "    Version:    9.1"\n' >foreign/mpirun
printf '#!/bin/sh\nexec sleep 100\n' >slow/mpirun
chmod +x foreign/mpirun slow/mpirun
if "$train" --version | grep -q 'Open MPI'; then
    doctor PATH="$here/foreign" -- --quick
    check "the mpirun of another MPI: exit" "$rc" 4
    says "the mpirun of another MPI" "^  problem  launcher: mpirun in PATH is MPICH 9.1's \($here/foreign/mpirun\), but the program is linked with Open MPI"
    doctor PATH="$here/slow" -- --quick
    says "an mpirun that does not answer" "^  note     launcher: mpirun in PATH \($here/slow/mpirun\) does not say of which MPI it is"
    doctor PATH=/nonexistent -- --quick
    says "no mpirun" "^  note     launcher: no mpirun in PATH"
fi
if [ "$(nproc)" -gt 1 ]; then
    doctor OMP_PROC_BIND=close -- --quick
    if grep -q 'libgomp' <<<"$output"; then
        says "threads bound by OpenMP" '^  problem  threads: OMP_PROC_BIND=close: '
        check "threads bound by OpenMP: exit" "$rc" 4
    fi
fi
output=$(ulimit -n 200; "$train" doctor --quick 2>&1)
says "few files" '^  problem  limits: 200 open files'

# Ranks.
for n in 2 3; do
    output=$(ranks $n 60 "$train" doctor 2>&1)
    says "$n ranks: no differences" "^$n ranks: no differences"
    says "$n ranks: update" "^  ok       update: $((16 * n)) pictures .*; gradients summed by MPI"
    says "$n ranks: sums" "^  ok       all-reduce: 1 MiB over $n ranks on 1 host: exact; "
    check "$n ranks: printed once" "$(grep -cE '^(nothing must be mended|error: train doctor)' <<<"$output")" 1
done
output=$(LOCKSTEP_TEST_HOSTS=0,1 ranks 2 60 "$train" doctor 2>&1)
says "two hosts" '^  ok       all-reduce: 1 MiB over 2 ranks on 2 hosts: exact; '
printf '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || ulimit -n 300\nexec "$@"\n' >unlike.sh
output=$(ulimit -n 2000; ranks 2 60 sh unlike.sh "$train" doctor --quick 2>&1)
check "ranks that differ: first" "$(head -n 1 <<<"$output" | cut -c -37)" "note: ranks differ, which is allowed:"
says "ranks that differ: in what" '^  open files  2000    300$'
if [ -x "$bin/train_mpich" ] && hydra=$(command -v mpirun.mpich); then
    output=$(timeout 60 "$hydra" -np 2 "$bin/train_mpich" doctor 2>&1 </dev/null)
    says "MPICH: sums" '^  ok       all-reduce: 1 MiB over 2 ranks on 1 host: exact; '
    says "MPICH: its command" '^  mpirun.mpich -np [0-9]+ -bind-to [a-z]+ .*train_mpich config.ini$'
    output=$(timeout 60 "$hydra" -np 2 "$train" doctor 2>&1 </dev/null)
    check "under another MPI's launcher: exit" $? 2
    says "under another MPI's launcher" '^  problem  launcher: .*has started 2 processes, but this program is linked with Open MPI'
    says "under another MPI's launcher: the command" '^  mpirun.* -np [0-9]+ .*train config.ini$'
else
    echo "left out: MPICH: it is not here"
fi

# GPUs, emulated.
emulated=$bin/emulated/lockstep_cuda.so
if [ -e "$emulated" ]; then
    export LOCKSTEP_CUDA_PLUGIN=$emulated LOCKSTEP_EMULATION=devices=2
    output=$(ranks 2 60 "$train" doctor 2>&1)
    says "GPUs: update" '^  ok       update: 32 pictures through 8 layers on cuda against ref: .*; gradients summed by NCCL '
    output=$(ranks 3 60 "$train" doctor 2>/dev/null)
    check "more ranks than GPUs: exit" $? 4
    says "more ranks than GPUs" '^  problem  device: host .* shows 2 GPUs, but 3 ranks were started there'
    says "more ranks than GPUs: no update" '^  skipped  update: no device opens'
    export LOCKSTEP_CUDA_PLUGIN=/nonexistent
    unset LOCKSTEP_EMULATION
else
    echo "left out: GPUs: there is no emulated one in this build"
fi

# A machine that is not sound.
program=$bin/train_unsound
unsound() { # WHAT LINE
    doctor LOCKSTEP_TEST_UNSOUND="$1" PATH=/nonexistent --
    check "unsound, $1: exit" "$rc" 4
    says "unsound, $1" "^  failed   $2"
    check "unsound, $1: the other passes" "$(grep -cE '^  ok       (update|checkpoint): ' <<<"$output")" 1
    check "unsound, $1: nothing is left" "$(find . -name 'lockstep-doctor*')" ""
}
for operator in "conv forward" "conv backward data" "conv backward weight" "batch norm forward" "linear forward" loss sgd; do
    unsound "$operator" 'update: after one update on cpu, [a-z0-9_.]+ is off by '
done
unsound disk 'checkpoint: .*weights.safetensors'
unsound memory 'checkpoint: .*: read back, conv1.weight is not what was written'
output=$(LOCKSTEP_TEST_UNSOUND=allreduce ranks 2 60 "$program" doctor 2>/dev/null)
check "unsound sums: exit" $? 4
says "unsound sums" '^  failed   all-reduce: rank 0: element 131072 of a sum over 2 ranks by .* is 10, expected 9: '
program=$train
output=$(
  sleep 100 &
  cd /proc/$! && kill $! && wait $! 2>/dev/null
  timeout 20 "$train" doctor --quick 2>&1
)
check "in a folder that is gone: exit" $? 4
says "in a folder that is gone" '^  problem  run folder: \. cannot be written by this user'
doctor -- --run-dir /proc/self/x
says "no folder for a checkpoint" '^  failed   checkpoint: /proc/self: no folder can be made there: '
check "no folder for a checkpoint: exit" "$rc" 4
finish
