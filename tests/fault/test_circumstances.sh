# Runs whose reader goes away, whose descriptors are closed, whose folder is moved or holds what it should not, several at once, and what is
# refused: two of each kind. Many: python3 tests/fault/circumstances.py BIN. Argument: the folder of the built programs.
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 (Debian, Ubuntu: apt-get install python3)"
    exit 77
fi
exec python3 "$(dirname "$0")/circumstances.py" "$1" --runs 16 --seed 1 --jobs 2
