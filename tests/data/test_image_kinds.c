// The kinds of picture file: each decodes to the same pixels, is refused where it is cut off or damaged, and small files
// that promise much; resizing by covering and cropping; JPEG by libjpeg-turbo beside stb. Pictures: tests/fuzz/corpus/image,
// most of them 9 x 7, with a formula for their pixels.
#include "data_files.h"

#include "data/exif.h"
#include "data/image_check.h"
#include "data/image_decode.h"
#include "data/image_resize.h"
#include "data/jpeg_turbo.h"

enum { W = 9, H = 7, PIXELS = W * H };

static const char corpus[] = "tests/fuzz/corpus/image";

static int gray(int y, int x) {
    return 20 * x + 10 * y;
}

static int colour(int c, int y, int x) {
    return c == 0 ? 20 * x : c == 1 ? 30 * y : 255 - 10 * (x + y);
}

static int gray_of_16(int c, int y, int x) {
    (void)c;
    return gray(y, x) / 16 * 16;
}

static int gray_of_2(int c, int y, int x) {
    (void)c;
    return gray(y, x) >= 110 ? 255 : 0;
}

static int gray_of_256(int c, int y, int x) {
    (void)c;
    return gray(y, x);
}

static ls_status decode(const char *path, ls_chw size, uint8_t *pixels) {
    return ls_image_decode(path, &(ls_image_options){ .size = size, .decoder = LS_DECODER_STB }, pixels);
}

