// contact_sheet.h - a contact sheet: training pictures as the network sees them, made by a run's operators.
//
// Each row shows one sample: first the picture as it is in the data set, then the picture as augmented in one epoch
// after another. The rows are the first samples of the training set. They form one micro-batch, so mixup and cutmix
// take partners from the sheet. With train.resolution a picture has the resolution of its epoch and is stretched to the
// cells of the sheet without smoothing. Values outside the range of a pixel are clipped.
#ifndef LS_TRAIN_CONTACT_SHEET_H
#define LS_TRAIN_CONTACT_SHEET_H

#include "config/config.h"

enum {
    LS_CONTACT_SHEET_GAP = 2,
    LS_CONTACT_SHEET_CELL = 96
}; // pixels: the gap around each cell; the least length of a cell's longer side

typedef struct {
    int rows, columns; // number of samples; of epochs, without the column of unchanged pictures
    int64_t epoch;     // epoch of the first augmented column
} ls_contact_sheet_options;

typedef struct {
    ls_chw shape;    // size of the whole sheet; it has as many channels as the data set
    ls_chw cell;     // size of one picture on the sheet
    uint8_t *pixels; // planar (C,H,W); owned
} ls_contact_sheet;

// Makes the sheet on the device that cfg names. Not collective. LS_USAGE: the data set has too few samples, or neither
// 1 nor 3 channels. LS_DATA, LS_DEVICE: as in a run.
LS_CHECKED ls_status ls_contact_sheet_new(
    const ls_config *cfg, const ls_contact_sheet_options *options, ls_contact_sheet *out);
void ls_contact_sheet_free(ls_contact_sheet *sheet); // a sheet of {0} is allowed
// Returns the offset of the first pixel of the picture at (row, column) in channel 0. Column 0: unchanged pictures.
size_t ls_contact_sheet_at(const ls_contact_sheet *sheet, int row, int column);

#endif
