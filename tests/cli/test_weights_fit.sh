# What a weights file says of itself beside a configuration and its data: a table of commands against what can differ. A cell is
# right (the numbers are those of the weights' own configuration), refused with an exit code and a message, or said in a line.
. "$(dirname "$0")/common.sh" "$1" || exit 1
export XDG_CACHE_HOME=$here/cache # not the user's

# pictures FOLDER CLASS...: 12 each, of 9 x 7 gray pixels; a slope whose direction is the class's number.
cat >pictures.py <<'END_PY'
import os, sys
folder, classes = sys.argv[1], sys.argv[2:]
for k, name in enumerate(classes):
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    for i in range(12):
        values = [128 + (x - 4) * (k - 1) * 12 + (y - 3) * (k * k % 3 - 1) * 12 + (i * 31 + x * 17 + y * 29) % 41 for y in range(7) for x in range(9)]
        open(f"{folder}/{name}/{i}.pgm", "wb").write(b"P5\n9 7\n255\n" + bytes(max(0, min(255, v)) for v in values))
END_PY
# metadata.py IN OUT: without __metadata__, as other programs write it; IN OUT KEY=VALUE...: with other texts in it; IN OUT CLASS...:
# the same network with its classes in another order, in __metadata__ and by the rows of its last layer.
cat >metadata.py <<'END_PY'
import json, struct, sys
source, target, *changes = sys.argv[1:]
def read(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + length]), data[8 + length:]
def write(path, header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 64)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)
header, body = read(source)
notes = header.pop("__metadata__")
if changes and "=" not in changes[0]: # an order
    names = json.loads(notes["lockstep.classes"])
    order = [names.index(c) for c in changes]
    body = bytearray(body)
    for name, tensor in header.items():
        if name.split(".")[0] not in ("fc", "last", "conv", "norm", "mid"): continue
        begin, end = tensor["data_offsets"]
        rows, size = bytes(body[begin:end]), (end - begin) // len(names)
        body[begin:end] = b"".join(rows[k * size:(k + 1) * size] for k in order)
    notes["lockstep.classes"] = json.dumps(changes)
elif changes:
    notes.update(c.split("=", 1) for c in changes)
if changes: header["__metadata__"] = notes
write(target, header, bytes(body))
END_PY
python3 pictures.py set ant bee cat
cp -r set shift
mv shift/ant shift/dog
cp -r set four
cp -r set/ant four/eel
cat >data.ini <<'END_INI'
[network]
input = data
[conv1]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
[relu1]
layer = relu
[pool1]
layer = globalavgpool
[flat]
layer = flatten
[fc]
layer = linear
out_features = classes
END_INI
cat >open.ini <<'END_INI'
[data]
dataset = folder
path = set
cache = off
[model]
file = data.ini
[train]
epochs = 8
global_batch = 6
[optimizer]
lr = 0.5
[device]
type = cpu
threads = 1
END_INI
given='image_size = 12x10\nmean = 0.4,0.5,0.6\nstd = 0.25,0.2,0.3\nresize = crop'
sed "s/^cache = off/&\n$given/" open.ini >own.ini
"$train" own.ini --quiet --run-dir run
check "the weights' run: exit" $? 0
w=run/weights.safetensors
python3 metadata.py $w order.safetensors cat ant bee
python3 metadata.py $w decoder.safetensors lockstep.decoder=other_lib
python3 metadata.py $w none.safetensors
own=$("$train" eval --quiet own.ini run)
own_logits=$("$train" predict --quiet --logits run set/bee | tail -n 1)
check "the run has learned" "$(awk '$1 == "test_accuracy" { print ($2 > 0.8) }' <<<"$own")" 1

