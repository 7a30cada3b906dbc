// collect.c - collects the facts of a rank and its host. Nothing here fails: a fact that cannot be found stays empty.
#include "tools/doctor/facts.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/files.h"
#include "system/installed.h"
#include "base/text.h"
#include "base/version.h"
#include "system/pci.h"
#include "dist/launcher.h"

enum { ANSWER_BYTES = 4096, ANSWER_S = 3 };
extern char **environ;

// Reads a file until its end or until text is full.
static void read_up(int fd, char *text, size_t bytes) {
    size_t used = 0;
    for (ssize_t got = 1; got != 0 && used < bytes - 1; used += (size_t)(got > 0 ? got : 0)) {
        got = read(fd, text + used, bytes - 1 - used);
        if (got < 0 && errno != EINTR) break;
    }
    text[used] = 0;
}

// Reads the beginning of a file into text, or "" if the file cannot be read. Returns text.
static const char *read_some(const char *path, char *text, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    text[0] = 0;
    if (fd < 0) return text;
    read_up(fd, text, bytes);
    close(fd);
    return text;
}

// --- programs in PATH ----------------------------------------------------------------------------

static int find_in_path(const char *name, char path[LS_FACTS_PATH_BYTES]) {
    for (const char *folders = getenv("PATH"); folders && *folders;) {
        int length = (int)strcspn(folders, ":");
        ls_text_cut(path, LS_FACTS_PATH_BYTES, "%.*s/%s", length, folders, name);
        if (length > 0 && access(path, X_OK) == 0) return 1;
        folders += length + (folders[length] == ':');
    }
    path[0] = 0;
    return 0;
}

static pid_t start(char *const *command, int out) {
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO) != 0 ||
        posix_spawn(&pid, command[0], &actions, NULL, command, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

// Runs a program and reads its output and error streams into text. A program that takes longer than ANSWER_S seconds
// is killed, and its text is "".
static void answer(char *const *command, char text[ANSWER_BYTES]) {
    int out = memfd_create("answer", MFD_CLOEXEC); // not a pipe: the program's children could keep that open
    int status, ended = 0;
    text[0] = 0;
    if (out < 0) return;
    pid_t pid = start(command, out);
    double until = ls_clock_seconds() + ANSWER_S;
    while (pid > 0 && !ended && ls_clock_seconds() < until) {
        ended = waitpid(pid, &status, WNOHANG) == pid;
        if (!ended) ls_clock_sleep(0.005);
    }
    if (ended && lseek(out, 0, SEEK_SET) == 0) read_up(out, text, ANSWER_BYTES);
    if (pid > 0 && !ended && kill(pid, SIGKILL) == 0) waitpid(pid, &status, 0);
    close(out);
}

void ls_facts_read_version(const char *text, char *name, size_t bytes) {
    static const struct {
        const char *sign, *before, *family;
    } rows[] = { { "(Open MPI)", ")", "Open MPI" }, { "(OpenRTE)", ")", "Open MPI" },
        { "Intel(R) MPI", "Version", "Intel MPI" }, { "HYDRA", "Version:", "MPICH" } };
    name[0] = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !name[0]; i++) {
        const char *at = strstr(text, rows[i].sign);
        if (!at || !(at = strstr(at, rows[i].before))) continue;
        while (*at && *at != '\n' && !isdigit((unsigned char)*at)) at++;
        int length = (int)strspn(at, "0123456789.");
        ls_text_cut(name, bytes, "%s%s%.*s", rows[i].family, length ? " " : "", length, at);
    }
}

// Returns 1 if the launcher at `path` is in the list of launchers already, perhaps under another name.
static int is_known(const ls_facts *facts, int count, const char *path) {
    int same = 0;
    for (int i = 0; i < count && !same; i++)
        if (ls_failed(ls_path_same(facts->launcher[i].path, path, &same))) same = 0;
    return same;
}

