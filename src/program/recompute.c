// recompute.c - train.recompute = blocks: activations inside a block are not kept for the backward pass. They are
// computed a second time just before the block's backward pass. Only values that leave a block are kept.
//
// A block may end after a node where exactly one value is alive. Residual branches then stay inside a block, and a
// block reads one activation from outside. Such cuts give the finest blocks. The two neighbours that are lightest
// together are then merged, again and again, until one block is left. These stages are measured, from few blocks to
// many, by booking their activations without making plans, and the measured stage that takes the least memory is
// chosen. For n equal layers it has about sqrt(n) blocks: the values kept between blocks and the values alive inside a
// block then need about the same memory.
//
// To save time, buffers are placed only if the bytes alive at one time could still beat the best stage. The search ends
// when they exceed HOPELESS times the best, because more blocks keep more values between them.
//
// The second computation gives the same bits: the same plans read the same inputs, dropout's mask is a function of the
// sample's position, and batch norm does not add to its running statistics again. The last block is not computed again,
// because its backward pass directly follows its forward pass. Values that the block's backward pass does not need are
// not computed again either, nor is the output of the block's last node, which is kept.
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "program/compile_internal.h"

// Sets last_reader[v] to the last node that reads value v; -1: no node reads it. The loss counts as one more node.
static void find_last_readers(const ls_builder *b, int *last_reader) {
    for (int v = 0; v < b->value_count; v++) last_reader[v] = -1;
    for (int n = 0; n < b->node_count; n++)
        for (int i = 0; i < b->nodes[n].input_count; i++) last_reader[b->nodes[n].input[i]] = n;
    last_reader[b->value_of[b->graph->layer_count - 1]] = b->node_count;
}

// Cuts the nodes into the finest blocks. No block may start with a node that works in place, because it would overwrite
// the value between the blocks. Value 0 is the network's input; value n is the output of node n - 1.
static void cut_finest(ls_builder *b, const int *last_reader) {
    int alive = last_reader[0] >= 0;
    // dying[n]: the number of values whose last reader is node n.
    int *dying = ls_new(b->node_count + 1, sizeof *dying, "blocks of train.recompute");
    for (int v = 0; v < b->value_count; v++)
        if (last_reader[v] >= 0) dying[last_reader[v]]++;
    b->block_count = 0;
    for (int n = 0; n < b->node_count; n++) {
        alive += (last_reader[b->nodes[n].output] >= 0) - dying[n];
        const int last = n == b->node_count - 1;
        if (last || (alive == 1 && !ls_node_in_place(b, &b->nodes[n + 1]))) b->block_end[b->block_count++] = n + 1;
    }
    free(dying);
}

// Returns the bytes of the outputs of the block's nodes; a node that works in place has no output of its own.
static size_t weight_of(const ls_builder *b, int block) {
    size_t bytes = 0;
    for (int n = block ? b->block_end[block - 1] : 0; n < b->block_end[block]; n++)
        if (!ls_node_in_place(b, &b->nodes[n]))
            bytes +=
                b->device->api->activation_bytes(b->device, b->values[b->nodes[n].output].shape, b->store->storage);
    return bytes;
}

typedef struct { // a merge of two neighbouring blocks
    int block;   // index of the first block
    int end;     // end of the first block before the merge
} merge;

static merge merge_lightest(ls_builder *b, size_t *weight) {
    int lightest = 0;
    for (int i = 1; i + 1 < b->block_count; i++)
        if (weight[i] + weight[i + 1] < weight[lightest] + weight[lightest + 1]) lightest = i;
    const merge done = { lightest, b->block_end[lightest] };
    weight[lightest] += weight[lightest + 1];
    b->block_count--;
    for (int i = lightest; i < b->block_count; i++) {
        b->block_end[i] = b->block_end[i + 1];
        if (i > lightest) weight[i] = weight[i + 1];
    }
    return done;
}

