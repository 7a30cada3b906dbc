// op_cases_update.h - cases of the operators at the ends of a step:
// augment, loss, and the flat operators of the update.
#ifndef TESTS_DEVICE_OP_CASES_UPDATE_H
#define TESTS_DEVICE_OP_CASES_UPDATE_H

#include "op_cases.h"

// --- augment -------------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw shape;
    ls_augmentation augmentation;
    int pictures; // indexed: of the whole set
} augment_rows[] = {
    { "fashion-mnist", { 4, 1, 28, 28 }, { 0 }, 0 },
    { "cifar zero", { 4, 3, 32, 32 }, { .pad = 4 }, 0 },
    { "cifar reflect", { 4, 3, 32, 32 }, { .pad = 4, .pad_mode = LS_PAD_REFLECT }, 0 },
    { "odd zero", { 3, 5, 7, 9 }, { .pad = 6 }, 0 },
    { "odd reflect", { 3, 5, 7, 9 }, { .pad = 6, .pad_mode = LS_PAD_REFLECT }, 0 },
    { "padding beyond the picture", { 5, 1, 3, 2 }, { .pad = 9 }, 0 },
    { "many channels", { 2, 17, 4, 5 }, { .pad = 1, .pad_mode = LS_PAD_REFLECT }, 0 },
    { "one pixel", { 1, 1, 1, 1 }, { .pad_mode = LS_PAD_REFLECT }, 0 },
    { "indexed", { 4, 3, 9, 7 }, { .pad = 2 }, 11 },
    { "indexed, one picture", { 5, 1, 28, 28 }, { 0 }, 1 },
    { "cutout", { 7, 3, 32, 32 }, { .pad = 4, .pad_mode = LS_PAD_REFLECT, .cutout = 16 }, 0 },
    { "cutout, odd, many channels", { 6, 19, 7, 9 }, { .pad = 1, .cutout = 3 }, 0 },
    { "cutout of one pixel, indexed", { 4, 1, 5, 6 }, { .cutout = 1 }, 3 },
    { "cutout as large as the picture", { 5, 2, 4, 6 }, { .cutout = 4 }, 0 },
    { "random erasing", { 7, 3, 32, 32 }, { .pad = 2, .brightness = 0.1F, .erase = 0.5F }, 0 },
    { "random erasing and cutout, many channels, indexed", { 6, 19, 7, 9 }, { .cutout = 3, .erase = 1 }, 5 },
    { "brightness", { 6, 3, 8, 7 }, { .pad = 2, .brightness = 0.1399F }, 0 },
    { "contrast, many channels", { 6, 19, 5, 4 }, { .contrast = 1 }, 0 },
    { "jitter and cutout, indexed", { 7, 3, 32, 32 },
        { .pad = 2, .pad_mode = LS_PAD_REFLECT, .cutout = 8, .brightness = 0.1399F, .contrast = 0.1308F }, 9 },
    { "resized crop", { 8, 3, 32, 32 }, { .crop_scale = 0.08F }, 0 },
    { "resized crop, odd, indexed", { 7, 2, 9, 13 }, { .pad = 3, .crop_scale = 0.3F }, 5 },
    { "resized crop and all others", { 6, 19, 12, 7 },
        { .pad = 2, .pad_mode = LS_PAD_REFLECT, .cutout = 3, .brightness = 0.2F, .contrast = 0.4F, .crop_scale = 0.1F },
        0 },
    { "mixup", { 5, 3, 8, 7 }, { .pad = 1, .mixup = 1 }, 0 },
    { "mixup with itself", { 1, 3, 4, 4 }, { .mixup = 1 }, 0 },
    { "cutmix", { 6, 3, 16, 15 }, { .pad = 1, .cutmix = 1 }, 0 },
    { "mixup, cutmix and all others, indexed", { 9, 17, 11, 8 },
        { .pad = 2,
            .cutout = 3,
            .brightness = 0.2F,
            .contrast = 0.4F,
            .crop_scale = 0.1F,
            .mixup = 1,
            .cutmix = 1,
            .erase = 1 },
        4 },
};

// A range of a side: all of it, a pixel at either end, then anything.
static inline void case_rectangle(op_case *c, int n, int size, uint16_t *first, uint16_t *length) {
    *length = (uint16_t)(n == 0 ? size : n < 3 ? 1 : 1 + (int)(c->next_random++ * 7 % (uint32_t)size));
    *first = (uint16_t)(n == 1 ? size - 1 : n < 3 ? 0 : (int)(c->next_random++ * 5 % (uint32_t)(size - *length + 1)));
}

static inline void augment_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof augment_rows / sizeof *augment_rows; i++) {
        ls_nchw s = augment_rows[i].shape;
        op_case *c = case_new(LS_OP_AUGMENT, storage, augment_rows[i].name, "");
        c->desc.attr.augment =
            (ls_augment_attr){ s, storage, augment_rows[i].augmentation, augment_rows[i].pictures > 0 };
        int pictures = augment_rows[i].pictures ? augment_rows[i].pictures : s.n;
        size_t picture = (size_t)s.c * (size_t)s.h * (size_t)s.w;
        op_arg *pixels = case_raw(c, LS_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)pictures * picture, 0);
        for (size_t k = 0; k < pixels->count; k++) ((uint8_t *)pixels->host)[k] = (uint8_t)(128 + 128 * case_random(c));
        op_arg *sample = case_raw(c, LS_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)s.n * sizeof(ls_augment_sample), 0);
        uint32_t places = 2 * (uint32_t)augment_rows[i].augmentation.pad + 1;
        for (int n = 0; n < s.n; n++) { // the corners first, then anywhere
            uint32_t dy = n == 0 ? 0 : n == 1 ? places - 1 : c->next_random++ * 7 % places;
            uint32_t dx = n == 0 ? places - 1 : n == 1 ? 0 : c->next_random++ * 5 % places;
            uint32_t cut_y = n == 0 ? 0 : n == 1 ? (uint32_t)s.h - 1 : c->next_random++ * 7 % (uint32_t)s.h;
            uint32_t cut_x = n == 0 ? (uint32_t)s.w - 1 : n == 1 ? 0 : c->next_random++ * 5 % (uint32_t)s.w;
            uint32_t brightness = n == 0 ? 0 : n == 1 ? 65535 : c->next_random++ * 40503 % 65536;
            uint32_t contrast = n == 0 ? 65535 : n == 1 ? 0 : c->next_random++ * 30011 % 65536;
            ls_augment_sample *drawn = &((ls_augment_sample *)sample->host)[n];
            *drawn = (ls_augment_sample){ .dy = (uint8_t)dy,
                .dx = (uint8_t)dx,
                .flip = n % 2 == 1,
                .cut_y = (uint16_t)cut_y,
                .cut_x = (uint16_t)cut_x,
                .brightness = (uint16_t)brightness,
                .contrast = (uint16_t)contrast };
            if (ls_augment_crops(&augment_rows[i].augmentation) && n != 3) { // one without
                case_rectangle(c, n, s.h, &drawn->crop_y, &drawn->crop_h);
                case_rectangle(c, n, s.w, &drawn->crop_x, &drawn->crop_w);
            }
            if (augment_rows[i].augmentation.erase > 0 && n != 2) { // one without
                case_rectangle(c, n, s.h, &drawn->erase_y, &drawn->erase_h);
                case_rectangle(c, n, s.w, &drawn->erase_x, &drawn->erase_w);
            }
            if (augment_rows[i].augmentation.cutmix > 0 && (augment_rows[i].augmentation.mixup == 0 || n % 2)) {
                case_rectangle(c, n, s.h, &drawn->mix_y, &drawn->mix_h);
                case_rectangle(c, n, s.w, &drawn->mix_x, &drawn->mix_w);
            }
            if (ls_augment_mixes(&augment_rows[i].augmentation) && n != 4)
                drawn->mix = (uint16_t)(n == 0 ? 65535 : n == 1 ? 1 : c->next_random++ * 40503 % 65536);
        }
        case_raw(c, LS_AUGMENT_TABLE, USE_IN, LS_F32, (size_t)s.c * 256, 0);
        case_activation(c, LS_AUGMENT_DST, USE_OUT, s, 0)->relative = 0;
        if (augment_rows[i].pictures) {
            int32_t *index = case_raw(c, LS_AUGMENT_INDEX, USE_IN, LS_I32, (size_t)s.n, 0)->host;
            for (int n = 0; n < s.n; n++) index[n] = (pictures - 1 + n * 7) % pictures; // the last one first
        }
        visit_and_free(visit, context, c);
    }
}

