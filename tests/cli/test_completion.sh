# Completion (scripts/completion), exercised by the shells themselves, and the man page (cmake/man_page.sh), checked by its readers.
root=$PWD
. "$(dirname "$0")/common.sh" "$1" || exit 1
mkdir bin pictures runs
ln -s "$train" bin/lockstep-train
export PATH=$here/bin:$PATH
touch a.ini weights.safetensors boot.png notes.txt

# shellcheck source=scripts/completion/lockstep-train.bash
. "$root/scripts/completion/lockstep-train.bash" || exit 1
if command -v shellcheck >/dev/null; then
    shellcheck -s bash -e SC2207 "$root/scripts/completion/lockstep-train.bash" || failures=$((failures + 1))
fi

# offers WHAT EXPECTED WORD...: what bash would show behind these words, in a line; words as bash cuts them, at = too
offers() {
    local what=$1 expected=$2
    shift 2
    COMP_WORDS=(lockstep-train "$@") COMP_CWORD=$#
    _lockstep-train
    check "bash: $what" "$([ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')" "$expected"
}
offers "a command" "bench " be
offers "a configuration" "a.ini " a.
offers "commands and configurations" "a.ini audit augment " a
offers "options of a command" "--scaling --seconds --set --sweep " bench x.ini --s
offers "options of the run" "--resume --run-dir " x.ini --r
offers "none of another command" "" devices --res
offers "an option of the configuration" "optimizer.kind= " x.ini --set optimizer.ki
offers "its words" "adamw " x.ini --set optimizer.kind = a
offers "all of them" "false true " x.ini --set run.deterministic =
offers "words behind --set=" "adamw " x.ini --set = optimizer.kind = a
offers "nothing for a number" "" x.ini --set optimizer.lr = 0
offers "the words of an option" "strong " bench x.ini --scaling s
offers "the words behind =" "weak " bench x.ini --scaling = w
offers "folders" "bin pictures runs " x.ini --run-dir ""
offers "files of a kind" "a.ini bin net.ini pictures runs tiny.ini " predict w --config ""
offers "weights" "weights.safetensors " predict we
offers "pictures" "boot.png " predict w --quiet bo
offers "more pictures" "boot.png " predict w a.png --config x.ini bo
offers "an action" "show verify " ckpt ""
offers "a topic" "exit-codes " help exi
offers "a section" "optimizer " help options opt
offers "a kind of layer" "batchnorm2d " help layers b
offers "nothing behind what is whole" "" devices x
check "a name with a space goes whole" "$(touch 'my run.ini'; COMP_WORDS=(lockstep-train my) COMP_CWORD=1; _lockstep-train; echo "${COMPREPLY[*]}")" "my run.ini"

if command -v zsh >/dev/null; then
    cp "$root/scripts/completion/_lockstep-train" .
    check "zsh: syntax" "$(zsh -n _lockstep-train 2>&1)" ""
    # zsh completes in a terminal of its own: there it makes of the words up to a tab what is expected, or the time runs out.
    cat >ask.zsh <<'END'
zmodload zsh/zpty
zpty -b shell "zsh -f -i"
zpty -w shell "fpath=($PWD \$fpath); autoload -U compinit; compinit -u -D
show() { print -r -- \"<\$BUFFER>\"; BUFFER= }; zle -N show; bindkey '^X' show; echo re'ady'"
zpty -r -m shell text '*ready*'
for words expected in "$@"; do
    zpty -w -n shell "lockstep-train $words"$'\t\x18'
    zpty -r -m shell text '*<*>*'
    print -r -- ${${text%>*}##*<lockstep-train }
done
END
    for pair in "be|bench" "bench a|bench a.ini" "help exi|help exit-codes" "a.ini --set optimizer.ki|a.ini --set optimizer.kind=" \
        "a.ini --set optimizer.kind=ad|a.ini --set optimizer.kind=adamw" "a.ini --dr|a.ini --dry-run" "predict we|predict weights.safetensors"; do
        pairs+=("${pair%|*}" "${pair#*|}")
    done
    timeout 60 zsh ask.zsh "${pairs[@]}" >asked
    for ((i = 1; i < ${#pairs[@]}; i += 2)); do
        check "zsh: ${pairs[i - 1]}" "$(sed -n "$(((i + 1) / 2))s/ *$//p" asked)" "${pairs[i]}"
    done
else
    echo "left out: no zsh (Debian: zsh)"
fi

# The man page: no reader has anything to object, and every command and option is in it.
sh "$root/cmake/man_page.sh" "$train" lockstep-train >lockstep-train.1
check "man: its name" "$(head -n 1 lockstep-train.1 | cut -d ' ' -f 1-3)" ".TH LOCKSTEP-TRAIN 1"
readers=0
if command -v man >/dev/null && command -v groff >/dev/null; then
    check "man --warnings" "$(LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -E UTF-8 -l -Tutf8 -Z ./lockstep-train.1 2>&1 >/dev/null)" ""
    readers=1
fi
if command -v mandoc >/dev/null; then
    check "mandoc -T lint" "$(mandoc -T lint -W warning lockstep-train.1 2>&1 | grep -v 'missing date')" ""
    mandoc -T ascii lockstep-train.1 | sed 's/.\x08//g' >page
    for command in train $("$train" help complete -- '' | grep -v '^:' | cut -f 1); do
        for option in $("$train" help "$command" | grep -oE '^  --[a-z-]+'); do
            grep -q -- "$option" page || check "man: $command $option" missing there
        done
    done
    check "man: examples are for the installed name" "$(grep -c '\./train' page) $([ "$(grep -c '^ *lockstep-train ' page)" -ge 20 ] && echo yes)" "0 yes"
    readers=1
fi
[ $readers = 1 ] || echo "left out: neither groff's man nor mandoc to read the page"
finish
