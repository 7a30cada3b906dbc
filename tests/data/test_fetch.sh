#!/usr/bin/env bash
# scripts/fetch-data.sh against a server on 127.0.0.1: fetching, running again, wrong sums, broken-off and missing files.
# The script under test is a copy whose sums are those of small files made here.
set -u
root=$PWD
command -v python3 >/dev/null || { echo "skipped: no python3 for the local server"; exit 77; }
tmp=$(mktemp -d)
server=
stop() {
    [ -n "$server" ] && kill "$server" 2>/dev/null
    rm -rf "$tmp"
}
trap stop EXIT
failures=0
expect() { # NAME WANTED-CODE CODE OUTPUT PART...
    local name=$1 wanted=$2 code=$3 output=$4 part
    shift 4
    [ "$code" = "$wanted" ] || { echo "$name: exit $code, expected $wanted: $output"; failures=$((failures + 1)); return; }
    for part in "$@"; do
        [[ $output == *"$part"* ]] || { echo "$name: output lacks '$part': $output"; failures=$((failures + 1)); return; }
    done
}
check() { # NAME COMMAND...
    local name=$1
    shift
    "$@" || { echo "$name: failed: $*"; failures=$((failures + 1)); }
}
no_leftovers() { [ -z "$(find "$1" -name '.fetch*')" ]; }

# The published files' stand-ins.
mkdir -p "$tmp/www" "$tmp/pack/cifar-10-batches-bin" "$tmp/package"
script=$tmp/fetch-data.sh
cp "$root/scripts/fetch-data.sh" "$script"
publish() { # FILE OLD-SUM: the script's sum becomes that of www/FILE
    sed -i "s/$2/$(md5sum <"$tmp/www/$1" | cut -d' ' -f1)/" "$script"
}
for file in train-images-idx3-ubyte:f68b3c2dcbeaaa9fbdd348bbdeb94873 train-labels-idx1-ubyte:d53e105ee54ea40749a09fcbcd1e9432 \
    t10k-images-idx3-ubyte:9fb629c4189551a2d022fa330f9573f3 t10k-labels-idx1-ubyte:ec29112dd5afa0611ce80d1b7f02629c; do
    name=${file%%:*}.gz
    head -c 200000 /dev/urandom | gzip >"$tmp/www/$name"
    publish "$name" "${file##*:}"
done
cp "$tmp/www/train-images-idx3-ubyte.gz" "$tmp/package/"
sed -i "s/cf8536b0aa1a6ac5fa3f23001093305c/$(md5sum <"$tmp/package/train-images-idx3-ubyte.gz" | cut -d' ' -f1)/" "$script"
for i in 1 2 3 4 5; do head -c 3073 /dev/urandom >"$tmp/pack/cifar-10-batches-bin/data_batch_$i.bin"; done
head -c 3073 /dev/urandom >"$tmp/pack/cifar-10-batches-bin/test_batch.bin"
echo airplane >"$tmp/pack/cifar-10-batches-bin/batches.meta.txt"
tar -czf "$tmp/www/cifar-10-binary.tar.gz" -C "$tmp/pack" cifar-10-batches-bin
publish cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530
head -c 5000 /dev/urandom >"$tmp/www/cifar-100-binary.tar.gz" # not the published one

# /cut/FILE promises the whole file and sends half of it. The log counts requests.
cat >"$tmp/server.py" <<'PY'
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.lstrip("/")
        cut = path.startswith("cut/")
        with open("requests", "a") as log:
            log.write(path + "\n")
        try:
            with open(os.path.join("www", os.path.basename(path)), "rb") as file:
                data = file.read()
        except OSError:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
    def log_message(self, *args):
        pass
os.chdir(sys.argv[1])
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open("port.new", "w") as file:
    file.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
PY
python3 "$tmp/server.py" "$tmp" &
server=$!
for _ in $(seq 1200); do [ -f "$tmp/port" ] && break; sleep 0.1; done
[ -f "$tmp/port" ] || { echo "skipped: no local server can be started"; exit 77; }
url=http://127.0.0.1:$(cat "$tmp/port")
fetch() { # sets out and code
    : >"$tmp/requests"
    out=$(env -u http_proxy -u https_proxy no_proxy=127.0.0.1 "$script" "$@" 2>&1)
    code=$?
}
requests() { wc -l <"$tmp/requests"; }
export LOCKSTEP_DATA_URL=$url LOCKSTEP_FASHION_MNIST_PACKAGE=$tmp/package

