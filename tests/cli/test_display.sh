# Progress: a bar on a terminal, lines elsewhere, also under mpirun, whose ranks always see a terminal.
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/common.sh" "$1" || exit 1
if ! command -v script >/dev/null; then
    echo "skipped: no script command (Debian: bsdutils) to make a terminal with"
    exit 77
fi
export TERM=xterm LANG=C.UTF-8
unset NO_COLOR LC_ALL LC_CTYPE COLUMNS
escape=$(printf '\033')
return=$(printf '\r')

# on_terminal FILE COMMAND: what the command writes to a terminal
on_terminal() { script -qec "$2" /dev/null </dev/null >"$1" 2>&1; }
bars() { tr '\r' '\n' <"$1" | grep -c '^epoch .* %  loss .*left'; }
has() { grep -qF "$2" "$1" && echo yes || echo no; }

on_terminal out "$train tiny.ini --run-dir r1"
cp out out1
check "terminal: bars" "$([ "$(bars out)" -ge 2 ] && echo yes)" yes
check "terminal: colour" "$(has out "${escape}[32m")" yes
check "terminal: the bar is taken away" "$(has out "$return${escape}[K")" yes
check "terminal: evaluations" "$(grep -c 'test accuracy .* samples in' out)" 2
NO_COLOR=1 on_terminal out "$train tiny.ini --run-dir r2"
check "NO_COLOR: bars" "$([ "$(bars out)" -ge 2 ] && echo yes)" yes
check "NO_COLOR: no colour" "$(has out "${escape}[32m")" no
TERM=dumb on_terminal out "$train tiny.ini --run-dir d1"
check "TERM=dumb: lines" "$(bars out) $(has out "$escape") $(grep -c 'test accuracy .* samples in' out)" "0 no 2"
on_terminal out "$train tiny.ini --run-dir d2 2>&1 | cat"
check "a pipe on a terminal: lines" "$(bars out) $(has out "$escape") $(grep -c 'test accuracy .* samples in' out)" "0 no 2"
on_terminal out "bash -mc '$train tiny.ini --run-dir d3 & wait'"
check "in the background: no bar" "$(bars out) $(grep -c 'test accuracy .* samples in' out)" "0 2"
on_terminal out "$train tiny.ini --run-dir r3 --set log.progress=lines"
check "lines on a terminal" "$(bars out) $(has out "${escape}[K")" "0 no"

# A bar is one line, however wide the terminal is, and becomes.
if command -v python3 >/dev/null; then
    widths() { # NAME WIDTHS COMMAND...: updates of four samples, so that thousands are shown
        local name=$1 widths=$2
        shift 2
        # shellcheck disable=SC2086 # several words
        check "$name" "$(timeout 120 python3 "$tests/cli/terminal.py" $widths -- "$@" --run-dir "w$failures.$checks" --set train.global_batch=4 \
            --set log.every=1 --set train.epochs=9000 --set train.eval_every=0 --set checkpoint.every_epochs=0 | tail -n 1)" "0 too wide, exit 0"
    }
    widths "widths that change" "100 60 20 12 5 200 80" "$train" tiny.ini --set train.max_updates=60000
    for width in 50 75 130; do
        # shellcheck disable=SC2086 # flags are several words
        widths "mpirun on a terminal of $width columns" $width "$MPIRUN" $mpi_root $mpi_quiet --oversubscribe --bind-to none -np 2 \
            "$train" tiny.ini --set train.max_updates=200
    done
else
    echo "left out: no python3 to make a terminal of some width with"
fi
check "the first bar knows no time left" "$(tr '\r' '\n' <out1 | grep -m 1 '^epoch .* %  loss' | grep -cE 'left -')" 1

"$train" tiny.ini --run-dir r4 --set log.every_seconds=0.1 >out 2>&1
check "file: no bar" "$(bars out) $(has out "$return")" "0 no"
check "file: a line" "$([ "$(grep -c '^epoch .* update .* loss .* left' out)" -ge 1 ] && echo yes)" yes
"$train" tiny.ini --run-dir r5 --set log.progress=bar >out 2>&1
check "file, bar wanted" "$([ "$(bars out)" -ge 2 ] && echo yes) $(has out "${escape}[32m")" "yes no"
"$train" tiny.ini --run-dir r6 --set log.progress=off >out 2>&1
check "off: no progress" "$(grep -c '^epoch' out)" 0

# The first screen of a run on CPUs: six lines.
for n in 1 2; do
    ranks $n 60 "$train" tiny.ini --run-dir "f$n" --set device.type=cpu --set train.micro_batch=4 >out 2>&1
    check "first screen, $n ranks" "$(sed -E '/^epoch /,$d; s/^lockstep .*/lockstep/; s/cpu \(.*\),/cpu,/; s/ranks? of/of/' out)" "lockstep
network   net.ini, 1252 parameters
data      synthetic, 240 to train on, 100 to test on
device    cpu, $n of 1 thread, fp32
batch     32 = 4 x $((8 / n)) accumulated$([ $n = 1 ] || echo " x $n ranks"); 16 updates
run       f$n"
done
for n in 1 2; do
    ranks $n 60 "$train" tiny.ini --run-dir "m$n" >out 2>&1
    check "mpirun -np $n into a file: no bar" "$(bars out) $(has out "$escape")" "0 no"
    check "mpirun -np $n into a file: evaluations" "$(grep -c 'test accuracy .* samples in' out)" 2
    on_terminal out "$MPIRUN $mpi_root $mpi_quiet --oversubscribe --bind-to none -np $n $train tiny.ini --run-dir t$n"
    check "mpirun -np $n on a terminal: bars" "$([ "$(bars out)" -ge 2 ] && echo yes)" yes
done
# An option of the program that has such a word in its value changes nothing.
on_terminal out "$MPIRUN $mpi_root $mpi_quiet --oversubscribe --bind-to none -np 2 $train tiny.ini --run-dir=tag-output/xml"
check "a run folder named as an option of mpirun: bars" "$([ "$(bars out)" -ge 2 ] && echo yes)" yes
for option in --tag-output --timestamp-output "--output-filename $here/by-rank"; do
    on_terminal out "$MPIRUN $mpi_root $mpi_quiet --oversubscribe --bind-to none $option -np 2 $train tiny.ini --run-dir o$checks"
    check "mpirun ${option%% *} on a terminal: no bar" "$(bars out) $(has out "$escape")" "0 no"
    # Open MPI 5.0.7 writes nothing anywhere with --output-filename ("PMIX_ERR_EXISTS").
    [[ -z $mpi_quiet && $option = --output-filename* ]] && continue
    check "mpirun ${option%% *} on a terminal: evaluations" "$(grep -c 'test accuracy .* samples in' out)" 2
done
finish
