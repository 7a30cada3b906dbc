#!/usr/bin/env bash
# check_house.sh - keeps the house small and plain: lines of each room of src/, width of comments, words that no reader understands.
#
#   scripts/check_house.sh [ROOT]     ROOT: a tree with src/ and cmake/rooms.txt (default: this repository)
#
# 1. A room has no more lines than its budget in cmake/rooms.txt. Raise a budget in a commit of its own that says why.
# 2. In `narrow` no line with a comment is wider than 120 columns; clang-format leaves comments alone.
# 3. In `plain` no comment or text has one of `phrases`.
set -euo pipefail
case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac
cd "${1:-$(dirname "$0")/..}"
export LC_ALL=C.UTF-8 # columns are characters

# Rooms that follow each rule, or folders of them. Add every room that does.
readonly narrow=(src)
readonly plain=(src/base src/command/help src/deploy src/device/cuda/kernels src/device/ref src/dist src/formats src/model src/program src/system src/tools/audit src/tools/compare src/tools/report src/train/diagnose)

# The dialect: an extended regular expression and what to write instead.
readonly phrases=(
  '\bbehind (it|them|that|this|which)\b => after it, after them'
  '\b(is|are|was|has|have) none\b => is not a ..., has no ...'
  '\bthere is none\b => there is no ..., or: not found'
  '\bnone of (it|them)\b => the noun: no layer, no rank'
  '\b(by|of|from|with|to) what\b => the noun: by the rank that'
  '\b(of|for|after) so (many|much)\b => the number: after `minutes`'
  '\bwhat (it|they) (is|are|has|have)\b => the noun: its name, their shapes'
  '\b(that|those) of (a|an|another|others|all)\b => the noun again: the width of'
)

bad=0
complain() {
  echo "$1"
  bad=1
}

# file:line:text of every line below a folder that has a comment or a string.
texts() { grep -rnE '//|"|^[[:space:]]*\*' "$1"; }

check_budgets() {
  local room budget rest lines
  while read -r room budget rest; do
    [[ $room =~ ^[a-z] ]] || continue
    [[ $budget =~ ^[0-9]+$ ]] || {
      complain "cmake/rooms.txt: room $room has no budget of lines as its second word"
      continue
    }
    lines=$(find "src/$room" -type f -exec cat {} + | wc -l)
    [ "$lines" -le "$budget" ] ||
      complain "room $room has $lines lines, its budget is $budget: remove lines, or raise it in cmake/rooms.txt by a commit that says why"
  done <cmake/rooms.txt
}

check_width() {
  local folder line
  for folder in "${narrow[@]}"; do
    while IFS= read -r line; do
      complain "${line%%:*}:$(cut -d : -f 2 <<<"$line"): a comment wider than 120 columns"
    done < <(grep -rnE '^.{121,}$' "$folder" | grep -E '^[^:]*:[0-9]+:(.*[[:space:]])?//')
  done
}

check_phrases() {
  local folder entry line
  for folder in "${plain[@]}"; do
    for entry in "${phrases[@]}"; do
      while IFS= read -r line; do
        complain "${line:0:160}: write plainly (${entry##* => })"
      done < <(texts "$folder" | grep -iE -- "${entry%% => *}")
    done
  done
}

check_budgets
check_width
check_phrases
[ $bad = 1 ] || echo "all rooms are within their budgets; comments: ${narrow[*]} are narrow, ${plain[*]} are plain"
exit $bad