static void kinds_give_the_same_pixels(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int (*pixel)(int c, int y, int x);
        int tolerance;
    } rows[] = { { "colour.bmp", colour, 0 }, { "from-top.bmp", colour, 0 }, { "palette.bmp", colour, 0 },
        { "alpha.bmp", colour, 0 }, { "32-bits-masks.bmp", colour, 0 }, { "os2.bmp", colour, 0 },
        { "16-bits.bmp", colour, 8 }, { "gray.bmp", gray_of_256, 0 }, { "4-bits.bmp", gray_of_16, 0 },
        { "1-bit.bmp", gray_of_2, 0 }, { "colour.gif", colour, 0 }, { "interlaced.gif", colour, 0 },
        { "animated.gif", colour, 0 }, { "colour.ppm", colour, 0 }, { "comments.ppm", colour, 0 },
        { "gray.pgm", gray_of_256, 0 }, { "colour.tga", colour, 0 }, { "packed.tga", colour, 0 },
        { "palette.tga", colour, 0 }, { "palette-packed.tga", colour, 0 }, { "alpha.tga", colour, 0 },
        { "from-right.tga", colour, 0 }, { "16-bits.tga", colour, 8 }, { "gray.tga", gray_of_256, 0 } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint8_t pixels[3 * PIXELS];
        require_ok(decode(path_of(corpus, rows[r].name), (ls_chw){ 3, H, W }, pixels), rows[r].name);
        for (int i = 0; i < 3 * PIXELS; i++) {
            const int want = rows[r].pixel(i / PIXELS, i % PIXELS / W, i % W);
            if (abs(pixels[i] - want) > rows[r].tolerance)
                fail_msg("%s: byte %d is %d, expected %d", rows[r].name, i, pixels[i], want);
        }
    }
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *file;
        int cut, at, byte; // cut to this many bytes (negative: so many fewer); byte `at` becomes `byte`
        const char *parts[MAX_PARTS];
    } rows[] = {
        { "BMP without its last pixel", "colour.bmp", -2, 0, 0, { "broken BMP", "cut off at byte 248", "need 249" } },
        { "BMP without its last padding", "colour.bmp", -1, 0, 0, { NULL } },
        { "BMP cut in its header", "colour.bmp", 40, 0, 0, { "broken BMP", "byte 40", "header" } },
        { "BMP of two bytes", "colour.bmp", 2, 0, 0, { "broken BMP", "byte 2", "header" } },
        { "BMP, width 0", "colour.bmp", 0, 18, 0, { "broken BMP", "0 x 7 pixels" } },
        { "BMP, pixels in the header", "colour.bmp", 0, 10, 20, { "broken BMP", "begin at byte 20" } },
        { "BMP, too few colours", "few-colours.bmp", 0, 0, 0, { "broken BMP", "palette of 3" } },
        { "BMP, packed", "colour.bmp", 0, 30, 1, { "packed (compression 1)", "save it anew" } },
        { "PPM without its last byte", "colour.ppm", -1, 0, 0, { "broken PNM", "byte 199", "9 x 7", "need 200" } },
        { "PPM cut in its header", "colour.ppm", 4, 0, 0, { "broken PNM", "expected width, height", "byte 4" } },
        { "PPM of two bytes", "colour.ppm", 2, 0, 0, { "broken PNM", "byte 2" } },
        { "PPM, no number", "colour.ppm", 0, 3, 'x', { "broken PNM", "byte 3" } },
        { "PPM of text", "colour.ppm", 0, 1, '3', { "kind P3", "P5 (gray) and P6 (colour)" } },
        { "PPM, maximum 155", "colour.ppm", 0, 7, '1', { "values reach 155", "expected 255" } },
        { "GIF, some codes fewer", "colour.gif", -6, 0, 0, { "broken GIF", "9 x 7", "codes for" } },
        { "GIF before its picture", "colour.gif", 100, 0, 0, { "broken GIF", "byte 100", "first picture" } },
        { "GIF of its mark", "colour.gif", 6, 0, 0, { "broken GIF", "byte 6" } },
        { "GIF, more codes than pixels", "more-codes-than-pixels.gif", 0, 0, 0, { "broken GIF", "for more than 16" } },
        { "TGA without its last byte", "colour.tga", -27, 0, 0, { "broken TGA", "cut off at byte 206", "need 207" } },
        { "TGA, packed, cut off", "packed.tga", -40, 0, 0, { "broken TGA", "cut off at byte 200" } },
        { "TGA, packed, a packet missing", "packed.tga", 186, 0, 0, { "broken TGA", "cut off at byte 186" } },
        { "TGA, palette, cut off", "palette.tga", 60, 0, 0, { "broken TGA", "cut off at byte 60" } },
        { "TGA cut in its header", "colour.tga", 17, 0, 0, { "broken TGA", "byte 17", "header" } },
        { "TGA of another kind", "colour.tga", 0, 2, 4, { "no TGA that is read", "kind 4" } },
        { "TGA, palette and colours", "colour.tga", 0, 1, 1, { "no TGA that is read", "palette 1" } },
        { "TGA, width 0", "colour.tga", 0, 12, 0, { "no TGA that is read", "0 x 7" } },
        { "JPEG without codes", "baseline.jpg", 0, -0xc4, 0xec, { "broken JPEG", "scan 1", "does not have" } },
        { "JPEG without quantisation", "baseline.jpg", 0, -0xdb, 0xec, { "broken JPEG", "scan 1", "does not have" } },
        { "JPEG, progressive, without codes", "progressive.jpg", 0, -0xc4, 0xec, { "broken JPEG", "does not have" } },
        { "JPEG, arithmetically coded", "baseline.jpg", 0, -0xc0, 0xc9, { "arithmetically coded", "save it anew" } },
        { "JPEG, lossless", "baseline.jpg", 0, -0xc0, 0xc3, { "lossless", "save it anew" } },
    };
    const char *folder = new_folder();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t count;
        uint8_t *bytes = get_file(corpus, rows[r].file, &count), pixels[3 * 16];
        if (rows[r].cut < 0) count -= (size_t)-rows[r].cut;
        if (rows[r].cut > 0) count = (size_t)rows[r].cut;
        if (rows[r].at > 0) bytes[rows[r].at] = (uint8_t)rows[r].byte;
        for (size_t i = 0; rows[r].at < 0 && i + 1 < count; i++) // a marker of JPEG
            if (bytes[i] == 0xff && bytes[i + 1] == -rows[r].at) bytes[i + 1] = (uint8_t)rows[r].byte;
        put_file(folder, rows[r].file, bytes, count);
        free(bytes);
        ls_status status = decode(path_of(folder, rows[r].file), (ls_chw){ 3, 4, 4 }, pixels);
        if (rows[r].parts[0])
            require_failure(rows[r].name, status, LS_DATA, rows[r].parts);
        else
            require_ok(status, rows[r].name);
    }
}

