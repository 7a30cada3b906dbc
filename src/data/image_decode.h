// image_decode.h - decodes a picture file (kinds: image_check.h) into planar uint8 pixels of a wanted size.
#ifndef LS_DATA_IMAGE_DECODE_H
#define LS_DATA_IMAGE_DECODE_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"

typedef struct {
    ls_chw size;         // wanted channels (3, or 1: gray), height and width
    int resize, decoder; // values of data.resize and data.decoder
} ls_image_options;

// Reads, checks, decodes and resizes the file into dst (size.c, size.h, size.w). Deterministic. Several threads may
// call it at once. LS_DATA: the path and the fault.
//
// The same rules hold for all kinds of file. They agree with Pillow's exif_transpose and convert("RGB"):
// - Gray becomes three equal channels. For one channel, red, green and blue are weighted after resizing, as Pillow's
//   convert("L") does; gray keeps its values.
// - Transparency is ignored: a transparent pixel has the colour that the file gives it.
// - A JPEG of four colours without Adobe's marker is CMYK.
// - 16-bit samples keep their high byte (Pillow clips gray ones at 255).
// - Only the first picture of a GIF counts. Pixels around it have the transparent colour, or the palette's first.
// - The picture is turned upright as its Exif orientation says (JPEG's APP1, PNG's eXIf), then resized.
//
// libjpeg-turbo decodes a JPEG of one or three colours, unless options->decoder is LS_DECODER_STB or the program was
// built without it. stb_image decodes all others; its pixels differ a little. libjpeg-turbo decodes a JPEG at 1/2, 1/4
// or 1/8 of its size if that is at least twice the size of the resized picture.
LS_CHECKED ls_status ls_image_decode(const char *path, const ls_image_options *options, uint8_t *dst);
// Does the same as ls_image_decode with a file that is in memory. name: for messages, and to recognise a TGA.
LS_CHECKED ls_status ls_image_decode_bytes(
    const char *name, const uint8_t *bytes, size_t count, const ls_image_options *options, uint8_t *dst);

// Returns the decoder of JPEG: "stb_image", or "libjpeg-turbo 2.1.5, scaled to true sides", whose pixels may depend on
// its version. NULL: data.decoder asks for libjpeg-turbo, but this program was built without it.
const char *ls_image_decoder(int decoder);
// Fails with LS_USAGE if data.decoder asks for libjpeg-turbo but this program was built without it.
LS_CHECKED ls_status ls_image_check_decoder(int decoder);

#endif
