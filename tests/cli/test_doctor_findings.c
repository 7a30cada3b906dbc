// What `train doctor` says of machines that are made up: its findings, the differences of their ranks, and the commands.
#include "tools/doctor/findings.h"
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "support/cmocka.h"
#include "support/must.h"

enum { RANKS_MAX = 4, LINES_MAX = 8 };
static const int64_t GiB = 1 << 30, MiB = 1 << 20;

static void put(char *dst, size_t bytes, const char *text) {
    ls_text_cut(dst, bytes, "%s", text);
}
#define PUT(field, text) put(field, sizeof(field), text)

// A host of eight cores in two memory nodes, on which nothing is wrong; one rank, started by hand.
static ls_facts good_host(void) {
    ls_facts f = { .local_size = 1,
        .mask_cpus = 8,
        .mask_cores = 8,
        .online_cpus = 8,
        .host_cpus = 8,
        .threads = 8,
        .numa_nodes = 2,
        .memory = 64 * GiB,
        .memory_available = 60 * GiB,
        .memory_limit = LS_FACTS_UNLIMITED,
        .shm = 32 * GiB,
        .shm_free = 32 * GiB,
        .disk_free = 100 * GiB,
        .is_writable = 1,
        .reads_peers = 1 };
    for (int i = 0; i < LS_FACTS_LIMIT_COUNT; i++) f.limit[i] = LS_FACTS_UNLIMITED;
    PUT(f.host, "a");
    PUT(f.program, "./train");
    PUT(f.version, "1.0");
    PUT(f.build, "GNU 12");
    PUT(f.kernel, "Linux 6.1");
    PUT(f.model, "EPYC");
    PUT(f.features, "AVX2");
    PUT(f.mask, "0-7");
    PUT(f.folder, ".");
    PUT(f.file_system, "ext");
    PUT(f.mpi, "Open MPI v4.1.4");
    PUT(f.launcher[0].name, "mpirun");
    PUT(f.launcher[0].version, "Open MPI 4.1.4");
    PUT(f.launcher[0].path, "/usr/bin/mpirun");
    PUT(f.library[0].name, "oneDNN");
    PUT(f.library[0].version, "2.6");
    return f;
}

// Ranks started by mpirun, half of them on host b where there are two.
static int start(ls_facts *all, int ranks, int hosts) {
    for (int r = 0; r < ranks; r++) {
        all[r] = good_host();
        all[r].rank = r;
        all[r].host_index = r * hosts / ranks;
        all[r].local_size = ranks / hosts;
        all[r].threads = 8 / all[r].local_size;
        PUT(all[r].host, all[r].host_index ? "b" : "a");
        PUT(all[r].started_by, "Open MPI's mpirun");
        if (r) memset(all[r].launcher, 0, sizeof all[r].launcher);
    }
    return ranks;
}