static void look_for_launchers(ls_facts *facts) {
    static const char *const names[] = { "mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra" };
    char text[ANSWER_BYTES], path[LS_FACTS_PATH_BYTES];
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!find_in_path(names[i], path) || is_known(facts, count, path)) continue;
        ls_facts_library *launcher = &facts->launcher[count++];
        ls_text_cut(launcher->name, sizeof launcher->name, "%s", names[i]);
        memcpy(launcher->path, path, sizeof path);
        answer((char *[]){ path, "--version", NULL }, text);
        ls_facts_read_version(text, launcher->version, sizeof launcher->version);
    }
    if (!find_in_path("srun", facts->srun)) return;
    answer((char *[]){ facts->srun, "--mpi=list", NULL }, text);
    static const char *const kinds[] = { "pmix", "pmi2", "cray_shasta" };
    ls_text_room room = { facts->srun_speaks, sizeof facts->srun_speaks };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(text, kinds[i])) ls_text_put(&room, "%s%s", facts->srun_speaks[0] ? " " : "", kinds[i]);
}

// --- the host ------------------------------------------------------------------------------------

static void look_at_program(ls_facts *facts) {
    char program[PATH_MAX], configs[PATH_MAX];
    struct utsname system;
    int is_here = 0;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    if (ls_failed(ls_path_same("./train", "/proc/self/exe", &is_here))) is_here = 0;
    const char *called = ls_installed_path("configs", configs, sizeof configs) ? "lockstep-train" : program;
    ls_text_cut(facts->program, sizeof facts->program, "%s", is_here || !*called ? "./train" : called);
    ls_text_cut(facts->version, sizeof facts->version, "%s", ls_version());
    ls_text_cut(facts->build, sizeof facts->build, "%s", ls_version_compiler());
    facts->is_root = geteuid() == 0;
    if (uname(&system) == 0) ls_text_cut(facts->kernel, sizeof facts->kernel, "%s %s", system.sysname, system.release);
    static const struct {
        const char *file, *variable, *name;
    } signs[] = { { "/.dockerenv", NULL, "docker" }, { "/run/.containerenv", NULL, "podman" },
        { NULL, "APPTAINER_NAME", "apptainer" }, { NULL, "SINGULARITY_NAME", "apptainer" },
        { NULL, "KUBERNETES_SERVICE_HOST", "kubernetes" } };
    for (size_t i = 0; i < sizeof signs / sizeof *signs && !facts->container[0]; i++)
        if ((signs[i].file && access(signs[i].file, F_OK) == 0) || (signs[i].variable && getenv(signs[i].variable)))
            ls_text_cut(facts->container, sizeof facts->container, "%s", signs[i].name);
}

