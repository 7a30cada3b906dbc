#include "data/pictures.h"

#include <stdlib.h>
#include <string.h>
#include "data/format.h"
#include "data/image_decode.h"

typedef struct {
    const char *const *paths;
    int64_t count;
    char **failures; // by picture: the message, or NULL; written by the thread that reads the picture
} pictures;

static void free_pictures(void *state) {
    pictures *p = state;
    for (int64_t i = 0; p->failures && i < p->count; i++) free(p->failures[i]);
    free(p->failures);
    free(p);
}

// (3, h, w) to (h, w). Source: Pillow's src/libImaging/Convert.c, L24: ITU-R 601-2 luma in 16-bit fixed point.
static void to_gray(const uint8_t *rgb, size_t pixels, uint8_t *gray) {
    for (size_t i = 0; i < pixels; i++)
        gray[i] = (uint8_t)((rgb[i] * 19595u + rgb[pixels + i] * 38470u + rgb[2 * pixels + i] * 7471u + 0x8000u) >> 16);
}

static ls_status decode(const char *path, ls_chw shape, uint8_t *pixels) {
    if (shape.c == 3) return ls_image_decode(path, shape, pixels);
    const size_t count = (size_t)shape.h * (size_t)shape.w;
    uint8_t *rgb = malloc(3 * count);
    if (!rgb) return ls_fail(LS_DEVICE, "%s: no memory for %zu pixels", path, count);
    ls_status status = ls_image_decode(path, shape, rgb);
    if (!ls_failed(status)) to_gray(rgb, count, pixels);
    free(rgb);
    return status;
}

static ls_status read_picture(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    pictures *p = dataset->state;
    *label = 0;
    ls_status status = decode(p->paths[index], dataset->facts.shape, pixels);
    if (status.code != LS_DATA) return status;
    memset(pixels, 0, (size_t)ls_chw_count(dataset->facts.shape));
    free(p->failures[index]);
    p->failures[index] = strdup(status.text); // the ring of texts may have turned when it is asked for
    return p->failures[index] ? LS_SUCCESS : status;
}

ls_status ls_pictures_open(const ls_pictures_options *options, ls_dataset **out) {
    const ls_chw shape = options->shape;
    if (shape.c != 1 && shape.c != 3)
        return ls_fail(LS_USAGE,
            "the network's input has %d channels, but a picture has 1 (gray) or 3 (red, green, blue)", shape.c);
    ls_dataset *dataset = calloc(1, sizeof *dataset);
    pictures *p = calloc(1, sizeof *p);
    char **failures = calloc((size_t)options->count, sizeof *failures);
    if (!dataset || !p || !failures) {
        free(dataset);
        free(p);
        free(failures);
        return ls_fail(LS_DEVICE, "no memory for the list of %lld pictures", (long long)options->count);
    }
    *p = (pictures){ .paths = options->paths, .count = options->count, .failures = failures };
    dataset->facts = (ls_dataset_facts){ .name = "pictures", .shape = shape, .classes = 1, .count = options->count };
    memcpy(dataset->facts.mean, options->mean, (size_t)shape.c * sizeof *options->mean);
    memcpy(dataset->facts.std, options->std, (size_t)shape.c * sizeof *options->std);
    static const char *const classes[] = { "?" };
    dataset->class_names = classes;
    dataset->read = read_picture;
    dataset->state = p;
    dataset->free_state = free_pictures;
    *out = dataset;
    return LS_SUCCESS;
}

ls_status ls_pictures_failure(const ls_dataset *dataset, int64_t index) {
    const pictures *p = dataset->state;
    return p->failures[index] ? ls_fail(LS_DATA, "%s", p->failures[index]) : LS_SUCCESS;
}
