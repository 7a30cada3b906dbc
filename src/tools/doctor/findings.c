#include "tools/doctor/findings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "dist/fingerprint.h"
#include "dist/rank_groups.h"

static const int64_t MiB = 1 << 20, GiB = 1 << 30;
// Bytes of /dev/shm that Open MPI 4.1 needs for each rank.
static const int64_t shm_a_rank = 4 << 20;

// The input and output of a rule, which adds findings about the rank or host of `f`.
typedef struct {
    const ls_doctor_view *view;
    const ls_facts *f;                // facts of the rank; for rules about hosts, of the lowest rank of the host
    int ranks_of_host;                // 1: findings hold for all ranks of f's host; 0: for f's rank alone
    int added;                        // number of findings that the rule has added for f
    uint64_t *holds[LS_FINDINGS_MAX]; // [ranks]: 1 for each rank that the finding is about
    ls_findings *out;
} look;

static int found_before(const look *l, ls_severity severity, const char *topic, const char *text) {
    for (int i = 0; i < l->out->count; i++) {
        const ls_finding *row = &l->out->row[i];
        if (row->severity == severity && strcmp(row->topic, topic) == 0 && strcmp(row->text, text) == 0) return i;
    }
    return -1;
}

static void LS_PRINTF(4, 5) add(look *l, ls_severity severity, const char *topic, const char *format, ...) {
    char text[LS_FINDING_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    int at = found_before(l, severity, topic, text);
    l->added++;
    if (at < 0) {
        if (l->out->count == LS_FINDINGS_MAX) return;
        at = l->out->count++;
        l->holds[at] = ls_new(l->view->ranks, sizeof *l->holds[at], "findings");
        l->out->row[at] = (ls_finding){ .severity = severity, .topic = topic };
        memcpy(l->out->row[at].text, text, sizeof text);
    }
    for (int r = 0; r < l->view->ranks; r++)
        l->holds[at][r] |= l->ranks_of_host ? l->view->all[r].host_index == l->f->host_index : &l->view->all[r] == l->f;
}
#define NOTE(...) add(l, LS_FINDING_NOTE, __VA_ARGS__)
#define PROBLEM(...) add(l, LS_FINDING_PROBLEM, __VA_ARGS__)

static const char *several(int64_t count) {
    return count == 1 ? "" : "s";
}

// --- the host ------------------------------------------------------------------------------------

static void look_at_processor(look *l) {
    const ls_facts *f = l->f;
    if (f->is_old && f->gpus == 0)
        NOTE("processor",
            "%s has no AVX2 and FMA: the cpu device takes vectors of 4 floats without oneDNN, which is several times "
            "slower than with AVX2",
            f->model);
}

// Returns how many cores all ranks of the host may use together. A core counts once, even if several ranks are bound
// to it.
static int cores_of_host(const ls_facts *f) {
    return f->mask_cpus > 0 ? (int)((double)f->host_cpus * f->mask_cores / f->mask_cpus + 0.5) : f->host_cpus;
}

static int processors_in_use(const look *l) {
    ls_cpu_mask all = { { 0 } };
    for (int r = 0; r < l->view->ranks; r++) {
        if (l->view->all[r].host_index != l->f->host_index) continue;
        ls_cpu_mask one = ls_cpu_mask_parse(l->view->all[r].mask);
        for (size_t i = 0; i < sizeof all.bits / sizeof *all.bits; i++) all.bits[i] |= one.bits[i];
    }
    return ls_cpu_mask_count(&all);
}

static void look_at_cores(look *l) {
    const ls_facts *f = l->f;
    int cores = cores_of_host(f), used = processors_in_use(l);
    int cut = strstr(f->mask, "...") != NULL; // the text of the mask was too long and was cut
    if (f->started_by[0] && used > 0 && !cut && 2 * used <= f->host_cpus && (f->quota == 0 || f->quota > used))
        PROBLEM("cores",
            "%s has bound %d rank%s to %d of %d processors; the others stay idle: start with --bind-to none (mpirun) "
            "or "
            "--cpus-per-task (srun)",
            f->started_by, f->local_size, several(f->local_size), used, f->host_cpus);
    if (f->quota > 0 && f->quota < cores)
        NOTE("cores",
            "a quota of %g of %d cores (cgroup): threads beyond it are stopped in turns; raise it (docker --cpus=%d, "
            "Kubernetes limits.cpu), or count on %g",
            f->quota, cores, cores, f->quota);
    int usable = f->quota > 0 && f->quota < cores ? (int)ceil(f->quota) : cores;
    if (f->local_size > usable)
        NOTE("cores", "%d ranks share %d core%s: each waits for the others; %d rank%s would be faster", f->local_size,
            usable, several(usable), usable, several(usable));
}

static void look_at_memory(look *l) {
    const ls_facts *f = l->f;
    int64_t free = f->memory_available;
    if (f->memory_limit >= 0 && f->memory_limit < free) free = f->memory_limit;
    const int64_t each = free / f->local_size;
    char text[24];
    if (f->memory_available <= 0 || each >= 256 * MiB) return;
    PROBLEM("memory", "%s for each of %d rank%s%s: too little for most networks; start fewer ranks, or raise the limit",
        ls_text_bytes(text, (uint64_t)each), f->local_size, several(f->local_size),
        free == f->memory_limit ? " (the cgroup's limit)" : "");
}

static void look_at_shm(look *l) {
    const ls_facts *f = l->f;
    const int64_t needed = shm_a_rank * f->local_size;
    char free[24], need[24];
    if (f->shm == LS_FACTS_UNKNOWN)
        NOTE("/dev/shm",
            "there is none: ranks of a host exchange through files in /tmp, which is slower; mount a tmpfs there");
    if (f->shm < 0) return;
    ls_text_bytes(free, (uint64_t)f->shm_free);
    ls_text_bytes(need, (uint64_t)needed);
    if (f->local_size > 1 && f->shm_free < needed)
        PROBLEM("/dev/shm",
            "%s free, but the %d ranks of this host exchange through it and take up to %s: with less MPI complains and "
            "goes a slower way, or ends; enlarge it (docker --shm-size=1g; mount -o remount,size=1g /dev/shm)",
            free, f->local_size, need);
    else if (f->gpus > 1 && f->shm_free < 256 * MiB) // docker's default is 64 MiB
        NOTE("/dev/shm", "%s free: NCCL may want more between %d GPUs (docker --shm-size=1g)", free, f->gpus);
}

static int is_below(int64_t limit, int64_t needed) {
    return limit >= 0 && limit < needed;
}

static void look_at_limits(look *l) {
    const ls_facts *f = l->f;
    const int64_t *limit = f->limit, threads = (int64_t)f->local_size * (2 * f->threads + 16);
    char text[24];
    if (is_below(limit[LS_LIMIT_FILES], 1024))
        add(l, limit[LS_LIMIT_FILES] < 256 ? LS_FINDING_PROBLEM : LS_FINDING_NOTE, "limits",
            "%lld open files: MPI and NCCL open some for each rank; ulimit -n 4096", (long long)limit[LS_LIMIT_FILES]);
    if (!f->is_root && is_below(limit[LS_LIMIT_PROCESSES], 2 * threads))
        add(l, limit[LS_LIMIT_PROCESSES] < threads ? LS_FINDING_PROBLEM : LS_FINDING_NOTE, "limits",
            "%lld processes, threads counted, but the ranks here start up to %lld: ulimit -u, or a lower "
            "device.threads",
            (long long)limit[LS_LIMIT_PROCESSES], (long long)threads);
    if (is_below(limit[LS_LIMIT_STACK], MiB))
        PROBLEM("limits", "%s of stack: ulimit -s 8192", ls_text_bytes(text, (uint64_t)limit[LS_LIMIT_STACK]));
    if (is_below(limit[LS_LIMIT_LOCKED], 64 * MiB) && (f->gpus > 1 || l->view->all[l->view->ranks - 1].host_index > 0))
        NOTE("limits", "%s of locked memory: InfiniBand adapters and NCCL want all of it; ulimit -l unlimited",
            ls_text_bytes(text, (uint64_t)limit[LS_LIMIT_LOCKED]));
    if (limit[LS_LIMIT_ADDRESSES] >= 0)
        add(l, f->gpus > 0 ? LS_FINDING_PROBLEM : LS_FINDING_NOTE, "limits",
            "%s of addresses (ulimit -v)%s: ulimit -v unlimited",
            ls_text_bytes(text, (uint64_t)limit[LS_LIMIT_ADDRESSES]),
            f->gpus > 0 ? ", but CUDA reserves more than all memory" : " counts what is only reserved, too");
}

// --- threads of a rank ---------------------------------------------------------------------------

static int binds_threads(const char *variable) {
    static const char *const harmless[] = { "OMP_PROC_BIND=false", "OMP_PROC_BIND=FALSE", "KMP_AFFINITY=none",
        "KMP_AFFINITY=disabled" };
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(variable, harmless[i]) == 0) return 0;
    return strncmp(variable, "OMP_PROC_BIND=", 14) == 0 || strncmp(variable, "GOMP_CPU_AFFINITY=", 18) == 0 ||
           strncmp(variable, "KMP_AFFINITY=", 13) == 0 || strncmp(variable, "OMP_PLACES=", 11) == 0;
}

