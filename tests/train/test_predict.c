// Prediction of picture files against the evaluation of the same pictures, on every device; and what goes wrong.
#include <math.h>
#include "data/image_decode.h"
#include "data/pictures.h"
#include "device/cuda_device.h"
#include "support/png.h"
#include "support/temp.h"
#include "train/predict.h"
#include "train/whole_run.h"

enum { PICTURES = 37, PATH = 320 }; // the last batch is short

static temp_folder folder;
static char weights_path[PATH], paths[PICTURES][PATH];
static const char *list[PICTURES];

static const char network_body[] = "[c1]\nlayer = conv2d\nout_channels = 8\nkernel = 3\npadding = 1\nbias = false\n"
                                   "[n1]\nlayer = batchnorm2d\n"
                                   "[r1]\nlayer = relu\n"
                                   "[p1]\nlayer = maxpool2d\nkernel = 2\n"
                                   "[d1]\nlayer = dropout\np = 0.3\n"
                                   "[flat]\nlayer = flatten\n"
                                   "[fc]\nlayer = linear\nout_features = 4\n";

static int set_up(void **state) {
    (void)state;
    folder = temp_folder_new();
    snprintf(weights_path, sizeof weights_path, "%s/w.safetensors", folder.path);
    for (int i = 0; i < PICTURES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%02d.png", folder.path, i);
        list[i] = paths[i];
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    temp_folder_remove(&folder);
    return 0;
}

// A short run on pictures of this shape; its weights, and its test pictures as files.
static void train(run *r, const char *shape, const char *device) {
    char network[1024], network_path[PATH], shape_option[64], device_option[64];
    snprintf(network, sizeof network, "[network]\ninput = %s\n%s", shape, network_body);
    snprintf(network_path, sizeof network_path, "%s", temp_file(&folder, "network.ini", network));
    snprintf(shape_option, sizeof shape_option, "data.shape=%s", shape);
    snprintf(device_option, sizeof device_option, "device.type=%s", device);
    const char *const options[] = { shape_option, device_option, "data.dataset=synthetic", "data.classes=4",
        "data.train_samples=64", "data.test_samples=37", "train.global_batch=16", "train.epochs=2", "device.threads=2",
        "optimizer.lr=0.02", NULL };
    const char *const *lists[RUN_LISTS_MAX] = { options };
    must(run_open(r, network_path, lists));
    ls_train_summary summary;
    must(ls_trainer_run(r->trainer, NULL, 0, &summary));
    must(ls_trainer_save_weights(r->trainer, weights_path));
    const ls_dataset *test = r->trainer->plan.test_data;
    const ls_chw s = ls_dataset_get_info(test)->shape;
    for (int i = 0; i < PICTURES; i++) {
        uint8_t pixels[3 * 12 * 12];
        int32_t label;
        must(ls_dataset_read(test, i, pixels, &label));
        assert_int_equal(png_write(paths[i], pixels, s.c, s.h, s.w), 0);
    }
}

typedef struct {
    ls_safetensors *file;
    ls_weights_info *facts;
    ls_predictor *predictor;
} prediction_run;

static void open_weights(prediction_run *p) {
    must(ls_safetensors_read(weights_path, &p->file));
    must(ls_weights_info_read(weights_path, p->file, &p->facts));
}

static ls_status open_predictor(prediction_run *p, const ls_config *cfg, const char *const *pictures, int count) {
    ls_predictor_options options = {
        .cfg = cfg, .facts = p->facts, .file = p->file, .paths = pictures, .count = count
    };
    return ls_predictor_new(&options, &p->predictor);
}

static void close_predictor(prediction_run *p) {
    ls_predictor_free(p->predictor);
    ls_weights_info_free(p->facts);
    ls_safetensors_free(p->file);
}

// Cross-entropy of the label, and whether it has the largest logit, the first of equals.
static double loss_of(const float *logits, int classes, int label, int *is_right) {
    int best = 0;
    double sum = 0;
    for (int k = 1; k < classes; k++)
        if (logits[k] > logits[best]) best = k;
    for (int k = 0; k < classes; k++) sum += exp((double)logits[k] - (double)logits[best]);
    *is_right = best == label;
    return log(sum) - ((double)logits[label] - (double)logits[best]);
}

static void as_evaluation(void **state) {
    (void)state;
    static const char *const shapes[] = { "1x12x12", "3x8x10" }, *const devices[] = { "ref", "cpu", "cuda" };
    for (int i = 0; i < 6; i++) {
        const char *device = devices[i / 2];
        if (strcmp(device, "cuda") == 0 && !getenv("LOCKSTEP_CUDA_PLUGIN") && !cuda_is_real()) continue;
        run r = { 0 };
        prediction_run p = { 0 };
        train(&r, shapes[i % 2], device);
        ls_train_evaluation e = { 0 };
        must(ls_trainer_evaluate(r.trainer, 0, &e));
        open_weights(&p);
        must(open_predictor(&p, &r.cfg, list, PICTURES));
        double loss = 0;
        int correct = 0;
        for (int n = 0; n < PICTURES; n++) {
            ls_prediction prediction;
            uint8_t pixels[3 * 12 * 12];
            int32_t label;
            int is_right;
            must(ls_predictor_next(p.predictor, &prediction));
            must(prediction.status);
            assert_string_equal(prediction.path, paths[n]);
            must(ls_dataset_read(r.trainer->plan.test_data, n, pixels, &label));
            loss += loss_of(prediction.logits, 4, label, &is_right);
            correct += is_right;
        }
        if (correct != (int)lround(e.test_accuracy * PICTURES) ||
            fabs(loss / PICTURES - e.test_loss) > 2e-6 * e.test_loss)
            fail_msg("%s, %s: predicted %d right, loss %.9g; evaluated %.6f right, loss %.9g", device, shapes[i % 2],
                correct, loss / PICTURES, e.test_accuracy * PICTURES, e.test_loss);
        close_predictor(&p);
        run_close(&r);
    }
}

// --- test-time augmentation, the long way: every view of every picture is predicted as a picture of its own -----------

enum { VIEWS = 6, CLASSES = 4 };

static const struct {
    const char *tta;
    int views;
    double weight[VIEWS];
} tta_rows[] = { { "flip", 2, { 0.5, 0.5 } }, { "flip-shift", 6, { 0.25, 0.25, 0.125, 0.125, 0.125, 0.125 } } };

// Views 2 and 3: of the picture reflected by a pixel the crop at (0,0), 4 and 5: at (2,2); odd ones are mirrored.
static void write_view(int view, const uint8_t *picture, ls_chw s, const char *path) {
    const int shift = view < 2 ? 0 : view < 4 ? -1 : 1;
    uint8_t seen[3 * 12 * 12];
    for (int i = 0; i < s.c * s.h * s.w; i++) {
        int y = i / s.w % s.h + shift, x = (view % 2 ? s.w - 1 - i % s.w : i % s.w) + shift;
        if (y < 0) y = 1;
        if (y == s.h) y = s.h - 2;
        if (x < 0) x = 1;
        if (x == s.w) x = s.w - 2;
        seen[i] = picture[(i / s.w / s.h * s.h + y) * s.w + x];
    }
    assert_int_equal(png_write(path, seen, s.c, s.h, s.w), 0);
}

static void predict_views(
    const run *r, const prediction_run *p, float logits[VIEWS][PICTURES][CLASSES], int32_t labels[PICTURES]) {
    const ls_chw s = ls_dataset_get_info(r->trainer->plan.test_data)->shape;
    for (int v = 0; v < VIEWS; v++) {
        prediction_run view = *p;
        for (int n = 0; n < PICTURES; n++) {
            uint8_t pixels[3 * 12 * 12];
            must(ls_dataset_read(r->trainer->plan.test_data, n, pixels, &labels[n]));
            write_view(v, pixels, s, paths[n]);
        }
        must(open_predictor(&view, &r->cfg, list, PICTURES));
        for (int n = 0; n < PICTURES; n++) {
            ls_prediction prediction;
            must(ls_predictor_next(view.predictor, &prediction));
            must(prediction.status);
            memcpy(logits[v][n], prediction.logits, sizeof logits[v][n]);
        }
        ls_predictor_free(view.predictor);
    }
}

static double confidence_of(const float *logits) {
    double most = (double)logits[0], sum = 0;
    for (int k = 1; k < CLASSES; k++) most = fmax(most, (double)logits[k]);
    for (int k = 0; k < CLASSES; k++) sum += exp((double)logits[k] - most);
    return 1 / sum;
}

// With how many the picture shares its confidence or has less: those come before it.
static int rank_by_confidence(float logits[PICTURES][CLASSES], int n) {
    int before = 0;
    for (int i = 0; i < PICTURES; i++) before += confidence_of(logits[i]) < confidence_of(logits[n]);
    return before;
}

static void expect_tta(
    float logits[VIEWS][PICTURES][CLASSES], const int32_t *labels, int row, int seen, double *loss, int *correct) {
    *loss = *correct = 0;
    for (int n = 0; n < PICTURES; n++) {
        float mixed[CLASSES] = { 0 };
        int is_right, whole = rank_by_confidence(logits[0], n) < seen;
        for (int v = 0; v < tta_rows[row].views; v++)
            for (int k = 0; k < CLASSES; k++)
                mixed[k] += (float)(whole ? tta_rows[row].weight[v] : v == 0) * logits[v][n][k];
        *loss += loss_of(mixed, CLASSES, labels[n], &is_right);
        *correct += is_right;
    }
}

// `as it is`: the same bits with and without test-time augmentation.
static void check_tta(
    run *r, float logits[VIEWS][PICTURES][CLASSES], const int32_t *labels, int row, const char *share, int seen) {
    char options[2][64];
    ls_train_evaluation plain = { 0 }, e = { 0 };
    run again = { .cfg = r->cfg };
    snprintf(options[0], sizeof options[0], "eval.tta=%s", tta_rows[row].tta);
    snprintf(options[1], sizeof options[1], "eval.tta_share=%s", share);
    for (int i = 0; i < 2; i++) must(ls_config_set(&again.cfg, options[i]));
    must(ls_comm_self(&again.comm));
    must(ls_trainer_new_to_evaluate(&again.cfg, again.comm, &again.trainer));
    must(ls_trainer_load_weights(again.trainer, weights_path));
    must(ls_trainer_evaluate(r->trainer, 1, &plain));
    must(ls_trainer_evaluate(again.trainer, 1, &e));
    double loss;
    int correct;
    expect_tta(logits, labels, row, seen, &loss, &correct);
    assert_true(e.test_loss == plain.test_loss && e.test_accuracy == plain.test_accuracy);
    assert_int_equal(plain.tta_samples, 0);
    assert_int_equal(e.tta_samples, seen);
    if (correct != (int)lround(e.tta_accuracy * PICTURES) || fabs(loss / PICTURES - e.tta_loss) > 2e-6 * e.tta_loss)
        fail_msg("%s, share %s: %d right, loss %.9g expected; evaluated %.6f right, loss %.9g", tta_rows[row].tta,
            share, correct, loss / PICTURES, e.tta_accuracy * PICTURES, e.tta_loss);
    if (fabs(e.tta_loss - e.test_loss) < 1e-4 * e.test_loss) fail_msg("%s has no effect", tta_rows[row].tta);
    must(ls_trainer_evaluate(again.trainer, 0, &e));
    assert_true(e.test_loss == plain.test_loss && e.tta_samples == 0);
    run_close(&again);
}

// A prediction is by all views, whatever the share that evaluation looks at so.
static void check_predictions(const run *r, const prediction_run *p, float logits[VIEWS][PICTURES][CLASSES], int row) {
    prediction_run views = *p;
    ls_config cfg = r->cfg;
    char option[64];
    snprintf(option, sizeof option, "eval.tta=%s", tta_rows[row].tta);
    must(ls_config_set(&cfg, option));
    for (int n = 0; n < PICTURES; n++) { // the files are those of the last view
        uint8_t pixels[3 * 12 * 12];
        int32_t label;
        must(ls_dataset_read(r->trainer->plan.test_data, n, pixels, &label));
        write_view(0, pixels, ls_dataset_get_info(r->trainer->plan.test_data)->shape, paths[n]);
    }
    must(open_predictor(&views, &cfg, list, PICTURES));
    for (int n = 0; n < PICTURES; n++) {
        ls_prediction prediction;
        must(ls_predictor_next(views.predictor, &prediction));
        for (int k = 0; k < CLASSES; k++) {
            double expected = 0;
            for (int v = 0; v < tta_rows[row].views; v++) expected += tta_rows[row].weight[v] * (double)logits[v][n][k];
            if (fabs((double)prediction.logits[k] - expected) > 1e-5 * (1 + fabs(expected)))
                fail_msg("%s: picture %d, class %d: %g, expected %g", tta_rows[row].tta, n, k,
                    (double)prediction.logits[k], expected);
        }
    }
    ls_predictor_free(views.predictor);
}

static void in_several_views(void **state) {
    (void)state;
    static const char *const shapes[] = { "1x12x12", "3x8x10" }, *const devices[] = { "ref", "cpu", "cuda" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(devices[i], "cuda") == 0 && !getenv("LOCKSTEP_CUDA_PLUGIN") && !cuda_is_real()) continue;
        run r = { 0 };
        prediction_run p = { 0 };
        float logits[VIEWS][PICTURES][CLASSES];
        int32_t labels[PICTURES];
        train(&r, shapes[i % 2], devices[i]);
        open_weights(&p);
        predict_views(&r, &p, logits, labels);
        for (int row = 0; row < 2; row++) {
            check_tta(&r, logits, labels, row, "1", PICTURES);
            check_tta(&r, logits, labels, row, "0.25", PICTURES / 4);
            check_predictions(&r, &p, logits, row);
        }
        close_predictor(&p);
        run_close(&r);
    }
}

