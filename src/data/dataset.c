#include "data/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/format.h"

#define LS_GRAY(a) \
    { a }
#define LS_RGB(a, b, c) \
    { a, b, c }
static const ls_format formats[] = {
#define X(NAME, word, shape, open, classes, mean, std, subfolder, other_folder, class_names) \
    { word, open, classes, mean, std, subfolder, other_folder, class_names },
#include "config/datasets.def"
};

const char *ls_split_name(ls_split split) {
    return split == LS_SPLIT_TEST ? "test" : split == LS_SPLIT_VALIDATION ? "validation" : "training";
}

// Fills in one number per channel (mean or standard deviation) from the option's text. If the text is empty, uses the
// format's numbers, and repeats the last one for further channels; gray pictures of a colour format get their mean.
static ls_status fill_channels(
    const char *option, const char *text, const double defaults[3], int channels, float *out) {
    if (text[0] == 0 && channels == 1 && defaults[2] > 0) {
        out[0] = (float)((defaults[0] + defaults[1] + defaults[2]) / 3);
        return LS_SUCCESS;
    }
    if (text[0] == 0) {
        for (int c = 0, from = 0; c < channels; c++) {
            if (c < 3 && defaults[c] > 0) from = c;
            out[c] = (float)defaults[from];
        }
        return LS_SUCCESS;
    }
    const char *at = text;
    for (int c = 0; c < channels; c++) {
        char *end;
        errno = 0;
        double value = strtod(at, &end);
        while (end != at && *end == ' ') end++;
        int last = c == channels - 1;
        if (end == at || errno != 0 || !(value > -1e6 && value < 1e6) || *end != (last ? 0 : ',')) {
            return ls_fail(LS_USAGE,
                "%s = %s: expected %d number%s separated by commas, one a channel, between 0 and 1; an "
                "empty value takes the data set's own",
                option, text, channels, channels == 1 ? "" : "s");
        }
        out[c] = (float)value;
        at = end + 1;
    }
    return LS_SUCCESS;
}

static ls_status fill_normalisation(const ls_config *cfg, ls_dataset *dataset) {
    ls_dataset_info *facts = &dataset->facts;
    LS_TRY(fill_channels("data.mean", cfg->data_mean, dataset->format->mean, facts->shape.c, facts->mean));
    LS_TRY(fill_channels("data.std", cfg->data_std, dataset->format->std, facts->shape.c, facts->std));
    for (int c = 0; c < facts->shape.c; c++) {
        if (!(facts->std[c] > 0)) {
            return ls_fail(LS_USAGE, "data.std = %s: number %d is %g, expected more than 0", cfg->data_std, c + 1,
                (double)facts->std[c]);
        }
    }
    return LS_SUCCESS;
}

// Refuses a data.brightness above the difference of black and white (1/std), because it is added to normalised pixels.
static ls_status check_brightness(const ls_config *cfg, const ls_dataset_info *facts) {
    double widest = 0;
    for (int c = 0; c < facts->shape.c; c++)
        if (1 / (double)facts->std[c] > widest) widest = 1 / (double)facts->std[c];
    if (cfg->data_brightness <= widest) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "data.brightness = %g: expected at most %.3g, from black to white in normalised pixels (1/data.std); divide a "
        "number "
        "for pixels from 0 to 255 by 255 and by data.std",
        cfg->data_brightness, widest);
}

static void name_classes(ls_dataset *dataset) {
    if (!dataset->class_names) dataset->class_names = dataset->format->class_names;
    if (dataset->class_names) return;
    const int classes = dataset->facts.classes;
    dataset->class_numbers = ls_new(classes, LS_CLASS_NUMBER_BYTES, "names of %d classes", classes);
    for (int i = 0; i < dataset->facts.classes; i++) {
        snprintf(dataset->class_numbers + (size_t)i * LS_CLASS_NUMBER_BYTES, LS_CLASS_NUMBER_BYTES, "%d", i);
    }
}

