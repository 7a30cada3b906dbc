# `train report`: the page beside the files of its runs; files that are missing, cut off, damaged, hostile or long; refusals; in a
# browser, where there is one.
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/common.sh" "$1" || exit 1

report() { "$train" report --quiet "$@"; }
true_to() { # WHAT PAGE FOLDER...: the page's data is that of the folders' files, and it stands by itself
    local what=$1 seen
    shift
    command -v python3 >/dev/null || return
    seen=$(python3 "$tests/check_report.py" "$@" 2>&1)
    check "$what: as in the files" "$seen" ""
}
command -v python3 >/dev/null || echo "skipped: the pages' data beside the files: no python3"

for seed in 1 2; do
    "$train" tiny.ini --quiet --set run.seed=$seed --run-dir runs/seed-$seed
    check "training $seed: exit" $? 0
done
# Stopped and gone on with, with another rate; then cut back to what a killed process may have left of its second part.
"$train" tiny.ini --quiet --set train.max_updates=6 --run-dir runs/parts
"$train" tiny.ini --quiet --resume --run-dir runs/parts --set optimizer.lr=0.01 2>/dev/null
check "a run in two parts: starts" "$(grep -c '"event":"start"' runs/parts/metrics.jsonl)" 2

text=$("$train" report runs/seed-1 2>&1)
check "one run: exit, says" "$? $text" "0 report    report.html: 1 run, 0 benchmarks"
true_to "one run" report.html runs/seed-1
report runs -o all.html
check "a folder of runs: exit" $? 0
true_to "a folder of runs" all.html runs/parts runs/seed-1 runs/seed-2
ranks 2 30 "$train" report --quiet runs/seed-1 runs/parts/ -o two.html
check "2 ranks: exit" $? 0
true_to "2 ranks" two.html runs/seed-1 runs/parts
report runs/seed-1 -o all.html
check "a page of ours is replaced" "$(grep -c seed-2 all.html)" 0
"$train" report --quiet runs/seed-1 -o /dev/stdout | cat >piped.html
true_to "into a pipe" piped.html runs/seed-1

