// Initial values: against published words of the generator, against the golden files'
// second implementation, and PyTorch's bounds.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/json.h"
#include "base/philox.h"
#include "config/purpose.h"
#include "model/graph.h"
#include "model/whiten.h"
#include "support/cmocka.h"
#include "support/must.h"
#include "support/shipped.h"

static ls_graph *open_network(const char *file) {
    ls_graph *graph = NULL;
    const ls_status status = read_shipped(file, &graph);
    if (ls_failed(status)) fail_msg("%s", status.text);
    return graph;
}

static float *initial_values(const ls_graph *graph, int index, uint64_t seed) {
    float *values = malloc((size_t)ls_param_count(&graph->params[index].shape) * sizeof *values);
    assert_non_null(values);
    ls_graph_init_param(graph, index, seed, values);
    return values;
}

// With this seed, purpose 1 makes the generator's key 0, and parameter 0 starts at counter 0: its first words are those
// that the generator's authors publish (Random123, kat_vectors: philox4x32 10, all zeros).
static void published_words(void **state) {
    (void)state;
    static const uint32_t words[4] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
    ls_graph *graph = open_network("configs/models/lenet.ini");
    float *values = initial_values(graph, 0, UINT64_C(0x9E3779B900000000));
    for (int i = 0; i < 4; i++) {
        const double unit = floor(words[i] / 256.0) / 16777216.0; // the upper 24 bits
        const float expected = (float)(2 * unit - 1) * 0.2f;      // fan-in 1*5*5
        if (values[i] != expected) fail_msg("value %d is %.9g, expected %.9g", i, values[i], expected);
    }
    free(values);
    ls_graph_free(graph);
}

// PyTorch's defaults: kaiming_uniform_(a = sqrt(5)) is U(+-1/sqrt(fan_in)) for weights;
// the same bound for biases; norm 1 and 0.
static const struct {
    const char *network, *name;
    double fan_in; // 0: constant
    float value;
} bounds[] = {
    { "lenet", "conv1.weight", 25, 0 },
    { "lenet", "conv1.bias", 25, 0 },
    { "lenet", "conv2.weight", 800, 0 },
    { "lenet", "conv2.bias", 800, 0 },
    { "lenet", "fc1.weight", 3136, 0 },
    { "lenet", "fc1.bias", 3136, 0 },
    { "lenet", "fc2.weight", 128, 0 },
    { "resnet20", "stem.conv.weight", 27, 0 },
    { "resnet20", "blocks.3.short.conv.weight", 16, 0 },
    { "resnet20", "stem.bn.weight", 0, 1 },
    { "resnet20", "stem.bn.bias", 0, 0 },
    { "resnet20", "stem.bn.running_mean", 0, 0 },
    { "resnet20", "stem.bn.running_var", 0, 1 },
    { "resnet20", "head.bias", 64, 0 },
};

static void pytorch_bounds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        char file[64];
        snprintf(file, sizeof file, "configs/models/%s.ini", bounds[i].network);
        ls_graph *graph = open_network(file);
        int index = 0;
        while (index < graph->param_count && strcmp(graph->params[index].name, bounds[i].name) != 0) index++;
        assert_in_range(index, 0, graph->param_count - 1);
        float *values = initial_values(graph, index, 7);
        const int64_t count = ls_param_count(&graph->params[index].shape);
        const double bound = 1 / sqrt(bounds[i].fan_in);
        double largest = 0, sum = 0;
        for (int64_t k = 0; k < count; k++) {
            sum += values[k];
            largest = fmax(largest, fabs(values[k]));
            if (bounds[i].fan_in == 0 && values[k] != bounds[i].value) {
                fail_msg("%s[%lld] is %g, expected %g", bounds[i].name, (long long)k, values[k], bounds[i].value);
            }
        }
        if (bounds[i].fan_in >
            0) { // uniform: the mean's deviation is bound / sqrt(3 count), the largest is bound * (1 - 1/count)
            if (largest > bound * (1 + 1e-6) || largest < bound * (1 - 8.0 / (double)count)) {
                fail_msg(
                    "%s: largest of %lld values is %g, bound %g", bounds[i].name, (long long)count, largest, bound);
            }
            if (fabs(sum / (double)count) > 4 * bound / sqrt(3 * (double)count)) {
                fail_msg("%s: mean of %lld values is %g, bound %g", bounds[i].name, (long long)count,
                    sum / (double)count, bound);
            }
        }
        free(values);
        ls_graph_free(graph);
    }
}