// --- TrivialAugment ------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_chw shape;
    int pictures; // indexed: of the whole set
    int flat;     // pictures of one value
} trivial_rows[] = {
    { "cifar", { 3, 32, 32 }, 0, 0 },
    { "fashion-mnist", { 1, 28, 28 }, 0, 0 },
    { "odd, indexed", { 3, 17, 22 }, 5, 0 },
    { "gray, odd, indexed", { 1, 9, 7 }, 3, 0 },
    { "two rows", { 3, 2, 9 }, 0, 0 },
    { "one pixel", { 3, 1, 1 }, 0, 0 },
    { "one value", { 3, 6, 5 }, 0, 1 },
};

// Every kind of change at the ends, in the middle and next to it; a change without a sign has no negative strength.
static inline int trivial_samples(ls_augment_sample *drawn) {
    static const int strengths[] = { -30, -10, -7, 0, 1, 8, 15, 20, 30 };
    int n = 0;
    for (int kind = 0; kind < LS_TRIVIAL_COUNT; kind++)
        for (size_t k = 0; k < sizeof strengths / sizeof *strengths; k++)
            if (strengths[k] >= 0 || kind <= LS_TRIVIAL_SHARPNESS)
                drawn[n++] = (ls_augment_sample){ .change = (uint8_t)kind,
                    .strength = (uint8_t)(LS_TRIVIAL_STRONGEST + strengths[k]) };
    return n;
}

static inline void trivial_cases(ls_dtype storage, case_visit *visit, void *context) {
    ls_augment_sample drawn[LS_TRIVIAL_COUNT * 9];
    if (storage != LS_F32) return; // the operator has no storage type
    for (size_t i = 0; i < sizeof trivial_rows / sizeof *trivial_rows; i++) {
        const ls_nchw s = ls_batch_of(trivial_samples(drawn), trivial_rows[i].shape);
        const int pictures = trivial_rows[i].pictures ? trivial_rows[i].pictures : s.n;
        op_case *c = case_new(LS_OP_TRIVIAL_AUGMENT, storage, trivial_rows[i].name, "");
        c->desc.attr.augment = (ls_augment_attr){ s, LS_F32, { .trivial_augment = 1 }, trivial_rows[i].pictures > 0 };
        const size_t picture = (size_t)ls_chw_count(trivial_rows[i].shape);
        op_arg *pixels = case_raw(c, LS_TRIVIAL_AUGMENT_PIXELS, USE_IN, LS_U8, (size_t)pictures * picture, 0);
        for (size_t k = 0; k < pixels->count; k++) { // from 20 to 220, so that contrast can grow
            const float value = trivial_rows[i].flat ? 77 : 120 + 100 * case_random(c);
            ((uint8_t *)pixels->host)[k] = (uint8_t)value;
        }
        memcpy(case_raw(c, LS_TRIVIAL_AUGMENT_SAMPLE, USE_IN, LS_U8, (size_t)s.n * sizeof *drawn, 0)->host, drawn,
            (size_t)s.n * sizeof *drawn);
        case_raw(c, LS_TRIVIAL_AUGMENT_DST, USE_OUT, LS_U8, (size_t)ls_nchw_count(s), 0);
        if (trivial_rows[i].pictures) {
            int32_t *index = case_raw(c, LS_TRIVIAL_AUGMENT_INDEX, USE_IN, LS_I32, (size_t)s.n, 0)->host;
            for (int n = 0; n < s.n; n++) index[n] = (pictures - 1 + n * 7) % pictures;
        }
        visit_and_free(visit, context, c);
    }
}

// --- resize --------------------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw src;
    int p, q;
} resize_rows[] = {
    { "32 to 24", { 3, 3, 32, 32 }, 24, 24 },
    { "32 to 28", { 2, 3, 32, 32 }, 28, 28 },
    { "28 to 20, one channel", { 3, 1, 28, 28 }, 20, 20 },
    { "larger, odd", { 2, 5, 7, 9 }, 13, 10 },
    { "many channels", { 2, 19, 9, 5 }, 4, 7 },
    { "to less than half", { 2, 4, 17, 16 }, 3, 5 },
    { "to a pixel", { 2, 3, 6, 4 }, 1, 1 },
    { "of a row", { 1, 2, 1, 11 }, 4, 7 },
    { "the same size", { 2, 3, 8, 6 }, 8, 6 },
};

// The same bits on every device: no tolerance.
static inline void resize_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof resize_rows / sizeof *resize_rows; i++) {
        const ls_nchw src = resize_rows[i].src, dst = { src.n, src.c, resize_rows[i].p, resize_rows[i].q };
        op_case *c = case_new(LS_OP_RESIZE, storage, resize_rows[i].name, "");
        c->desc.attr.resize = (ls_resize_attr){ src, dst, storage };
        case_activation(c, LS_RESIZE_SRC, USE_IN, src, 0);
        case_activation(c, LS_RESIZE_DST, USE_OUT, dst, 0)->relative = 0;
        visit_and_free(visit, context, c);
    }
}

