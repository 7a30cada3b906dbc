# The n-th small allocation fails, for many n spread over a run of one rank and over a run of two, on either rank: exit code 4 and one line
# each time; the other rank ends, no process is left and nothing hangs; what the run saved is whole, and it goes on from there.
if ! command -v python3 >/dev/null || ! command -v nm >/dev/null; then
    echo "skipped: no python3 or no nm (Debian, Ubuntu: apt-get install python3 binutils)"
    exit 77
fi
set -e
python3 "$(dirname "$0")/injection.py" "$1" --small --try 24 --scenes checkpoints
python3 "$(dirname "$0")/injection.py" "$1" --small --try 10 --scenes ranks,ranks1