static int nothing(ls_facts *all) {
    all[0] = good_host();
    return 1;
}
static int other_builds(ls_facts *all) {
    int ranks = start(all, 4, 2);
    for (int r = 2; r < 4; r++) {
        PUT(all[r].version, "0.9");
        PUT(all[r].kernel, "Linux 5.4");
    }
    return ranks;
}
static int other_processors(ls_facts *all) {
    int ranks = start(all, 2, 2);
    PUT(all[1].model, "Xeon");
    all[1].limit[LS_LIMIT_FILES] = 512;
    return ranks;
}
static int half_a_core(ls_facts *all) {
    all[0] = good_host();
    all[0].quota = 0.5;
    return 1;
}
static int small_shm(ls_facts *all) {
    int ranks = start(all, 2, 1);
    for (int r = 0; r < 2; r++) all[r].shm = all[r].shm_free = 64 << 10;
    return ranks;
}
static int no_shm(ls_facts *all) {
    all[0] = good_host();
    all[0].shm = all[0].shm_free = LS_FACTS_UNKNOWN;
    return 1;
}
static int foreign_mpirun(ls_facts *all) {
    all[0] = good_host();
    PUT(all[0].launcher[0].version, "MPICH 4.0.2");
    return 1;
}
static int second_mpirun(ls_facts *all) {
    all[0] = good_host();
    all[0].launcher[1] = all[0].launcher[0];
    PUT(all[0].launcher[0].version, "MPICH 4.0.2");
    PUT(all[0].launcher[1].name, "mpirun.openmpi");
    return 1;
}
static int other_release(ls_facts *all) {
    all[0] = good_host();
    PUT(all[0].launcher[0].version, "Open MPI 5.0.1");
    return 1;
}
static int no_mpirun(ls_facts *all) {
    all[0] = good_host();
    all[0].launcher[0].name[0] = 0;
    return 1;
}
static int bound_to_two(ls_facts *all) {
    int ranks = start(all, 2, 1);
    for (int r = 0; r < 2; r++) {
        all[r].mask_cpus = all[r].mask_cores = 1;
        PUT(all[r].mask, r ? "1" : "0");
    }
    return ranks;
}
static int bound_by_openmp(ls_facts *all) {
    int ranks = start(all, 2, 1);
    for (int r = 0; r < 2; r++) PUT(all[r].mask, r ? "4-7" : "0-3");
    all[1].mask_cpus = all[1].mask_cores = 1;
    PUT(all[1].mask, "7");
    PUT(all[1].variable[0], "OMP_PROC_BIND=close");
    return ranks;
}
static int crowd(ls_facts *all) {
    int ranks = start(all, 4, 1);
    for (int r = 0; r < 4; r++) {
        all[r].mask_cpus = all[r].online_cpus = all[r].host_cpus = 4;
        all[r].mask_cores = 2;
        PUT(all[r].mask, "0-3");
    }
    return ranks;
}
static int little_memory(ls_facts *all) {
    int ranks = start(all, 4, 1);
    for (int r = 0; r < 4; r++) all[r].memory_limit = 512 * MiB;
    return ranks;
}
static int old_processor(ls_facts *all) {
    all[0] = good_host();
    all[0].is_old = 1;
    return 1;
}
static int narrow_limits(ls_facts *all) {
    all[0] = good_host();
    all[0].limit[LS_LIMIT_FILES] = 128;
    all[0].limit[LS_LIMIT_STACK] = 64 << 10;
    all[0].limit[LS_LIMIT_ADDRESSES] = GiB;
    all[0].limit[LS_LIMIT_PROCESSES] = 10;
    return 1;
}
static int in_a_container(ls_facts *all) {
    all[0] = good_host();
    PUT(all[0].file_system, "overlay");
    all[0].reads_peers = 0;
    return 1;
}
// File systems that report no blocks.
static int unknown_room(ls_facts *all) {
    all[0] = good_host();
    all[0].shm = all[0].shm_free = LS_FACTS_UNLIMITED;
    all[0].disk_free = LS_FACTS_UNKNOWN;
    return 1;
}
static int full_disk(ls_facts *all) {
    all[0] = good_host();
    all[0].is_writable = 0;
    all[0].disk_free = MiB;
    return 1;
}
static int card_without_driver(ls_facts *all) {
    all[0] = good_host();
    all[0].nvidia_on_bus = 1;
    PUT(all[0].driver_problem, "no NVIDIA driver: install it");
    return 1;
}
static int half_the_gpus(ls_facts *all) {
    int ranks = start(all, 2, 1);
    for (int r = 0; r < 2; r++) {
        all[r].nvidia_on_bus = all[r].gpus = 4;
        PUT(all[r].gpu, "H200");
        PUT(all[r].driver, "580.65.06");
        PUT(all[r].library[1].name, "NCCL");
        PUT(all[r].library[1].problem, "NCCL is missing: install it");
        all[r].library[1].for_several = 1;
    }
    return ranks;
}

typedef struct {
    const char *name;
    int (*make)(ls_facts *all);   // ranks
    const char *differences;      // NULL: none
    const char *lines[LINES_MAX]; // of notes and problems, in order: severity, topic, where, text
    const char *commands;         // NULL: those of the good host
} situation;