// Merges the finest blocks until one is left. Returns the merges in their order, for free().
static merge *merge_all(ls_builder *b) {
    merge *merges = ls_new(b->block_count, sizeof *merges, "blocks of train.recompute");
    size_t *weight = ls_new(b->block_count, sizeof *weight, "blocks of train.recompute");
    for (int i = 0; i < b->block_count; i++) weight[i] = weight_of(b, i);
    for (int count = 0; b->block_count > 1; count++) merges[count] = merge_lightest(b, weight);
    free(weight);
    return merges;
}

static void undo(ls_builder *b, merge last) {
    for (int i = b->block_count++; i > last.block; i--) b->block_end[i] = b->block_end[i - 1];
    b->block_end[last.block] = last.end;
}

enum { HOPELESS = 2 };

// Keeps the stage that needs the least memory; of two stages with equal memory the one with more blocks. If no stage
// needs less memory than one block, one block is chosen.
ls_status ls_builder_choose_blocks(ls_builder *b) {
    int *last_reader = ls_new(b->value_count, sizeof *last_reader, "blocks of train.recompute");
    int *best = ls_new(b->node_count, sizeof *best, "blocks of train.recompute"), best_count = 1;
    size_t least = b->program->all_kept_bytes, peak = 0;
    ls_status status = LS_SUCCESS;
    best[0] = b->node_count;
    find_last_readers(b, last_reader);
    cut_finest(b, last_reader);
    const int finest = b->block_count;
    merge *merges = merge_all(b);
    while (!ls_failed(status) && b->block_count < finest && peak / HOPELESS <= least) {
        undo(b, merges[finest - b->block_count - 1]);
        status = ls_builder_emit_unplaced(b, &peak);
        if (ls_failed(status) || peak > least) continue;
        ls_builder_place(b);
        const size_t bytes = b->program->activation_bytes;
        if (best_count == 1 ? bytes >= least : bytes > least) continue;
        least = bytes;
        best_count = b->block_count;
        memcpy(best, b->block_end, (size_t)best_count * sizeof *best);
    }
    b->block_count = best_count;
    memcpy(b->block_end, best, (size_t)best_count * sizeof *best);
    free(last_reader);
    free(best);
    free(merges);
    return status;
}

// Marks the values that the block's backward pass reads, and the values from which those are computed.
static void mark_wanted(ls_builder *b, int first, int end) {
    for (int n = first; n < end; n++) {
        b->values[b->nodes[n].output].wanted = 0;
        for (int i = 0; i < b->nodes[n].input_count; i++) b->values[b->nodes[n].input[i]].wanted = 0;
    }
    for (int n = end - 1; n >= first; n--) {
        const ls_node *node = &b->nodes[n];
        ls_value *output = &b->values[node->output];
        int reads = output->needs_grad ? ls_lowerings[node->layer->kind].reads : 0;
        int mask = reads & LS_READS_RELU && node->activation == LS_ACTIVATION_RELU && !node->pool && !node->adds_last;
        if (reads & LS_READS_OUTPUT || mask) output->wanted = 1;
        if (reads & LS_READS_INPUT) b->values[node->input[0]].wanted = 1;
        for (int i = 0; reads & LS_READS_INPUTS && i < node->input_count; i++) b->values[node->input[i]].wanted = 1;
        if (n == end - 1) output->wanted = 0; // the output of the block's last node was kept
        for (int i = 0; output->wanted && i < node->input_count; i++) b->values[node->input[i]].wanted = 1;
    }
}

ls_status ls_builder_recompute(ls_builder *b, int first, int end) {
    mark_wanted(b, first, end);
    b->again = 1;
    b->again_at = 0;
    for (int n = first; n < end; n++)
        if (b->values[b->nodes[n].output].wanted)
            LS_TRY(ls_lowerings[b->nodes[n].layer->kind].forward(b, &b->nodes[n]));
    b->again = 0;
    return LS_SUCCESS;
}