static void small_files_that_promise_much_are_refused(void **state) {
    (void)state;
    static const char *const endings[] = { "jpg", "png", "bmp", "gif", "ppm", "tga" };
    uint8_t pixels[3 * 16];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "header-of-2-to-the-28-pixels.%s", endings[i]);
        require_failure(name, decode(path_of(corpus, name), (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
            (const char *[MAX_PARTS]){ name, "16384 x 16384 pixels" });
    }
    const char *folder = new_folder(), *path = path_of(folder, "huge.png");
    put_file(folder, "huge.png", "x", 1);
    assert_int_equal(0, truncate(path, (off_t)1 << 31));
    require_failure("2 GiB", decode(path, (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ "huge.png", "has 2147483648 bytes, at most 2147483647" });
    put_file(folder, "empty.png", "", 0);
    require_failure("empty", decode(path_of(folder, "empty.png"), (ls_chw){ 3, 4, 4 }, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ "empty.png", "is empty (0 bytes)" });
}

// A file is what its first bytes say; TGA alone is known by its name.
static void names_do_not_matter(void **state) {
    (void)state;
    static const struct {
        const char *file, *as, *part;
    } rows[] = { { "colour.bmp", "x.png", NULL }, { "colour.gif", "x.jpg", NULL }, { "colour.ppm", "x.tga", NULL },
        { "rgb.png", "x", NULL }, { "colour.tga", "x.TGA", NULL }, { "colour.tga", "x.png", "begins with bytes 00 00" },
        { "colour.tga", "x", "begins with bytes 00 00" } };
    const char *folder = new_folder();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t count;
        uint8_t *bytes = get_file(corpus, rows[r].file, &count), pixels[3 * 16];
        put_file(folder, rows[r].as, bytes, count);
        free(bytes);
        ls_status status = decode(path_of(folder, rows[r].as), (ls_chw){ 3, 4, 4 }, pixels);
        if (rows[r].part)
            require_failure(rows[r].as, status, LS_DATA, (const char *[MAX_PARTS]){ rows[r].part });
        else
            require_ok(status, rows[r].as);
    }
    static const struct {
        const char *name;
        int is;
    } names[] = { { "a.jpg", 1 }, { "a.JPEG", 1 }, { "a.png", 1 }, { "a.Bmp", 1 }, { "a.gif", 1 }, { "a.pnm", 1 },
        { "a.pgm", 1 }, { "a.ppm", 1 }, { "a.tga", 1 }, { "a.b.png", 1 }, { "a", 0 }, { "png", 0 }, { "a.", 0 },
        { "a.jpe", 1 }, { "a.JFIF", 1 }, { "a.webp", 1 }, { "a.heic", 1 }, { "a.avif", 1 }, { "a.tiff", 1 },
        { "a.svg", 1 }, { "a.p", 0 }, { "a.jp", 0 }, { "a.pngx", 0 }, { "a.pbm", 0 }, { "a.png.txt", 0 },
        { "a.jpg.jpeg.", 0 } };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (ls_image_is_named(names[i].name) != names[i].is) fail_msg("%s", names[i].name);
}