#define ALONE "./train config.ini\n"
#define TWO_NODES ALONE "mpirun -np 2 --map-by numa:PE=4 --bind-to core ./train config.ini\n"
#define UNBOUND(ranks) ALONE "mpirun -np " ranks " --bind-to none ./train config.ini\n"

static const situation situations[] = {
    { "a good host", nothing, NULL, { NULL }, NULL },
    { "two hosts with other versions", other_builds,
        "ranks differ in what must be the same: install the same program and libraries on all hosts:\n"
        "  fact     ranks 0, 1  ranks 2, 3\n"
        "  program  1.0         0.9\n"
        "  kernel   Linux 6.1   Linux 5.4",
        { NULL }, ALONE "mpirun --host a:2,b:2 -np 4 --map-by numa:PE=4 --bind-to core ./train config.ini\n" },
    { "two hosts with other processors", other_processors,
        "ranks differ, which is allowed: updates wait for the slowest, and another set of ranks gives other bits:\n"
        "  fact        rank 0     rank 1\n"
        "  processor   EPYC       Xeon\n"
        "  open files  unlimited  512",
        { "note|limits|host b|512 open files: MPI and NCCL open some for each rank; ulimit -n 4096" },
        ALONE "mpirun --host a:2,b:2 -np 4 --map-by numa:PE=4 --bind-to core ./train config.ini\n" },
    { "half a core", half_a_core, NULL,
        { "note|cores||a quota of 0.5 of 8 cores (cgroup): threads beyond it are stopped in turns; raise it (docker "
          "--cpus=8, "
          "Kubernetes limits.cpu), or count on 0.5" },
        ALONE },
    { "a small /dev/shm", small_shm, NULL,
        { "problem|/dev/shm||64.0 KiB free, but the 2 ranks of this host exchange through it and take up to 8.0 MiB: "
          "with less "
          "MPI complains and goes a slower way, or ends; enlarge it (docker --shm-size=1g; mount -o remount,size=1g "
          "/dev/shm)" },
        NULL },
    { "no /dev/shm", no_shm, NULL,
        { "note|/dev/shm||there is none: ranks of a host exchange through files in /tmp, which is slower; mount a "
          "tmpfs there" },
        NULL },
    { "the mpirun of another MPI", foreign_mpirun, NULL,
        { "problem|launcher||mpirun in PATH is MPICH 4.0.2's (/usr/bin/mpirun), but the program is linked with Open "
          "MPI v4.1.4, "
          "which it cannot start: put the bin folder of that MPI first into PATH, or build the program for this one "
          "(cmake "
          "-DMPI_C_COMPILER=..., docs/cluster.md)" },
        ALONE },
    { "it stands before the right one", second_mpirun, NULL, { NULL },
        ALONE "mpirun.openmpi -np 2 --map-by numa:PE=4 --bind-to core ./train config.ini\n" },
    { "another release", other_release, NULL,
        { "note|launcher||mpirun in PATH is of Open MPI 5.0.1, the program is linked with Open MPI v4.1.4: take one of "
          "the same "
          "version" },
        NULL },
    { "no mpirun", no_mpirun, NULL,
        { "note|launcher||no mpirun in PATH: one rank works; several need that of Open MPI v4.1.4 (Debian, Ubuntu: "
          "apt-get "
          "install openmpi-bin)" },
        ALONE },
    { "ranks bound to a core each", bound_to_two, NULL,
        { "problem|cores||Open MPI's mpirun has bound 2 ranks to 2 of 8 processors; the others stay idle: start with "
          "--bind-to "
          "none (mpirun) or --cpus-per-task (srun)" },
        UNBOUND("4") },
    { "a rank bound by OpenMP", bound_by_openmp, "*",
        { "problem|threads|rank 1|OMP_PROC_BIND=close: the OpenMP runtime that oneDNN brings along binds all threads "
          "of the rank "
          "to one core; unset OMP_PROC_BIND (the threads are Lockstep's own: device.threads)" },
        NULL },
    { "more ranks than cores", crowd, NULL,
        { "note|cores||4 ranks share 2 cores: each waits for the others; 2 ranks would be faster" },
        ALONE "mpirun -np 2 --map-by numa:PE=1 --bind-to core ./train config.ini\n" },
    { "little memory", little_memory, NULL,
        { "problem|memory||128.0 MiB for each of 4 ranks (the cgroup's limit): too little for most networks; start "
          "fewer ranks, "
          "or raise the limit" },
        NULL },
    { "an old processor", old_processor, NULL,
        { "note|processor||EPYC has no AVX2 and FMA: the cpu device takes vectors of 4 floats without oneDNN, which is "
          "several times slower than with AVX2" },
        NULL },
    { "narrow limits", narrow_limits, NULL,
        { "problem|limits||128 open files: MPI and NCCL open some for each rank; ulimit -n 4096",
            "problem|limits||10 processes, threads counted, but the ranks here start up to 32: ulimit -u, or a lower "
            "device.threads",
            "problem|limits||64.0 KiB of stack: ulimit -s 8192",
            "note|limits||1.0 GiB of addresses (ulimit -v) counts what is only reserved, too: ulimit -v unlimited" },
        NULL },
    { "in a container", in_a_container, NULL,
        { "note|MPI||this container refuses process_vm_readv, by which Open MPI copies between ranks of a host: it "
          "complains and "
          "copies twice; docker --cap-add=SYS_PTRACE, or --mca btl_vader_single_copy_mechanism none",
            "note|run folder||. lies in the container's own layer (overlay) and goes with it: mount a folder (docker "
            "-v "
            "HOST:CONTAINER) and name it by --run-dir" },
        ALONE "mpirun -np 2 --map-by numa:PE=4 --bind-to core --mca btl_vader_single_copy_mechanism none ./train "
              "config.ini\n" },
    { "file systems that report no size", unknown_room, NULL, { NULL }, NULL },
    { "a full disk", full_disk, NULL,
        { "problem|run folder||. cannot be written by this user: start elsewhere, or name a folder by --run-dir",
            "problem|run folder||. has 1.0 MiB free: make room for checkpoints, or name another folder by --run-dir" },
        NULL },
    { "a card without a driver", card_without_driver, NULL, { "problem|GPU||no NVIDIA driver: install it" }, NULL },
    { "half of the GPUs", half_the_gpus, NULL,
        { "problem|GPU||NCCL is missing: install it",
            "note|GPU||2 of 4 GPUs stay idle with 2 ranks: start one rank for each, as below" },
        UNBOUND("4") },
};

