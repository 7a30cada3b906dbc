# `train metrics`: CSV of a whole run, of a run in two parts with work done again, and of files that are cut off, damaged or hostile. The
# values are metrics.jsonl's.
. "$(dirname "$0")/common.sh" "$1" || exit 1
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
    """(part, event) of what is not done again."""
    events, part = [], 0
    for text in open(path):
        event = json.loads(text)
        if event["event"] == "start":
            part += 1
            events = [e for e in events if e[1]["update"] <= event.get("resumed_at_update", 0)]
        events.append((part, event))
    return events

kind, path, table = sys.argv[1:]
rows = list(csv.DictReader(open(table, newline="")))
events = [(part, event) for part, event in left(path) if event["event"] == kind]
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
        "$train" metrics $run --event $kind >table.csv 2>log
        check "$run, $kind: exit" "$? $(cat log)" "0 "
        check "$run, $kind: the values" "$(python3 compare.py $kind $run/metrics.jsonl table.csv 2>&1 | tail -n 1)" ""
    done
done
check "train is the kind without --event" "$("$train" metrics one | cmp - <("$train" metrics one --event train) && echo same)" same
check "to a file" "$("$train" metrics one -o out.csv 2>&1; "$train" metrics one | cmp - out.csv && echo same)" same
check "of ranks: columns" "$("$train" metrics two | head -n 1 | grep -oE 'ranks\.[a-z_]+\.[0-9]' | tr '\n' ' ')" \
    "ranks.wait_seconds.0 ranks.wait_seconds.1 ranks.loader_wait_seconds.0 ranks.loader_wait_seconds.1 ranks.core_wait_seconds.0 ranks.core_wait_seconds.1 ranks.compute_seconds.0 ranks.compute_seconds.1 "
check "two ranks: one output" "$(ranks 2 60 "$train" metrics one | cmp - <("$train" metrics one) && echo same)" same

# What is not whole.
mkdir cut damaged
head -c -30 one/metrics.jsonl >cut/metrics.jsonl
last=$(wc -l <one/metrics.jsonl)
check "cut off: told, and no fault" "$("$train" metrics cut --event end 2>&1 >/dev/null | tail -n 1; "$train" metrics cut 2>&1 >/dev/null; echo $?)" \
    "error: cut/metrics.jsonl: has no event 'end'
warning: cut/metrics.jsonl: line $last has no end and is left out: the run is writing it, or was killed
0"
sed -e '3s/.*/{"event":"train","update":/' -e '5s/"update":[0-9]*/"update":-1/' one/metrics.jsonl >damaged/metrics.jsonl
refused "damaged" 7 "damaged/metrics.jsonl: 2 lines are damaged (number 3, 5) and left out; the other lines are written" \
    "$train" metrics damaged -o damaged.csv
check "damaged: the others are there" "$(wc -l <damaged.csv)" $(($(grep -c '"event":"train"' one/metrics.jsonl) + 1 - 2))
yes x | head -n 20 | cat one/metrics.jsonl - >damaged/metrics.jsonl
refused "many damaged" 7 "20 lines are damaged (number $((last + 1)), $((last + 2)), " "$train" metrics damaged -o damaged.csv
hostile=$OLDPWD/tests/fuzz/corpus/metrics/hostile
check "hostile: no control characters" "$("$train" metrics "$hostile" 2>/dev/null | LC_ALL=C grep -c '[[:cntrl:]]')" 0
check "hostile: rows" "$("$train" metrics "$hostile" 2>/dev/null |
    python3 -c 'import csv, sys; rows = list(csv.reader(sys.stdin)); print(len(rows), len({len(row) for row in rows}))')" "3 1"

refused "no folder" 2 "nowhere: is not there" "$train" metrics nowhere
mkdir empty
refused "no metrics" 7 "empty/metrics.jsonl: " "$train" metrics empty
echo '{"event":1}' >empty/metrics.jsonl
refused "no event" 7 "empty/metrics.jsonl: is no metrics.jsonl of a run: no line of it is an event" "$train" metrics empty
refused "unknown kind" 2 "one/metrics.jsonl: has no event 'evil'" "$train" metrics one --event evil
for file in config.ini run.json summary.json weights.safetensors; do
    sha256sum one/$file >sum
    refused "onto $file" 2 "--out one/$file: is there, and no table of this program: it stays; name another file" "$train" metrics one -o one/$file
    check "onto $file: it stays" "$(sha256sum one/$file)" "$(cat sum)"
done
check "onto an older table" "$("$train" metrics one -o out.csv 2>&1; echo $?)" 0
refused "onto itself" 2 "--out one/metrics.jsonl: this command reads that file, and would replace it: name another file" "$train" metrics one --out one/metrics.jsonl
refused "no RUN" 2 "no run folder: train metrics RUN" "$train" metrics
refused "two" 2 "'two' is one file too many: train metrics RUN" "$train" metrics one two
check "what was refused wrote nothing" "$(wc -l <one/metrics.jsonl)" "$last"
finish
