# `train predict`: from a weights file alone, a line a picture, the same as `train eval` says of the same pictures; and what is
# refused. Pictures are made here, without any other program than gzip.
. "$(dirname "$0")/pictures.sh" "$1" || exit 1

sed 's/3x12x12/data/; s/out_features = 2/out_features = classes/' net3.ini >following.ini
cat >folder.ini <<'END'
[data]
dataset = folder
path = pictures
image_size = 12x12
mean = 0.4, 0.5, 0.6
[model]
file = following.ini
[train]
epochs = 2
global_batch = 8
[checkpoint]
every_epochs = 1
[device]
threads = 1
END
mkdir -p 'pictures/train/dark above' pictures/train/dark_below 'pictures/test/dark above' pictures/test/dark_below
for i in 0 1 2 3; do
    picture "pictures/train/dark above/$i.png" 0 "$i"
    picture "pictures/train/dark_below/$i.png" 1 "$i"
done
for i in 4 5 6; do
    picture "pictures/test/dark above/$i.png" 0 "$i"
    picture "pictures/test/dark_below/$i.png" 1 "$i"
done
"$train" folder.ini --quiet --run-dir run
check "training: exit" $? 0
check "the run's network has numbers" "$(cat run/network.ini)" "$(cat net3.ini)"
"$train" eval folder.ini run/weights.safetensors --quiet --set model.file=net3.ini >/dev/null
check "numbers and words are one network: exit" $? 0
result=$("$train" eval folder.ini run/weights.safetensors --quiet)