ls_status ls_dataset_prepare(ls_dataset *dataset) {
    const int64_t count = dataset->facts.count;
    if (ls_dataset_may_break(dataset))
        LS_TRY(ls_try_new(&dataset->broken, count, sizeof *dataset->broken, "list of %lld samples", (long long)count));
    name_classes(dataset);
    return LS_SUCCESS;
}

static ls_status open_format(const ls_config *cfg, ls_dataset *dataset) {
    LS_TRY(dataset->format->open(cfg, dataset));
    LS_TRY(fill_normalisation(cfg, dataset));
    dataset->facts.source = dataset->facts.checksum;
    LS_TRY(check_brightness(cfg, &dataset->facts));
    return ls_dataset_prepare(dataset);
}

static ls_status open_split(const ls_config *cfg, ls_split split, ls_dataset **out) {
    ls_dataset *dataset = ls_new(1, sizeof *dataset, "data set");
    dataset->format = &formats[cfg->data_dataset];
    dataset->split = split;
    dataset->facts.classes = dataset->format->classes;
    snprintf(dataset->facts.name, sizeof dataset->facts.name, "%s", dataset->format->name);
    ls_status status = open_format(cfg, dataset);
    if (ls_failed(status)) {
        ls_dataset_free(dataset);
        return status;
    }
    *out = dataset;
    return status;
}

static ls_status open_held_out(const ls_config *cfg, ls_dataset **train) {
    if ((*train)->has_validation) return open_split(cfg, LS_SPLIT_VALIDATION, &(*train)->held_out);
    return cfg->data_validation_fraction > 0 ? ls_dataset_hold_out(cfg, *train, train) : LS_SUCCESS;
}

ls_status ls_dataset_open(const ls_config *cfg, ls_split split, ls_dataset **out) {
    ls_dataset *dataset;
    LS_TRY(open_split(cfg, split, &dataset));
    ls_status status = split == LS_SPLIT_TRAIN ? open_held_out(cfg, &dataset) : LS_SUCCESS;
    return LS_GIVE_OR_FREE(status, dataset, out, ls_dataset_free);
}

ls_dataset *ls_dataset_held_out(const ls_dataset *train) {
    return train->held_out;
}

void ls_dataset_free(ls_dataset *dataset) {
    if (!dataset || ls_dataset_is_still_shared(dataset)) return;
    ls_dataset_free(dataset->held_out);
    if (dataset->free_state) dataset->free_state(dataset->state);
    ls_memory_free(dataset->memory[0]);
    ls_memory_free(dataset->memory[1]);
    ls_inflated_close(&dataset->kept);
    free(dataset->class_numbers);
    ls_picture_cache_close(dataset->cache);
    free(dataset->stamps);
    free(dataset->contents);
    free(dataset->broken);
    free(dataset);
}

const ls_dataset_info *ls_dataset_get_info(const ls_dataset *dataset) {
    return &dataset->facts;
}

const char *ls_dataset_class(const ls_dataset *dataset, int label) {
    if (label < 0 || label >= dataset->facts.classes) return "?";
    return dataset->class_names ? dataset->class_names[label]
                                : dataset->class_numbers + (size_t)label * LS_CLASS_NUMBER_BYTES;
}

const uint8_t *ls_dataset_label_sets(const ls_dataset *dataset) {
    return dataset->label_sets;
}

static ls_status refuse_changed(const char *path) {
    return ls_fail(LS_DATA,
        "%s: has changed since the run began: its content is another one; bring the old file back, or start the run "
        "again",
        path);
}

