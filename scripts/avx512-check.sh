#!/usr/bin/env bash
# avx512-check.sh - runs the cpu device's tests on an emulated processor with AVX-512, for machines that have none.
#
#   scripts/avx512-check.sh BOCHS [FLOPS]
#
# BOCHS: the emulator's program, built with AVX-512 and without its debugger (Debian's package is built the other way round), from
# its source (github.com/bochs-emu/Bochs), some minutes:
#   ./configure --enable-x86-64 --enable-avx --enable-evex --enable-all-optimizations --with-nogui --disable-plugins && make
# FLOPS: cases of operators and convolutions that cost more are left out (1e6), as the emulator does only some million vector
# instructions a second. What the larger ones add, how work is cut, is the same for 16-wide vectors on AVX2, where all are tested.
#
# Builds the release preset's tests, boots Debian's kernel with them in Bochs as a Skylake-X and prints what they say. Needs the
# packages that it names where they are missing, and loads the kernel's package (27 MB) into build/avx512.
# Exit: 0 all passed on AVX-512; 1 a test failed or the machine did not get to its end; 2 wrong use; 4 something is missing.
set -euo pipefail

case ${1-} in
-h | --help)
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
  exit
  ;;
esac

fail() {
  echo "avx512-check.sh: $2" >&2
  exit "$1"
}
if [ $# -lt 1 ] || [ $# -gt 2 ]; then fail 2 "usage: scripts/avx512-check.sh BOCHS [FLOPS]"; fi
bochs=$(realpath -e -- "$1") || fail 2 "$1: not there; how to build it is said at the head of this script"
flops=${2:-1e6}
[[ $flops =~ ^[0-9]+([.][0-9]+)?([eE][0-9]+)?$ ]] || fail 2 "FLOPS = '$flops': a number is expected, such as 1e6"
cd "$(dirname "$0")/.."
work=$PWD/build/avx512
bios=/usr/share/bochs/BIOS-bochs-latest vgabios=/usr/share/bochs/VGABIOS-lgpl-latest
isolinux=/usr/lib/ISOLINUX/isolinux.bin loader=/usr/lib/syslinux/modules/bios/ldlinux.c32
for file in "$bios" "$vgabios" "$isolinux" "$loader" /bin/busybox /usr/bin/xorriso /usr/bin/cpio; do
  [ -e "$file" ] || fail 4 "$file is missing; apt-get install bochsbios vgabios busybox-static isolinux syslinux-common xorriso cpio"
done

tests=(cpu_kernels ref_update norm_parts ref_norm_pool cpu_conv_choose cpu_winograd ref_gradients cpu_operators)
targets=()
for test in "${tests[@]}"; do targets+=(--target "test_device_$test"); done
cmake --preset release -G Ninja >/dev/null
cmake --build --preset release "${targets[@]}" >/dev/null

rm -rf "$work/root" "$work/iso" "$work/serial.txt"
mkdir -p "$work/root/bin" "$work/root/proc" "$work/root/dev" "$work/root/sys" "$work/root/tmp" "$work/iso"

# kernel: Debian's for virtual machines, which needs no modules for what is asked of it here
kernel=$(compgen -G "$work/kernel/boot/vmlinuz-*" | tail -n 1) || {
  package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p')
  (cd "$work" && apt-get download "$package" >/dev/null) || fail 4 "the kernel's package cannot be loaded; see apt-get update"
  dpkg -x "$work"/linux-image-*.deb "$work/kernel"
  kernel=$(compgen -G "$work/kernel/boot/vmlinuz-*" | tail -n 1)
}

cp /bin/busybox "$work/root/bin"
for test in "${tests[@]}"; do
  program=build/release/bin/test_device_$test
  strip -o "$work/root/bin/$test" "$program"
  ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do cp -L --parents "$library" "$work/root"; done
done
cat >"$work/root/init" <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t sysfs sys /sys
export LOCKSTEP_TEST_FLOPS_MAX=$flops
/bin/busybox grep -q avx512dq /proc/cpuinfo && echo "the processor has AVX-512"
for test in ${tests[*]}; do
  case \$test in
    cpu_operators) filter=width_16_agrees_with_ref ;;
    cpu_winograd) filter=test_width_16 ;;
    *) filter= ;;
  esac
  echo "== \$test \$filter"
  /bin/\$test \$filter 2>&1
  echo "== exit \$?"
done
echo "== end"
/bin/busybox poweroff -f
INIT
chmod +x "$work/root/init"
(cd "$work/root" && find . | cpio --quiet -o -H newc) >"$work/iso/initrd"
cp "$isolinux" "$loader" "$work/iso"
cp "$kernel" "$work/iso/vmlinuz"
cat >"$work/iso/isolinux.cfg" <<'MENU'
DEFAULT tests
PROMPT 0
TIMEOUT 1
LABEL tests
  KERNEL vmlinuz
  APPEND initrd=initrd console=ttyS0,115200 quiet nokaslr mitigations=off nowatchdog noapic panic=-1 rdinit=/init
MENU
xorriso -as mkisofs -quiet -o "$work/boot.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
  "$work/iso" 2>/dev/null
cat >"$work/bochsrc" <<MACHINE
config_interface: textconfig
display_library: nogui
megs: 2048
cpu: model=corei7_skylake_x, count=1, ips=100000000
romimage: file=$bios
vgaromimage: file=$vgabios
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial.txt
clock: sync=none
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
MACHINE
"$bochs" -q -f "$work/bochsrc" >"$work/bochs.out" 2>&1 </dev/null || true # switching itself off counts as a panic there

tr -d '\r' <"$work/serial.txt" | grep -vE '^\[ *[0-9]+\.[0-9]+\] '
said() { grep -cE "^$1" "$work/serial.txt" || true; }
[ "$(said 'the processor has AVX-512')" = 1 ] || fail 1 "no AVX-512 there: built without --enable-evex? $work/bochs.out"
[ "$(said '== end')" = 1 ] || fail 1 "the machine did not get to its end: $work/serial.txt and bochs.log"
[ "$(said '== exit 0')" = ${#tests[@]} ] || fail 1 "a test failed, see above"
echo "avx512-check.sh: ${#tests[@]} tests passed on AVX-512"
