#!/usr/bin/env bash
# Wrong paths and other programs' words: one line that helps, and the documented exit code. Shipped files are found by their names.
# shellcheck source=tests/cli/common.sh
. "$(dirname "$0")/common.sh" "$1" || exit 1

"$train" tiny.ini --run-dir runs/first --quiet --set train.epochs=1
check "a run" $? 0
printf '\211PNG\r\n\032\n' >a.png
printf 'PK\003\004and so on' >t.pt
mkdir -p deep/models pictures && cp net.ini deep/models/own.ini && cp net.ini deep/beside.ini
printf '[data]\ndataset = synthetic\nshape = 1x28x28\n' >own.ini
sed 's/^layer = relu/layer = softmax/' net.ini >softmax.ini
sed 's/^kernel = 3/kernel_size = 3/' net.ini >kernel_size.ini
sed 's/^layer = conv2d/layer = Conv2D/' net.ini >Conv2D.ini
printf '[net]\nbatch = 64\n' >darknet.ini
printf '[optimizer]\nkind = AdamW\n' >adamw.ini
printf '[train]\nbatch_size = 64\n' >batch_size.ini

# CODE | TEXT of the message | the command line
while IFS='|' read -r code text line; do
    [ -n "$line" ] || continue
    eval "set -- $line"
    refused "$line" "$code" "$text" "$train" "$@"
