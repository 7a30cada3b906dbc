# `train metrics`: CSV and MLPerf's lines of a whole run, of one in two parts with work done again, of files that are cut off, damaged or
# hostile. The values are metrics.jsonl's.
. "$(dirname "$0")/common.sh" "$1"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }

"$train" tiny.ini --quiet --run-dir one --set data.validation_fraction=0.2 --set log.every=1 || exit 1
"$train" tiny.ini --quiet --run-dir parts --set log.every=1 --set train.max_updates=12 --set checkpoint.every_updates=8 || exit 1
rm -r parts/checkpoints/update-000000000012
"$train" tiny.ini --quiet --run-dir parts --set log.every=1 --resume 2>/dev/null || exit 1
ranks 2 60 "$train" tiny.ini --quiet --run-dir two || exit 1

cat >compare.py <<'PY'
import csv, json, sys

def flat(value, name):
    if isinstance(value, dict):
        return [pair for key, item in value.items() for pair in flat(item, f"{name}.{key}" if name else key)]
    if isinstance(value, list):
        return [pair for i, item in enumerate(value) for pair in flat(item, f"{name}.{i}")]
    return [(name, value)]

def left(path):
    """(part, line, event) of what is not done again."""
    events, part = [], 0
    for line, text in enumerate(open(path), 1):
        event = json.loads(text)
        if event["event"] == "start":
            part += 1
            events = [e for e in events if e[2]["update"] <= event.get("resumed_at_update", 0)]
        events.append((part, line, event))
    return events