static void differ_by_seed_and_parameter(void **state) {
    (void)state;
    ls_graph *graph = open_network("configs/models/resnet9.ini");
    int first = -1; // two weights of one shape must not be the same numbers
    for (int i = 0; i < graph->param_count; i++) {
        if (strcmp(graph->params[i].name, "res1.0.conv.weight") == 0) first = i;
    }
    assert_true(first >= 0);
    float *a = initial_values(graph, first, 1), *b = initial_values(graph, first + 5, 1),
          *c = initial_values(graph, first, 2);
    assert_string_equal(graph->params[first + 5].name, "res1.1.conv.weight");
    int same_b = 0, same_c = 0;
    for (int i = 0; i < 1000; i++) {
        same_b += a[i] == b[i];
        same_c += a[i] == c[i];
    }
    assert_in_range(same_b + same_c, 0, 2);
    free(a), free(b), free(c);
    ls_graph_free(graph);
}

static void compare_with_golden(const ls_graph *graph, int index, const cJSON *row, uint64_t seed) {
    const ls_param *param = &graph->params[index];
    assert_string_equal(cJSON_GetObjectItem(row, "name")->valuestring, param->name);
    const cJSON *shape = cJSON_GetObjectItem(row, "shape");
    assert_int_equal(cJSON_GetArraySize(shape), param->rank);
    for (int k = 0; k < param->rank; k++) assert_int_equal(cJSON_GetArrayItem(shape, k)->valueint, param->file_dim[k]);
    float *values = initial_values(graph, index, seed);
    const int64_t count = ls_param_count(&param->shape);
    double sum = 0, squares = 0;
    for (int64_t k = 0; k < count; k++) {
        sum += values[k];
        squares += (double)values[k] * values[k];
    }
    const double golden_sum = cJSON_GetObjectItem(row, "sum")->valuedouble,
                 golden_squares = cJSON_GetObjectItem(row, "sum_squares")->valuedouble;
    if (fabs(sum - golden_sum) > 1e-11 * (double)count || fabs(squares - golden_squares) > 1e-11 * squares) {
        fail_msg("%s: sum %.17g, squares %.17g, expected %.17g, %.17g", param->name, sum, squares, golden_sum,
            golden_squares);
    }
    const cJSON *pick;
    cJSON_ArrayForEach(pick, cJSON_GetObjectItem(row, "values")) {
        const int at = atoi(pick->string);
        if ((double)values[at] != pick->valuedouble) {
            fail_msg("%s[%d] is %.9g, expected %.9g", param->name, at, values[at], pick->valuedouble);
        }
    }
    free(values);
}

static void golden_values(void **state) {
    (void)state;
    static const char *const networks[] = { "lenet", "resnet9", "resnet20" };
    for (int n = 0; n < 3; n++) {
        char file[64];
        snprintf(file, sizeof file, "tests/golden/%s.json", networks[n]);
        cJSON *golden = NULL;
        const ls_status status = ls_json_read_file(file, &golden);
        if (ls_failed(status)) fail_msg("%s", status.text);
        ls_graph *graph = open_network(cJSON_GetObjectItem(golden, "model_file")->valuestring);
        const cJSON *rows = cJSON_GetObjectItem(golden, "parameters");
        assert_int_equal(cJSON_GetArraySize(rows), graph->param_count);
        const uint64_t seed = (uint64_t)cJSON_GetObjectItem(golden, "seed")->valuedouble;
        int index = 0;
        const cJSON *row;
        cJSON_ArrayForEach(row, rows) compare_with_golden(graph, index++, row, seed);
        ls_graph_free(graph);
        cJSON_Delete(golden);
    }
}

// --- the words of weight_init, against PyTorch and NumPy (scripts/make_golden_init.py) -----------------------------------

static cJSON *golden_init(void) {
    cJSON *golden = NULL;
    must(ls_json_read_file("tests/golden/init.json", &golden));
    return golden;
}

static double number(const cJSON *object, const char *key) {
    return cJSON_GetObjectItem(object, key)->valuedouble;
}

