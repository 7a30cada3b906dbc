// plugin_build.h - the facts about the build of a plugin that are needed before it can be opened: with which CUDA, for
// which cards. They are in a section of the plugin's file, so they can be read while NVIDIA's libraries are missing.
#ifndef LS_SYSTEM_PLUGIN_BUILD_H
#define LS_SYSTEM_PLUGIN_BUILD_H

#include <stdint.h>

#define LS_PLUGIN_BUILD_SECTION ".lockstep_build"

typedef struct {
    int32_t runtime;    // version of the CUDA runtime, as CUDA counts: 12040 for 12.4
    int32_t capability; // lowest compute capability that it has code for: 70 for 7.0
    char folders[1016]; // where the build found NVIDIA's libraries, separated by ':'
} ls_plugin_build;

// Reads the facts of the plugin `path`. Returns 0 if the file cannot be read or has no valid section with the facts.
int ls_plugin_build_read(const char *path, ls_plugin_build *build);

#endif
