# Exported models in an old onnxruntime (1.17, of January 2024, with the ONNX of its time) and in the newest, by pip into virtual
# environments that are removed at the end; skipped where pip cannot get them.
train=$1/train
if "$train" export --quiet none.safetensors none.onnx 2>&1 | grep -q 'without protobuf-c'; then
    echo "skipped: this build has no protobuf-c"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
rc=0

# read_by NAME PACKAGE...: the models in Python with these packages
read_by() {
    local name=$1 log
    local python=$folder/$name/bin/python
    shift
    log=$(python3 -m venv "$folder/$name" 2>&1 && timeout 300 "$python" -m pip install --quiet --disable-pip-version-check \
        --retries 0 --timeout 20 --only-binary=:all: --no-compile "$@" 2>&1) || {
        echo "skipped: $*, by pip: $(grep -v '^ *$' <<<"$log" | tail -n 1)"
        [ $rc != 0 ] || rc=77
        return
    }
    "$python" "$(dirname "$0")/real_readers.py" "$train" lenet every-layer every-integer --readers onnx onnxruntime || rc=1
}

read_by old 'onnxruntime==1.17.*' 'onnx==1.15.*' 'numpy<2'
read_by newest onnxruntime onnx numpy
exit $rc