// The same bits alone, beside others, and beside one that cannot be read; on more threads, too.
static void pictures_do_not_meet(void **state) {
    (void)state;
    run r = { 0 };
    train(&r, "3x8x10", "cpu");
    float expected[PICTURES][4];
    prediction_run all = { 0 };
    open_weights(&all);
    must(open_predictor(&all, &r.cfg, list, PICTURES));
    ls_prediction prediction;
    for (int n = 0; n < PICTURES; n++) {
        must(ls_predictor_next(all.predictor, &prediction));
        memcpy(expected[n], prediction.logits, sizeof expected[n]);
    }
    close_predictor(&all);
    must(ls_config_set(&r.cfg, "device.threads=3"));
    must(ls_config_set(&r.cfg, "data.workers=3"));
    char missing[PATH], broken[PATH];
    snprintf(missing, sizeof missing, "%s/missing.png", folder.path);
    snprintf(broken, sizeof broken, "%s", temp_file(&folder, "broken.png", "\x89PNG\r\n\x1a\nwhatever"));
    const char *const few[] = { paths[20], missing, paths[3], broken, paths[20] };
    static const int numbers[] = { 20, -1, 3, -1, 20 };
    prediction_run some = { 0 };
    open_weights(&some);
    must(open_predictor(&some, &r.cfg, few, 5));
    for (int n = 0; n < 5; n++) {
        must(ls_predictor_next(some.predictor, &prediction));
        if (numbers[n] < 0) {
            assert_int_equal(prediction.status.code, LS_DATA);
            assert_memory_equal(prediction.status.text, few[n], strlen(few[n]));
        } else {
            must(prediction.status);
            assert_memory_equal(prediction.logits, expected[numbers[n]], sizeof expected[0]);
        }
    }
    close_predictor(&some);
    run_close(&r);
}

