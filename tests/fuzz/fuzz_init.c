// Weights to start from: model.init_rules (the first part of the input) and a safetensors file (the rest) of which a small
// network takes what it can. What is taken has values, and the report can be printed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/weights_map.h"
#include "fuzz/target.h"

static const char network[] = "[network]\ninput = 1x2x2\n[c]\nlayer = conv2d\nout_channels = 2\nkernel = 1\n"
                              "[n]\nlayer = batchnorm2d\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 2\n";

static void use(const ls_weights_map *map, const ls_safetensors *file) {
    float values[16];
    char text[64];
    int taken = 0;
    FILE *nowhere = fopen("/dev/null", "w");
    for (int p = 0; p < map->graph->param_count; p++) {
        if (!map->source[p]) continue;
        ls_weights_map_values(map, file, p, values);
        taken++;
    }
    fuzz_expect(taken == map->taken, "%d are taken, counted are %d", taken, map->taken);
    fuzz_expect(strlen(ls_weights_map_text(map, text, sizeof text)) < sizeof text, "a text without end");
    if (!nowhere) abort();
    ls_weights_map_print(map, nowhere);
    fclose(nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_safetensors *file;
    ls_weights_map *map;
    ls_graph *graph;
    size_t rule_bytes;
    char rules[512];
    const uint8_t *text = fuzz_part(&data, &bytes, &rule_bytes);
    snprintf(rules, sizeof rules, "%.*s", (int)rule_bytes, (const char *)text);
    const char *path = fuzz_file(0, data, bytes);
    if (fuzz_refused(ls_safetensors_read(path, &file), LS_STORAGE, LS_OK)) return 0;
    if (ls_failed(ls_graph_parse("network", network, &graph))) abort();
    if (!fuzz_refused(ls_weights_map_new(path, file, graph, rules, NULL, &map), LS_USAGE, LS_OK)) {
        use(map, file);
        ls_weights_map_free(map);
    }
    ls_graph_free(graph);
    ls_safetensors_free(file);
    return 0;
}
