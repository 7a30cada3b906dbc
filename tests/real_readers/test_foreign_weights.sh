# Weights that PyTorch has trained, evaluated by `train eval`: as many right answers; see foreign_weights.py. PYTHON (default: python3)
# has PyTorch and NumPy, or the test is skipped.
exec "${PYTHON:-python3}" "$(dirname "$0")/foreign_weights.py" "$1/train"
