# pictures.sh - for this folder's scripts that train on pictures: common.sh, sourced as that, and what follows. PNG files are made
# without any other program than gzip; net3.ini, in the current folder, takes 3x12x12 to two classes.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh" "$1" || exit 1
export XDG_CACHE_HOME=$here/cache # not the user's

# put_png FILE WIDTH HEIGHT BYTE...: a gray picture, its rows from the top.
put_png() {
    local file=$1 width=$2 height=$3 y x hex='' a=1 b=0 byte
    shift 3
    for ((y = 0; y < height; y++)); do
        hex+='\x00' b=$(((b + a) % 65521)) # the row's filter; a and b: Adler-32
        for ((x = 0; x < width; x++)); do
            byte=$1
            shift
            hex+=$(printf '\\x%02x' "$byte") a=$(((a + byte) % 65521))
            b=$(((b + a) % 65521))
        done
    done
    {
        printf '\x89PNG\r\n\x1a\n'
        chunk IHDR "$(number "$width")$(number "$height")\\x08\\x00\\x00\\x00\\x00"
        printf %b "$hex" | gzip -9nc >packed
        chunk IDAT "\\x78\\x01$(tail -c +11 packed | head -c -8 | hex_of)$(number $((b * 65536 + a)))"
        chunk IEND ''
    } >"$file"
}
hex_of() { od -An -v -tx1 | tr -d '\n' | sed 's/ /\\x/g'; }
number() { printf '\\x%02x\\x%02x\\x%02x\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)); }
chunk() { # TYPE CONTENT, in printf's escapes; the CRC is that of gzip's trailer, the other way round
    local crc
    printf %b "$(number $(($(printf %b "$2" | wc -c))))"
    printf '%s' "$1"
    printf %b "$2"
    crc=$({ printf '%s' "$1" && printf %b "$2"; } | gzip -nc | tail -c 8 | head -c 4 | od -An -tx1)
    # shellcheck disable=SC2086 # four words
    set -- $crc
    printf "\\x$4\\x$3\\x$2\\x$1"
}

# picture FILE KIND SEED: of 9 x 7, dark above and bright below, or the other way round, with some noise.
picture() {
    local bytes=() y x bright
    for ((y = 0; y < 7; y++)); do
        for ((x = 0; x < 9; x++)); do
            bright=$(($2 == 0 ? y : 6 - y))
            bytes+=($((bright * 30 + (x * 7 + y * 13 + $3 * 31) % 61)))
        done
    done
    put_png "$1" 9 7 "${bytes[@]}"
}

cat >net3.ini <<'END'
[network]
input = 3x12x12
[conv1]
layer = conv2d
out_channels = 8
kernel = 3
padding = 1
[norm1]
layer = batchnorm2d
[relu1]
layer = relu
[pool1]
layer = maxpool2d
kernel = 2
[flat]
layer = flatten
[fc]
layer = linear
out_features = 2
END
