// init.c - initial values, a pure function of (seed, parameter's index, element): the same on every rank and device.
#include "base/philox.h"
#include "model/graph.h"

// 2u - 1 is exact (u has 24 bits), so an element is rounded once: other implementations get the same bits.
static float uniform(uint32_t word, float bound) {
    return (2.0f * ls_unit_float(word) - 1.0f) * bound;
}

void ls_graph_init_param(const ls_graph *graph, int index, uint64_t seed, float *values) {
    const ls_param *param = &graph->params[index];
    const int64_t count = ls_param_count(&param->shape);
    const float value = (float)param->init_value;
    if (param->init == LS_INIT_CONSTANT) {
        for (int64_t i = 0; i < count; i++) values[i] = value;
        return;
    }
    for (int64_t i = 0; i < count; i += 4) { // a block has four words
        const ls_philox_block block = ls_random_block(seed, LS_PURPOSE_INIT, (uint32_t)index, 0, (uint64_t)i / 4);
        for (int64_t k = i; k < count && k < i + 4; k++) values[k] = uniform(block.v[k - i], value);
    }
}