static void look_at_variables(look *l) {
    const ls_facts *f = l->f;
    for (int i = 0; i < LS_FACTS_VARIABLES_MAX && f->variable[i][0]; i++) {
        const char *variable = f->variable[i];
        const int name = (int)strcspn(variable, "=");
        if (!binds_threads(variable) || f->mask_cores > 1 || f->host_cpus <= f->mask_cpus) continue;
        PROBLEM("threads",
            "%s: the OpenMP runtime that oneDNN brings along binds all threads of the rank to one core; unset %.*s "
            "(the threads are Lockstep's own: device.threads)",
            variable, name, variable);
    }
}

// --- GPUs ----------------------------------------------------------------------------------------

static void look_at_gpu_libraries(look *l) {
    for (int i = 0; i < LS_FACTS_LIBRARIES_MAX && l->f->library[i].name[0]; i++) {
        const ls_facts_library *library = &l->f->library[i];
        if (!library->problem[0]) continue;
        if (library->for_several && l->f->gpus < 2)
            NOTE("GPU", "for several GPUs: %s", library->problem);
        else
            PROBLEM("GPU", "%s", library->problem);
    }
}

static void look_at_gpus(look *l) {
    const ls_facts *f = l->f;
    const int is_hardware = f->nvidia_on_bus > 0 || f->driver_path[0];
    if (!f->gpus && !is_hardware) return; // ranks compute on the CPU
    if (!f->gpus || is_hardware) {
        if (f->driver_problem[0]) PROBLEM("GPU", "%s", f->driver_problem);
        if (f->card_problem[0]) PROBLEM("GPU", "%s", f->card_problem);
        look_at_gpu_libraries(l);
    }
    if (!f->gpus && !l->added) PROBLEM("GPU", "%s", f->why_no_gpu);
    if (f->gpus > f->local_size)
        NOTE("GPU", "%d of %d GPUs stay idle with %d rank%s: start one rank for each, as below",
            f->gpus - f->local_size, f->gpus, f->local_size, several(f->local_size));
}

