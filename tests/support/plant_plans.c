// plant_plans.c - makes CHOICE the choice of every entry of the measured plans in FOLDER/plans, as a run would have
// kept it: plant_plans FOLDER CHOICE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic_file.h"
#include "device/algorithm_cache.h"

int main(int count, char **args) {
    char path[4096], *text = NULL;
    size_t bytes;
    ls_algorithm_cache *cache = NULL;
    if (count != 3) return 2;
    snprintf(path, sizeof path, "%s/plans", args[1]);
    ls_status status = ls_read_file(path, &text, &bytes);
    if (!ls_failed(status)) status = ls_algorithm_cache_open(args[1], "plans", &cache);
    for (char *line = text ? strchr(text, '\n') : NULL; !ls_failed(status) && line && line[1];) {
        char key[1024];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(line + 1, "\t"), line + 1);
        ls_algorithm_cache_put(cache, key, args[2]);
        line = strchr(line + 1, '\n');
    }
    if (!ls_failed(status)) status = ls_algorithm_cache_save(cache);
    if (ls_failed(status)) fprintf(stderr, "%s\n", status.text);
    ls_algorithm_cache_free(cache);
    free(text);
    return status.code;
}
