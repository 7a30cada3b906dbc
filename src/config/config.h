// config.h - the run's options: one typed struct made from options.def, filled from an INI file and --set.
//
// Errors are LS_USAGE. Those of a value name file:line (or "--set"), section.key, the value and the allowed values.
#ifndef LS_CONFIG_CONFIG_H
#define LS_CONFIG_CONFIG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "config/augmentation.h"
#include "base/shape.h"
#include "base/status.h"

enum { LS_TEXT_BYTES = 1024, LS_AUTO = -1 };

#define LS_OPTION_C_INT int64_t
#define LS_OPTION_C_INT_AUTO int64_t
#define LS_OPTION_C_REAL double
#define LS_OPTION_C_REAL_AUTO double
#define LS_OPTION_C_BOOL int
#define LS_OPTION_C_CHOICE int
#define LS_OPTION_C_WORDS int
#define LS_OPTION_C_KIND int
#define LS_OPTION_ARRAY_INT
#define LS_OPTION_ARRAY_INT_AUTO
#define LS_OPTION_ARRAY_REAL
#define LS_OPTION_ARRAY_REAL_AUTO
#define LS_OPTION_ARRAY_BOOL
#define LS_OPTION_ARRAY_CHOICE
#define LS_OPTION_ARRAY_WORDS
#define LS_OPTION_ARRAY_KIND
#define LS_OPTION_C_TEXT char
#define LS_OPTION_ARRAY_TEXT [LS_TEXT_BYTES]

// LS_OPTION_train_micro_batch is the index of option train.micro_batch; indices start at 0 and follow options.def.
enum {
#define X(section, key, TYPE, def, min, max, unit, what) LS_OPTION_##section##_##key,
#include "config/options.def"
#undef X
    LS_OPTION_COUNT
};

// cfg->train_micro_batch is the value of option train.micro_batch.
typedef struct {
#define X(section, key, TYPE, def, min, max, unit, what) LS_OPTION_C_##TYPE section##_##key LS_OPTION_ARRAY_##TYPE;
#include "config/options.def"
#undef X
    char file[LS_TEXT_BYTES];   // path of the configuration file, as given
    char folder[LS_TEXT_BYTES]; // folder of `file`, or ""; relative paths in the file start there
    int line[LS_OPTION_COUNT];  // origin of each value: line of the file, 0 for the default, -1 for --set
} ls_config;