// --- MPI -----------------------------------------------------------------------------------------

// Returns 1 if an MPI and a launcher ("Open MPI v4.1.4", "Open MPI 4.1.4") are of one family and the first `parts`
// numbers of their versions are the same.
static int fits(const char *mpi, const char *launcher, int parts) {
    size_t family = strcspn(launcher, "0123456789");
    if (!family || launcher[0] == 0) return 0;
    int is_family = strncmp(mpi, launcher, family - (launcher[family] != 0)) == 0;
    if (strncmp(launcher, "Intel MPI", 9) == 0) is_family = strncmp(mpi, "Intel", 5) == 0;
    const char *a = mpi + strcspn(mpi, "0123456789"), *b = launcher + family;
    for (; is_family && *a && *b && parts > 0; parts--) {
        size_t digits = strspn(a, "0123456789");
        if (digits != strspn(b, "0123456789") || strncmp(a, b, digits) != 0) return 0;
        a += digits + (a[digits] == '.');
        b += digits + (b[digits] == '.');
    }
    return is_family;
}

int ls_facts_fitting_launcher(const ls_facts *f) {
    for (int parts = 2; parts >= 0; parts -= 2)
        for (int i = 0; i < LS_FACTS_LAUNCHERS_MAX && f->launcher[i].name[0]; i++)
            if (fits(f->mpi, f->launcher[i].version, parts)) return i;
    return -1;
}

