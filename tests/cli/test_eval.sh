# Evaluation in detail: evaluation.json of a run, the same bytes on 1, 2 and 3 ranks, `train eval` with and without --json, on the
# configuration's data and on a folder, against the logits of `train predict` (check_evaluation.py; PYTHON, default: python3, may have
# scikit-learn). Argument: the folder of the built programs.
set -u
check_py=$PWD/tests/cli/check_evaluation.py
# shellcheck source=tests/cli/pictures.sh
. "$(dirname "$0")/pictures.sh" "$1" || exit 1
python=${PYTHON:-python3}
command -v "$python" >/dev/null || {
    echo "skipped: no $python"
    exit 77
}

# gray FILE CLASS SEED: 9 x 7; a slope whose direction is the class's, with some noise.
gray() {
    local y x byte hex=''
    for ((y = 0; y < 7; y++)); do
        for ((x = 0; x < 9; x++)); do
            byte=$((128 + (x - 4) * ($2 - 3) * 4 + (y - 3) * ($2 * $2 % 7 - 3) * 4 + ($3 * 31 + x * 17 + y * 29 + x * y * $3) % 53 - 26))
            printf -v byte '\\x%02x' $byte
            hex+=$byte
        done
    done
    printf 'P5\n9 7\n255\n%b' "$hex" >"$1"
}
classes=(ant 'bee "x"' cat dog émeu fly gnu)
for k in 0 1 2 3 4 5 6; do
    mkdir -p "set/train/${classes[$k]}" "set/test/${classes[$k]}"
    for i in 0 1 2 3 4 5; do
        gray "set/train/${classes[$k]}/$i.pgm" $k "$i"
        gray "set/test/${classes[$k]}/$i.pgm" $k $((i + 9))
    done
done
sed 's/3x12x12/data/; s/out_features = 2/out_features = classes/' net3.ini >net7.ini
cat >set.ini <<'END_INI'
[run]
deterministic = true
[data]
dataset = folder
path = set
image_size = 7x9
mean = 0.5, 0.5, 0.5
std = 0.25, 0.25, 0.25
[model]
file = net7.ini
[optimizer]
lr = 0.02
[train]
epochs = 3
global_batch = 24
micro_batch = 4
[device]
type = cpu
threads = 1
END_INI

