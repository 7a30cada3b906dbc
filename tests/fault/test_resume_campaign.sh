# Runs that are killed or stopped at random moments, resumed, and end with the same bits: a few of them. Many: python3
# tests/fault/resume_campaign.py BIN. Argument: the folder of the built programs.
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 (Debian, Ubuntu: apt-get install python3)"
    exit 77
fi
exec python3 "$(dirname "$0")/resume_campaign.py" "$1" --runs 10 --seed 1 --jobs 2 --settings cpu-ordered
