#include "data/jpeg_turbo.h"

#ifndef LOCKSTEP_JPEG_TURBO

const char *ls_jpeg_turbo_version(void) {
    return NULL;
}

ls_status ls_jpeg_turbo_decode(
    const char *path, const uint8_t *bytes, size_t count, int scale, uint8_t **pixels, int *h, int *w) {
    (void)bytes, (void)count, (void)scale, (void)h, (void)w;
    *pixels = NULL;
    return ls_fail(LS_INTERNAL, "%s: built without libjpeg-turbo", path);
}

#else

#include <setjmp.h>
#include <stdio.h> // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include "base/memory.h"

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(macro) TEXT_OF(macro)

const char *ls_jpeg_turbo_version(void) {
    return TEXT(LIBJPEG_TURBO_VERSION);
}

typedef struct {
    struct jpeg_error_mgr base; // must be first: libjpeg knows only this part
    jmp_buf failed;
    char text[JMSG_LENGTH_MAX];
} errors;

static void give_up(j_common_ptr context) {
    errors *e = (errors *)context->err;
    context->err->format_message(context, e->text);
    longjmp(e->failed, 1);
}

// Hears each message of libjpeg. Gives up at warnings that pixels are missing or wrong; other warnings leave the pixels
// right.
static void hear(j_common_ptr context, int level) {
    static const int damages[] = { JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF, JWRN_MUST_RESYNC,
        JWRN_NOT_SEQUENTIAL };
    if (level >= 0) return;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++)
        if (context->err->msg_code == damages[i]) give_up(context);
}

// Decodes the JPEG into *pixels at 1/scale. Returns 0 if memory is lacking. Sets *pixels as soon as it is allocated, so
// that the caller can free it wherever libjpeg gives up.
static int decode(struct jpeg_decompress_struct *jpeg, unsigned scale, uint8_t **pixels) {
    jpeg->out_color_space = JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW; // the same bits with and without vector instructions
    jpeg->scale_num = 1;
    jpeg->scale_denom = scale;
    jpeg_start_decompress(jpeg);
    const size_t row_bytes = (size_t)jpeg->output_width * 3;
    *pixels = malloc(row_bytes * jpeg->output_height);
    if (!*pixels) return 0;
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = *pixels + row_bytes * jpeg->output_scanline;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return 1;
}

ls_status ls_jpeg_turbo_decode(
    const char *path, const uint8_t *bytes, size_t count, int scale, uint8_t **pixels, int *h, int *w) {
    struct jpeg_decompress_struct jpeg;
    errors e;
    *pixels = NULL;
    jpeg.err = jpeg_std_error(&e.base);
    e.base.error_exit = give_up;
    e.base.emit_message = hear;
    if (setjmp(e.failed)) {
        const int no_memory = e.base.msg_code == JERR_OUT_OF_MEMORY;
        jpeg_destroy_decompress(&jpeg);
        free(*pixels);
        *pixels = NULL;
        if (no_memory) return ls_no_memory(0, "%s", path);
        return ls_fail(LS_DATA, "%s: broken JPEG: %s (libjpeg-turbo); replace it or move it away", path, e.text);
    }
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, count);
    jpeg_read_header(&jpeg, TRUE);
    const int decoded = decode(&jpeg, (unsigned)scale, pixels);
    *h = (int)jpeg.image_height;
    *w = (int)jpeg.image_width;
    const size_t needed = (size_t)jpeg.output_height * jpeg.output_width * 3;
    jpeg_destroy_decompress(&jpeg);
    return decoded ? LS_SUCCESS : ls_no_memory(needed, "%s", path);
}

#endif
