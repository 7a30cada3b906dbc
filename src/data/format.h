// format.h - the declarations that the files of src/data share: the struct of a data set, the rows of the table of
// formats, and helpers for open functions. A new kind of data set is a row in config/datasets.def and a file.
//
// An open function gets a zeroed data set in which only .format, .split, facts.name and facts.classes are filled. It
// sets facts.shape, facts.classes, facts.checksum and facts.count (limited by data.train_samples or data.test_samples).
// It also fills one group of fields: for a set in memory, or `read`, or for a set of files. ls_dataset_free
// releases memory[], kept and state, also if the open function fails half-way.
#ifndef LS_DATA_FORMAT_H
#define LS_DATA_FORMAT_H

#include <stdatomic.h>
#include "data/dataset.h"
#include "data/file_content.h"
#include "data/inflated.h"
#include "data/picture_cache.h"

enum { LS_MAX_CHANNELS = 16, LS_MAX_SIDE = 65535, LS_FILE_PATH_BYTES = 4096 };

// A kind of data set: a row of the table config/datasets.def.
typedef struct {
    const char *name;
    ls_status (*open)(const ls_config *cfg, ls_dataset *dataset);
    int classes;
    double mean[3], std[3]; // per channel, of pixel/255; 0 after the last given value
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
    void *memory[2];  // from ls_memory_new
    ls_inflated kept; // inflated pixels from the cache folder, instead of memory[0]
    // Makes sample `index` each time it is called. NULL for a set in memory and for a whole set of files.
    ls_status (*read)(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
    // Functions of a set of files. All but leave_out are NULL in other sets; a part of a set of files has no load and
    // no decode. load: reads the sample's file and writes its path into `path` (LS_FILE_PATH_BYTES). decode: turns the
    // file into pixels. name: writes the sample's name, "class/name.png". label: returns the sample's label. file:
    // returns the file's place in the list of all files (the set may hold only the first ones). leave_out:
    // removes the samples with broken[index] != 0 from the state and from facts.count, not from facts.checksum.
    ls_status (*load)(const ls_dataset *dataset, int64_t index, char *path, ls_file_content *out);
    ls_status (*decode)(const ls_dataset *dataset, const ls_file_content *file, uint8_t *pixels);
    void (*name)(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes);
    int (*label)(const ls_dataset *dataset, int64_t index);
    int64_t (*file)(const ls_dataset *dataset, int64_t index);
    void (*leave_out)(ls_dataset *dataset, const uint8_t *broken);
    // Per file: its stamp when it was listed, and the hash of its bytes (ls_dataset_verify; 0: not known yet).
    uint64_t *stamps, *contents;
    int64_t files; // number of files
    uint64_t kind; // hash of the files' folder, of the split, and of all settings that decide how files become pixels
    ls_picture_cache *cache; // packed pictures; NULL: no pictures are packed
    atomic_uchar *broken;    // by sample; 1: it cannot be read, and another sample takes its place
    void (*free_state)(void *state);
    void *state;
    ls_dataset *whole;              // in a part (hold_out.c): the whole set, which owns stamps and cache; else NULL
    int has_validation;             // in a training set: whether the folder has val/ beside test/, for validation
    ls_dataset *held_out;           // in a training set: the validation set, freed with this set; or NULL
    const uint8_t *label_sets;      // as returned by ls_dataset_label_sets; owned by the whole set
    const char *const *class_names; // NULL: class_numbers has the names
    struct ls_shared_data *shared;  // its record, if runs of this process share the set (shared.c); else NULL
    char *class_numbers; // the classes' numbers as text, LS_CLASS_NUMBER_BYTES each; NULL if class_names is set
};
enum { LS_CLASS_NUMBER_BYTES = 12 };

#define X(NAME, word, shape, open, ...) LS_CHECKED ls_status open(const ls_config *cfg, ls_dataset *dataset);
#include "config/datasets.def"

extern const char *const ls_fashion_classes[10],
    *const ls_cifar10_classes[10], *const ls_cifar100_classes[100], *const ls_cifar100_coarse_classes[20];

const char *ls_split_name(ls_split split); // "training", "test", "validation"
// Gives up one use of a data set that several runs share. Returns 1 if others still use it. Implemented in shared.c.
int ls_dataset_is_still_shared(ls_dataset *dataset);
// Completes a data set after its open function: allocates `broken` for a set of files, and names the classes.
LS_CHECKED ls_status ls_dataset_prepare(ls_dataset *dataset);
// Finds the content hash of the sample's file (for ls_dataset_content). With `decodes` it also decodes the file, and
// packs the pixels if there is a cache. It does not read a file that is packed and has kept its stamp. LS_DATA: it
// cannot read or decode the file. Several threads may call it at once, with different samples and `pixels`.
LS_CHECKED ls_status ls_dataset_verify(const ls_dataset *dataset, int64_t index, int decodes, uint8_t *pixels);
// Divides a training set into two parts by data.validation_fraction. *out is the part to train on; the other part
// becomes its held_out. On success *out owns `whole`.
LS_CHECKED ls_status ls_dataset_hold_out(const ls_config *cfg, ls_dataset *whole, ls_dataset **out);
// Writes into folder (LS_TEXT_BYTES) the first candidate folder that contains one of the `count` names in `wanted`. The
// candidates are data.path, or else data/<name> and the other folder of the format's row; each is followed by the
// format's subfolder in it, if there is one. LS_DATA names the folders, the files and how to get them.
LS_CHECKED ls_status ls_dataset_find(
    const ls_config *cfg, const ls_dataset *dataset, const char *const *wanted, int count, char *folder);
// Sets facts.count to `available`, or to data.train_samples or data.test_samples if set. LS_USAGE if these exceed
// `available`; LS_DATA if the samples are too many to be numbered in 32 bits.
LS_CHECKED ls_status ls_dataset_limit(const ls_config *cfg, ls_dataset *dataset, int64_t available);
// Checks that the labels of the `count` records from record `first` on are below facts.classes. LS_DATA: a label is
// not; the message names the path and the record.
LS_CHECKED ls_status ls_dataset_check_labels(const ls_dataset *dataset, const char *path, int64_t first, int64_t count);
// Parses a shape from an option's text: "CxHxW" (numbers == 3), or "HxW" (numbers == 2; there are then 3 channels).
// LS_USAGE: the text is no such shape; the message names the option.
LS_CHECKED ls_status ls_shape_parse(const char *option, const char *text, int numbers, ls_chw *shape);

#endif