static void look_at_nodes(ls_facts *facts) {
    glob_t found;
    if (glob("/sys/devices/system/node/node[0-9]*/cpulist", 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char text[512];
        read_some(found.gl_pathv[i], text, sizeof text);
        facts->numa_nodes += text[0] && text[0] != '\n'; // an empty list: a node of memory without processors
    }
    globfree(&found);
}

static void look_at_processor(const ls_devices *devices, ls_facts *facts) {
    const ls_cpus *cpus = &devices->cpus;
    ls_cpu_mask mask;
    ls_text_room room = { facts->features, sizeof facts->features };
    memcpy(facts->model, cpus->model, sizeof facts->model);
    for (int i = 0; i < LS_DEVICES_FEATURES_MAX && devices->features[i]; i++)
        ls_text_put(&room, "%s%s", i ? ", " : "", devices->features[i]);
    facts->is_old = cpus->is_old;
    facts->mask_cpus = cpus->mask_cpus;
    facts->mask_cores = cpus->mask_cores;
    facts->online_cpus = cpus->online_cpus;
    facts->host_cpus = cpus->host_cpus;
    facts->threads = devices->threads;
    facts->quota = cpus->quota_cpus;
    if (ls_cpu_mask_of_thread(&mask)) ls_cpu_mask_text(&mask, facts->mask, sizeof facts->mask);
    look_at_nodes(facts);
}

static int64_t number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static void look_at_memory(ls_facts *facts) {
    char text[ANSWER_BYTES];
    uint64_t unused, all;
    read_some("/proc/meminfo", text, sizeof text);
    facts->memory = number_after(text, "MemTotal:") << 10;
    facts->memory_available = number_after(text, "MemAvailable:") << 10;
    double limit = ls_cpus_memory_limit("");
    facts->memory_limit = limit > 0 && limit < (double)facts->memory ? (int64_t)limit : LS_FACTS_UNLIMITED;
    facts->shm = facts->shm_free = ls_path_exists("/dev/shm") ? LS_FACTS_UNLIMITED : LS_FACTS_UNKNOWN;
    if (!ls_path_room("/dev/shm", &unused, &all)) return;
    facts->shm = (int64_t)all;
    facts->shm_free = (int64_t)unused;
}

// The types of file systems that statfs(2) returns, with their names.
static const struct {
    unsigned long type;
    const char *name;
} file_systems[] = { { 0xef53, "ext" }, { 0x58465342, "xfs" }, { 0x9123683e, "btrfs" }, { 0x01021994, "tmpfs" },
    { 0x794c7630, "overlay" }, { 0x6969, "nfs" }, { 0x0bd00bd0, "lustre" }, { 0x47504653, "gpfs" },
    { 0x65735546, "fuse" }, { 0xff534d42, "cifs" }, { 0x2fc12fc1, "zfs" }, { 0x19830326, "beegfs" } };

static void look_at_disk(const char *folder, ls_facts *facts) {
    struct statfs system;
    // If the folder does not exist yet, takes the nearest parent that exists: the folder will be made in it. The loop
    // also ends at ".", which can be missing (removed, or not accessible).
    ls_text_cut(facts->folder, sizeof facts->folder, "%s", folder ? folder : ".");
    while (!ls_path_exists(facts->folder) && strcmp(facts->folder, ".") != 0) {
        char *slash = strrchr(facts->folder, '/');
        if (slash == facts->folder || !slash)
            ls_text_cut(facts->folder, sizeof facts->folder, slash ? "/" : ".");
        else
            *slash = 0;
    }
    facts->is_writable = access(facts->folder, W_OK) == 0;
    uint64_t unused, all;
    facts->disk_free = ls_path_room(facts->folder, &unused, &all) ? (int64_t)unused : LS_FACTS_UNKNOWN;
    if (statfs(facts->folder, &system) != 0) return;
    const unsigned long type = (unsigned long)system.f_type & 0xffffffff;
    ls_text_cut(facts->file_system, sizeof facts->file_system, "%#lx", type);
    for (size_t i = 0; i < sizeof file_systems / sizeof *file_systems; i++)
        if (file_systems[i].type == type)
            ls_text_cut(facts->file_system, sizeof facts->file_system, "%s", file_systems[i].name);
}

static void look_at_limits(ls_facts *facts) {
    static const int resources[] = {
#define RESOURCE(NAME, resource, text) resource,
        LS_FACTS_LIMITS(RESOURCE)
#undef RESOURCE
    };
    for (int i = 0; i < LS_FACTS_LIMIT_COUNT; i++) {
        struct rlimit limit;
        facts->limit[i] = LS_FACTS_UNKNOWN;
        if (getrlimit(resources[i], &limit) != 0) continue;
        facts->limit[i] = limit.rlim_cur == RLIM_INFINITY ? LS_FACTS_UNLIMITED : (int64_t)limit.rlim_cur;
    }
    // Tries the call on the process's own memory. A container's filter of system calls refuses even that.
    char from = 1, to = 0;
    struct iovec local = { &to, 1 }, remote = { &from, 1 };
    facts->reads_peers = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

static void look_at_variables(ls_facts *facts) {
    static const char *const names[] = { "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
        "KMP_AFFINITY", "CUDA_VISIBLE_DEVICES" };
    int count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value) ls_text_cut(facts->variable[count++], LS_FACTS_NAME_BYTES, "%s=%s", names[i], value);
    }
}

// --- libraries -----------------------------------------------------------------------------------

typedef struct {
    ls_facts *facts;
    int count;
} loaded;

