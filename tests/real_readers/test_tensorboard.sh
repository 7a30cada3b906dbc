# TensorBoard reads a run's event files: its scalars are metrics.jsonl's, exactly, as float32. PYTHON (default: python3) has tensorboard, or
# the test is skipped.
exec "${PYTHON:-python3}" "$(dirname "$0")/read_tensorboard.py" "$1/train"
