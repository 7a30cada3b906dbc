// A safetensors file: every tensor is found again by its own name, type and shape, its values are read,
// its notes are read as a weights file's, and compared with a configuration's.
#include <stdlib.h>
#include <string.h>

#include "fuzz/target.h"
#include "formats/safetensors.h"
#include "formats/weights_fit.h"

static void read_values(const ls_safetensors_tensor *tensor) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    fuzz_expect((uintptr_t)tensor->data % bytes == 0, "%s is not aligned", tensor->name);
    for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->dim[i];
    unsigned char *copy = malloc(bytes + 1);
    if (!copy) abort();
    memcpy(copy, tensor->data, bytes);
    free(copy);
}

// What the file says beside a configuration's data, for each use; what is arranged stays a permutation.
static void fit(const char *path, const ls_weights_info *facts) {
    static const char network[] =
        "[network]\ninput = 3x2x2\n[f]\nlayer = flatten\n[l]\nlayer = linear\nout_features = 2\n";
    static char *names[] = { "ant", "0" };
    ls_graph *graph;
    ls_config cfg;
    if (ls_failed(ls_graph_parse("network", network, &graph))) abort();
    const ls_weights_info here = {
        .input = { 3, 2, 2 }, .mean_count = 3, .std_count = 3, .classes = names, .class_count = 2
    };
    for (int use = LS_WEIGHTS_START; use <= LS_WEIGHTS_PREDICT; use++) {
        ls_weights_fit *fit;
        float rows[24];
        ls_config_defaults(&cfg);
        ls_weights_adopt(facts, &cfg);
        const ls_weights_fit_options options = { path, facts, &here, graph, &cfg, (ls_weights_use)use };
        if (fuzz_refused(ls_weights_fit_new(&options, &fit), LS_USAGE, LS_DATA)) continue;
        for (int i = 0; i < 24; i++) rows[i] = (float)i;
        fuzz_expect(!ls_failed(ls_weights_fit_arrange(fit, graph, 0, rows)), "no memory");
        fuzz_expect(rows[0] + rows[12] == 12 && rows[5] + rows[17] == 22, "rows are no permutation");
        for (const char *at = fit->class_note; *at; at++)
            fuzz_expect((unsigned char)*at >= 32 && *at != 127, "a control character in: %s", fit->class_note);
        ls_weights_fit_free(fit);
    }
    ls_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_safetensors *file;
    const char *path = fuzz_file(0, data, bytes);
    if (fuzz_refused(ls_safetensors_read(path, &file), LS_STORAGE, LS_OK)) return 0;
    for (int i = 0; i < ls_safetensors_count(file); i++) {
        ls_safetensors_tensor tensor;
        fuzz_expect(*ls_safetensors_name(file, i), "tensor %d has no name", i);
        if (!ls_safetensors_get(file, i, &tensor)) continue;
        read_values(&tensor);
        const void *found = NULL;
        ls_status status = ls_safetensors_find(file, &tensor, &found);
        fuzz_expect(!ls_failed(status) && found == tensor.data, "%s: %s", tensor.name, status.text);
        tensor.rank = 0;
        fuzz_refused(ls_safetensors_find(file, &tensor, &found), LS_STORAGE, LS_OK);
    }
    const ls_safetensors_tensor none = { .name = "no such tensor" };
    const void *found;
    fuzz_refused(ls_safetensors_find(file, &none, &found), LS_STORAGE, LS_OK);
    ls_weights_info *facts;
    if (!fuzz_refused(ls_weights_info_read(path, file, &facts), LS_STORAGE, LS_USAGE)) {
        fit(path, facts);
        ls_weights_info_free(facts);
    }
    ls_safetensors_free(file);
    return 0;
}
