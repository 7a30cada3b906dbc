# `train export WEIGHTS OUT.c`: the C file compiles without warnings as C99 and as C++, checks itself, and under the sanitizers gives the
# logits of `train predict`. Networks: every kind of layer, drawn ones (bench/any_network.py), and shipped ones. And what is refused.
root=$PWD
. "$(dirname "$0")/common.sh" "$1" || exit 1
command -v python3 >/dev/null || {
    echo "skipped: no python3"
    exit 77
}
strict="-Wall -Wextra -Wconversion -pedantic -Werror"
sanitize="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
compilers=$(for compiler in gcc clang; do command -v $compiler >/dev/null && echo $compiler; done)
[ -n "$compilers" ] || {
    echo "skipped: neither gcc nor clang"
    exit 77
}
compiler=${compilers%%$'\n'*}
cat >main.c <<'C'
/* 0: what the file's own main says. N: prints the N logits of the picture that standard input has as bytes. */
#include <stdint.h>
#include <stdio.h>
#undef main
int net_predict(const uint8_t *pixels, float *logits);
int net_check(void);
int main(int argc, char **argv) {
    static uint8_t pixels[1 << 20];
    static float logits[1 << 16];
    int count = 0;
    if (argc < 2 || sscanf(argv[1], "%d", &count) != 1 || count == 0) return net_check();
    if (fread(pixels, 1, sizeof pixels, stdin) == 0) return 2;
    net_predict(pixels, logits);
    for (int i = 0; i < count; i++) printf("%.9g\n", (double)logits[i]);
    return 0;
}
C
# compare.py LOGITS OF_PREDICT: equal within 1e-5 of the largest?
cat >compare.py <<'P'
import sys
ours = [float(line) for line in open(sys.argv[1])]
theirs = [float(word) for word in open(sys.argv[2]).read().split("\t")[1:]]
scale = max(map(abs, theirs))
worst = max(abs(a - b) for a, b in zip(ours, theirs))
print("same" if len(ours) == len(theirs) and worst <= 1e-5 * scale else f"{worst} of {scale}")
P
# picture.py SHAPE SEED: picture.bin, planar bytes, and picture.png of 1 or 3 channels
cat >picture.py <<'P'
import random, struct, sys, zlib
c, h, w = map(int, sys.argv[1].split("x"))
draw = random.Random(int(sys.argv[2]))
pixels = [[[min(255, max(0, int(128 + 90 * draw.gauss(0, 1)))) for _ in range(w)] for _ in range(h)] for _ in range(c)]
open("picture.bin", "wb").write(bytes(v for plane in pixels for row in plane for v in row))
rows = b"".join(b"\0" + bytes(pixels[k][y][x] for x in range(w) for k in range(c)) for y in range(h))
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("picture.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, {1: 0, 3: 2}[c], 0, 0, 0))
                                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
P

# exported WHAT RUN SHAPE CLASSES: the network of a run, with --test; for 1 and 3 channels two pictures beside `train predict`
exported() {
    local what=$1 run=$2 shape=$3 classes=$4 one seed
    "$train" export --quiet "$run" net.c --test >export.txt 2>&1
    check "$what: exported" "$? $(cat export.txt)" "0 "
    for one in $compilers; do
        $one -std=c99 $strict -fsyntax-only net.c 2>warned.txt
        check "$what: $one has no warning" "$? $(head -3 warned.txt)" "0 "
    done
    if command -v g++ >/dev/null; then
        g++ -x c++ -std=c++11 $strict -fsyntax-only net.c 2>warned.txt
        check "$what: C++ has no warning" "$? $(head -3 warned.txt)" "0 "
    fi
    $compiler -std=c99 $sanitize -Dmain=net_check main.c net.c -o net -lm
    check "$what: checks itself" "$(./net 0 2>&1)" "$classes logits are as expected"
    case $shape in 1x* | 3x*) ;; *) return ;; esac
    for seed in 1 2; do
        python3 picture.py "$shape" $seed
        ./net "$classes" <picture.bin >ours.txt 2>&1
        "$train" predict --quiet --logits "$run" picture.png --set device.winograd=off >theirs.txt 2>&1
        check "$what: picture $seed as predicted" "$(python3 compare.py ours.txt theirs.txt 2>&1)" same
    done
}

# trained NAME SHAPE CLASSES OPTIONS...: a short run of a network on synthetic pictures, then the export
trained() {
    local name=$1 shape=$2 classes=$3
    shift 3
    "$train" tiny.ini --quiet --run-dir "run-$name" --set data.shape="$shape" --set data.classes="$classes" --set data.mean= --set data.std= \
        --set data.train_samples=64 --set data.test_samples=8 --set train.epochs=1 --set train.global_batch=16 "$@" >training.txt 2>&1
    check "$name: trained" "$? $(grep error: training.txt)" "0 "
    exported "$name" "run-$name" "$shape" "$classes"
}