// Reads one sample of a set of files: from the packed file, or by decoding its file and packing the pixels.
static ls_status read_file(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    const int64_t at = dataset->file(dataset, index);
    const uint64_t known = dataset->contents[at];
    char path[LS_FILE_PATH_BYTES];
    ls_file_content file;
    *label = dataset->label(dataset, index);
    if (dataset->cache && ls_picture_cache_get(dataset->cache, at, pixels)) return LS_SUCCESS;
    LS_TRY(dataset->load(dataset, index, path, &file));
    ls_status status = known && known != file.content ? refuse_changed(path) : dataset->decode(dataset, &file, pixels);
    if (dataset->cache && known && !ls_failed(status)) ls_picture_cache_put(dataset->cache, at, file.stamp, pixels);
    ls_file_content_free(&file);
    return status;
}

ls_status ls_dataset_read(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    if (index < 0 || index >= dataset->facts.count) {
        return ls_fail(LS_INTERNAL, "%s: sample %lld of %lld asked for", dataset->facts.name, (long long)index,
            (long long)dataset->facts.count);
    }
    if (dataset->load) return read_file(dataset, index, pixels, label);
    if (dataset->read) return dataset->read(dataset, index, pixels, label);
    memcpy(pixels, dataset->pixels + (size_t)index * dataset->pixel_stride, (size_t)ls_chw_count(dataset->facts.shape));
    *label = dataset->labels[(size_t)index * dataset->label_stride];
    return LS_SUCCESS;
}

ls_status ls_dataset_labels(const ls_dataset *dataset, int32_t *labels) {
    uint8_t *pixels;
    ls_status status = ls_try_new(&pixels, ls_chw_count(dataset->facts.shape), sizeof *pixels, "pixels of a picture");
    for (int64_t i = 0; i < dataset->facts.count && !ls_failed(status); i++) {
        if (dataset->label)
            labels[i] = dataset->label(dataset, i);
        else // not a set of files
            status = ls_dataset_read(dataset, i, pixels, &labels[i]);
    }
    free(pixels);
    return status;
}

int ls_dataset_may_break(const ls_dataset *dataset) {
    return (dataset->whole ? dataset->whole : dataset)->stamps != NULL;
}

// Opens the packed file of the set. The training and validation parts of a set share one file, owned by the whole set.
ls_status ls_dataset_pack(ls_dataset *dataset, const char *folder, int creates) {
    if (dataset->whole) return dataset->whole->cache ? LS_SUCCESS : ls_dataset_pack(dataset->whole, folder, creates);
    const ls_picture_cache_options options = { .folder = folder,
        .kind = dataset->kind,
        .stamps = dataset->stamps,
        .contents = dataset->contents,
        .count = dataset->files,
        .picture_bytes = (size_t)ls_chw_count(dataset->facts.shape),
        .creates = creates };
    return ls_picture_cache_open(&options, &dataset->cache);
}

static ls_picture_cache *cache_of(const ls_dataset *dataset) {
    return dataset->whole ? dataset->whole->cache : dataset->cache;
}

int ls_dataset_is_packed(const ls_dataset *dataset, int64_t index) {
    return cache_of(dataset) && ls_picture_cache_has(cache_of(dataset), dataset->file(dataset, index));
}

const char *ls_dataset_packed_at(const ls_dataset *dataset) {
    return cache_of(dataset) ? ls_picture_cache_path(cache_of(dataset)) : "";
}

// --- contents of files

enum { UNREADABLE = 1 }; // content hash of a file that cannot be read

static uint64_t *contents_of(const ls_dataset *dataset) {
    return dataset->whole ? dataset->whole->contents : dataset->contents;
}

static ls_status verify_bytes(
    const ls_dataset *dataset, int64_t at, const ls_file_content *file, int decodes, uint8_t *pixels) {
    ls_picture_cache *cache = dataset->cache;
    dataset->contents[at] = file->content;
    if (!decodes) return LS_SUCCESS;
    const int packed = cache && ls_picture_cache_get(cache, at, pixels);
    if (!packed) LS_TRY(dataset->decode(dataset, file, pixels));
    if (cache && (!packed || file->stamp)) ls_picture_cache_put(cache, at, file->stamp, pixels);
    return LS_SUCCESS;
}