// --- loss ----------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int samples, classes, count;
    float smoothing;
    int training;
    // 1: the logit of the second sample's label is -infinity: its loss is infinite, its gradient is not a number.
    // 2: with several labels a picture, the logit of a label of the first sample is infinity: its loss is 0.
    int infinite;
    int mixed, weighted;
    float mean_of, scale, teacher_share;
    int several;
    float focal_gamma;
} loss_rows[] = {
    { "10 classes", 16, 10, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "10 classes, smoothed", 16, 10, 16, 0.1F, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "short batch", 16, 10, 5, 0.1F, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "empty batch", 4, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "100 classes", 7, 100, 7, 0.2F, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "17 classes, inference", 9, 17, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "one class", 3, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "1000 classes", 2, 1000, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "many samples", 600, 10, 590, 0.1F, 1, 0, 0, 0, 0, 0, 0, 0, 0 },
    { "an infinite loss", 4, 10, 4, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0 },
    { "an infinite loss, smoothed", 4, 10, 4, 0.1F, 1, 1, 0, 0, 0, 0, 0, 0, 0 },
    { "10 classes, mixed", 16, 10, 16, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "10 classes, mixed and smoothed", 17, 10, 17, 0.1F, 1, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "1000 classes, mixed", 3, 1000, 3, 0.1F, 1, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "an infinite loss, mixed", 4, 10, 4, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0 },
    { "10 classes, weighted", 16, 10, 16, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0 },
    { "10 classes, weighted and smoothed", 9, 10, 7, 0.1F, 1, 0, 0, 1, 0, 0, 0, 0, 0 },
    { "1000 classes, weighted, mixed and smoothed", 3, 1000, 3, 0.1F, 1, 0, 1, 1, 0, 0, 0, 0, 0 },
    { "an infinite loss, weighted", 4, 10, 4, 0.1F, 1, 1, 0, 1, 0, 0, 0, 0, 0 },
    { "10 classes, of a mean", 16, 10, 16, 0, 1, 0, 0, 0, 96, 0, 0, 0, 0 },
    { "10 classes, scaled", 16, 10, 13, 0, 1, 0, 0, 0, 0, 0.125F, 0, 0, 0 },
    { "17 classes, scaled by a negative number and smoothed", 9, 17, 9, 0.1F, 1, 0, 0, 0, 0, -1.5F, 0, 0, 0 },
    { "100 classes, scaled, weighted, mixed and smoothed", 7, 100, 6, 0.1F, 1, 0, 1, 1, 96, 0.111F, 0, 0, 0 },
    { "an infinite loss, scaled", 4, 10, 4, 0.1F, 1, 1, 0, 0, 0, 0.125F, 0, 0, 0 },
    { "10 classes, smoothed, with a teacher", 16, 10, 13, 0.1F, 1, 0, 0, 0, 96, 0, 0.3F, 0, 0 },
    { "10 classes, of a teacher alone", 5, 10, 5, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0 },
    { "an infinite loss, of a teacher alone", 4, 10, 4, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0 },
    { "10 classes, focal", 16, 10, 13, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2 },
    { "100 classes, focal, scaled, weighted, mixed and smoothed", 7, 100, 7, 0.1F, 1, 0, 1, 1, 96, 0.5F, 0, 0, 1.5F },
    { "17 classes, focal, of a small exponent", 9, 17, 9, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0.5F },
    { "one class, focal", 3, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.5F },
    { "an infinite loss, focal", 4, 10, 4, 0.1F, 1, 1, 0, 0, 0, 0, 0, 0, 2 },
    { "10 labels", 16, 10, 13, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0 },
    { "17 labels, inference", 9, 17, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0 },
    { "one label", 3, 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0 },
    { "1000 labels, smoothed", 2, 1000, 2, 0.1F, 1, 0, 0, 0, 0, 0, 0, 1, 0 },
    { "many samples of 3 labels", 600, 3, 590, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0 },
    { "100 labels, scaled, weighted, mixed and smoothed", 7, 100, 7, 0.1F, 1, 0, 1, 1, 96, -0.5F, 0, 1, 0 },
    { "10 labels, focal", 16, 10, 13, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2 },
    { "10 labels, focal, scaled, weighted, mixed and smoothed", 7, 10, 7, 0.1F, 1, 0, 1, 1, 96, 4, 0, 1, 0.5F },
    { "an infinite loss, labels", 4, 10, 4, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0 },
    { "an infinite loss, labels, focal", 4, 10, 4, 0.1F, 1, 1, 0, 0, 0, 0, 0, 1, 2 },
    { "a certain label", 4, 10, 4, 0, 1, 2, 0, 0, 0, 0, 0, 1, 0 },
    { "a certain label, focal", 4, 10, 4, 0, 1, 2, 0, 0, 0, 0, 0, 1, 2 },
};

// Rows of labels, about half of them 1. Row k has label k. The first sample's logits get the right signs.
static inline void loss_sets(op_case *c, int classes, int first_label, float *logits) {
    uint8_t *sets = case_raw(c, LS_LOSS_SETS, USE_IN, LS_U8, (size_t)classes * (size_t)classes, 0)->host;
    for (int i = 0; i < classes * classes; i++)
        sets[i] = i / classes == i % classes || (unsigned)i * 40503U % 65536 < 32768;
    const float sign = c->desc.attr.loss.scale < 0 ? -1 : 1;
    for (int k = 0; k < classes; k++)
        logits[k] = (sets[first_label * classes + k] ? sign : -sign) * (0.5F + fabsf(logits[k]));
}

// What a loss and a head have in common. tolerance: of a sample's loss.
static inline void loss_records(op_case *c, int count, double tolerance) {
    const ls_loss_attr *a = &c->desc.attr.loss;
    const int samples = a->logits.n, classes = a->logits.c;
    op_arg *labels = case_raw(c, LS_LOSS_LABELS, USE_IN, LS_I32, (size_t)samples, 0);
    for (int n = 0; n < samples; n++)
        ((int32_t *)labels->host)[n] = n >= count ? -1 : n == 0 && classes > 4 ? 2 : n * 7 % classes;
    case_micro(c, LS_LOSS_MICRO, count);
    case_state(c, LS_LOSS_STATE, USE_IN);
    op_arg *result = case_set(c, LS_LOSS_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result));
    *(ls_micro_result *)result->host = (ls_micro_result){ 2.5, 3, 7, 1 };
    result->absolute = samples * tolerance;
    if (a->weighted) { // from 0 to 2, some of them 0
        float *weights = case_raw(c, LS_LOSS_WEIGHTS, USE_IN, LS_F32, (size_t)classes, 0)->host;
        for (int k = 0; k < classes; k++) weights[k] = k % 5 == 3 ? 0 : weights[k] + 1;
        weights[7 % classes] = 0.5F; // of the one that is infinite
        result->absolute *= 2;
    }
    if (!a->mixed) return;
    op_arg *sample = case_raw(c, LS_LOSS_SAMPLE, USE_IN, LS_U8, (size_t)samples * sizeof(ls_augment_sample), 0);
    for (int n = 0; n < samples; n++)
        ((ls_augment_sample *)sample->host)[n] =
            (ls_augment_sample){ .mix = (uint16_t)(n == 0   ? 0
                                                   : n == 1 ? 65535
                                                            : c->next_random++ * 40503 % 65536) };
}

static inline void loss_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof loss_rows / sizeof *loss_rows; i++) {
        int samples = loss_rows[i].samples, classes = loss_rows[i].classes;
        op_case *c = case_new(LS_OP_LOSS, storage, loss_rows[i].name, "");
        const ls_loss_attr a = { .logits = { samples, classes, 1, 1 },
            .smoothing = loss_rows[i].smoothing,
            .training = loss_rows[i].training,
            .storage = storage,
            .mixed = loss_rows[i].mixed,
            .weighted = loss_rows[i].weighted,
            .mean_of = loss_rows[i].mean_of,
            .scale = loss_rows[i].scale,
            .teacher_share = loss_rows[i].teacher_share,
            .several = loss_rows[i].several,
            .focal_gamma = loss_rows[i].focal_gamma };
        c->desc.attr.loss = a;
        op_arg *logits = case_activation(c, LS_LOSS_LOGITS, USE_IN, a.logits, 0);
        fill_uniform(c, logits, -8, 8);
        float *first = logits->host; // a tie at the top: the lowest index wins
        if (classes > 4) first[2] = first[4] = 9;
        if (a.several) loss_sets(c, classes, classes > 4 ? 2 : 0, first);
        if (loss_rows[i].infinite == 1) first[classes + 7 % classes] = -INFINITY;
        if (loss_rows[i].infinite == 2) first[2] = INFINITY;
        // fp32 exponentials of arguments down to -17, whose rounding is 17 * 2^-24, and a sum over the classes
        const double larger = fmax(1, fabs((double)a.scale));
        loss_records(c, loss_rows[i].count, larger * EPS32 * (32 + classes));
        // gradients are up to the loss scale, 1024
        if (a.training)
            case_activation(
                c, LS_LOSS_GRAD_LOGITS, USE_OUT, a.logits, larger * (a.weighted ? 3 : 1) * 1024 * EPS32 * 32);
        visit_and_free(visit, context, c);
    }
}

// --- the teacher's part of the loss ----------------------------------------------------------------

enum { NOTHING_ODD, STUDENT_INFINITE, BEFORE_NAN, TEACHER_CERTAIN, TEACHER_NAN };