// Returns 1 if a failure's text has a table: then the ranks were started as different programs.
static int is_table(const char *text) {
    return strchr(text, '\n') != NULL;
}

static const char *package_of(const char *mpi) {
    return strncmp(mpi, "MPICH", 5) == 0 ? "apt-get install mpich" : "apt-get install openmpi-bin";
}

static void look_at_launcher(look *l) {
    const ls_facts *f = l->f;
    const ls_facts_library *first = &f->launcher[0];
    const int at = ls_facts_fitting_launcher(f);
    if (strcmp(f->mpi, "no MPI") == 0) {
        NOTE("launcher", "the program was built without MPI: one rank only; build it with MPI for several");
        return;
    }
    if (l->view->not_joined && !is_table(l->view->not_joined)) PROBLEM("launcher", "%s", l->view->not_joined);
    if (!first->name[0])
        NOTE("launcher", "no mpirun in PATH: one rank works; several need that of %s (Debian, Ubuntu: %s)", f->mpi,
            package_of(f->mpi));
    else if (at < 0 && !first->version[0])
        NOTE("launcher",
            "%s in PATH (%s) does not say of which MPI it is; the program is linked with %s, whose it must be",
            first->name, first->path, f->mpi);
    else if (at < 0)
        PROBLEM("launcher",
            "%s in PATH is %s's (%s), but the program is linked with %s, which it cannot start: put the bin folder of "
            "that MPI first into PATH, or build the program for this one (cmake -DMPI_C_COMPILER=..., docs/cluster.md)",
            first->name, first->version, first->path, f->mpi);
    else if (!fits(f->mpi, f->launcher[at].version, 2))
        NOTE("launcher", "%s in PATH is of %s, the program is linked with %s: take one of the same version",
            f->launcher[at].name, f->launcher[at].version, f->mpi);
}

static int is_open_mpi(const ls_facts *f) {
    return strncmp(f->mpi, "Open MPI", 8) == 0;
}

static void look_at_copies(look *l) {
    if (l->f->reads_peers || !is_open_mpi(l->f)) return;
    NOTE("MPI",
        "this container refuses process_vm_readv, by which Open MPI copies between ranks of a host: it complains and "
        "copies twice; docker --cap-add=SYS_PTRACE, or --mca btl_vader_single_copy_mechanism none");
}

// --- the job -------------------------------------------------------------------------------------

static void look_at_disk(look *l) {
    const ls_facts *f = l->f;
    char free[24];
    ls_text_bytes(free, (uint64_t)(f->disk_free > 0 ? f->disk_free : 0));
    if (!f->is_writable)
        PROBLEM("run folder", "%s cannot be written by this user: start elsewhere, or name a folder by --run-dir",
            f->folder);
    if (f->disk_free >= 0 && f->disk_free < GiB)
        add(l, f->disk_free < 64 * MiB ? LS_FINDING_PROBLEM : LS_FINDING_NOTE, "run folder",
            "%s has %s free: make room for checkpoints, or name another folder by --run-dir", f->folder, free);
    if (strcmp(f->file_system, "overlay") == 0)
        NOTE("run folder",
            "%s lies in the container's own layer (overlay) and goes with it: mount a folder (docker -v "
            "HOST:CONTAINER) "
            "and name it by --run-dir",
            f->folder);
    if (strcmp(f->file_system, "tmpfs") == 0)
        NOTE("run folder", "%s lies in memory (tmpfs): a restart loses it; name a folder on a disk by --run-dir",
            f->folder);
}

static void look_at_device(look *l) {
    if (l->view->no_device) PROBLEM("device", "%s", l->view->no_device);
}

static const struct {
    void (*look)(look *l);
    enum { RANK, HOST, JOB } of;
} rules[] = { { look_at_processor, HOST }, { look_at_cores, HOST }, { look_at_variables, RANK },
    { look_at_memory, HOST }, { look_at_shm, HOST }, { look_at_limits, HOST }, { look_at_gpus, HOST },
    { look_at_device, JOB }, { look_at_launcher, JOB }, { look_at_copies, HOST }, { look_at_disk, JOB } };

static int is_first_of_host(const ls_doctor_view *view, int rank) {
    for (int r = 0; r < rank; r++)
        if (view->all[r].host_index == view->all[rank].host_index) return 0;
    return 1;
}