// Adds a loaded library to the facts, if it is in the table. is_versioned: the end of the file's name (libdnnl.so.2.6)
// is the version of the library; for other libraries it is only the version of the interface.
static int take_loaded(struct dl_phdr_info *info, size_t bytes, void *context) {
    static const struct {
        const char *file, *name;
        int is_versioned;
    } rows[] = { { "/libdnnl.so", "oneDNN", 1 }, { "/libmpi.so", "MPI", 0 }, { "/libmpich.so", "MPI", 0 },
        { "/libgomp.so", "OpenMP", 0 }, { "/libiomp5.so", "OpenMP", 0 }, { "/libhwloc.so", "hwloc", 0 },
        { "/libz.so", "zlib", 1 }, { "/libdeflate.so", "libdeflate", 0 }, { "/libjpeg.so", "libjpeg", 0 } };
    loaded *l = context;
    (void)bytes;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && l->count < LS_FACTS_LIBRARIES_MAX; i++) {
        if (!info->dlpi_name || !strstr(info->dlpi_name, rows[i].file)) continue;
        ls_facts_library *library = &l->facts->library[l->count++];
        ls_text_cut(library->name, sizeof library->name, "%s", rows[i].name);
        ls_text_cut(library->path, sizeof library->path, "%s", info->dlpi_name);
        char *real = rows[i].is_versioned ? realpath(info->dlpi_name, NULL) : NULL;
        const char *version = real ? strstr(real, ".so.") : NULL;
        if (version) ls_text_cut(library->version, sizeof library->version, "%s", version + 4);
        free(real);
    }
    return 0;
}

static void take_library(const ls_gpu_library *from, ls_facts_library *to) {
    ls_text_cut(to->name, sizeof to->name, "%s", from->name);
    ls_text_cut(to->version, sizeof to->version, "%s", from->version);
    ls_text_cut(to->path, sizeof to->path, "%s", from->path);
    ls_text_cut(to->problem, sizeof to->problem, "%s", from->problem);
    to->of_gpu = 1;
    to->for_several = strcmp(from->use, "several GPUs") == 0;
}

static void look_at_gpus(const ls_devices *devices, int libraries, ls_facts *facts) {
    ls_device_gpu gpus[LS_GPU_CARDS_MAX];
    const char *found;
    int count = 0;
    ls_status status = ls_device_gpus("auto", gpus, LS_GPU_CARDS_MAX, &count, &found);
    if (ls_failed(status)) ls_text_cut(facts->why_no_gpu, sizeof facts->why_no_gpu, "%s", status.text);
    facts->gpus = ls_failed(status) ? 0 : count;
    if (facts->gpus) ls_text_cut(facts->gpu, sizeof facts->gpu, "%s", gpus[0].name);
    for (int p = 0; p < LS_GPU_PLUGIN_COUNT; p++) {
        const ls_gpu_machine *machine = &devices->machine[p];
        if (!ls_gpu_plugins[p].vendor->fill) continue;
        ls_text_cut(facts->driver, sizeof facts->driver, "%s", machine->driver_release);
        ls_text_cut(facts->driver_path, sizeof facts->driver_path, "%s", machine->driver_path);
        ls_text_cut(facts->driver_problem, sizeof facts->driver_problem, "%s", machine->driver_problem);
        ls_text_cut(facts->card_problem, sizeof facts->card_problem, "%s", machine->card_problem);
        for (int i = 0; i < machine->library_count && libraries < LS_FACTS_LIBRARIES_MAX; i++)
            take_library(&machine->libraries[i], &facts->library[libraries++]);
    }
}

void ls_facts_collect(const ls_devices *devices, const char *folder, ls_facts *facts) {
    const ls_launcher launcher = ls_launcher_find();
    memset(facts, 0, sizeof *facts);
    facts->local_size = 1;
    if (gethostname(facts->host, sizeof facts->host - 1) != 0) strcpy(facts->host, "?");
    ls_text_cut(facts->mpi, sizeof facts->mpi, "%s", ls_comm_library());
    if (launcher.name) ls_text_cut(facts->started_by, sizeof facts->started_by, "%s", launcher.name);
    look_at_program(facts);
    look_at_processor(devices, facts);
    look_at_memory(facts);
    look_at_disk(folder, facts);
    look_at_limits(facts);
    look_at_variables(facts);
    loaded l = { facts, 0 };
    dl_iterate_phdr(take_loaded, &l);
    facts->nvidia_on_bus = ls_pci_displays("0x10de");
    look_at_gpus(devices, l.count, facts);
    if (launcher.rank == 0) look_for_launchers(facts);
}

void ls_facts_of_rank(const ls_comm_info *info, ls_devices *devices, ls_facts *facts) {
    facts->threads = devices->threads = ls_cpus_threads_per_rank(&devices->cpus, info->local_size);
    facts->rank = info->rank;
    facts->local_size = info->local_size;
    facts->host_index = info->host_index;
    memcpy(facts->host, info->host, sizeof facts->host);
}