static const struct {
    const char *name;
    int samples, classes, count;
    float temperature, share, mean_of;
    // of the second sample: class 1 of the network is -infinity; the loss before was not finite; class 1 of the teacher
    // is -infinity, and so is the network's; the teacher's output is not a number
    int odd;
} distill_rows[] = {
    { "10 classes", 16, 10, 16, 4, 0.5F, 0, NOTHING_ODD },
    { "10 classes, sharp, short batch", 16, 10, 5, 0.5F, 0.25F, 0, NOTHING_ODD },
    { "10 classes, of a mean", 16, 10, 13, 2, 1, 96, NOTHING_ODD },
    { "no share", 4, 10, 4, 2, 0, 0, NOTHING_ODD },
    { "empty batch", 4, 10, 0, 2, 0.5F, 0, NOTHING_ODD },
    { "one class", 3, 1, 3, 1, 0.5F, 0, NOTHING_ODD },
    { "3 classes", 37, 3, 36, 1, 0.7F, 0, NOTHING_ODD },
    { "17 classes", 9, 17, 8, 20, 0.5F, 0, NOTHING_ODD },
    { "100 classes", 7, 100, 7, 3, 0.9F, 0, NOTHING_ODD },
    { "1000 classes", 2, 1000, 2, 1, 0.5F, 0, NOTHING_ODD },
    { "many samples", 600, 10, 590, 4, 0.5F, 0, NOTHING_ODD },
    { "an infinite loss", 4, 10, 4, 2, 0.5F, 0, STUDENT_INFINITE },
    { "an infinite loss before", 4, 10, 4, 2, 0.5F, 0, BEFORE_NAN },
    { "an impossible class", 4, 10, 4, 2, 0.5F, 0, TEACHER_CERTAIN },
    { "a teacher of no numbers", 4, 10, 4, 2, 0.5F, 0, TEACHER_NAN },
};

// The gradient before: of the loss, up to the loss scale.
static inline void distill_values(op_case *c, int odd, float *logits, float *teacher, float *grad) {
    const int classes = c->desc.attr.distill.logits.c;
    for (int n = 0; n < c->desc.attr.distill.logits.n; n++)
        for (int k = 0; k < classes; k++) grad[n * classes + k] *= odd == BEFORE_NAN && n == 1 ? NAN : 1024;
    if (odd == STUDENT_INFINITE || odd == TEACHER_CERTAIN) logits[classes + 1] = -INFINITY;
    if (odd == TEACHER_CERTAIN) teacher[classes + 1] = -INFINITY;
    if (odd == TEACHER_NAN || odd == BEFORE_NAN) teacher[classes + 1] = NAN;
}

static inline void distill_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof distill_rows / sizeof *distill_rows; i++) {
        const int samples = distill_rows[i].samples, classes = distill_rows[i].classes;
        op_case *c = case_new(LS_OP_DISTILL, storage, distill_rows[i].name, "");
        const ls_distill_attr a = { .logits = { samples, classes, 1, 1 },
            .temperature = distill_rows[i].temperature,
            .share = distill_rows[i].share,
            .storage = storage,
            .mean_of = distill_rows[i].mean_of };
        c->desc.attr.distill = a;
        op_arg *logits = case_activation(c, LS_DISTILL_LOGITS, USE_IN, a.logits, 0);
        op_arg *teacher = case_activation(c, LS_DISTILL_TEACHER, USE_IN, a.logits, 0);
        // fp32 exponentials of arguments down to -16 / T, and a sum over the classes
        const double t = (double)a.temperature, exact = EPS32 * (32 / fmin(t, 1) + classes);
        op_arg *grad =
            case_activation(c, LS_DISTILL_GRAD_LOGITS, USE_UPDATE, a.logits, t * 1024 * EPS32 * 32 / fmin(t, 1));
        fill_uniform(c, logits, -8, 8);
        fill_uniform(c, teacher, -8, 8);
        fill_uniform(c, grad, -1, 1);
        distill_values(c, distill_rows[i].odd, logits->host, teacher->host, grad->host);
        case_micro(c, LS_DISTILL_MICRO, distill_rows[i].count);
        case_state(c, LS_DISTILL_STATE, USE_IN);
        op_arg *result = case_set(c, LS_DISTILL_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result));
        *(ls_micro_result *)result->host = (ls_micro_result){ 2.5, 3, 7, 1 };
        result->absolute = samples * t * t * 16 / fmin(t, 1) * exact;
        visit_and_free(visit, context, c);
    }
}

// --- the head of a network -------------------------------------------------------------------------

static const struct {
    const char *name;
    ls_nchw src;
    int classes, count;
    int max_pool, has_bias;
    float smoothing, scale, mean_of;
    int infinite; // the bias of the second sample's label is -infinity
    int mixed, weighted;
} head_rows[] = {
    { "resnet20", { 4, 64, 8, 8 }, 10, 4, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "resnet9", { 3, 512, 4, 4 }, 10, 3, 1, 0, 0.2F, 0.125F, 0, 0, 0, 0 },
    { "lenet", { 9, 128, 1, 1 }, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "airbench94", { 3, 256, 3, 3 }, 10, 2, 1, 0, 0.2F, 0.111F, 96, 0, 0, 0 },
    { "one of everything", { 1, 1, 1, 1 }, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "odd, mean", { 7, 17, 3, 5 }, 5, 6, 0, 1, 0.1F, 0, 0, 0, 1, 0 },
    { "odd, maximum", { 7, 10, 5, 7 }, 9, 7, 1, 1, 0.1F, -0.5F, 0, 0, 1, 1 },
    { "a large map", { 2, 3, 40, 41 }, 17, 2, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "a large map, maximum", { 2, 3, 40, 41 }, 17, 2, 1, 1, 0, 0, 0, 0, 0, 0 },
    { "most classes", { 3, 512, 1, 2 }, 32, 3, 0, 1, 0, 0, 0, 0, 0, 1 },
    { "most channels", { 2, 1024, 2, 2 }, 16, 2, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "most channels, maximum", { 2, 1024, 2, 2 }, 16, 2, 1, 0, 0, 0, 0, 0, 0, 0 },
    { "empty batch", { 2, 9, 2, 2 }, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "many samples", { 300, 5, 1, 2 }, 3, 290, 0, 1, 0, 0, 0, 0, 0, 0 },
    { "an infinite loss", { 4, 20, 2, 2 }, 10, 4, 0, 1, 0, 0, 0, 1, 0, 0 },
    { "an infinite loss, maximum, smoothed", { 4, 20, 2, 2 }, 10, 4, 1, 1, 0.1F, 0, 0, 1, 0, 0 },
};

