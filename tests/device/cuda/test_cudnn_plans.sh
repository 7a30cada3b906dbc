#!/usr/bin/env bash
# Plans of all convolutions of the shipped networks, for described GPUs (cudnn_plans.c).
#   test_cudnn_plans.sh FOLDER      FOLDER: the built programs
set -euo pipefail

if [ ! -x "$1/cuda_plans" ]; then
  echo "skipped: no cuDNN was found when this was built: no plans for described GPUs"
  exit 77
fi
# NVIDIA's libraries leave memory behind at exit, in modules that are unloaded by then: no suppression can name them.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
exec "$1/cuda_plans"
