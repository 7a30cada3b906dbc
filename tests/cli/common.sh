# common.sh - for this folder's scripts: sourced with the folder of the built programs as argument.
#   $train        the program; the current folder is a new empty one with tiny.ini and net.ini in it, removed at the end
#   refused WHAT RC TEXT COMMAND  COMMAND fails with RC, its output has exactly one error line, which contains TEXT
# shellcheck source=tests/support/mpi.sh
. tests/support/mpi.sh || exit 1
train=$1/train
case $train in /*) ;; *) train=$PWD/$train ;; esac
here=$(mktemp -d)
trap 'chmod -R u+rwX "$here"; rm -rf "$here"' EXIT
cp tests/support/tiny.ini "$here"
cp tests/support/small_net.ini "$here/net.ini"
cd "$here" || exit 1

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