// The words of CHOICE options, in the order of their values. tests/config/test_config.c checks them against
// options.def.
enum { LS_RESUME_OFF, LS_RESUME_AUTO, LS_RESUME_MUST }; // run.resume
enum {
    LS_DEVICE_TYPE_AUTO,
    LS_DEVICE_TYPE_CPU,
    LS_DEVICE_TYPE_REF,
#define PLUGIN(NAME, name, vendor, needs) LS_DEVICE_TYPE_##NAME,
#include "config/plugins.def"
};
enum {
#define X(NAME, ...) LS_DATASET_##NAME,
#include "config/datasets.def"
    LS_DATASET_COUNT
};
enum { LS_CROSS_CHECK_STOP, LS_CROSS_CHECK_CONTINUE };          // run.cross_check_action
enum { LS_AUTOTUNE_AUTO, LS_AUTOTUNE_TRUE, LS_AUTOTUNE_FALSE }; // device.autotune
enum { LS_PRECISION_FP32, LS_PRECISION_BF16, LS_PRECISION_FP16 };
enum { LS_RECOMPUTE_OFF, LS_RECOMPUTE_BLOCKS };
enum { LS_STRETCH_ORIGINAL, LS_STRETCH_MATCH_RMS_ADAMW, LS_STRETCH_OFF }; // optimizer.stretch
enum { LS_QUANTISE_OFF, LS_QUANTISE_INT8 };                               // train.quantise
enum { LS_LOSS_MEAN, LS_LOSS_SUM };
enum { LS_AVERAGE_OFF, LS_AVERAGE_EMA, LS_AVERAGE_LOOKAHEAD };      // average.kind
enum { LS_EVAL_TEST, LS_EVAL_VALIDATION };                          // eval.split
enum { LS_BROKEN_ERROR, LS_BROKEN_SKIP };                           // data.broken
enum { LS_RESIZE_STRETCH, LS_RESIZE_CROP };                         // data.resize
enum { LS_DECODER_AUTO, LS_DECODER_STB, LS_DECODER_LIBJPEG_TURBO }; // data.decoder
enum { LS_BALANCE_OFF, LS_BALANCE_CLASSES };                        // data.balance
enum { LS_LOADER_STREAM, LS_LOADER_RESIDENT };                      // data.loader
enum {
#define X(NAME, word, what, kept, reads) LS_OPTIMIZER_##NAME,
#include "config/optimizers.def"
    LS_OPTIMIZER_COUNT
};
enum {
#define X(NAME, name, word, what, reads) LS_SCHEDULE_##NAME,
#include "config/schedules.def"
    LS_SCHEDULE_COUNT
};
enum { LS_TTA_OFF, LS_TTA_FLIP, LS_TTA_FLIP_SHIFT }; // eval.tta
enum { LS_PROGRESS_AUTO, LS_PROGRESS_BAR, LS_PROGRESS_LINES, LS_PROGRESS_OFF };
enum { // dist.backend
    LS_BACKEND_AUTO,
#define COLLECTIVE(NAME, name, plugin, network_sums) LS_BACKEND_##NAME,
#include "config/plugins.def"
    LS_BACKEND_MPI,
    LS_BACKEND_SELF
};
enum { LS_REDUCE_DTYPE_FP32, LS_REDUCE_DTYPE_BF16 };           // dist.reduce_dtype
enum { LS_HIERARCHY_AUTO, LS_HIERARCHY_ON, LS_HIERARCHY_OFF }; // dist.hierarchy