static inline void head_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof head_rows / sizeof *head_rows; i++) {
        const ls_nchw src = head_rows[i].src, pooled = { src.n, src.c, 1, 1 };
        const int classes = head_rows[i].classes, pixels = src.h * src.w;
        op_case *c = case_new(LS_OP_HEAD, storage, head_rows[i].name, "");
        const ls_loss_attr a = { .logits = { src.n, classes, 1, 1 },
            .smoothing = head_rows[i].smoothing,
            .training = 1,
            .storage = storage,
            .mixed = head_rows[i].mixed,
            .weighted = head_rows[i].weighted,
            .mean_of = head_rows[i].mean_of,
            .scale = head_rows[i].scale,
            .src = src,
            .max_pool = head_rows[i].max_pool,
            .has_bias = head_rows[i].has_bias };
        c->desc.attr.loss = a;
        // Of a logit: its sum, and of what is pooled in 16 bits one that is rounded the other way.
        const double logit =
            sum_tolerance(src.c + 1) + (storage != LS_F32 && pixels > 1 ? storage_ulp(storage) / 4 : 0);
        const double of_loss = EPS32 * (32 + classes) + 2 * logit;
        const double of_grad = (a.weighted ? 3 : 1) * 1024 * (EPS32 * 32 + logit);
        op_arg *map = case_activation(c, LS_HEAD_SRC, USE_IN, src, 0);
        if (pixels > 3) ((float *)map->host)[1] = ((float *)map->host)[3] = 2; // the first of two maxima wins
        case_param(c, LS_HEAD_WEIGHT, ARG_WORKING, USE_IN,
            (ls_param_shape){ LS_PARAM_LINEAR, { classes, src.c, 1, 1 }, 1 }, 0);
        if (a.has_bias) {
            op_arg *bias = case_param(c, LS_HEAD_BIAS, ARG_WORKING, USE_IN, vector_shape(classes), 0);
            if (head_rows[i].infinite) ((float *)bias->host)[7 % classes] = -INFINITY;
        }
        case_activation(c, LS_LOSS_LOGITS, USE_OUT, a.logits, logit);
        if (pixels > 1) case_activation(c, LS_HEAD_POOLED, USE_OUT, pooled, sum_tolerance(pixels) / pixels);
        loss_records(c, head_rows[i].count, of_loss);
        case_activation(c, LS_LOSS_GRAD_LOGITS, USE_OUT, a.logits, of_grad);
        case_activation(c, LS_HEAD_GRAD_SRC, USE_OUT, src, classes * of_grad / (a.max_pool ? 1 : pixels));
        visit_and_free(visit, context, c);
    }
}

// --- flat operators ------------------------------------------------------------------------------

static const int64_t flat_counts[] = { 1, 7, 64, 1000, 16384 + 33 };

static inline op_case *flat_case(ls_op op, ls_flat_attr a, const char *variant) {
    char row[32];
    snprintf(row, sizeof row, "%lld elements", (long long)a.count);
    op_case *c = case_new(op, a.storage, "flat", row);
    if (*variant) {
        strncat(c->name, ", ", sizeof c->name - strlen(c->name) - 1);
        strncat(c->name, variant, sizeof c->name - strlen(c->name) - 1);
    }
    c->desc.attr.flat = a;
    return c;
}

typedef enum { FIXED_PLAIN, FIXED_UNSCALED, FIXED_OF_A_MEAN, FIXED_BAD, FIXED_VARIANTS } fixed_variant;

static inline const char *fixed_variant_name(fixed_variant variant) {
    static const char *const names[FIXED_VARIANTS] = { "", "unscaled", "of a mean", "bad elements" };
    return names[variant];
}

static inline void to_fixed_point_case(int64_t count, fixed_variant variant, case_visit *visit, void *context) {
    const int bad = variant == FIXED_BAD;
    const float mean_of = variant == FIXED_OF_A_MEAN ? 96 : 0;
    op_case *c = flat_case(LS_OP_TO_FIXED_POINT,
        (ls_flat_attr){ .count = count,
            .fraction_bits = 30,
            .unscaled = variant == FIXED_UNSCALED,
            .mean_of = mean_of,
            .first = 5000 },
        fixed_variant_name(variant));
    float *grad = case_raw(c, LS_TO_FIXED_POINT_GRAD, USE_IN, LS_F32, (size_t)count, 0)->host;
    ls_train_state *state = case_state(c, LS_TO_FIXED_POINT_STATE, USE_UPDATE);
    state->loss_scale = 784; // 49 * 16: a product with its reciprocal is not the quotient
    if (mean_of > 0) state->loss_scale *= mean_of;
    // halves, which go to the even neighbour, and are halves only where the division is exact
    for (int64_t i = 4; i < count; i += 3) grad[i] = (float)(784 * i + 392) * 0x1p-30F;
    if (bad) state->bad_gradient = 5003; // of an earlier bucket: lower than this one's, but for a single element
    if (bad) grad[0] = INFINITY;
    if (bad && count > 3) {
        grad[1] = NAN;
        grad[2] = 0x1p30F; // out of range
        grad[3] = -0x1p30F;
    }
    if (bad && count > 8) grad[count / 2] = grad[count - 2] = NAN; // elements that another thread sees
    int64_t *fixed = case_raw(c, LS_TO_FIXED_POINT_FIXED, USE_UPDATE, LS_I64, (size_t)count, 0)->host;
    for (int64_t i = 0; i < count; i++) fixed[i] = (int64_t)(case_random(c) * 0x1p40F);
    visit_and_free(visit, context, c);
}

static inline void from_fixed_point_case(int64_t count, fixed_variant variant, case_visit *visit, void *context) {
    op_case *c = flat_case(LS_OP_FROM_FIXED_POINT,
        (ls_flat_attr){ .count = count,
            .fraction_bits = 30,
            .unscaled = variant == FIXED_UNSCALED,
            .mean_of = variant == FIXED_OF_A_MEAN ? 100 : 0 },
        fixed_variant_name(variant));
    int64_t *fixed = case_raw(c, LS_FROM_FIXED_POINT_FIXED, USE_IN, LS_I64, (size_t)count, 0)->host;
    for (int64_t i = 0; i < count; i++) fixed[i] = (int64_t)(case_random(c) * 0x1p40F) + i;
    case_state(c, LS_FROM_FIXED_POINT_STATE, USE_IN)->loss_scale = 768;
    case_raw(c, LS_FROM_FIXED_POINT_GRAD, USE_OUT, LS_F32, (size_t)count, 0);
    visit_and_free(visit, context, c);
}

static inline void update_begin_case(int64_t count, case_visit *visit, void *context) {
    enum {
        RECORDS = 3,
        WORDS = sizeof(ls_update_input) / sizeof(int64_t),
        RECORD_WORDS = LS_RECORD_BYTES / sizeof(int64_t)
    };
    op_case *c = flat_case(LS_OP_UPDATE_BEGIN, (ls_flat_attr){ .count = count }, "");
    int64_t *windows = case_raw(c, LS_UPDATE_BEGIN_WINDOWS, USE_IN, LS_I64, RECORDS * RECORD_WORDS, 0)->host;
    for (int64_t i = 0; i < RECORDS * RECORD_WORDS; i++) windows[i] = 1000003 * i;
    case_state(c, LS_UPDATE_BEGIN_STATE, USE_IN)->record = 1;
    case_raw(c, LS_UPDATE_BEGIN_WINDOW, USE_OUT, LS_I64, WORDS, 0);
    *(ls_micro_result *)case_set(c, LS_UPDATE_BEGIN_RESULT, ARG_RESULT, USE_UPDATE, 1, sizeof(ls_micro_result))->host =
        (ls_micro_result){ 2.5, 3, 7, 1 };
    case_raw(c, LS_UPDATE_BEGIN_SUMS, USE_UPDATE, LS_F32, (size_t)count, 0);
    visit_and_free(visit, context, c);
}

static inline void average_case(
    int64_t count, float decay, int write_back, int halted, case_visit *visit, void *context) {
    char variant[64];
    snprintf(variant, sizeof variant, "decay %g%s%s", (double)decay, write_back ? ", written back" : "",
        halted ? ", halted" : "");
    op_case *c = flat_case(LS_OP_AVERAGE, (ls_flat_attr){ .count = count, .write_back = write_back }, variant);
    op_arg *window = case_set(c, LS_AVERAGE_WINDOW, ARG_WINDOW, USE_IN, 1, sizeof(ls_update_input));
    *(ls_update_input *)window->host = (ls_update_input){ .samples = 96, .average_decay = decay };
    ls_train_state *state = case_state(c, LS_AVERAGE_STATE, USE_IN);
    state->halted = state->skip = halted;
    const double rounding = decay > 0 && decay < 1 ? 2 * EPS32 : 0; // else exact
    case_raw(c, LS_AVERAGE_AVERAGE, USE_UPDATE, LS_F32, (size_t)count, 0)->absolute = rounding;
    case_raw(c, LS_AVERAGE_WEIGHT, write_back ? USE_UPDATE : USE_IN, LS_F32, (size_t)count, 0)->absolute = rounding;
    visit_and_free(visit, context, c);
}

