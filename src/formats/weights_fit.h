// weights_fit.h - decides what to do if a weights file describes itself (weights_metadata.h) in another way than the
// configuration and its data do. All commands that read weights use it:
//
//   LS_WEIGHTS_EVALUATE: the file's picture size, mean, std and resize are used; other values are refused. Classes are
//   matched by name, with a note if their order differs. Other classes are refused.
//   LS_WEIGHTS_PREDICT (also for export): the same for picture size, mean, std and resize. The file's class names are
//   used, with a note if the data here have other classes.
//   LS_WEIGHTS_START (model.init): the configuration's picture size, mean, std and resize are used, with a note if they
//   differ. Classes are matched by name, with a note if their order differs. If there are other classes, the last
//   layers start anew, with a note; also if the file names no classes and has another number of them. If the layers
//   with a row for each class cannot be found, a rule "new" of model.init_rules must decide.
//   LS_WEIGHTS_TEACH (distill.weights): another picture size, mean, std or resize is refused, and so are other classes.
//   Classes are matched by name, with a note if their order differs. model.override does not count.
//
// In the first two, only a value that was given by hand is refused: ls_weights_adopt fills in the options that the
// configuration leaves open. Another JPEG decoder gives a note, and one label a picture against several. Another
// network gives a note, but not with LS_WEIGHTS_START. A fact that model.override names keeps the configuration's
// value; with model.override = classes, classes are matched by number. Names that differ only in '/' and '_' are equal,
// because a folder's name has no '/'.
#ifndef LS_FORMATS_WEIGHTS_FIT_H
#define LS_FORMATS_WEIGHTS_FIT_H

#include "formats/weights_metadata.h"

typedef enum { LS_WEIGHTS_START, LS_WEIGHTS_EVALUATE, LS_WEIGHTS_PREDICT, LS_WEIGHTS_TEACH } ls_weights_use;

// The input of ls_weights_fit_new. All pointers are borrowed for the call.
typedef struct {
    const char *path;                   // path of the file, for messages
    const ls_weights_info *file, *here; // facts of the weights file; facts of the configuration and its data
    const ls_graph *graph;              // the network that takes the weights
    const ls_config *cfg;
    ls_weights_use use;
} ls_weights_fit_options;

enum { LS_WEIGHTS_NOTE_BYTES = LS_STATUS_TEXT_BYTES };

typedef struct {
    int class_count;     // number of classes of the data here
    int *order;          // by class here: class of the same name in the file; NULL: rows keep their places
    unsigned char *rows; // by parameter: whether it has a row for each class (class_rows.h)
    int starts_anew;     // LS_WEIGHTS_START: parameters with rows are not taken from the file
    int compares_rows;   // LS_WEIGHTS_START: a parameter is not taken if its number of rows in the file is another one
    // For the user; "": no note. note: about facts other than classes.
    char note[LS_WEIGHTS_NOTE_BYTES], class_note[LS_WEIGHTS_NOTE_BYTES];
} ls_weights_fit;

// Sets the options that the configuration leaves open to the file's values, if the file has them: picture size and
// channels, mean, std, resize, decoder (ls_weights_decoder).
// Call it before the data are opened, but not with LS_WEIGHTS_START.
void ls_weights_adopt(const ls_weights_info *file, ls_config *cfg);
// Decides how the file's weights are used here, by the rules above. LS_USAGE: a value is refused, or the classes differ
// (also in their order), but the layers with a row for each cannot be found. LS_DATA: the classes are refused.
LS_CHECKED ls_status ls_weights_fit_new(const ls_weights_fit_options *options, ls_weights_fit **out);
void ls_weights_fit_free(ls_weights_fit *fit); // NULL is allowed
// Reorders the rows of parameter p to the order of the classes here. values: all its values, in canonical layout.
LS_CHECKED ls_status ls_weights_fit_arrange(const ls_weights_fit *fit, const ls_graph *graph, int p, float *values);
// Returns the value of data.decoder for pictures that the weights shall classify: LS_DECODER_STB if the configuration
// says auto and the weights were trained with stb_image, else the configuration's value.
int ls_weights_decoder(const ls_weights_info *file, const ls_config *cfg);
// Completes the facts of `file` from `here`, for predict and export: facts that the file lacks, facts that
// model.override names, and the network, unless the file's is quantised. `here` may get the replaced network and class
// names of `file`. LS_USAGE: the network cannot take pictures of the overridden size. LS_STORAGE: the network and the
// weights have different numbers of classes.
LS_CHECKED ls_status ls_weights_complete(const ls_config *cfg, ls_weights_info *file, ls_weights_info *here);

#endif