cat >every.ini <<'INI'
[network]
input = 3x13x10
[stem]
layer = conv2d
out_channels = 8
kernel = 5x3
stride = 2x1
padding = 1
[norm]
layer = batchnorm2d
eps = 1e-3
[relu]
layer = relu
[half]
layer = scale
factor = 0.5
[grouped]
layer = conv2d
out_channels = 8
kernel = 3
padding = 2
dilation = 2
groups = 4
bias = false
[sum]
layer = add
inputs = grouped, half
[after]
layer = batchnorm2d
[depth]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
groups = 8
[bend]
layer = silu
[twice]
layer = add
inputs = bend, bend
[max]
layer = maxpool2d
kernel = 3
stride = 2
padding = 1
ceil_mode = true
[mean]
layer = avgpool2d
kernel = 2
stride = 1
padding = 1
[drop]
layer = dropout
p = 0.5
[all]
layer = globalavgpool
[top]
layer = globalmaxpool
inputs = drop
[vector]
layer = flatten
inputs = all
[mixed]
layer = add
inputs = vector, top
[curve]
layer = gelu
[leaky]
layer = leaky_relu
slope = 0.25
[elu]
layer = elu
alpha = 0.5
[bend2]
layer = gelu_tanh
[swish2]
layer = hardswish
[mish]
layer = mish
[soft]
layer = softplus
[six]
layer = relu6
[tanh]
layer = tanh
[gate2]
layer = hardsigmoid
[squash]
layer = sigmoid
[gated]
layer = multiply
inputs = squash, drop
[part]
layer = shortcut
out_channels = 11
[taken]
layer = shortcut
inputs = gated
out_channels = 8
[joined]
layer = concat
inputs = part, taken
[clipped]
layer = relu
[left]
layer = slice
channels = 12
[right]
layer = slice
inputs = clipped
from = 7
channels = 12
[turns]
layer = concat
inputs = left, right
interleave = true
[rest]
layer = slice
from = 5
channels = 19
[adapted]
layer = avgpool2d
output = 5x2
[back]
layer = avgpool2d
output = 3x4
[grouped2]
layer = groupnorm
groups = 19
eps = 1e-4
[plain]
layer = groupnorm
groups = 1
affine = false
[pixels]
layer = layernorm
[dense]
layer = conv2d
out_channels = 19
kernel = 1
matrix = true
[factors]
layer = layerscale
value = 0.5
[pixels2]
layer = layernorm
affine = false
[factors2]
layer = layerscale
value = -2
[same]
layer = multiply
inputs = factors2, joined
[flat]
layer = flatten
[hidden]
layer = linear
out_features = 12
[kink]
layer = relu
[out]
layer = linear
out_features = classes
INI
trained every 3x13x10 4 --set model.file=every.ini
# A network that ends with a map, for pictures of four channels.
printf '[network]\ninput = data\n[c]\nlayer = conv2d\nout_channels = 3\nkernel = 3\n[p]\nlayer = globalavgpool\n' >map.ini
trained map 4x4x5 3 --set model.file=map.ini
trained lenet 1x28x28 10 --set model.file="$root/configs/models/lenet.ini" --set data.train_samples=16
trained resnet20 3x32x32 10 --set model.file="$root/configs/models/resnet20.ini" --set data.train_samples=16
trained resnet8 3x32x32 10 --set model.file="$root/configs/models/tiny-resnet8.ini" --set data.train_samples=16
trained mobilenet 3x32x32 10 --set model.file="$root/configs/models/mobilenet.ini" --set data.train_samples=16
for seed in 1 2 4 7; do
    config=$(python3 "$root/bench/any_network.py" write $seed --out "drawn-$seed")
    "$train" "$config" --quiet --run-dir "run-$seed" --set train.max_updates=2 >training.txt 2>&1
    check "network $seed: trained" "$? $(grep error: training.txt)" "0 "
    shape=$(sed -n 's/^shape = *//p' "$config")
    classes=$(sed -n 's/^classes = *//p' "$config")
    exported "network $seed" "run-$seed" "$shape" "$classes"
done

