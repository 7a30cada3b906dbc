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
    char network[1024], network_path[] = "/tmp/lockstep_network_XXXXXX", shape_option[64], device_option[64];
    snprintf(network, sizeof network, "[network]\ninput = %s\n%s", shape, network_body);
    assert_int_equal(run_write_network(network_path, network), 0);
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
    unlink(network_path);
    const ls_dataset *test = r->trainer->test_data;
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
        ls_train_evaluation e;
        must(ls_trainer_evaluate(r.trainer, &e));
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
            must(ls_dataset_read(r.trainer->test_data, n, pixels, &label));
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
    must(ls_image_decode(paths[0], (ls_chw){ 3, 3, 2 }, decoded));
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
    const ls_graph *g = r.trainer->graph;
    const float bad[4] = { 0, NAN, 0, 0 };
    ls_param_store_import(r.trainer->session.store, g->param_count - 1, bad); // fc.bias
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
        cmocka_unit_test(pictures_do_not_meet),
        cmocka_unit_test(colour_and_gray),
        cmocka_unit_test(weights_that_will_not_do),
        cmocka_unit_test(weights_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
