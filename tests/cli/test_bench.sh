# `train bench`: the table and its files, alone and on two ranks.
. "$(dirname "$0")/common.sh" "$1"

text=$("$train" bench tiny.ini --seconds 0.1 --repeats 2 2>/dev/null)
check "alone: exit" $? 0
check "alone: rows of the table" "$(grep -cE '^[a-z]+ x [0-9]+ ' <<<"$text")" 1
check "alone: files in the current folder" "$(ls bench.csv bench.json | tr '\n' ' ')" "bench.csv bench.json "

text=$(ranks 2 60 "$train" bench tiny.ini --seconds 0.1 --repeats 3 --run-dir out --set device.threads=0 2>/dev/null)
check "two ranks: exit" $? 0
check "two ranks: rows of the table" "$(grep -oE '^[a-z]+ x [0-9]+ ' <<<"$text" | grep -oE '[0-9]+' | tr '\n' ' ')" "1 2 "
check "two ranks: lines of bench.csv" "$(wc -l <out/bench.csv)" 3
check "two ranks: columns of bench.csv" "$(awk -F, '{ print NF }' out/bench.csv | sort -u)" 18
check "two ranks: ranks in bench.csv" "$(cut -d, -f3 out/bench.csv | tr '\n' ' ')" "ranks 1 2 "
check "two ranks: a rank has the same threads alone" "$(tail -n 2 out/bench.csv | cut -d, -f4 | sort -u | wc -l)" 1
check "two ranks: micro-batches in bench.csv" "$(cut -d, -f6 out/bench.csv | tr '\n' ' ')" "micro_batch 32 16 "
check "two ranks: no figure is missing" "$(grep -cE 'nan|inf|,,|,-' out/bench.csv)" 0
check "two ranks: arrangements in bench.json" "$(grep -c '"arrangement":' out/bench.json)" 2
check "two ranks: first speed-up" "$(field out/bench.json speed_up)" 1
check "two ranks: no run was made" "$(ls)" "$(printf '%s\n' bench.csv bench.json net.ini out tiny.ini)"
finish
