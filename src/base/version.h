// version.h - identifies this build: in --version, in files of runs and in the comparison of all ranks at the start.
#ifndef LS_BASE_VERSION_H
#define LS_BASE_VERSION_H

const char *ls_version(void);           // "0.1.0 (f641fe6-dirty)": release and git's description of the tree
const char *ls_version_compiler(void);  // compiler and flags: "GNU 12.2.0 Release -O3 -DNDEBUG"
const char *ls_version_libraries(void); // "oneDNN 2.6.3, zlib 1.2.13": versions at build time; MPI: ls_comm_library

#endif