static void check_lines(const situation *s, const ls_findings *found) {
    int expected = 0;
    for (int i = 0; i < found->count; i++) {
        const ls_finding *f = &found->row[i];
        char line[2 * LS_FINDING_TEXT_BYTES];
        ls_text_cut(line, sizeof line, "%s|%s|%s|%s", ls_severity_name(f->severity), f->topic, f->where, f->text);
        const char *want = expected < LINES_MAX ? s->lines[expected++] : NULL;
        if (!want || strcmp(line, want) != 0)
            fail_msg("%s:\n is       %s\n expected %s", s->name, line, want ? want : "no more");
    }
    if (expected < LINES_MAX && s->lines[expected]) fail_msg("%s: lacks %s", s->name, s->lines[expected]);
}

static void machines_are_judged(void **unused) {
    (void)unused;
    ls_facts *all = calloc(RANKS_MAX, sizeof *all);
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++) {
        const situation *s = &situations[i];
        ls_findings *found;
        char commands[LS_LAUNCH_BYTES];
        memset(all, 0, RANKS_MAX * sizeof *all);
        int ranks = s->make(all);
        found = ls_findings_new(&(ls_doctor_view){ .all = all, .ranks = ranks });
        check_lines(s, found);
        const char *differences = s->differences ? s->differences : "";
        if (strcmp(differences, "*") != 0 && strcmp(found->differences, differences) != 0)
            fail_msg("%s:\n is       %s\n expected %s", s->name, found->differences, differences);
        ls_launch_lines(all, ranks, commands);
        const char *expected = s->commands ? s->commands : TWO_NODES;
        if (strcmp(commands, expected) != 0) fail_msg("%s:\n is       %s\n expected %s", s->name, commands, expected);
        free(found);
    }
    free(all);
}

