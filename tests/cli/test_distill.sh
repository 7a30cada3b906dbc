# distill.weights: runs with a teacher. The same bits on one rank, on two and with accumulation; a run that goes on; what the plan
# shows and what is recorded; audit and sweep; and what is refused.
. "$(dirname "$0")/common.sh" "$1" || exit 1

sed 's/out_channels = 8/out_channels = 16/' net.ini >large.ini
"$train" tiny.ini --quiet --run-dir teacher --set model.file=large.ini
check "the teacher: exit" $? 0
cat tiny.ini - >taught.ini <<'END_INI'
[distill]
weights = teacher
temperature = 2
share = 0.6
[run]
deterministic = true
END_INI
hash_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get("teacher", {}).get("hash"))' "$1"; }

# --- a run --------------------------------------------------------------------------------------------
"$train" taught.ini --dry-run >plan.txt 2>&1
check "dry run: exit" $? 0
check "dry run: the teacher's layers" "$(grep -cE '^ +[0-9]+ +(conv|linear) forward +teacher\.(conv1|fc) ' plan.txt)" 2
check "dry run: its part of the loss" "$(grep -cE "^ +[0-9]+ +teacher's loss +loss " plan.txt)" 1
check "dry run: its memory" "$(grep -cE "^  teacher's weights +[0-9.]+ KiB" plan.txt)" 1
check "dry run: its file" "$(grep -c '^  teacher       teacher/weights.safetensors, 0.6 of the loss at temperature 2$' plan.txt)" 1
"$train" taught.ini --run-dir one >one.txt 2>&1
check "one rank: exit" $? 0
check "reported at the start" "$(grep -c '^teacher   teacher/weights.safetensors, 0.6 of the loss at temperature 2$' one.txt)" 1
hash=$(hash_of one/summary.json)
check "the summary names the teacher's hash" "${#hash}" 16
ranks 2 30 "$train" taught.ini --quiet --run-dir two
check "two ranks: exit" $? 0
check "two ranks: same weights" "$(field two/summary.json weights_hash)" "$(field one/summary.json weights_hash)"
check "two ranks: same loss" "$(field two/summary.json train_loss)" "$(field one/summary.json train_loss)"
"$train" one/config.ini --quiet --run-dir again
check "from the run's own configuration: same weights" "$(field again/summary.json weights_hash)" "$(field one/summary.json weights_hash)"
"$train" taught.ini --quiet --run-dir alone --set distill.weights=
check "without a teacher: other weights" "$([ "$(field alone/summary.json weights_hash)" != "$(field one/summary.json weights_hash)" ] && echo other)" other
check "without a teacher: nothing is recorded" "$(hash_of alone/summary.json)" None
check "options without a teacher have no effect" \
    "$("$train" tiny.ini --run-dir unused --set distill.share=0.3 --set train.max_updates=1 2>&1 | grep -c 'no effect distill.share (only with distill.weights)')" 1
"$train" audit one --all >audit.txt 2>&1
check "audit: exit" $? 0

# --- going on -----------------------------------------------------------------------------------------
"$train" taught.ini --quiet --run-dir part --set train.max_updates=10
cp -r part other
cp -r part none
"$train" taught.ini --quiet --run-dir part --resume
check "resumed: exit" $? 0
check "resumed: same weights" "$(field part/summary.json weights_hash)" "$(field one/summary.json weights_hash)"
"$train" tiny.ini --quiet --run-dir newer --set model.file=large.ini --set run.seed=2
refused "resumed with another teacher" 3 "was made with the teacher of hash $hash, but now distill.weights has the hash" \
    "$train" taught.ini --run-dir other --resume --set distill.weights=newer
refused "resumed without a teacher" 3 "but now distill.weights has the hash none (empty): bring the old file back" \
    "$train" taught.ini --run-dir none --resume --set distill.weights=
mv teacher kept
refused "audit without the teacher" 6 "distill.weights: " "$train" audit one --all
mv kept teacher

