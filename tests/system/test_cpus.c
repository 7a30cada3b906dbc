#include "system/cpus.h"
#include "support/cmocka.h"
#include "support/temp.h"

typedef struct {
    const char *name;
    const char *files[12]; // path, text, path, text, ..., NULL
    double quota;
    int cpuset;
} host;

static const host hosts[] = {
    { "no cgroups", { NULL }, 0, 0 },
    { "v2 without limit", { "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max", "max 100000\n" }, 0, 0 },
    { "v2 with limit", { "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max", "150000 100000\n" }, 1.5, 0 },
    { "v2, the parent is tighter",
        { "proc/self/cgroup", "0::/user.slice/job.scope\n", "sys/fs/cgroup/user.slice/job.scope/cpu.max",
            "800000 100000\n", "sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n",
            "sys/fs/cgroup/cpuset.cpus.effective", "0-63\n", "sys/fs/cgroup/user.slice/job.scope/cpuset.cpus.effective",
            "0-3,8,10-11\n" },
        2, 7 },
    { "v2, a path of the host that is not mounted",
        { "proc/self/cgroup", "0::/docker/0123abcd\n", "sys/fs/cgroup/cpu.max", "300000 100000\n",
            "sys/fs/cgroup/cpuset.cpus.effective", "5\n" },
        3, 1 },
    { "v1 without limit",
        { "proc/self/cgroup", "3:cpu,cpuacct:/\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n" },
        0, 0 },
    { "v1 with limit",
        { "proc/self/cgroup", "5:cpuset:/a\n4:cpuacct,cpu:/a/b\n1:name=systemd:/\n",
            "sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "50000\n", "sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "20000\n",
            "sys/fs/cgroup/cpuset/a/cpuset.effective_cpus", "0-1\n" },
        2.5, 2 },
    { "v1, only the container's own group is mounted",
        { "proc/self/cgroup", "4:cpu:/docker/0123\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n" },
        0.5, 0 },
    { "damaged", { "proc/self/cgroup", "nonsense\n0\n::\n", "sys/fs/cgroup/cpu.max", "x y\n" }, 0, 0 },
};

static void quotas(void **state) {
    (void)state;
    for (size_t row = 0; row < sizeof hosts / sizeof *hosts; row++) {
        temp_folder root = temp_folder_new();
        for (int i = 0; hosts[row].files[i]; i += 2) temp_file(&root, hosts[row].files[i], hosts[row].files[i + 1]);
        double quota = ls_cpus_quota(root.path);
        int cpuset = ls_cpus_cpuset_count(root.path);
        temp_folder_remove(&root);
        if (quota != hosts[row].quota || cpuset != hosts[row].cpuset)
            fail_msg("%s: quota %g, cpuset %d; expected %g, %d", hosts[row].name, quota, cpuset, hosts[row].quota,
                hosts[row].cpuset);
    }
}

