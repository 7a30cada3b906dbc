// trivial_augment.h - the arithmetic of TrivialAugment (config/augmentations.def) as inline functions, once for all
// devices. Kernels define LS_TRIVIAL_INLINE, and arithmetic that the compiler does not fuse, before they include it.
//
// A picture is changed in three steps; a kind can leave out the first, or the first two:
//   1. ls_trivial_counted: how often each value occurs, in one histogram per channel, or in one of the gray values
//   2. ls_trivial_sum_up, then ls_trivial_entry: a table with the new value of each value of a channel
//   3. ls_trivial_pixel: each new pixel, from the table or from the picture
#ifndef LS_DEVICE_TRIVIAL_AUGMENT_H
#define LS_DEVICE_TRIVIAL_AUGMENT_H

#include "device/op_augment.h"

#ifndef LS_TRIVIAL_INLINE
#define LS_TRIVIAL_INLINE static inline
#define LS_TRIVIAL_ADD(a, b) ((a) + (b))
#define LS_TRIVIAL_MULTIPLY(a, b) ((a) * (b))
#define LS_TRIVIAL_DIVIDE(a, b) ((a) / (b))
#endif

enum { LS_TRIVIAL_VALUES = 256, LS_TRIVIAL_TABLE = LS_TRIVIAL_CHANNELS_MAX * LS_TRIVIAL_VALUES };

typedef struct {
    const uint8_t *pixels; // channel after channel
    int c, h, w, kind, strength;
    int64_t shift;        // translation: pixels; shear: 2^30 times the pixels for each row or column
    int64_t sine, cosine; // rotation: times 2^30
    float factor, rest;   // of a blend: factor of the pixel's value, and of the other value
} ls_trivial_picture;

typedef struct {
    int low, high; // least and greatest value that occurs
    float mean;
} ls_trivial_summary;

// Returns 2^30 times the sine of quarter/20 of a right angle, for 0 to 20.
LS_TRIVIAL_INLINE int64_t ls_trivial_sine(int quarter) {
    static const int32_t sines[] = { 0, 84244813, 167970228, 250660051, 331804471, 410903207, 487468587, 561028562,
        631129609, 697339532, 759250125, 816479688, 868675383, 915515405, 956710970, 992008094, 1021189159, 1044074252,
        1060522280, 1070431836, 1073741824 };
    return sines[quarter];
}

// Returns the picture with the numbers of its change.
LS_TRIVIAL_INLINE ls_trivial_picture ls_trivial_picture_of(
    const uint8_t *pixels, ls_nchw shape, const ls_augment_sample *drawn) {
    const int k = drawn->strength - LS_TRIVIAL_STRONGEST, size = k < 0 ? -k : k, sign = k < 0 ? -1 : 1;
    // torch.linspace(0, 0.99, 31). Products and differences are exact in double, and rounded once.
    const float step = LS_TRIVIAL_DIVIDE(0.99F, 30.0F);
    const float share =
        (float)(size < 15 ? (double)step * size : (double)0.99F - (double)step * (LS_TRIVIAL_STRONGEST - size));
    ls_trivial_picture p = { pixels, shape.c, shape.h, shape.w, drawn->change, k, 0, 0, 0, 0, 0 };
    p.factor = LS_TRIVIAL_ADD(1.0F, (float)sign * share);
    p.rest = (float)-sign * share;
    p.shift = sign * (int64_t)(share * 1073741824.0F);
    if (p.kind == LS_TRIVIAL_TRANSLATE_X || p.kind == LS_TRIVIAL_TRANSLATE_Y)
        p.shift = sign * (size + size / 16 + size / 30);
    if (p.kind != LS_TRIVIAL_ROTATE) return p;
    p.sine = sign * ls_trivial_sine(size <= 20 ? size : 40 - size);
    p.cosine = size <= 20 ? ls_trivial_sine(20 - size) : -ls_trivial_sine(size - 20);
    return p;
}

