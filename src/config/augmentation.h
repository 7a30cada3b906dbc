// augmentation.h - the options of augmentation (ls_augmentation) and the random values of one sample
// (ls_augment_sample). Both structs are made from augmentations.def and are passed on whole: options -> draw
// (data/loader.h) -> operator (device/op_augment.h).
#ifndef LS_CONFIG_AUGMENTATION_H
#define LS_CONFIG_AUGMENTATION_H

#include "base/shape.h"

// The values of data.pad_mode and data.flip, in the order of the options' words.
typedef enum { LS_PAD_ZERO, LS_PAD_REFLECT } ls_pad_mode;
typedef enum { LS_FLIP_NEVER, LS_FLIP_RANDOM, LS_FLIP_ALTERNATING } ls_flip_mode;

// The changes of TrivialAugment, in torchvision's order. Up to sharpness, all but the first have a sign.
typedef enum {
    LS_TRIVIAL_IDENTITY,
    LS_TRIVIAL_SHEAR_X,
    LS_TRIVIAL_SHEAR_Y,
    LS_TRIVIAL_TRANSLATE_X,
    LS_TRIVIAL_TRANSLATE_Y,
    LS_TRIVIAL_ROTATE,
    LS_TRIVIAL_BRIGHTNESS,
    LS_TRIVIAL_COLOR,
    LS_TRIVIAL_CONTRAST,
    LS_TRIVIAL_SHARPNESS,
    LS_TRIVIAL_POSTERIZE,
    LS_TRIVIAL_SOLARIZE,
    LS_TRIVIAL_AUTOCONTRAST,
    LS_TRIVIAL_EQUALIZE,
    LS_TRIVIAL_COUNT
} ls_trivial_kind;

// A strength is 0 to LS_TRIVIAL_STRONGEST, with a sign for some. Pictures have 1 or LS_TRIVIAL_CHANNELS_MAX channels.
enum { LS_TRIVIAL_STRONGEST = 30, LS_TRIVIAL_CHANNELS_MAX = 3 };

#define LS_AUGMENTATION_INT int
#define LS_AUGMENTATION_BOOL int
#define LS_AUGMENTATION_CHOICE int
#define LS_AUGMENTATION_REAL float

// Field `flip` is option data.flip, and so on. All zero: pictures stay unchanged, as in evaluation.
typedef struct {
#define OPTION(key, TYPE, def, min, max, unit, what) LS_AUGMENTATION_##TYPE key;
#include "config/augmentations.def"
} ls_augmentation;

// The random values of one sample, sent to the device with the pixels. Values of an augmentation that is off are zero.
typedef struct {
#define FIELD(type, name, most) type name;
#include "config/augmentations.def"
} ls_augment_sample;

static inline int ls_augment_crops(const ls_augmentation *a) {
    return a->crop_scale > 0 && a->crop_scale < 1;
}

static inline int ls_augment_mixes(const ls_augmentation *a) {
    return a->mixup > 0 || a->cutmix > 0;
}

// Returns the shorter side of a picture.
static inline int ls_augment_side(ls_chw picture) {
    return picture.h < picture.w ? picture.h : picture.w;
}

#endif
