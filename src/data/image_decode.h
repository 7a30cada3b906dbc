// image_decode.h - a picture file (image_check.h has the kinds) as planar uint8 pixels of a wanted size.
#ifndef LS_DATA_IMAGE_DECODE_H
#define LS_DATA_IMAGE_DECODE_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

typedef struct {
    ls_chw size;         // of 3 channels
    int resize, decoder; // as data.resize and data.decoder have it
} ls_image_options;

// Reads, checks, decodes and resizes path into dst (3, size.h, size.w). Deterministic; safe from several threads.
// LS_DATA: path and what is wrong.
//
// The same rules hold for all kinds of file, and agree with Pillow's exif_transpose and convert("RGB"): gray becomes
// three equal channels; transparency is ignored, so that a transparent pixel has the colour that the file gives it; a
// JPEG of four colours without Adobe's marker is CMYK. 16-bit samples keep their high byte (Pillow clips gray ones at
// 255). Of a GIF the first picture counts; pixels around it have the transparent colour, or the palette's first. Then
// the picture is turned upright as its Exif orientation says (JPEG's APP1, PNG's eXIf) and resized.
//
// stb_image decodes all but JPEG, and JPEG with LS_DECODER_STB. libjpeg-turbo's pixels differ from stb's by a little, and
// it decodes a JPEG at 1/2, 1/4 or 1/8 of its size where that is at least twice what the picture is resized to.
LS_CHECKED ls_status ls_image_decode(const char *path, const ls_image_options *options, uint8_t *dst);
// The same of a file's content; name: for messages, and for a TGA, which goes by it.
LS_CHECKED ls_status ls_image_decode_bytes(
    const char *name, const uint8_t *bytes, size_t count, const ls_image_options *options, uint8_t *dst);

// What decodes JPEG: "stb_image", or "libjpeg-turbo 2.1.5, scaled to true sides", whose pixels may depend on its
// version. NULL: this
// program was built without it.
const char *ls_image_decoder(int decoder);
// LS_USAGE: data.decoder asks for libjpeg-turbo, and this program was built without it.
LS_CHECKED ls_status ls_image_check_decoder(int decoder);

#endif
