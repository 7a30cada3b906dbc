// A picture file, decoded by what decodes its kind, JPEG by each decoder that there is, and resized in both ways; what
// has no mark is a TGA. A PNG comes a second time with the checksums of its chunks put right, for nearly all that a
// fuzzer makes would end there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "config/config.h"
#include "data/image_decode.h"
#include "fuzz/target.h"

static uint32_t big_endian(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void mend_checksums(uint8_t *png, size_t bytes) {
    for (size_t at = 8; at + 12 <= bytes;) {
        size_t length = big_endian(png + at);
        if (length > bytes - at - 12) return;
        uint32_t sum = (uint32_t)crc32(0, png + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++) png[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += length + 12;
    }
}

static void decode(const uint8_t *data, size_t bytes) {
    static const ls_chw sizes[] = { { 3, 7, 5 }, { 3, 1, 1 }, { 3, 32, 32 }, { 3, 3, 200 } };
    static uint8_t pixels[3 * 32 * 32];
    char path[512];
    fuzz_file(0, data, bytes);
    fuzz_link(fuzz_folder(), "x.tga", 0);
    snprintf(path, sizeof path, "%s/x.tga", fuzz_folder());
    for (int decoder = LS_DECODER_AUTO; decoder <= LS_DECODER_STB; decoder++) {
        const ls_image_options options = { sizes[bytes % 4], bytes / 4 % 2 ? LS_RESIZE_CROP : LS_RESIZE_STRETCH,
            decoder };
        fuzz_refused(ls_image_decode(path, &options, pixels), LS_DATA, LS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    decode(data, bytes);
    if (bytes < 8 || memcmp(data, "\x89PNG", 4) != 0) return 0;
    uint8_t *mended = malloc(bytes);
    if (!mended) abort();
    memcpy(mended, data, bytes);
    mend_checksums(mended, bytes);
    if (memcmp(mended, data, bytes) != 0) decode(mended, bytes);
    free(mended);
    return 0;
}