// Whatever their names are, files of other kinds are named, with a way to convert them.
static void other_kinds_are_named(void **state) {
    (void)state;
#define BYTES(text) text, sizeof text - 1
    static const struct {
        const char *bytes;
        size_t count;
        const char *parts[MAX_PARTS];
    } rows[] = {
        { BYTES("RIFF\x24\0\0\0WEBPVP8 "), { "a WebP picture", "dwebp" } },
        { BYTES("\0\0\0\x1c"
                "ftypavif\0\0\0\0"),
            { "an AVIF picture", "avifdec" } },
        { BYTES("\0\0\0\x1c"
                "ftypavis\0\0\0\0"),
            { "an AVIF picture" } },
        { BYTES("\0\0\0\x18"
                "ftypheic\0\0\0\0"),
            { "an HEIC picture", "heif-convert" } },
        { BYTES("\0\0\0\x18"
                "ftyphevc\0\0\0\0"),
            { "an HEIC picture" } },
        { BYTES("\0\0\0\x18"
                "ftypmif1\0\0\0\0"),
            { "an HEIF picture" } },
        { BYTES("\xff\x0a\xfa\x1f"), { "a JPEG XL picture", "djxl" } },
        { BYTES("\0\0\0\x0cJXL \r\n\x87\n"), { "a JPEG XL picture" } },
        { BYTES("\0\0\0\x0cjP  \r\n\x87\n"), { "a JPEG 2000 picture" } },
        { BYTES("\xff\x4f\xff\x51\0"), { "a JPEG 2000 picture" } },
        { BYTES("II*\0\x08\0\0\0"), { "a TIFF picture", "ImageMagick" } },
        { BYTES("MM\0*\0\0\0\x08"), { "a TIFF picture" } },
        { BYTES("<svg xmlns="), { "an SVG picture", "rsvg-convert" } },
        { BYTES("<?xml version="), { "an XML file, as SVG pictures are" } },
        { BYTES("<!DOCTYPE html>"), { "a web page", "anew" } },
        { BYTES("\0\0\1\0\1\0"), { "an icon" } },
        { BYTES("8BPS\0\1"), { "a PSD picture" } },
        { BYTES("%PDF-1.4"), { "a PDF file" } },
        { BYTES("version https://git-lfs.github.com/spec/v1"), { "Git LFS", "git lfs pull" } },
    };
    static const char *const names[] = { "x.jpg", "x.webp", "x.tga", "x" };
    const char *folder = new_folder();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            uint8_t pixels[3 * 16];
            put_file(folder, names[i], rows[r].bytes, rows[r].count);
            const ls_status status = decode(path_of(folder, names[i]), (ls_chw){ 3, 4, 4 }, pixels);
            require_failure(names[i], status, LS_DATA, rows[r].parts);
            require_failure(names[i], status, LS_DATA, (const char *[MAX_PARTS]){ names[i], "which is not read" });
        }
}

// Sides, places and checksums of Pillow 13's resize(BILINEAR) and crop, as torchvision's Resize and CenterCrop call them.
static void pictures_are_cropped(void **state) {
    (void)state;
    static const struct {
        int h, w, to_h, to_w, whole_h, whole_w, top, left;
        uint32_t crc;
    } rows[] = { { 30, 40, 7, 7, 7, 9, 0, 1, 0x21d89aec }, { 60, 10, 20, 20, 120, 20, 50, 0, 0x476b9da4 },
        { 20, 61, 9, 9, 9, 27, 0, 9, 0x946b05d9 }, { 33, 17, 16, 16, 31, 16, 8, 0, 0x5ee8a5dd },
        { 64, 33, 9, 7, 13, 7, 2, 0, 0x3c7dae15 }, { 12, 12, 30, 30, 30, 30, 0, 0, 0x67d14db5 },
        { 10, 13, 9, 9, 9, 11, 0, 1, 0xd6be127e }, { 10, 15, 10, 10, 10, 15, 0, 2, 0x9714a0d5 },
        { 10, 17, 10, 10, 10, 17, 0, 4, 0x5fcde806 }, { 5, 3, 8, 20, 33, 20, 12, 0, 0xd8aa7288 },
        { 50, 3, 3, 3, 50, 3, 24, 0, 0x66f0da3e } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const ls_chw size = { 3, rows[r].to_h, rows[r].to_w };
        const ls_resized to = ls_image_resized(LS_RESIZE_CROP, rows[r].h, rows[r].w, size);
        if (to.h != rows[r].whole_h || to.w != rows[r].whole_w || to.top != rows[r].top || to.left != rows[r].left)
            fail_msg("row %zu: %d x %d from (%d, %d)", r, (int)to.h, (int)to.w, (int)to.top, (int)to.left);
        uint8_t src[3 * 64 * 61], dst[3 * 30 * 30];
        for (int i = 0; i < 3 * rows[r].h * rows[r].w; i++) src[i] = (uint8_t)(i * 7919 >> 3);
        const ls_picture picture = ls_picture_turned(src, rows[r].h, rows[r].w, 1, 1);
        require_ok(ls_image_resize(&picture, LS_RESIZE_CROP, size, dst), "resize");
        const uint32_t crc = (uint32_t)crc32(0, dst, (uInt)ls_chw_count(size));
        if (crc != rows[r].crc) fail_msg("row %zu: %08x, Pillow has %08x", r, crc, rows[r].crc);
    }
    // A picture of the greatest width there is, and of one pixel's height.
    const ls_resized wide = ls_image_resized(LS_RESIZE_CROP, 1, 65535, (ls_chw){ 3, 65535, 1 });
    assert_true(wide.w == 65535LL * 65535 && wide.left == 2147418112LL && wide.top == 0);
}

