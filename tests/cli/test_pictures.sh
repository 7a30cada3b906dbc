# Folders of pictures, some of which cannot be read: all are tried before the first update, shared out over ranks; refused, or gone on
# without, the same on any number of ranks; packed for the next start; and a picture that breaks while training costs nothing but itself.
. "$(dirname "$0")/pictures.sh" "$1" || exit 1

cat >folder.ini <<'END'
[data]
dataset = folder
path = pictures
image_size = 12x12
[model]
file = net3.ini
[train]
epochs = 2
global_batch = 6
micro_batch = 2
[run]
deterministic = true
[checkpoint]
every_epochs = 1
[device]
threads = 1
END
for i in 0 1 2 3 4 5; do
    for split in train val; do
        mkdir -p pictures/$split/dark_above pictures/$split/dark_below
        picture pictures/$split/dark_above/$i.png 0 "$i"
        picture pictures/$split/dark_below/$i.png 1 "$i"
    done
done
cp -r pictures whole
spoil() { # in place: the same size and time of change
    cp -p "$1" before
    printf 'spoilt' | dd of="$1" bs=1 seek=60 conv=notrunc 2>/dev/null
    touch -r before "$1"
}
train() { "$train" folder.ini --quiet "$@"; }

spoil pictures/train/dark_above/2.png
spoil pictures/train/dark_below/4.png
spoil pictures/val/dark_below/5.png
output=$("$train" folder.ini --run-dir refused 2>&1)
check "broken: exit" $? 3
check "broken: all are named" "$(grep -c 'warning: pictures/\(train/dark_above/2\|train/dark_below/4\|val/dark_below/5\).png: broken' <<<"$output")" 3
check "broken: the message" "$(grep error: <<<"$output")" \
    "error: 3 of 24 pictures cannot be read; replace them, move them away, or go on without them by data.broken = skip"
check "broken: no run folder" "$([ -e refused ] && echo there)" ""
refused "broken, 3 ranks" 3 "3 of 24 pictures cannot be read" ranks 3 60 "$train" folder.ini --run-dir refused
refused "broken, dry run" 3 "3 of 24 pictures" "$train" folder.ini --dry-run

train --run-dir one --set data.broken=skip
check "skip: exit" $? 0
check "skip: counted" "$(field one/summary.json train_broken) $(field one/summary.json test_broken) $(field one/summary.json test_samples)" "2 1 11"
ranks 3 60 "$train" folder.ini --quiet --run-dir three --set data.broken=skip
check "skip, 3 ranks: exit" $? 0
check "skip: the same weights on 1 and 3 ranks" "$(cmp one/weights.safetensors three/weights.safetensors 2>&1)" ""
# In two parts, and with more broken by then.
train --run-dir parts --set data.broken=skip --set train.epochs=1
train --run-dir parts --set data.broken=skip --resume
check "skip: the same weights in two parts" "$(cmp one/weights.safetensors parts/weights.safetensors 2>&1)" ""
refused "eval, a broken test picture" 3 "cannot be read" "$train" eval folder.ini one/weights.safetensors

# Validation pictures beside test pictures: what is broken of them is named, or left out, too.
cp -rp pictures both
mv pictures apart
mv both pictures
cp -rp whole/val pictures/test
refused "broken for validation" 3 "3 of 36 pictures" "$train" folder.ini --run-dir never
train --run-dir validation --set data.broken=skip
check "validation: counted" "$(field validation/summary.json val_broken) $(field validation/summary.json val_samples) $(field validation/summary.json test_samples)" "1 11 12"
check "validation: training as without" "$(cmp one/weights.safetensors validation/weights.safetensors 2>&1)" ""
rm -r pictures cache
mv apart pictures

# Good pictures are packed. One that is spoilt since is seen, though its size and time are kept.
rm -r pictures
cp -rp whole pictures
train --run-dir good
check "all good: exit" $? 0
packed=(cache/lockstep/packed-*)
check "packed: files" "${#packed[@]}" 2
spoil pictures/train/dark_below/1.png
refused "spoilt since" 3 "1 of 24 pictures" "$train" folder.ini --run-dir never
refused "spoilt since, packed nowhere" 3 "1 of 24 pictures" "$train" folder.ini --run-dir never --set data.cache=off
train --run-dir later --set data.broken=skip
check "spoilt since, skipped: exit" $? 0
cp -p whole/train/dark_below/1.png pictures/train/dark_below/1.png
train --run-dir again
check "packed: the same weights" "$(cmp good/weights.safetensors again/weights.safetensors 2>&1)" ""
# Where the packed pictures are damaged, files are decoded again.
for file in cache/lockstep/packed-*; do
    size=$(stat -c %s "$file")
    dd if=/dev/zero of="$file" bs=1 seek=4608 count=$((size - 4608)) conv=notrunc status=none
done
train --run-dir damaged
check "packed, damaged: the same weights" "$(cmp good/weights.safetensors damaged/weights.safetensors 2>&1)" ""
# The run without the spoilt picture goes on; but not when that is gone, or mended.
refused "resume with the picture mended" 3 "of the same names and sizes, but their contents have changed; bring the old files back" \
    "$train" folder.ini --quiet --run-dir later --resume --set train.epochs=3
