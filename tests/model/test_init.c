// Initial values: against published words of the generator, against the golden files'
// second implementation, and PyTorch's bounds.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "model/graph.h"
#include "support/cmocka.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_words),
        cmocka_unit_test(pytorch_bounds),
        cmocka_unit_test(differ_by_seed_and_parameter),
        cmocka_unit_test(golden_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