static double mean_difference(const uint8_t *a, const uint8_t *b, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += abs(a[i] - b[i]);
    return sum / count;
}

// At which scale is a JPEG of 120 x 160 decoded?
static void large_jpegs_are_scaled_while_decoded(void **state) {
    (void)state;
    static const struct {
        int h, w, resize, scale;
    } rows[] = { { 120, 160, LS_RESIZE_STRETCH, 1 }, { 31, 31, LS_RESIZE_STRETCH, 1 }, { 30, 40, LS_RESIZE_STRETCH, 2 },
        { 16, 16, LS_RESIZE_STRETCH, 2 }, { 15, 20, LS_RESIZE_STRETCH, 4 }, { 15, 21, LS_RESIZE_STRETCH, 2 },
        { 7, 10, LS_RESIZE_STRETCH, 8 }, { 1, 1, LS_RESIZE_STRETCH, 8 }, { 15, 15, LS_RESIZE_CROP, 4 },
        { 20, 10, LS_RESIZE_CROP, 2 }, { 15, 1, LS_RESIZE_CROP, 4 } };
    enum { MOST = 3 * 120 * 160 };
    static uint8_t got[MOST], want[MOST], by_stb[MOST];
    const char *path = path_of(corpus, "smooth-160x120.jpg");
    if (!ls_jpeg_turbo_version()) {
        print_message("libjpeg-turbo: not built in\n");
        assert_null(ls_image_decoder(LS_DECODER_LIBJPEG_TURBO));
        require_failure("not built in", ls_image_check_decoder(LS_DECODER_LIBJPEG_TURBO), LS_USAGE,
            (const char *[MAX_PARTS]){ "data.decoder = libjpeg-turbo", "built without it" });
        return;
    }
    assert_non_null(strstr(ls_image_decoder(LS_DECODER_AUTO), "libjpeg-turbo "));
    assert_string_equal("stb_image", ls_image_decoder(LS_DECODER_STB));
    size_t count;
    uint8_t *bytes = get_file(corpus, "smooth-160x120.jpg", &count);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ls_image_options options = { { 3, rows[r].h, rows[r].w }, rows[r].resize, LS_DECODER_LIBJPEG_TURBO };
        const int values = 3 * rows[r].h * rows[r].w;
        require_ok(ls_image_decode(path, &options, got), "decode");
        uint8_t *pixels;
        int h, w;
        require_ok(ls_jpeg_turbo_decode(path, bytes, count, rows[r].scale, &pixels, &h, &w), "scaled");
        assert_true(h == 120 && w == 160);
        const ls_picture picture = ls_picture_turned(pixels, h, w, rows[r].scale, 1);
        require_ok(ls_image_resize(&picture, rows[r].resize, options.size, want), "resize");
        free(pixels);
        if (memcmp(got, want, (size_t)values) != 0) fail_msg("row %zu: not at 1/%d", r, rows[r].scale);
        options.decoder = LS_DECODER_STB;
        require_ok(ls_image_decode(path, &options, by_stb), "stb");
        if (mean_difference(got, by_stb, values) > 1.5) fail_msg("row %zu: far from stb's", r);
    }
    free(bytes);
}