// Returns the gray value of pixel `at`: of its three channels, or its only channel.
LS_TRIVIAL_INLINE int ls_trivial_gray(const ls_trivial_picture *p, int64_t at) {
    const int64_t plane = (int64_t)p->h * p->w;
    if (p->c == 1) return p->pixels[at];
    const float red = LS_TRIVIAL_MULTIPLY(0.2989F, (float)p->pixels[at]);
    const float green = LS_TRIVIAL_MULTIPLY(0.587F, (float)p->pixels[plane + at]);
    const float blue = LS_TRIVIAL_MULTIPLY(0.114F, (float)p->pixels[2 * plane + at]);
    return (int)LS_TRIVIAL_ADD(LS_TRIVIAL_ADD(red, green), blue);
}

LS_TRIVIAL_INLINE uint8_t ls_trivial_clipped(float value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

LS_TRIVIAL_INLINE uint8_t ls_trivial_blend(const ls_trivial_picture *p, int value, float other) {
    return ls_trivial_clipped(
        LS_TRIVIAL_ADD(LS_TRIVIAL_MULTIPLY(p->factor, (float)value), LS_TRIVIAL_MULTIPLY(p->rest, other)));
}

// --- histograms and tables -----------------------------------------------------------------------

// Returns the number of histograms that the change needs: 1 of gray values for contrast, else 1 per channel or 0.
LS_TRIVIAL_INLINE int ls_trivial_histograms(const ls_trivial_picture *p) {
    if (p->kind == LS_TRIVIAL_CONTRAST) return 1;
    return p->kind == LS_TRIVIAL_AUTOCONTRAST || p->kind == LS_TRIVIAL_EQUALIZE ? p->c : 0;
}

// Returns the value that a histogram counts at pixel `at`.
LS_TRIVIAL_INLINE int ls_trivial_counted(const ls_trivial_picture *p, int histogram, int64_t at) {
    return p->kind == LS_TRIVIAL_CONTRAST ? ls_trivial_gray(p, at) : p->pixels[(int64_t)histogram * p->h * p->w + at];
}

// Replaces each count of a histogram by the number of pixels with a smaller value. Returns a summary of the counts.
LS_TRIVIAL_INLINE ls_trivial_summary ls_trivial_sum_up(uint32_t *histogram) {
    ls_trivial_summary s = { LS_TRIVIAL_VALUES, 0, 0 };
    uint64_t sum = 0;
    uint32_t below = 0;
    for (int v = 0; v < LS_TRIVIAL_VALUES; v++) {
        const uint32_t count = histogram[v];
        if (count && v < s.low) s.low = v;
        if (count) s.high = v;
        histogram[v] = below;
        below += count;
        sum += (uint64_t)v * count;
    }
    s.mean = LS_TRIVIAL_DIVIDE((float)sum, (float)below);
    return s;
}

// Whether the change works by a table.
LS_TRIVIAL_INLINE int ls_trivial_has_table(const ls_trivial_picture *p) {
    return p->kind == LS_TRIVIAL_BRIGHTNESS || p->kind == LS_TRIVIAL_POSTERIZE || p->kind == LS_TRIVIAL_SOLARIZE ||
           ls_trivial_histograms(p) > 0;
}

// Returns the new value of value v. s, below: the summary and the histogram after ls_trivial_sum_up, if there is one.
LS_TRIVIAL_INLINE uint8_t ls_trivial_entry(
    const ls_trivial_picture *p, const ls_trivial_summary *s, const uint32_t *below, int v) {
    if (p->kind == LS_TRIVIAL_BRIGHTNESS) return ls_trivial_blend(p, v, 0);
    if (p->kind == LS_TRIVIAL_CONTRAST) return ls_trivial_blend(p, v, s->mean);
    if (p->kind == LS_TRIVIAL_POSTERIZE) return (uint8_t)(v >> (p->strength + 2) / 5 << (p->strength + 2) / 5);
    if (p->kind == LS_TRIVIAL_SOLARIZE) return (uint8_t)(2 * v >= 510 - 17 * p->strength ? 255 - v : v);
    if (p->kind == LS_TRIVIAL_AUTOCONTRAST) {
        if (s->low == s->high) return (uint8_t)v;
        // torch's 255 / x is the reciprocal times 255
        const float scale = LS_TRIVIAL_MULTIPLY(LS_TRIVIAL_DIVIDE(1.0F, (float)(s->high - s->low)), 255.0F);
        return ls_trivial_clipped(LS_TRIVIAL_MULTIPLY((float)(v - s->low), scale));
    }
    const uint32_t step = below[s->high] / 255;
    if (step == 0) return (uint8_t)v;
    const uint32_t level = (below[v] + step / 2) / step;
    return (uint8_t)(level > 255 ? 255 : level);
}

// --- pixels --------------------------------------------------------------------------------------

// Returns place / 2^31 - 1/2, rounded to the nearest whole number, and from the middle to the even one.
LS_TRIVIAL_INLINE int64_t ls_trivial_nearest(int64_t place) {
    const int64_t above = place >> 31;
    return place & 0x7FFFFFFF ? above : above & ~(int64_t)1;
}

// Sets (*y, *x) to the pixel from which a change that moves pixels takes pixel (*y, *x).
LS_TRIVIAL_INLINE void ls_trivial_move(const ls_trivial_picture *p, int64_t *y, int64_t *x) {
    const int64_t unit = (int64_t)1 << 30, right = 2 * *x + 1 - p->w, down = 2 * *y + 1 - p->h;
    if (p->kind == LS_TRIVIAL_TRANSLATE_X) *x -= p->shift;
    if (p->kind == LS_TRIVIAL_TRANSLATE_Y) *y -= p->shift;
    if (p->kind == LS_TRIVIAL_SHEAR_X) *x = ls_trivial_nearest((2 * *x + 1) * unit + (2 * *y + 1) * p->shift);
    if (p->kind == LS_TRIVIAL_SHEAR_Y) *y = ls_trivial_nearest((2 * *y + 1) * unit + (2 * *x + 1) * p->shift);
    if (p->kind != LS_TRIVIAL_ROTATE) return;
    *x = ls_trivial_nearest(p->cosine * right - p->sine * down + p->w * unit);
    *y = ls_trivial_nearest(p->sine * right + p->cosine * down + p->h * unit);
}

// Returns the value of a channel that sharpness blends in: the rounded mean around a pixel, in which the pixel itself
// counts five times; at the edge the pixel itself.
LS_TRIVIAL_INLINE int ls_trivial_blurred(const ls_trivial_picture *p, const uint8_t *plane, int y, int x) {
    const uint8_t *at = plane + (int64_t)y * p->w + x;
    if (y == 0 || x == 0 || y == p->h - 1 || x == p->w - 1) return *at;
    int sum = 4 * *at;
    for (int row = -1; row <= 1; row++)
        for (int column = -1; column <= 1; column++) sum += at[(int64_t)row * p->w + column];
    return (2 * sum + 13) / 26;
}

// Returns pixel (y, x) of channel c after the change. `table`: LS_TRIVIAL_VALUES for each channel; read only if the
// change has a table.
LS_TRIVIAL_INLINE uint8_t ls_trivial_pixel(const ls_trivial_picture *p, const uint8_t *table, int c, int y, int x) {
    const uint8_t *plane = p->pixels + (int64_t)c * p->h * p->w;
    const int64_t at = (int64_t)y * p->w + x;
    if (ls_trivial_has_table(p)) return table[c * LS_TRIVIAL_VALUES + plane[at]];
    if (p->kind == LS_TRIVIAL_COLOR && p->c == 3) return ls_trivial_blend(p, plane[at], (float)ls_trivial_gray(p, at));
    if (p->kind == LS_TRIVIAL_SHARPNESS && p->h > 2 && p->w > 2)
        return ls_trivial_blend(p, plane[at], (float)ls_trivial_blurred(p, plane, y, x));
    int64_t from_y = y, from_x = x;
    ls_trivial_move(p, &from_y, &from_x);
    const int inside = from_y >= 0 && from_y < p->h && from_x >= 0 && from_x < p->w;
    return inside ? plane[from_y * p->w + from_x] : 0;
}

#endif
