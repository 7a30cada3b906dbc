# Several labels a picture (data.labels): training, the same bits on one and two ranks and after a resume, eval, predict and export,
# and what is refused. Focal loss, too.
. "$(dirname "$0")/pictures.sh" "$1" || exit 1

sed 's/3x12x12/data/; s/out_features = 2/out_features = classes/' net3.ini >following.ini
cat >labels.ini <<'END'
[data]
dataset = folder
path = pictures
labels = labels.csv
image_size = 12x12
test_fraction = 0.25
[model]
file = following.ini
[train]
epochs = 6
global_batch = 8
[run]
deterministic = true
[device]
type = cpu
threads = 1
END
mkdir -p pictures/more
echo 'file,dark above,"below, dark",never' >pictures/labels.csv
for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
    file=$([ "$i" -lt 4 ] && echo more/)$i.png
    picture "pictures/$file" $((i % 2)) "$i"
    echo "$file,$((1 - i % 2)),$((i % 2)),0" >>pictures/labels.csv
done

"$train" labels.ini --dry-run >plan.txt 2>&1
check "plan: exit" $? 0
check "plan: labels" "$(grep -c 'input 3x12x12, 3 classes' plan.txt)" 1
"$train" labels.ini --run-dir one >one.txt 2>&1
check "training: exit" $? 0
check "training: a label that no picture has" "$(grep -c "no training picture has the label 'never'" one.txt)" 1
two() { ranks 2 60 "$train" "$@"; }
two labels.ini --quiet --run-dir two >two.txt 2>&1
check "two ranks: the same weights" "$(cmp one/weights.safetensors two/weights.safetensors 2>&1)" ""
check "two ranks: the same evaluation" "$(cmp one/evaluation.json two/evaluation.json 2>&1)" ""
all="--set train.focal_gamma=1.5 --set train.label_smoothing=0.1 --set train.class_weights=balanced --set data.mixup=0.3"
# shellcheck disable=SC2086 # several words
{
    "$train" labels.ini --quiet --run-dir all $all >/dev/null 2>&1
    two labels.ini --quiet --run-dir all2 $all >/dev/null 2>&1
}
check "focal, smoothed, weighted, mixed: two ranks" "$(cmp all/weights.safetensors all2/weights.safetensors 2>&1)" ""
check "focal, smoothed, weighted, mixed: another run" "$(cmp -s all/weights.safetensors one/weights.safetensors || echo other)" other

# One class a picture: focal loss is another run, and with an exponent of 0 it is none.
"$train" tiny.ini --quiet --run-dir plain >/dev/null 2>&1
"$train" tiny.ini --quiet --run-dir zero --set train.focal_gamma=0 >/dev/null 2>&1
"$train" tiny.ini --quiet --run-dir focal --set train.focal_gamma=2 >/dev/null 2>&1
check "focal_gamma = 0" "$(cmp plain/weights.safetensors zero/weights.safetensors 2>&1)" ""
check "focal_gamma = 2" "$(cmp -s plain/weights.safetensors focal/weights.safetensors || echo other)" other

# A run that is cut goes on with the same bits, but not with other labels.
"$train" labels.ini --quiet --run-dir cut --set train.max_updates=3 >/dev/null 2>&1
cp pictures/labels.csv labels.kept
sed -i '2s/,1,0,0/,0,0,0/' pictures/labels.csv
refused "resume with another label" 3 "the training data are not those that it was made with" "$train" labels.ini --quiet --run-dir cut --resume
cp labels.kept pictures/labels.csv
"$train" labels.ini --quiet --run-dir cut --resume >cut.txt 2>&1
check "resume: exit" $? 0
check "resume: the same weights" "$(cmp one/weights.safetensors cut/weights.safetensors 2>&1)" ""

"$train" eval one --quiet >eval.txt
check "eval: exit" $? 0
check "eval: figures" "$(sed -n 's/^\(test_[a-z0-9_]*\) .*/\1/p' eval.txt | tr '\n' ' ')" "test_accuracy test_loss test_samples test_macro_f1 "
check "eval: accuracy" "$(sed -n 's/^test_accuracy //p' eval.txt)" 1.000000
check "eval --json" "$("$train" eval one --quiet --json | grep -o '"exact_match":1,"macro_f1":[0-9.]*,"classes":\["dark above","below, dark","never"\]' | cut -c1-15)" '"exact_match":1'
check "eval with views: names" "$("$train" eval one --quiet --set eval.tta=flip --set eval.tta_share=0.5 | sed -n 's/^tta_\([a-z0-9_]*\) .*/\1/p' | tr '\n' ' ')" \
    "accuracy loss samples macro_f1 "
"$train" predict --quiet one pictures/4.png pictures/5.png >classes.txt
check "predict: labels above 0.5" "$(awk -F '\t' '{ print $1, $2, ($3 > 0.5), NF }' classes.txt | tr '\n' ' ')" \
    "pictures/4.png dark above 1 3 pictures/5.png below, dark 1 3 "
check "predict --json" "$("$train" predict --quiet --json one pictures/4.png | grep -o '"classes":\[{"name":"dark above","probability":0[0-9.]*}\]' | cut -c1-10)" '"classes":'
check "export: C" "$("$train" export one one.c >/dev/null 2>&1; grep -c 'their sigmoid gives probabilities' one.c)" 1

refused "eval of a folder of classes" 2 "its pictures have several labels each" "$train" eval one pictures
refused "export --int8" 2 "--int8: the ranges are chosen by the loss of one class a picture" "$train" export one one8.c --int8
refused "eval --int8" 2 "--int8: the ranges are chosen by the loss of one class a picture" "$train" eval one --int8
refused "data.balance" 2 "data.balance=classes: with data.labels a picture is in several classes" "$train" labels.ini --set data.balance=classes
refused "train.quantise" 2 "calibration needs the loss of one class" "$train" labels.ini --set train.quantise=int8 --set model.init=one
cut -d, -f1,2 pictures/labels.csv >pictures/few.csv
refused "one label" 3 "pictures/few.csv:1: has one label, expected at least 2" "$train" labels.ini --set data.labels=few.csv
mkdir -p "pictures/deep$(printf '/d%.0s' {1..70})"
refused "folders in folders" 3 "more than 64 levels" "$train" labels.ini
rm -r pictures/deep
mv pictures/labels.csv kept.csv
{ cat kept.csv && echo 'labels.csv,1,0,0'; } >pictures/labels.csv
refused "a row without a picture" 3 "pictures/labels.csv:14: there is no picture labels.csv beside it" "$train" labels.ini
first=$(sed -n 's/,.*//; 2p' kept.csv)
accented=$(dirname "$first")/$(printf 'e\xcc\x81.png')
mv "pictures/$first" "pictures/$accented"
sed "2s|^[^,]*|$(dirname "$first")/$(printf '\xc3\xa9.png')|" kept.csv >pictures/labels.csv
refused "accents of another form" 3 "has accents in another Unicode form" "$train" labels.ini
mv "pictures/$accented" "pictures/$first"
mv kept.csv pictures/labels.csv
refused "no such file of labels" 3 "pictures/none.csv: cannot read" "$train" labels.ini --set data.labels=none.csv
refused "weights of other numbers" 2 "expected 3 numbers from 0 to 1e6" "$train" labels.ini --set train.class_weights=1,2
echo 'more/0.png,1,0,0' >>pictures/labels.csv
refused "a row twice" 3 "pictures/labels.csv:14: more/0.png has a row in line 2, too" "$train" labels.ini
refused "a row twice, two ranks" 3 "pictures/labels.csv:14: more/0.png has a row in line 2, too" two labels.ini

finish
