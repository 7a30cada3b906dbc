// An evaluation in detail of a few pictures whose figures can be worked out on paper; and the mistakes' pictures.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "support/cmocka.h"
#include "support/must.h"
#include "base/text.h"
#include "data/image_decode.h"
#include "data/image_resize.h"
#include "data/thumbnail.h"
#include "train/picture_results.h"

enum { CLASSES = 7 };

// Of each picture the probability of one class; the others share what is left.
static const struct {
    int64_t index;
    int label, likely;
    double probability;
} pictures[] = {
    { 0, 0, 0, 0.5 },
    { 1, 1, 0, 0.5 },
    { 2, 2, 2, 1.0 / 7 }, // all alike: the first class is taken
    { 3, 6, 6, 1.0 / 7 },
    { 5, 3, 3, 0.9 }, // there is no picture 4
    { 6, 0, 5, 0.97 },
};

static void add_pictures(ls_picture_results *outcomes) {
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        double logits[CLASSES];
        for (int k = 0; k < CLASSES; k++)
            logits[k] = 3 + log(k == pictures[i].likely ? pictures[i].probability : (1 - pictures[i].probability) / 6);
        if (pictures[i].probability < 0.2)
            for (int k = 0; k < CLASSES; k++) logits[k] = -2;
        ls_picture_results_add(outcomes, pictures[i].index, pictures[i].label, logits);
    }
}

static ls_evaluation *evaluated(ls_picture_results *outcomes) {
    ls_comm *self;
    ls_evaluation *e;
    must(ls_comm_self(&self));
    must(ls_picture_results_gather(outcomes, self));
    must(ls_picture_results_evaluate(outcomes, &e));
    ls_comm_finish(self);
    ls_picture_results_free(outcomes);
    return e;
}

static void near(double seen, double expected) {
    if (fabs(seen - expected) > 1e-14 * (1 + fabs(expected))) fail_msg("is %.17g, expected %.17g", seen, expected);
}

