# model.init: a run that starts from given weights. The same weights as the file's, on one rank and two; other names, types and
# classes by model.init_rules; what is reported and recorded of it; a run that goes on without the file; and what is refused.
. "$(dirname "$0")/common.sh" "$1" || exit 1

# convert.py IN OUT DTYPE BEFORE [NAME...]: a file of other names and type, as another program writes it, without those named.
cat >convert.py <<'END_PY'
import json, struct, sys
source, target, dtype, before, left = *sys.argv[1:5], sys.argv[5:]
data = open(source, "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header, data = json.loads(data[8:8 + length]), data[8 + length:]
header.pop("__metadata__", None)
out, body = {}, b""
def add(name, dtype, shape, values):
    global body
    out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(values)]}
    body += values
for name, tensor in header.items():
    if name in left:
        continue
    raw = data[slice(*tensor["data_offsets"])]
    values = struct.unpack(f"<{len(raw) // 4}f", raw)
    if dtype == "F64":
        raw = struct.pack(f"<{len(values)}d", *values)
    elif dtype == "F16":
        raw = struct.pack(f"<{len(values)}e", *values)
    elif dtype == "BF16": # cut off, not rounded: any values will do
        raw = b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))
    elif dtype == "I32":
        raw = struct.pack(f"<{len(values)}i", *(int(v) for v in values))
    add(before + name, dtype, tensor["shape"], raw)
# behind the others: whatever is before, it begins at a multiple of 8 bytes here
add(before + "norm1.num_batches_tracked", "I64", [], struct.pack("<q", 7))
text = json.dumps(out)
text += " " * (-len(text) % 8)
open(target, "wb").write(struct.pack("<Q", len(text)) + text.encode() + body)
END_PY
# tensor FILE NAME: its bytes' checksum
tensor() {
    python3 - "$1" "$2" <<'END_PY'
import json, struct, sys, zlib
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
print(zlib.crc32(data[8 + length:][slice(*json.loads(data[8:8 + length])[sys.argv[2]]["data_offsets"])]))
END_PY
}
metadata() { python3 -c 'import json, struct, sys; d = open(sys.argv[1], "rb").read(); print(json.loads(d[8:8 + struct.unpack("<Q", d[:8])[0]])["__metadata__"].get(sys.argv[2]))' "$1" "$2"; }
first_part() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["parts"][0]["init"][sys.argv[2]])' "$1" "$2"; }

"$train" tiny.ini --quiet --run-dir given
check "the run to start from: exit" $? 0
given=given/weights.safetensors
result=$("$train" eval tiny.ini $given --quiet)

# --- the same network: its weights are the file's -----------------------------------------------------
cat tiny.ini - >init.ini <<'END_INI'
[optimizer]
lr = 0
END_INI
sed -i 's/^file = net.ini/file = net.ini\ninit = given/' init.ini # a run's folder
check "eval without a weights file" "$("$train" eval init.ini --quiet)" "$result"
"$train" init.ini --run-dir same --set train.max_updates=1 --set run.deterministic=true >same.txt 2>&1
check "start from weights: exit" $? 0
for name in conv1.weight conv1.bias norm1.weight norm1.bias fc.weight fc.bias; do
    check "without a rate, $name stays the file's" "$(tensor same/weights.safetensors $name)" "$(tensor $given $name)"
done
check "reported at the start" "$(grep -c '^init      8 of 8 tensors of given/weights.safetensors: conv1\.\*, norm1\.\*, fc\.\*$' same.txt)" 1
hash=$(metadata same/weights.safetensors lockstep.init)
check "the weights name the file's hash" "${#hash}" 16
check "and so does the summary" "$(first_part same/summary.json hash)" "$hash"
check "the summary names the file" "$(first_part same/summary.json file)" given/weights.safetensors
check "weights of a run from the seed name none" "$(metadata $given lockstep.init)" None
ranks 2 30 "$train" init.ini --quiet --run-dir ranks --set train.max_updates=1 --set run.deterministic=true
check "two ranks: exit" $? 0
check "two ranks: same weights" "$(field ranks/summary.json weights_hash)" "$(field same/summary.json weights_hash)"
"$train" same/config.ini --quiet --run-dir again
check "from the run's own configuration: same weights" "$(field again/summary.json weights_hash)" "$(field same/summary.json weights_hash)"

