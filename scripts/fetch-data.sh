#!/usr/bin/env bash
# fetch-data.sh - brings a published data set to where training looks for it, verified.
#
#   scripts/fetch-data.sh fashion-mnist|mnist|cifar10|cifar100 [FOLDER]     (FOLDER: data/NAME)
#
# Every file is checked against its published MD5 before it gets its name, so a file that is there is whole; running again
# downloads only what is missing or damaged. Fashion-MNIST is taken from Debian's package dataset-fashion-mnist where it is
# installed: the same data, with shorter gzip headers (hence a second sum).
# LOCKSTEP_DATA_URL=URL takes the files from a mirror, or a folder of it (file:///...), instead of the set's own home.
# Exit: 0 all there; 2 wrong use; 3 not to be had or damaged.
set -euo pipefail

case ${1-} in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit
    ;;
esac

say() { printf 'fetch-data: %s\n' "$*"; }
fail() {
    local code=$1
    shift
    printf 'fetch-data: %s\n' "$*" >&2
    exit "$code"
}
usage() { fail 2 "usage: scripts/fetch-data.sh fashion-mnist|mnist|cifar10|cifar100 [FOLDER]"; }

if [ $# -lt 1 ] || [ $# -gt 2 ]; then usage; fi
case ${2-} in -*) usage ;; esac
name=${1%-coarse} # the coarse labels of CIFAR-100 are in the same files
package=''  # folder of an installed package that has the files
unpacked='' # folder that an archive holds
# Each line of `files`: name, published MD5, other MD5 of the same data.
case $name in
mnist)
    home=https://ossci-datasets.s3.amazonaws.com/mnist
    files='train-images-idx3-ubyte.gz f68b3c2dcbeaaa9fbdd348bbdeb94873 -
train-labels-idx1-ubyte.gz d53e105ee54ea40749a09fcbcd1e9432 -
t10k-images-idx3-ubyte.gz 9fb629c4189551a2d022fa330f9573f3 -
t10k-labels-idx1-ubyte.gz ec29112dd5afa0611ce80d1b7f02629c -'
    ;;
fashion-mnist)
    home=http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
    package=${LOCKSTEP_FASHION_MNIST_PACKAGE-/usr/share/datasets/fashion-mnist}
    files='train-images-idx3-ubyte.gz 8d4fb7e6c68d591d4c3dfef9ec88bf0d cf8536b0aa1a6ac5fa3f23001093305c
train-labels-idx1-ubyte.gz 25c81989df183df01b3e8a0aad5dffbe 10bea18fdb374794d4bb42e356e600c9
t10k-images-idx3-ubyte.gz bef4ecab320f06d8554ea6380940ec79 f78720b4224f21cce2f2ccf2d7a94c9a
t10k-labels-idx1-ubyte.gz bb300cfdad3c16e7a12a480ee83cd310 0d30e22e447f3c33dab9ed536400ac01'
    ;;
cifar10)
    home=https://www.cs.toronto.edu/~kriz
    files='cifar-10-binary.tar.gz c32a1d4ab5d03f1284b67883e8d87530 -'
    unpacked=cifar-10-batches-bin
    ;;
cifar100)
    home=https://www.cs.toronto.edu/~kriz
    files='cifar-100-binary.tar.gz 03b5dce01913d631647c71ecec9e9cb8 -'
    unpacked=cifar-100-binary
    ;;
*) usage ;;
esac
folder=${2:-data/$name}
url=${LOCKSTEP_DATA_URL:-$home}
url=${url%/}

md5_of() {
    local sum
    sum=$(md5sum <"$1") || return
    printf '%s' "${sum%% *}"
}
is_right() { # FILE MD5 OTHER
    local sum
    [ -f "$1" ] && sum=$(md5_of "$1") && { [ "$sum" = "$2" ] || [ "$sum" = "$3" ]; }
}

download() { # URL FILE
    local from=$1 to=$2 why
    if command -v curl >/dev/null; then
        why=$(curl --fail --location --silent --show-error --retry 2 --connect-timeout 20 --speed-limit 1024 --speed-time 60 \
            --output "$to" --url "$from" 2>&1) && return
    elif command -v wget >/dev/null; then
        why=$(wget --no-verbose --tries=3 --timeout=60 --output-document="$to" -- "$from" 2>&1) && return
    else
        fail 3 "neither curl nor wget is installed: install one, or put the files into $folder by hand: $(list_files)"
    fi
    fail 3 "cannot download $from (${why//$'\n'/; }): check the network, or put the files into $folder by hand: $(list_files)"
}
list_files() { cut -d' ' -f1 <<<"$files" | paste -sd' '; }

# Puts one file into the folder under its name, whole and verified.
fetch_file() { # FILE MD5 OTHER
    local file=$1 sum
    if is_right "$folder/$file" "$2" "$3"; then
        say "ok: $folder/$file"
        return
    fi
    if [ -n "$package" ] && is_right "$package/$file" "$2" "$3"; then
        cp -- "$package/$file" "$work/$file"
        mv -f "$work/$file" "$folder/$file"
        say "copied: $package/$file to $folder"
        return
    fi
    say "downloading $url/$file"
    download "$url/$file" "$work/$file"
    if ! is_right "$work/$file" "$2" "$3"; then
        sum=$(md5_of "$work/$file")
        fail 3 "$url/$file: its MD5 is $sum, expected $2: the file is damaged or not the published one; nothing was kept, try again"
    fi
    mv -f "$work/$file" "$folder/$file"
    say "fetched: $folder/$file"
}

# An archive leaves its folder, with the sums of what was unpacked, and is removed.
fetch_archive() { # FILE MD5 OTHER
    local file=$1
    if [ -f "$folder/$unpacked/fetched.md5" ] && (cd "$folder/$unpacked" && md5sum --check --status fetched.md5); then
        say "ok: $folder/$unpacked"
        return
    fi
    fetch_file "$@"
    tar -xzf "$folder/$file" -C "$work" || fail 3 "$folder/$file: cannot be unpacked; is the disk full?"
    [ -d "$work/$unpacked" ] || fail 3 "$folder/$file: holds no folder $unpacked"
    (cd "$work/$unpacked" && md5sum -- *.bin *.txt >"$work/sums" && mv "$work/sums" fetched.md5)
    rm -rf "${folder:?}/$unpacked"
    mv "$work/$unpacked" "$folder/$unpacked"
    rm -f "$folder/$file"
    say "unpacked: $folder/$unpacked"
}

package_has_all() {
    local file sum other
    while read -r file sum other; do
        is_right "$package/$file" "$sum" "$other" || return 1
    done <<<"$files"
}

if [ $# -eq 1 ] && [ -n "$package" ] && [ ! -e "$folder" ] && package_has_all; then
    say "ok: $package (Debian's package dataset-fashion-mnist), where training looks as well; nothing to fetch"
    exit 0
fi
mkdir -p "$folder" 2>/dev/null || fail 3 "cannot create the folder $folder"
work=$(mktemp -d "$folder/.fetch-XXXXXX" 2>/dev/null) || fail 3 "cannot write into the folder $folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
while read -r file sum other; do
    if [ -n "$unpacked" ]; then
        fetch_archive "$file" "$sum" "$other"
    else
        fetch_file "$file" "$sum" "$other"
    fi
done <<<"$files"
say "$name is in $folder"
