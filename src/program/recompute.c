// recompute.c - train.recompute = blocks: activations inside of a block are not kept for the backward pass, but
// computed a second time just before the block's backward pass. Only what leaves a block is kept.
//
// Where a block may end: behind a node where exactly one value is alive, so that residual branches stay inside of one
// block, and all that a block reads from outside is one activation. From these finest blocks the two neighbours that
// are lightest together are merged, again and again, until there is one. Each of these stages is measured, from few
// blocks to many, by booking its activations without making plans. The stage that takes the least memory is taken.
// For n equal layers it has about sqrt(n) blocks: what is kept between blocks and what is alive inside of one are
// then about equal. Buffers are given places only where the bytes alive at one time leave hope for less memory. Where
// these are more than HOPELESS times the least memory so far, more blocks are not tried: what is kept between blocks
// only grows.
//
// The second time gives the same bits: the same plans read the same inputs, dropout's mask
// is a function of the sample's position, and batch norm does not hand on its statistics again.
// The last block is not computed again: its backward pass follows its forward pass. Nor is anything
// that no backward operator of the block reads (in general the last node of a block, whose output is kept).
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "program/compile_internal.h"

// last_reader: by value, the last node that reads it; the loss counts as one more node.
static void find_last_readers(const ls_builder *b, int *last_reader) {
    for (int v = 0; v < b->value_count; v++) last_reader[v] = -1;
    for (int n = 0; n < b->node_count; n++)
        for (int i = 0; i < b->nodes[n].input_count; i++) last_reader[b->nodes[n].input[i]] = n;
    last_reader[b->value_of[b->graph->layer_count - 1]] = b->node_count;
}

// The finest blocks. An operator that works in place must not overwrite the value between two blocks.
// Values are numbered in the order of their nodes: value 0 is the network's input, then one a node.
static void cut_finest(ls_builder *b, const int *last_reader) {
    int alive = last_reader[0] >= 0;
    // By node: the number of values that no later node reads.
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

// Bytes of what the block's nodes write in the forward pass.
static size_t weight_of(const ls_builder *b, int block) {
    size_t bytes = 0;
    for (int n = block ? b->block_end[block - 1] : 0; n < b->block_end[block]; n++)
        if (!ls_node_in_place(b, &b->nodes[n]))
            bytes +=
                b->device->api->activation_bytes(b->device, b->values[b->nodes[n].output].shape, b->store->storage);
    return bytes;
}

typedef struct { // two neighbours that were merged
    int block;   // the first of the two
    int end;     // its end
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

// Merges the finest blocks until there is one; returns the merges in their order, for free().
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

// Of two stages that take as much, the one with more blocks is taken, but one block where none takes less.
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

// Marks the values that the block's backward pass reads, and those from which they are computed.
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
        if (n == end - 1) output->wanted = 0; // it was kept
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