static void by_hand(void **state) {
    (void)state;
    ls_picture_results *outcomes;
    must(ls_picture_results_new(7, CLASSES, NULL, &outcomes));
    add_pictures(outcomes);
    ls_evaluation *e = evaluated(outcomes);
    assert_int_equal(e->samples, 6);
    assert_int_equal(e->correct, 2);
    assert_int_equal(e->top5, 5); // not the picture of class 6, before which six are as likely
    near(e->loss_sum, log(2) + log(12) + 2 * log(7) - log(0.9) - log(0.03 / 6));

    static const struct {
        int bin;
        int64_t count, correct;
        double confidence_sum;
    } bins[] = { { 2, 2, 0, 2.0 / 7 }, { 7, 2, 1, 1 }, { 13, 1, 1, 0.9 }, { 14, 1, 0, 0.97 } };
    int64_t all = 0;
    for (size_t i = 0; i < sizeof bins / sizeof bins[0]; i++) {
        const ls_calibration_bin *b = &e->bins[bins[i].bin];
        assert_int_equal(b->count, bins[i].count);
        assert_int_equal(b->correct, bins[i].correct);
        near(b->confidence_sum, bins[i].confidence_sum);
        all += b->count;
    }
    assert_int_equal(all, 6);
    near(ls_evaluation_calibration_error(e), (2.0 / 7 + 0 + 0.1 + 0.97) / 6);

    static const ls_confusion confusion[] = { { 0, 0, 1 }, { 0, 5, 1 }, { 1, 0, 1 }, { 2, 0, 1 }, { 3, 3, 1 },
        { 6, 0, 1 } };
    assert_int_equal(e->confusion_count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(e->confusion[i].label, confusion[i].label);
        assert_int_equal(e->confusion[i].prediction, confusion[i].prediction);
        assert_int_equal(e->confusion[i].count, confusion[i].count);
    }
    static const ls_class_counts classes[CLASSES] = { { 2, 1, 4 }, { 1, 0, 0 }, { 1, 0, 0 }, { 1, 1, 1 }, { 0, 0, 0 },
        { 0, 0, 1 }, { 1, 0, 0 } };
    for (int k = 0; k < CLASSES; k++) {
        assert_int_equal(e->per_class[k].samples, classes[k].samples);
        assert_int_equal(e->per_class[k].correct, classes[k].correct);
        assert_int_equal(e->per_class[k].predicted, classes[k].predicted);
    }
    static const int64_t mistakes[] = { 6, 1, 2, 3 };
    assert_int_equal(e->mistake_count, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(e->mistakes[i].index, mistakes[i]);
    assert_int_equal(e->mistakes[0].label, 0);
    assert_int_equal(e->mistakes[0].prediction, 5);
    near(e->mistakes[0].probability, 0.97);
    ls_evaluation_free(e);
}

// Many mistakes, many of them equally confident: those of the highest probability, of equals the first.
static void the_most_confident(void **state) {
    (void)state;
    enum { PICTURES = 61 };
    double logit[PICTURES];
    int used[PICTURES] = { 0 };
    ls_picture_results *outcomes;
    must(ls_picture_results_new(PICTURES, 2, NULL, &outcomes));
    for (int i = 0; i < PICTURES; i++) {
        logit[i] = i * 37 % 7;
        ls_picture_results_add(outcomes, i, i % 5 == 0, (const double[]){ 0, 0.1 + logit[i] }); // a fifth is right
        used[i] = i % 5 == 0;
    }
    ls_evaluation *e = evaluated(outcomes);
    assert_int_equal(e->mistake_count, LS_EVALUATION_MISTAKES);
    for (int m = 0; m < e->mistake_count; m++) {
        int best = -1;
        for (int i = 0; i < PICTURES; i++)
            if (!used[i] && (best < 0 || logit[i] > logit[best])) best = i;
        used[best] = 1;
        assert_int_equal(e->mistakes[m].index, best);
    }
    ls_evaluation_free(e);
}

// Pictures with several labels: F1 of the labels is 2/3, 1, 0 (never true, once predicted) and 0 (neither).
static void several_labels(void **state) {
    (void)state;
    static const uint8_t sets[3][4] = { { 1, 0, 0, 0 }, { 1, 1, 0, 0 }, { 0, 1, 0, 0 } };
    ls_picture_results *outcomes;
    double loss, accuracy;
    must(ls_picture_results_new(4, 4, sets[0], &outcomes));
    ls_picture_results_add(outcomes, 0, 1, (const double[]){ 2, 1, -1, -1 });
    ls_picture_results_add(outcomes, 1, 0, (const double[]){ -2, -1, 3, -800 });
    ls_picture_results_add(outcomes, 3, 2, (const double[]){ 0, 5, -1, -1 }); // there is no picture 2; 0 is "no"
    ls_picture_results_mean(outcomes, &loss, &accuracy);
    near(accuracy, 2.0 / 3);
    ls_evaluation *e = evaluated(outcomes);
    assert_int_equal(e->samples, 3);
    assert_int_equal(e->correct, 2);
    near(ls_evaluation_macro_f1(e), (2.0 / 3 + 1) / 4);
    const double expected = (log1p(exp(-2)) + log1p(exp(-1)) + 2 * log1p(exp(-1))) / 4 +
                            (2 + log1p(exp(-2)) + log1p(exp(-1)) + 3 + log1p(exp(-3))) / 4 +
                            (log(2) + log1p(exp(-5)) + 2 * log1p(exp(-1))) / 4;
    near(e->loss_sum, expected);
    near(loss, expected / 3);
    e->names = calloc(4, sizeof *e->names);
    for (int k = 0; k < 4; k++) e->names[k] = strdup("x");
    cJSON *written = ls_evaluation_json(e, 1);
    char *text = ls_json_text(written, 0);
    cJSON *tree = cJSON_Parse(text);
    cJSON_Delete(written);
    free(text);
    near(ls_json_get(tree, "exact_match")->valuedouble, 2.0 / 3);
    static const char *const absent[] = { "top1", "top5", "confusion", "bins", "mistakes", "calibration_error" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) assert_null(ls_json_get(tree, absent[i]));
    const cJSON *first = cJSON_GetArrayItem(ls_json_get(tree, "per_class"), 0);
    near(ls_json_get(first, "recall")->valuedouble, 0.5);
    near(ls_json_get(first, "precision")->valuedouble, 1);
    cJSON_Delete(tree);
    ls_evaluation_free(e);
}

// A network that has diverged has outputs that are no numbers: nothing is counted as right for that.
static void not_a_number(void **state) {
    (void)state;
    ls_picture_results *outcomes;
    must(ls_picture_results_new(2, 6, NULL, &outcomes));
    ls_picture_results_add(outcomes, 0, 4, (const double[]){ 0, 0, 0, 0, NAN, 0 });
    ls_picture_results_add(outcomes, 1, 2, (const double[]){ 0, INFINITY, 0, 0, 0, 0 });
    ls_evaluation *e = evaluated(outcomes);
    assert_int_equal(e->correct, 0);
    assert_int_equal(e->top5, 1); // the second picture's class is behind one
    assert_int_equal(e->bins[0].count, 2);
    e->names = calloc(6, sizeof *e->names);
    for (int k = 0; k < 6; k++) e->names[k] = strdup("x");
    cJSON *tree = ls_evaluation_json(e, 1);
    assert_true(ls_json_is_whole(tree));
    assert_true(cJSON_IsNull(ls_json_get(tree, "loss")));
    assert_true(cJSON_IsNull(ls_json_get(cJSON_GetArrayItem(ls_json_get(tree, "mistakes"), 0), "picture")));
    cJSON_Delete(tree);
    ls_evaluation_free(e);
}

// A picture of 100 x 50 is 64 x 32 in the file, gray where it is gray.
static void pictures_are_small(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        ls_chw size;
    } rows[] = { { "data.shape=3x50x100", { 3, 32, 64 } }, { "data.shape=1x90x40", { 3, 64, 28 } },
        { "data.shape=1x300x2", { 3, 64, 1 } }, { "data.shape=3x7x64", { 3, 7, 64 } } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        ls_config cfg;
        ls_dataset *set;
        uint8_t *png, seen[3 * 64 * 64], want[3 * 64 * 64], pixels[3 * 100 * 100], rgb[3 * 100 * 100];
        size_t bytes;
        int32_t label;
        ls_config_defaults(&cfg);
        must(ls_config_set(&cfg, "data.dataset=synthetic"));
        must(ls_config_set(&cfg, rows[r].shape));
        must(ls_dataset_open(&cfg, LS_SPLIT_TEST, &set));
        const ls_chw shape = ls_dataset_get_info(set)->shape;
        must(ls_thumbnail(set, 3, LS_EVALUATION_SIDE, &png, &bytes));
        must(ls_image_decode_bytes("thumbnail", png, bytes, &(ls_image_options){ .size = rows[r].size }, seen));
        must(ls_dataset_read(set, 3, pixels, &label));
        const int plane = shape.h * shape.w;
        for (int i = 0; i < 3 * plane; i++) rgb[i] = pixels[i / 3 + (shape.c == 3 ? i % 3 * plane : 0)];
        const ls_picture upright = ls_picture_turned(rgb, shape.h, shape.w, 1, 1);
        must(ls_image_resize(&upright, LS_RESIZE_STRETCH, rows[r].size, want));
        assert_int_equal(png[16 + 3] + 256 * png[16 + 2], rows[r].size.w); // IHDR
        assert_int_equal(png[20 + 3] + 256 * png[20 + 2], rows[r].size.h);
        assert_memory_equal(seen, want, (size_t)ls_chw_count(rows[r].size));
        free(png);
        ls_dataset_free(set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(the_most_confident),
        cmocka_unit_test(several_labels),
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(pictures_are_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
