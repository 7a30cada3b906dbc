// format.h - what the kinds of data set share, inside this room: the struct behind ls_dataset, the table of formats,
// and where files are looked for. A new kind is a row in config/datasets.def and its file.
//
// An open function gets a zeroed data set with .format, .split and .facts.name filled. It sets facts.shape, classes,
// count (after data.train_samples or data.test_samples) and checksum, and `read`, or the fields of a set in memory, or
// those of a set of files. What it puts into memory[] and state, ls_dataset_free releases, also when it fails half-way.
#ifndef LS_DATA_FORMAT_H
#define LS_DATA_FORMAT_H

#include <stdatomic.h>
#include "data/dataset.h"
#include "data/file_content.h"
#include "data/inflated.h"
#include "data/picture_cache.h"

enum { LS_MAX_CHANNELS = 16, LS_MAX_SIDE = 65535, LS_FILE_PATH_BYTES = 4096 };

typedef struct {
    const char *name;
    ls_status (*open)(const ls_config *cfg, ls_dataset *dataset);
    int classes;
    double mean[3], std[3]; // 0 after the last
    const char *subfolder, *other_folder;
    const char *const *class_names;
} ls_format;

struct ls_dataset {
    ls_dataset_info facts;
    const ls_format *format;
    ls_split split;
    // In memory: sample i has its pixels at pixels + i * pixel_stride, its label (a byte) at labels + i * label_stride.
    const uint8_t *pixels, *labels;
    size_t pixel_stride, label_stride;
    void *memory[2];  // of ls_memory_new
    ls_inflated kept; // instead of memory[0]: pixels that an earlier start has inflated
    // Made on demand, if `read` is set.
    ls_status (*read)(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
    // Where samples are files; else all of this is NULL. The sample's file, whose path is written to `path`
    // (LS_FILE_PATH_BYTES); the pixels of that file; its name, "class/name.png"; its label; its place in the list of
    // all files, of which the set may hold the first ones. leave_out takes samples out of the state and of facts.count,
    // not of facts.checksum.
    ls_status (*load)(const ls_dataset *dataset, int64_t index, char *path, ls_file_content *out);
    ls_status (*decode)(const ls_dataset *dataset, const ls_file_content *file, uint8_t *pixels);
    void (*name)(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes);
    int (*label)(const ls_dataset *dataset, int64_t index);
    int64_t (*file)(const ls_dataset *dataset, int64_t index);
    void (*leave_out)(ls_dataset *dataset, const uint8_t *broken);
    // By file: its stamp when it was listed; the hash of its bytes, 0 before it is verified. ls_dataset_verify writes
    // that.
    uint64_t *stamps, *contents;
    int64_t files;
    uint64_t kind; // a hash of where the files are, of the split, and of how they become pixels
    ls_picture_cache *cache;
    atomic_uchar *broken; // by sample: cannot be read; another one takes its place
    void (*free_state)(void *state);
    void *state;
    ls_dataset *whole;              // of a part (hold_out.c): the set that has stamps and cache; NULL: it is no part
    int has_validation;             // of a training set: it has a validation split of its own
    ls_dataset *held_out;           // of a training set: for validation; NULL: none. Freed with it
    const char *const *class_names; // NULL: numbers
    char *class_numbers;            // LS_CLASS_NUMBER_BYTES a class, where there are no names
};
enum { LS_CLASS_NUMBER_BYTES = 12 };

#define X(NAME, word, shape, open, ...) LS_CHECKED ls_status open(const ls_config *cfg, ls_dataset *dataset);
#include "config/datasets.def"

extern const char *const ls_fashion_classes[10],
    *const ls_cifar10_classes[10], *const ls_cifar100_classes[100], *const ls_cifar100_coarse_classes[20];

const char *ls_split_name(ls_split split); // "training", "test", "validation"
// The end of opening: what every data set has beside what its format says.
LS_CHECKED ls_status ls_dataset_prepare(ls_dataset *dataset);
// Finds out what the sample's file contains (for ls_dataset_content), and with `decodes` whether it can be decoded
// (LS_DATA). Reads the file unless it is packed and has its stamp since. Safe from several threads, each with other
// samples and `pixels`.
LS_CHECKED ls_status ls_dataset_verify(const ls_dataset *dataset, int64_t index, int decodes, uint8_t *pixels);
// A training set as two parts, by data.validation_fraction: *out is the one to train on, has the other one as held_out, and takes
// `whole` over.
LS_CHECKED ls_status ls_dataset_hold_out(const ls_config *cfg, ls_dataset *whole, ls_dataset **out);
// The first of the candidate folders in which one of `wanted` (`count` names; at most 16) exists, into folder
// (LS_TEXT_BYTES). Candidates: data.path, or data/<name> and the row's other folder; each with
// its subfolder. LS_DATA names the folders, the files and how to get them.
LS_CHECKED ls_status ls_dataset_find(
    const ls_config *cfg, const ls_dataset *dataset, const char *const *wanted, int count, char *folder);
// facts.count = available, or what data.train_samples or data.test_samples leaves of it.
// LS_USAGE when they ask for more.
LS_CHECKED ls_status ls_dataset_limit(const ls_config *cfg, ls_dataset *dataset, int64_t available);
// Are the labels of records first..first+count-1 below facts.classes? LS_DATA naming the path and the record in it.
LS_CHECKED ls_status ls_dataset_check_labels(const ls_dataset *dataset, const char *path, int64_t first, int64_t count);
// "CxHxW" or "HxW" (channels == 3 then) strictly; LS_USAGE naming the option.
LS_CHECKED ls_status ls_shape_parse(const char *option, const char *text, int numbers, ls_chw *shape);

#endif
