// checkpoint_facts.h - a small run that the checkpoints in corpus/checkpoint are of:
// what its manifests are compared with, and were made from.
#ifndef TESTS_FUZZ_CHECKPOINT_FACTS_H
#define TESTS_FUZZ_CHECKPOINT_FACTS_H

#include <stdlib.h>

#include "run/checkpoint.h"

static inline const ls_train_info *fuzz_facts(void) {
    static ls_config cfg;
    static ls_dataset_info data = {
        .name = "synthetic", .shape = { 2, 1, 1 }, .classes = 2, .count = 100, .checksum = 12345
    };
    static const ls_comm_info comm = { .world_size = 1 };
    static ls_train_info facts;
    if (facts.cfg) return &facts;
    ls_config_defaults(&cfg);
    ls_graph *graph;
    if (ls_failed(
            ls_graph_parse("network.ini", "[network]\ninput = 2x1x1\n[l]\nlayer = linear\nout_features = 2\n", &graph)))
        abort();
    ls_param_rules *rules;
    if (ls_failed(ls_param_rules_new(&cfg, graph, &rules))) abort();
    facts = (ls_train_info){ .cfg = &cfg,
        .graph = graph,
        .rules = rules,
        .train_data = &data,
        .test_data = &data,
        .comm = &comm,
        .device = "cpu" };
    if (ls_failed(ls_batches_plan(&cfg, data.count, 0, 1, &facts.batches))) abort();
    return &facts;
}

#endif
