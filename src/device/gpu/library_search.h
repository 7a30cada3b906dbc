// library_search.h - opens a library of NVIDIA's where it may be: in the folders of LD_LIBRARY_PATH, in cuda/lib beside
// the program, in cuda/lib of the repository that it was built from (made by scripts/fetch-cuda.sh), in the folders
// where the build found such libraries, and in the system's cache; the driver's in the first and the last. Also built
// into the CUDA plugin.
#ifndef LS_DEVICE_GPU_LIBRARY_SEARCH_H
#define LS_DEVICE_GPU_LIBRARY_SEARCH_H

#include <stddef.h>

enum { LS_LIBRARY_PATH_BYTES = 1024 };

typedef struct {
    void *handle; // stays open: NVIDIA's libraries do not survive that they are closed
    char path[LS_LIBRARY_PATH_BYTES];
    char error[LS_LIBRARY_PATH_BYTES]; // the loader's words when a file was there and did not open
} ls_library_file;

// 1 when it opened. folders: look only in these, a list separated by ':'; NULL: everywhere.
int ls_library_search_open(const char *folders, const char *soname, int of_driver, ls_library_file *out);
// How "it" is got without root, and how it is found: half a sentence that names scripts/fetch-cuda.sh as a person calls it.
// Returns text.
const char *ls_library_search_advice(char *text, size_t bytes);
// A function of an open library into *function, a function pointer; 1 when it is there.
int ls_library_search_find(void *handle, const char *name, void *function);

#endif
