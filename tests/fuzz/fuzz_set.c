// Assignments of --set, one a line, then the check of the whole.
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char *text = malloc(bytes + 1), *rest = text, where[LS_TEXT_BYTES * 3];
    if (!text) abort();
    memcpy(text, data, bytes);
    text[bytes] = 0;
    ls_config cfg;
    ls_config_defaults(&cfg);
    for (char *line; (line = strsep(&rest, "\n"));) fuzz_refused(ls_config_set(&cfg, line), LS_USAGE, LS_OK);
    for (int i = 0; i < LS_OPTION_COUNT; i++)
        fuzz_expect(*ls_config_where(&cfg, i, where, sizeof where), "option %d is not described", i);
    fuzz_refused(ls_config_check(&cfg), LS_USAGE, LS_OK);
    free(text);
    return 0;
}
