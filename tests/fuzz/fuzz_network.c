// A network file: read, printed, its parameters placed, and compiled for training and for evaluation with a small and
// the largest micro-batch. Nothing is run.
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "fuzz/target.h"
#include "model/graph.h"
#include "program/compile.h"

static ls_device *open_device(void) {
    static ls_device *device;
    const char *why;
    if (!device && ls_failed(ls_device_open("ref", &(ls_device_options){ .threads = 1 }, &device, &why))) abort();
    return device;
}

static void check_shapes(const ls_graph *graph) {
    for (int i = 0; i < graph->layer_count; i++) {
        const ls_chw out = graph->layers[i].out;
        fuzz_expect(out.c > 0 && out.h > 0 && out.w > 0 && ls_chw_count(out) <= INT32_MAX, "layer %d: %d x %d x %d", i,
            out.c, out.h, out.w);
        for (int k = 0; k < graph->layers[i].input_count; k++)
            fuzz_expect(graph->layers[i].inputs[k] < i, "layer %d reads layer %d", i, graph->layers[i].inputs[k]);
    }
    for (int i = 0; i < graph->param_count; i++)
        fuzz_expect(ls_param_count(&graph->params[i].shape) > 0, "parameter %s", graph->params[i].name);
}

static void print(const ls_graph *graph) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory) abort();
    ls_graph_print(graph, memory);
    if (fclose(memory) != 0) abort();
    fuzz_expect(bytes > 0, "nothing printed");
    free(text);
}

static void compile(const ls_graph *graph, int micro_batch, int training) {
    ls_param_store *store;
    const ls_param_store_options options = {
        .storage = training ? LS_F32 : LS_BF16, .state_tensors = 2, .ordered = training
    };
    if (fuzz_refused(ls_param_store_new(open_device(), graph, &options, &store), LS_DEVICE, LS_USAGE)) return;
    ls_program *program;
    const ls_compile_options wanted = { .micro_batch = micro_batch, .training = training, .recompute = training };
    if (!fuzz_refused(ls_compile(store, &wanted, &program), LS_DEVICE, LS_USAGE)) ls_program_free(program);
    ls_param_store_free(store);
}

static ls_status find_data(void *context, ls_chw *shape, int *classes) {
    (void)context;
    *shape = (ls_chw){ 3, 32, 32 };
    *classes = 10;
    return LS_SUCCESS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_graph *graph;
    const ls_graph_data source = { find_data, NULL };
    if (fuzz_refused(ls_graph_read_for(fuzz_file(0, data, bytes), &source, &graph), LS_USAGE, LS_DEVICE)) return 0;
    check_shapes(graph);
    ls_graph *again; // of its own text, which has numbers in place of words
    fuzz_expect(!ls_failed(ls_graph_parse("text", graph->text, &again)), "refused for the second time");
    fuzz_expect(again->hash == graph->hash, "another network for the second time");
    ls_graph_free(again);
    print(graph);
    for (int training = 0; training < 2; training++) {
        compile(graph, 3, training);
        compile(graph, 65536, training);
    }
    ls_graph_free(graph);
    return 0;
}