# --- names, types and classes of others -----------------------------------------------------------------
for dtype in F64 F16 BF16; do
    python3 convert.py $given $dtype.safetensors $dtype module.
    "$train" eval tiny.ini --set model.init=$dtype.safetensors --set 'model.init_rules=module.* -> *' --quiet >$dtype.txt
    check "$dtype: exit" $? 0
done
check "fp64 and fp32 are the same" "$(cat F64.txt)" "$result"
for before in module. model. backbone. module.backbone.; do
    python3 convert.py $given before.safetensors F64 $before
    check "$before before all names" "$("$train" eval tiny.ini --set model.init=before.safetensors --quiet)" "$result"
done
python3 convert.py $given bare.safetensors F32 ''
accuracy() { sed -n 's/^test_accuracy //p' "$1"; }
python3 convert.py $given half.safetensors F16 ''
refused "16 bits as weights of eval" 7 "expected F32: save it as float32; training and eval convert it as model.init" "$train" eval tiny.ini half.safetensors
check "... and eval converts it as model.init" "$("$train" eval tiny.ini --set model.init=half.safetensors --quiet)" \
    "$(sed '/^warning/d' F16.txt)"
check "16 bits are near" "$(paste <(accuracy F16.txt) <(accuracy BF16.txt) <(accuracy F64.txt) |
    awk '{ print $1 - $3 < 0.06 && $3 - $1 < 0.06 && $2 - $3 < 0.06 && $3 - $2 < 0.06 }')" 1
sed 's/out_features = 4/out_features = 3/; s/\[fc\]/[head]/' net.ini >three.ini
sed 's/out_features = 4/out_features = 3/' net.ini >three_fc.ini
sed 's/file = net.ini/file = three.ini/; s/classes = 4/classes = 3/' init.ini >three_classes.ini
rules='model.init_rules=fc.* -> old.*; conv1.* -> conv1.*; new head.*'
"$train" three_classes.ini --set "$rules" --dry-run >plan.txt 2>&1
check "other classes, dry run: exit" $? 0
check "dry run: every tensor" "$(sed -n '/^first weights/,/^$/p' plan.txt | grep -cE '^  (conv1|norm1)\.[a-z_]+ +of the file$|^  head\.(weight|bias) +new$|^  left out +fc\.(weight|bias)$')" 10
"$train" three_classes.ini --set "$rules" --run-dir three --set train.max_updates=1 >three.txt 2>&1
check "other classes: exit" $? 0
check "other classes: reported" \
    "$(grep -c '^init      6 of 8 tensors of given/weights.safetensors: conv1\.\*, norm1\.\*; new: head.weight, head.bias; left out of the file: fc\.' three.txt)" 1
check "other classes: the file's convolution" "$(tensor three/weights.safetensors conv1.weight)" "$(tensor $given conv1.weight)"
"$train" three_classes.ini --quiet --run-dir seed --set model.init= --set train.max_updates=1
check "other classes: a head of the seed" "$(tensor three/weights.safetensors head.weight)" "$(tensor seed/weights.safetensors head.weight)"
check "rules without weights have no effect" \
    "$("$train" tiny.ini --run-dir unused --set 'model.init_rules=new fc.*' --set train.max_updates=1 2>&1 | grep -c 'no effect model.init_rules (only with model.init)')" 1

"$train" three_classes.ini --set model.init=bare.safetensors --set model.file=three_fc.ini --run-dir bare --set train.max_updates=1 >bare.txt 2>&1
check "another number of classes, which the file does not name: exit" $? 0
check "another number of classes: reported" \
    "$(grep -c 'bare.safetensors has 4 classes, here are 3: fc.weight, fc.bias start anew$' bare.txt)" 1
