// Cores near GPUs, on machines that are folders.
#include "dist/affinity.h"
#include <string.h>
#include "support/cmocka.h"
#include "support/temp.h"

enum { RANKS_MAX = 8, GPUS_MAX = 4 };

// GPU g of a machine is at "0000:0g:00.0".
typedef struct {
    const char *name;
    const char *node[GPUS_MAX], *near[GPUS_MAX]; // numa_node and local_cpulist; NULL: no such file
    const char *siblings[2][2];                  // cpu, its thread_siblings_list
} machine;

static const machine two_nodes = { "two nodes of 8", { "0", "0", "1", "1" }, { "0-7", "0-7", "8-15", "8-15" },
    { { 0 } } };
static const machine one_node = { "one node of 4", { "0" }, { "0-3" }, { { 0 } } };
static const machine smt = { "two cores of two threads", { "0", "0" }, { "0-3", "0-3" },
    { { "2", "0,2" }, { "3", "1,3" } } };
static const machine unknown = { "no memory nodes", { "-1" }, { "0-7" }, { { 0 } } };
static const machine no_list = { "no list", { "0" }, { NULL }, { { 0 } } };
static const machine no_sysfs = { "no /sys", { NULL }, { NULL }, { { 0 } } };

typedef struct {
    const char *name;
    const machine *on;
    const char *allowed; // to every rank
    struct {
        int gpu; // -1: none
        int host, bound;
        const char *expected; // "": stays where it is
    } ranks[RANKS_MAX];
    int count;
} situation;

static const situation situations[] = {
    { "alone", &two_nodes, "0-15", { { 2, 0, 0, "8-15" } }, 1 },
    { "one rank a node", &two_nodes, "0-15", { { 0, 0, 0, "0-7" }, { 2, 0, 0, "8-15" } }, 2 },
    { "two ranks a node", &two_nodes, "0-15",
        { { 0, 0, 0, "0-3" }, { 1, 0, 0, "4-7" }, { 2, 0, 0, "8-11" }, { 3, 0, 0, "12-15" } }, 4 },
    { "three share a GPU's node", &two_nodes, "0-15", { { 0, 0, 0, "0-1" }, { 1, 0, 0, "2-4" }, { 0, 0, 0, "5-7" } },
        3 },
    { "part of the machine is allowed", &two_nodes, "2-5,8",
        { { 0, 0, 0, "2-3" }, { 1, 0, 0, "4-5" }, { 2, 0, 0, "8" } }, 3 },
    { "nothing near is allowed", &two_nodes, "0-7", { { 2, 0, 0, "" }, { 0, 0, 0, "0-7" } }, 2 },
    { "bound by the launcher", &two_nodes, "0-15", { { 0, 0, 1, "" }, { 1, 0, 0, "0-7" } }, 2 },
    { "another host's ranks do not count", &two_nodes, "0-15", { { 0, 0, 0, "0-7" }, { 0, 1, 0, "0-7" } }, 2 },
    { "more ranks than cores", &one_node, "0-1", { { 0, 0, 0, "0-1" }, { 0, 0, 0, "0-1" }, { 0, 0, 0, "0-1" } }, 3 },
    { "cores stay whole", &smt, "0-3", { { 0, 0, 0, "0,2" }, { 1, 0, 0, "1,3" } }, 2 },
    { "three ranks on two cores", &smt, "0-3", { { 0, 0, 0, "0-3" }, { 1, 0, 0, "0-3" }, { 0, 0, 0, "0-3" } }, 3 },
    { "one memory node that is not told", &unknown, "0-7", { { 0, 0, 0, "" } }, 1 },
    { "no list", &no_list, "0-7", { { 0, 0, 0, "" } }, 1 },
    { "no /sys", &no_sysfs, "0-7", { { 0, 0, 0, "" } }, 1 },
    { "no GPU", &two_nodes, "0-15", { { -1, 0, 0, "" } }, 1 },
};

static void make(const machine *m, const temp_folder *root) {
    char path[128], line[64];
    for (int g = 0; g < GPUS_MAX; g++) {
        const char *const files[][2] = { { "numa_node", m->node[g] }, { "local_cpulist", m->near[g] } };
        for (int f = 0; f < 2; f++) {
            if (!files[f][1]) continue;
            snprintf(path, sizeof path, "sys/bus/pci/devices/0000:0%d:00.0/%s", g, files[f][0]);
            snprintf(line, sizeof line, "%s\n", files[f][1]);
            temp_file(root, path, line);
        }
    }
    for (int s = 0; s < 2 && m->siblings[s][0]; s++) {
        snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%s/topology/thread_siblings_list", m->siblings[s][0]);
        temp_file(root, path, m->siblings[s][1]);
    }
}

static void cores(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof situations / sizeof *situations; s++) {
        const situation *row = &situations[s];
        temp_folder root = temp_folder_new();
        static ls_affinity_view views[RANKS_MAX];
        ls_cpu_mask allowed = ls_cpu_mask_parse(row->allowed);
        make(row->on, &root);
        for (int r = 0; r < row->count; r++) {
            char pci[16] = "";
            if (row->ranks[r].gpu >= 0) snprintf(pci, sizeof pci, "0000:0%d:00.0", row->ranks[r].gpu % 10);
            views[r] = ls_affinity_look(root.path, pci, row->ranks[r].host, row->ranks[r].bound, &allowed);
        }
        for (int r = 0; r < row->count; r++) {
            char text[64];
            ls_cpu_mask got = ls_affinity_share(root.path, views, row->count, r);
            if (strcmp(ls_cpu_mask_text(&got, text, sizeof text), row->ranks[r].expected) != 0)
                fail_msg("%s, rank %d on %s: cores '%s', expected '%s'", row->name, r, row->on->name, text,
                    row->ranks[r].expected);
        }
        temp_folder_remove(&root);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(cores) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