// What is found on two hosts alike is one finding, without an ok beside it.
static void hosts_are_joined(void **unused) {
    (void)unused;
    ls_facts *all = calloc(RANKS_MAX, sizeof *all);
    ls_findings *found;
    int ranks = start(all, 4, 2), limits = 0;
    for (int r = 0; r < ranks; r++) all[r].limit[LS_LIMIT_FILES] = 512;
    found = ls_findings_new(&(ls_doctor_view){ .all = all, .ranks = ranks });
    for (int i = 0; i < found->count; i++) {
        limits += strcmp(found->row[i].topic, "limits") == 0;
        assert_string_equal(found->row[i].where, "");
    }
    assert_int_equal(limits, 1);
    free(found);
    free(all);
}

static void what_others_say_is_passed_on(void **unused) {
    (void)unused;
    ls_facts f = good_host();
    ls_findings *found;
    found = ls_findings_new(&(ls_doctor_view){ &f, 1, "the launcher is another's", "no GPU is left" });
    assert_int_equal(ls_findings_count(found, LS_FINDING_PROBLEM), 2);
    int seen = 0;
    for (int i = 0; i < found->count; i++)
        seen += strcmp(found->row[i].text, "the launcher is another's") == 0 ||
                strcmp(found->row[i].text, "no GPU is left") == 0;
    assert_int_equal(seen, 2);
    free(found);
    // Ranks that were started differently have a table.
    found = ls_findings_new(&(ls_doctor_view){ &f, 1, "ranks were started as\n  table", NULL });
    assert_string_equal(found->differences, "ranks were started as\n  table");
    assert_int_equal(ls_findings_count(found, LS_FINDING_PROBLEM), 1);
    free(found);
}

static void commands_fit_the_machine(void **unused) {
    (void)unused;
    char text[LS_LAUNCH_BYTES];
    ls_facts f = good_host();
    f.is_root = 1;
    f.gpus = 16; // more than cores
    PUT(f.srun, "/usr/bin/srun");
    PUT(f.srun_speaks, "pmix pmi2");
    assert_string_equal(ls_launch_lines(&f, 1, text),
        ALONE "mpirun --allow-run-as-root -np 16 --oversubscribe --bind-to none ./train config.ini\n"
              "srun --mpi=pmix -N1 --ntasks-per-node=16 --cpus-per-task=1 --gpus-per-node=16 ./train config.ini\n");
    PUT(f.mpi, "MPICH 4.0.2");
    PUT(f.launcher[0].version, "MPICH 4.0.2");
    PUT(f.launcher[0].name, "mpirun.mpich");
    f.gpus = 0;
    assert_string_equal(ls_launch_lines(&f, 1, text),
        ALONE "mpirun.mpich -np 2 -bind-to numa ./train config.ini\n"
              "srun --mpi=pmi2 -N1 --ntasks-per-node=2 --cpus-per-task=4 ./train config.ini\n");
    PUT(f.mpi, "no MPI");
    PUT(f.srun_speaks, "");
    assert_string_equal(ls_launch_lines(&f, 1, text), ALONE);
}

static void launchers_name_themselves(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *name;
    } rows[] = { { "mpirun (Open MPI) 4.1.4\n\nReport bugs to ...\n", "Open MPI 4.1.4" },
        { "mpirun.openmpi (OpenRTE) 4.1.4\n", "Open MPI 4.1.4" },
        { "HYDRA build details:\n    Version:                                 4.0.2\n", "MPICH 4.0.2" },
        { "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307\n", "Intel MPI 2021.9" },
        { "HYDRA build details:\n    Version:\n", "MPICH" }, { "(Open MPI", "" }, { "", "" }, { "usage: mpirun", "" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[64];
        ls_facts_read_version(rows[i].text, name, sizeof name);
        assert_string_equal(name, rows[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_are_judged),
        cmocka_unit_test(hosts_are_joined),
        cmocka_unit_test(what_others_say_is_passed_on),
        cmocka_unit_test(commands_fit_the_machine),
        cmocka_unit_test(launchers_name_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