done <<'ROWS'
2|config/fashion-mnist.ini: is not there; did you mean fashion-mnist?|config/fashion-mnist.ini
2|configs/mnsit.ini: is not there; did you mean mnist?|configs/mnsit.ini
2|did you mean the configuration 'fashion-mnist'?|fashion-mist
2|did you mean the configuration 'cifar10-94'?|cifar10
2|expected a configuration (shipped: bench-cpu, |train nope.ini
2|did you mean ./tiny.ini?|./tinny.ini
2|--set model.file=resnet21: is not there; did you mean resnet20? expected a network (shipped: airbench94, |own.ini --set model.file=resnet21
2|--set model.file=nope: is not there; expected a network (shipped: airbench94, |own.ini --set model.file=nope
2|a network file begins with the section [network]|own.ini --set model.file=tiny.ini
2|net.ini: is a network file; expected a configuration, an INI file whose model.file names a network|net.ini
2|a.png: is a picture; expected |a.png
2|is a folder; a configuration in it is runs/first/config.ini|runs/first
2|is a safetensors file; expected a configuration|runs/first/weights.safetensors
2|did you mean --set train.epochs=3?|tiny.ini --epochs 3
2|did you mean --set train.epochs=3?|tiny.ini --epochs=3
2|did you mean --set optimizer.lr=VALUE?|tiny.ini --lr
2|did you mean --set optimizer.lr=0.1?|--lr 0.1 tiny.ini
2|did you mean --set device.type=cuda?|tiny.ini --device cuda
2|did you mean --set train.global_batch=64?|tiny.ini --batch-size 64
2|did you mean --set data.workers=4?|bench tiny.ini -j 4
2|ranks are started by mpirun|tiny.ini --gpus 2
2|a configuration is a word: train CONFIG.ini|--config tiny.ini
2|did you mean --run-dir DIR?|tiny.ini --output there
2|did you mean --out FILE?|augment tiny.ini --output there
2|no such key in [train]; did you mean train.global_batch?|tiny.ini --set train.batch_size=64
2|no such key in [train]; did you mean train.global_batch?|batch_size.ini
2|no such key in [train]; did you mean train.max_updates?|tiny.ini --set train.max-updates=4
2|no such key in [optimizer]; did you mean optimizer.lr?|tiny.ini --set optimizer.learning_rate=0.1
2|no such key in [optimizer]; did you mean optimizer.lr?|tiny.ini --set optimizer.learnig_rate=0.1
2|no such key in [optimizer]; did you mean optimizer.lr?|tiny.ini --set optimizer.rate=0.1
2|no such section; did you mean [schedule]?|tiny.ini --set lr_scheduler.kind=cosine
2|net.ini: is a network file; expected a configuration|predict --config net.ini runs/first a.png
2|expected section.key=value; did you mean train.global_batch?|tiny.ini --set batch_size=64
2|the loss is cross-entropy over a softmax|tiny.ini --set train.loss=mse
2|; did you mean adamw?|tiny.ini --set optimizer.kind=AdamW
2|adamw.ini:2: optimizer.kind = AdamW: expected sgd|adamw.ini
2|did you mean adamw? (Adam without decay is adamw with optimizer.weight_decay = 0)|tiny.ini --set optimizer.kind=adam
2|did you mean cosine?|tiny.ini --set schedule.kind=CosineAnnealingLR
2|did you mean one-cycle?|tiny.ini --set schedule.kind=OneCycleLR
2|did you mean fashion-mnist?|tiny.ini --set data.dataset=FashionMNIST
2|did you mean bf16?|tiny.ini --set train.precision=bfloat16
2|did you mean cuda?|tiny.ini --set device.type=gpu
2|expected true or false; did you mean true?|tiny.ini --set data.shuffle=True
2|expected true or false; did you mean false?|tiny.ini --set data.shuffle=no
2|did you mean lr=?|tiny.ini --set 'optimizer.groups=*.bias rate=2'
2|did you mean sgd?|tiny.ini --set 'optimizer.groups=*.bias kind=SGD'
2|a decimal point, as 0.05?|tiny.ini --set optimizer.lr=0,05
2|several values are for 'train sweep'|tiny.ini --set optimizer.lr=0.1,0.2
2|several values are for 'train sweep'|tiny.ini --set train.epochs=1,2
2|expected an integer from 1 to 1000000; write 10|tiny.ini --set train.epochs=1e1
2|a decimal point is a dot: 0.05|sweep tiny.ini --set optimizer.lr=0,05
2|did you mean optimizer.lr?|bench tiny.ini --sweep learning_rate=1
2|did you mean ranks?|bench tiny.ini --sweep rank=1
2|the loss contains it: leave this layer out|tiny.ini --set model.file=softmax.ini
2|did you mean 'kernel'?|tiny.ini --set model.file=kernel_size.ini
2|did you mean 'conv2d'?|tiny.ini --set model.file=Conv2D.ini
2|a network file|tiny.ini --set model.file=darknet.ini
2|optimizer.kind = adamw is explained by 'train help options optimizer.kind'|help adamw
2|did you mean 'train help layers batchnorm2d'?|help bn
2|did you mean 'train help layers conv2d'?|help conv2d
2|did you mean 'train help options optimizer.lr'?|help learning_rate
2|did you mean 'train help options optimizer'?|help optimizer
2|did you mean optimizer.lr?|help options lr
2|did you mean 'batchnorm2d'?|help layers bn
2|did you mean 'eval'?|test runs/first
2|'runs/first' is one word too many|tiny.ini runs/first
2|runs/nope: is not there|eval runs/nope
2|runs/nope: is not there|eval tiny.ini runs/nope
2|runs/nope: is not there|eval runs/first runs/nope
2|runs/nope: is not there|predict runs/nope a.png
2|runs/frist: is not there; did you mean runs/first?|predict runs/frist a.png
2|runs/frist: is not there; did you mean runs/first?|eval runs/frist
2|nope: is not there|predict runs/first --files-from nope
2|nope.ini: is not there|predict --config nope.ini runs/first a.png
2|runs/nope: is not there|export runs/nope out.onnx
2|runs/nope: is not there|report runs/nope
2|runs/nope: is not there|verdict runs/nope
2|runs/nope: is not there|metrics runs/nope
2|runs/nope: is not there|compare runs/nope runs/first
2|runs/nope: is not there|compare runs/first runs/nope
2|runs/nope: is not there|ckpt verify runs/nope
2|runs/nope: is not there|ckpt show runs/first runs/nope
2|runs/nope: is not there|compare runs/first/weights.safetensors runs/nope
2|runs/nope: is not there|audit runs/nope
2|nope.ini: is not there|bench nope.ini
2|nope.ini: is not there|sweep nope.ini
2|nope.ini: is not there|augment nope.ini --out x.png
2|nope.ini: is not there|eval nope.ini runs/first
2|runs/nope: is not there|tiny.ini --set model.init=runs/nope
2|runs/nope holds no run|tiny.ini --resume --run-dir runs/nope
3|nope.png: |predict runs/first nope.png
2|own.ini: is a configuration; expected WEIGHTS|predict own.ini a.png
2|net.ini: is a network file; expected WEIGHTS|predict net.ini a.png
2|t.pt: is a PyTorch file (scripts/torch_to_safetensors.py converts weights)|predict t.pt a.png
2|did you mean train predict runs/first a.png?|predict a.png runs/first
2|did you mean train eval tiny.ini runs/first?|eval runs/first tiny.ini
2|did you mean train export runs/first out.onnx?|export out.onnx runs/first
2|out.pt: export writes ONNX|export out.pt
2|out.pt: export writes ONNX|export runs/first out.pt
2|out.h5: export writes ONNX|export runs/first/weights.safetensors out.h5
2|a.png: is a picture; expected RUN|report a.png
2|own.ini: is a configuration; expected RUN|verdict own.ini
ROWS
check "nothing was written" "$(ls)" "$(printf '%s\n' Conv2D.ini a.png adamw.ini batch_size.ini darknet.ini deep kernel_size.ini net.ini own.ini pictures runs softmax.ini t.pt tiny.ini)"

# Shipped networks: the default one too, with and without folder and ending; one's own come first.
plan() { "$train" "$@" --dry-run 2>&1 | sed -n 's/^\([^ ]*\): input .*/\1/p'; }
case $(plan own.ini) in */configs/models/lenet.ini) ok=1 ;; *) ok=0 ;; esac
check "own data, the default network" $ok 1
for name in resnet20 resnet20.ini models/resnet20 models/resnet20.ini configs/models/resnet20.ini; do
    case $(plan own.ini --set model.file=$name --set data.shape=3x32x32) in */configs/models/resnet20.ini) ok=1 ;; *) ok=0 ;; esac
    check "network $name" $ok 1
done
check "a network with blocks, listed without them" "$("$train" own.ini --set model.file=resnet18 --set data.shape=3x32x32 --dry-run |
    grep -cE '^layer[1-4]\.[01]\.conv[12] |^layer[2-4]\.0\.downsample\.[01] ')" 22
sed -e 's/^file = .*/file = own/' tiny.ini >deep/a.ini
sed -e 's/^file = .*/file = beside/' tiny.ini >deep/b.ini
cp net.ini deep/models/resnet20.ini && sed -e 's/^file = .*/file = resnet20/' tiny.ini >deep/c.ini
check "beside the configuration: models/, an ending" "$(plan deep/a.ini) $(plan deep/b.ini) $(plan deep/c.ini)" \
    "deep/models/own.ini deep/beside.ini deep/models/resnet20.ini"
for name in mnist mnist.ini configs/mnist.ini configs/mnist; do
    check "configuration $name" "$("$train" $name --print-config | grep -c '^dataset *= mnist$')" 1
done
check "the command's own word" "$("$train" train mnist --print-config | grep -c '^dataset *= mnist$')" 1
mkdir configs && cp own.ini configs/mnist.ini
check "one's own configuration comes first" "$("$train" mnist --print-config | grep -c '^dataset *= synthetic$')" 1
finish