// Golden values have nine digits, so that a float is off by its own rounding and no more.
static void compare_values(const char *name, const cJSON *wanted, const float *values, double tolerance) {
    int at = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, wanted) {
        const double error = fabs((double)values[at] - item->valuedouble);
        if (!(error <= tolerance * fmax(1, fabs(item->valuedouble))))
            fail_msg("%s: value %d is %.9g, expected %.9g", name, at, values[at], item->valuedouble);
        at++;
    }
}

static void words_of_weight_init(void **state) {
    (void)state;
    cJSON *golden = golden_init();
    const uint64_t seed = (uint64_t)number(golden, "seed");
    const cJSON *row;
    uint64_t bits = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(golden, "cases")) {
        const char *name = cJSON_GetObjectItem(row, "name")->valuestring;
        const cJSON *wanted = cJSON_GetObjectItem(row, "values");
        char text[512];
        ls_graph *graph = NULL;
        snprintf(text, sizeof text, "%s[end]\nlayer = flatten\n[head]\nlayer = linear\nout_features = 2\n",
            cJSON_GetObjectItem(row, "network")->valuestring);
        must(ls_graph_parse(name, text, &graph));
        const int count = (int)ls_param_count(&graph->params[0].shape);
        assert_int_equal(count, cJSON_GetArraySize(wanted));
        float *values = initial_values(graph, 0, seed);
        compare_values(name, wanted, values, 1e-7);
        bits = ls_hash_more(bits, values, (size_t)count * sizeof *values);
        free(values);
        ls_graph_free(graph);
    }
    // The same on every machine, whatever its C library and processor are.
    if (bits != UINT64_C(0xdb76714684138840))
        fail_msg("the bits of all values are 0x%016llx", (unsigned long long)bits);
    cJSON_Delete(golden);
}

static void constants_of_biases(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    must(ls_graph_parse("biases",
        "[network]\ninput = 3x4x4\n[c]\nlayer = conv2d\nout_channels = 2\nkernel = 1\nbias_init = 0\n"
        "[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 3\nbias_init = 1.5\n",
        &graph));
    float *conv = initial_values(graph, 1, 1), *linear = initial_values(graph, 3, 1);
    assert_string_equal(graph->params[3].name, "l.bias");
    for (int i = 0; i < 2; i++) assert_true(conv[i] == 0);
    for (int i = 0; i < 3; i++) assert_true(linear[i] == 1.5f);
    free(conv), free(linear);
    ls_graph_free(graph);
}

