# Where a run's time goes, and what binds it: the parts add up to the whole in every record; a loader that is made slow, and cores with
# too many threads, are recognised, and the setting that is named helps; on one rank and on several, at the end and on request.
. "$(dirname "$0")/pictures.sh" "$1"

numbers() { grep -oE "$1" | grep -oE '[0-9.e-]+$'; } # the last number of each match
# Do the parts of each time add up to its seconds, to some rounded microseconds? Prints how many do not, and how many there are.
adds_up() {
    tr -d ' \t' <"$1" | grep -oE '"time(_spent)?":\{"seconds"[^}]*(\{[^}]*\})?[^}]*\}' | sed -E 's/"(core_wait|enqueue)":[^,}]*//g' |
        awk '{
            n++
            whole = $0; sub(/.*"seconds":/, "", whole)
            parts = $0; kinds = $0
            sub(/"compute_by_kind".*/, "", parts); sub(/.*"seconds":[^,]*,/, "", parts)
            sub(/.*"compute_by_kind":\{/, "", kinds)
            gsub(/"[a-z_]*":/, "", parts); gsub(/"[a-z_]*":/, "", kinds); gsub(/[{}]/, "", kinds)
            p = split(parts, part, ","); sum = 0; for (i = 1; i <= p; i++) sum += part[i]
            k = split(kinds, kind, ","); by = 0; for (i = 1; i <= k; i++) by += kind[i]
            if (sum - whole > 1e-5 || whole - sum > 1e-5 || by - part[1] > 1e-5 || part[1] - by > 1e-5) bad++
        } END { print bad + 0, n }'
}
verdict_of() { tr '\n' ' ' <"$1/summary.json" | grep -oE '"verdict":[[:space:]]*\{[^}]*\}' | tr -s ' \t' ' '; }

# ---- the parts of the time ----

"$train" tiny.ini --quiet --run-dir alone --set log.every=1 --set checkpoint.every_updates=3 || echo "FAILED alone"
check "each record's parts add up" "$(adds_up alone/metrics.jsonl)" "0 16"
check "and the summary's" "$(tr -d '\n' <alone/summary.json >summary; adds_up summary)" "0 1"
check "they only grow" "$(tr -d ' ' <alone/metrics.jsonl | numbers '"time_spent":\{"seconds":[0-9.e-]+,"compute":[0-9.e-]+' | sort -gc 2>&1)" ""
check "an event has one time" "$(grep -o '"time":' alone/metrics.jsonl | wc -l)" "$(wc -l <alone/metrics.jsonl)"
ranks 2 60 "$train" tiny.ini --quiet --run-dir two --set log.every=2 || echo "FAILED two"
check "rank 0's parts of two add up" "$(adds_up two/metrics.jsonl)" "0 8"

# ---- a slow loader ----

mkdir -p set/dark set/light
for i in $(seq 12); do
    picture "set/dark/$i.png" 0 "$i"
    picture "set/light/$i.png" 1 "$i"
done
cat >loader.ini <<'END'
[data]
dataset = folder
path = set
image_size = 12x12
cache = off
[model]
file = net3.ini
[train]
epochs = 6
global_batch = 4
eval_every = 0
[device]
threads = 1
[checkpoint]
every_epochs = 0
END
if command -v cc >/dev/null && cc -shared -fPIC -o slow.so "$OLDPWD/tests/support/slow_files.c" -ldl; then
    slow() {
        LD_PRELOAD=$here/slow.so ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 LOCKSTEP_TEST_SLOW_MS=25 \
            LOCKSTEP_TEST_SLOW_NAME=.png "$train" loader.ini "$@"
    }
    slow --run-dir loader >loader.log 2>&1 || cat loader.log
    check "a slow loader binds" "$(verdict_of loader | grep -c '"binds": "loader", .*"option": "data.cache", "value": "auto", "gain": [1-9]')" 1
    check "it is said at the end" "$(grep -cE '(time      compute .*, loader [0-9]+ %|verdict   the loader binds: training waits for it [0-9]+ % of the time; data.cache = auto instead of off would make it at most)' loader.log)" 2
    check "parts add up" "$(tr -d '\n' <loader/summary.json >summary; adds_up summary)" "0 1"
    slow --run-dir cached --set data.cache=auto --quiet >cached.log 2>&1 || cat cached.log
    check "nothing is said with --quiet" "$(grep -cE 'verdict|compute' cached.log)" 0
    check "the setting helps" "$(awk -v before="$(field loader loader_wait_seconds)" -v after="$(field cached loader_wait_seconds)" \
        'BEGIN { print after < before / 2 }')" 1
else
    echo "no C compiler: a slow loader is not tried"
fi
finish
