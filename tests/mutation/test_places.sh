# That mutate.py finds the places it should, and that what without-effect.txt names is still in the sources.
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 (Debian, Ubuntu: apt-get install python3)"
    exit 77
fi
exec env PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/check_places.py"