# cell WHAT RC TEXT COMMAND...: exits with RC, and with 0 says TEXT in a warning or (TEXT begins with '=') prints just that; else
# refuses with TEXT in the one error line.
cell() {
    local what=$1 rc=$2 text=$3 output got
    shift 3
    if [ "$rc" != 0 ]; then
        refused "$what" "$rc" "$text" "$@"
        return
    fi
    output=$("$@" 2>warnings.txt)
    got=$?
    check "$what: exit" "$got" 0
    case $text in
    =*) check "$what: right" "$output" "${text#=}" ;;
    *) check "$what: said" "$(grep '^warning: ' warnings.txt | grep -cF "$text")" 1 ;;
    esac
    case $text in =*) check "$what: nothing to say" "$(cat warnings.txt)" "" ;; esac
}
eval_config() { "$train" eval --quiet open.ini "${weights:-$w}" "$@"; }
eval_init() { "$train" eval --quiet open.ini --set "model.init=${weights:-run}" "$@"; }
eval_run() { "$train" eval --quiet run "$@"; }
# shellcheck disable=SC2120 # arguments are passed by cell
eval_folder() { "$train" eval ${quiet:+"$quiet"} "${weights:-run}" set "$@"; }
quiet=--quiet
predict() { "$train" predict ${quiet:+"$quiet"} --logits "${weights:-run}" set/bee/9.pgm "$@"; }
predict_config() { predict --config open.ini "$@"; }
export_onnx() { "$train" export --quiet "${weights:-run}" out.onnx "$@"; }
start() { begin --run-dir "$(mktemp -u "$here/start-XXXXXX")" "$@"; }
begin() { "$train" open.ini --quiet --set train.epochs=1 --set "model.init=${weights:-run}" --set data.image_size=12x10 \
    --set data.mean=0.4,0.5,0.6 --set data.std=0.25,0.2,0.3 --set data.resize=crop "$@"; }
sweep() { # an option stands there once
    local option words=()
    for option in data.image_size=12x10 'data.mean="0.4,0.5,0.6"' 'data.std="0.25,0.2,0.3"' data.resize=crop; do
        case " $*" in *" ${option%%=*}="*) ;; *) words+=(--set "$option") ;; esac
    done
    "$train" sweep open.ini --quiet --run-dir "$(mktemp -u "$here/sweep-XXXXXX")" --seeds 1 --set train.epochs=1 --set "model.init=${weights:-run}" "${words[@]}" "$@"
}
resume() { rm -rf again && cp -r run again && "$train" own.ini --quiet --run-dir again --resume --set train.epochs=9 "$@"; }

# --- what the configuration leaves open is the file's ------------------------------------------------
eval_lines() { "$train" eval --quiet "$@" | head -n 3; }
own_lines=$(head -n 3 <<<"$own")
cell "left open, eval CONFIG WEIGHTS" 0 "=$own_lines" eval_lines open.ini run
cell "left open, eval CONFIG with model.init" 0 "=$own_lines" eval_lines open.ini --set model.init=run
cell "left open, eval RUN" 0 "=$own_lines" eval_lines run
check "left open, eval on 2 ranks" "$(ranks 2 60 "$train" eval --quiet open.ini run | head -n 3)" "$own_lines"
cell "left open, predict" 0 "=$own_logits" predict

# --- the same values given by hand --------------------------------------------------------------------
by_hand=(--set data.image_size=12x10 --set 'data.mean=0.4, 0.5, 0.6' --set 'data.std=0.25,0.2,0.3' --set data.resize=crop)
cell "the same by hand, eval CONFIG WEIGHTS" 0 "=$own" eval_config "${by_hand[@]}"
cell "the same by hand, eval RUN" 0 "=$own" eval_run "${by_hand[@]}"
cell "the same by hand, eval WEIGHTS FOLDER" 0 "=$(eval_folder)" eval_folder "${by_hand[@]}"
cell "the same by hand, predict" 0 "=$own_logits" predict "${by_hand[@]}"
cell "the same by hand, predict --config" 0 "=$own_logits" predict_config "${by_hand[@]}"
cell "the same by hand, start" 0 "=" start
"$train" tiny.ini --quiet --run-dir gray --set data.mean=0.25
weights=gray
gray_logits=$(predict)
cell "one channel, the same by hand" 0 "=$gray_logits" predict --set data.mean=0.25
cell "one channel, mean" 2 "mean is 0.1 here, but the weights of gray/weights.safetensors were trained with 0.25" predict --set data.mean=0.1
cell "one channel, no number for each" 2 "mean is 0.1,0.2,0.3 here, but the weights" predict --set data.mean=0.1,0.2,0.3
cell "resize where nothing was resized" 0 "=$("$train" predict --quiet --logits gray set/bee/9.pgm --set data.resize=crop)" predict --set data.resize=crop
check "resize where nothing was resized: heeded" "$([ "$(predict --set data.resize=crop)" = "$gray_logits" ] && echo the same)" ""
unset weights
cell "a run's own configuration, start" 0 "=" "$train" run/config.ini --quiet --set model.init=run --run-dir own-start

