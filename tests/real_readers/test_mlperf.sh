# MLPerf's own parser reads the lines of `train metrics --mlperf`. PYTHON (default: python3) has mlperf_logging, or the test is skipped.
. tests/cli/common.sh "$1"
python=${PYTHON:-python3}
"$python" -c 'import mlperf_logging' 2>/dev/null || { echo "skipped: $python has no mlperf_logging"; exit 77; }
"$train" tiny.ini --quiet --run-dir one || exit 1
"$train" metrics one --mlperf -o one.mlperf || exit 1
cat >parse.py <<'PY'
import sys
from mlperf_logging.compliance_checker.mlp_parser import parse_file
from mlperf_logging.mllog import constants
lines, errors = parse_file(sys.argv[1], ruleset="5.1.0")
assert not errors, errors[:3]
assert len(lines) == sum(1 for _ in open(sys.argv[1])) > 10
known = {value for name, value in vars(constants).items() if name.isupper()}
print(" ".join(sorted({line.key for line in lines} - known)))
PY
check "lines that MLPerf's parser reads; keys that are none of MLPerf's constants" "$("$python" parse.py one.mlperf 2>&1 | tail -n 1)" "tracked_stats"
sed -i '3s/"metadata"/"meta/' one.mlperf
check "a line that is damaged is seen" "$("$python" parse.py one.mlperf 2>&1 | tail -n 1 | grep -c AssertionError)" 1
finish
