# Where a run's time goes, and what it waits for: the parts add up to the whole in every record. A slow loader and too many threads
# are recognised, and the suggested setting helps: on one rank and on several, at the end and on request.
. "$(dirname "$0")/pictures.sh" "$1" || exit 1

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
            if (!/compute_by_kind/) by = part[1]
            if (sum - whole > 1e-5 || whole - sum > 1e-5 || by - part[1] > 1e-5 || part[1] - by > 1e-5) bad++
        } END { print bad + 0, n }'
}
verdict_of() { tr '\n' ' ' <"$1/summary.json" | grep -oE '"verdict":[[:space:]]*\{[^}]*\}' | tr -s ' \t' ' '; }

# ---- the parts of the time ----

"$train" tiny.ini --quiet --run-dir alone --set log.every=1 --set checkpoint.every_updates=3 || echo "FAILED alone"
check "each record's parts add up" "$(adds_up alone/metrics.jsonl)" "0 16"
check "and the summary's" "$(tr -d '\n' <alone/summary.json >summary; adds_up summary)" "0 1"
check "they only grow" "$(tr -d ' ' <alone/metrics.jsonl | numbers '"time_spent":\{"seconds":[0-9.e-]+,"compute":[0-9.e-]+' | sort -gc 2>&1)" ""
# all_of FILE MEMBER [WORDS]: the sum of a member over the lines with these words
all_of() { tr -d ' \t' <"$1" | grep -F "${3-}" | numbers "\"$2\":[0-9.e-]+" | awk '{ sum += $1 } END { printf "%.6f", sum }'; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { print (a > 0 && a + 1e-5 >= b) }'; } # 0 is less than anything
check "kinds of the network's operators" "$(tr -d '\n \t' <alone/summary.json | grep -oE '"compute_by_kind":\{[^}]*' | grep -oE '(convolution|linear|norm|pool|loss|input|optimizer|gradients)' | tr '\n' ' ')" \
    "convolution linear norm loss input optimizer gradients "
check "evaluation has what the evaluations took" "$(at_least "$(field alone evaluation)" "$(all_of alone/metrics.jsonl seconds '"event":"eval"')")" 1
check "checkpoint has how long they held training" "$(at_least "$(field alone checkpoint)" "$(all_of alone/metrics.jsonl held_seconds)")" 1
check "an event has one time" "$(grep -o '"time":' alone/metrics.jsonl | wc -l)" "$(wc -l <alone/metrics.jsonl)"
ranks 2 60 "$train" tiny.ini --quiet --run-dir two --set log.every=2 || echo "FAILED two"
check "rank 0's parts of two add up" "$(adds_up two/metrics.jsonl)" "0 8"
check "sums, by the reducer's own clock" "$(at_least "$(awk -v a="$(field two comm_seconds_exposed)" 'BEGIN { print 2 * a }')" "$(field two communication_exposed)")" 1
plugin=$(dirname "$train")/emulated/lockstep_cuda.so
if [ -f "$plugin" ]; then
    LOCKSTEP_CUDA_PLUGIN=$plugin "$train" tiny.ini --quiet --run-dir gpu --set device.type=cuda --set log.every=2 || echo "FAILED gpu"
    check "a GPU's parts add up" "$(adds_up gpu/metrics.jsonl)" "0 8"
    check "the host's share of them" "$(grep -c '"time_spent":.*"enqueue":' gpu/metrics.jsonl) $(grep -c compute_by_kind gpu/metrics.jsonl)" "8 0"
fi

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
    check "a slow loader binds" "$(verdict_of loader | grep -cE '"binds": "loader", "text": "[^"]*"(, "option": "data.workers", "value": "[23]")? }')" 1
    check "it is said at the end" "$(grep -cE '(time      compute .*, loader [0-9]+ %|verdict   the run waited for the loader [0-9]+ % of the time)' loader.log)" 2
    check "loader, by the loader's own clock" "$(at_least "$(field loader loader_wait_seconds)" "$(field loader loader_wait)")" 1
    check "parts add up" "$(tr -d '\n' <loader/summary.json >summary; adds_up summary)" "0 1"
    check "the same on request" "$("$train" verdict loader | tail -n 1)" "$(sed -n 's/^verdict   //p' loader.log)"
    check "and as JSON" "$("$train" verdict loader --json | grep -c '{"runs":\[{"path":"loader",.*"verdict":{"binds":"loader","text":"the run waited for the loader ')" 1
    slow --run-dir workers --set data.workers=3 --quiet >workers.log 2>&1 || cat workers.log
    check "nothing is said with --quiet" "$(grep -cE 'verdict|compute' workers.log)" 0
    check "more workers help" "$(awk -v before="$(field loader loader_wait_seconds)" -v after="$(field workers loader_wait_seconds)" \
        'BEGIN { print after < before / 1.5 }')" 1
else
    echo "no C compiler: a slow loader is not tried"
fi

# ---- more threads than cores: a run that is under way, then stopped ----

first=$(taskset -cp $$ 2>/dev/null | sed 's/.*: //; s/[,-].*//')
if [ -n "$first" ]; then
    sed 's/out_channels = 8/out_channels = 64/' net.ini >wide.ini # operators that are worth several threads
    taskset -c "$first" "$train" tiny.ini --quiet --run-dir crowded --set model.file=wide.ini --set train.global_batch=240 --set device.threads=4 --set train.epochs=1000000 --set train.eval_every=0 \
        --set checkpoint.every_epochs=0 >crowded.log 2>&1 &
    pid=$!
    guard $pid 300
    eventually sh -c "'$train' verdict crowded 2>/dev/null | grep -q 'the run waited' || ! kill -0 $pid 2>/dev/null"
    check "a run under way" "$("$train" verdict crowded | grep -cE '^(crowded: update [0-9]+ of [0-9]+, [0-9.]+ s since|the run waited for a core .*: a rank has 4 threads and 1 core; set device.threads = 0 instead of 4 )')" 2
    kill -USR1 $pid
    wait $pid
    check "it is stopped" $? 75
    wait $guard
    check "a run that was stopped" "$("$train" verdict crowded | grep -c '^the run waited for a core ')" 1
    check "its parts are a table" "$("$train" verdict crowded | awk '/^  [a-z]/ { sum += $4 } END { print (sum > 99 && sum < 101) }')" 1
    [ "$failures" = 0 ] || "$train" verdict crowded
else
    echo "no taskset: more threads than cores are not tried"
fi

# ---- several ranks ----

mkdir long
cp two/config.ini two/network.ini long
sed -E 's/("time_spent":\{"seconds":)[0-9.e-]+/\1100/' two/metrics.jsonl >long/metrics.jsonl # as long as a verdict needs
check "a row for each rank" "$("$train" verdict long | grep -cE '^  (rank( +(compute|loader|waits for (sums|a core))){4}|[01]( +[0-9.]+ %){4})$')" 3
check "a rank's times" "$("$train" verdict long | awk '$1 == "1" { print $2 }')" \
    "$(awk -v s="$(tr -d ' ' <long/metrics.jsonl | grep -oE '"compute_seconds":\[[0-9.e-]+,[0-9.e-]+' | tail -n 1 | sed 's/.*,//')" 'BEGIN { printf "%.1f", s }')"
check "several runs at once" "$("$train" verdict two long --json | grep -c '"path":"two".*"path":"long".*"verdict":{')" 1

# ---- what there is no verdict on ----

mkdir short
cp alone/config.ini alone/network.ini short
sed -E 's/("time_spent":\{"seconds":)[0-9.e-]+/\10.99/' alone/metrics.jsonl >short/metrics.jsonl
check "a run too short" "$("$train" verdict short | tail -n 1)" "too short to say what it waited for"
refused "no folder" 2 "nowhere: is not there" "$train" verdict nowhere
mkdir old
cp alone/config.ini alone/network.ini old
sed 's/"time_spent":/"before":/' alone/metrics.jsonl >old/metrics.jsonl
refused "a run of an earlier version" 7 "old: its metrics.jsonl has no record of where the time went" "$train" verdict old
cp alone/metrics.jsonl old
rm old/config.ini
refused "no configuration" 2 "old/config.ini: is not there" "$train" verdict old
refused "no run named" 2 "no run folder: train verdict RUN..." "$train" verdict
finish