# --- other values given by hand: refused; a run that starts from weights, or goes on, says so -------------------
differs() { # NAME VALUE HAS HERE: of option data.NAME
    local name=$1 set="data.$1=$2" has=$3 here=$4 command
    for command in eval_config eval_init eval_run eval_folder predict predict_config export_onnx; do
        case "$name, $command" in # a run's own network has numbers
        "image_size, eval_run") cell "$name, $command" 2 "the network's input is $has, but pictures of data.dataset = folder are $here" $command --set "$set" ;;
        *) cell "$name, $command" 2 "--set $set: $name is $here here, but the weights of run/weights.safetensors were trained with $has: leave the option out" \
            $command --set "$set" ;;
        esac
        [ $command != export_onnx ] || check "$name, $command: no file" "$(ls out.onnx 2>/dev/null)" ""
    done
    cell "$name, start" 0 "run/weights.safetensors was trained with $name $has, here $here" start --set "$set"
    case $2 in *,*) set="data.$name=\"$2\"" ;; esac
    cell "$name, sweep" 0 "run/weights.safetensors was trained with $name $has, here $here" sweep --set "$set"
}
differs mean 0.1,0.2,0.3 0.4,0.5,0.6 0.1,0.2,0.3
differs std 0.5,0.5,0.5 0.25,0.2,0.3 0.5,0.5,0.5
differs resize stretch crop stretch
differs image_size 16x16 3x12x10 3x16x16
cell "mean, resume" 0 "data.mean 0.4,0.5,0.6, now 0.1,0.2,0.3" resume --set data.mean=0.1,0.2,0.3
cell "std, resume" 0 "data.std 0.25,0.2,0.3, now 0.5,0.5,0.5" resume --set data.std=0.5,0.5,0.5
cell "resize, resume" 0 "data.resize crop, now stretch" resume --set data.resize=stretch
cell "decoder, resume" 0 "data.decoder auto, now stb" resume --set data.decoder=stb
cell "image_size, resume" 2 "was made with data.image_size = 12x10, but now it is 16x16" resume --set data.image_size=16x16

# ... and taken where model.override says so: as a run whose own they are
for what in mean=0.1,0.2,0.3 std=0.5,0.5,0.5 resize=stretch image_size=16x16; do
    name=${what%%=*}
    python3 metadata.py $w forced.safetensors "lockstep.$name=${what#*=}"
    [ "$name" != resize ] || python3 metadata.py $w forced.safetensors lockstep.resize=bilinear
    [ "$name" != image_size ] || python3 metadata.py $w forced.safetensors "lockstep.network=$(sed 's/= data/= 3x16x16/; s/= classes/= 3/' data.ini)"
    logits=$("$train" predict --quiet --logits forced.safetensors set/bee/9.pgm)
    check "override $name: other logits" "$([ "$logits" = "$own_logits" ] && echo the same)" ""
    for command in predict predict_config; do
        check "override $name, $command" "$($command --set "data.$what" --set model.override=$name 2>/dev/null)" "$logits"
    done
    check "override $name, eval" "$(eval_config --set "data.$what" --set model.override=$name 2>/dev/null)" "$("$train" eval --quiet open.ini forced.safetensors)"
    "$train" eval open.ini run --set "data.$what" --set model.override=$name >out.txt 2>&1
    check "override $name: said" "$(grep -c "^warning: run/weights.safetensors was trained with $name " out.txt)" 1
done
refused "override, no fact" 2 "model.override=size: expected some of classes, image_size, mean, std, resize" eval_config --set model.override=size

# --- channels ----------------------------------------------------------------------------------------------
gray=(--set data.dataset=synthetic --set data.shape=1x12x10 --set data.classes=3)
cell "channels, eval CONFIG WEIGHTS" 2 "data.shape=1x12x10: image_size is 1x12x10 here, but the weights of run/weights.safetensors were trained with 3x12x10" \
    eval_config "${gray[@]}"