static inline void average_cases(int64_t count, case_visit *visit, void *context) {
    for (int write_back = 0; write_back < 2; write_back++) {
        average_case(count, 0.7F, write_back, 0, visit, context);
        average_case(count, 0, write_back, 0, visit, context);
        average_case(count, 1, write_back, 0, visit, context);
        average_case(count, 0.7F, write_back, 1, visit, context);
    }
}

static inline void cast_cases(ls_dtype storage, int64_t count, case_visit *visit, void *context) {
    // halfway between neighbours of bf16 (to even, both ways), too large for one or both, and not finite
    static const float hard[] = { 1.00390625F, 1.01171875F, -1.00390625F, 3.4e38F, -65520.0F, INFINITY, -INFINITY };
    op_case *c = flat_case(LS_OP_CAST, (ls_flat_attr){ .count = count, .storage = storage }, "");
    float *src = case_raw(c, LS_CAST_SRC, USE_IN, LS_F32, (size_t)count, 0)->host;
    for (int64_t i = 0; i < count && i < (int64_t)(sizeof hard / sizeof *hard); i++) src[count - 1 - i] = hard[i];
    case_raw(c, LS_CAST_DST, USE_OUT, storage, (size_t)count, 0);
    visit_and_free(visit, context, c);

    c = flat_case(LS_OP_CAST_TO_F32, (ls_flat_attr){ .count = count, .storage = storage }, "");
    void *narrow = case_raw(c, LS_CAST_TO_F32_SRC, USE_IN, storage, (size_t)count, 0)->host;
    for (int64_t i = 0; i < count; i++) ls_store_float(narrow, storage, i, case_random(c));
    case_raw(c, LS_CAST_TO_F32_DST, USE_OUT, LS_F32, (size_t)count, 0);
    visit_and_free(visit, context, c);
    if (storage == LS_F32) return;

    c = flat_case(LS_OP_WIDEN, (ls_flat_attr){ .count = count, .storage = storage }, "");
    void *rounded = case_raw(c, LS_WIDEN_ROUNDED, USE_UPDATE, storage, (size_t)count, 0)->host;
    for (int64_t i = 0; i < count; i++) ls_store_float(rounded, storage, i, case_random(c));
    case_raw(c, LS_WIDEN_GRAD, USE_UPDATE, LS_F32, (size_t)count, 0);
    visit_and_free(visit, context, c);
}

static inline void flat_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof flat_counts / sizeof *flat_counts; i++) {
        int64_t count = flat_counts[i];
        for (fixed_variant v = 0; v < FIXED_VARIANTS; v++) to_fixed_point_case(count, v, visit, context);
        for (fixed_variant v = 0; v < FIXED_BAD; v++) from_fixed_point_case(count, v, visit, context);

        update_begin_case(count, visit, context);

        average_cases(count, visit, context);

        // gradients travel in 16 bits whatever activations are stored in
        cast_cases(storage, count, visit, context);
        if (storage == LS_F32) cast_cases(LS_BF16, count, visit, context);
        if (storage == LS_F32) cast_cases(LS_F16, count, visit, context);
    }
}

static const struct {
    const char *name;
    float element; // four of the gradient's
    int bad;       // so many are not finite
    int32_t bad_gradient, finite_in_row, skipped_in_row;
    float loss_scale, clip_norm;
    int dynamic, halted;
    float mean_of;
} control_rows[] = {
    { "plain", 1, 0, 0, 0, 0, 1, 0, 0, 0, 0 },
    { "clipped", 100, 0, 0, 0, 0, 1, 0.5F, 0, 0, 0 },
    { "below the clip", 1, 0, 0, 0, 0, 1, 5.0F, 0, 0, 0 },
    { "scaled", 31623, 0, 0, 3, 2, 65536, 1.0F, 1, 0, 0 },
    { "scaled, of a mean", 316, 0, 0, 3, 2, 65536, 1.0F, 1, 0, 96 },
    { "grows", 31623, 0, 0, 9, 0, 65536, 0, 1, 0, 0 },
    { "grows to the ceiling", 31623, 0, 0, 9, 0, 16777216, 0, 1, 0, 0 },
    { "overflow", 1, 2, 0, 5, 0, 65536, 1.0F, 1, 0, 0 },
    { "overflow at the floor", 1, 1, 0, 5, 3, 1, 0, 1, 0, 0 },
    { "first overflow at the floor", 1, 1, 0, 5, 0, 1, 0, 1, 0, 0 },
    { "overflow down to the floor", 1, 1, 0, 5, 3, 1.5F, 0, 1, 0, 0 },
    { "bad fixed point", 1, 0, 1, 5, 1, 1024, 0, 1, 0, 0 },
    { "bad without scaling", 1, 1, 0, 0, 0, 1, 0, 0, 0, 0 },
    { "one skip too many", 1, 1, 0, 0, 6, 1024, 0, 1, 0, 0 },
    { "halted", 1, 0, 0, 0, 7, 1024, 0, 1, 1, 0 },
};

// The first `bad` of these places.
static inline void spoil(float *grad, int64_t count, int bad) {
    const int64_t places[] = { count / 2, 0, count - 1 };
    const float values[] = { INFINITY, NAN, -INFINITY };
    for (int i = 0; i < bad; i++) grad[places[i]] = values[i];
}

static inline op_case *control_case(ls_step_control_attr a, ls_dtype storage, const char *name, const char *variant) {
    op_case *c = case_new(LS_OP_STEP_CONTROL, storage, name, variant);
    c->desc.attr.step_control = a;
    op_arg *window = case_set(c, LS_STEP_CONTROL_WINDOW, ARG_WINDOW, USE_IN, 1, sizeof(ls_update_input));
    *(ls_update_input *)window->host =
        (ls_update_input){ .samples = 96, .micro_batches = 3, .lr = { 0.1F, [LS_RATES_MAX - 1] = 0.25F } };
    case_raw(c, LS_STEP_CONTROL_GRAD, a.storage == LS_F32 ? USE_IN : USE_UPDATE, LS_F32, (size_t)a.count, 0);
    case_state(c, LS_STEP_CONTROL_STATE, USE_UPDATE);
    return c;
}

// The whole gradient counts. rounded: LS_F32: no part of it is in 16 bits.
static inline void gradient_case(ls_dtype storage, int64_t count, ls_dtype rounded, case_visit *visit, void *context) {
    for (int bad = 0; bad < 4 && bad <= count; bad++) {
        char variant[64];
        snprintf(variant, sizeof variant, "%lld elements%s, %d bad", (long long)count,
            rounded == LS_F32 ? "" : ", part in 16 bits", bad);
        const ls_step_control_attr a = { .count = count, .storage = rounded, .clip_norm = 1e-4F };
        op_case *c = control_case(a, storage, "gradient", variant);
        spoil(c->args[LS_STEP_CONTROL_GRAD].host, count, bad);
        if (rounded != LS_F32) {
            void *part = case_raw(c, LS_STEP_CONTROL_ROUNDED, USE_UPDATE, rounded, (size_t)count, 0)->host;
            for (int64_t i = 0; i < count; i++) ls_store_float(part, rounded, i, case_random(c));
        }
        visit_and_free(visit, context, c);
    }
}