# --- what is missing, cut off, damaged
mkdir -p some/only some/cut some/metrics some/damaged
cp runs/seed-1/config.ini some/only
cp runs/seed-1/metrics.jsonl some/metrics
cp runs/seed-1/{config.ini,run.json} some/cut
head -c 3000 runs/seed-1/metrics.jsonl >some/cut/metrics.jsonl
cp runs/seed-1/* some/damaged 2>/dev/null
head -c 100 runs/seed-1/summary.json >some/damaged/summary.json
echo '[1]' >some/damaged/evaluation.json
sed -i '3s/.*/{"event":"train","upd/' some/damaged/metrics.jsonl
text=$("$train" report some -o some.html 2>&1)
check "files missing or damaged: exit" $? 0
check "damaged files are named" "$(grep -c '^warning: some/damaged/\(summary\|evaluation\).json: .*the report is without it$' <<<"$text")" 2
true_to "files missing or damaged" some.html some/cut some/damaged some/metrics some/only
check "lines that cannot be read are counted" "$(grep -o '"lines_unreadable":[0-9]*' some.html)" '"lines_unreadable":1'

# --- hostile names and texts: none of them is more than text
hostile='</script><script>document.title="taken"</script><img src=x onerror=alert(1)>'
mkdir -p "hostile/<b>&\"'\$(x)"
cp -r runs/seed-1/* "hostile/<b>&\"'\$(x)"
printf '{"event":"warning","update":2,"epoch":0,"time":1,"message":"%s \\u0001 \xff"}\n' "${hostile//\"/\\\"}" >>hostile/*/metrics.jsonl
printf '; %s\n[run]\nname = %s\n' "$hostile" "$hostile" >hostile/config.ini
sed -i "/^name =/s|=.*|= ${hostile//&/\\&}|" hostile/*/config.ini
printf '{"set":"%s","samples":2,"top1":0.5,"classes":["%s","<!--"],"confusion":[[1,1],[0,0]],"mistakes":[{"index":0,"path":"%s","label":0,"prediction":1,"probability":0.9,"picture":"\\"><script>"}]}' \
    "${hostile//\"/\\\"}" "${hostile//\"/\\\"}" "${hostile//\"/\\\"}" >hostile/x.json
mv hostile/x.json "hostile/<b>&\"'\$(x)/evaluation.json"
rm hostile/config.ini
report hostile -o hostile.html
check "hostile texts: exit" $? 0
check "hostile texts: elements of scripts" "$(grep -o '</\?script' hostile.html | wc -l)" 4
true_to "hostile texts" hostile.html "hostile/<b>&\"'\$(x)"

# --- a long run: few rows, and the lowest and highest are among them
mkdir long
head -1 runs/seed-1/metrics.jsonl >long/metrics.jsonl
awk 'BEGIN { for (i = 1; i <= 40000; i++) printf "{\"event\":\"train\",\"update\":%d,\"epoch\":%d,\"time\":1,\"seconds\":%d,\"train_loss\":%s}\n",
    i, i / 100, i, i == 12345 ? "-7.5" : i == 23456 ? "99.5" : "1.25" }' >>long/metrics.jsonl
report long -o long.html
check "a long run: exit" $? 0
check "a long run: rows" "$(grep -oE '"train_loss":\[[^]]*\]' long.html | head -1 | tr ',' '\n' | awk 'END { print (NR >= 1000 && NR <= 2000) }')" 1
check "a long run: lowest, highest, last update" \
    "$(grep -oE '"train":\{"update":\[[^]]*\]' long.html | grep -oE '[0-9]+\]$') $(grep -oE '"train_loss":\[[^]]*\]' long.html | head -1 | grep -oE '[-,](7|99)\.5' | tr '\n' ' ')" \
    "40000] -7.5 ,99.5 "

# --- refusals
mkdir none empty
echo "not ours" >notes.html
refused "no such folder" 2 "runs/none: is not there" "$train" report runs/none
refused "no run's folder" 2 "empty: is no folder of a run" "$train" report empty
refused "a file" 2 "tiny.ini: is a configuration; expected RUN" "$train" report tiny.ini
refused "a page that is none of ours" 2 "notes.html: is there, and no page of this program" "$train" report runs -o notes.html
check "a page that is none of ours: stays" "$(cat notes.html)" "not ours"
refused "no folder for the page" 7 "nowhere/x.html" "$train" report runs/seed-1 -o nowhere/x.html
refused "a folder in the page's place" 7 "none: cannot write: is a folder" "$train" report runs/seed-1 -o none
check "refused: no page" "$(find none empty -type f; ls -d nowhere 2>/dev/null)" ""

# --- in a browser
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "$browser" ]; then
    echo "skipped: the page in a browser: no chromium (Debian: apt-get install chromium)"
    finish
fi
drawn() { # PAGE: what a browser makes of it into dom; what its console says into console
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$PWD/browser" --window-size=360,4000 \
        --virtual-time-budget=4000 --enable-logging=stderr --dump-dom "file://$PWD/$1" >dom 2>browser.err
    local rc=$?
    grep CONSOLE browser.err >console
    return $rc
}
shown() { grep -oE "data-key=\"$1\" data-value=\"[^\"]*\"" dom | head -1 | sed 's/.*data-value="//; s/"$//'; }
echo '<p>drawn here' >plain.html
if ! drawn plain.html || ! grep 'drawn here' dom >/dev/null; then
    echo "skipped: the page in a browser: $browser does not run here: $(head -c 200 browser.err)"
    finish
fi
drawn report.html
check "browser: the console is silent" "$(cat console)" ""
for key in test_accuracy test_loss train_loss wall_seconds train_images_per_second updates; do
    check "browser: $key" "$(shown $key)" "$(field runs/seed-1 $key)"
done
check "browser: there are curves" "$(grep -o 'class="curve"' dom | wc -l | awk '{ print ($1 >= 4) }')" 1
# The mean and its 95 % interval, by Student's t: of two seeds 12.706 (one degree of freedom), of three 4.303.
cp -r runs/seed-2 runs/seed-3
sed -i '0,/"test_accuracy"/s/"test_accuracy":.*/"test_accuracy": 0.5,/' runs/seed-3/summary.json
for seeds in 2 3; do
    report runs/seed-[1-$seeds] -o seeds.html
    drawn seeds.html
    expected=$(for seed in $(seq $seeds); do field runs/seed-$seed test_accuracy; done | awk '{ n++; sum += $1; squares += $1 * $1 }
        END { mean = sum / n; sd = sqrt((squares - n * mean * mean) / (n - 1)); half = (n == 2 ? 12.706 : 4.303) * sd / sqrt(n)
              printf "%.2f %% ± %.2f %% | %.2f %% to %.2f %%", 100 * mean, 100 * sd, 100 * (mean - half), 100 * (mean + half) }')
    for part in "${expected% | *}" "${expected#* | }"; do
        check "browser: $seeds seeds: $part" "$(sed 's/\xe2\x80\xaf/ /g' dom | grep -cF ">$part<")" 1
    done
done
rm -r runs/seed-3
report hostile some runs long -o everything.html
drawn everything.html
check "browser: everything: the console is silent" "$(cat console)" ""
check "browser: everything: is drawn to its end" "$(grep -c 'id="environment"' dom)" 1
check "browser: everything: texts stay texts" "$(grep -c '<title>taken\|<img src="x"\|onerror="' dom)" 0
finish
