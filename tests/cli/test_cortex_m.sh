#!/usr/bin/env bash
# The C file of `train export` on an emulated Cortex-M7: compiled without warnings; 20 pictures have the host's logits, in int8 equal, in
# floats within 1e-5 of the largest. The network is MLPerf Tiny's, after some updates on made-up pictures.
set -u
root=$PWD
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1
missing() {
    echo "skipped: no $1 (Debian, Ubuntu: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)"
    exit 77
}
for needed in python3 gcc arm-none-eabi-gcc qemu-system-arm; do command -v $needed >/dev/null || missing $needed; done
board=$root/tests/support/cortex_m
strict="-std=c99 -O2 -Wall -Wextra -Wconversion -pedantic -Werror"
machine="-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16"
echo 'int main(void) { return 0; }' >empty.c
# shellcheck disable=SC2086 # several words
arm-none-eabi-gcc $machine -nostartfiles --specs=rdimon.specs -T "$board/mps2.ld" "$board/start.c" empty.c -o empty 2>/dev/null ||
    missing "C library for arm-none-eabi-gcc"

python3 - >pictures.h <<'P'
import random
draw = random.Random(7)
print("static const unsigned char pictures[20][3072] = {")
for _ in range(20):
    base = draw.randrange(256)
    print("{" + ",".join(str(min(255, max(0, int(draw.gauss(base, 60))))) for _ in range(3072)) + "},")
print("};")
P
cat >all.c <<'C'
/* Prints the logits of 20 pictures: a line each. */
#include <stdint.h>
#include <stdio.h>
#include "pictures.h"
int net_predict(const uint8_t *pixels, float *logits);
int main(void) {
    for (int i = 0; i < 20; i++) {
        float logits[10];
        net_predict(pictures[i], logits);
        for (int k = 0; k < 10; k++) printf("%.9g%c", (double)logits[k], k < 9 ? ' ' : '\n');
    }
    return 0;
}
C
cat >compare.py <<'P'
import sys
ours, theirs = ([[float(word) for word in line.split()] for line in open(name)] for name in sys.argv[1:3])
worst = max((abs(a - b) / max(map(abs, y)) for x, y in zip(ours, theirs) for a, b in zip(x, y)), default=1)
print(f"{len(ours)} pictures", "same" if len(ours) == len(theirs) and worst <= 1e-5 else f"differ by {worst:.2e}")
P

"$train" "$root/configs/tiny-resnet8.ini" --quiet --run-dir run --set data.dataset=synthetic --set data.shape=3x32x32 --set data.classes=10 \
    --set data.train_samples=256 --set data.test_samples=64 --set train.epochs=4 --set train.global_batch=64 --set device.type=cpu >training.txt 2>&1
check "trained" "$? $(grep error: training.txt)" "0 "
for kind in float int8; do
    option=()
    [ $kind = float ] || option=(--int8 --calibrate 64)
    "$train" export run net.c "${option[@]}" >export.txt 2>&1
    check "$kind: exported" "$? $(grep error: export.txt)" "0 "
    # shellcheck disable=SC2086 # several words
    arm-none-eabi-gcc $machine $strict -c net.c -o net.o 2>warned.txt
    check "$kind: no warning" "$? $(head -3 warned.txt)" "0 "
    # shellcheck disable=SC2086
    arm-none-eabi-gcc $machine -O2 -nostartfiles --specs=rdimon.specs -T "$board/mps2.ld" "$board/start.c" all.c net.o -lm -o on-arm
    gcc -std=c99 -O2 all.c net.c -lm -o on-host
    ./on-host >host.txt
    timeout 600 qemu-system-arm -M mps2-an500 -nographic -monitor none -serial none -semihosting -kernel on-arm >arm.txt
    check "$kind: ends" $? 0
    [ $kind = float ] || check "$kind: the host's logits, all digits" "$(cmp host.txt arm.txt && echo same)" same
    check "$kind: the host's logits" "$(python3 compare.py arm.txt host.txt)" "20 pictures same"
done
finish
