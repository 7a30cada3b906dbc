# That docs/cuda.md has the nodes of an update as they are: count_nodes.py, whose --update renews the table.
bin=$1
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 (Debian, Ubuntu: apt-get install python3)"
    exit 77
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/emulation/count_nodes.py" --bin "$bin" --check "$root/docs/cuda.md"