// Turned, gray, progressive, with restarts: as stb has it, within rounding; CMYK is stb's own.
static void libjpeg_turbo_beside_stb(void **state) {
    (void)state;
    if (!ls_jpeg_turbo_version()) return;
    static const struct {
        const char *name;
        double most;
    } rows[] = { { "baseline.jpg", 1.5 }, { "gray.jpg", 1 }, { "progressive.jpg", 1.5 }, { "restarts.jpg", 1.5 },
        { "optimised.jpg", 1.5 }, { "turned.jpg", 1.5 }, { "subsampled.jpg", 4 }, { "cmyk.jpg", 0 } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ls_image_options options = { .size = { 3, 12, 10 }, .decoder = LS_DECODER_LIBJPEG_TURBO };
        uint8_t turbo[3 * 120], stb[3 * 120];
        require_ok(ls_image_decode(path_of(corpus, rows[r].name), &options, turbo), rows[r].name);
        options.decoder = LS_DECODER_STB;
        require_ok(ls_image_decode(path_of(corpus, rows[r].name), &options, stb), rows[r].name);
        const double difference = mean_difference(turbo, stb, 3 * 120);
        if (difference > rows[r].most) fail_msg("%s: %g off on average", rows[r].name, difference);
    }
    // Codes that end too early, in a file that has its end.
    size_t count;
    const char *folder = new_folder();
    uint8_t *bytes = get_file(corpus, "smooth-160x120.jpg", &count), pixels[3 * 16];
    memcpy(bytes + 900, "\xff\xd9", 2);
    put_file(folder, "x.jpg", bytes, 902);
    const ls_image_options options = { .size = { 3, 4, 4 }, .decoder = LS_DECODER_LIBJPEG_TURBO };
    require_failure("codes missing", ls_image_decode(path_of(folder, "x.jpg"), &options, pixels), LS_DATA,
        (const char *[MAX_PARTS]){ "x.jpg", "broken JPEG", "(libjpeg-turbo)" });
    free(bytes);
}

// The file with `added` bytes at `at` in place of `removed` ones.
static void put_changed(const char *folder, const char *name, const uint8_t *bytes, size_t count, size_t at,
    size_t removed, const void *added, size_t added_count) {
    uint8_t changed[16384];
    assert_true(count + added_count <= sizeof changed && at + removed <= count);
    memcpy(changed, bytes, at);
    if (added_count > 0) memcpy(changed + at, added, added_count);
    memcpy(changed + at + added_count, bytes + at + removed, count - at - removed);
    put_file(folder, name, changed, count - removed + added_count);
}

// libjpeg rounds the sides of a scaled picture up. The picture itself must be resized, as it is without scaling: within
// what libjpeg's filter and the resizing one differ by. stripes-262x161.jpg has fields of 16 x 24 pixels.
static void scaled_jpegs_keep_their_true_sides(void **state) {
    (void)state;
    enum { MOST = 3 * 65 * 65, ORIENTATION_AT = 28 };
    static const struct {
        int h, w, resize;
        double most; // with the rounded sides: 16, and 3.8 in the last two rows
    } rows[] = { { 20, 32, LS_RESIZE_CROP, 3 }, { 20, 32, LS_RESIZE_STRETCH, 3 }, { 20, 20, LS_RESIZE_CROP, 3 },
        { 10, 16, LS_RESIZE_STRETCH, 5 }, { 10, 10, LS_RESIZE_CROP, 5 }, { 40, 65, LS_RESIZE_STRETCH, 2.5 },
        { 40, 40, LS_RESIZE_CROP, 2.5 } };
    static uint8_t exif[] = { 0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1,
        3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    if (!ls_jpeg_turbo_version()) return;
    const char *folder = new_folder();
    size_t count;
    uint8_t *bytes = get_file(corpus, "stripes-262x161.jpg", &count);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            const int exchanged = orientation >= 5, h = exchanged ? rows[r].w : rows[r].h,
                      w = exchanged ? rows[r].h : rows[r].w;
            ls_image_options options = { { 3, h, w }, rows[r].resize, LS_DECODER_LIBJPEG_TURBO };
            uint8_t scaled[MOST], whole[MOST];
            exif[ORIENTATION_AT] = (uint8_t)orientation;
            put_changed(folder, "x.jpg", bytes, count, 2, 0, exif, sizeof exif);
            require_ok(ls_image_decode(path_of(folder, "x.jpg"), &options, scaled), "scaled");
            options.decoder = LS_DECODER_STB;
            require_ok(ls_image_decode(path_of(folder, "x.jpg"), &options, whole), "whole");
            const double difference = mean_difference(scaled, whole, 3 * h * w);
            if (difference > rows[r].most)
                fail_msg(
                    "row %zu, orientation %d: %g off on average, at most %g", r, orientation, difference, rows[r].most);
        }
    free(bytes);
}

