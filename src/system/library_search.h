// library_search.h - finds and opens a library of NVIDIA's. It searches, in this order: the folders of LD_LIBRARY_PATH,
// cuda/lib (for CUDA 12 cuda12/lib) next to the program, the same folder of the repository that the plugin was built
// from (scripts/fetch-cuda.sh makes it), the folders where the build found such libraries, and the system's loader
// cache. Only the first and last of these are searched for libcuda and NVML. The plugin has a copy of this file.
#ifndef LS_SYSTEM_LIBRARY_SEARCH_H
#define LS_SYSTEM_LIBRARY_SEARCH_H

#include <stddef.h>

enum { LS_LIBRARY_PATH_BYTES = 1024 };

typedef struct {
    void *handle; // stays open: NVIDIA's libraries do not survive being closed
    char path[LS_LIBRARY_PATH_BYTES];
    char error[LS_LIBRARY_PATH_BYTES]; // the loader's message if a file was found but did not open
} ls_library_file;

// Finds and opens the library `soname` in `folders`, separated by ':' (NULL: none), then, if `loader`, where the
// system's loader looks. Returns 1 if it opened.
int ls_library_search_open(const char *folders, int loader, const char *soname, ls_library_file *out);
// Returns the folders in which libraries for a major version of CUDA are searched, separated by ':'. more: the folders
// that the plugin's build names (LS_CUDA_BUILD_FOLDERS). The caller frees the text.
char *ls_library_search_folders(int cuda_major, const char *more);
// Writes half a sentence for a message about a missing library: how to get "it" without root by scripts/fetch-cuda.sh,
// and how the program then finds it. Returns text.
const char *ls_library_search_advice(int cuda_major, char *text, size_t bytes);
// Looks up a function of an open library and stores it in *function, a function pointer. Returns 1 if it exists.
int ls_library_search_find(void *handle, const char *name, void *function);

#endif