static void limits_of_memory(void **state) {
    (void)state;
    static const struct {
        const char *files[8];
        double limit;
    } rows[] = {
        { { NULL }, 0 },
        { { "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "max\n" }, 0 },
        { { "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max", "max\n", "sys/fs/cgroup/a/memory.max",
              "1073741824\n", "sys/fs/cgroup/memory.max", "2147483648\n" },
            1 << 30 },
        { { "proc/self/cgroup", "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes",
              "536870912\n" },
            1 << 29 },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        temp_folder root = temp_folder_new();
        for (int i = 0; i < 8 && rows[row].files[i]; i += 2)
            temp_file(&root, rows[row].files[i], rows[row].files[i + 1]);
        double limit = ls_cpus_memory_limit(root.path);
        temp_folder_remove(&root);
        if (limit != rows[row].limit) fail_msg("row %zu: %g, expected %g", row, limit, rows[row].limit);
    }
}

static void processes_ended_for_lack_of_memory(void **state) {
    (void)state;
    static const struct {
        const char *files[8];
        int64_t kills;
    } rows[] = {
        { { NULL }, -1 },
        { { "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.events", "low 0\nhigh 1\nmax 7\noom 5\noom_kill 3\n" },
            3 },
        { { "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events", "oom 5\n",
              "sys/fs/cgroup/a/memory.events", "oom_kill 0\noom_group_kill 2\n" },
            0 },
        { { "proc/self/cgroup", "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.oom_control",
              "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n" },
            12 },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        temp_folder root = temp_folder_new();
        for (int i = 0; i < 8 && rows[row].files[i]; i += 2)
            temp_file(&root, rows[row].files[i], rows[row].files[i + 1]);
        const int64_t kills = ls_cpus_oom_kills(root.path);
        temp_folder_remove(&root);
        if (kills != rows[row].kills) fail_msg("row %zu: %lld", row, (long long)kills);
    }
}

static void threads(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_cpus cpus;
        int ranks, expected;
    } rows[] = {
        { "alone", { .mask_cpus = 8, .mask_cores = 8, .host_cpus = 8 }, 1, 8 },
        { "alone, SMT", { .mask_cpus = 16, .mask_cores = 8, .host_cpus = 16 }, 1, 8 },
        { "two share", { .mask_cpus = 8, .mask_cores = 8, .host_cpus = 8 }, 2, 4 },
        { "three share", { .mask_cpus = 8, .mask_cores = 8, .host_cpus = 8 }, 3, 2 },
        { "two share, SMT", { .mask_cpus = 16, .mask_cores = 8, .host_cpus = 16 }, 2, 4 },
        { "more ranks than cores", { .mask_cpus = 2, .mask_cores = 2, .host_cpus = 2 }, 4, 1 },
        { "bound to a core each", { .mask_cpus = 2, .mask_cores = 1, .host_cpus = 64 }, 4, 1 },
        { "bound to a socket of two", { .mask_cpus = 32, .mask_cores = 32, .host_cpus = 64 }, 2, 32 },
        { "four bound to two sockets", { .mask_cpus = 32, .mask_cores = 32, .host_cpus = 64 }, 4, 16 },
        { "container with 4 of 64", { .mask_cpus = 4, .mask_cores = 4, .host_cpus = 4, .online_cpus = 64 }, 2, 2 },
        { "quota", { .mask_cpus = 64, .mask_cores = 64, .host_cpus = 64, .quota_cpus = 4 }, 1, 4 },
        { "quota shared", { .mask_cpus = 64, .mask_cores = 64, .host_cpus = 64, .quota_cpus = 4 }, 2, 2 },
        { "quota 1.5", { .mask_cpus = 8, .mask_cores = 8, .host_cpus = 8, .quota_cpus = 1.5 }, 1, 2 },
        { "quota 0.2", { .mask_cpus = 8, .mask_cores = 8, .host_cpus = 8, .quota_cpus = 0.2 }, 1, 1 },
        { "nothing known", { 0 }, 1, 1 },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        int got = ls_cpus_threads_per_rank(&rows[row].cpus, rows[row].ranks);
        if (got != rows[row].expected) fail_msg("%s: %d threads, expected %d", rows[row].name, got, rows[row].expected);
    }
}

static void this_machine(void **state) {
    (void)state;
    ls_cpus cpus;
    ls_cpus_detect(&cpus);
    print_message(
        "%s: %d processors, %d cores, quota %g, of %d shared, %d online; AVX2 %d, AVX-512 %d, BF16 %d, AMX %d\n",
        cpus.model, cpus.mask_cpus, cpus.mask_cores, cpus.quota_cpus, cpus.host_cpus, cpus.online_cpus, cpus.has_avx2,
        cpus.has_avx512, cpus.has_avx512_bf16, cpus.has_amx_bf16);
    assert_true(cpus.mask_cpus >= 1 && cpus.mask_cores >= 1 && cpus.mask_cores <= cpus.mask_cpus);
    assert_true(cpus.host_cpus >= cpus.mask_cpus && cpus.online_cpus >= 1 && cpus.quota_cpus >= 0);
    assert_true(cpus.model[0]);
    int threads_alone = ls_cpus_threads_per_rank(&cpus, 1);
    assert_true(threads_alone >= 1 && threads_alone <= cpus.mask_cores);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas),
        cmocka_unit_test(limits_of_memory),
        cmocka_unit_test(processes_ended_for_lack_of_memory),
        cmocka_unit_test(threads),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
