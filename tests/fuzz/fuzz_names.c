// A list of names of pictures (train predict --files-from).
#include "data/picture_list.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    ls_picture_list list = { 0 };
    if (!fuzz_refused(ls_picture_list_add_names(&list, fuzz_file(0, data, bytes)), LS_DATA, LS_OK))
        for (int64_t i = 0; i < list.count; i++) fuzz_expect(*list.paths[i], "name %d is empty", (int)i);
    ls_picture_list_free(&list);
    return 0;
}
