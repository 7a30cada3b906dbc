# Energy of whole runs, by made-up powercap files: on one rank, on two of one host, on two hosts, each of which is counted once; in
# summary.json, in every record of metrics.jsonl, and in the closing lines.
. tests/cli/common.sh "$1" || exit 1

# counts FOLDER NUMBER MICROJOULES, at once, as the kernel's file does
counts() {
    echo "$3" >"$1/new"
    mv "$1/new" "$1/sys/class/powercap/intel-rapl:$2/energy_uj"
}
# package FOLDER NUMBER MICROJOULES
package() {
    mkdir -p "$1/sys/class/powercap/intel-rapl:$2"
    echo "package-$2" >"$1/sys/class/powercap/intel-rapl:$2/name"
    echo 65532610987 >"$1/sys/class/powercap/intel-rapl:$2/max_energy_range_uj"
    counts "$@"
}
json() { python3 -c 'import json, sys; print(eval(sys.argv[2], {"s": json.load(open(sys.argv[1] + "/summary.json"))}))' "$1" "$2" 2>&1 | tail -n 1; }
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

package root 0 1000000
package root 1 65532000000 # wraps around soon
while :; do # both packages: 2 J in some 10 ms
    n=$((${n-0} + 1))
    counts root 0 $((1000000 + n * 1000000))
    counts root 1 $(((65532000000 + n * 1000000) % 65532610987))
    sleep 0.01
done &
counting=$!
trap 'kill $counting; wait $counting 2>/dev/null; rm -rf "$here"' EXIT
export LOCKSTEP_SYS_ROOT=$PWD/root
long="--set train.epochs=6"
# shellcheck disable=SC2086 # several words
"$train" tiny.ini $long --run-dir one >log 2>&1
check "one rank: exit" $? 0
check "one rank: sources" "$(json one 's["energy"]["sources"]')" "['2 processor packages (RAPL)']"
check "one rank: nothing is missing" "$(json one '"without" in s["energy"] or "unknown" in s["energy"]')" False
check "one rank: joules" "$(json one 's["energy"]["joules"] >= 0 and abs(s["energy"]["joules"] / s["samples_seen"] - s["energy"]["joules_per_image"]) < 1e-12')" True
check "one rank: closing line" "$(grep -cE '^energy    [0-9.]+ k?J, [0-9.e-]+ J a picture: 2 processor packages \(RAPL\)$' log)" 1
check "one rank: metrics never fall, and end below the summary's" "$(python3 -c '
import json
joules = [e["joules"] for e in map(json.loads, open("one/metrics.jsonl")) if e["event"] == "train"]
last = json.load(open("one/summary.json"))["energy"]["joules"]
print(len(joules), joules == sorted(joules), joules[-1] <= last)')" "12 True True"
# shellcheck disable=SC2086 # several words
check "two ranks of one host" "$(ranks 2 60 "$train" tiny.ini $long --quiet --run-dir two; json two 's["energy"]["sources"], s["energy"]["joules"] >= 0')" \
    "(['2 processor packages (RAPL)'], True)"
# shellcheck disable=SC2086 # several words
check "two hosts" "$(LOCKSTEP_TEST_HOSTS=0,1 ranks 2 60 "$train" tiny.ini $long --quiet --run-dir hosts; json hosts 's["energy"]["sources"], s["energy"]["joules"] >= 0')" \
    "(['4 processor packages (RAPL)'], True)"
"$train" tiny.ini --quiet --run-dir long --set train.epochs=1000000 >log 2>&1 &
pid=$!
check "a run that is long enough has joules" "$(eventually grep -qE '"joules":[1-9]' long/metrics.jsonl 2>/dev/null; echo $?)" 0
kill $pid
wait $pid
check "a run that is long enough: exit" $? 75
# Of two hosts one, whose counters can be read.
cat >by_rank <<'SH'
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export LOCKSTEP_SYS_ROOT=/nonexistent
exec "$@"
SH
# shellcheck disable=SC2086 # several words
LOCKSTEP_TEST_HOSTS=0,1 ranks 2 60 bash by_rank "$train" tiny.ini $long --quiet --run-dir some
check "one of two hosts" "$(json some 's["energy"]["sources"], s["energy"]["without"][:62]')" \
    "(['2 processor packages (RAPL)'], 'processors of 1 of 2 hosts: no /nonexistent/sys/class/powercap')"

export LOCKSTEP_SYS_ROOT=/nonexistent
"$train" tiny.ini --run-dir none >log 2>&1
check "none: exit" $? 0
check "none: why" "$(json none 'list(s["energy"]), s["energy"]["unknown"][:46]')" "(['unknown'], 'processors: no /nonexistent/sys/class/powercap')"
check "none: no joules, no closing line" "$(grep -c joules none/metrics.jsonl) $(grep -c '^energy' log)" "0 0"
finish