// A transparent pixel has the colour that its palette gives it, and what the first picture leaves of a larger GIF has
// the transparent colour, or the palette's first. Checked against Pillow 13's convert("RGB").
static void transparency_of_gif_is_ignored(void **state) {
    (void)state;
    enum { HEADER = 13, BIG = 12 };
    static const struct {
        int transparent, background, side, around; // transparent: -1: no control extension, -2: one without a colour
    } rows[] = { { 0, 0, 0, 0 }, { 3, 0, 0, 0 }, { 3, 5, 0, 0 }, { 3, 3, 0, 0 }, { -1, 0, BIG, 0 }, { -1, 7, BIG, 0 },
        { 4, 0, BIG, 4 }, { 4, 7, BIG, 4 }, { 4, 4, BIG, 4 }, { -2, 0, BIG, 0 }, { 255, 0, BIG, -1 } };
    const char *folder = new_folder();
    size_t count;
    uint8_t *bytes = get_file(corpus, "colour.gif", &count);
    const size_t picture = HEADER + ((size_t)3 << ((bytes[10] & 7) + 1));
    assert_true((bytes[10] & 0x80) && bytes[picture] == 0x2c);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const int t = rows[r].transparent, side = rows[r].side;
        const uint8_t control[] = { 0x21, 0xf9, 4, t >= 0, 0, 0, (uint8_t)(t < 0 ? 0 : t), 0 };
        const ls_chw size = { 3, side ? side : H, side ? side : W };
        uint8_t pixels[3 * BIG * BIG];
        bytes[6] = (uint8_t)size.w;
        bytes[8] = (uint8_t)size.h;
        bytes[11] = (uint8_t)rows[r].background;
        put_changed(folder, "x.gif", bytes, count, picture, 0, control, t == -1 ? 0 : sizeof control);
        require_ok(decode(path_of(folder, "x.gif"), size, pixels), "decode");
        for (int i = 0; i < 3 * size.h * size.w; i++) {
            const int c = i / (size.h * size.w), y = i / size.w % size.h, x = i % size.w;
            const int inside = y < H && x < W, around = rows[r].around;
            const int want = inside ? colour(c, y, x) : around < 0 ? 0 : bytes[HEADER + 3 * around + c];
            if (pixels[i] != want) fail_msg("row %zu: [%d][%d][%d] is %d, expected %d", r, c, y, x, pixels[i], want);
        }
    }
    free(bytes);
}

// Where Adobe's segment begins, with its marker.
static size_t find_adobe(const uint8_t *bytes, size_t count) {
    for (size_t at = 0; at + 9 < count; at++)
        if (memcmp(bytes + at, "\xff\xee", 2) == 0 && memcmp(bytes + at + 4, "Adobe", 5) == 0) return at;
    fail_msg("no Adobe segment");
    return 0;
}

// Four colours without Adobe's marker are CMYK; with one that names a transform, any but 0 is YCbCr and black. As
// libjpeg has it.
static void cmyk_without_adobe(void **state) {
    (void)state;
    enum { TRANSFORM = 15 };
    const char *folder = new_folder();
    size_t count;
    uint8_t *bytes = get_file(corpus, "cmyk.jpg", &count), of[5][3 * 120];
    const size_t at = find_adobe(bytes, count), segment = 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
    for (int turbo = 0; turbo <= (ls_jpeg_turbo_version() != NULL); turbo++) {
        const ls_image_options options = { .size = { 3, 12, 10 },
            .decoder = turbo ? LS_DECODER_LIBJPEG_TURBO : LS_DECODER_STB };
        for (int transform = 0; transform < 5; transform++) {
            bytes[at + TRANSFORM] = (uint8_t)transform;
            put_changed(folder, "x.jpg", bytes, count, at, transform == 4 ? segment : 0, NULL, 0);
            require_ok(ls_image_decode(path_of(folder, "x.jpg"), &options, of[transform]), "decode");
        }
        assert_memory_equal(of[0], of[4], sizeof of[0]);
        assert_memory_equal(of[2], of[1], sizeof of[0]);
        assert_memory_equal(of[2], of[3], sizeof of[0]);
        assert_true(mean_difference(of[0], of[2], sizeof of[0]) > 20);
    }
    free(bytes);
}

static uint8_t *put_number(uint8_t *to, uint32_t value, int bytes, int big_endian) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> 8 * (big_endian ? bytes - 1 - i : i));
    return to + bytes;
}