check "another number of classes: the file's convolution" "$(tensor bare/weights.safetensors conv1.weight)" "$(tensor $given conv1.weight)"
check "another number of classes: a head of the seed" "$(tensor bare/weights.safetensors fc.weight)" "$(tensor seed/weights.safetensors head.weight)"

# --- going on -------------------------------------------------------------------------------------------
cp -r given from
"$train" init.ini --quiet --run-dir long --set model.init=from --set optimizer.lr=0.05
"$train" init.ini --quiet --run-dir part --set model.init=from --set optimizer.lr=0.05 --set train.max_updates=10
rm -r from
"$train" init.ini --run-dir part --resume --set model.init=from --set optimizer.lr=0.05 >resumed.txt 2>&1
check "resumed without the file: exit" $? 0
check "resumed: nothing is reported of a file" "$(grep -c '^init' resumed.txt)" 0
check "resumed: same weights" "$(field part/summary.json weights_hash)" "$(field long/summary.json weights_hash)"
check "resumed: the file is on record" "$(metadata part/weights.safetensors lockstep.init)" "$hash"

# --- refused ----------------------------------------------------------------------------------------------
eval_with() { "$train" eval tiny.ini --quiet --set "model.init=$1" --set "model.init_rules=$2"; }
python3 convert.py $given less.safetensors F64 '' norm1.weight
python3 convert.py $given whole.safetensors I32 ''
refused "no weights at all" 2 "no weights: train eval CONFIG.ini WEIGHTS, or model.init in CONFIG.ini" "$train" eval tiny.ini
refused "no file" 2 "nowhere: is not there" eval_with nowhere ''
refused "no file, for training" 2 "nowhere: is not there" "$train" tiny.ini --set model.init=nowhere
refused "no file, for training in a folder" 2 "nowhere: is not there" "$train" tiny.ini --set model.init=nowhere --run-dir refused
check "a refused start leaves no folder" "$(ls -d refused runs/* 2>/dev/null)" ""
python3 convert.py $given other.safetensors F32 net.
refused "other names" 2 "other.safetensors: has no tensor 'conv1.weight' (8x1x3x3), which the network" eval_with other.safetensors ''
refused "a tensor less" 2 "has no tensor 'norm1.weight' (8), which the network" eval_with less.safetensors ''
sed 's/out_features = 4/out_features = 5/' net.ini >five.ini
refused "other shapes" 2 "tensor 'fc.weight' is 4x288, but 'fc.weight' of the network five.ini is 5x288" "$train" eval tiny.ini \
    --set model.init=given --set model.file=five.ini --set data.classes=5 --set model.override=classes
refused "no floats" 2 "whole.safetensors: tensor 'conv1.weight' is of no type that weights can have" eval_with whole.safetensors ''
refused "new, to evaluate" 2 "'fc.weight' is new by model.init_rules, and nothing is trained here" eval_with given 'new fc.*'
refused "no rule" 2 "model.init_rules: 'fc.*' is no rule: expected 'NAME IN THE FILE -> NAME IN THE NETWORK'" eval_with given 'fc.*'
refused "half a rule" 2 "is no rule" eval_with given 'fc.* ->'
refused "more stars" 2 "'fc -> *' has more '*' on its right" eval_with given 'fc -> *'
refused "a rule for nothing" 2 "'cf.* -> fc.*' matches no tensor of given/weights.safetensors" eval_with given 'cf.* -> fc.*'
refused "new for nothing" 2 "'new cf.*' matches no tensor of" eval_with given 'new cf.*'
refused "two of one name" 2 "both 'conv1.weight' and 'fc.weight' are 'fc.weight' in the network" eval_with given 'conv1.* -> fc.*'
refused "before anything is written" 2 "has no tensor 'conv1.weight'" "$train" tiny.ini --set model.init=other.safetensors --run-dir none
check "before anything is written: the folder" "$(ls none 2>/dev/null)" ""
finish
