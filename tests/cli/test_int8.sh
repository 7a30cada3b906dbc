# `--int8`: the C file of `train export --int8` and `train eval --int8` compute the same integers: the file checks itself exactly, and
# over a test set it gives the loss and accuracy that eval prints. The arithmetic itself: tests/deploy/test_int8.c.
root=$PWD
. "$(dirname "$0")/common.sh" "$1" || exit 1
for needed in python3 gcc; do
    command -v $needed >/dev/null || {
        echo "skipped: no $needed"
        exit 77
    }
done
strict="-std=c99 -Wall -Wextra -Wconversion -pedantic -Werror"
sanitize="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"

# A set like MNIST's of 12x12 pictures: a bright square whose place is the class, in noise.
mkdir idx
python3 - <<'P'
import random, struct
draw = random.Random(1)
for part, count in (("train", 400), ("t10k", 200)):
    pictures, labels = bytearray(), bytearray()
    for _ in range(count):
        label = draw.randrange(10)
        rows = [[draw.randrange(90) for _ in range(12)] for _ in range(12)]
        for y in range(3):
            for x in range(2):
                rows[1 + label // 5 * 6 + y][1 + label % 5 * 2 + x] = draw.randrange(120, 256)
        pictures += bytes(sum(rows, []))
        labels.append(label)
    open(f"idx/{part}-images-idx3-ubyte", "wb").write(struct.pack(">IIII", 2051, count, 12, 12) + pictures)
    open(f"idx/{part}-labels-idx1-ubyte", "wb").write(struct.pack(">II", 2049, count) + labels)
P
cat >set.c <<'C'
/* Prints accuracy and mean loss of net_predict over the test set. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
int net_predict(const uint8_t *pixels, float *logits);
int main(void) {
    FILE *pictures = fopen("idx/t10k-images-idx3-ubyte", "rb"), *labels = fopen("idx/t10k-labels-idx1-ubyte", "rb");
    uint8_t pixels[144], label;
    float logits[10];
    double loss = 0;
    int count = 0, correct = 0;
    fseek(pictures, 16, SEEK_SET);
    fseek(labels, 8, SEEK_SET);
    while (fread(pixels, 1, 144, pictures) == 144 && fread(&label, 1, 1, labels) == 1) {
        double sum = 0;
        correct += net_predict(pixels, logits) == label;
        for (int k = 0; k < 10; k++) sum += exp((double)logits[k] - (double)logits[label]);
        loss += log(sum);
        count++;
    }
    printf("test_accuracy %.6f\ntest_loss %.6f\ntest_samples %d\n", (double)correct / count, loss / count, count);
    return 0;
}
C

# same WHAT NETWORK OPTIONS...: trains it, and compares the C file with eval
same() {
    local what=$1 network=$2
    shift 2
    "$train" tiny.ini --quiet --run-dir "run-$what" --set model.file="$network" --set data.dataset=mnist --set data.path=idx \
        --set data.cache=off --set data.train_samples=0 --set data.test_samples=0 --set train.epochs=3 --set train.global_batch=16 "$@" >training.txt 2>&1
    check "$what: trained" "$? $(grep error: training.txt)" "0 "
    "$train" export "run-$what" net.c --int8 --test --calibrate 64 >export.txt 2>&1
    check "$what: exported" "$? $(grep error: export.txt)" "0 "
    gcc $strict -c net.c -o net.o 2>warned.txt
    check "$what: no warning" "$? $(head -3 warned.txt)" "0 "
    if command -v g++ >/dev/null; then
        g++ -x c++ -std=c++11 ${strict#-std=c99} -c net.c -o net.o 2>warned.txt
        check "$what: C++ has no warning" "$? $(head -3 warned.txt)" "0 "
    fi
    gcc -std=c99 $sanitize net.c -o itself -lm
    check "$what: checks itself" "$(./itself 2>&1)" "10 logits are as expected"
    gcc -std=c99 $sanitize -Dmain=unused_main -c net.c -o net.o
    gcc -std=c99 $sanitize set.c net.o -o set -lm
    ./set >ours.txt 2>&1
    "$train" eval "run-$what" --int8 --calibrate 64 >eval.txt 2>&1
    check "$what: eval" "$? $(grep error: eval.txt)" "0 "
    check "$what: the test set in C as in eval" "$(cat ours.txt)" "$(grep -E '^test_(accuracy|loss|samples)' eval.txt)"
}

printf '[network]\ninput = data\n' >resnet8.ini
sed '1,/^input/d' "$root/configs/models/tiny-resnet8.ini" >>resnet8.ini
same resnet8 resnet8.ini
check "resnet8 has learnt" "$(awk '/^test_accuracy/ { print ($2 > 0.6) }' eval.txt)" 1
"$train" eval run-resnet8 >float.txt 2>&1
check "int8 is as accurate as floats" "$(cat float.txt eval.txt | awk '/^test_accuracy/ { a[n++] = $2 } END { d = a[0] - a[1]; print (d < 0.03 && d > -0.03) }')" 1
cat >every.ini <<'INI'
[network]
input = data
[stem]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
[bend]
layer = silu
[depth]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
groups = 8
[norm]
layer = batchnorm2d
[curve]
layer = gelu
[wide]
layer = conv2d
out_channels = 12
kernel = 3
stride = 2
padding = 2
dilation = 2
groups = 4
[relu]
layer = relu
[mean]
layer = avgpool2d
kernel = 3
stride = 1
padding = 1
[all]
layer = globalavgpool
[gate]
layer = linear
out_features = 12
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
inputs = squash, mean
[sum]
layer = add
inputs = gated, relu
[after]
layer = batchnorm2d
[max]
layer = maxpool2d
kernel = 3
stride = 2
padding = 1
ceil_mode = true
[part]
layer = shortcut
out_channels = 14
stride = 1
[joined]
layer = concat
inputs = part, max
[clipped]
layer = relu
[left]
layer = slice
channels = 13
[right]
layer = slice
inputs = clipped
from = 13
channels = 13
[turns]
layer = concat
inputs = left, right
interleave = true
[half]
layer = scale
factor = 0.5
[square]
layer = multiply
inputs = half, turns
[flat]
layer = flatten
[drop]
layer = dropout
p = 0.1
[out]
layer = linear
out_features = classes
INI
same every every.ini
"$train" export --quiet run-resnet8 net.c --int8 && "$train" export --quiet run-resnet8 again.c --int8 --name net
check "the same file twice" "$(cmp net.c again.c && echo same)" same
"$train" export --quiet run-resnet8 net.c --int8 --report >report.txt
check "report: RAM as the buffers have" "$(sed -n 's/^RAM  *\([0-9]*\) .*/\1/p' report.txt)" "$(sed -n 's/^static int8_t slab\[\([0-9]*\)\];/\1/p' net.c)"
"$train" eval run-resnet8 --int8 --json >eval.json
check "eval --json: of" "$(grep -o '"of":"int8"' eval.json)" '"of":"int8"'
"$train" export --quiet run-resnet8/weights.safetensors other.c --int8 --config run-resnet8/config.ini --name net
check "with --config: the same file" "$(cmp net.c other.c && echo same)" same
# What is in the ONNX file: tests/formats/test_onnx.c; what onnxruntime computes: tests/real_readers.
"$train" export run-resnet8 net.onnx --int8 >onnx.txt 2>&1
if grep -q "without protobuf-c" onnx.txt; then
    echo "no protobuf-c: no ONNX file"
else
    "$train" export run-resnet8 net.c --int8 >export.txt 2>&1
    check "ONNX: what is told" "$(grep -o 'net.onnx: ONNX with int8 (QDQ), operator set 13' onnx.txt)" "net.onnx: ONNX with int8 (QDQ), operator set 13"
    check "ONNX: calibrated as the C file" "$(grep -o 'int8: calibrated.*' onnx.txt)" "$(grep -o 'int8: calibrated.*' export.txt)"
    check "ONNX: less than half as large as in floats" "$("$train" export --quiet run-resnet8 float.onnx && echo $(($(wc -c <net.onnx) * 2 < $(wc -c <float.onnx))))" 1
fi

# Fine-tuning with fake quantisation.
figure() { awk -v key="$1" '$1 == key { print $2 }' "$2"; }
near() { awk -v a="$1" -v b="$2" -v most="$3" 'BEGIN { d = a - b; print (d <= most && d >= -most) }'; }
# tuned NAME WHAT NETWORK OPTIONS...: fine-tunes the run WHAT into the folder NAME
tuned() {
    local name=$1 what=$2 network=$3
    shift 3
    "$train" tiny.ini --quiet --run-dir "$name" --set model.file="$network" --set model.init="run-$what" --set train.quantise=int8 \
        --set data.dataset=mnist --set data.path=idx --set data.cache=off --set data.train_samples=0 --set data.test_samples=0 \
        --set train.epochs=2 --set train.global_batch=16 --set optimizer.lr=0.002 "$@" >training.txt 2>&1
    check "$name: fine-tuned" "$? $(grep error: training.txt)" "0 "
}
for what in resnet8 every; do
    # At rate 0 the weights stay as they are folded, and the scales as they are calibrated: the same C file but for names of layers.
    tuned "still-$what" $what $what.ini --set optimizer.lr=0 --set train.epochs=1
    "$train" export --quiet "run-$what" net.c --int8 && "$train" export "still-$what/weights.safetensors" tuned.c --int8 --name net >export.txt 2>&1
    for file in net tuned; do sed '/^ \*/d; s, /\* .* \*/$,,' $file.c >$file.bare; done
    check "$what: the integers of the calibration" "$(cmp net.bare tuned.bare && echo same)" same
    check "$what: no second calibration" "$(grep -c calibrated export.txt)" 0
    "$train" eval "run-$what" --int8 >calibrated.txt && "$train" eval "still-$what" >fake.txt
    check "$what: loss as the integers'" "$(near "$(figure test_loss fake.txt)" "$(figure test_loss calibrated.txt)" 0.003)" 1
    check "$what: accuracy as the integers'" "$(near "$(figure test_accuracy fake.txt)" "$(figure test_accuracy calibrated.txt)" 0.0051)" 1
    tuned "tuned-$what" $what $what.ini
    "$train" eval "tuned-$what" >fake.txt && "$train" eval "tuned-$what" --int8 >eval.txt
    check "$what: after fine-tuning, loss as the integers'" "$(near "$(figure test_loss fake.txt)" "$(figure test_loss eval.txt)" 0.003)" 1
    check "$what: fine-tuning lowers the loss" "$(awk -v a="$(figure test_loss eval.txt)" -v b="$(figure test_loss calibrated.txt)" 'BEGIN { print (a < b) }')" 1
    "$train" export --quiet "tuned-$what" tuned.c --int8 --test --name net
    gcc -std=c99 $sanitize tuned.c -o itself -lm
    check "$what: the fine-tuned file checks itself" "$(./itself 2>&1)" "10 logits are as expected"
done
tuned ordered-1 every every.ini --set run.deterministic=true
tuned recomputed every every.ini --set run.deterministic=true --set train.recompute=blocks
tuned resumed every every.ini --set run.deterministic=true --set train.max_updates=30 --set checkpoint.every_updates=30
"$train" resumed/config.ini --quiet --resume --run-dir resumed --set train.max_updates=0 >resume.txt 2>&1
check "resumed" "$? $(grep error: resume.txt)" "0 "
one=$train
train=on_two
on_two() { ranks 2 60 "$one" "$@"; }
tuned ordered-2 every every.ini --set run.deterministic=true
train=$one
# Colour pictures, and what --dry-run shows.
"$train" tiny.ini --quiet --run-dir run-colour --set model.file=resnet8.ini --set data.shape=3x12x12 --set train.epochs=1 >training.txt 2>&1
"$train" tiny.ini --dry-run --set model.file=resnet8.ini --set data.shape=3x12x12 --set model.init=run-colour --set train.quantise=int8 >plan.txt 2>&1
check "colour: a plan" "$? $(grep error: plan.txt) $(grep -c ' quantise ' plan.txt | awk '{ print ($1 > 2) }')" "0  1"
for other in recomputed resumed ordered-2; do
    check "$other: the same weights" "$(field $other weights_hash)" "$(field ordered-1 weights_hash)"
done
# shellcheck disable=SC2086 # several words
refused "resume in floats" 2 "train.quantise = int8, but now it is off: that would be another run" \
    "$train" ordered-1/config.ini --quiet --resume --run-dir ordered-1 --set train.quantise=off --set train.epochs=3 --set model.file=every.ini
tuned again every every.ini --set model.init=tuned-every
check "fine-tuned weights again: no calibration" "$(grep -c calibrated training.txt)" 0
"$train" export tuned-every tuned.c --int8 --calibrate 8 >export.txt 2>&1
check "--calibrate has no effect" "$(grep -c 'warning: --calibrate 8 has no effect' export.txt)" 1
quantised="tiny.ini --set model.file=resnet8.ini --set data.dataset=mnist --set data.path=idx --set data.cache=off --set train.quantise=int8"
refused "the fine-tuned network in floats" 2 "the network is trained for integers (it has quantise layers): add --int8" \
    "$train" export tuned-every tuned.c
# shellcheck disable=SC2086 # several words
{
    refused "nothing to fine-tune" 2 "it fine-tunes trained weights; train in floats first" "$train" $quantised
    refused "rules" 2 "train.quantise = int8 takes all weights as they are" \
        "$train" $quantised --set model.init=run-resnet8 --set "model.init_rules=new fc.*"
    refused "16 bits" 2 "16 bits cannot hold the values of its grids" "$train" $quantised --set model.init=run-resnet8 --set train.precision=bf16
    refused "another network" 2 "its network is not resnet8.ini: train.quantise = int8 needs the same network" \
        "$train" $quantised --set model.init=run-every
    refused "another size" 2 "its pictures are 3x12x12, those of this run 1x12x12: train.quantise = int8 needs the same data.image_size" \
        "$train" $quantised --set model.init=run-colour
    refused "integers of other classes" 2 "train.quantise = int8 needs the classes of the data, in their order" \
        "$train" tiny.ini --set model.file=every.ini --set data.shape=1x12x12 --set data.classes=4 --set train.quantise=int8 --set model.init=tuned-every
    refused "integers of another normalisation" 2 "its integers are made for another data.mean or data.std" \
        "$train" $quantised --set model.file=every.ini --set model.init=tuned-every --set data.mean=0.25
    refused "no batch norm to keep" 2 "matches no batchnorm2d layer of resnet8.ini, whose batch norms train.quantise = int8 folds" \
        "$train" $quantised --set model.init=run-resnet8 --set "train.stored_statistics=*"
    refused "integers for a network in floats" 2 "these weights are trained for integers, but the network every.ini here is not" \
        "$train" ${quantised% --set *} --set model.file=every.ini --set model.init=tuned-every
    refused "16 bits, from the network alone" 2 "its quantise layers compute in fp32, not in bf16" \
        "$train" tuned-every/config.ini --set train.quantise=off --set train.precision=bf16
}

# A layer whose weights are all 0.
printf '[network]\ninput = data\n[c]\nlayer = conv2d\nout_channels = 3\nkernel = 3\nweight_init = 0\n[r]\nlayer = relu\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 10\n' >zero.ini
same zero zero.ini --set optimizer.lr=0
check "a constant layer is named" "$(grep -c "warning: int8: 3 output channels have weights that are all 0 ('r')" export.txt)" 1

refused "no pictures" 2 "--calibrate 0: a whole number from 4 to 100000 is allowed" "$train" export run-resnet8 net.c --int8 --calibrate 0
refused "--calibrate alone" 2 "--calibrate 8: only with --int8" "$train" export run-resnet8 net.c --calibrate 8
refused "eval: --calibrate alone" 2 "--calibrate 8: only with --int8" "$train" eval run-resnet8 --calibrate 8
refused "--test of ONNX" 2 "--test: only for a C file" "$train" export run-resnet8 x.onnx --int8 --test
refused "ONNX without pictures" 2 "run-resnet8/weights.safetensors: --int8 needs training pictures" \
    "$train" export run-resnet8/weights.safetensors x.onnx --int8
refused "weights without pictures" 2 "run-resnet8/weights.safetensors: --int8 needs training pictures" \
    "$train" export run-resnet8/weights.safetensors net.c --int8
refused "three training pictures" 2 "the training set has 3 pictures; calibration needs at least 4" \
    "$train" export run-resnet8 net.c --int8 --config run-resnet8/config.ini --set data.train_samples=3
refused "views" 2 "eval.tta = flip: --int8 evaluates each picture as it is" "$train" eval run-resnet8 --int8 --set eval.tta=flip
refused "a folder of pictures" 2 "--int8: only on a configuration's data" "$train" eval run-resnet8 --int8 idx
printf '[network]\ninput = data\n[c]\nlayer = conv2d\nout_channels = 10\nkernel = 3\n[n]\nlayer = groupnorm\ngroups = 2\n[p]\nlayer = globalavgpool\n' >group.ini
"$train" tiny.ini --quiet --run-dir run-group --set model.file=group.ini --set data.dataset=mnist --set data.path=idx --set data.cache=off \
    --set data.train_samples=16 --set data.test_samples=16 --set train.global_batch=16 --set train.epochs=1 >/dev/null 2>&1
refused "group norm" 2 "layer 'n' (groupnorm) has no integer form: leave out --int8" "$train" export run-group net.c --int8
refused "group norm, fine-tuned" 2 "layer 'n' (groupnorm) has no integer form" "$train" $quantised --set model.file=group.ini --set model.init=run-group
refused "group norm in ONNX" 2 "layer 'n' (groupnorm) has no integer form: leave out --int8" "$train" export run-group x.onnx --int8
sed 's/layer = groupnorm/layer = layernorm/; /groups = 2/d' group.ini >pixels.ini
"$train" tiny.ini --quiet --run-dir run-pixels --set model.file=pixels.ini --set data.dataset=mnist --set data.path=idx --set data.cache=off \
    --set data.train_samples=16 --set data.test_samples=16 --set train.global_batch=16 --set train.epochs=1 >/dev/null 2>&1
refused "layer norm" 2 "layer 'n' (layernorm) has no integer form: leave out --int8" "$train" export run-pixels net.c --int8
sed 's/layer = groupnorm/layer = avgpool2d/; s/groups = 2/output = 4/' group.ini >adaptive.ini
"$train" tiny.ini --quiet --run-dir run-adaptive --set model.file=adaptive.ini --set data.dataset=mnist --set data.path=idx --set data.cache=off \
    --set data.train_samples=16 --set data.test_samples=16 --set train.global_batch=16 --set train.epochs=1 >/dev/null 2>&1
refused "adaptive average" 2 "layer 'n' (avgpool2d) has no integer form, because its output does not divide its input" \
    "$train" export run-adaptive net.c --int8
finish