// Verifies the sample's file; a part of a set passes the call on to the whole set. In a whole set sample i has file i
// until samples are left out, so the file number `at` is also a sample number of dataset->whole.
ls_status ls_dataset_verify(const ls_dataset *dataset, int64_t index, int decodes, uint8_t *pixels) {
    const int64_t at = dataset->file(dataset, index);
    char path[LS_FILE_PATH_BYTES];
    ls_file_content file;
    if (dataset->whole) return ls_dataset_verify(dataset->whole, at, decodes, pixels);
    if (dataset->cache && ls_picture_cache_get(dataset->cache, at, pixels)) return LS_SUCCESS;
    dataset->contents[at] = UNREADABLE;
    LS_TRY(dataset->load(dataset, index, path, &file));
    ls_status status = verify_bytes(dataset, at, &file, decodes, pixels);
    ls_file_content_free(&file);
    return status;
}

uint64_t ls_dataset_files(const ls_dataset *dataset) {
    const ls_dataset *owner = dataset->whole ? dataset->whole : dataset;
    return ls_hash_more(owner->kind, owner->stamps, (size_t)owner->files * sizeof *owner->stamps);
}

uint64_t ls_dataset_content(const ls_dataset *dataset, int64_t index) {
    return contents_of(dataset) ? contents_of(dataset)[dataset->file(dataset, index)] : 0;
}

void ls_dataset_know_content(ls_dataset *dataset, int64_t index, uint64_t content) {
    contents_of(dataset)[dataset->file(dataset, index)] = content;
}

// Adds the sum of a part's file contents to the content of the whole set: both parts sum over file numbers of the whole
// set. The part to train on is verified last, so its source covers both parts.
void ls_dataset_set_content(ls_dataset *dataset, uint64_t sum) {
    ls_dataset *whole = dataset->whole ? dataset->whole : dataset;
    dataset->facts.content = sum;
    if (dataset->whole) whole->facts.content += sum;
    if (dataset->facts.source) dataset->facts.source = ls_dataset_identity(&whole->facts);
}

uint64_t ls_dataset_identity(const ls_dataset_info *facts) {
    return facts->content ? ls_hash_more(facts->checksum, &facts->content, sizeof facts->content) : facts->checksum;
}

void ls_dataset_settle(ls_dataset *dataset) {
    if (cache_of(dataset)) ls_picture_cache_settle(cache_of(dataset));
}

int ls_dataset_is_kept(const ls_dataset *dataset) {
    return dataset->kept.bytes != NULL;
}

static int64_t next_of_class(const ls_dataset *dataset, int64_t index) {
    const int label = dataset->label(dataset, index);
    do {
        index = (index + 1) % dataset->facts.count;
    } while (!dataset->label_sets && dataset->label(dataset, index) != label); // a picture brings its several labels
    return index;
}

ls_status ls_dataset_read_whole(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label) {
    if (!dataset->broken) return ls_dataset_read(dataset, index, pixels, label);
    int64_t at = index;
    do {
        if (!atomic_load(&dataset->broken[at])) {
            ls_status status = ls_dataset_read(dataset, at, pixels, label);
            if (status.code != LS_DATA) return status;
            if (atomic_exchange(&dataset->broken[at], 1) == 0)
                ls_warn(
                    "%s; the next picture%s takes its place", status.text, dataset->label_sets ? "" : " of its class");
        }
        at = next_of_class(dataset, at);
    } while (at != index);
    const char *of = dataset->label_sets ? "any" : ls_dataset_class(dataset, dataset->label(dataset, index));
    return ls_fail(
        LS_DATA, "%s: no %s picture of class %s can be read", dataset->facts.name, ls_split_name(dataset->split), of);
}

