// recompute.c - train.recompute = blocks: activations inside of a block are not kept for the backward pass, but
// computed a second time just before the block's backward pass. Only what leaves a block is kept.
//
// Where a block may end: behind a node where exactly one value is alive, so that residual branches stay inside of one
// block, and all that a block reads from outside is one activation. From these finest blocks the two neighbours that
// are lightest together are merged, again and again, and for every stage the whole program's memory is measured, by
// booking its activations without making plans. The stage with the smallest peak is taken. (For n equal layers it is
// near sqrt(n) blocks: what is kept between blocks and what is alive inside of one are then about equal.
// Measuring needs no such assumption.)
//
// The second time gives the same bits: the same plans read the same inputs, dropout's mask
// is a function of the sample's position, and batch norm does not hand on its statistics again.
// The last block is not computed again: its backward pass follows its forward pass. Nor is anything
// that no backward operator of the block reads (in general the last node of a block, whose output is kept).
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
static void cut_finest(ls_builder *b, const int *last_reader) {
    b->block_count = 0;
    for (int n = 0; n < b->node_count; n++) {
        int alive = 0;
        for (int v = 0; v <= b->nodes[n].output; v++) alive += last_reader[v] > n;
        int last = n == b->node_count - 1;
        if (last || (alive == 1 && !ls_node_in_place(b, &b->nodes[n + 1]))) b->block_end[b->block_count++] = n + 1;
    }
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

static void merge_lightest(ls_builder *b) {
    int lightest = 0;
    size_t least = SIZE_MAX;
    for (int i = 0; i + 1 < b->block_count; i++) {
        size_t weight = weight_of(b, i) + weight_of(b, i + 1);
        if (weight >= least) continue;
        least = weight;
        lightest = i;
    }
    b->block_count--;
    for (int i = lightest; i < b->block_count; i++) b->block_end[i] = b->block_end[i + 1];
}

ls_status ls_builder_choose_blocks(ls_builder *b) {
    int *last_reader, *best = NULL, best_count = 1;
    size_t least = b->program->all_kept_bytes;
    ls_status status;
    LS_TRY_GOTO(LS_NEW(last_reader, b->value_count, "blocks of train.recompute"));
    LS_TRY_GOTO(LS_NEW(best, b->node_count, "blocks of train.recompute"));
    best[0] = b->node_count;
    find_last_readers(b, last_reader);
    for (cut_finest(b, last_reader); b->block_count > 1; merge_lightest(b)) {
        LS_TRY_GOTO(ls_builder_emit_program(b));
        if (b->program->activation_bytes >= least) continue;
        least = b->program->activation_bytes;
        best_count = b->block_count;
        memcpy(best, b->block_end, (size_t)best_count * sizeof *best);
    }
    b->block_count = best_count;
    memcpy(b->block_end, best, (size_t)best_count * sizeof *best);
done:
    free(last_reader);
    free(best);
    return status;
}

// Marks the values that the block's backward pass reads, and those from which they are computed.
static void mark_wanted(ls_builder *b, int first, int end) {
    for (int v = 0; v < b->value_count; v++) b->values[v].wanted = 0;
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
