# Calls that can fail (memory, files, threads, libraries) fail, one after the other; the program ends as documented. Here a share of
# them; all: python3 tests/fault/injection.py BIN --long
if ! command -v python3 >/dev/null || ! command -v nm >/dev/null; then
    echo "skipped: no python3 or no nm (Debian, Ubuntu: apt-get install python3 binutils)"
    exit 77
fi
python3 "$(dirname "$0")/injection.py" "$1"
