#include "run/snapshot.h"

#include <stdio.h>
#include "base/hash.h"
#include "base/memory.h"
#include "program/optimizer.h"

static void describe(ls_snapshot_tensor *tensor, const ls_graph *graph, int p, const char *kept, int state) {
    const ls_param *param = &graph->params[p];
    *tensor = (ls_snapshot_tensor){
        .param = p, .state = state, .rank = param->rank, .elements = ls_param_count(&param->shape)
    };
    snprintf(tensor->name, sizeof tensor->name, "%s%s%s", param->name, state ? "." : "", kept);
    for (int d = 0; d < param->rank; d++) tensor->dim[d] = param->file_dim[d]; // shape as in weights.h
}

static void add(ls_snapshot *s, const ls_graph *graph, int p, const char *kept, int state) {
    ls_snapshot_tensor *tensor = &s->tensors[s->count++];
    describe(tensor, graph, p, kept, state);
    s->bytes += (size_t)tensor->elements * sizeof(float);
}

static int is_averaged(const ls_graph *graph, const ls_param_rules *rules, int p) {
    return rules->average && ls_param_rules_changes(rules, graph, p);
}

static void describe_all(ls_snapshot *s, const ls_graph *graph, const ls_param_rules *rules) {
    const char *other = rules->average == LS_AVERAGE_EMA ? "unaveraged" : "slow";
    for (int state = 0; state <= rules->kept; state++)
        for (int p = 0; p < graph->param_count; p++)
            if (state <= ls_param_rules_kept(rules, p))
                add(s, graph, p, state ? ls_optimizer_kept_name(rules->param[p].kind, state - 1) : "", state);
    for (int p = 0; p < graph->param_count; p++)
        if (is_averaged(graph, rules, p)) add(s, graph, p, other, LS_SNAPSHOT_OTHER);
}

ls_status ls_snapshot_list(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out) {
    const int count = graph->param_count * (2 + rules->kept); // the most tensors possible
    ls_snapshot *s = ls_new(1, sizeof *s, "list of %d tensors", count);
    s->tensors = ls_new(count + 1, sizeof *s->tensors, "list of %d tensors", count);
    s->params = graph->param_count;
    describe_all(s, graph, rules);
    *out = s;
    return LS_SUCCESS;
}

ls_status ls_snapshot_new(const ls_graph *graph, const ls_param_rules *rules, ls_snapshot **out) {
    ls_snapshot *s;
    LS_TRY(ls_snapshot_list(graph, rules, &s));
    ls_status status = ls_try_new(&s->values, s->bytes + 1, 1, "snapshot of the run's state");
    if (ls_failed(status)) {
        ls_snapshot_free(s);
        return status;
    }
    float *at = s->values;
    for (int i = 0; i < s->count; i++) {
        s->tensors[i].values = at;
        at += s->tensors[i].elements;
    }
    *out = s;
    return LS_SUCCESS;
}

void ls_snapshot_free(ls_snapshot *snapshot) {
    if (!snapshot) return;
    free(snapshot->tensors);
    free(snapshot->values);
    free(snapshot);
}

ls_status ls_snapshot_write(const char *path, const ls_snapshot *snapshot, int first, int end,
    const ls_metadata_entry *notes, int note_count, ls_safetensors_digest *digest) {
    ls_safetensors_tensor *tensors = ls_new(end - first + 1, sizeof *tensors, "%s", path);
    for (int i = first; i < end; i++) {
        const ls_snapshot_tensor *from = &snapshot->tensors[i];
        tensors[i - first] = (ls_safetensors_tensor){ .name = from->name, .rank = from->rank, .data = from->values };
        memcpy(tensors[i - first].dim, from->dim, sizeof from->dim);
    }
    ls_status status = ls_safetensors_write(path, tensors, end - first, notes, note_count, digest);
    free(tensors);
    return status;
}

uint64_t ls_snapshot_hash(const ls_snapshot_tensor *tensor) {
    return ls_hash(tensor->values, (size_t)tensor->elements * sizeof *tensor->values);
}

uint64_t ls_snapshot_weights_hash(const ls_snapshot *s) {
    uint64_t hash = 0;
    for (int i = 0; i < s->params; i++)
        hash = ls_hash_more(hash, s->tensors[i].values, (size_t)s->tensors[i].elements * sizeof *s->tensors[i].values);
    return hash;
}
