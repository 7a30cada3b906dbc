// init.c - initial values. They depend only on (seed, parameter's index, element), so all ranks and devices agree.
#include <math.h>
#include <string.h>
#include "base/philox_core.h"
#include "config/purpose.h"
#include "base/portable_math.h"
#include "model/layer.h"

const char *ls_init_word(ls_init_kind kind) {
    static const char *const words[] = {
#define X(NAME, word, what) word,
#include "model/initialisations.def"
#undef X
    };
    return words[kind];
}

// Computes sine and cosine of turn * 2 pi, 0 <= turn < 1, with the same bits on every machine: Taylor's series within
// an eighth of a turn, the rest by symmetry.
static void sine_and_cosine(double turn, double *sine, double *cosine) {
    const int quarter = (int)(4 * turn + 0.5);
    const double r = (turn - quarter / 4.0) * 6.2831853071795865, square = r * r;
    double s = 1, c = 1;
    for (int k = 14; k >= 2; k -= 2) s = 1 - s * square / (k * (k + 1));
    for (int k = 15; k >= 1; k -= 2) c = 1 - c * square / (k * (k + 1));
    s *= r;
    const double sines[4] = { s, c, -s, -c }, cosines[4] = { c, -s, -c, s };
    *sine = sines[quarter % 4];
    *cosine = cosines[quarter % 4];
}

// --- values -------------------------------------------------------------------------------------------------------

// Maps a random word to a number from -bound to bound. 2u - 1 is exact (u has 24 bits), so the number is rounded only
// once, and other implementations get the same bits.
static float uniform(uint32_t word, float bound) {
    return (2.0f * ls_philox_core_unit(word) - 1.0f) * bound;
}

static void normal_pair(const uint32_t words[2], double deviation, float pair[2]) {
    double sine, cosine;
    const double radius = sqrt(-2 * ls_portable_log((words[0] + 1.0) * 0x1p-32));
    sine_and_cosine(words[1] * 0x1p-32, &sine, &cosine);
    pair[0] = (float)(deviation * (radius * cosine));
    pair[1] = (float)(deviation * (radius * sine));
}

static void fill_random(const ls_param *param, int index, uint64_t seed, int64_t count, float *values) {
    const double value = param->init_value;
    const int is_normal = param->init == LS_INIT_HE_NORMAL;
    for (int64_t i = 0; i < count; i += 4) { // a Philox block has four words
        const ls_philox_block block = ls_philox_core_block(seed, LS_PURPOSE_INIT, (uint32_t)index, 0, (uint64_t)i / 4);
        float four[4];
        for (int k = 0; k < 4; k++) four[k] = uniform(block.v[k], (float)value);
        for (int k = 0; k < 4 && is_normal; k += 2) normal_pair(&block.v[k], value, &four[k]);
        for (int64_t k = i; k < count && k < i + 4; k++) values[k] = four[k - i];
    }
}

// Divides the values by their standard deviation, computed like torch.Tensor.std with divisor count - 1. Values without
// deviation stay.
static void divide_by_deviation(int64_t count, float *values) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)values[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++) squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    const double deviation = sqrt(squares / (double)(count - 1));
    for (int64_t i = 0; i < count && deviation > 0; i++) values[i] = (float)((double)values[i] / deviation);
}

// Overwrites the first filters of each group with an identity: filter i becomes 1 at the centre of channel i and 0
// elsewhere. Filters without such a channel stay.
static void put_identity(const ls_param_shape *shape, float *values) {
    const int filters = shape->dim[0] / shape->groups, channels = shape->dim[1];
    const int64_t plane = (int64_t)shape->dim[2] * shape->dim[3], filter = plane * channels;
    const int64_t centre = (int64_t)(shape->dim[2] / 2) * shape->dim[3] + shape->dim[3] / 2;
    for (int g = 0; g < shape->groups; g++) {
        for (int i = 0; i < filters && i < channels; i++) {
            float *first = values + (g * filters + i) * filter;
            memset(first, 0, (size_t)filter * sizeof *first);
            first[i * plane + centre] = 1;
        }
    }
}

void ls_graph_init_param(const ls_graph *graph, int index, uint64_t seed, float *values) {
    const ls_param *param = &graph->params[index];
    const int64_t count = ls_param_count(&param->shape);
    if (param->init == LS_INIT_CONSTANT || param->init == LS_INIT_WHITEN) {
        const float value = param->init == LS_INIT_CONSTANT ? (float)param->init_value : 0;
        for (int64_t i = 0; i < count; i++) values[i] = value;
        return;
    }
    fill_random(param, index, seed, count, values);
    if (param->init == LS_INIT_UNIT_STD) divide_by_deviation(count, values);
    if (param->init == LS_INIT_DIRAC) put_identity(&param->shape, values);
}
