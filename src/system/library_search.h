// library_search.h - finds and opens a library of NVIDIA's. It searches, in this order: the folders of LD_LIBRARY_PATH,
// cuda/lib next to the program, cuda/lib of the repository that the program was built from (made by
// scripts/fetch-cuda.sh), the folders where the build found such libraries, and the system's loader cache. The driver's
// library is searched only in the first and the last of these. Also built into the CUDA plugin.
#ifndef LS_SYSTEM_LIBRARY_SEARCH_H
#define LS_SYSTEM_LIBRARY_SEARCH_H

#include <stddef.h>

enum { LS_LIBRARY_PATH_BYTES = 1024 };

typedef struct {
    void *handle; // stays open: NVIDIA's libraries do not survive being closed
    char path[LS_LIBRARY_PATH_BYTES];
    char error[LS_LIBRARY_PATH_BYTES]; // the loader's message if a file was found but did not open
} ls_library_file;

// Finds and opens the library `soname`. Returns 1 if it opened. folders: search only these, separated by ':'; NULL:
// search everywhere. of_driver: the library comes with the driver.
int ls_library_search_open(const char *folders, const char *soname, int of_driver, ls_library_file *out);
// Writes half a sentence for a message about a missing library: how to get "it" without root by scripts/fetch-cuda.sh,
// and how the program then finds it. Returns text.
const char *ls_library_search_advice(char *text, size_t bytes);
// Looks up a function of an open library and stores it in *function, a function pointer. Returns 1 if it exists.
int ls_library_search_find(void *handle, const char *name, void *function);

#endif