void ls_dataset_know_broken(ls_dataset *dataset, const uint8_t *broken) {
    for (int64_t i = 0; i < dataset->facts.count; i++) {
        if (!broken[i]) continue;
        atomic_store(&dataset->broken[i], 1);
        dataset->facts.broken++;
    }
}

ls_status ls_dataset_leave_out(ls_dataset *dataset, const uint8_t *broken) {
    const int64_t before = dataset->facts.count;
    dataset->leave_out(dataset, broken);
    dataset->facts.broken += before - dataset->facts.count;
    if (dataset->facts.count > 0) return LS_SUCCESS;
    return ls_fail(LS_DATA, "%s: no %s picture can be read", dataset->facts.name, ls_split_name(dataset->split));
}

const char *ls_dataset_sample_name(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes) {
    snprintf(dst, bytes, "%s", "");
    if (dataset->name && index >= 0 && index < dataset->facts.count) dataset->name(dataset, index, dst, bytes);
    return dst;
}

void ls_dataset_table(const ls_dataset *dataset, float *table) {
    for (int c = 0; c < dataset->facts.shape.c; c++) {
        double mean = (double)dataset->facts.mean[c], std = (double)dataset->facts.std[c];
        for (int v = 0; v < 256; v++) table[256 * c + v] = (float)((v / 255.0 - mean) / std);
    }
}

ls_status ls_dataset_limit(const ls_config *cfg, ls_dataset *dataset, int64_t available) {
    const int test = dataset->split == LS_SPLIT_TEST, training = dataset->split == LS_SPLIT_TRAIN;
    const int64_t wanted = test ? cfg->data_test_samples : training ? cfg->data_train_samples : 0;
    if (wanted > available) {
        return ls_fail(LS_USAGE, "data.%s_samples = %lld, but %s has %lld %s samples; 0 takes all",
            test ? "test" : "train", (long long)wanted, dataset->facts.name, (long long)available,
            ls_split_name(dataset->split));
    }
    if (available > UINT32_MAX) {
        return ls_fail(LS_DATA, "%s: %lld samples, at most %u can be numbered", dataset->facts.name,
            (long long)available, (unsigned)UINT32_MAX);
    }
    dataset->facts.count = wanted > 0 ? wanted : available;
    return LS_SUCCESS;
}

ls_status ls_dataset_check_labels(const ls_dataset *dataset, const char *path, int64_t first, int64_t count) {
    int classes = dataset->facts.classes;
    const uint8_t *label = dataset->labels + (size_t)first * dataset->label_stride;
    for (int64_t i = 0; i < count; i++, label += dataset->label_stride) {
        if (*label >= classes) {
            return ls_fail(LS_DATA, "%s: record %lld has label %d, expected 0 to %d (%s); fetch the file again", path,
                (long long)i, *label, classes - 1, dataset->facts.name);
        }
    }
    return LS_SUCCESS;
}

ls_status ls_shape_parse(const char *option, const char *text, int numbers, ls_chw *shape) {
    int *sides[3] = { &shape->c, &shape->h, &shape->w };
    const char *at = text;
    int good = 1;
    shape->c = 3;
    for (int i = 3 - numbers; i < 3 && good; i++) {
        char *end;
        errno = 0;
        long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        int limit = i == 0 ? LS_MAX_CHANNELS : LS_MAX_SIDE;
        good = value >= 1 && value <= limit && *end == (i == 2 ? 0 : 'x');
        if (good) at = end + 1;
        *sides[i] = (int)value;
    }
    if (good && ls_chw_count(*shape) <= INT32_MAX) return LS_SUCCESS;
    return ls_fail(LS_USAGE,
        "%s = %s: expected %s, such as %s: channels 1 to %d, height and width 1 to %d, at most 2^31-1 bytes", option,
        text, numbers == 3 ? "CxHxW" : "HxW", numbers == 3 ? "3x32x32" : "64x64", LS_MAX_CHANNELS, LS_MAX_SIDE);
}
