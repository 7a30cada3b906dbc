#!/usr/bin/env bash
# gpu-check.sh - builds Lockstep on a machine with an NVIDIA GPU (or takes a program that was built elsewhere and carried there), checks
# it on the card and measures it. docs/gpu-first-half-hour.md says what to call when, and what to expect.
#
#   scripts/gpu-check.sh first --minutes 8      what teaches most, in order, within 8 minutes; the next call goes on where this one stopped
#   scripts/gpu-check.sh [all | PART...]        everything, or some parts; --help lists them and all options
#
# Needs python3, and where it has to build: nvcc, cuDNN and cuBLASLt (installed, or as Python packages of python3) and the packages of
# install-packages.sh; without those, carry/ as scripts/carry.sh makes it. MPI is used if it is there. Needs no network and no git.
# Results: $OUT where that is set, else build/gpu/results; record.jsonl there grows after every item, report.md is made anew.
# Exit: 0 nothing failed; 1 something failed, or there is no program; 2 wrong use; 4 no GPU; 128 + N ended by signal N.
set -euo pipefail
python=$(command -v "${PYTHON:-python3}") || {
  echo "gpu-check.sh: no ${PYTHON:-python3}" >&2
  exit 1
}
exec "$python" "$(dirname "$0")/gpu_check" "$@"