static void open_pictures(ls_chw shape, ls_dataset **pictures) {
    static const float mean[3] = { 0.5f, 0.5f, 0.5f }, std[3] = { 0.25f, 0.25f, 0.25f };
    ls_pictures_options options = { .paths = list, .count = 2, .shape = shape, .mean = mean, .std = std };
    must(ls_pictures_open(&options, pictures));
}

static void colour_and_gray(void **state) {
    (void)state;
    uint8_t colours[3 * 6] = { 255, 0, 0, 255, 0, 77, /* green */ 0, 255, 0, 255, 0, 77, /* blue */ 0, 0, 255, 255, 0,
        77 };
    static const uint8_t luma[6] = { 76, 150, 29, 255, 0, 77 }; // Pillow's convert("L")
    assert_int_equal(png_write(paths[0], colours, 3, 2, 3), 0);
    assert_int_equal(png_write(paths[1], luma, 1, 2, 3), 0);
    uint8_t pixels[18], decoded[18];
    int32_t label = -1;
    ls_dataset *pictures;
    open_pictures((ls_chw){ 1, 2, 3 }, &pictures);
    for (int i = 0; i < 2; i++) {
        must(ls_dataset_read(pictures, i, pixels, &label));
        must(ls_pictures_failure(pictures, i));
        assert_int_equal(label, 0);
        assert_memory_equal(pixels, luma, sizeof luma);
    }
    ls_dataset_free(pictures);
    open_pictures((ls_chw){ 3, 2, 3 }, &pictures);
    must(ls_dataset_read(pictures, 0, pixels, &label));
    assert_memory_equal(pixels, colours, sizeof colours);
    must(ls_dataset_read(pictures, 1, pixels, &label));
    for (int c = 0; c < 3; c++) assert_memory_equal(pixels + 6 * c, luma, sizeof luma);
    ls_dataset_free(pictures);
    // another size: as the loader of data.dataset = folder stretches it
    open_pictures((ls_chw){ 3, 3, 2 }, &pictures);
    must(ls_dataset_read(pictures, 0, pixels, &label));
    must(ls_image_decode(paths[0], &(ls_image_options){ .size = { 3, 3, 2 } }, decoded));
    assert_memory_equal(pixels, decoded, sizeof pixels);
    ls_dataset_free(pictures);
    static const float ones[4] = { 1, 1, 1, 1 };
    ls_pictures_options options = { .paths = list, .count = 1, .shape = { 4, 2, 3 }, .mean = ones, .std = ones };
    const ls_status status = ls_pictures_open(&options, &pictures);
    assert_int_equal(status.code, LS_USAGE);
    assert_non_null(strstr(status.text, "input has 4 channels, but a picture has 1 (gray) or 3"));
}

