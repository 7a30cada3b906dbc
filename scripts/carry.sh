#!/usr/bin/env bash
# carry.sh - gathers in carry/ what scripts/gpu-check.sh needs on a machine without network and without packages: Debian packages
# (headers, libraries, cmocka, Open MPI, Fashion-MNIST) as files, which gpu-check.sh unpacks there. About 45 MB; ignored by git.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly packages=(libdnnl-dev libdnnl2 ocl-icd-libopencl1 libgomp1 libcjson-dev libcjson1 libxxhash-dev libxxhash0 zlib1g-dev zlib1g libdeflate-dev
  libdeflate0 libstb-dev libstb0 libcmocka-dev libcmocka0 pkgconf pkgconf-bin pkg-config libpkgconf3 ninja-build dataset-fashion-mnist
  libopenmpi-dev libopenmpi3 openmpi-bin openmpi-common libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7 libpmix2 libudev1 libmunge2
  libnuma1 libatomic1) # of Open MPI: what ranks of one host need; its drivers of fabrics stay unloaded without their libraries

mkdir -p carry
cd carry
for package in "${packages[@]}"; do
  compgen -G "${package}_*.deb" >/dev/null || apt-get download -qq "$package" 2>/dev/null
done
du -sh . | cut -f1
