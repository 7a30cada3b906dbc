# common.sh - for this folder's scripts: sourced with the folder of the built programs as argument.
#   $train        the program; the current folder is a new empty one with tiny.ini and net.ini in it, removed at the end
#   field FILE NAME               value of a field of an indented JSON file, without quotes
#   refused WHAT RC TEXT COMMAND  COMMAND fails with RC, its output has exactly one error line, which contains TEXT
. "$(dirname "${BASH_SOURCE[0]}")/../support/mpi.sh"
train=$1/train
case $train in /*) ;; *) train=$PWD/$train ;; esac
here=$(mktemp -d)
trap 'chmod -R u+rwX "$here"; rm -rf "$here"' EXIT
cp "$(dirname "${BASH_SOURCE[0]}")/../support/small_net.ini" "$here/net.ini"
cd "$here" || exit 1

cat >tiny.ini <<'END'
[data]
dataset = synthetic
shape = 1x12x12
classes = 4
train_samples = 240
test_samples = 100
[model]
file = net.ini
[train]
epochs = 2
global_batch = 32
[device]
threads = 1
[log]
every = 4
END

field() {
    sed -nE "s/^[[:space:]]*\"$2\":[[:space:]]*\"?([^\",]*)\"?,?\$/\1/p" "$1" | head -n 1
}

refused() {
    local what=$1 rc=$2 text=$3 output got errors
    shift 3
    output=$("$@" 2>&1)
    got=$?
    errors=$(grep -c 'error:' <<<"$output")
    check "$what: exit" "$got" "$rc"
    check "$what: error lines" "$errors" 1
    case $output in
    *"$text"*) ;;
    *) check "$what: message" "$output" "...$text..." ;;
    esac
}
