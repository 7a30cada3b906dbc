# The shipped networks beside torchvision's modules of the same names: see known_networks.py. PYTHON (default: python3) has PyTorch,
# torchvision, safetensors and NumPy, or the test is skipped.
exec "${PYTHON:-python3}" "$(dirname "$0")/known_networks.py" "$1/train" resnet18 squeezenet1_1 wrn-16-4