void ls_config_defaults(ls_config *cfg);
// Reads options; sets file and folder. path: a file, or the name of a shipped configuration: "mnist"
// (config/shipped.h).
LS_CHECKED ls_status ls_config_read_file(ls_config *cfg, const char *path);
LS_CHECKED ls_status ls_config_set(ls_config *cfg, const char *assignment); // "section.key=value", from --set
// Writes the start of a message about option `index` into dst: "configs/x.ini:12: train.epochs = 5",
// "--set train.epochs=5" or "train.epochs = 5 (default)". LS_TEXT_BYTES * 3 bytes are always enough. Returns dst.
char *ls_config_where(const ls_config *cfg, int index, char *dst, size_t bytes);
// Writes the path in a TEXT option into dst: as given if --set gave it or it is absolute, else with the configuration
// file's folder before it. LS_USAGE if it does not fit.
LS_CHECKED ls_status ls_config_path(const ls_config *cfg, int index, char *dst, size_t bytes);
// Writes the path of the network file in model.file into path: found as by ls_config_path, with or without models/ and
// .ini, or else a shipped network. LS_USAGE, with a list of the shipped networks, if there is no such file.
LS_CHECKED ls_status ls_config_network(const ls_config *cfg, char *path, size_t bytes);
// Refuses combinations of options that are impossible for every number of ranks, and texts that break their own syntax.
// ls_batches_plan checks the combinations that depend on the number of ranks.
LS_CHECKED ls_status ls_config_check(const ls_config *cfg);
// Like ls_config_check, but skips the checks of eval.tta and of augmentation, mean, std, channels, cache and drop_last.
LS_CHECKED ls_status ls_config_check_without_data(const ls_config *cfg);
// Returns the shape of a picture as far as the options determine it. LS_USAGE if an option is not a valid shape.
LS_CHECKED ls_status ls_config_picture_shape(const ls_config *cfg, ls_chw *shape);
// Lists options that were set but have no effect beside the others in dst: "optimizer.momentum (only with
// optimizer.kind = sgd); ...", or "". Returns dst.
char *ls_config_unused(const ls_config *cfg, char *dst, size_t bytes);
// Whether the option was set by hand: by --set, or in a file that is not a run's own record of every option.
int ls_config_asks_for(const ls_config *cfg, int option);
// Whether train.sync_batchnorm has an effect. With one rank it changes nothing.
static inline int ls_config_syncs_norm(const ls_config *cfg, int world_size) {
    return cfg->train_sync_batchnorm && world_size > 1;
}
// Whether pictures have several labels each, which a file names.
static inline int ls_config_several_labels(const ls_config *cfg) {
    return cfg->data_dataset == LS_DATASET_FOLDER && cfg->data_labels[0] != 0;
}
// Returns the type in which activations and the working weights are stored, according to train.precision.
static inline ls_dtype ls_config_storage(const ls_config *cfg) {
    return cfg->train_precision == LS_PRECISION_BF16   ? LS_BF16
           : cfg->train_precision == LS_PRECISION_FP16 ? LS_F16
                                                       : LS_F32;
}
// Returns the loss scale at the start of an fp16 run: loss_scale.initial, or if this is auto, 65536 for the mean loss,
// and 2^20 / train.global_batch, rounded down to a power of two, for the summed loss, whose gradients are larger. Both
// values for auto are kept within loss_scale.minimum and loss_scale.maximum.
double ls_config_first_loss_scale(const ls_config *cfg);
// Whether model.override contains `word` (classes, image_size, mean, std or resize), so that this property of a weights
// file is not used.
int ls_config_overrides(const ls_config *cfg, const char *word);
ls_augmentation ls_config_augmentation(const ls_config *cfg); // options of section data for training pictures
const char *ls_config_choice(const char *name, int value);    // word of a value: ("train.precision", 1) -> "bf16"
// Whether a chosen optimizer (also of a parameter group) or the chosen schedule reads option `index`. Returns 1 for an
// option that does not depend on these choices.
int ls_config_has_effect(const ls_config *cfg, int index);
// Returns `value` of option `index`; for auto (NAN) the number that auto means for the optimizer `kind`, or 0 if this
// optimizer does not read the option.
double ls_config_of_kind(int index, double value, int kind);
// Writes the effective configuration as an INI file that reads back to the same values. with_help adds units, ranges
// and explanations as comments; configs/reference.ini is written in this way from the defaults.
void ls_config_write(const ls_config *cfg, FILE *file, int with_help);
// Prints the text of `train help options` for all options (which: NULL), a section or "section.key". Returns the number
// of options printed.
int ls_config_list(FILE *file, const char *which);
// Writes a hint about an unknown "section.key" or "key" into dst (LS_HINT_BYTES of config/aliases.h): "; did you mean
// optimizer.lr?", "; NOTE" or "". Returns dst.
char *ls_config_hint(const char *name, char *dst);
// Returns the option that was probably meant, such as "optimizer.lr"; NULL: there is no candidate.
const char *ls_config_meant(const char *name);
// Returns the first CHOICE option that has `word`, such as "optimizer.kind" for "adamw", in any spelling or in another
// program's words; NULL if there is no such option. *ours: our word.
const char *ls_config_option_of_word(const char *word, const char **ours);
// Writes the words that option `index` accepts into dst, such as "true false"; "" if its value is not a word. Returns
// dst.
char *ls_config_words(int index, char *dst, size_t bytes);
// Writes the text of one option's value into dst, as ls_config_write prints it. Returns 0 if there is no option
// `index`. Used to compare configurations between ranks: index 0, 1, 2, ...
int ls_config_value(const ls_config *cfg, int index, const char **name, char *dst, size_t bytes);
int ls_config_is_text(int index); // whether the option has type TEXT; such a value may contain commas

#endif