# --- a sweep ------------------------------------------------------------------------------------------
"$train" sweep taught.ini --set distill.share=0,0.5 --seeds 1 --run-dir swept >sweep.txt 2>&1
check "sweep: exit" $? 0
"$train" sweep taught.ini --set distill.share=0.5 --seeds 1 --run-dir seeds >seeds.txt 2>&1
check "sweep, one seed: exit" $? 0
"$train" sweep taught.ini --set 'distill.weights="teacher","newer"' --seeds 1 --run-dir teachers >teachers.txt 2>&1
check "sweep over teachers: exit" "$? $(grep error: teachers.txt)" "0 "
mv teacher kept
cp -r newer teacher
refused "sweep: another teacher of the same name" 3 "the teachers of seed=1 and of seed=2 are not the same" \
    "$train" sweep taught.ini --set distill.share=0.5 --seeds 1-2 --run-dir seeds
rm -r teacher
mv kept teacher

# --- inspection: the teacher's weights, and the output of its fused pooling -----------------------------
"$train" audit one --inspect 1 >inspected.txt 2>&1
check "inspection: exit" $? 0
check "inspection: weights" "$(awk '$3 == "teacher.fc" && $6 == "fc.weight" { print $7 }' inspected.txt)" 2304
check "inspection: pooled output" "$(awk '$3 == "teacher.norm1" && $7 == "output" { print $8, $9 }' inspected.txt)" "4608 0"

# --- refused ------------------------------------------------------------------------------------------
taught() { "$train" taught.ini --run-dir no "$@"; }
refused "no file" 2 "distill.weights=nowhere: nowhere: is not there" taught --set distill.weights=nowhere
refused "another normalisation" 2 "data.mean=0.25: mean is 0.25 here, but the teacher of distill.weights = teacher/weights.safetensors was trained with" \
    taught --set data.mean=0.25
refused "another deviation" 2 "std is 0.5 here, but the teacher of distill.weights" taught --set data.std=0.5
sed 's/1x12x12/1x10x10/' net.ini >small.ini
refused "another size" 2 "image_size is 1x10x10 here, but the teacher of distill.weights = teacher/weights.safetensors was trained with 1x12x12" \
    taught --set model.file=small.ini --set data.shape=1x10x10
sed 's/out_features = 4/out_features = 3/' net.ini >three.ini
refused "another number of classes" 3 "the network of teacher/weights.safetensors has 4 classes, and the data here have 3" \
    taught --set model.file=three.ini --set data.classes=3
refused "class weights" 2 "distill.weights = teacher: beside train.class_weights" taught --set train.class_weights=balanced
refused "on two ranks" 2 "std is 0.5 here, but the teacher of distill.weights" ranks 2 30 "$train" taught.ini --run-dir no --set data.std=0.5
# rename.py IN OUT FROM TO: the metadata with another text
cat >rename.py <<'END_PY'
import struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
head = data[8:8 + length].decode()
assert sys.argv[3] in head
head = head.replace(sys.argv[3], sys.argv[4]).encode()
head += b" " * (-len(head) % 64)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(head)) + head + data[8 + length:])
END_PY
python3 rename.py teacher/weights.safetensors bare.safetensors lockstep.network lockstep.net_work
refused "no network" 2 "bare.safetensors does not say its network" taught --set distill.weights=bare.safetensors
python3 rename.py teacher/weights.safetensors others.safetensors '\"3\"' '\"four\"'
refused "other classes" 3 "others.safetensors: its 4 classes are not the 4 here: 'four' not here, '3' only here (classes are matched by name)" \
    taught --set distill.weights=others.safetensors
check "before anything is written: the folder" "$(ls no 2>/dev/null)" ""
# The same classes in another order: the teacher's outputs are matched by name.
python3 - <<'END_PY'
import json, struct
data = open("teacher/weights.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
head, body = json.loads(data[8:8 + length]), bytearray(data[8 + length:])
order = [2, 0, 3, 1]
names = json.loads(head["__metadata__"]["lockstep.classes"])
head["__metadata__"]["lockstep.classes"] = json.dumps([names[k] for k in order])
for name in ("fc.weight", "fc.bias"):
    begin, end = head[name]["data_offsets"]
    row = (end - begin) // 4
    old = bytes(body[begin:end])
    body[begin:end] = b"".join(old[k * row:(k + 1) * row] for k in order)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 64)
open("order.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(body))
END_PY
"$train" taught.ini --run-dir order --set distill.weights=order.safetensors >order.txt 2>&1
check "classes in another order: exit" $? 0
check "classes in another order: reported" "$(grep -c 'order.safetensors has the classes in another order' order.txt)" 1
check "classes in another order: same weights" "$(field order/summary.json weights_hash)" "$(field one/summary.json weights_hash)"
finish
