// layer_activations.c - the activations of config/activations.def, element by element.
#include "model/layer.h"

#define ACTIVATION(NAME, layer_name, zero, text) \
    const ls_layer_type ls_layer_type_##layer_name = { \
        .name = #layer_name, .what = text, .input_count = 1, .domain = LS_TAKES_ANY \
    };
#define PARAMETRIC(NAME, layer_name, zero, text, key, preset, maximum, meaning) \
    static const ls_layer_key keys_of_##layer_name[] = { \
        { key, LS_KEY_REAL, offsetof(ls_layer, attr.layer_name.parameter), 0, preset, 0, maximum, meaning }, \
    }; \
    const ls_layer_type ls_layer_type_##layer_name = { .name = #layer_name, \
        .what = text, \
        .keys = keys_of_##layer_name, \
        .key_count = 1, \
        .input_count = 1, \
        .domain = LS_TAKES_ANY };
#include "config/activations.def"

ls_activation ls_layer_applies(const ls_layer *layer, double *parameter) {
    static const ls_activation kinds[LS_LAYER_COUNT] = {
        [LS_LAYER_RELU] = LS_ACTIVATION_RELU,
#define ACTIVATION(NAME, name, zero, text) [LS_LAYER_##NAME] = LS_ACTIVATION_##NAME,
#include "config/activations.def"
    };
    const ls_activation kind = kinds[layer->kind];
    *parameter = kind > LS_ACTIVATION_RELU ? layer->attr.gelu.parameter : 0; // the attributes of all have one address
    return kind;
}
