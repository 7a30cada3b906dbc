// A safetensors file: every tensor is found again by its own name, type and shape, its values are read,
// and its notes are read as a weights file's.
#include <stdlib.h>
#include <string.h>

#include "fuzz/target.h"
#include "files/safetensors.h"
#include "files/weights_metadata.h"

static void read_values(const ls_safetensors_tensor *tensor) {
    size_t bytes = ls_dtype_bytes(tensor->dtype);
    fuzz_expect((uintptr_t)tensor->data % bytes == 0, "%s is not aligned", tensor->name);
    for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->dim[i];
    unsigned char *copy = malloc(bytes + 1);
    if (!copy) abort();
    memcpy(copy, tensor->data, bytes);
    free(copy);
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
    if (!fuzz_refused(ls_weights_info_read(path, file, &facts), LS_STORAGE, LS_USAGE)) ls_weights_info_free(facts);
    ls_safetensors_free(file);
    return 0;
}