spoil pictures/train/dark_below/1.png
rm -r cache
train --run-dir later --resume --set train.epochs=3 --set data.broken=skip
check "broken later, resumed: exit" $? 0
mv pictures/train/dark_below/1.png away.png
refused "resume without a picture" 3 "1 samples fewer: 11 instead of 12; bring the old files back (one that is broken goes to its old place" \
    "$train" folder.ini --quiet --run-dir later --resume --set train.epochs=4

# Files that are none, and a folder that cannot be made.
mv away.png pictures/train/dark_below/1.png
for file in cache/lockstep/packed-*; do echo damaged >"$file"; done
refused "damaged files" 3 "1 of 24 pictures" "$train" folder.ini --run-dir never
rm -r cache
touch cache
output=$("$train" folder.ini --run-dir unkept --set data.broken=skip 2>&1)
check "no folder: exit" $? 0
check "no folder: told" "$(grep -c 'warning: .*; pictures are decoded in every epoch' <<<"$output")" 2
rm cache

# Ranks pack together what each of them decodes; a run without, and one of another folder, have the same weights.
rm -r pictures
cp -rp whole pictures
sleep 2.1 # a younger file is read again at the next start
ranks 3 60 "$train" folder.ini --quiet --run-dir together --set data.cache=here
check "3 ranks: exit" $? 0
check "3 ranks: packed in the folder that is named" "$(find here -name 'packed-*' | wc -l) $([ -e cache ] && echo cache)" "2 "
output=$("$train" folder.ini --run-dir alone --set data.cache=here 2>&1)
check "3 ranks: all is packed" "$(grep -c 'pictures are packed in' <<<"$output")" 0
check "3 ranks: the same weights" "$(cmp together/weights.safetensors alone/weights.safetensors 2>&1)" ""
train --run-dir unpacked --set data.cache=off
check "the same weights without" "$(cmp together/weights.safetensors unpacked/weights.safetensors 2>&1)" ""
# Another decoder than before: told, whether it was asked for or is what this program has.
train --run-dir by_stb --set train.epochs=1 --set data.decoder=stb
output=$("$train" folder.ini --run-dir by_stb --resume 2>&1)
check "another decoder: exit" $? 0
if grep -q 'libjpeg-turbo' <<<"$output"; then
    check "another decoder: told" "$(grep -c 'warning: .*data.decoder stb, now auto; .*the decoder of pictures stb_image, now libjpeg-turbo' <<<"$output")" 1
else
    echo "skipped: libjpeg-turbo is not built in"
fi
# Empty files, links to nowhere and what is no picture: as data.broken says.
: >pictures/train/dark_above/empty.jpg
ln -s nowhere pictures/val/dark_below/nowhere.bmp
refused "empty" 3 "2 of 26 pictures" "$train" folder.ini --run-dir never
echo text >pictures/train/dark_above/notes.txt
refused "no picture" 3 "notes.txt: is no image, expected only pictures in a class folder" "$train" folder.ini --run-dir never
output=$("$train" folder.ini --run-dir left_out --set data.broken=skip 2>&1)
check "left out: exit" $? 0
check "left out: told" "$(grep -c '1 in class folders are no pictures and left out, as dark_above/notes.txt' <<<"$output")" 1
check "left out: counted" "$(field left_out/summary.json train_broken) $(field left_out/summary.json test_broken)" "1 1"

# Names that would forge a field or a line of predict's, or steer a terminal, and one that is no UTF-8: text shows them escaped, JSON
# has them as they are, but for bytes that it cannot hold.
forged=$'a\t1.000000\nb\t\e[31mc\\d' latin=$'caf\xe9'
odd=$'odd\t\xe9'
mkdir "$odd"
for i in 0 1 2 3; do
    mkdir -p "$odd/$forged" "$odd/$latin"
    picture "$odd/$forged/$i.png" 0 "$i"
    picture "$odd/$latin/$i.png" 1 "$i"
done
train --run-dir odd --set data.path="$odd" --set train.global_batch=2 --set run.name="$odd"
check "odd names: exit" $? 0
"$train" predict --quiet odd/weights.safetensors "$odd/$latin/0.png" >odd.txt
check "odd names, predict: a line of 5 fields" "$(awk -F '\t' '{ print NF }' odd.txt)" 5
check "odd names, predict: the path" "$(cut -f 1 odd.txt)" 'odd\t\xe9/caf\xe9/0.png'
check "odd names, predict: the classes" "$({ cut -f 2 odd.txt; cut -f 4 odd.txt; } | LC_ALL=C sort)" \
    "$(printf '%s\n' 'a\t1.000000\nb\t\x1b[31mc\\d' 'caf\\xe9')"
check "odd names, ckpt show" "$("$train" ckpt show odd/checkpoints/update-* | grep -a 'run.name' | sort -u)" '  run.name = odd\t\\xe9'
for file in odd/*.json odd/*.jsonl odd/checkpoints/*/manifest.json; do
    iconv -f UTF-8 -t UTF-8 "$file" >/dev/null
    check "odd names, valid UTF-8: $file" $? 0
done
check "odd names, weights: the classes" "$(LC_ALL=C grep -a -o 'lockstep.classes":"[^]]*' odd/weights.safetensors)" \
    'lockstep.classes":"[\"a\\t1.000000\\nb\\t\\u001b[31mc\\\\d\",\"caf\\\\xe9\"'
finish