// Expected values are those of Pillow 13's ImageOps.exif_transpose.
static void orientation_of_any_type(void **state) {
    (void)state;
    enum { INLINE = 0, MOST = 128 };
    static const struct {
        const char *name;
        uint32_t type, count;
        int bytes, elsewhere, directory; // bytes: of a value; elsewhere: values are not in the entry
        uint32_t value;
        int want;
    } rows[] = {
        { "SHORT", 3, 1, 2, 0, 8, 6, 6 },
        { "LONG", 4, 1, 4, 0, 8, 6, 6 },
        { "SBYTE", 6, 1, 1, 0, 8, 6, 6 },
        { "SSHORT", 8, 1, 2, 0, 8, 6, 6 },
        { "SLONG", 9, 1, 4, 0, 8, 6, 6 },
        { "IFD", 13, 1, 4, 0, 8, 6, 6 },
        { "two SHORTs", 3, 2, 2, 0, 8, 6, 6 },
        { "four SHORTs elsewhere", 3, 4, 2, 1, 8, 6, 6 },
        { "two LONGs elsewhere", 4, 2, 4, 1, 8, 6, 6 },
        { "RATIONAL", 5, 1, 4, 1, 8, 6, 6 },
        { "BYTE", 1, 1, 1, 0, 8, 6, 1 },
        { "ASCII", 2, 2, 1, 0, 8, '6', 1 },
        { "UNDEFINED", 7, 1, 1, 0, 8, 6, 1 },
        { "unknown type", 77, 1, 2, 0, 8, 6, 1 },
        { "no value", 3, 0, 2, 0, 8, 6, 1 },
        { "LONG of 9", 4, 1, 4, 0, 8, 9, 1 },
        { "LONG of 65536 + 6", 4, 1, 4, 0, 8, 65542, 1 },
        { "elsewhere, beyond the end", 4, 2, 4, 2, 8, 6, 1 },
        { "directory elsewhere", 4, 1, 4, 0, 40, 6, 6 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < 8; i++) { // byte order; order of the mark's bytes; Exif's mark before the block
            const int big = i & 1, mark_big = i & 2 ? !big : big, prefix = i & 4 ? LS_EXIF_MARK_BYTES : 0;
            uint8_t block[MOST] = LS_EXIF_MARK, *tiff = block + prefix, *at = tiff;
            memcpy(at, big ? "MM" : "II", 2);
            put_number(put_number(at + 2, 42, 2, mark_big), (uint32_t)rows[r].directory, 4, big);
            at = put_number(tiff + rows[r].directory, 1, 2, big);
            at = put_number(put_number(put_number(at, 0x112, 2, big), rows[r].type, 2, big), rows[r].count, 4, big);
            uint8_t *values = at + 8, *end = values + 4 * rows[r].bytes;
            const uint32_t place = rows[r].elsewhere == 2 ? (uint32_t)(end - tiff) - 3 : (uint32_t)(values - tiff);
            if (rows[r].elsewhere) put_number(at, place, 4, big);
            put_number(rows[r].elsewhere ? values : at, rows[r].value, rows[r].bytes, big);
            if (rows[r].elsewhere) put_number(values + rows[r].bytes, 1, rows[r].bytes, big);
            const int got = ls_exif_orientation(block, (size_t)(end - block));
            if (got != rows[r].want) fail_msg("%s, way %d: %d, expected %d", rows[r].name, i, got, rows[r].want);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(scaled_jpegs_keep_their_true_sides, remove_folders),
        cmocka_unit_test_teardown(transparency_of_gif_is_ignored, remove_folders),
        cmocka_unit_test_teardown(cmyk_without_adobe, remove_folders),
        cmocka_unit_test(orientation_of_any_type),
        cmocka_unit_test_teardown(other_kinds_are_named, remove_folders),
        cmocka_unit_test(kinds_give_the_same_pixels),
        cmocka_unit_test_teardown(damaged_files_are_refused, remove_folders),
        cmocka_unit_test_teardown(small_files_that_promise_much_are_refused, remove_folders),
        cmocka_unit_test_teardown(names_do_not_matter, remove_folders),
        cmocka_unit_test(pictures_are_cropped),
        cmocka_unit_test(large_jpegs_are_scaled_while_decoded),
        cmocka_unit_test_teardown(libjpeg_turbo_beside_stb, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
