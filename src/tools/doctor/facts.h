// facts.h - the facts that `train doctor` knows about each rank and its host, as plain data. Each rank collects its own
// facts, and the ranks exchange them as bytes.
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
enum { LS_FACTS_UNLIMITED = -1, LS_FACTS_UNKNOWN = -2 }; // values beside numbers that are 0 or more

// The limits of a process that ls_facts.limit has, in its order: name, resource of getrlimit(2), name in JSON.
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
    char problem[LS_GPU_TEXT_BYTES]; // one line: the problem with its fix; "": no problem
    int32_t of_gpu, for_several;     // 1: the library is for GPUs; 1: needed only for several GPUs
} ls_facts_library;

// The facts of a rank and its host. A text that is too long is cut. A text is "" if it is unknown or does not apply.
typedef struct {
    // the rank
    int32_t rank, local_size, host_index;
    char host[64];
    // the program
    char program[LS_FACTS_PATH_BYTES]; // the word that starts the program here: "./train"
    char version[LS_FACTS_NAME_BYTES], build[LS_FACTS_NAME_BYTES];
    int32_t is_root;
    char kernel[LS_FACTS_NAME_BYTES];
    char container[32]; // "docker"; "": no sign of a container
    // processor
    char model[64];
    char features[64]; // "AVX2, AVX-512"
    int32_t is_old;    // an x86-64 processor without AVX2 and FMA
    int32_t mask_cpus, mask_cores, online_cpus, host_cpus;
    int32_t threads; // number of threads that a rank takes here
    double quota;    // number of cores that the control group allows; 0: no limit
    char mask[128];
    int32_t numa_nodes; // number of memory nodes that have processors; 0: unknown
    // memory, bytes
    int64_t memory, memory_available, memory_limit; // limit: of the control group, or LS_FACTS_UNLIMITED
    int64_t shm, shm_free; // of /dev/shm; LS_FACTS_UNKNOWN: it is missing; LS_FACTS_UNLIMITED: it reports no size
    // the file system that runs would be written to
    char folder[LS_FACTS_PATH_BYTES], file_system[16];
    int64_t disk_free;
    int32_t is_writable;
    int64_t limit[LS_FACTS_LIMIT_COUNT]; // soft limits
    int32_t reads_peers;                 // whether process_vm_readv works, by which MPI copies inside a host
    char variable[LS_FACTS_VARIABLES_MAX]
                 [LS_FACTS_NAME_BYTES]; // environment variables that affect threads or GPUs: "OMP_PROC_BIND=close"
    // MPI
    char mpi[LS_FACTS_NAME_BYTES];                     // the library that is linked: "Open MPI v4.1.4"; or "no MPI"
    char started_by[LS_FACTS_NAME_BYTES];              // launcher of this process, "Open MPI's mpirun"; "": none
    ls_facts_library launcher[LS_FACTS_LAUNCHERS_MAX]; // launchers in PATH; only rank 0 looks for them
    char srun[LS_FACTS_PATH_BYTES], srun_speaks[LS_FACTS_NAME_BYTES]; // path; kinds that srun --mpi offers: "pmix pmi2"
    // GPUs
    int32_t nvidia_on_bus;         // number of NVIDIA's display controllers among the PCI devices
    int32_t gpus;                  // number of GPUs that a run would see here
    char gpu[LS_FACTS_NAME_BYTES]; // name of the first GPU
    char why_no_gpu[LS_GPU_TEXT_BYTES];
    char driver[32], driver_path[LS_FACTS_PATH_BYTES];
    char driver_problem[LS_GPU_TEXT_BYTES], card_problem[LS_GPU_TEXT_BYTES];
    // libraries that the process has loaded, then the libraries for GPUs, found or not
    ls_facts_library library[LS_FACTS_LIBRARIES_MAX];
} ls_facts;

// Collects the facts of this rank. Call it before MPI starts: it runs programs to read their versions. devices: filled
// in by ls_devices_look. folder: where runs would be written; NULL: the current folder.
void ls_facts_collect(const ls_devices *devices, const char *folder, ls_facts *facts);
// Adds rank, host and number of threads to the facts, after the communicator has started: the number of threads depends
// on the other ranks of the host.
void ls_facts_of_rank(const ls_comm_info *info, ls_devices *devices, ls_facts *facts);
// Add members to a JSON object, in the order in which they are printed: ls_facts_json the facts,
// ls_facts_launchers_json the launchers in PATH.
void ls_facts_json(const ls_facts *facts, cJSON *rank);
void ls_facts_launchers_json(const ls_facts *facts, cJSON *object);
// Calls `take` for each member of an object that ls_facts_json has filled, with its name and value in words: "memory",
// "23.5 GiB". path: where a library or launcher is; "" for other members.
typedef void (*ls_facts_take)(void *context, const char *name, const char *value, const char *path);
void ls_facts_each(const cJSON *object, ls_facts_take take, void *context);
// Finds the MPI and its version in the text that a launcher prints: "mpirun (Open MPI) 4.1.4" gives "Open MPI 4.1.4".
// name becomes "" unless the text names Open MPI, MPICH or Intel MPI.
void ls_facts_read_version(const char *text, char *name, size_t bytes);

#endif