# The weights alone, elsewhere: no configuration, no network, no training pictures.
mkdir away
mv run/weights.safetensors away/w.safetensors
mv pictures/test away/test
cd away || exit 1
above=(test/dark\ above/*.png)
below=(test/dark_below/*.png)
"$train" predict --quiet w.safetensors "${above[@]}" "${below[@]}" >classes.txt
check "predict: exit" $? 0
"$train" predict --quiet --logits w.safetensors "${above[@]}" "${below[@]}" >logits.txt
check "predict --logits: exit" $? 0
check "predict: pictures in order" "$(cut -f 1 classes.txt)" "$(printf '%s\n' "${above[@]}" "${below[@]}")"
check "predict --logits: pictures in order" "$(cut -f 1 logits.txt)" "$(printf '%s\n' "${above[@]}" "${below[@]}")"
check "predict: fields" "$(awk -F '\t' '{ print NF }' classes.txt | sort -u)" 5
check "predict --logits: fields" "$(awk -F '\t' '{ print NF }' logits.txt | sort -u)" 3
check "predict: names and order" "$(awk -F '\t' '$3 < $5 || ($2 != "dark above" && $2 != "dark_below") || $2 == $4' classes.txt)" ""
# Folders: of pictures, whose order is by name, and of weights.
echo "no picture" >test/dark_below/README
echo "no picture" >test/dark_below/.hidden.png
check "predict, folders of pictures" "$("$train" predict --quiet w.safetensors 'test/dark above' test/dark_below/ 2>&1)" "$(cat classes.txt)"
refused "a folder without pictures" 3 "test: a folder without pictures (.jpg, .jpeg, .jpe, .jfif, .png, .bmp, .gif, .pnm, .pgm, .ppm or .tga; folders in it are not looked into)" \
    "$train" predict --quiet w.safetensors test
rm test/dark_below/README test/dark_below/.hidden.png
mkdir -p mixed/more webp
cp "${above[0]}" mixed/a.png
printf 'RIFF\x1a\0\0\0WEBPVP8L' | tee mixed/b.jpg >webp/a.webp
"$train" predict w.safetensors mixed >/dev/null 2>mixed.log
check "a WebP named .jpg: its kind" "$(grep -c 'mixed/b.jpg: a WebP picture, which is not read; make a PNG of it (dwebp' mixed.log)" 1
check "folders that are not looked into" "$(grep -c 'warning: mixed: 1 folder in it is not looked into, as more/' mixed.log)" 1
"$train" predict --quiet w.safetensors webp >/dev/null 2>webp.log
check "a folder of WebP: exit" $? 3
check "a folder of WebP: its kind" "$(grep -c 'webp/a.webp: a WebP picture, which is not read' webp.log)" 1
refused "a folder without weights" 7 "../run: a folder without weights.safetensors; name a weights file, the folder of a run that is complete, or" \
    "$train" predict --quiet ../run "${above[0]}"
refused "export, a folder without weights" 7 "../run: a folder without weights.safetensors" "$train" export --quiet ../run x.onnx
mkdir bare
refused "export, a folder of something else" 2 "bare: a folder without weights.safetensors" "$train" export --quiet bare x.onnx
rmdir bare
mkdir ../run/copy
cp w.safetensors ../run/copy/weights.safetensors
check "predict, a folder of weights" "$("$train" predict --quiet ../run/copy "${above[@]}" "${below[@]}")" "$(cat classes.txt)"
last=(../run/checkpoints/update-*)
check "predict, the last checkpoint" "$("$train" predict --quiet "${last[-1]}" "${above[@]}" "${below[@]}")" "$(cat classes.txt)"
mv test ../pictures/test
check "eval, a folder of weights" "$(cd .. && "$train" eval folder.ini run/copy --quiet)" "$result"
check "eval, a checkpoint" "$(cd .. && "$train" eval folder.ini "${last[-1]#../}" --quiet)" "$result"
refused "eval, a folder without weights" 7 "run: a folder without weights.safetensors" \
    "$train" eval ../folder.ini ../run --quiet --set data.path=../pictures
mv ../pictures/test test
# Accuracy, and the mean loss from the logits, are those of eval.
as_eval() { # WHAT LOGITS CLASSES RESULT
    check "$1" "$(awk -F '\t' -v classes="$3" '
        { label = $1 ~ /dark above/ ? 2 : 3; other = 5 - label; top = $2 > $3 ? $2 : $3; split($1, part, "/")
          loss += log(exp($2 - top) + exp($3 - top)) - ($label - top)
          getline shown < classes; split(shown, field, "\t"); right += field[2] == part[2]
          p = 1 / (1 + exp(-($2 > $3 ? $2 - $3 : $3 - $2)))
          if (p - field[3] > 1e-6 || field[3] - p > 1e-6) print "probability", field[3], "instead of", p }
        END { printf "test_accuracy %.6f\ntest_loss %.5f\n", right / NR, loss / NR }' "$2")" \
        "$(awk '/accuracy/ { print } /loss/ { printf "test_loss %.5f\n", $2 }' <<<"$4")"
}
as_eval "predict: as eval" logits.txt classes.txt "$result"

# How the training pictures were resized and decoded is how these are.
mv test ../pictures/test
(cd .. && "$train" folder.ini --quiet --run-dir crop --set data.resize=crop --set data.decoder=stb) || check "crop: exit" $? 0
for how in '"lockstep.resize":"bilinear, crop"' '"lockstep.decoder":"stb_image"'; do
    check "crop: $how" "$(LC_ALL=C grep -a -c -F "$how" ../crop/weights.safetensors)" 1
done
crop=$(cd .. && "$train" eval folder.ini crop --quiet --set data.resize=crop)
mv ../pictures/test test
"$train" predict --quiet ../crop "${above[@]}" "${below[@]}" >crop-classes.txt
"$train" predict --quiet --logits ../crop "${above[@]}" "${below[@]}" >crop-logits.txt
as_eval "crop: predict as eval" crop-logits.txt crop-classes.txt "$crop"
check "crop: other pixels" "$(cmp -s crop-logits.txt logits.txt && echo the same)" ""
LC_ALL=C sed 's/"lockstep.decoder":"stb_image"/"lockstep.decoder":"other_lib"/' ../crop/weights.safetensors >other.safetensors
check "another decoder: told" "$("$train" predict other.safetensors "${above[0]}" 2>&1 | grep -c 'warning: the training pictures were decoded by other_lib, these are by ')" 1

# Standard input: a picture, or names.
check "a picture by standard input" "$("$train" predict --quiet w.safetensors - <"${below[1]}")" "$(sed -n 5p classes.txt | sed 's/^[^\t]*/-/')"
check "by a pipe, beside others" "$(cat "${above[0]}" | "$train" predict --quiet w.safetensors "${below[0]}" - | cut -f 2-)" \
    "$({ sed -n 4p classes.txt; sed -n 1p classes.txt; } | cut -f 2-)"
printf '%s\n\n' "${above[@]}" "${below[@]}" >names
check "names, a line each" "$("$train" predict --quiet w.safetensors --files-from names)" "$(cat classes.txt)"
check "names by standard input" "$("$train" predict --quiet w.safetensors --files-from - <names)" "$(cat classes.txt)"
check "names ended by 0 bytes" "$(printf '%s\0' "${below[@]}" | "$train" predict --quiet w.safetensors "${above[@]}" --files-from -)" "$(cat classes.txt)"
check "names of folders" "$(printf 'test/dark above\ntest/dark_below' | "$train" predict --quiet w.safetensors --files-from -)" "$(cat classes.txt)"
check "a list of names and a picture" "$("$train" predict --quiet w.safetensors --files-from names - <"${above[0]}" | head -n 1 | cut -f 2-)" "$(head -n 1 classes.txt | cut -f 2-)"
refused "no picture there" 3 "standard input: is empty, expected a picture" "$train" predict --quiet w.safetensors - </dev/null
refused "no picture that is known there" 3 "standard input: no picture that is known" "$train" predict --quiet w.safetensors - <names
refused "no names there" 3 "standard input: has no names of pictures" "$train" predict --quiet w.safetensors --files-from - </dev/null
refused "no list" 2 "none: is not there" "$train" predict --quiet w.safetensors --files-from none
refused "standard input twice" 2 "standard input ('-') is named 2 times, and can be read once" \
    "$train" predict --quiet w.safetensors - --files-from - <names
refused "a missing picture of a list" 3 "missing.png: cannot open" "$train" predict --quiet w.safetensors --files-from - <<<missing.png

# JSON: a line a picture, with the same names, probabilities and logits.
if command -v python3 >/dev/null; then
    for what in classes logits; do
        options=$([ $what = classes ] || echo --logits)
        # shellcheck disable=SC2086 # no word or one
        check "--json, $what" "$("$train" predict --quiet --json $options w.safetensors "${above[@]}" "${below[@]}" | python3 -c '
import json, sys
for line in sys.stdin:
    p = json.loads(line)
    fields = ["%.9g" % x for x in p["logits"]] if "logits" in p else [x for c in p["classes"] for x in (c["name"], "%.6f" % c["probability"])]
    print(p["path"], *fields, sep="\t")')" "$(cat $what.txt)"
    done
fi

# One that cannot be read: a message, the others' lines, and exit code 3.
head -c 50 "${above[0]}" >cut.png
refused "cut off" 3 "cut.png: broken PNG: the file is cut off" "$train" predict --quiet w.safetensors "${below[0]}" cut.png
refused "missing" 3 "missing.png: cannot open: No such file" "$train" predict --quiet w.safetensors missing.png
"$train" predict --quiet w.safetensors "${above[0]}" cut.png "${below[0]}" missing.png "${below[2]}" >some.txt 2>errors.txt
check "two bad ones: exit" $? 3
check "two bad ones: the others" "$(cat some.txt)" "$(grep -F -e "${above[0]}" -e "${below[0]}" -e "${below[2]}" classes.txt)"
check "two bad ones: messages" "$(grep -c 'error: ' errors.txt)" 2

# Several ranks: rank 0 alone.
check "2 ranks" "$(ranks 2 60 "$train" predict --quiet w.safetensors "${above[@]}" "${below[@]}" 2>&1)" "$(cat classes.txt)"
refused "2 ranks, missing" 3 "missing.png: cannot open" ranks 2 60 "$train" predict --quiet w.safetensors missing.png

# Weights that do not say what they are for, as PyTorch saves them: --config says it.
LC_ALL=C sed 's/"lockstep\.\(network\|mean\|std\|classes\)"/"foreign1.\1"/g' w.safetensors >foreign.safetensors
refused "foreign weights" 7 "name a configuration that does, by --config CONFIG.ini" "$train" predict --quiet foreign.safetensors "${above[0]}"
refused "foreign weights, export" 7 "foreign.safetensors: does not say what network" "$train" export --quiet foreign.safetensors x.onnx
mv test ../pictures/test
ln -s ../pictures/test test
check "foreign weights with --config" \
    "$("$train" predict --quiet foreign.safetensors --config ../folder.ini "${above[@]}" "${below[@]}")" "$(cat classes.txt)"
sed 's/\[fc\]/[fc9]/' ../net3.ini >../net9.ini
refused "another network" 7 "foreign.safetensors: has no tensor 'fc9.weight'; the nearest is 'fc.weight'" \
    "$train" predict --quiet foreign.safetensors --config ../folder.ini --set model.file=../net9.ini "${above[0]}"
refused "another data set" 2 "the network takes pictures of 3x12x12 and has 2 classes, but data.dataset = synthetic has" \
    "$train" predict --quiet foreign.safetensors --config ../folder.ini --set data.dataset=synthetic \
    --set model.file=../net3.ini "${above[0]}"
refused "no weights" 2 "none.safetensors: is not there" "$train" predict --quiet none.safetensors "${above[0]}"
refused "no safetensors file" 2 "is a picture; expected WEIGHTS" "$train" predict --quiet "${above[0]}" "${above[0]}"
refused "a device that is not there" 2 "device.type" "$train" predict --quiet w.safetensors "${above[0]}" --set device.type=gpu
if [ -w /dev/full ]; then
    refused "full disk" 7 "standard output: cannot be written" sh -c "'$train' predict --quiet w.safetensors '${above[0]}' >/dev/full"
fi
finish
