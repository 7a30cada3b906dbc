# That the texts which planted_faults.py replaces still stand in the sources, each once. The faults themselves: by hand.
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 (Debian, Ubuntu: apt-get install python3)"
    exit 77
fi
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/planted_faults.py" --check