fetch mnist "$tmp/mnist"
expect "mnist" 0 $code "$out" "mnist is in"
for file in "$tmp"/www/t*; do check "mnist's files" cmp "$file" "$tmp/mnist/$(basename "$file")"; done
check "mnist: nothing left over" no_leftovers "$tmp/mnist"
fetch mnist "$tmp/mnist"
expect "mnist again" 0 $code "$out" "ok: "
check "mnist again downloads nothing" [ "$(requests)" = 0 ]
echo damage >>"$tmp/mnist/t10k-labels-idx1-ubyte.gz"
fetch mnist "$tmp/mnist"
expect "mnist, one file damaged" 0 $code "$out" "fetched: $tmp/mnist/t10k-labels-idx1-ubyte.gz"
check "mnist: only that one comes again" [ "$(requests)" = 1 ]
check "mnist: repaired" cmp "$tmp/www/t10k-labels-idx1-ubyte.gz" "$tmp/mnist/t10k-labels-idx1-ubyte.gz"

fetch cifar10 "$tmp/cifar10"
expect "cifar10" 0 $code "$out" "unpacked: $tmp/cifar10/cifar-10-batches-bin"
for file in "$tmp"/pack/cifar-10-batches-bin/*; do
    check "cifar10's files" cmp "$file" "$tmp/cifar10/cifar-10-batches-bin/$(basename "$file")"
done
check "cifar10: the archive is gone" [ ! -e "$tmp/cifar10/cifar-10-binary.tar.gz" ]
check "cifar10: nothing left over" no_leftovers "$tmp/cifar10"
fetch cifar10 "$tmp/cifar10"
expect "cifar10 again" 0 $code "$out" "ok: "
check "cifar10 again downloads nothing" [ "$(requests)" = 0 ]
rm "$tmp/cifar10/cifar-10-batches-bin/data_batch_3.bin"
fetch cifar10 "$tmp/cifar10"
expect "cifar10, a file lost" 0 $code "$out" "unpacked: "
check "cifar10: it is back" [ -s "$tmp/cifar10/cifar-10-batches-bin/data_batch_3.bin" ]

fetch cifar100 "$tmp/cifar100"
expect "wrong sum" 3 $code "$out" "cifar-100-binary.tar.gz" "its MD5 is" "expected 03b5dce01913d631647c71ecec9e9cb8"
check "wrong sum: nothing is kept" [ -z "$(ls -A "$tmp/cifar100")" ]

LOCKSTEP_DATA_URL=$url/cut fetch mnist "$tmp/cut"
expect "broken off" 3 $code "$out" "cannot download $url/cut/train-images-idx3-ubyte.gz" "by hand" "t10k-labels-idx1-ubyte.gz"
check "broken off: nothing is kept" [ -z "$(ls -A "$tmp/cut")" ]
fetch mnist "$tmp/cut"
expect "broken off, then whole" 0 $code "$out" "mnist is in"

fetch fashion-mnist "$tmp/fashion"
expect "package has one file, server another set" 3 $code "$out" "copied: $tmp/package/train-images-idx3-ubyte.gz" "its MD5 is"
mv "$tmp/www/t10k-labels-idx1-ubyte.gz" "$tmp/hidden"
fetch mnist "$tmp/missing"
expect "not on the server" 3 $code "$out" "cannot download $url/t10k-labels-idx1-ubyte.gz" "404"
check "not on the server: the others stay" [ -s "$tmp/missing/train-images-idx3-ubyte.gz" ]
LOCKSTEP_DATA_URL=http://127.0.0.1:1 fetch mnist "$tmp/unreachable"
expect "no network" 3 $code "$out" "cannot download" "check the network"
touch "$tmp/file"
fetch mnist "$tmp/file"
expect "a file in place of the folder" 3 $code "$out" "cannot create the folder $tmp/file"
fetch imagenet
expect "unknown set" 2 $code "$out" "usage:"
fetch
expect "no set" 2 $code "$out" "usage:"

[ $failures = 0 ] || exit 1
echo "all of fetch-data.sh's cases passed"
