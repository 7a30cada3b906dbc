# The scripts that users call: --help explains the script, exits 0 and does nothing else; unknown words are refused. Works without the
# packages that the scripts install.
set -u
cd "$(dirname "$0")/../.." || exit 1
scripts=$PWD/scripts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0 failures=0
check() { # WHAT ACTUAL EXPECTED
  checks=$((checks + 1))
  [ "$2" = "$3" ] || {
    failures=$((failures + 1))
    printf 'FAILED %s: is "%s", expected "%s"\n' "$1" "$2" "$3"
  }
}

for script in "$scripts"/*.sh "$scripts"/packages/*.sh; do
  name=${script##*/}
  for option in --help -h; do
    "$script" $option >out 2>err </dev/null
    check "$name $option: exit" $? 0
    check "$name $option: nothing on stderr" "$(cat err)" ""
    check "$name $option: has a usage line" "$(grep -qE "^ *scripts/([a-z]+/)?$name|^usage: .*" out && echo yes)" yes
    check "$name $option: no code" "$(grep -cE '^set -|^#!' out)" 0
    rm -f out err
    check "$name $option: writes nothing" "$(ls -A)" ""
  done
done

# Words that are no names: exit 2, nothing happens.
while read -r line; do
  read -ra words <<<"$line"
  "$scripts/${words[0]}" "${words[@]:1}" >out 2>&1 </dev/null
  check "$line: exit" $? 2
  check "$line: says something" "$([ -s out ] && echo yes)" yes
  rm -f out
  check "$line: writes nothing" "$(ls -A)" ""
done <<'END'
fetch-data.sh
fetch-data.sh --all
fetch-data.sh mnist -x
fetch-cuda.sh -x
fetch-cuda.sh 12 -x
fetch-cuda.sh 11 cuda11
fetch-arm64.sh -x
install-packages.sh --all
install-packages.sh --print all
check.sh --all
fuzz.sh --all
fuzz.sh --jobs x
fuzz.sh --jobs a[$(touch${IFS}planted)]
fuzz.sh --minutes -1
launch.sh
launch.sh --all
END
echo "$checks checks, $failures failed"
[ "$failures" = 0 ]
