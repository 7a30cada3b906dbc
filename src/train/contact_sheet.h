// contact_sheet.h - a contact sheet: what a network sees of training pictures, by the operators of a run on its device.
//
// A row is a sample: at the left the picture as the data set has it, then as it is in one epoch after another. Rows
// are the first samples of the training set; mixup and cutmix take partners from the sheet: rows are a micro-batch.
// With train.resolution a picture is at its epoch's, stretched to the sheet's cells without smoothing. Values beyond
// a pixel's are clipped.
#ifndef LS_TRAIN_CONTACT_SHEET_H
#define LS_TRAIN_CONTACT_SHEET_H

#include "config/config.h"

enum {
    LS_CONTACT_SHEET_GAP = 2,
    LS_CONTACT_SHEET_CELL = 96
}; // pixels; cells have at least LS_CONTACT_SHEET_CELL on the longer side

typedef struct {
    int rows, columns; // epochs; the pictures as they are come besides
    int64_t epoch;     // of the first column
} ls_contact_sheet_options;

typedef struct {
    ls_chw shape;    // of the sheet; its channels are the data set's
    ls_chw cell;     // of one picture on it
    uint8_t *pixels; // planar (C,H,W); own
} ls_contact_sheet;

// Of a rank by itself, on cfg's device. LS_USAGE: the data set has fewer samples than rows, or other channels than 1
// or 3; LS_DATA, LS_DEVICE: as of a run.
LS_CHECKED ls_status ls_contact_sheet_new(
    const ls_config *cfg, const ls_contact_sheet_options *options, ls_contact_sheet *out);
void ls_contact_sheet_free(ls_contact_sheet *sheet); // {0} is allowed
// The first pixel of the picture at (row, column) in channel 0; column 0 is that of pictures as they are.
size_t ls_contact_sheet_at(const ls_contact_sheet *sheet, int row, int column);

#endif
