# A run of two hosts with a slow link waits for sums over ranks, and the verdict says so. Argument: the folder of the built programs.
set -u
bin=$(cd "$1" && pwd)
# shellcheck source=tests/support/hosts.sh
. tests/support/hosts.sh || exit 1
hosts_or_skip latency
work=$(mktemp -d)
trap 'hosts_down; rm -rf "$work"' EXIT

cat >"$work/net.ini" <<'END'
; Some 0.4 MB of gradients: 30 ms and more over 100 Mbit/s.
[network]
input = 1x12x12
[flat]
layer = flatten
[wide]
layer = linear
out_features = 700
[relu]
layer = relu
[fc]
layer = linear
out_features = 4
END
hosts_up 2 1 100
hosts_run 1 60 "$bin/train" "$PWD/tests/support/tiny.ini" --run-dir "$work/run" --set model.file="$work/net.ini" --set train.epochs=1 \
  --set train.global_batch=4 --set train.eval_every=0 >"$work/log" 2>&1
check "exit" $? 0
check "communication binds" "$(grep -cE 'verdict   the run waited for sums over ranks [0-9]+ % of the time' "$work/log")" 1
[ "$failures" = 0 ] || tail -n 5 "$work/log"
finish
