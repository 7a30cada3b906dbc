// launch.c - the commands that start a run on these hosts.
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "tools/doctor/findings.h"

enum { RANKS_OF_A_NODE = 4 }; // most ranks on a host with one memory node: more ranks gain little on a CPU

typedef struct {
    const ls_facts *all;
    int ranks, hosts;
    int each, every; // ranks to start on the first host, on all hosts
    int cores;       // cores of each rank on the first host
    int by_node;     // each rank has a memory node of its own
    ls_text_room *out;
} plan;

static int cores_of(const ls_facts *f) {
    int cores = f->mask_cpus > 0 ? f->host_cpus * f->mask_cores / f->mask_cpus : f->host_cpus;
    if (f->quota > 0 && f->quota < cores) cores = (int)f->quota;
    return cores > 0 ? cores : 1;
}

// Returns how many ranks a host should run. With GPUs: one for each GPU. Otherwise one for each memory node, if neither
// quota nor mask keeps the ranks from whole nodes. Otherwise one for each core, up to RANKS_OF_A_NODE.
static int ranks_of(const ls_facts *f, int *by_node) {
    const int cores = cores_of(f);
    *by_node = !f->gpus && f->numa_nodes > 1 && f->mask_cpus == f->online_cpus && f->quota == 0;
    if (f->gpus) return f->gpus;
    if (*by_node) return f->numa_nodes;
    return cores < RANKS_OF_A_NODE ? cores : RANKS_OF_A_NODE;
}

// Returns the next rank, at or after `from`, that is the lowest rank of its host; -1: there is no further host.
static int next_host(const plan *p, int from) {
    for (int r = from; r < p->ranks; r++) {
        int seen = 0;
        for (int s = 0; s < r; s++) seen |= p->all[s].host_index == p->all[r].host_index;
        if (!seen) return r;
    }
    return -1;
}

static void put_mpirun(const plan *p, const ls_facts_library *launcher) {
    const ls_facts *f = p->all;
    const int is_open_mpi = strncmp(launcher->version, "Open MPI", 8) == 0;
    const char *dashes = is_open_mpi ? "--" : "-";
    ls_text_put(p->out, "%s", launcher->name);
    if (is_open_mpi && f->is_root) ls_text_put(p->out, " --allow-run-as-root");
    if (p->hosts > 1) {
        ls_text_put(p->out, is_open_mpi ? " --host " : " -hosts ");
        for (int r = next_host(p, 0); r >= 0; r = next_host(p, r + 1)) {
            int unused;
            ls_text_put(p->out, "%s%s:%d", r ? "," : "", p->all[r].host, ranks_of(&p->all[r], &unused));
        }
    }
    ls_text_put(p->out, " -np %d", p->every);
    if (is_open_mpi && p->hosts == 1 && p->each > cores_of(f)) ls_text_put(p->out, " --oversubscribe");
    if (p->by_node && is_open_mpi)
        ls_text_put(p->out, " --map-by numa:PE=%d --bind-to core", p->cores);
    else
        ls_text_put(p->out, p->by_node ? " %sbind-to numa" : " %sbind-to none", dashes);
    if (is_open_mpi && !f->reads_peers) ls_text_put(p->out, " --mca btl_vader_single_copy_mechanism none");
    ls_text_put(p->out, " %s config.ini\n", f->program);
}

static void put_srun(const plan *p) {
    const ls_facts *f = p->all;
    const char *kind = strncmp(f->mpi, "Open MPI", 8) == 0 ? "pmix" : "pmi2";
    if (!strstr(f->srun_speaks, kind)) return;
    ls_text_put(
        p->out, "srun --mpi=%s -N%d --ntasks-per-node=%d --cpus-per-task=%d", kind, p->hosts, p->each, p->cores);
    if (f->gpus) ls_text_put(p->out, " --gpus-per-node=%d", f->gpus);
    ls_text_put(p->out, " %s config.ini\n", f->program);
}

char *ls_launch_lines(const ls_facts *all, int ranks, char text[LS_LAUNCH_BYTES]) {
    ls_text_room out = { text, LS_LAUNCH_BYTES };
    plan p = { .all = all, .ranks = ranks, .out = &out };
    int unused;
    text[0] = 0;
    p.each = ranks_of(all, &p.by_node);
    p.cores = cores_of(all) / p.each > 0 ? cores_of(all) / p.each : 1;
    for (int r = next_host(&p, 0); r >= 0; r = next_host(&p, r + 1)) {
        p.hosts++;
        p.every += ranks_of(&all[r], &unused);
    }
    const int at = ls_facts_fitting_launcher(all);
    ls_text_put(&out, "%s config.ini\n", all->program);
    if (p.every == 1) return text;
    if (at >= 0) put_mpirun(&p, &all->launcher[at]);
    put_srun(&p);
    return text;
}
