#include "data/pictures.h"

#include <string.h>
#include "base/files.h"
#include "base/memory.h"
#include "data/format.h"
#include "data/image_decode.h"

typedef struct {
    const char *const *paths;
    int64_t count;
    ls_image_options options;
    char **failures; // by picture: the message of its failure, or NULL; written by the thread that reads the picture
} pictures;

static void free_pictures(void *state) {
    pictures *p = state;
    for (int64_t i = 0; p->failures && i < p->count; i++) free(p->failures[i]);
    free(p->failures);
    free(p);
}

// Reads and decodes a picture from standard input. Each picture is read only once, so its bytes need not be kept.
static ls_status decode_stdin(const ls_image_options *options, uint8_t *pixels) {
    static const char name[] = "standard input";
    char *bytes = NULL;
    size_t count = 0;
    ls_status status = ls_read_stream("-", &bytes, &count);
    if (status.code == LS_STORAGE) status.code = LS_DATA;
    if (!ls_failed(status) && count == 0) status = ls_fail(LS_DATA, "%s: is empty, expected a picture", name);
    LS_THEN(status, ls_image_decode_bytes(name, (const uint8_t *)bytes, count, options, pixels));
    free(bytes);
    return status;
}

static ls_status decode(const char *path, const ls_image_options *options, uint8_t *pixels) {
    return strcmp(path, "-") == 0 ? decode_stdin(options, pixels) : ls_image_decode(path, options, pixels);
}

static ls_status read_picture(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    pictures *p = dataset->state;
    *label = 0;
    ls_status status = decode(p->paths[index], &p->options, pixels);
    if (status.code != LS_DATA) return status;
    memset(pixels, 0, (size_t)ls_chw_count(dataset->facts.shape));
    free(p->failures[index]);
    p->failures[index] = ls_new_text(status.text); // later texts overwrite status.text
    return LS_SUCCESS;
}

ls_status ls_pictures_open(const ls_pictures_options *options, ls_dataset **out) {
    const ls_chw shape = options->shape;
    if (shape.c != 1 && shape.c != 3)
        return ls_fail(LS_USAGE,
            "the network's input has %d channels, but a picture has 1 (gray) or 3 (red, green, blue)", shape.c);
    ls_dataset *dataset = ls_new(1, sizeof *dataset, "list of pictures");
    pictures *p = ls_new(1, sizeof *p, "list of pictures");
    p->failures = ls_new(options->count, sizeof *p->failures, "list of pictures"); // small: as long as the paths
    p->paths = options->paths;
    p->count = options->count;
    p->options = (ls_image_options){ shape, options->resize, options->decoder };
    dataset->facts = (ls_dataset_info){ .name = "pictures", .shape = shape, .classes = 1, .count = options->count };
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
