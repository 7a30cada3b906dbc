# `train export`: from a weights file alone to an ONNX file, and what is refused. What is in the file: tests/formats/test_onnx.c; what
# other programs compute with it: tests/real_readers.
. "$(dirname "$0")/common.sh" "$1" || exit 1

"$train" tiny.ini --quiet --set train.max_updates=1 --run-dir run
check "training: exit" $? 0
mkdir away
mv run/weights.safetensors away/w.safetensors
cd away || exit 1
text=$("$train" export w.safetensors w.onnx 2>&1)
rc=$?
case $text in
*"built without protobuf-c"*)
    check "without protobuf-c: exit" $rc 2
    case $text in
    *libprotobuf-c-dev*protobuf-c-compiler*) ;;
    *) check "without protobuf-c: what to install" "$text" "...libprotobuf-c-dev and protobuf-c-compiler..." ;;
    esac
    check "without protobuf-c: files" "$(ls)" w.safetensors
    [ $failures = 0 ] || finish
    echo "skipped: this build has no protobuf-c, and says so"
    exit 77
    ;;
esac
check "export: exit" $rc 0
check "export: says" "$text" \
    "w.onnx: ONNX, operator set 11; input 'input': pixels from 0 to 255, (batch, 1, 12, 12); output: 4 logits"
for name in conv1.weight conv1.bias fc.weight fc.bias input/mean Conv Relu MaxPool Flatten Gemm '["0","1","2","3"]'; do
    check "export: holds $name" "$(grep -qaF "$name" w.onnx && echo yes)" yes
done
check "export: as large as its weights" "$(($(wc -c <w.onnx) > 4 * (8 * 9 + 8 + 288 * 4 + 4)))" 1
"$train" export --quiet w.safetensors again.onnx
check "the same file twice" "$(cmp w.onnx again.onnx && echo same)" same
rm again.onnx
check "2 ranks: exit" "$(ranks 2 60 "$train" export --quiet w.safetensors again.onnx >/dev/null 2>&1; echo $?)" 0
check "2 ranks: the same file" "$(cmp w.onnx again.onnx && echo same)" same
"$train" export --quiet w.safetensors given.onnx --config ../tiny.ini
check "with --config: the same file" "$(cmp w.onnx given.onnx && echo same)" same

# A weight of the last tensor is not finite.
(head -c -4 w.safetensors; printf '\0\0\200\177') >inf.safetensors
refused "weights that are not finite" 7 "has weights that are not finite: did its run diverge?" "$train" export inf.safetensors inf.onnx
refused "... names the weights file" 7 "error: inf.safetensors: tensor '" "$train" export inf.safetensors inf.onnx
text=$("$train" eval ../tiny.ini inf.safetensors 2>&1)
check "eval of weights that are not finite: exit" $? 0
check "... warns" "$(grep -c "^warning: inf.safetensors: tensor '.*' has weights that are not finite" <<<"$text")" 1
check "... no number" "$(grep loss <<<"$text")" "test_loss nan"
rm inf.safetensors

# Anything that is no regular file is written to, a link is followed.
mkfifo pipe
(sleep 0.2; exec timeout 60 cat pipe >piped.onnx) & # a reader may come a little later than the writer
"$train" export --quiet w.safetensors pipe
check "into a pipe: exit" $? 0
wait
"$train" export --quiet w.safetensors /dev/stdout >stdout.onnx
"$train" export --quiet w.safetensors /dev/stdout | cat >stdout-pipe.onnx
ln -s led-to.onnx link.onnx
"$train" export --quiet w.safetensors link.onnx
"$train" export --quiet w.safetensors link.onnx
for file in piped stdout stdout-pipe led-to; do
    check "$file.onnx: the same file" "$(cmp w.onnx $file.onnx && echo same)" same
done
check "a pipe and a link stay" "$([ -p pipe ] && [ -L link.onnx ] && echo yes)" yes
refused "a pipe without a reader" 7 "pipe: cannot write: is a pipe that no process reads" "$train" export --quiet w.safetensors pipe
refused "a folder" 7 "../run: cannot write: is a folder" "$train" export --quiet w.safetensors ../run
rm pipe piped.onnx stdout.onnx stdout-pipe.onnx led-to.onnx link.onnx

refused "no folder" 7 "none/w.onnx" "$train" export --quiet w.safetensors none/w.onnx
refused "no weights" 2 "none.safetensors: is not there" "$train" export --quiet none.safetensors x.onnx
head -c 1000 w.safetensors >cut.safetensors
refused "cut weights" 7 "cut.safetensors" "$train" export --quiet cut.safetensors x.onnx
check "refused: no files" "$(ls)" "again.onnx
cut.safetensors
given.onnx
w.onnx
w.safetensors"
finish
