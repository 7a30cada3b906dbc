// dataset.h - a set of labelled uint8 pictures, held in memory or decoded on demand.
//
// Formats: IDX (MNIST, Fashion-MNIST; raw or .gz), CIFAR binary (10 and 100), image folder
// (picture files of image_check.h's kinds), synthetic. Everything that a header promises is checked against the file.
// Errors are LS_DATA: path, offset or record, expected, found, fix.
#ifndef LS_DATA_DATASET_H
#define LS_DATA_DATASET_H

#include <stdint.h>
#include "base/shape.h"
#include "base/status.h"
#include "config/config.h"

typedef enum { LS_SPLIT_TRAIN, LS_SPLIT_TEST, LS_SPLIT_VALIDATION } ls_split;

typedef struct ls_dataset ls_dataset;
typedef struct {
    char name[32]; // "cifar10"
    ls_chw shape;  // of a picture; pixels are planar (C,H,W)
    int classes;
    int64_t count;
    uint64_t checksum; // of all pixels and labels (folder: names, sizes and labels)
    uint64_t content;  // folder: of all files' bytes, once they are verified; else 0
    uint64_t
        source;     // as ls_dataset_identity, of the files that the set is from, also where a part is held out (for the
                    // part to train on); 0: it follows from another set's
    int64_t broken; // files known as broken at the start, whose places others take, or which are left out
    float mean[16], std[16]; // one a channel, of pixel/255
    int resize;              // of picture files, as data.resize has it
    char decoder[64];        // of picture files (image_decode.h); "": there are none
    char note[320];          // what is there or set and has no effect; "": nothing
} ls_dataset_info;

// What tells these samples from all others: classes, labels, and pixels or files' bytes.
uint64_t ls_dataset_identity(const ls_dataset_info *facts);

// Opens one split as data.* says. Threads: safe to read from several at once afterwards. Of training pictures some may be
// held out for validation (hold_out.c): *out is then without them.
LS_CHECKED ls_status ls_dataset_open(const ls_config *cfg, ls_split split, ls_dataset **out);
// What validation has, of an opened training set: what was held out of it, a folder's val/, or NULL. The training set's.
ls_dataset *ls_dataset_held_out(const ls_dataset *train);
void ls_dataset_free(ls_dataset *dataset);
const ls_dataset_info *ls_dataset_get_info(const ls_dataset *dataset);
const char *ls_dataset_class(const ls_dataset *dataset, int label); // name, or its number as text
// Sample `index`: C*H*W bytes into pixels, its label. Only `folder` can fail here: a broken image (path, stb's reason),
// or a file whose content is not what it was when it was verified.
LS_CHECKED ls_status ls_dataset_read(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
// Of all samples, without decoding any: facts.count labels.
LS_CHECKED ls_status ls_dataset_labels(const ls_dataset *dataset, int32_t *labels);
// Samples are files, and reading one may fail (LS_DATA).
int ls_dataset_may_break(const ls_dataset *dataset);
// As ls_dataset_read; but in place of a sample that is known as broken or cannot be read, which is known then and named in a
// warning, there is the next one of its class that can. So the order of all others, and what an epoch is, stay as they
// are. LS_DATA: the class has none.
LS_CHECKED ls_status ls_dataset_read_whole(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
// From now on a sample that was read is packed, with others, into a file in that folder, and not decoded again, in later
// starts neither (picture_cache.h, which says what fails). Before anything is read; a set that may break alone. One process
// of those that share the folder creates it, before the others open it.
LS_CHECKED ls_status ls_dataset_pack(ls_dataset *dataset, const char *folder, int creates);
// Whether its pixels come from a file of the cache folder (inflated.h).
int ls_dataset_is_kept(const ls_dataset *dataset);
// As data.cache has it; "": nowhere.
LS_CHECKED ls_status ls_dataset_cache_folder(const ls_config *cfg, char *folder, size_t bytes);
int ls_dataset_is_packed(const ls_dataset *dataset, int64_t index);
const char *ls_dataset_packed_at(const ls_dataset *dataset); // the file; "": there is none
// All processes that share the folder have read what they would: what others packed is known from now on.
void ls_dataset_settle(ls_dataset *dataset);
// What tells the set's files from others of the same names, before any is read: a hash of their folder and stamps
// (file_content.h). Equal in all processes of a host that see the same files.
uint64_t ls_dataset_files(const ls_dataset *dataset);
// The hash of the sample's file, 0: it has none, or is not verified. To know it from another rank, before anything is
// read.
uint64_t ls_dataset_content(const ls_dataset *dataset, int64_t index);
void ls_dataset_know_content(ls_dataset *dataset, int64_t index, uint64_t content);
// facts.content of a set whose files are all verified: the sum of what ls_verify_contents returned for each share.
void ls_dataset_set_content(ls_dataset *dataset, uint64_t sum);
// The samples with broken[index] != 0 are known as broken from now on. Before anything is read.
void ls_dataset_know_broken(ls_dataset *dataset, const uint8_t *broken);
// They are taken out instead; facts.checksum stays, as the files are there. LS_DATA: none is left.
LS_CHECKED ls_status ls_dataset_leave_out(ls_dataset *dataset, const uint8_t *broken);
// The sample's file, as "class/name.png", where samples are files, else "", into dst; returns dst.
const char *ls_dataset_sample_name(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes);
// table[c][v] = (v/255 - mean[c]) / std[c], computed in double, rounded once:
// what the augment operator looks pixels up in.
void ls_dataset_table(const ls_dataset *dataset, float *table);

#endif
