// MNIST's files. The input is a byte of flags, the file of labels (fuzz_part) and the file of images.
//   flags  bits 0-1 labels, bits 2-3 images: 0 raw, 1 gzip as it stands, 2 packed here, so that what lies behind the
//          checksum is reached, 3 the file is missing; bit 4: the test split
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "fuzz/dataset.h"
#include "fuzz/target.h"

static void put_packed(int number, const uint8_t *data, size_t bytes) {
    z_stream z = { 0 };
    size_t room = bytes + 1024;
    uint8_t *packed = malloc(room);
    if (!packed || deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)bytes;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    fuzz_file(number, packed, z.total_out);
    deflateEnd(&z);
    free(packed);
}

static void put(int number, int form, const char *const names[2], const uint8_t *data, size_t bytes) {
    fuzz_link(fuzz_folder(), names[0], -1);
    fuzz_link(fuzz_folder(), names[1], -1);
    if (form == 3) return;
    if (form == 2)
        put_packed(number, data, bytes);
    else
        fuzz_file(number, data, bytes);
    fuzz_link(fuzz_folder(), names[form != 0], number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const char *const names[2][2][2] = {
        { { "train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz" },
            { "train-images-idx3-ubyte", "train-images-idx3-ubyte.gz" } },
        { { "t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz" },
            { "t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz" } },
    };
    if (bytes < 1) return 0;
    int flags = *data++, split = flags >> 4 & 1;
    size_t labels_bytes;
    bytes--;
    const uint8_t *labels = fuzz_part(&data, &bytes, &labels_bytes);
    put(0, flags & 3, names[split][0], labels, labels_bytes);
    put(1, flags >> 2 & 3, names[split][1], data, bytes);
    fuzz_dataset(LS_DATASET_MNIST, split ? LS_SPLIT_TEST : LS_SPLIT_TRAIN);
    return 0;
}