# as_logits WHAT EVALUATION LOGITS ORDER [FOLDER]
as_logits() {
    local what=$1 seen
    shift
    seen=$("$python" "$check_py" "$@" 2>&1)
    check "$what: as the logits say" "$(grep -v '^compared:' <<<"$seen")" ""
    case $seen in *compared:*) echo "       $what: $(tail -n 1 <<<"$seen")" ;; *) check "$what: was compared" "$seen" "compared: ..." ;; esac
}
without_pictures() { "$python" -c '
import json, sys
e = json.load(open(sys.argv[1]))
for m in e["mistakes"]: del m["picture"]
print(e == json.loads(sys.stdin.read()) and list(e) or "differs")' "$1"; }
keys="['set', 'of', 'samples', 'loss', 'top1', 'top5', 'calibration_error', 'bins', 'classes', 'confusion', 'per_class', 'mistakes']"

for n in 1 2 3; do
    ranks $n 60 "$train" set.ini --quiet --run-dir run-$n
    check "$n ranks: exit" $? 0
    check "$n ranks: evaluation.json" "$(cmp run-1/evaluation.json run-$n/evaluation.json 2>&1)" ""
    ranks $n 60 "$train" eval --quiet --json set.ini run-$n >eval-$n.json
    check "$n ranks, eval --json: lines" "$(wc -l <eval-$n.json)" 1
    check "$n ranks, eval --json" "$(without_pictures run-$n/evaluation.json <eval-$n.json)" "$keys"
done
check "accuracy is the summary's" "$(field run-1/evaluation.json top1)" "$(field run-1 test_accuracy)"
check "of" "$(field run-1/evaluation.json set) $(field run-1/evaluation.json of)" "test plain"
"$train" predict --quiet --logits run-1 set/test/* >logits.txt
as_logits "a run" run-1/evaluation.json logits.txt turns set/test

# The text has the same.
"$train" eval --quiet set.ini run-1 >text.txt
check "text: exit" $? 0
check "text: lines" "$(cut -d ' ' -f 1 text.txt | head -n 5 | tr '\n' ' ')" "test_accuracy test_loss test_samples test_top5 test_calibration_error "
check "text: top-5" "$(awk '$1 == "test_top5" { print $2 }' text.txt)" "$(printf %.6f "$(field run-1/evaluation.json top5)")"
check "text: calibration" "$(awk '$1 == "test_calibration_error" { print $2 }' text.txt)" "$(printf %.6f "$(field run-1/evaluation.json calibration_error)")"
check "text: the worst classes" "$(tail -n 5 text.txt)" "$("$python" -c '
import json
e = json.load(open("run-1/evaluation.json"))
for c in sorted(range(7), key=lambda c: e["per_class"][c]["recall"])[:5]:
    p, row = e["per_class"][c], e["confusion"][c]
    most = max((n, -k) for k, n in enumerate(row) if k != c)
    precision = "-" if p["precision"] is None else "%.4f" % p["precision"]
    taken = ", %d taken for %s" % (most[0], e["classes"][-most[1]]) if most[0] else ""
    print("%.4f  %9s  %7d  %s%s" % (p["recall"], precision, p["samples"], p["name"], taken))')"
check "a run is enough" "$("$train" eval --quiet run-1)" "$(cat text.txt)"

# Test-time augmentation: what the summary has as its accuracy.
"$train" set.ini --quiet --run-dir tta --set eval.tta=flip
check "tta" "$(field tta/evaluation.json of) $(field tta/evaluation.json top1)" "tta $(field tta tta_accuracy)"
"$train" predict --quiet --logits tta set/test/* --set eval.tta=flip >tta.txt
as_logits "tta" tta/evaluation.json tta.txt turns set/test
check "tta: text" "$("$train" eval --quiet set.ini tta --set eval.tta=flip | cut -d ' ' -f 1 | sed -n '4,8p' | tr '\n' ' ')" \
    "tta_accuracy tta_loss tta_samples tta_top5 tta_calibration_error "
check "tta of no picture is told" "$("$train" eval set.ini tta --set eval.tta=flip --set eval.tta_share=0.001 2>&1 | grep -c '^warning: eval.tta_share = 0.001 of [0-9]* test pictures is none')" 1
# Validation.
"$train" eval --quiet --json set.ini run-1 --set data.validation_fraction=0.3 --set eval.split=validation >validation.json
check "validation" "$(field validation.json set) $(field validation.json samples)" "validation 14"
"$train" tiny.ini --quiet --run-dir four --set device.type=cpu --set train.max_updates=2
check "4 classes: no top-5" "$(grep -c top1 four/evaluation.json) $(grep -c top5 four/evaluation.json)" "1 0"

# A run that ended before its results were written, and one that goes on.
cp run-1/evaluation.json first.json
rm run-1/evaluation.json run-1/summary.json run-1/weights.safetensors
"$train" set.ini --quiet --run-dir run-1 --resume
check "written again" "$(cmp first.json run-1/evaluation.json 2>&1)" ""
"$train" set.ini --quiet --run-dir run-1 --resume --set train.epochs=4 2>/dev/null # which warns of the change
check "a longer run has another" "$(cmp -s first.json run-1/evaluation.json && echo the same)" ""
check "a longer run: accuracy" "$(field run-1/evaluation.json top1)" "$(field run-1 test_accuracy)"
"$train" predict --quiet --logits run-1 set/test/* >logits.txt

# Gray pictures: the weights say so, to eval with a configuration that does not, and to predict.
sed '/^mean/d; /^std/d' set.ini >gray.ini
"$train" gray.ini --quiet --run-dir gray --set data.channels=1
check "gray: exit" $? 0
"$train" predict --quiet --logits gray set/test/* >gray.txt
as_logits "gray" gray/evaluation.json gray.txt turns set/test
"$train" eval --quiet --json gray.ini gray >gray.json
check "gray: eval" "$(without_pictures gray/evaluation.json <gray.json)" "$keys"
refused "gray weights, coloured pictures" 2 "--set data.channels=3: image_size is 3x7x9 here, but the weights of gray/weights.safetensors were trained with 1x7x9" \
    "$train" eval --quiet gray.ini gray --set data.channels=3

# A folder of classes.
"$train" eval --quiet --json run-1 set/test/ >folder.json
check "folder: exit" $? 0
check "folder" "$(field folder.json set) $(field folder.json samples)" "folder 42"
as_logits "folder" folder.json logits.txt classes
check "folder: text" "$("$train" eval --quiet run-1 set/test | head -n 5 | cut -d ' ' -f 1 | tr '\n' ' ')" \
    "folder_accuracy folder_loss folder_samples folder_top5 folder_calibration_error "
check "folder: accuracy" "$("$train" eval --quiet run-1 set/test | awk 'NR == 1 { print $2 }')" "$(printf %.6f "$(field run-1 test_accuracy)")"
check "folder: 2 ranks" "$(ranks 2 60 "$train" eval --quiet --json run-1 set/test/)" "$(cat folder.json)"
check "folder: tta" "$("$train" eval --quiet run-1 set/test --set eval.tta=flip | head -n 1 | cut -d ' ' -f 1)" "tta_accuracy"
refused "a folder of splits" 3 "; perhaps set/test is meant" "$train" eval --quiet run-1 set
mv set/test/cat set/test/Cat
refused "missing and unknown" 3 "set/test: expected a folder for each of the 7 classes of the weights; missing: 'cat' (put their pictures there; an empty folder says that there are none); unknown: 'Cat' (rename them or move them away)" \
    "$train" eval --quiet run-1 set/test
mkdir set/test/cat
refused "unknown" 3 "of the weights; unknown: 'Cat' (rename" "$train" eval --quiet run-1 set/test
mv set/test/Cat Cat
"$train" eval --quiet --json run-1 set/test >six.json
check "an empty class: exit" $? 0
check "an empty class" "$("$python" -c 'import json; e = json.load(open("six.json")); print(e["samples"], e["per_class"][2]["recall"])')" "36 None"
mv Cat/* set/test/cat/
head -c 20 set/test/cat/3.pgm >short.pgm
mv short.pgm set/test/cat/3.pgm
refused "a picture that is cut off" 3 "1 of 42 pictures cannot be read; replace them, move them away, or go on without them by data.broken = skip" \
    "$train" eval --quiet run-1 set/test
"$train" eval --quiet --json run-1 set/test --set data.broken=skip >skip.json
check "left out: exit" $? 0
check "left out" "$(field skip.json samples)" 41
cp set/test/ant/0.pgm set/test/0.pgm
refused "outside of its class" 3 "set/test/0.pgm: image outside a class folder" "$train" eval --quiet run-1 set/test
refused "no folder" 2 "none: is not there" "$train" eval --quiet run-1 none
refused "weights alone" 2 "w.safetensors: weights alone do not say what to evaluate them on: train eval WEIGHTS FOLDER" \
    "$train" eval --quiet w.safetensors
refused "no configuration" 2 "none.ini" "$train" eval --quiet none.ini run-1

# A '/' in a class's name is '_' in its folder's.
LC_ALL=C sed 's/"cat/"c\/t/' run-1/weights.safetensors >slash.safetensors
refused "a class with a /" 3 "missing: 'c_t' (put their pictures there" "$train" eval --quiet slash.safetensors set/train
mv set/train/cat set/train/c_t
check "a folder for a class with a /" "$("$train" eval --quiet slash.safetensors set/train | sed -n 3p)" "folder_samples 42"

# More classes than a matrix is written for.
sed 's/out_features = 4/out_features = classes/' net.ini >many.ini
"$train" tiny.ini --quiet --run-dir many --set device.type=cpu --set data.classes=300 --set train.max_updates=2 --set model.file=many.ini
check "300 classes" "$("$python" -c '
import json
e = json.load(open("many/evaluation.json"))
c = e["confusions"]
print("confusion" in e, sum(n for _, _, n in c) == e["samples"], c == sorted(c), sum(n for t, p, n in c if t == p) == round(e["top1"] * e["samples"]))')" \
    "False True True True"
finish