kind, path, table = sys.argv[1:]
if kind == "mlperf":
    lines = [json.loads(text[len(":::MLLOG "):]) for text in open(table) if text.startswith(":::MLLOG ")]
    assert len(lines) == sum(1 for _ in open(table))
    assert all(list(line) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"] for line in lines)
    assert all(a["time_ms"] <= b["time_ms"] for a, b in zip(lines, lines[1:]))
    events = left(path)
    by_key = {}
    for line in lines:
        by_key.setdefault(line["key"], []).append(line)
    start = events[0][2]
    for key, field in (("seed", "seed"), ("global_batch_size", "global_batch"), ("opt_name", "optimizer"), ("train_samples", "train_samples"),
                       ("eval_samples", "test_samples"), ("opt_base_learning_rate", "base_learning_rate")):
        assert [line["value"] for line in by_key[key]] == [start[field]], key
    got = [(line["metadata"]["lineno"], line["metadata"]["set"], line["value"]) for line in by_key["eval_accuracy"]]
    assert got == [(n, name, e[field]) for _, n, e in events if e["event"] == "eval"
                   for name, field in (("validation", "val_accuracy"), ("test", "test_accuracy")) if field in e], got
    stats = [(line["metadata"]["step"], line["value"]["train_loss"], line["value"]["throughput"]) for line in by_key["tracked_stats"]]
    assert stats == [(e["update"], e["train_loss"], e["images_per_second"]) for _, _, e in events if e["event"] == "train"]
    epochs = events[-1][2]["epoch"]
    for name in ("epoch_start", "epoch_stop"):
        assert [line["metadata"]["epoch_num"] for line in by_key[name]] == list(range(1, epochs + 1)), name
    assert [line["event_type"] for line in by_key["run_start"] + by_key["run_stop"]] == ["INTERVAL_START", "INTERVAL_END"]
    assert by_key["run_stop"][0]["metadata"]["status"] == "success" and lines[-1] is by_key["run_stop"][0]
    assert [line["value"] for line in by_key.get("init_checkpoint_step", [])] == [e["resumed_at_update"] for p, _, e in events if p > 1 and e["event"] == "start"]
    sys.exit()
rows = list(csv.DictReader(open(table, newline="")))
events = [(part, event) for part, _, event in left(path) if event["event"] == kind]
assert len(rows) == len(events) > 0, (len(rows), len(events))
for row, (part, event) in zip(rows, events):
    assert row.pop("part") == str(part)
    expected = {name: value for name, value in flat(event, "") if name not in ("event", "part")}
    assert expected.keys() <= row.keys(), expected.keys() - row.keys()
    for name, cell in row.items():
        value = expected.get(name)
        if value is None or isinstance(value, (str, bool)):
            assert cell == {None: "", True: "true", False: "false"}.get(value, value), (name, cell, value)
        else:
            assert float(cell) == value, (name, cell, value)
PY
for run in one parts two; do
    for kind in train eval checkpoint start end; do
        "$train" metrics $run --csv --event $kind >table.csv 2>log
        check "$run, $kind: exit" "$? $(cat log)" "0 "
        check "$run, $kind: the values" "$(python3 compare.py $kind $run/metrics.jsonl table.csv 2>&1 | tail -n 1)" ""
    done
    check "$run, MLPerf: exit" "$("$train" metrics $run/metrics.jsonl --mlperf >table.mlperf 2>&1; echo $?)" 0
    check "$run, MLPerf: the values" "$(python3 compare.py mlperf $run/metrics.jsonl table.mlperf 2>&1 | tail -n 1)" ""
done
check "train is the kind without --event" "$("$train" metrics one --csv | cmp - <("$train" metrics one --csv --event train) && echo same)" same
check "to a file" "$("$train" metrics one --csv -o out.csv 2>&1; "$train" metrics one --csv | cmp - out.csv && echo same)" same
check "of ranks: columns" "$("$train" metrics two --csv | head -n 1 | grep -oE 'ranks\.[a-z_]+\.[0-9]' | tr '\n' ' ')" \
    "ranks.wait_seconds.0 ranks.wait_seconds.1 ranks.loader_wait_seconds.0 ranks.loader_wait_seconds.1 ranks.core_wait_seconds.0 ranks.core_wait_seconds.1 ranks.compute_seconds.0 ranks.compute_seconds.1 "
check "two ranks: one output" "$(ranks 2 60 "$train" metrics one --csv | cmp - <("$train" metrics one --csv) && echo same)" same

# What is not whole.
mkdir cut damaged
head -c -30 one/metrics.jsonl >cut/metrics.jsonl
last=$(wc -l <one/metrics.jsonl)
check "cut off: told, and no fault" "$("$train" metrics cut --csv --event end 2>&1 >/dev/null | tail -n 1; "$train" metrics cut --csv 2>&1 >/dev/null; echo $?)" \
    "error: cut/metrics.jsonl: has no event 'end'
warning: cut/metrics.jsonl: line $last has no end and is left out: the run is writing it, or was killed
0"
check "cut off: no run_stop" "$("$train" metrics cut --mlperf 2>/dev/null | grep -c run_stop)" 0
sed -e '3s/.*/{"event":"train","update":/' -e '5s/"update":[0-9]*/"update":-1/' one/metrics.jsonl >damaged/metrics.jsonl
refused "damaged" 7 "damaged/metrics.jsonl: 2 lines are damaged (number 3, 5) and left out; what the others have is written" \
    "$train" metrics damaged --csv -o damaged.csv
check "damaged: the others are there" "$(wc -l <damaged.csv)" $(($(grep -c '"event":"train"' one/metrics.jsonl) + 1 - 2))
yes x | head -n 20 | cat one/metrics.jsonl - >damaged/metrics.jsonl
refused "many damaged" 7 "20 lines are damaged (number $((last + 1)), $((last + 2)), " "$train" metrics damaged --mlperf -o damaged.mlperf
hostile=$OLDPWD/tests/fuzz/corpus/metrics/hostile
check "hostile: no control characters" "$("$train" metrics "$hostile" --csv 2>/dev/null | LC_ALL=C grep -c '[[:cntrl:]]')" 0
check "hostile: rows" "$("$train" metrics "$hostile" --csv 2>/dev/null |
    python3 -c 'import csv, sys; rows = list(csv.reader(sys.stdin)); print(len(rows), len({len(row) for row in rows}))')" "3 1"

refused "no folder" 2 "nowhere: is not there" "$train" metrics nowhere --csv
mkdir empty
refused "no metrics" 7 "empty/metrics.jsonl: " "$train" metrics empty --csv
echo '{"event":1}' >empty/metrics.jsonl
refused "no event" 7 "empty/metrics.jsonl: is no metrics.jsonl of a run: no line of it is an event" "$train" metrics empty --csv
refused "unknown kind" 2 "one/metrics.jsonl: has no event 'evil'" "$train" metrics one --csv --event evil
refused "neither" 2 "train metrics RUN: one of --csv and --mlperf says what to write" "$train" metrics one
refused "both" 2 "train metrics RUN: one of --csv and --mlperf says what to write" "$train" metrics one --csv --mlperf
refused "kind of MLPerf's lines" 2 "--event eval: only with --csv" "$train" metrics one --mlperf --event eval
refused "onto itself" 2 "--out one/metrics.jsonl: this command reads that file, and would replace it: name another file" "$train" metrics one --csv --out one/metrics.jsonl
refused "no RUN" 2 "no run folder: train metrics RUN" "$train" metrics --csv
refused "two" 2 "'two' is one file too many: train metrics RUN" "$train" metrics one two --csv
check "what was refused wrote nothing" "$(wc -l <one/metrics.jsonl)" "$last"
finish
