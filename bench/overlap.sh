#!/usr/bin/env bash
# overlap.sh - how much of the communication the backward pass hides: the same training with dist.overlap = true and false in turns,
# on hosts (network namespaces on this machine, one rank of one thread each) with latency and a limited rate between them.
#
#   bench/overlap.sh [--build FOLDER] [--rounds N] [--hosts N] [--latency MS] [--rate MBIT] [--updates N] [--out NAME] [-- OPTIONS]
#
# Default: ./build/check, 5 rounds, 2 hosts, 1 ms each way, 200 Mbit/s, 10 traced updates after 5, resnet20 with buckets of 256 KiB.
# OPTIONS go to `train configs/bench-cpu.ini`. Needs root, iproute2 and Open MPI. Writes bench/results/NAME.md and NAME.json
# (NAME: DATE-overlap); exposed times are those of the traces' spans (scripts/trace_report.py), medians over updates, mean of the ranks.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/check rounds=5 hosts=2 latency=1 rate=200 updates=10 first=5 out=$(date +%F)-overlap
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  [ $# -ge 2 ] || { echo "overlap.sh: $1 needs a value" >&2 && exit 2; }
  case $1 in
  --build) build=$2 ;;
  --rounds) rounds=$2 ;;
  --hosts) hosts=$2 ;;
  --latency) latency=$2 ;;
  --rate) rate=$2 ;;
  --updates) updates=$2 ;;
  --out) out=$2 ;;
  *) echo "overlap.sh: unknown option $1" >&2 && exit 2 ;;
  esac
  shift 2
done
[ "${1-}" != -- ] || shift
options=("$@")
[ ${#options[@]} -gt 0 ] || options=(--set model.file=configs/models/resnet20.ini --set data.shape=3x32x32 --set dist.bucket_bytes=262144
  --set train.global_batch=$((32 * hosts)))
case $build in /*) ;; *) build=$PWD/$build ;; esac

. tests/support/hosts.sh
hosts_or_skip latency
folder=$(mktemp -d)
trap 'hosts_down; rm -rf "$folder"' EXIT
hosts_up "$hosts" "$latency" "$rate"
link=$(hosts_measure "$build/bin" | tr '\n' ';')

# one ROUND OVERLAP
one() {
  echo "round $1 of $rounds, dist.overlap = $2" >&2
  hosts_run 1 600 "$build/bin/train" "$PWD/configs/bench-cpu.ini" --quiet --run-dir "$folder/run.$1.$2" --set device.type=cpu \
    --set device.threads=1 --set train.max_updates=$((first + updates)) --set data.test_samples=32 "${options[@]}" \
    --set "dist.overlap=$2" --trace "$folder/$2.$1.json" --trace-updates "$first:$((first + updates))"
}

for ((round = 1; round <= rounds; round++)); do
  order="true false"
  [ $((round % 2)) = 1 ] || order="false true" # neither always goes first
  for overlap in $order; do one "$round" "$overlap"; done
done

python3 scripts/trace_report.py --json "$folder"/*.json >"$folder/report"
python3 - "$folder/report" "bench/results/$out" "$hosts hosts, $latency ms, $rate Mbit/s; $link" "${options[*]}" <<'PYTHON'
import datetime, json, platform, statistics, subprocess, sys

report, out, link, options = sys.argv[1:]
rows = {"true": [], "false": []}
for path, ranks in json.load(open(report)).items():
    overlap, number = path.rsplit("/", 1)[1].split(".")[:2]
    mean = {c: statistics.mean(r["median_ms"][c] for r in ranks) for c in ranks[0]["median_ms"]}
    mean["round"] = int(number)
    spans = sum(r["sum_ms"]["exposed"] for r in ranks)
    counted = sum(r["counted_ms"]["exposed"] for r in ranks)
    mean["counter_differs"] = abs(spans - counted) / max(spans, counted) if max(spans, counted) else 0
    rows[overlap].append(mean)
for overlap in rows:
    rows[overlap].sort(key=lambda row: row["round"])
lower = [1 - a["exposed"] / b["exposed"] for a, b in zip(rows["true"], rows["false"])]
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
result = {"date": datetime.date.today().isoformat(), "commit": commit, "machine": platform.processor() or platform.machine(),
          "link": link, "options": options, "rounds": rows, "exposed_lower_by": lower, "exposed_lower_by_median": statistics.median(lower)}
json.dump(result, open(out + ".json", "w"), indent=2)
columns = ["update", "compute", "sums", "overlapped", "exposed", "loader"]
with open(out + ".md", "w") as file:
    print(f"Exposed communication with and without overlap, Lockstep {commit}, {result['date']}\n\n{link}\n\n`{options}`\n", file=file)
    print(f"Exposed communication is lower by {statistics.median(lower):.1%} with overlap (median of {len(lower)} rounds, "
          f"{min(lower):.1%} to {max(lower):.1%}).\n", file=file)
    print("Medians over rounds of the medians over updates, ms; the last column: how far the program's own counter is off.\n", file=file)
    print("| dist.overlap | " + " | ".join(columns) + " | counter |\n|" + " --- |" * (len(columns) + 2), file=file)
    for overlap, of in rows.items():
        figures = [statistics.median(row[c] for row in of) for c in columns]
        off = statistics.median(row["counter_differs"] for row in of)
        print(f"| {overlap} | " + " | ".join(f"{f:.2f}" for f in figures) + f" | {off:.1%} |", file=file)
print(open(out + ".md").read())
PYTHON