static inline void control_cases(ls_dtype storage, case_visit *visit, void *context) {
    for (size_t i = 0; i < sizeof flat_counts / sizeof *flat_counts; i++) {
        gradient_case(storage, flat_counts[i], LS_F32, visit, context);
        if (storage != LS_F32) gradient_case(storage, flat_counts[i], storage, visit, context);
    }
    gradient_case(storage, 1100003, storage, visit, context); // more than a device sums in one go
    for (size_t i = 0; i < sizeof control_rows / sizeof *control_rows; i++) {
        const ls_step_control_attr a = { .count = 200,
            .mean_of = control_rows[i].mean_of,
            .clip_norm = control_rows[i].clip_norm,
            .dynamic = control_rows[i].dynamic,
            .growth = 2,
            .backoff = 0.5F,
            .minimum = 1,
            .maximum = 16777216,
            .growth_interval = 10,
            .max_skips = 7 };
        op_case *c = control_case(a, storage, control_rows[i].name, "");
        float *grad = c->args[LS_STEP_CONTROL_GRAD].host;
        for (int64_t k = 0; k < a.count; k++) grad[k] = k % 50 == 7 ? control_rows[i].element : 0;
        spoil(grad, a.count, control_rows[i].bad);
        ls_train_state *state = c->args[LS_STEP_CONTROL_STATE].host;
        state->loss_scale = control_rows[i].loss_scale;
        state->finite_in_row = control_rows[i].finite_in_row;
        state->skipped_in_row = control_rows[i].skipped_in_row;
        state->bad_gradient = control_rows[i].bad_gradient;
        state->halted = state->skip = control_rows[i].halted;
        visit_and_free(visit, context, c);
    }
}

// --- optimizers ----------------------------------------------------------------------------------

// One segment, or four where there is room: of 16 elements, of 48, the rest, and running statistics, which rest with
// decay where the state says that rates 1 and 2 are over.
static inline void case_segments(op_case *c, float decay, float momentum) {
    ls_optimizer_attr *a = &c->desc.attr.optimizer;
    const int64_t statistics = 32 + a->count % LS_SEGMENT_ELEMENTS, rest = a->count - 64 - statistics;
    a->segments = c->segments;
    a->segment_count = a->count > 100 ? 4 : 1;
    c->segments[0] = (ls_step_segment){ a->count > 100 ? 16 : a->count, 0.5F, decay, momentum, 0, NULL, 0, 1 };
    c->segments[1] = (ls_step_segment){ 48, 2, 0, 0, 1, NULL, 0, 1 };
    c->segments[2] = (ls_step_segment){ rest, 0.25F, 2 * decay, momentum, 0, NULL, 0, 1 };
    c->segments[3] = (ls_step_segment){
        .count = statistics, .momentum = 0.3F, .rate = LS_SEGMENT_STATISTICS, .rests_with = decay > 0 ? 6 : 0
    };
}

static inline void sgd_case(
    ls_optimizer_attr a, float momentum, float decay, int applied, int skip, case_visit *visit, void *context) {
    char row[64];
    snprintf(row, sizeof row, "%lld elements%s%s%s%s", (long long)a.count, a.nesterov ? ", nesterov" : "",
        decay > 0 ? ", decay" : "", applied == 1 ? ", first" : "", skip ? ", skipped" : "");
    op_case *c = case_new(LS_OP_SGD, a.storage, "flat", row);
    size_t count = (size_t)a.count;
    c->desc.attr.optimizer = a;
    case_segments(c, decay, momentum);
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = applied;
    state->skip = skip;
    if (applied == 1) state->micro_batches = 0; // statistics stay
    state->rates_over = a.nesterov ? 7 : 2;     // with decay statistics rest where 1 and 2 are there
    fill_uniform(c, case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, count, 0), -512, 512);
    // a handful of fp32 operations on values up to 2
    case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, count, 0)->absolute = 8 * EPS32;
    case_raw(c, LS_SGD_WEIGHT, USE_UPDATE, LS_F32, count, 0)->absolute = 8 * EPS32;
    if (a.storage != LS_F32) {
        op_arg *copy = case_raw(c, LS_SGD_COPY, USE_UPDATE, a.storage, count, storage_ulp(a.storage));
        copy->absolute = 8 * EPS32;
    }
    visit_and_free(visit, context, c);
}

static inline void lars_case(
    ls_optimizer_attr a, float decay, int applied, int skip, case_visit *visit, void *context) {
    char row[64];
    snprintf(row, sizeof row, "%lld elements%s%s%s", (long long)a.count, decay > 0 ? ", decay" : "",
        applied == 1 ? ", first" : "", skip ? ", skipped" : "");
    op_case *c = case_new(LS_OP_LARS, a.storage, "flat", row);
    size_t count = (size_t)a.count;
    c->desc.attr.optimizer = a;
    case_segments(c, decay, 0.9F);
    if (a.count > 100) c->segments[1].rate = LS_SEGMENT_IDLE;
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = applied;
    state->skip = skip;
    fill_uniform(c, case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, count, 0), -512, 512);
    case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, count, 0)->absolute = 16 * EPS32;
    case_raw(c, LS_LARS_WEIGHT, USE_UPDATE, LS_F32, count, 0)->absolute = 16 * EPS32;
    if (a.storage != LS_F32) {
        op_arg *copy = case_raw(c, LS_LARS_COPY, USE_UPDATE, a.storage, count, storage_ulp(a.storage));
        copy->absolute = 16 * EPS32;
    }
    visit_and_free(visit, context, c);
}

static inline void adamw_case(ls_optimizer_attr a, int applied, int skip, case_visit *visit, void *context) {
    char row[64];
    snprintf(row, sizeof row, "%lld elements, update %d%s", (long long)a.count, applied, skip ? ", skipped" : "");
    op_case *c = case_new(LS_OP_ADAMW, a.storage, "flat", row);
    size_t count = (size_t)a.count;
    c->desc.attr.optimizer = a;
    case_segments(c, 0.01F, 0);
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = applied;
    state->skip = skip;
    fill_uniform(c, case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, count, 0), -512, 512);
    case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, count, 0)->absolute = 8 * EPS32;
    op_arg *moment2 = case_raw(c, LS_STEP_KEPT + 1, USE_UPDATE, LS_F32, count, 0);
    fill_uniform(c, moment2, 0, 1);
    moment2->absolute = 8 * EPS32;
    // the update is up to lr * 1/sqrt(1e-3) here; its relative error is that of 1 - beta^t in fp32, some 2^-23 / 0.001
    case_raw(c, LS_ADAMW_WEIGHT, USE_UPDATE, LS_F32, count, 0)->absolute = 64 * EPS32;
    if (a.storage != LS_F32) {
        op_arg *copy = case_raw(c, LS_ADAMW_COPY, USE_UPDATE, a.storage, count, storage_ulp(a.storage));
        copy->absolute = 64 * EPS32;
    }
    visit_and_free(visit, context, c);
}