cell "channels, eval RUN" 2 "3 numbers; expected 1, one a channel of synthetic" eval_run "${gray[@]}"
cell "channels, eval CONFIG with model.init" 2 "image_size is 1x12x10 here" eval_init "${gray[@]}"
cell "channels, predict --config" 2 "image_size is 1x12x10 here" predict_config "${gray[@]}"
cell "channels, export --config" 2 "image_size is 1x12x10 here" export_onnx --config open.ini "${gray[@]}"
cell "channels, start" 2 "tensor 'conv1.weight' is 8x3x3x3, but 'conv1.weight' of the network" \
    "$train" open.ini --quiet --run-dir none --set model.init=run "${gray[@]}"
cell "channels, resume" 2 "was made with data.dataset = folder, but now it is synthetic" resume "${gray[@]}" --set data.mean= --set data.std=

# --- another decoder of JPEG: said -----------------------------------------------------------------------
weights=decoder.safetensors
for command in eval_config eval_init start; do
    cell "decoder, $command" 0 "decoder.safetensors was trained with decoder other_lib, here " $command
done
quiet=
cell "decoder, predict" 0 "the training pictures were decoded by other_lib, these are by " predict
cell "decoder, eval WEIGHTS FOLDER" 0 "the training pictures were decoded by other_lib, these are by " eval_folder
quiet=--quiet
cell "decoder, sweep" 0 "decoder.safetensors was trained with decoder other_lib, here " sweep

# --- the same classes in another order: matched by name ----------------------------------------------------
weights=order.safetensors
for command in eval_config eval_init; do
    cell "order, $command" 0 "order.safetensors has the classes in another order: rows are matched by name in fc.weight, fc.bias" $command
    check "order, $command: right" "$($command 2>/dev/null)" "$own"
done
cell "order, eval RUN" 0 "=$own" eval_run # whose weights.safetensors are of its own data
check "order, eval WEIGHTS FOLDER" "$(eval_folder | sort | grep -v loss)" "$(weights=run eval_folder | sort | grep -v loss)"
for command in predict predict_config; do
    check "order, $command" "$($command | cut -f 3,4,2)" "$(cut -f 4,2,3 <<<"$own_logits" | awk -F '\t' -v OFS='\t' '{ print $3, $1, $2 }')"
done
names() { "$train" predict --quiet "$@" set/bee/9.pgm; }
check "order, names" "$(names order.safetensors --config open.ini)" "$(names run)"
if "$train" export --quiet order.safetensors order.onnx --config open.ini 2>/dev/null; then
    check "order, export --config" "$(grep -caF '["cat","ant","bee"]' order.onnx)" 1
    weights=run
    cell "classes, export --config" 0 "run/weights.safetensors says its classes itself" export_onnx --config open.ini --set data.path=shift
    check "classes, export --config: the weights' names" "$(grep -caF '["ant","bee","cat"]' out.onnx)" 1
    weights=order.safetensors
else
    refused "export" 2 "built without protobuf-c" "$train" export order.safetensors order.onnx
fi
begin --set train.max_updates=1 --set optimizer.lr=0 --run-dir kept 2>/dev/null
cell "order, start" 0 "order.safetensors has the classes in another order: rows are matched by name in fc.weight, fc.bias" start
check "order, start: the rows of the names" "$("$train" compare kept/weights.safetensors run/weights.safetensors >/dev/null && echo the same)" "the same"
cell "order, sweep" 0 "order.safetensors has the classes in another order" sweep
check "order, eval on 2 ranks" "$(ranks 2 60 "$train" eval --quiet open.ini order.safetensors 2>/dev/null)" "$own"
unset weights

# --- other classes: refused; a run starts its last layers anew -----------------------------------------
set_shift=(--set data.path=shift)
others="'ant' not here, 'dog' only here"
cell "classes, eval CONFIG WEIGHTS" 3 "run/weights.safetensors: its 3 classes are not the 3 here: $others" eval_config "${set_shift[@]}"
cell "classes, eval CONFIG with model.init" 3 "its 3 classes are not the 3 here: $others" eval_init "${set_shift[@]}"
cell "classes, eval RUN" 3 "its 3 classes are not the 3 here: $others" eval_run "${set_shift[@]}"
refused "classes, eval WEIGHTS FOLDER" 3 "missing: 'ant' (put their pictures there; an empty folder says that there are none); unknown: 'dog'" \
    "$train" eval --quiet run shift
