#include "system/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { PATH_BYTES = 4352 };

// Reads the file's text, at most bytes - 1 bytes. Returns 0 if the file is empty or cannot be read.
static int read_text(const char *path, char *text, size_t bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    size_t length = 0;
    for (ssize_t got = 1; got != 0 && length < bytes - 1; length += (size_t)(got > 0 ? got : 0)) {
        got = read(fd, text + length, bytes - 1 - length);
        if (got < 0 && errno != EINTR) break;
    }
    close(fd);
    text[length] = 0;
    return length > 0;
}

// Finds the path of this process in a cgroup hierarchy: the hierarchy of `controller` in version 1, or that of version
// 2 if controller is NULL. Returns 0 if there is no such path.
static int cgroup_path(const char *root, const char *controller, char *path, size_t bytes) {
    char file[PATH_BYTES], text[8192];
    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    if (!read_text(file, text, sizeof text)) return 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) { // "4:cpu:/docker/ab12", "0::/user.slice"
        char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
        if (!where) continue;
        *names++ = 0;
        *where++ = 0;
        int found = !controller && !*names;
        for (char *name; controller && !found && (name = strsep(&names, ","));) found = !strcmp(name, controller);
        if (!found) continue;
        snprintf(path, bytes, "%s", strcmp(where, "/") ? where : "");
        return 1;
    }
    return 0;
}

