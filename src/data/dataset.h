// dataset.h - a set of labelled uint8 pictures, held in memory, or decoded or made on demand.
//
// Formats: IDX (MNIST, Fashion-MNIST; raw or .gz), CIFAR binary (10 and 100), image folder (picture files of the kinds
// in image_check.h), synthetic. Everything that a header promises is checked against the file. Faults of files are
// LS_DATA; the message names the path, the fault and a fix.
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
    ls_chw shape;  // shape of one picture; pixels are planar (C,H,W)
    int classes;
    int64_t label_rows; // rows of ls_dataset_label_sets; 0: a picture has one label, its class
    int64_t count;
    uint64_t checksum; // hash of all pixels and labels (folder: of names, sizes and labels; synthetic: of its settings)
    uint64_t content;  // folder: hash of the bytes of all files after they are verified; else 0
    // ls_dataset_identity of the set that the files contain, before samples are held out. 0: a held-out part, whose
    // samples follow from the training set's source.
    uint64_t source;
    int64_t broken;          // number of files found broken at the start: replaced by other samples, or left out
    float mean[16], std[16]; // one value per channel, of pixel/255
    int resize;              // value of data.resize, for picture files
    char decoder[64];        // decoder of JPEG files (image_decode.h); "": the set has no picture files
    char note[320];          // remark for the user, for example on options without effect; "": no remark
} ls_dataset_info;

// Returns a hash that tells these samples from all others, made of the checksum and, if known, the files' content.
uint64_t ls_dataset_identity(const ls_dataset_info *facts);

// Opens one split (training or test) of the data set that the data.* options describe. Several threads may then read it
// at once. If training pictures are held out for validation (hold_out.c), *out does not contain them.
LS_CHECKED ls_status ls_dataset_open(const ls_config *cfg, ls_split split, ls_dataset **out);
// Like ls_dataset_open, but returns a set that this process has open already, if its options of [data] are the same
// (and its run.seed, where it matters). It is open until each user has called ls_dataset_free. Sets of picture files
// are never shared, because each run verifies and packs its own.
LS_CHECKED ls_status ls_dataset_open_shared(const ls_config *cfg, ls_split split, ls_dataset **out);
// Returns the validation set that belongs to a training set, which owns it: the samples held out, or the pictures of
// val/. NULL: the training set has no validation set.
ls_dataset *ls_dataset_held_out(const ls_dataset *train);
void ls_dataset_free(ls_dataset *dataset);
const ls_dataset_info *ls_dataset_get_info(const ls_dataset *dataset);
const char *ls_dataset_class(const ls_dataset *dataset, int label); // the class's name, or its number as text
// Returns the table of labels of pictures that have several (data.labels), with facts.label_rows rows and a byte, 0 or
// 1, for each class. The label of a sample is then the number of its row. It is the same table in all splits. NULL: the
// label of a sample is its class.
const uint8_t *ls_dataset_label_sets(const ls_dataset *dataset);
// Reads sample `index`: writes C*H*W bytes to pixels, and its label. Only a `folder` set can return LS_DATA here: its
// picture cannot be read, is broken or too large, or has changed since it was verified. The message names the path.
LS_CHECKED ls_status ls_dataset_read(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
// Writes the labels of all samples (facts.count of them) without decoding a file.
LS_CHECKED ls_status ls_dataset_labels(const ls_dataset *dataset, int32_t *labels);
// Returns 1 if the samples are files, so that reading a sample may fail (LS_DATA).
int ls_dataset_may_break(const ls_dataset *dataset);
// Like ls_dataset_read, but replaces a broken sample by the next readable one of its class (with several labels: of the
// set). A sample that turns out to be broken here is marked as such, and a warning names it. The order of the other
// samples and the length of an epoch do not change. LS_DATA: no sample of the class (the set) can be read.
LS_CHECKED ls_status ls_dataset_read_whole(const ls_dataset *dataset, int64_t index, uint8_t *pixels, int32_t *label);
// From now on, samples that are verified (verify.h), and those read after that, are also packed into a file in
// `folder`, so that they are not decoded again (picture_cache.h, which names the failures). Call it before anything is
// read, only if ls_dataset_may_break. Of the processes that share the folder, one sets `creates` and calls it first.
LS_CHECKED ls_status ls_dataset_pack(ls_dataset *dataset, const char *folder, int creates);
// Returns 1 if the pixels come from an inflated file that the cache folder keeps (inflated.h).
int ls_dataset_is_kept(const ls_dataset *dataset);
// Writes the folder that data.cache names into `folder`; "" if nothing is cached.
LS_CHECKED ls_status ls_dataset_cache_folder(const ls_config *cfg, char *folder, size_t bytes);
int ls_dataset_is_packed(const ls_dataset *dataset, int64_t index);
const char *ls_dataset_packed_at(const ls_dataset *dataset); // path of the packed file; "": no pictures are packed
// Learns which pictures other processes have packed, and removes packed files of earlier starts (picture_cache.h). Call
// it when all processes have read their samples.
void ls_dataset_settle(ls_dataset *dataset);
// Returns a hash of the files' folder and stamps (file_content.h), of the split and the settings that decide pixels. No
// file has to be read for it. It is equal in all processes of a host that see the same files.
uint64_t ls_dataset_files(const ls_dataset *dataset);
// ls_dataset_content returns the content hash of the sample's file (0: no file, or not verified; 1: unreadable).
// ls_dataset_know_content sets this hash to a value that another rank found; call it before anything is read.
uint64_t ls_dataset_content(const ls_dataset *dataset, int64_t index);
void ls_dataset_know_content(ls_dataset *dataset, int64_t index, uint64_t content);
// Sets facts.content and facts.source after verification. sum: total of what ls_verify_contents returns for all shares.
void ls_dataset_set_content(ls_dataset *dataset, uint64_t sum);
// Marks samples with broken[index] != 0 as broken, and counts them in facts.broken. Call it before anything is read.
void ls_dataset_know_broken(ls_dataset *dataset, const uint8_t *broken);
// Removes the samples with broken[index] != 0; facts.checksum does not change. LS_DATA: no sample is left.
LS_CHECKED ls_status ls_dataset_leave_out(ls_dataset *dataset, const uint8_t *broken);
// Writes the path of the sample's file in its split, as "class/name.png", or "" if samples are not files. Returns dst.
const char *ls_dataset_sample_name(const ls_dataset *dataset, int64_t index, char *dst, size_t bytes);
// Fills the augment operator's table: table[256 * c + v] = (v/255 - mean[c]) / std[c], in double, rounded once.
void ls_dataset_table(const ls_dataset *dataset, float *table);

#endif