# The comment and the report.
"$train" export --quiet run-resnet8 tiny.c --name image_net --report >report.txt
check "report: exit" $? 0
check "--name" "$(grep -c 'int image_net_predict(const uint8_t \*pixels, float \*logits)' tiny.c)" 3
check "multiplications" "$(sed -n 's/^multiplications  *//p' report.txt) $(sed -n 's/^ \* multiplications  *//p' tiny.c)" "12501632 12501632"
ram=$(sed -n 's/^RAM  *\([0-9]*\) .*/\1/p' report.txt)
check "RAM as the buffers have" "$ram" $((4 * $(sed -n 's/^static float slab\[\([0-9]*\)\];/\1/p' tiny.c)))
numbers=$(($(sed -n 's/^static const float [a-z]*_[0-9]*\[\([0-9]*\)\] = {$/\1/p' tiny.c | paste -sd +)))
layers=$(grep -c '^static const float_layer ' tiny.c) # of 20 numbers and pointers of 32 bits
check "flash as the arrays have" "$(sed -n 's/^flash  *\([0-9]*\) .*/\1/p' report.txt)" $((4 * (numbers + 20 * layers)))
check "two maps of 16x32x32 at most" "$ram" 131072
check "report: the layer that needs the most RAM" "$(grep -c '<- most' report.txt)" 1
check "report: cycles" "$(grep -c '^Cortex-M.*(an estimate: ' report.txt)" 3
check "the same file twice" "$("$train" export --quiet run-resnet8 again.c --name image_net && cmp tiny.c again.c && echo same)" same
$compiler -std=c99 -c tiny.c -o tiny.o
check "no call of the C library" "$(nm -u tiny.o | grep -v GLOBAL_OFFSET)" ""
if command -v arm-none-eabi-gcc >/dev/null; then
    arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -std=c99 $strict -c tiny.c -o tiny.o 2>warned.txt
    check "arm-none-eabi-gcc has no warning" "$? $(head -3 warned.txt)" "0 "
fi

refused "a name that is no identifier" 2 "--name 'my-net' is no C identifier" "$train" export run-map net.c --name my-net
refused "a file's name that is no identifier" 2 "the file's name '1net' is no C identifier, which the name of the function NAME_predict begins with: give one by --name NAME" \
    "$train" export run-map 1net.c
refused "--test of ONNX" 2 "--test: only for a C file: train export WEIGHTS OUT.c, but the output is x.onnx" "$train" export run-map x.onnx --test
refused "--name of ONNX" 2 "--name: only for a C file" "$train" export run-map x.onnx --name x
refused "--report of ONNX" 2 "--report: only for a C file" "$train" export run-map x.onnx --report
refused "C++" 2 "net.cpp: export writes ONNX (OUT.onnx) or C (OUT.c): train export WEIGHTS OUT; OUT.c compiles as C++, too" "$train" export run-map net.cpp
refused "no folder" 7 "none/net.c" "$train" export --quiet run-map none/net.c
# weights.py NAME OUTPUTS KERNEL PADDING VALUE: NAME.safetensors of a network of a convolution, a pool and a linear layer; all weights VALUE
cat >weights.py <<'P'
import array, json, struct, sys
name, outputs, kernel, padding, value = sys.argv[1], *map(int, sys.argv[2:5]), float(sys.argv[5])
text = f"[network]\ninput = 1x12x12\n[c]\nlayer = conv2d\nout_channels = {outputs}\nkernel = {kernel}\npadding = {padding}\n" \
       "[p]\nlayer = globalavgpool\n[l]\nlayer = linear\nout_features = 4\n"
shapes = {"c.weight": [outputs, 1, kernel, kernel], "c.bias": [outputs], "l.weight": [4, outputs], "l.bias": [4]}
header, at = {"__metadata__": {"format": "pt", "lockstep.network": text, "lockstep.mean": "0", "lockstep.std": "1",
                               "lockstep.classes": '["0","1","2","*/\\n"]', "lockstep.dataset": "synthetic"}}, 0
for tensor, shape in shapes.items():
    count = 1
    for d in shape: count *= d
    header[tensor] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * count]}
    at += 4 * count
head = json.dumps(header).encode()
open(f"{name}.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + array.array("f", [value] * (at // 4)).tobytes())
P
python3 weights.py odd 2 3 1 0.5
exported "a class that would end the comment" odd.safetensors 1x12x12 4
python3 weights.py broken 2 3 1 nan
refused "weights that are not finite" 7 "broken.safetensors: layer 'c' has weights that are not finite: did its run diverge?" "$train" export --quiet broken.safetensors net.c
python3 weights.py large 65536 1 60 0
refused "sizes beyond int32" 2 "layer 'c' has 131072 weights and an output of 1141899264 numbers: in C, sizes must fit into 32 bits" \
    "$train" export --quiet large.safetensors net.c
finish
