#include "data/pictures.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/memory.h"
#include "data/format.h"
#include "data/image_check.h"
#include "data/image_decode.h"

typedef struct {
    const char *const *paths;
    int64_t count;
    ls_image_options options;
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

static ls_status decode(const char *path, int channels, const ls_image_options *options, uint8_t *pixels) {
    if (channels == 3) return ls_image_decode(path, options, pixels);
    const size_t count = (size_t)options->size.h * (size_t)options->size.w;
    uint8_t *rgb;
    LS_TRY(LS_NEW(rgb, 3 * count, "%s", path));
    ls_status status = ls_image_decode(path, options, rgb);
    if (!ls_failed(status)) to_gray(rgb, count, pixels);
    free(rgb);
    return status;
}

static ls_status read_picture(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    pictures *p = dataset->state;
    *label = 0;
    ls_status status = decode(p->paths[index], dataset->facts.shape.c, &p->options, pixels);
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
    ls_dataset *dataset;
    pictures *p = NULL;
    ls_status status;
    LS_TRY_GOTO(LS_NEW(dataset, 1, "list of pictures"));
    LS_TRY_GOTO(LS_NEW(p, 1, "list of pictures"));
    LS_TRY_GOTO(LS_NEW(p->failures, options->count, "list of pictures"));
    p->paths = options->paths;
    p->count = options->count;
    p->options = (ls_image_options){ { 3, shape.h, shape.w }, options->resize, options->decoder };
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
done:
    free(dataset);
    free(p);
    return status;
}

ls_status ls_pictures_failure(const ls_dataset *dataset, int64_t index) {
    const pictures *p = dataset->state;
    return p->failures[index] ? ls_fail(LS_DATA, "%s", p->failures[index]) : LS_SUCCESS;
}

// --- which pictures

// Takes path; NULL: there was no memory for it.
static ls_status add_path(ls_picture_list *list, char *path) {
    ls_status status =
        path ? LS_GROW(list->paths, list->count, "list of pictures") : ls_no_memory(0, "list of pictures");
    if (ls_failed(status))
        free(path);
    else
        list->paths[list->count++] = path;
    return status;
}

static int is_picture(const struct dirent *entry) {
    return entry->d_name[0] != '.' && ls_image_is_named(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static ls_status add_folder(ls_picture_list *list, const char *folder) {
    struct dirent **entries;
    const size_t length = strlen(folder);
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";
    const int found = scandir(folder, &entries, is_picture, by_name);
    if (found < 0) return ls_fail(LS_DATA, "%s: cannot list the folder: %s", folder, strerror(errno));
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < found; i++) {
        char *path = NULL;
        if (!ls_failed(status) && asprintf(&path, "%s%s%s", folder, slash, entries[i]->d_name) < 0) path = NULL;
        LS_THEN(status, add_path(list, path));
        free(entries[i]);
    }
    free(entries);
    if (found > 0) return status;
    return ls_fail(
        LS_DATA, "%s: a folder without pictures (" LS_IMAGE_ENDINGS "; folders in it are not looked into)", folder);
}

ls_status ls_pictures_list(const char *const *named, int count, ls_picture_list *out) {
    *out = (ls_picture_list){ 0 };
    ls_status status = LS_SUCCESS;
    for (int i = 0; i < count && !ls_failed(status); i++) {
        struct stat info;
        const int is_folder = stat(named[i], &info) == 0 && S_ISDIR(info.st_mode);
        status = is_folder ? add_folder(out, named[i]) : add_path(out, strdup(named[i]));
    }
    if (ls_failed(status)) ls_pictures_list_free(out);
    return status;
}

void ls_pictures_list_free(ls_picture_list *list) {
    for (int64_t i = 0; i < list->count; i++) free(list->paths[i]);
    free(list->paths);
    *list = (ls_picture_list){ 0 };
}