static void weights_that_will_not_do(void **state) {
    (void)state;
    run r = { 0 };
    train(&r, "1x12x12", "cpu");
    prediction_run p = { 0 };
    open_weights(&p);
    // the network of the notes has a layer more than the weights
    ls_graph *whole = p.facts->graph;
    char text[2048];
    snprintf(text, sizeof text, "%s[fc2]\nlayer = linear\nout_features = 4\n", whole->text);
    must(ls_graph_parse("longer", text, &p.facts->graph));
    ls_status status = open_predictor(&p, &r.cfg, list, PICTURES);
    assert_int_equal(status.code, LS_STORAGE);
    assert_non_null(strstr(status.text, "has no tensor 'fc2.weight'"));
    ls_graph_free(p.facts->graph);
    p.facts->graph = whole;
    close_predictor(&p);

    run_close(&r);
}

static void weights_that_are_not_finite(void **state) {
    (void)state;
    run r = { 0 };
    train(&r, "1x12x12", "cpu");
    const ls_graph *g = r.trainer->plan.graph;
    const float bad[4] = { 0, NAN, 0, 0 };
    ls_param_store_import(r.trainer->session.compute.store, g->param_count - 1, bad); // fc.bias
    must(ls_trainer_save_weights(r.trainer, weights_path));
    prediction_run p = { 0 };
    open_weights(&p);
    must(open_predictor(&p, &r.cfg, list, PICTURES));
    ls_prediction prediction;
    const ls_status status = ls_predictor_next(p.predictor, &prediction);
    assert_int_equal(status.code, LS_NUMERIC);
    assert_non_null(strstr(status.text, "00.png: the network's output is not finite"));
    close_predictor(&p);
    run_close(&r);
}

int main(void) {
    if (cuda_choose()) unsetenv("LOCKSTEP_CUDA_PLUGIN"); // then without the emulated GPU
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_evaluation),
        cmocka_unit_test(in_several_views),
        cmocka_unit_test(pictures_do_not_meet),
        cmocka_unit_test(colour_and_gray),
        cmocka_unit_test(weights_that_will_not_do),
        cmocka_unit_test(weights_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
