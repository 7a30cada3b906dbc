// facts.h - what `train doctor` knows about every rank and its host, as plain data. Each rank collects its own facts,
// and the ranks exchange them as bytes.
#ifndef LS_TOOLS_DOCTOR_FACTS_H
#define LS_TOOLS_DOCTOR_FACTS_H

#include <stdint.h>
#include "tools/doctor/devices.h"
#include "dist/comm.h"

enum {
    LS_FACTS_NAME_BYTES = 96,
    LS_FACTS_PATH_BYTES = 256,
    LS_FACTS_LIBRARIES_MAX = 16,
    LS_FACTS_LAUNCHERS_MAX = 4,
    LS_FACTS_VARIABLES_MAX = 8
};
enum { LS_FACTS_UNLIMITED = -1, LS_FACTS_UNKNOWN = -2 }; // of numbers that are 0 or more

// Limits of a process that matter here, in the order of ls_facts.limit, and their names in JSON.
#define LS_FACTS_LIMITS(X) \
    X(FILES, RLIMIT_NOFILE, "open_files") \
    X(PROCESSES, RLIMIT_NPROC, "processes") \
    X(LOCKED, RLIMIT_MEMLOCK, "locked_memory_bytes") \
    X(STACK, RLIMIT_STACK, "stack_bytes") \
    X(ADDRESSES, RLIMIT_AS, "addresses_bytes")
typedef enum {
#define LS_FACTS_LIMIT_ENUM(NAME, resource, text) LS_LIMIT_##NAME,
    LS_FACTS_LIMITS(LS_FACTS_LIMIT_ENUM)
#undef LS_FACTS_LIMIT_ENUM
        LS_FACTS_LIMIT_COUNT
} ls_facts_limit;

typedef struct { // a library or program
    char name[32];
    char version[64];                // "": unknown
    char path[LS_FACTS_PATH_BYTES];  // "": not found
    char problem[LS_GPU_TEXT_BYTES]; // one line, with the fix; "": fits
    int32_t of_gpu, for_several;     // for_several: only several GPUs need it
} ls_facts_library;

// Texts are cut where they do not fit; "": unknown, or there is none.
typedef struct {
    // the rank
    int32_t rank, local_size, host_index;
    char host[64];
    // the program
    char program[LS_FACTS_PATH_BYTES]; // as one would write it here: "./train"
    char version[LS_FACTS_NAME_BYTES], build[LS_FACTS_NAME_BYTES];
    int32_t is_root;
    char kernel[LS_FACTS_NAME_BYTES];
    char container[32]; // "docker"; "": no sign of one
    // processor
    char model[64];
    char features[64]; // "AVX2, AVX-512"
    int32_t has_avx2;
    int32_t mask_cpus, mask_cores, online_cpus, host_cpus;
    int32_t threads; // that a rank takes here
    double quota;    // cores; 0: none
    char mask[128];
    int32_t numa_nodes; // with processors; 0: unknown
    // memory, bytes
    int64_t memory, memory_available, memory_limit; // limit: of the cgroup; LS_FACTS_UNLIMITED
    int64_t shm, shm_free;                          // /dev/shm; LS_FACTS_UNKNOWN: none; _UNLIMITED: it has no size
    // the file system that runs would be written to
    char folder[LS_FACTS_PATH_BYTES], file_system[16];
    int64_t disk_free;
    int32_t is_writable;
    int64_t limit[LS_FACTS_LIMIT_COUNT]; // soft ones
    int32_t reads_peers;                 // a process may read another one's memory: what MPI copies with inside a host
    char variable[LS_FACTS_VARIABLES_MAX]
                 [LS_FACTS_NAME_BYTES]; // set ones that change where threads run: "OMP_PROC_BIND=close"
    // MPI
    char mpi[LS_FACTS_NAME_BYTES];                     // that the program is linked with: "Open MPI v4.1.4"; "no MPI"
    char started_by[LS_FACTS_NAME_BYTES];              // "Open MPI's mpirun"; "": by hand
    ls_facts_library launcher[LS_FACTS_LAUNCHERS_MAX]; // in PATH; of rank 0 alone
    char srun[LS_FACTS_PATH_BYTES], srun_speaks[LS_FACTS_NAME_BYTES]; // "pmix pmi2"; "": it does not work here
    // GPUs
    int32_t nvidia_on_bus;         // NVIDIA's display controllers among the PCI devices
    int32_t gpus;                  // that a run would see here
    char gpu[LS_FACTS_NAME_BYTES]; // the first one's name
    char why_no_gpu[LS_GPU_TEXT_BYTES];
    char driver[32], driver_path[LS_FACTS_PATH_BYTES];
    char driver_problem[LS_GPU_TEXT_BYTES], card_problem[LS_GPU_TEXT_BYTES];
    // libraries that the process has loaded, and those of GPUs that were looked for
    ls_facts_library library[LS_FACTS_LIBRARIES_MAX];
} ls_facts;

// Call before MPI starts: it starts programs to read their versions. devices: after ls_devices_look. folder: where runs
// would be written; NULL: the current folder. Facts that a machine does not have stay empty.
void ls_facts_collect(const ls_devices *devices, const char *folder, ls_facts *facts);
// Call after the communicator has started: adds what it knows, and how many threads a rank takes beside the others.
void ls_facts_of_rank(const ls_comm_info *info, ls_devices *devices, ls_facts *facts);
// The facts as members of a JSON object, in the order in which they are printed; the launchers in PATH.
void ls_facts_json(const ls_facts *facts, cJSON *rank);
void ls_facts_launchers_json(const ls_facts *facts, cJSON *object);
// Calls take for each member of such an object with its name and value in words: "memory", "23.5 GiB". path: of a
// library or launcher; else "".
typedef void (*ls_facts_take)(void *context, const char *name, const char *value, const char *path);
void ls_facts_each(const cJSON *object, ls_facts_take take, void *context);
// Reads the MPI and its version from what a launcher prints: "mpirun (Open MPI) 4.1.4" becomes "Open MPI 4.1.4". The
// text is "" if it names none of Open MPI, MPICH and Intel MPI.
void ls_facts_read_version(const char *text, char *name, size_t bytes);

#endif
