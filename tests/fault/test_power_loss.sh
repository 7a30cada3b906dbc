# A power cut after every file operation of a run that writes checkpoints: the last one reported as written, or a later one, is good.
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3"
    exit 77
fi
python3 "$(dirname "$0")/power_loss.py" "$1"