// Returns the limit of processor time that one cgroup sets, in processors; 0: no limit.
static double quota_at(const char *folder, int version) {
    char file[PATH_BYTES + 32], text[128];
    double quota = 0, period = 0;
    snprintf(file, sizeof file, "%s/%s", folder, version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_text(file, text, sizeof text)) return 0;
    if (version == 2) {
        if (sscanf(text, "%lf %lf", &quota, &period) != 2) return 0; // "max 100000"
    } else {
        quota = strtod(text, NULL); // -1: no quota
        snprintf(file, sizeof file, "%s/cpu.cfs_period_us", folder);
        if (!read_text(file, text, sizeof text)) return 0;
        period = strtod(text, NULL);
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

// Returns the memory limit that one cgroup sets, in bytes. Without a limit, version 2 has "max", which gives 0, and
// version 1 a number near 2^63.
static double memory_at(const char *folder, int version) {
    char file[PATH_BYTES + 32], text[128];
    snprintf(file, sizeof file, "%s/%s", folder, version == 2 ? "memory.max" : "memory.limit_in_bytes");
    return read_text(file, text, sizeof text) ? strtod(text, NULL) : 0;
}

// Returns the smallest limit of the process's cgroup and all groups above it; 0: no limit. In a container, /proc may
// name a path of the host that is not mounted here. Then only the mounted root is found, which is the container's own
// group.
static double smallest_limit(const char *root, const char *controller, const char *mount, int version,
    double (*limit_at)(const char *folder, int version)) {
    char path[PATH_BYTES / 2], folder[PATH_BYTES];
    double smallest = 0;
    if (!cgroup_path(root, controller, path, sizeof path)) return 0;
    for (;;) {
        snprintf(folder, sizeof folder, "%.1024s/sys/fs/cgroup%s%s", root, mount, path);
        double limit = limit_at(folder, version);
        if (limit > 0 && (smallest == 0 || limit < smallest)) smallest = limit;
        char *slash = strrchr(path, '/');
        if (!slash) return smallest;
        *slash = 0;
    }
}

double ls_cpus_quota(const char *root) {
    const double found[] = { smallest_limit(root, NULL, "", 2, quota_at),
        smallest_limit(root, "cpu", "/cpu", 1, quota_at), smallest_limit(root, "cpu", "/cpu,cpuacct", 1, quota_at) };
    double smallest = 0;
    for (int i = 0; i < 3; i++)
        if (found[i] > 0 && (smallest == 0 || found[i] < smallest)) smallest = found[i];
    return smallest;
}

double ls_cpus_memory_limit(const char *root) {
    double limit = smallest_limit(root, NULL, "", 2, memory_at);
    return limit > 0 ? limit : smallest_limit(root, "memory", "/memory", 1, memory_at);
}

// Reads the file `name` of the process's cgroup, or of the nearest group above it that is mounted and whose file
// `accept` accepts. Returns 0 if there is no such group.
static int read_nearest(const char *root, const char *controller, const char *mount, const char *name,
    int (*accept)(const char *text), char *text, size_t bytes) {
    char path[PATH_BYTES / 2], file[PATH_BYTES];
    if (!cgroup_path(root, controller, path, sizeof path)) return 0;
    for (;;) {
        snprintf(file, sizeof file, "%.1024s/sys/fs/cgroup%s%s/%s", root, mount, path, name);
        if (read_text(file, text, bytes) && accept(text)) return 1;
        char *slash = strrchr(path, '/');
        if (!slash) return 0;
        *slash = 0;
    }
}

static int names_cpus(const char *text) {
    ls_cpu_mask mask = ls_cpu_mask_parse(text);
    return ls_cpu_mask_first(&mask) >= 0;
}

int ls_cpus_cpuset_count(const char *root) {
    char text[4096];
    if (!read_nearest(root, NULL, "", "cpuset.cpus.effective", names_cpus, text, sizeof text) &&
        !read_nearest(root, "cpuset", "/cpuset", "cpuset.effective_cpus", names_cpus, text, sizeof text) &&
        !read_nearest(root, "cpuset", "/cpuset", "cpuset.cpus", names_cpus, text, sizeof text))
        return 0;
    ls_cpu_mask mask = ls_cpu_mask_parse(text);
    return ls_cpu_mask_count(&mask);
}

static const char oom_kill[] = "oom_kill "; // start of a line that ends with the number

static const char *find_oom_kills(const char *text) {
    const char *at = text;
    while (at && strncmp(at, oom_kill, sizeof oom_kill - 1) != 0) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at ? at + sizeof oom_kill - 1 : NULL;
}

static int counts_oom_kills(const char *text) {
    return find_oom_kills(text) != NULL;
}

int64_t ls_cpus_oom_kills(const char *root) {
    char text[4096];
    if (!read_nearest(root, NULL, "", "memory.events", counts_oom_kills, text, sizeof text) &&
        !read_nearest(root, "memory", "/memory", "memory.oom_control", counts_oom_kills, text, sizeof text))
        return -1;
    return strtoll(find_oom_kills(text), NULL, 10);
}

int ls_cpus_core_of(const char *root, int cpu, const ls_cpu_mask *among) {
    char file[PATH_BYTES], text[512];
    snprintf(file, sizeof file, "%.1024s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root, cpu);
    if (!read_text(file, text, sizeof text)) return cpu;
    ls_cpu_mask siblings = ls_cpu_mask_parse(text);
    siblings = ls_cpu_mask_both(&siblings, among);
    return ls_cpu_mask_has(&siblings, cpu) ? ls_cpu_mask_first(&siblings) : cpu;
}

// Counts the processors of the mask and its cores: each core at its first processor in the mask.
static void count_mask(ls_cpus *cpus) {
    ls_cpu_mask mask;
    if (!ls_cpu_mask_of_thread(&mask)) {
        cpus->mask_cpus = cpus->mask_cores = cpus->online_cpus;
        return;
    }
    for (int cpu = 0; cpu < LS_CPU_MASK_CPUS; cpu++) {
        if (!ls_cpu_mask_has(&mask, cpu)) continue;
        cpus->mask_cpus++;
        cpus->mask_cores += ls_cpus_core_of("", cpu, &mask) == cpu;
    }
}

static void detect_instructions(ls_cpus *cpus) {
#if defined(__x86_64__)
    cpus->has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    cpus->is_old = !cpus->has_avx2;
    cpus->has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    unsigned a, b, c, d; // cpuid leaf 7: AMX-BF16 is EDX bit 22, AVX512-BF16 is EAX bit 5 of subleaf 1
    if (cpus->has_avx512 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) cpus->has_amx_bf16 = (int)(d >> 22 & 1);
    if (cpus->has_avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpus->has_avx512_bf16 = (int)(a >> 5 & 1);
#else
    (void)cpus;
#endif
}

// Returns the value of a line "name : value" of /proc/cpuinfo; the value ends with the line. NULL: no such line.
static const char *value_of(const char *text, const char *name) {
    const char *line = strstr(text, name), *value = line ? strchr(line, ':') : NULL;
    return value ? value + 1 + strspn(value + 1, " \t") : NULL;
}

// Writes the processor's name. arm64 has no names but numbers: "aarch64, implementer 0x41, part 0xd40".
static void read_model(char *model, size_t bytes) {
    char text[4096];
    struct utsname machine;
    snprintf(model, bytes, "%.16s", uname(&machine) == 0 ? machine.machine : "unknown");
    if (!read_text("/proc/cpuinfo", text, sizeof text)) return;
    const char *name = value_of(text, "model name"), *maker = value_of(text, "CPU implementer"),
               *part = value_of(text, "CPU part");
    if (name)
        snprintf(model, bytes, "%.*s", (int)strcspn(name, "\n"), name);
    else if (maker && part)
        snprintf(model, bytes, "%.16s, implementer %.*s, part %.*s", machine.machine, (int)strcspn(maker, "\n"), maker,
            (int)strcspn(part, "\n"), part);
}

void ls_cpus_detect(ls_cpus *cpus) {
    memset(cpus, 0, sizeof *cpus);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpus->online_cpus = online > 0 ? (int)online : 1;
    count_mask(cpus);
    cpus->quota_cpus = ls_cpus_quota("");
    cpus->host_cpus = ls_cpus_cpuset_count("");
    if (cpus->host_cpus < cpus->mask_cpus) cpus->host_cpus = cpus->online_cpus;
    if (cpus->host_cpus < cpus->mask_cpus) cpus->host_cpus = cpus->mask_cpus;
    detect_instructions(cpus);
    read_model(cpus->model, sizeof cpus->model);
}

int ls_cpus_threads_per_rank(const ls_cpus *cpus, int ranks_here) {
    if (ranks_here < 1) ranks_here = 1;
    // Estimates the host's cores from the mask's ratio of cores to processors. The 1e-9 keeps exact divisions exact.
    double host_cores = (double)cpus->host_cpus * cpus->mask_cores / (cpus->mask_cpus > 0 ? cpus->mask_cpus : 1);
    double share = host_cores / ranks_here + 1e-9;
    double threads = cpus->mask_cores < share ? cpus->mask_cores : share;
    double quota = cpus->quota_cpus / ranks_here + 0.5;
    if (cpus->quota_cpus > 0 && quota < threads) threads = quota;
    return threads < 1 ? 1 : (int)threads;
}