static inline void rmsprop_case(
    ls_optimizer_attr a, float momentum, float decay, int skip, case_visit *visit, void *context) {
    char row[64];
    snprintf(row, sizeof row, "%lld elements%s%s%s", (long long)a.count, momentum > 0 ? ", momentum" : "",
        decay > 0 ? ", decay" : "", skip ? ", skipped" : "");
    op_case *c = case_new(LS_OP_RMSPROP, a.storage, "flat", row);
    size_t count = (size_t)a.count;
    c->desc.attr.optimizer = a;
    case_segments(c, decay, momentum);
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = 3;
    state->skip = skip;
    fill_uniform(c, case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, count, 0), -512, 512);
    op_arg *square = case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, count, 0);
    fill_uniform(c, square, 0.25, 1);
    square->absolute = 8 * EPS32;
    case_raw(c, LS_STEP_KEPT + 1, USE_UPDATE, LS_F32, count, 0)->absolute = 16 * EPS32;
    case_raw(c, LS_RMSPROP_WEIGHT, USE_UPDATE, LS_F32, count, 0)->absolute = 16 * EPS32;
    if (a.storage != LS_F32) {
        op_arg *copy = case_raw(c, LS_RMSPROP_COPY, USE_UPDATE, a.storage, count, storage_ulp(a.storage));
        copy->absolute = 16 * EPS32;
    }
    visit_and_free(visit, context, c);
}

static inline void lion_case(ls_optimizer_attr a, float decay, int skip, case_visit *visit, void *context) {
    char row[64];
    snprintf(
        row, sizeof row, "%lld elements%s%s", (long long)a.count, decay > 0 ? ", decay" : "", skip ? ", skipped" : "");
    op_case *c = case_new(LS_OP_LION, a.storage, "flat", row);
    size_t count = (size_t)a.count;
    c->desc.attr.optimizer = a;
    case_segments(c, decay, 0);
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = 3;
    state->skip = skip;
    fill_uniform(c, case_raw(c, LS_STEP_GRAD, USE_IN, LS_F32, count, 0), -512, 512);
    case_raw(c, LS_STEP_KEPT, USE_UPDATE, LS_F32, count, 0)->absolute = 8 * EPS32;
    case_raw(c, LS_LION_WEIGHT, USE_UPDATE, LS_F32, count, 0)->absolute =
        8 * EPS32; // the signs are the same everywhere
    if (a.storage != LS_F32) {
        op_arg *copy = case_raw(c, LS_LION_COPY, USE_UPDATE, a.storage, count, storage_ulp(a.storage));
        copy->absolute = 8 * EPS32;
    }
    visit_and_free(visit, context, c);
}

static const struct {
    const char *name;
    ls_param_shape shape;
} muon_rows[] = {
    { "wide", { LS_PARAM_CONV, { 16, 5, 3, 3 }, 1 } },
    { "tall", { LS_PARAM_CONV, { 40, 2, 2, 2 }, 1 } },
    { "square, 1x1", { LS_PARAM_CONV, { 24, 24, 1, 1 }, 1 } },
    { "groups", { LS_PARAM_CONV, { 12, 2, 3, 3 }, 3 } },
    { "linear", { LS_PARAM_LINEAR, { 10, 17, 2, 2 }, 1 } },
    { "a row", { LS_PARAM_LINEAR, { 1, 9, 1, 1 }, 1 } },
    { "a column", { LS_PARAM_CONV, { 9, 1, 1, 1 }, 1 } },
};

enum { MUON_FIRST = 1, MUON_NESTEROV = 2, MUON_RENORMALISE = 4, MUON_SKIP = 8, MUON_STILL = 16 };

static inline void muon_case(size_t row, int flags, float stretch, case_visit *visit, void *context) {
    const ls_param_shape *shape = &muon_rows[row].shape;
    char variant[64];
    snprintf(variant, sizeof variant, "%s%s%s%s%s%s", stretch > 1 ? "stretched " : "",
        flags & MUON_FIRST ? "first " : "", flags & MUON_NESTEROV ? "nesterov " : "",
        flags & MUON_RENORMALISE ? "renormalised " : "", flags & MUON_SKIP ? "skipped" : "",
        flags & MUON_STILL ? "at rate 0" : "");
    op_case *c = case_new(LS_OP_MUON, LS_F32, muon_rows[row].name, variant);
    const int64_t count = ls_param_count(shape);
    c->segments[0] = (ls_step_segment){ .count = count,
        .lr_factor = 2,
        .decay = 0.1F,
        .momentum = 0.6F,
        .rate = flags & MUON_STILL ? 2 : 1,
        .shape = shape,
        .stretch = stretch };
    c->desc.attr.optimizer = (ls_optimizer_attr){ .count = count,
        .segments = c->segments,
        .segment_count = 1,
        .nesterov = (flags & MUON_NESTEROV) != 0,
        .ns_steps = 3,
        .ns = { 3.4445F, -4.7750F, 2.0315F } };
    ls_train_state *state = case_state(c, LS_STEP_STATE, USE_IN);
    state->applied = flags & MUON_FIRST ? 1 : 3;
    state->skip = (flags & MUON_SKIP) != 0;
    state->renormalise = (flags & MUON_RENORMALISE) != 0;
    fill_uniform(c, case_param(c, LS_STEP_GRAD, ARG_PARAM, USE_IN, *shape, 0), -512, 512);
    case_param(c, LS_STEP_KEPT, ARG_PARAM, USE_UPDATE, *shape, 8 * EPS32);
    // the step is lr times a matrix of singular values near 1; three iterations enlarge what is rounded up to 3.4^3 times
    case_param(c, LS_MUON_WEIGHT, ARG_PARAM, USE_UPDATE, *shape, 64 * EPS32);
    visit_and_free(visit, context, c);
}

static inline void muon_cases(case_visit *visit, void *context) {
    for (size_t row = 0; row < sizeof muon_rows / sizeof *muon_rows; row++) {
        muon_case(row, MUON_FIRST, 1, visit, context);
        muon_case(row, MUON_FIRST, 1.5F, visit, context);
        muon_case(row, MUON_NESTEROV | MUON_RENORMALISE, 1, visit, context);
        muon_case(row, MUON_NESTEROV, 1, visit, context);
        muon_case(row, MUON_SKIP | MUON_RENORMALISE, 1, visit, context);
        muon_case(row, MUON_STILL | MUON_RENORMALISE, 1, visit, context);
    }
}

static inline void optimizer_cases(ls_dtype storage, case_visit *visit, void *context) {
    if (storage == LS_F32) muon_cases(visit, context);
    for (size_t i = 0; i < sizeof flat_counts / sizeof *flat_counts; i++) {
        ls_optimizer_attr a = { .count = flat_counts[i], .storage = storage };
        for (int variant = 0; variant < 4; variant++) {
            ls_optimizer_attr sgd = a;
            sgd.nesterov = variant & 1;
            float decay = variant & 2 ? 5e-4F : 0;
            sgd_case(sgd, 0.9F, decay, 1, 0, visit, context);
            sgd_case(sgd, 0.9F, decay, 4, 0, visit, context);
        }
        ls_optimizer_attr lars = a;
        lars.trust = 0.5F;
        lars.eps = 1e-8F;
        lars_case(lars, 0, 1, 0, visit, context);
        lars.nesterov = 1;
        lars_case(lars, 0.01F, 4, 0, visit, context);
        lars_case(lars, 0.01F, 4, 1, visit, context);
        sgd_case(a, 0, 0, 4, 1, visit, context);
        sgd_case(a, 0, 0, 4, 0, visit, context); // no momentum
        a.beta1 = 0.9F;
        a.beta2 = 0.999F;
        a.eps = 1e-8F;
        adamw_case(a, 1, 0, visit, context);
        adamw_case(a, 20, 0, visit, context);
        adamw_case(a, 3, 1, visit, context);
        a.beta2 = 0.99F;
        rmsprop_case(a, 0, 0, 0, visit, context);
        rmsprop_case(a, 0.9F, 0.01F, 0, visit, context);
        rmsprop_case(a, 0.9F, 0, 1, visit, context);
        lion_case(a, 0, 0, visit, context);
        lion_case(a, 0.1F, 0, visit, context);
        lion_case(a, 0, 1, visit, context);
    }
}

#endif