// A million of them: moments, tails and the correlation of the two that are made together.
static void normal_values_are_normal(void **state) {
    (void)state;
    ls_graph *graph = NULL;
    must(ls_graph_parse("normal",
        "[network]\ninput = 1000x1x1\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 1000\n"
        "weight_init = he-normal\n",
        &graph));
    float *values = initial_values(graph, 0, 11);
    const int count = 1000000;
    const double deviation = sqrt(2.0 / 1000);
    double moments[5] = { 0 }, products = 0;
    int beyond_3 = 0;
    for (int i = 0; i < count; i++) {
        const double z = values[i] / deviation;
        for (int k = 1; k <= 4; k++) moments[k] += pow(z, k) / count;
        beyond_3 += fabs(z) > 3;
        if (i % 2) products += z * (values[i - 1] / deviation) / (count / 2.0);
    }
    const struct {
        const char *what;
        double value, wanted, error; // error: five deviations of the mean of so many
    } rows[] = {
        { "mean", moments[1], 0, 5 * sqrt(1e-6) },
        { "variance", moments[2], 1, 5 * sqrt(2e-6) },
        { "third moment", moments[3], 0, 5 * sqrt(15e-6) },
        { "fourth moment", moments[4], 3, 5 * sqrt(96e-6) },
        { "share beyond 3 deviations", beyond_3 * 1e-6, 0.0026998, 5 * sqrt(0.0027e-6) },
        { "correlation of pairs", products, 0, 5 * sqrt(2e-6) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (fabs(rows[i].value - rows[i].wanted) > rows[i].error)
            fail_msg("%s is %g, expected %g", rows[i].what, rows[i].value, rows[i].wanted);
    free(values);
    ls_graph_free(graph);
}

// --- whitening ----------------------------------------------------------------------------------------------------------

// As make_golden_init.py's: noise that is smoothed unequally along columns, rows and channels.
static void make_picture(uint64_t seed, int index, ls_chw shape, uint8_t *pixels) {
    for (int i = 0, z = 0; z < shape.c; z++) {
        for (int y = 0; y < shape.h; y++) {
            for (int x = 0; x < shape.w; x++, i++) {
                const uint32_t word = ls_random_word(seed, LS_PURPOSE_SYNTHETIC, 0, (uint32_t)index, (uint64_t)i / 4);
                const int own = word >> (8 * (i % 4)) & 255;
                const int left = x ? pixels[i - 1] : own, up = y ? pixels[i - shape.w] : own;
                const int below = z ? pixels[i - shape.w * shape.h] : own;
                pixels[i] = (uint8_t)((2 * own + 3 * left + 2 * up + below) / 8);
            }
        }
    }
}

static int number_at(const cJSON *object, const char *key, int index) {
    return cJSON_GetArrayItem(cJSON_GetObjectItem(object, key), index)->valueint;
}

static void golden_whitening(void **state) {
    (void)state;
    cJSON *golden = golden_init();
    const cJSON *w = cJSON_GetObjectItem(golden, "whiten"), *wanted = cJSON_GetObjectItem(w, "values");
    const ls_chw shape = { number_at(w, "shape", 0), number_at(w, "shape", 1), number_at(w, "shape", 2) };
    const ls_param_shape weight = { LS_PARAM_CONV,
        { (int)number(w, "out_channels"), shape.c, number_at(w, "kernel", 0), number_at(w, "kernel", 1) }, 1 };
    float mean[3], std[3], values[1000];
    for (int c = 0; c < 3; c++) {
        mean[c] = (float)cJSON_GetArrayItem(cJSON_GetObjectItem(w, "mean"), c)->valuedouble;
        std[c] = (float)cJSON_GetArrayItem(cJSON_GetObjectItem(w, "std"), c)->valuedouble;
    }
    ls_whiten *whiten = NULL;
    must(ls_whiten_new(&weight, shape, &whiten));
    uint8_t pixels[1000];
    int64_t sum = 0;
    for (int k = 0; k < (int)number(w, "pictures"); k++) {
        make_picture((uint64_t)number(golden, "seed"), k, shape, pixels);
        for (int i = 0; i < (int)ls_chw_count(shape); i++) sum += pixels[i];
        ls_whiten_add(whiten, pixels);
    }
    assert_int_equal(sum, (int64_t)number(w, "pixel_sum"));
    must(ls_whiten_filters(whiten, mean, std, number(w, "eps"), values));
    assert_int_equal(cJSON_GetArraySize(wanted), ls_param_count(&weight));
    compare_values("whiten", wanted, values, 2e-7);
    const uint64_t bits = ls_hash(values, (size_t)ls_param_count(&weight) * sizeof *values);
    if (bits != UINT64_C(0x9349e208e5b7af4b))
        fail_msg("the bits of all filters are 0x%016llx", (unsigned long long)bits);
    ls_whiten_free(whiten);
    cJSON_Delete(golden);
}

// Pictures of one value: all patches are alike, and every eigenvalue but one is zero.
static void whitening_of_no_variety(void **state) {
    (void)state;
    const ls_param_shape weight = { LS_PARAM_CONV, { 8, 1, 2, 2 }, 1 };
    const float mean[] = { 0 }, std[] = { 1 };
    uint8_t pixels[9];
    float values[32];
    ls_whiten *whiten = NULL;
    memset(pixels, 255, sizeof pixels);
    must(ls_whiten_new(&weight, (ls_chw){ 1, 3, 3 }, &whiten));
    ls_whiten_add(whiten, pixels);
    must(ls_whiten_filters(whiten, mean, std, 0.0001, values));
    for (int i = 0; i < 4; i++) // lambda = 4: 1/2 each, by sqrt(4.0001)
        assert_true(fabs(values[i] - 0.5 / sqrt(4.0001)) < 1e-7);
    for (int i = 0; i < 32; i++) {
        assert_true(isfinite(values[i]) && fabsf(values[i]) <= 100.001f);
        assert_true(values[i] == -values[(i + 16) % 32]);
    }
    ls_whiten_free(whiten);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_words),
        cmocka_unit_test(pytorch_bounds),
        cmocka_unit_test(differ_by_seed_and_parameter),
        cmocka_unit_test(golden_values),
        cmocka_unit_test(words_of_weight_init),
        cmocka_unit_test(constants_of_biases),
        cmocka_unit_test(normal_values_are_normal),
        cmocka_unit_test(golden_whitening),
        cmocka_unit_test(whitening_of_no_variety),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
