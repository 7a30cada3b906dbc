// weights_fit.h - the one rule for what a weights file says of itself (weights_metadata.h) beside what a configuration
// and its data say. All commands that read weights use it:
//
//   use                              picture size, mean, std, resize         same classes, another order   other classes
//   LS_WEIGHTS_EVALUATE              the file's hold; others are refused     matched by name, a note       refused
//   LS_WEIGHTS_PREDICT (and export)  the file's hold; others are refused     names are the file's          likewise, a note
//   LS_WEIGHTS_START (model.init)    the configuration's hold, a note        matched by name, a note       the last layers start
//                                                                                                          anew, a note
// Only a value that was given by hand is refused: ls_weights_adopt fills in what the configuration leaves open. Another
// JPEG decoder gives a note. Another network gives a note, except to start from weights. model.override takes the
// configuration's values, with a note, and then matches classes by number. Names that differ only in '/' and '_' are
// equal, because a folder's name has no '/'.
#ifndef LS_FORMATS_WEIGHTS_FIT_H
#define LS_FORMATS_WEIGHTS_FIT_H

#include "formats/weights_metadata.h"

typedef enum { LS_WEIGHTS_START, LS_WEIGHTS_EVALUATE, LS_WEIGHTS_PREDICT } ls_weights_use;

// All are borrowed for the call.
typedef struct {
    const char *path; // of the file, for messages
    const ls_weights_info *file, *here;
    const ls_graph *graph; // the network that takes the weights
    const ls_config *cfg;
    ls_weights_use use;
} ls_weights_fit_options;

enum { LS_WEIGHTS_NOTE_BYTES = LS_STATUS_TEXT_BYTES };

typedef struct {
    int class_count;     // here
    int *order;          // by class here: the file's class of its name; NULL: every class has its place
    unsigned char *rows; // by parameter: it has a row for each class (class_rows.h)
    int starts_anew;     // START: parameters with such rows are not taken from the file
    // Lines for the user; "": nothing. The one of the classes matters where parameters with rows are taken from the
    // file.
    char note[LS_WEIGHTS_NOTE_BYTES], class_note[LS_WEIGHTS_NOTE_BYTES];
} ls_weights_fit;

// Options that the configuration leaves open get the file's values: picture size, mean, std, resize, decoder. Before
// the data are opened; not to start from weights.
void ls_weights_adopt(const ls_weights_info *file, ls_config *cfg);
// LS_USAGE: a value given by hand differs. LS_DATA: the classes are others, or cannot be matched.
LS_CHECKED ls_status ls_weights_fit_new(const ls_weights_fit_options *options, ls_weights_fit **out);
void ls_weights_fit_free(ls_weights_fit *fit); // NULL is allowed
// Puts the rows of parameter p, all of its values in canonical layout, into the order of the classes here.
LS_CHECKED ls_status ls_weights_fit_arrange(const ls_weights_fit *fit, const ls_graph *graph, int p, float *values);
// data.decoder for pictures that weights are to see: the one of their training, where the program has it and the
// configuration leaves it open.
int ls_weights_decoder(const ls_weights_info *file, const ls_config *cfg);
// For predict and export: `file` takes from `here` what the file does not say, what model.override names, and the
// network. LS_USAGE: the network cannot have pictures of the size that is to be taken. LS_STORAGE: it has not as many
// classes as the file.
LS_CHECKED ls_status ls_weights_complete(const ls_config *cfg, ls_weights_info *file, ls_weights_info *here);

#endif
