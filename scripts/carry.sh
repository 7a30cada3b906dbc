#!/usr/bin/env bash
# carry.sh - gathers in carry/ what scripts/gpu-check.sh needs on a machine without network and without packages: Debian packages
# (headers, libraries, cmocka, Fashion-MNIST) as files, which gpu-check.sh unpacks there. About 40 MB; ignored by git.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly packages=(libdnnl-dev libdnnl2 ocl-icd-libopencl1 libgomp1 libcjson-dev libcjson1 libxxhash-dev libxxhash0 zlib1g-dev zlib1g libdeflate-dev
  libdeflate0 libstb-dev libstb0 libcmocka-dev libcmocka0 pkgconf pkgconf-bin pkg-config libpkgconf3 ninja-build dataset-fashion-mnist)

mkdir -p carry
cd carry
for package in "${packages[@]}"; do
  compgen -G "${package}_*.deb" >/dev/null || apt-get download -qq "$package" 2>/dev/null
done
du -sh . | cut -f1