static void apply(look *l, int rule) {
    for (int r = 0; r < l->view->ranks; r++) {
        l->f = &l->view->all[r];
        l->added = 0;
        l->ranks_of_host = rules[rule].of != RANK;
        if (rules[rule].of == RANK || is_first_of_host(l->view, r)) rules[rule].look(l);
        if (rules[rule].of == JOB) return; // only rank 0's facts are looked at
    }
}

// Writes where a finding holds into row->where: nothing for all ranks, "host b" for all ranks of one host, or a list of
// ranks.
static void say_where(const look *l, const uint64_t *holds, int is_of_job, ls_finding *row) {
    const ls_doctor_view *view = l->view;
    int count = ls_rank_groups_size(holds, view->ranks, 1), first = 0;
    if (count == view->ranks || is_of_job) return;
    while (!holds[first]) first++;
    if (count == view->all[first].local_size && view->all[first + count - 1].host_index == view->all[first].host_index)
        ls_text_cut(row->where, sizeof row->where, "host %s", view->all[first].host);
    else
        ls_rank_groups_list(holds, view->ranks, 1, row->where, sizeof row->where);
}

// --- differences ---------------------------------------------------------------------------------

static int is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    return 0;
}
#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof *(names))

typedef struct {
    ls_fingerprint *out;
    int has_gpus;
} fingerprint;

static void add_fact(void *context, const char *name, const char *value, const char *path) {
    // These facts differ between ranks anyway. "MPI" is the loaded library file; "mpi" below compares its version.
    static const char *const own[] = { "rank", "host", "ranks of host", "mask", "started by", "memory available",
        "shm free", "folder", "file system", "folder free", "variables", "MPI" };
    static const char *const must[] = { "program", "build", "mpi", "oneDNN" };
    const fingerprint *f = context;
    if (IS_ONE_OF(name, own)) return;
    // a library that training on GPUs may use
    const int is_of_run = path[0] && f->has_gpus && strcmp(name, "NVML") != 0;
    (is_of_run || IS_ONE_OF(name, must) ? ls_fingerprint_add : ls_fingerprint_note)(f->out, name, "%s", value);
}

static void describe(const ls_facts *facts, ls_fingerprint *out) {
    fingerprint f = { out, facts->gpus > 0 };
    cJSON *tree = cJSON_CreateObject();
    ls_facts_json(facts, tree);
    ls_facts_each(tree, add_fact, &f);
    cJSON_Delete(tree);
}

static void compare(const ls_doctor_view *view, ls_findings *out) {
    if (view->not_joined && is_table(view->not_joined)) {
        ls_text_cut(out->differences, sizeof out->differences, "%s", view->not_joined);
        return;
    }
    ls_fingerprint *all = ls_new(view->ranks, sizeof *all, "facts of %d ranks", view->ranks);
    for (int r = 0; r < view->ranks; r++) describe(&view->all[r], &all[r]);
    ls_status status = ls_fingerprint_compare_gathered(all, view->ranks,
        "ranks differ in what must be the same: install the same program and libraries on all hosts", out->differences);
    out->may_differ = !ls_failed(status);
    if (ls_failed(status)) ls_text_cut(out->differences, sizeof out->differences, "%s", status.text);
    free(all);
}

// --- all findings --------------------------------------------------------------------------------

ls_findings *ls_findings_new(const ls_doctor_view *view) {
    ls_findings *out = ls_new(1, sizeof *out, "findings");
    look l = { .view = view, .out = out };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const int before = out->count;
        apply(&l, (int)i);
        for (int at = before; at < out->count; at++) say_where(&l, l.holds[at], rules[i].of == JOB, &out->row[at]);
    }
    compare(view, out);
    for (int i = 0; i < out->count; i++) free(l.holds[i]);
    return out;
}

const char *ls_severity_name(ls_severity severity) {
    static const char *const names[] = { "note", "problem" };
    return names[severity];
}

int ls_findings_count(const ls_findings *findings, ls_severity severity) {
    const ls_severity of_differences = findings->may_differ ? LS_FINDING_NOTE : LS_FINDING_PROBLEM;
    int count = findings->differences[0] && of_differences == severity;
    for (int i = 0; i < findings->count; i++) count += findings->row[i].severity == severity;
    return count;
}
