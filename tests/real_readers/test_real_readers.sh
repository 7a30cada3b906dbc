# Our files in other programs' hands, as far as they are installed for PYTHON (default: python3); see real_readers.py. Weights of
# more than these networks: call that by hand.
exec "${PYTHON:-python3}" "$(dirname "$0")/real_readers.py" "$1/train" lenet resnet20 every-layer