cell "more classes, eval CONFIG WEIGHTS" 3 "its 3 classes are not the 4 here: 'eel' only here" eval_config --set data.path=four
cell "classes, predict --config" 0 "run/weights.safetensors says its classes itself, and those of the configuration are others: $others" \
    predict_config "${set_shift[@]}"
check "classes, predict --config: the weights' names" "$(names run --config open.ini "${set_shift[@]}" 2>/dev/null)" "$(names run)"
check "classes, predict --config: override" \
    "$(names run --config open.ini "${set_shift[@]}" --set model.override=classes 2>/dev/null | cut -f 2-)" \
    "$(names run | cut -f 2- | sed 's/cat/dog/; s/bee/cat/; s/ant/bee/')"
cell "classes, resume" 3 "" resume "${set_shift[@]}"
cell "classes, start" 0 "run/weights.safetensors has other classes ($others): fc.weight, fc.bias start anew" start "${set_shift[@]}"
cell "classes, sweep" 0 "run/weights.safetensors has other classes ($others): fc.weight, fc.bias start anew" sweep --set 'data.path="shift"'
cell "more classes, start" 0 "run/weights.safetensors has other classes ('eel' only here): fc.weight, fc.bias start anew" start --set data.path=four
cell "classes, start by rule" 0 "=" start "${set_shift[@]}" --set 'model.init_rules=new fc.*'
cell "classes, start by number" 0 "classes are taken by number, by model.override: 'bee' here is 'ant' in run/weights.safetensors" \
    start "${set_shift[@]}" --set model.override=classes
still=(--set train.max_updates=1 --set optimizer.lr=0)
begin "${set_shift[@]}" "${still[@]}" --run-dir anew 2>/dev/null
begin "${set_shift[@]}" "${still[@]}" --run-dir rule --set 'model.init_rules=new fc.*'
begin "${set_shift[@]}" "${still[@]}" --run-dir number --set model.override=classes 2>/dev/null
check "classes, start: as by the rule" "$("$train" compare anew/weights.safetensors rule/weights.safetensors >/dev/null && echo the same)" "the same"
check "classes, start by number: the file's" "$("$train" compare number/weights.safetensors $w >/dev/null && echo the same)" "the same"
check "classes, eval by number" "$("$train" eval --quiet number 2>/dev/null | head -n 1)" "$(eval_config "${set_shift[@]}" --set model.override=classes 2>/dev/null | head -n 1)"

# --- data sets with names of their own -------------------------------------------------------------------
digits=(--set data.dataset=synthetic --set data.classes=3)
cell "numbers, eval CONFIG WEIGHTS" 3 "'ant', 'bee', 'cat' not here, '0', '1', '2' only here" eval_config "${digits[@]}"
python3 metadata.py $w digits.safetensors 'lockstep.classes=["0","1","2"]' lockstep.dataset=mnist
weights=digits.safetensors
cell "numbers of another data set" 0 "digits.safetensors has numbers for names of its classes: those of mnist are taken for those of synthetic" \
    eval_config "${digits[@]}"
cell "numbers, names here" 3 "its 3 classes are not the 3 here: '0', '1', '2' not here, 'ant', 'bee', 'cat' only here" eval_config
unset weights

# --- a '/' in a class's name is '_' in a folder's -------------------------------------------------------
cp -r set slash
mv slash/ant slash/a_t
python3 metadata.py $w slash.safetensors 'lockstep.classes=["a/t","bee","cat"]'
weights=slash.safetensors
cell "a class with a /" 0 "=$(sed 's/ant/a_t/' <<<"$own")" eval_config --set data.path=slash
unset weights

# --- files that say nothing ----------------------------------------------------------------------------
weights=none.safetensors
cell "no metadata, eval CONFIG WEIGHTS" 0 "none.safetensors does not say its classes: its output 0 is taken for 'ant'" eval_config "${by_hand[@]}"
cell "no metadata, eval CONFIG WEIGHTS: normalisation" 0 "none.safetensors does not say its normalisation: mean and std are the configuration's" \
    eval_config "${by_hand[@]}"
