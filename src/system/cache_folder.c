#include "system/cache_folder.h"

#include <stdio.h>
#include <stdlib.h>

const char *ls_cache_folder(char *path, size_t bytes) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    if (cache && cache[0] == '/')
        length = snprintf(path, bytes, "%s/lockstep", cache);
    else if (home && home[0] == '/')
        length = snprintf(path, bytes, "%s/.cache/lockstep", home);
    return length > 0 && (size_t)length < bytes ? path : NULL;
}
