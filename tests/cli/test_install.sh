#!/usr/bin/env bash
# What is installed: from a prefix that was moved, called by its link, in an empty folder. Configurations, pages, completions and the
# plugin are found from the program's own place, and messages name the scripts that are there.
set -uo pipefail
build=$(realpath "$1/..")
# shellcheck source=tests/cli/common.sh
. tests/cli/common.sh || exit 1
[ -f "$build/generated/lockstep-train.1" ] || {
    echo "skipped: this build installs nothing (sanitizers)"
    exit 77
}

cmake --install "$build" --prefix "$here/first" >log 2>&1
check "cmake --install" $? 0
mv first moved
for file in lib/lockstep/train share/lockstep/configs/mnist.ini share/lockstep/scripts/fetch-data.sh share/man/man1/lockstep-train.1 \
    share/bash-completion/completions/lockstep-train share/zsh/vendor-completions/_lockstep-train share/doc/lockstep/README.md; do
    check "$file" "$([ -f "moved/$file" ] && echo there)" there
done
check "where it was built for" "$(grep -rl "$here/first" moved | wc -l)" 0

for file in "$train" moved/lib/lockstep/train; do # an empty entry of the search path is the current folder
    check "search path of ${file##"$here"/}: empty entries" "$(readelf -d "$file" | grep -cE 'R(UN)?PATH.*(\[:|::|:\])')" 0
done

mkdir empty && cd empty || exit 1
PATH=$here/moved/bin:$PATH
check "program" "$(lockstep-train --version | head -n 1)" "$("$train" --version | head -n 1)"
check "a configuration that is installed" "$(lockstep-train configs/mnist.ini --print-config | grep -c '^dataset *= mnist')" 1
refused "a configuration that is nowhere" 2 "configs/mnsit.ini: is not there; did you mean mnist?" lockstep-train configs/mnsit.ini
check "a configuration by its name" "$(lockstep-train mnist --print-config | grep -c '^dataset *= mnist')" 1
printf '[data]\ndataset = synthetic\n[model]\nfile = resnet20\n' >own.ini
check "one's own configuration, an installed network" "$(lockstep-train own.ini --dry-run 2>&1 | grep -c "^$here/moved/share/lockstep/configs/models/resnet20.ini: input")" 1
rm own.ini
refused "data that is missing" 3 "run $here/moved/share/lockstep/scripts/fetch-data.sh mnist" lockstep-train configs/mnist.ini
mkdir configs && cp ../tiny.ini configs/mnist.ini && cp ../net.ini configs
check "one's own comes first" "$(lockstep-train configs/mnist.ini --print-config | grep '^dataset')" "$(lockstep-train ../tiny.ini --print-config | grep '^dataset')"
lockstep-train ../tiny.ini --run-dir run --quiet --set train.epochs=1
check "a run" $? 0
check "its command" "$(lockstep-train doctor --quick | grep -c '^  lockstep-train config.ini')" 1
if ls "$build"/bin/lockstep_cuda*.so >/dev/null 2>&1; then
    check "the plugin beside it" "$(lockstep-train devices | grep -c 'this build has no CUDA device')" 0
    rm "$here"/moved/lib/lockstep/lockstep_cuda*.so
fi
refused "no plugin" 4 "lockstep_cuda*.so is not there; it is in the package lockstep-cuda, and is made where " \
    env -u LOCKSTEP_CUDA_PLUGIN lockstep-train ../tiny.ini --run-dir none --set device.type=cuda
"$here/moved/share/lockstep/scripts/fetch-cuda.sh" >log 2>&1
check "fetch-cuda.sh without a folder: exit, what to name" "$? $(grep -c "fetch-cuda: name the folder .*/scripts/fetch-cuda.sh 13 FOLDER" log)" "2 1"
check "the manual's name" "$(grep -c '^\.TH LOCKSTEP.*TRAIN 1' ../moved/share/man/man1/lockstep-train.1)" 1
finish