check "no metadata, eval CONFIG WEIGHTS: right" "$(eval_config "${by_hand[@]}" 2>/dev/null)" "$own"
cell "no metadata, start" 0 "none.safetensors does not say its classes: its output 0 is taken for 'ant'" start
cell "no metadata, predict --config" 0 "=$own_logits" predict_config "${by_hand[@]}"
refused "no metadata, predict" 7 "does not say what network and pictures its weights are for" predict
unset weights

# --- another network of the same tensors -----------------------------------------------------------------
sed 's/layer = relu/layer = gelu/' data.ini >gelu.ini
cell "another network, eval" 0 "run/weights.safetensors was trained with another network file than gelu.ini" eval_config --set model.file=gelu.ini
cell "another network, predict --config" 0 "was trained with another network file than gelu.ini" predict_config --set model.file=gelu.ini
quiet=
cell "no effect on predict" 0 "no effect data.dataset, train.epochs: the weights say what they are for" predict --set train.epochs=3 --set data.dataset=cifar10
cell "no effect on predict --config" 0 "no effect train.epochs" predict_config --set train.epochs=3 --set data.resize=crop
quiet=--quiet

# --- ends of networks --------------------------------------------------------------------------------------
# Whether rows follow their classes through layers after the last linear one, or no order is possible.
ends=0
network_end() { # WHAT RC TEXT LINES: after the activation
    local what=$1 rc=$2 text=$3
    ends=$((ends + 1))
    { sed '/^\[pool1\]/,$d' data.ini && printf '%b' "$4"; } >end-$ends.ini
    "$train" own.ini --quiet --run-dir end-$ends --set model.file=end-$ends.ini --set train.epochs=1
    python3 metadata.py end-$ends/weights.safetensors end-$ends.safetensors cat ant bee
    cell "$what" "$rc" "$text" "$train" eval --quiet own.ini end-$ends.safetensors --set model.file=end-$ends.ini
    [ "$rc" != 0 ] || check "$what: right" "$("$train" eval --quiet own.ini end-$ends.safetensors --set model.file=end-$ends.ini 2>/dev/null | head -n 2)" \
        "$("$train" eval --quiet own.ini end-$ends --set model.file=end-$ends.ini | head -n 2)"
}
pooled='[pool1]\nlayer = globalavgpool\n[flat]\nlayer = flatten\n'
linear='layer = linear\nout_features = classes\n'
network_end "an activation and a scale last" 0 "rows are matched by name in fc.weight, fc.bias" "${pooled}[fc]\n${linear}[act]\nlayer = silu\n[scale]\nlayer = scale\nfactor = 0.5\n"
network_end "a sum of two" 0 "rows are matched by name in fc.weight, fc.bias, last.weight, last.bias" "${pooled}[fc]\n${linear}[last]\n${linear}inputs = flat\n[sum]\nlayer = add\ninputs = fc, last\n"
network_end "a convolution, batch norm and pooling" 0 "rows are matched by name in conv.weight, conv.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var" \
    "[conv]\nlayer = conv2d\nout_channels = 3\nkernel = 1\n[norm]\nlayer = batchnorm2d\n[pool]\nlayer = globalavgpool\n[end]\nlayer = flatten\n"
network_end "a concatenation" 2 "does not end with layers that have a row for each class" \
    "[a]\nlayer = conv2d\nout_channels = 1\nkernel = 1\n[b]\nlayer = conv2d\nout_channels = 2\nkernel = 1\ninputs = relu1\n[both]\nlayer = concat\ninputs = a, b\n[pool]\nlayer = globalavgpool\n[end]\nlayer = flatten\n"
cell "a concatenation, other classes, start" 2 "does not end with layers that have a row for each class" \
    "$train" own.ini --quiet --set model.file=end-4.ini --set model.init=end-4 --set data.path=shift --run-dir none
cell "a concatenation, other classes, start by rule" 0 "model.init_rules decide alone what is new in end-4.ini" \
    "$train" own.ini --quiet --set model.file=end-4.ini --set model.init=end-4 --set data.path=shift --set 'model.init_rules=new a.*; new b.*' --run-dir by-rule
network_end "one that is read elsewhere" 2 "does not end with layers that have a row for each class" "${pooled}[mid]\n${linear}[fc]\n${linear}[sum]\nlayer = add\ninputs = mid, fc\n"
finish
