#!/usr/bin/env python3
"""Plants faults in the CUDA device and in what drives it, one at a time, and runs the tests of the emulated device on each.

  tests/emulation/planted_faults.py [--list] [--check] [--only NAME ...] [--new] [--out tests/results/planted-faults.md] [--folder FOLDER] [--jobs N]

A fault is a piece of source text and what replaces it; the text must be there exactly once. The tracked files are copied to a folder
(a temporary one, or --folder, which is kept, so that the next run builds less), built without the fault, which must pass, and then
once for each fault. Caught: one of the fault's test programs fails, dies, or does not end. Exit 1 if a fault was not caught and has no
reason given in the table. Takes some 40 minutes on two cores; --check, in the test suite, sees that each text stands there once.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KERNELS = "src/device/cuda/kernels"
CUDA = "src/device/cuda"
CPU = "src/device/cpu"
CPU_KERNELS = "src/device/cpu/kernels"
RULE = "src/device/gpu/norm_rule.c"
TRAIN = "src/train"
LIMIT_S = 240  # of a test program; far above what it takes

OPERATORS, SEAM, QUEUES, TRAINING = "test_device_cuda_operators", "test_device_cuda_libraries", "test_device_cuda_queue", "test_train_cuda"
NCCL_CALLS = "test_device_cuda_nccl_calls"
COLLECTIVE, COLLECTIVE_FAULTS, THREADS = "test_device_cuda_collective", "test_device_cuda_collective_faults", "test_device_cuda_threads"
EMULATION, CHOICE, SNAPSHOT = "tests/emulation", "test_device_algorithm_choice", "test_run_snapshot"
CPU_OPERATORS, CPU_PARTS, CPU_RULE, CPU_WINOGRAD = ("test_device_cpu_operators", "test_device_cpu_kernels", "test_device_cpu_conv_choose",
                                                  "test_device_cpu_winograd")
CPU_DIRECT = "test_device_cpu_conv_direct"
# By the beginning of a fault's name, part of the names of the operators' cases that are run before all.
CASES = {"adamw": "adamw", "augment": "augment", "batch norm": "batch norm", "batch norm in one launch": "batch norm", "bias gradient": "linear",
         "convolution": "conv ", "depthwise": "conv ", "distill": "teacher's loss", "dropout": "dropout", "fake quantise": "fake quantise", "gelu": "gelu", "head": "head", "implicit gemm": "conv ", "linear": "linear", "loss": "loss", "pooling": "pool ",
         "relu": "relu", "resize": "resize", "sgd": "sgd", "statistics": "gradient statistics", "trivial augment": "trivial augment", "widen": "gradient from 16 bits"}


@dataclasses.dataclass
class Fault:
    name: str
    file: str
    old: str
    new: str
    tests: tuple
    unseen: str = ""  # why no test can see it, where that is so

    def runs(self):
        """Test programs, each with its environment; first the operators that the fault is named after, which take a fraction of all."""
        word = CASES.get(self.name.split(":")[0])
        for test in self.tests:
            if test in (OPERATORS, CPU_OPERATORS) and word:
                yield test, {"LOCKSTEP_TEST_CASES": word}
            yield test, {}


FAULTS = [
    # ---- channels, gates, group norm
    Fault("a copy of channels overwrites the others of its first pack", f"{KERNELS}/channels.cu",
          "    if (g.keep) x = ls_pack_load(to);\n", "", (OPERATORS,)),
    Fault("a shuffle of channels swaps the sources", f"{KERNELS}/channels.cu",
          "swaps ? odd : even, ", "swaps ? even : odd, ", (OPERATORS,)),
    Fault("the gate's gradient lacks the last row of threads", f"{KERNELS}/channels.cu",
          "pixel < g.plane; pixel += rows) {\n        int64_t here", "pixel < g.plane - 1; pixel += rows) {\n        int64_t here", (OPERATORS,)),
    Fault("the sigmoid of padding is stored", f"{KERNELS}/elementwise.cu",
          "x.v[k] = channel + k < channels ?", "x.v[k] = channel < channels ?", (OPERATORS,)),
    Fault("fake quantise: values beyond the grid are not clipped above", f"{KERNELS}/quantise.cu",
          "return q > most ? most : q;", "return q;", (OPERATORS,)),
    Fault("fake quantise: the gradient passes outside the grid", f"{KERNELS}/quantise.cu",
          "q >= least && q <= most ? grad.v[k]", "q >= least ? grad.v[k]", (OPERATORS,)),
    Fault("fake quantise: the maximum of half a block is the scale", f"{KERNELS}/quantise.cu",
          "half = LS_BLOCK / 2; half > 0; half /= 2) {\n        if (t < half && room", "half = LS_BLOCK / 4; half > 0; half /= 2) {\n        if (t < half && room",
          (OPERATORS,)),
    Fault("group norm takes the deviation of another sample for gamma", f"{KERNELS}/group_norm.cu",
          "saved[g.means + n * g.groups + group] : 1", "saved[g.means + group] : 1", (OPERATORS,)),
    Fault("a group's variance is taken about 0", f"{KERNELS}/group_norm.cu",
          "        if (!pass) mean = sum;\n", "        if (!pass && task < 0) mean = sum;\n", (OPERATORS,)),
    Fault("a pixel's variance counts its padding", f"{KERNELS}/group_norm.cu",
          "channel + k < g.c ? x.v[k] - mean : 0;", "x.v[k] - mean;", (OPERATORS,)),
    Fault("a pixel's gradient lacks the mean of its products", f"{KERNELS}/group_norm.cu",
          "r * (d - sum - xhat * dot);", "r * (d - sum);", (OPERATORS,)),
    Fault("layer scale's gradient lacks its factors", f"{KERNELS}/group_norm.cu",
          "g, grad_dst, k->saved, k->gamma, k->beta, out);", "g, grad_dst, k->saved, nullptr, k->beta, out);", (OPERATORS,)),
    # ---- dropped event waits, and events that say too much
    Fault("compute does not wait for the copied batch", f"{TRAIN}/input_pipeline.c",
          "        f->device->api->event_wait(slot->copied, f->options.queue);\n", "", (TRAINING,)),
    Fault("a copy does not wait until its slot has been read", f"{TRAIN}/input_pipeline.c",
          "    if (slot->used) api->event_wait(slot->read, f->copies);\n", "", (TRAINING,)),
    Fault("a batch is called copied before its copy", f"{TRAIN}/input_pipeline.c",
          """    api->copy(ls_buffer_at(f->staged, to, f->layout.bytes), ls_buffer_at(f->ring, from, f->layout.bytes),
        f->layout.bytes, f->copies);
    ls_timeline_end(f->timeline, LS_SPANS_COPIES, f->copies);
    api->event_record(slot->copied, f->copies);
""",
          """    ls_timeline_end(f->timeline, LS_SPANS_COPIES, f->copies);
    api->event_record(slot->copied, f->copies);
    api->copy(ls_buffer_at(f->staged, to, f->layout.bytes), ls_buffer_at(f->ring, from, f->layout.bytes),
        f->layout.bytes, f->copies);
""", (TRAINING,)),
    Fault("'read' is recorded on the copies' queue", f"{TRAIN}/input_pipeline.c",
          "event_record(slot->read, f->options.queue)", "event_record(slot->read, f->copies)", (TRAINING,)),
    Fault("the ring's slot goes back before it was copied", f"{TRAIN}/input_pipeline.c",
          "ls_status status = f->device->api->event_sync(slot->copied);", "ls_status status = LS_SUCCESS;", (TRAINING,)),
    Fault("a loader ends while copies read its ring", f"{TRAIN}/input_pipeline.c",
          "    if (f->copies) (void)f->device->api->queue_sync(f->copies);\n", "", (TRAINING,),
          "has no effect: what such copies bring to the device's slots is overwritten, by copies of the same queue, before anything reads it"),
    Fault("a report is read before it has come", f"{TRAIN}/update.c",
          "u->device->api->event_sync(u->reported[u->completed % u->depth]);", "LS_SUCCESS;", (TRAINING,)),
    Fault("waits for events do nothing", f"{CUDA}/queue.c",
          "rc = cudaStreamWaitEvent(queue->stream, event->event, 0);", "rc = cudaSuccess;", (QUEUES, TRAINING)),
    Fault("the host does not wait for an event", f"{CUDA}/queue.c",
          "rc = cudaEventSynchronize(event->event);", "rc = cudaSuccess;", (TRAINING,)),
    Fault("a synchronised queue has not finished", f"{CUDA}/queue.c", "cudaStreamSynchronize(queue->stream)", "cudaSuccess",
          (QUEUES, OPERATORS)),
    Fault("an export does not wait for the queues", f"{CUDA}/layout.c",
          "        cudaError_t rc = ls_cuda_settle(device);\n        if (rc == cudaSuccess) rc = cudaMemcpy(laid_out",
          "        cudaError_t rc = cudaSuccess;\n        if (rc == cudaSuccess) rc = cudaMemcpy(laid_out", (QUEUES,)),

    # ---- collectives and threads
    Fault("a thread does not say which GPU it means", f"{CUDA}/cuda.h", "return cudaSetDevice(device->index);",
          "(void)device;\n    return cudaSuccess;", (THREADS,)),
    Fault("a collective is not counted", f"{CUDA}/collective.c",
          "    ls_cuda_count_collective((uint64_t *)(void *)collective->count->address,\n"
          "        (uint64_t *)(void *)collective->progress->address, tag, queue->stream);\n", "", (COLLECTIVE, COLLECTIVE_FAULTS)),
    Fault("NCCL: health does not take the lock", f"{CUDA}/nccl.c", "pthread_mutex_trylock(&peers->lock) != 0", "0", (NCCL_CALLS,)),
    Fault("NCCL: health waits for a launch", f"{CUDA}/nccl.c", "pthread_mutex_trylock(", "pthread_mutex_lock(", (NCCL_CALLS,)),
    Fault("NCCL: a launch does not take the lock", f"{CUDA}/nccl.c",
          "    pthread_mutex_lock(&peers->lock);\n    ls_status status = all_reduce(", "    ls_status status = all_reduce(", (NCCL_CALLS,)),
    Fault("NCCL: symmetric windows before 2.30.7", f"{CUDA}/nccl.c", "VERSION_OF_WINDOWS = 23007", "VERSION_OF_WINDOWS = 23006",
          (NCCL_CALLS,)),
    Fault("the count of collectives is not kept", f"{KERNELS}/collective.cu", "++*count <<", "(*count + 1) <<", (COLLECTIVE,)),
    Fault("captured collectives lose their priority", f"{CUDA}/queue.c", "captured, cudaGraphInstantiateFlagUseNodePriority)",
          "captured, 0)", (COLLECTIVE,)),
    Fault("the queue of gradients has no priority", f"{CUDA}/queue.c", 'strcmp(name, "gradients") == 0', 'strcmp(name, "gradient") == 0',
          (COLLECTIVE,)),
    Fault("a collective's tag is off by one", f"{KERNELS}/collective.cu", "static_cast<int64_t>(tag) + 1) & most",
          "static_cast<int64_t>(tag)) & most", (COLLECTIVE, COLLECTIVE_FAULTS)),
    Fault("maxima are sums", f"{EMULATION}/peers.cc", "op == LS_COLLECT_MAX, tag", "op == LS_COLLECT_MAX && false, tag", (COLLECTIVE,)),
    Fault("ranks are summed last first", f"{EMULATION}/ranks.cc",
          """memcpy(sum.data(), g_->data(0, number_), bytes());
        for (int r = 1; r < g_->world_size; r++) add_to""",
          """memcpy(sum.data(), g_->data(g_->world_size - 1, number_), bytes());
        for (int r = g_->world_size - 2; r >= 0; r--) add_to""", (COLLECTIVE,)),
    Fault("a rank's elements are taken before their turn", f"{EMULATION}/ranks.cc", "        g_->alive++;\n    }\n",
          "        g_->alive++;\n        arrive();\n    }\n", (COLLECTIVE, COLLECTIVE_FAULTS)),
    Fault("a rank does not wait for the last one", f"{EMULATION}/ranks.cc",
          "for (int r = 0; r < g_->world_size; r++) all = all && has_arrived(r);",
          "for (int r = 0; r + 1 < g_->world_size; r++) all = all && has_arrived(r);", (COLLECTIVE,)),
    Fault("nobody drives the streams of a host that is elsewhere", f"{EMULATION}/ranks.cc",
          "if (!g->stop && g->alive > 0 && world_is_idle()) run_what_can();", "", (COLLECTIVE, COLLECTIVE_FAULTS)),
    Fault("recordings do not count their collectives", f"{EMULATION}/ranks.cc", "{ g->recorded++; }", "{ g->recorded += 0; }",
          (COLLECTIVE_FAULTS,)),
    Fault("the host waits for peers with the door closed", f"{EMULATION}/streams.cc", "        leave_world_for(nap_s);\n", "",
          (COLLECTIVE, THREADS),
          "the driver thread is kept out, but the host that waits runs everything itself: only slower for other threads"),

    # ---- recordings
    Fault("a recording is launched with another slot's buffers", "src/program/graph_capture.c",
          " && a->input.offset == b->input.offset &&", " &&", (TRAINING,)),
    Fault("a recording of another micro-step", "src/program/graph_capture.c", "\n           a->variant == b->variant;", " 1;", (TRAINING,)),
    Fault("a recording of another program", "src/program/graph_capture.c", "a->program == b->program && ", "", (TRAINING,)),
    Fault("the first micro-step's recording is the later ones', too", f"{TRAIN}/update.c",
          ".variant = (u->micros_done == 0 ? FIRST_MICRO : 0) + ", ".variant = ", (TRAINING,)),
    Fault("what was just recorded is not launched", "src/program/graph_capture.c",
          "        LS_TRY(c->api->capture_end(c->queue, &e->graph));\n",
          "        LS_TRY(c->api->capture_end(c->queue, &e->graph));\n        return LS_SUCCESS;\n", (TRAINING,)),

    # ---- stale state of an update
    Fault("gradients are not set to zero", f"{KERNELS}/update.cu",
          "    if (first < count) store_quad(sums + first, quad_size(first, count), zero);\n", "", (TRAINING, OPERATORS)),
    Fault("gradients are set to zero at each micro-step", f"{TRAIN}/update.c",
          "    if (u->micros_done == 0) start(u);\n", "    start(u);\n", (TRAINING,)),
    Fault("an ordered micro-step adds to the last one's gradient", f"{TRAIN}/update.c",
          "        zero_slab(u, u->store->grad);\n", "", (TRAINING,)),
    Fault("the result is not set to zero before an update", f"{KERNELS}/update.cu", "    *result = {};\n", "", (TRAINING,)),
    Fault("an evaluation begins with the last update's sums", f"{TRAIN}/update.c",
          "ls_update_evaluate_begin(ls_update *u) {\n    u->device->api->zero(u->result, sizeof(ls_micro_result), u->queue);\n",
          "ls_update_evaluate_begin(ls_update *u) {\n    (void)u;\n", (TRAINING,)),
    Fault("the host writes all windows into one record", f"{TRAIN}/update.c",
          "(u->enqueued % u->depth) * LS_RECORD_BYTES", "0 * LS_RECORD_BYTES", (TRAINING,)),
    Fault("the host reads all reports from one record", f"{TRAIN}/update.c",
          "(u->completed % u->depth) * LS_REPORT_BYTES", "0 * LS_REPORT_BYTES", (TRAINING,)),
    Fault("the host writes the device's counters without the record's number", f"{TRAIN}/update.c",
          "    host->record = (int32_t)(u->enqueued % u->depth);\n", "    host->record = 0;\n", (SNAPSHOT,)),
    Fault("a gradient that fixed point cannot hold is never forgotten", f"{KERNELS}/update.cu",
          "    state.bad_gradient = 0;\n", "", (OPERATORS,)),
    Fault("the loss's counter of blocks is not reset", f"{KERNELS}/loss.cuh",
          "    if (t == 0) *a.done = 0; // for the next launch\n", "", (OPERATORS,)),
    Fault("batch norm's counters of blocks are not reset", f"{KERNELS}/norm.cu",
          "    if (t == 0) a.done[blockIdx.x] = 0; // for the next launch\n", "", (OPERATORS,)),
    Fault("a halted run goes on", f"{KERNELS}/update.cu", "    if (state.halted) return; // skip stays 1\n", "", (OPERATORS, TRAINING)),

    # ---- the input's slots
    Fault("labels and what was drawn overlap in a slot", f"{TRAIN}/input_pipeline.c",
          "    l.augment = l.labels + align(n * sizeof(int32_t));\n", "    l.augment = l.labels;\n", (TRAINING,)),
    Fault("the micro record is not copied with its slot", f"{TRAIN}/input_pipeline.c",
          "        f->layout.bytes, f->copies);\n", "        f->layout.micro, f->copies);\n", (TRAINING,)),
    Fault("the slot of the batch copied last is read", f"{TRAIN}/input_pipeline.c",
          "set_inputs(f, f->staged, (size_t)(f->taken % DEVICE_SLOTS)", "set_inputs(f, f->staged, (size_t)((f->acquired - 1) % DEVICE_SLOTS)",
          (TRAINING,)),
    Fault("resident: every part of the set goes to its beginning", f"{TRAIN}/resident.c",
          "ls_buffer_at(c->base.pixels, (size_t)from * picture, bytes)", "ls_buffer_at(c->base.pixels, 0, bytes)",
          (TRAINING,)),
    Fault("resident: the next sample's picture", f"{KERNELS}/augment.cu", "a.index ? a.index[n] : n", "a.index ? a.index[n] + 1 : n",
          (OPERATORS,)),

    # ---- off by one
    Fault("augment: a mirrored coordinate", f"{KERNELS}/augment.cu", "2 * (size - 1) - at", "2 * size - 1 - at", (OPERATORS,)),
    Fault("augment: a mirrored column", f"{KERNELS}/augment.cu", "drawn.flip ? s.w - 1 - x", "drawn.flip ? s.w - x", (OPERATORS,)),
    Fault("augment: the edge of the picture", f"{KERNELS}/augment.cu", "from_y < s.h &&", "from_y < s.h - 1 &&", (OPERATORS,)),
    Fault("augment: the first row of a cutout", f"{KERNELS}/augment.cu", "drawn.cut_y - options.cutout / 2", "drawn.cut_y - options.cutout / 2 + 1", (OPERATORS,)),
    Fault("augment: an erased rectangle has a row more", f"{KERNELS}/augment.cu",
          "within(y, drawn.erase_y, drawn.erase_h)", "within(y, drawn.erase_y, drawn.erase_h + 1)", (OPERATORS,)),
    Fault("augment: a stretched picture's shares are rounded down", f"{KERNELS}/augment.cu", "(t % step * 2048 + size) / step",
          "(t % step * 2048) / step", (OPERATORS,)),
    Fault("augment: a stretched picture reads beyond its rectangle", f"{KERNELS}/augment.cu", "first + 1 < crop ? first + 1 : first",
          "first + 1 <= crop ? first + 1 : first", (OPERATORS,)),
    Fault("augment: contrast before brightness", f"{KERNELS}/augment.cu", "__fmul_rn(__fadd_rn(value, shift), factor)",
          "__fadd_rn(__fmul_rn(value, factor), shift)", (OPERATORS,)),
    Fault("augment: a picture is its own partner", f"{KERNELS}/augment.cu", "partner = s.n - 1 - n", "partner = n", (OPERATORS,)),
    Fault("augment: a partner's rectangle has a column more", f"{KERNELS}/augment.cu",
          "within(x, drawn.mix_x, drawn.mix_w)", "within(x, drawn.mix_x, drawn.mix_w + 1)", (OPERATORS,)),
    Fault("trivial augment: counts are not cleared", f"{KERNELS}/trivial_augment.cu",
          "i += LS_BLOCK) counts[i] = 0;", "i += 2 * LS_BLOCK) counts[i] = 0;", (OPERATORS,)),
    Fault("trivial augment: every second round of pixels is not counted", f"{KERNELS}/trivial_augment.cu",
          "for (int at = t; at < plane; at += LS_BLOCK)\n            atomicAdd", "for (int at = t; at < plane; at += 2 * LS_BLOCK)\n            atomicAdd",
          (OPERATORS,)),
    Fault("trivial augment: all channels use the first one's counts", f"{KERNELS}/trivial_augment.cu", "int of = histograms > 1 ? c : 0",
          "int of = 0", (OPERATORS,)),
    Fault("trivial augment: tables are made before the sums", f"{KERNELS}/trivial_augment.cu",
          "counts + t * LS_TRIVIAL_VALUES);\n    __syncthreads();", "counts + t * LS_TRIVIAL_VALUES);", (OPERATORS,)),
    Fault("trivial augment: the next sample's picture", f"{KERNELS}/trivial_augment.cu", "a.index ? a.index[n] : n", "a.index ? a.index[n] + 1 : n",
          (OPERATORS,)),
    Fault("trivial augment: an additional pixel", f"{KERNELS}/trivial_augment.cu", "threadIdx.x); at < plane;", "threadIdx.x); at <= plane;",
          (OPERATORS,)),
    Fault("loss: the gradient lacks the partner's label", f"{KERNELS}/loss.cuh",
          "    if (k == row.partner) target += row.of_partner;\n", "", (OPERATORS,)),
    Fault("resize: pixels by their corners", f"{KERNELS}/resize.cu", "(2u * static_cast<unsigned>(at) + 1)", "(2u * static_cast<unsigned>(at))", (OPERATORS,)),
    Fault("resize: the shares of two pixels exchanged", f"{KERNELS}/resize.cu", "__fsub_rn(1, share), share", "share, __fsub_rn(1, share)", (OPERATORS,)),
    Fault("batch norm: the last pixel is not summed", f"{KERNELS}/norm.cu",
          "if (from < a.grid.pixels) raw[u] = ls_pack_raw(src + from * a.grid.channels);\n            }\n            LS_UNROLL\n            for (int u = 0; u < AHEAD; u++) {\n                if (pixel + u * at.step >= a.grid.pixels) break;",
          "if (from < a.grid.pixels) raw[u] = ls_pack_raw(src + from * a.grid.channels);\n            }\n            LS_UNROLL\n            for (int u = 0; u < AHEAD; u++) {\n                if (pixel + u * at.step >= a.grid.pixels - 1) break;",
          (OPERATORS,)),
    Fault("batch norm: the first pixel is not applied", f"{KERNELS}/norm.cu",
          "            if (offset < 0) break;\n            ls_pack<T> x", "            if (offset < a.grid.channels) break;\n            ls_pack<T> x", (OPERATORS,)),
    Fault("batch norm: values lack their mean", f"{KERNELS}/norm.cuh",
          "fmaf(x.v[k] - f.mean[k], f.factor[k], f.beta[k])", "fmaf(x.v[k], f.factor[k], f.beta[k])", (OPERATORS,)),
    Fault("batch norm: what is added behind a relu is added before it, too", f"{KERNELS}/norm.cuh", "RESIDUAL && !a.attr.adds_last", "RESIDUAL", (OPERATORS,)),
    Fault("batch norm: what is added behind a relu is left out", f"{KERNELS}/norm.cuh",
          "    if (RESIDUAL && a.attr.adds_last) ls_pack_add(y, ls_pack_unpack<T>(residual));\n", "", (OPERATORS,)),
    Fault("batch norm in one launch: the last pixel of a thread", f"{KERNELS}/norm_kept.cu",
          "(behind + at.step - 1) / at.step : 0;", "behind / at.step : 0;", (OPERATORS,)),
    Fault("batch norm in one launch: one pixel more is kept than fits", RULE,
          "    g.kept_bytes = (size_t)g.kept * pixel_bytes;", "    g.kept_bytes = (size_t)(g.kept - 1) * pixel_bytes;", (OPERATORS,)),
    Fault("batch norm in one grid: a block more than multiprocessors", RULE,
          "g.slices = multiprocessors / g.columns;", "g.slices = multiprocessors / g.columns + 1;", (OPERATORS,)),
    Fault("batch norm in one launch: every block counts the statistics", f"{KERNELS}/norm_kept.cu",
          "if (blockIdx.y == 0) ls_norm_keep(", "ls_norm_keep(", (OPERATORS,)),
    Fault("batch norm in one launch: the second gradient lies over the first", f"{KERNELS}/norm_kept.cu",
          "*kept_grad2 = kept_grad + a.grid.kept * THREADS;", "*kept_grad2 = kept_grad;", (OPERATORS,)),
    Fault("batch norm in one launch: a relu that is read does not mask the second gradient", f"{KERNELS}/norm_kept.cu",
          "                if (AFTER == LS_NORM_ADDED) ls_norm_mask(g2, ls_pack_unpack<T>(dst[i]));\n", "", (OPERATORS,)),
    Fault("gelu: the wrong side of the distribution", f"{KERNELS}/activations.cuh", "x < 0 ? tail : 1 - tail", "x < 0 ? 1 - tail : tail",
          (OPERATORS,)),
    Fault("batch norm: the last block's sums", f"{KERNELS}/norm.cuh", "if (slice + k >= a.grid.slices) break;",
          "if (slice + k >= a.grid.slices - (a.grid.slices > 1)) break;", (OPERATORS,)),
    Fault("batch norm: a part of the blocks' sums", f"{KERNELS}/norm.cuh", "int half = parts / 2; half > 0; half /= 2) {\n        first",
          "int half = parts / 4; half > 0; half /= 2) {\n        first", (OPERATORS,)),
    Fault("batch norm: two blocks put their sums into one place", f"{KERNELS}/norm.cuh", "a.grid.places + blockIdx.y] = sum;",
          "a.grid.places + (blockIdx.y & ~1u)] = sum;", (OPERATORS,)),
    Fault("batch norm: variance over n instead of n - 1", f"{KERNELS}/norm.cuh", " * count / (count - 1)", "", (OPERATORS,)),
    Fault("pooling: the bias of the first channels", f"{KERNELS}/pool.cu", "p.value.v[k] += g.bias[channel + k];", "p.value.v[k] += g.bias[k];", (OPERATORS,)),
    Fault("pooling: the relu before the bias", f"{KERNELS}/pool.cu", "        if (MAX && g.bias) p.value.v[k] += g.bias[channel + k];\n",
          "        if (MAX && g.bias && p.value.v[k] > 0) p.value.v[k] += g.bias[channel + k];\n", (OPERATORS,)),
    Fault("linear: the relu behind the bias is left out", f"{KERNELS}/bias.cu", "relu && value.v[i] < 0 ? 0 : value.v[i]", "value.v[i]", (OPERATORS, SEAM)),
    Fault("linear: a bias is added twice", f"{CUDA}/conv_linear.c", "left = plan->algorithm ? bias", "left = plan->algorithm || plan->gemm ? bias",
          (SEAM,)),
    Fault("linear: the bias is read as fp32", f"{CUDA}/op_linear.c", ".bias_type = a->storage,", ".bias_type = LS_F32,", (OPERATORS,)),
    Fault("loss: the gradient of the sum where the mean's is wanted", f"{KERNELS}/loss.cuh", "LS_GRADIENT_SCALE(a.state, a.attr.mean_of)",
          "a.state->loss_scale", (OPERATORS,)),
    Fault("loss: the gradient lacks the logits' scale", f"{KERNELS}/loss.cuh", "a.attr.mean_of) * a.scale", "a.attr.mean_of)", (OPERATORS,)),
    Fault("loss: the partner's logit lacks its scale", f"{KERNELS}/loss.cuh", "a.scale * ls_float(logits[row.partner])", "ls_float(logits[row.partner])",
          (OPERATORS,)),
    Fault("head: the last row of threads", f"{KERNELS}/head.cu", "r = 1; r < rows; r++", "r = 1; r < rows - 1; r++", (OPERATORS,)),
    Fault("head: which of equals wins", f"{KERNELS}/head.cu", "numbers[r * h.channels + c] < first)", "numbers[r * h.channels + c] > first)", (OPERATORS,)),
    Fault("head: the last class has no part in the gradient", f"{KERNELS}/head.cu", "k < classes; k++) sum += grads", "k < classes - 1; k++) sum += grads",
          (OPERATORS,)),
    Fault("distill: the gradient lacks the temperature", f"{KERNELS}/distill.cu", "a.attr.share * a.attr.temperature * LS_GRADIENT_SCALE", "a.attr.share * LS_GRADIENT_SCALE",
          (OPERATORS,)),
    Fault("distill: the gradient replaces the loss's", f"{KERNELS}/distill.cu", "g.v[j] += (of_student", "g.v[j] = (of_student", (OPERATORS,)),
    Fault("distill: a class of padding", f"{KERNELS}/distill.cu", "if (first + j < classes) row.sum", "if (first + j <= classes) row.sum", (OPERATORS,)),
    Fault("distill: the last sample's loss", f"{KERNELS}/distill.cu", "bool real = n < count;", "bool real = n < count - 1;", (OPERATORS,)),
    Fault("distill: a sample is counted twice", f"{KERNELS}/distill.cu", "!finite && fabsf(ls_float(grad[0])) <= INFINITY", "!finite", (OPERATORS,)),
    Fault("distill: the counter of blocks is not reset", f"{KERNELS}/distill.cu", "    if (t == 0) *a.done = 0; // for the next launch\n", "", (OPERATORS,)),
    Fault("loss: the labels' share beside a teacher", f"{KERNELS}/loss.cu", "ls_loss_scale(a, row) * (1 - a.attr.teacher_share)", "ls_loss_scale(a, row)", (OPERATORS,)),
    Fault("head: a padding channel's gradient", f"{KERNELS}/head.cu", "c >= h.loss.attr.src.c ? 0 : MAX", "MAX", (OPERATORS,)),
    Fault("head: samples that do not count have a gradient", f"{KERNELS}/head.cu", "real && lane < a.attr.logits.c ?", "lane < a.attr.logits.c ?", (OPERATORS,)),
    Fault("head: a sample's loss in another's place", f"{KERNELS}/head.cu", "a.losses[n] = row.value;", "a.losses[n / 2] = row.value;", (OPERATORS,)),
    Fault("head: the bias is left out", f"{KERNELS}/head.cu", "keep.logits[k] = h.bias ?", "keep.logits[k] = h.bias && !h.pooled ?", (OPERATORS,)),
    Fault("linear: the last sample has no part in a small layer's gradients", f"{KERNELS}/head.cu", "inside && n < a.samples;", "inside && n < a.samples - 1;",
          (OPERATORS,)),
    Fault("linear: a small layer's bias gradient is added by each block", f"{KERNELS}/head.cu", " && blockIdx.x == 0 && a.grad_bias", " && a.grad_bias",
          (OPERATORS,)),
    Fault("pooling: an adaptive window has whole strides only", f"{KERNELS}/pool.cu",
          "windows.kernel_h = a->src.h + a->dst.h - 1;", "windows.kernel_h = a->src.h;", (OPERATORS,)),
    Fault("pooling: the last column of a window", f"{KERNELS}/pool.cu", "x < w.x_end; x++", "x < w.x_end - 1; x++", (OPERATORS,)),
    Fault("pooling: the first window over an element", f"{KERNELS}/pool.cuh",
          "ls_divide(static_cast<uint32_t>(y - g.kernel_h), g.by_stride_h) + 1;", "ls_divide(static_cast<uint32_t>(y - g.kernel_h), g.by_stride_h);",
          (OPERATORS,)),
    Fault("pooling: which of equals wins", f"{KERNELS}/pool.cu", "winners[other] < p.winner[k])) {", "winners[other] > p.winner[k])) {",
          (OPERATORS,)),
    Fault("loss: a class of padding", f"{KERNELS}/loss.cuh", "if (first + j < a.attr.logits.c) best", "if (first + j <= a.attr.logits.c) best",
          (OPERATORS,)),
    Fault("loss: the ratio of a focal loss at 1", f"{KERNELS}/focal.cu", "ratio = q > 0 ? -log_p / q : 1;", "ratio = -log_p / q;", (OPERATORS,)),
    Fault("loss: the slope of a focal loss", f"{KERNELS}/focal.cu", "(1 + gamma * expf(log_p) * ratio)", "(1 + gamma * ratio)", (OPERATORS,)),
    Fault("loss: a positive label's weight also where it is absent", f"{KERNELS}/focal.cu", "no = 1 - target;",
          "no = a.weights ? a.weights[k] * (1 - target) : 1 - target;", (OPERATORS,)),
    Fault("loss: the partner's labels", f"{KERNELS}/focal.cu", "static_cast<int64_t>(row.partner) * classes + k",
          "static_cast<int64_t>(row.label) * classes + k", (OPERATORS,)),
    Fault("loss: wrong labels of one lane only", f"{KERNELS}/focal.cu", "wrong = ls_lanes_sum(wrong, lanes);", "", (OPERATORS,)),
    Fault("loss: a share of 0 of an infinite loss", f"{KERNELS}/focal.cu", "if (no > 0) {", "if (no >= 0) {", (OPERATORS,)),
    Fault("loss: the last sample's loss", f"{KERNELS}/loss.cu", "bool real = n < count;", "bool real = n < count - 1;", (OPERATORS,)),
    Fault("dropout: the sample's number", f"{KERNELS}/elementwise.cu", "(micro->position + n)", "(micro->position + n + 1)", (OPERATORS,)),
    # ---- convolutions on tensor cores
    Fault("implicit gemm: a unit of the second tile is the first one's", f"{KERNELS}/implicit_gemm.cuh", "ls_multiply_add<T>(sums[i][j + 1], a[i], regs + 2);",
          "ls_multiply_add<T>(sums[i][j + 1], a[i], regs);", (OPERATORS,)),
    Fault("implicit gemm: pixels are multiplied before they are staged", f"{KERNELS}/implicit_gemm.cuh",
          "        next.finish(m, in, first_row, units, staged);\n        __syncthreads();", "        next.finish(m, in, first_row, units, staged);", (OPERATORS,)),
    Fault("implicit gemm: the next pixels are staged before all have read", f"{KERNELS}/implicit_gemm.cuh",
          "            store_pixel<T, TILES>(p, at + 8, first, sums[i], 1, bias, out);\n        }\n        __syncthreads();",
          "            store_pixel<T, TILES>(p, at + 8, first, sums[i], 1, bias, out);\n        }\n", (OPERATORS,),
          "the emulation's warps take as many turns as each other, so all have read before the first one writes"),
    Fault("implicit gemm: rows are read before their table is there", f"{KERNELS}/implicit_gemm.cuh",
          "    make_table(p, written_units, ls_pack<T>::size, table);\n    __syncthreads();", "    make_table(p, written_units, ls_pack<T>::size, table);", (OPERATORS,)),
    Fault("implicit gemm: a column beyond the map", f"{KERNELS}/implicit_gemm.cuh", "x >= 0 && x < m.in_w ? x", "x >= 0 && x <= m.in_w ? x", (OPERATORS,)),
    Fault("implicit gemm: a row beyond the map", f"{KERNELS}/implicit_gemm.cuh", "y >= 0 && y < m.in_h ? (", "y >= 0 && y <= m.in_h ? (", (OPERATORS,)),
    Fault("implicit gemm: a unit too few is staged", f"{KERNELS}/implicit_gemm.cuh", "if (at < m.columns * m.units) {", "if (at < m.columns * m.units - 1) {", (OPERATORS,)),
    Fault("implicit gemm: only what was read ahead is staged", f"{KERNELS}/implicit_gemm.cuh", "while (row < rows) {", "while (row < 0) {", (OPERATORS,)),
    Fault("implicit gemm: a block does not go on", f"{KERNELS}/implicit_gemm.cuh", "from = m.pixels - from > step ? from + step : m.pixels;", "from = m.pixels;", (OPERATORS,)),
    Fault("implicit gemm: padding channels keep what the sum has", f"{KERNELS}/implicit_gemm.cuh", "if (channel + i >= p.filters.outputs) v[i] = 0;", "", (OPERATORS,),
          "has no effect while padding is zero: the filters of padding channels are"),
    Fault("implicit gemm: no bias", f"{KERNELS}/implicit_gemm.cuh", "(bias ? bias[channel + i] : 0)", "0", (OPERATORS,)),
    Fault("implicit gemm: taps of another remainder", f"{KERNELS}/implicit_gemm.cu", "if (at % stride) continue;", "if (at % stride == 1) continue;", (OPERATORS,)),
    Fault("implicit gemm: the phases' taps in the filter's order", f"{KERNELS}/implicit_gemm.cu", "for (int r = kernel - 1; r >= 0; r--) {", "for (int r = 0; r < kernel; r++) {",
          (OPERATORS,)),
    Fault("implicit gemm: the unit that makes the sum even is no zero", f"{KERNELS}/implicit_gemm.cu", "summed % 2 ? per_unit : 0)", "0)", (OPERATORS,)),
    Fault("implicit gemm: too few rows are staged", f"{KERNELS}/implicit_gemm.cu", "virtual_row(m, first)) + m.span_h;", "virtual_row(m, first)) + m.span_h - 1;", (OPERATORS,)),
    Fault("implicit gemm: fp32 is cut, not rounded", f"{KERNELS}/implicit_gemm.cuh", "v[i] = ls_round_tf32(v[i]);", "v[i] = v[i];", (OPERATORS,),
          "is within the tolerance of TF32: the products' inputs have 11 bits either way"),
    Fault("implicit gemm: a share of the pixels is not added", f"{KERNELS}/implicit_gemm.cuh", "for (int other = 1; other < p.shares; other++) {",
          "for (int other = 1; other < p.shares - 1; other++) {", (OPERATORS,)),
    Fault("implicit gemm: a slice is not added", f"{KERNELS}/implicit_gemm.cu", "slice < slices; slice += SUM_LANES)", "slice < slices - 1; slice += SUM_LANES)", (OPERATORS,)),
    Fault("implicit gemm: a lane of the slices is not added", f"{KERNELS}/implicit_gemm.cu", "for (int i = 1; i < SUM_LANES; i++) {", "for (int i = 1; i < SUM_LANES - 1; i++) {", (OPERATORS,)),
    Fault("implicit gemm: the gradient is stored, not added", f"{KERNELS}/implicit_gemm.cu", "*to = make_float4(all.x + sum.x, all.y + sum.y, all.z + sum.z, all.w + sum.w);",
          "*to = make_float4(sum.x, sum.y, sum.z, sum.w);", (OPERATORS,)),
    Fault("implicit gemm: gradients behind the last pixel count", f"{KERNELS}/implicit_gemm.cuh", "if (pixel < p.map.pixels && channel < p.padded_k)",
          "if (channel < p.padded_k)", (OPERATORS,)),
    Fault("implicit gemm: another column's tap", f"{KERNELS}/implicit_gemm.cuh", "y = tap / p.kernel_w, x = tap - y * p.kernel_w;", "y = tap % p.kernel_w, x = tap / p.kernel_w;", (OPERATORS,)),
    Fault("implicit gemm where there are many weights", f"{CUDA}/op_conv.c", "if (op == LS_OP_CONV_FORWARD) return weights <=",
          "if (op == LS_OP_CONV_FORWARD) return weights >=", (SEAM,)),
    Fault("depthwise: weights are read before all are there", f"{KERNELS}/depthwise.cu",
          "CHANNELS + channel] = ls_float(weight[i]);\n    }\n    __syncthreads();", "CHANNELS + channel] = ls_float(weight[i]);\n    }", (OPERATORS,)),
    Fault("depthwise: a column beyond the map", f"{KERNELS}/depthwise.cu", "left + x >= m.w) continue;", "left + x > m.w) continue;", (OPERATORS,)),
    Fault("depthwise: lanes are summed before all have stored", f"{KERNELS}/depthwise.cu",
          "room[t * size + i] = sum[tap / K][tap % K][i];\n        __syncthreads();", "room[t * size + i] = sum[tap / K][tap % K][i];", (OPERATORS,)),
    Fault("depthwise: the last part is not added", f"{KERNELS}/depthwise.cu", "part < parts; part++) sum", "part < parts - 1; part++) sum", (OPERATORS,)),
    Fault("convolution: a row beyond the map", f"{KERNELS}/direct.cu", "return at < a.outputs ? at : -1;", "return at <= a.outputs ? at : -1;",
          (OPERATORS,)),
    Fault("convolution: the last output of a tap", f"{KERNELS}/direct.cu", "last_tap / a.stride + 1;", "last_tap / a.stride;", (OPERATORS,)),
    Fault("convolution: the first slice of samples twice", f"{KERNELS}/direct.cu", "for (int slice = 1; slice < slices; slice++)",
          "for (int slice = 0; slice < slices; slice++)", (OPERATORS,)),
    Fault("bias gradient: the last row", f"{KERNELS}/bias.cu", "if (row + u * step >= rows) break;", "if (row + u * step >= rows - 1) break;", (OPERATORS,)),
    Fault("update: the tail of an arena", f"{KERNELS}/update.cu", "if (i < size) to[i] = in[i];", "if (i <= size) to[i] = in[i];", (OPERATORS,)),
    Fault("update: the first element of a segment", f"{KERNELS}/update.cu", "range.segments[middle].end <= element",
          "range.segments[middle].end < element", (OPERATORS,)),
    Fault("update: segments end one line early", f"{CUDA}/op_update.c", "(ls_cuda_segment){ end, from->lr_factor",
          "(ls_cuda_segment){ end - 16, from->lr_factor",
          (OPERATORS,)),
    Fault("statistics: the last block's part", f"{KERNELS}/update.cu", "i < blocks; i += LS_BLOCK) mine", "i < blocks - 1; i += LS_BLOCK) mine",
          (OPERATORS,)),

    # ---- missing barriers
    Fault("batch norm: threads' sums are added before they are there", f"{KERNELS}/norm.cuh",
          "    float sum = 0;\n    __syncthreads();\n", "    float sum = 0;\n", (OPERATORS,)),
    Fault("batch norm in one launch: blocks' sums are added before they are there", f"{KERNELS}/norm_kept.cu",
          "        ls_cluster_sync();\n", "        __syncthreads();\n", (OPERATORS,)),
    Fault("batch norm in one grid: blocks' sums are added before they are there", f"{KERNELS}/norm_kept.cu",
          "        ls_grid_sync();\n", "        __syncthreads();\n", (OPERATORS,)),
    Fault("batch norm in one launch: constants are used before they are there", f"{KERNELS}/norm_kept.cu",
          "room + number);\n    });\n    __syncthreads();\n", "room + number);\n    });\n", (OPERATORS,)),
    Fault("batch norm: a block counts as finished too early", f"{KERNELS}/norm.cu",
          "    __syncthreads();\n    if (t == 0) last[0]", "    if (t == 0) last[0]", (OPERATORS,)),
    Fault("batch norm: 'last' is read before it is written", f"{KERNELS}/norm.cu",
          "    __syncthreads();\n    if (!last[0])", "    if (!last[0])", (OPERATORS,)),
    Fault("pooling: parts of a window are combined before they are there", f"{KERNELS}/pool.cu",
          "        __syncthreads();\n        for (int k = 0; row < half", "        for (int k = 0; row < half", (OPERATORS,)),
    Fault("head: rows of threads are combined before they are there", f"{KERNELS}/head.cu",
          "    __syncthreads();\n    int rows = mine.rows", "    int rows = mine.rows", (OPERATORS,)),
    Fault("head: the product begins before all is pooled", f"{KERNELS}/head.cu",
          "    __syncthreads();\n}\n\n// Computes the sample's logits", "}\n\n// Computes the sample's logits", (OPERATORS,)),
    Fault("head: the loss begins before all logits are there", f"{KERNELS}/head.cu",
          "    __syncthreads();\n}\n\n// Run by the first warp", "}\n\n// Run by the first warp", (OPERATORS,)),
    Fault("head: the map's gradient begins before the logits' is there", f"{KERNELS}/head.cu",
          "row_of_logits<T>(h, keep, count);\n    __syncthreads();", "row_of_logits<T>(h, keep, count);", (OPERATORS,)),
    Fault("head: the map is written before its gradient is there", f"{KERNELS}/head.cu",
          "    __syncthreads();\n    for (int p = mine.row;", "    for (int p = mine.row;", (OPERATORS,)),
    Fault("linear: rows of a small layer's gradients are added before they are there", f"{KERNELS}/head.cu",
          "    __syncthreads();\n    if (t < sums) {", "    if (t < sums) {", (OPERATORS,)),
    Fault("loss: a block counts as finished too early", f"{KERNELS}/loss.cuh",
          "    __syncthreads();\n    if (t == 0) last[0]", "    if (t == 0) last[0]", (OPERATORS,)),
    Fault("loss: 'last' is read before it is written", f"{KERNELS}/loss.cuh",
          "    __syncthreads();\n    if (!last[0])", "    if (!last[0])", (OPERATORS,)),
    Fault("loss: a sample is left out of the sums", f"{KERNELS}/loss.cuh", "n < count; n += LS_BLOCK) {", "n < count - 1; n += LS_BLOCK) {",
          (OPERATORS,)),
    Fault("a block's sum is taken before all have stored", f"{KERNELS}/kernels.cuh",
          "        if (t < half) room[t] += room[t + half];\n        __syncthreads();", "        if (t < half) room[t] += room[t + half];", (OPERATORS,)),
    Fault("bias gradient: lanes are added before they are there", f"{KERNELS}/bias.cu",
          "= sum.v[i];\n    __syncthreads();\n", "= sum.v[i];\n", (OPERATORS,)),
    Fault("bias gradient: a block counts as finished too early", f"{KERNELS}/bias.cu",
          "    __syncthreads();\n    if (t == 0) last[0]", "    if (t == 0) last[0]", (OPERATORS,)),
    Fault("bias gradient: 'last' is read before it is written", f"{KERNELS}/bias.cu",
          "    __syncthreads();\n    if (!last[0])", "    if (!last[0])", (OPERATORS,)),
    Fault("bias gradient: parts are added before they are there", f"{KERNELS}/bias.cu",
          "    room[t] = sum;\n    __syncthreads();\n", "    room[t] = sum;\n", (OPERATORS,)),
    Fault("bias gradient: a part is left out", f"{KERNELS}/bias.cu", "part < l.parts; part += lanes", "part < l.parts - 1; part += lanes", (OPERATORS,)),
    Fault("bias gradient: the counter of blocks is not reset", f"{KERNELS}/bias.cu",
          "    if (t == 0) done[group] = 0; // for the next launch\n", "", (OPERATORS, TRAINING)),
    Fault("statistics: 'last' is read before it is written", f"{KERNELS}/update.cu",
          "    __syncthreads();\n    if (!last[0])", "    if (!last[0])", (OPERATORS,)),
    Fault("statistics: the counter of blocks is not reset", f"{KERNELS}/update.cu",
          "    if (t == 0) *a.done = 0; // for the next launch\n", "", (OPERATORS, TRAINING)),
    Fault("control: 16-bit gradients stay", f"{KERNELS}/update.cu", "store_quad(rounded + at, size, zero);", "store_quad(rounded + at, u < 0 ? size : 0, zero);", (OPERATORS,)),
    Fault("control: what it adds is not stored", f"{KERNELS}/update.cu", "            store_quad(a.grad + at, size, in[u]);\n", "", (OPERATORS,)),
    Fault("control: the second quad of a thread is left out", f"{KERNELS}/update.cu",
          "if (at >= a.attr.count) break;\n        int size", "if (at >= a.attr.count || u > 0) break;\n        int size", (OPERATORS,)),
    Fault("control does not get the 16-bit gradients", f"{TRAIN}/update.c",
          "if (control_widens(u)) args[LS_STEP_CONTROL_ROUNDED]", "if (u->micros_left < 0) args[LS_STEP_CONTROL_ROUNDED]", (TRAINING,)),
    Fault("sgd: statistics are not divided by the micro-batches", f"{KERNELS}/update.cu",
          "each = share * static_cast<double>(1 / state->micro_batches);", "each = share;", (OPERATORS, TRAINING)),
    Fault("sgd: statistics of no micro-batches are moved", f"{KERNELS}/update.cu",
          "segment.rate != LS_SEGMENT_STATISTICS || state->micro_batches == 0", "segment.rate != LS_SEGMENT_STATISTICS", (OPERATORS,)),
    Fault("control: it keeps the last window's micro-batches", f"{KERNELS}/update.cu",
          "    state.micro_batches = static_cast<float>(window->micro_batches);\n", "", (OPERATORS, TRAINING)),
    Fault("widen: what was added stays", f"{KERNELS}/update.cu", "    store_quad(rounded + first, size, zero);\n", "", (OPERATORS,)),
    Fault("widen: the fp32 part is lost", f"{KERNELS}/update.cu", "sum[i] += ls_float(in[i]);", "sum[i] = ls_float(in[i]);", (OPERATORS, TRAINING)),
    Fault("16-bit gradients are not widened", f"{TRAIN}/update.c", "        ls_param_store_widen(u->store, u->queue);\n", "", (TRAINING,)),
    Fault("16-bit gradients of a bucket are not widened", f"{TRAIN}/update.c", "            widen(u, b);\n", "", (TRAINING,)),
    Fault("a report is of the state before the decision", f"{KERNELS}/update.cu",
          "        *a.state = next;\n    }\n    __syncthreads();\n", "        *a.state = next;\n    }\n", (TRAINING,)),
    Fault("all updates in flight have one record", f"{KERNELS}/update.cu", "record + 1 < a.attr.records ? record + 1 : 0;", "0;", (TRAINING,)),
    Fault("statistics: halves are joined before they are there", f"{KERNELS}/update.cu",
          "        __syncthreads();\n        if (t < half) room[t] = stats_join", "        if (t < half) room[t] = stats_join", (OPERATORS,)),

    # ---- swapped buffers
    Fault("batch norm: the two sums", f"{KERNELS}/norm.cuh", "finish(channel, first, second, number);",
          "finish(channel, second, first, number);", (OPERATORS,)),
    Fault("batch norm: mean and variance", f"{CUDA}/op_norm.c",
          "    k.mean = ls_cuda_at(args[LS_NORM_INFERENCE_MEAN]);\n    k.var = ls_cuda_at(args[LS_NORM_INFERENCE_VAR]);\n",
          "    k.mean = ls_cuda_at(args[LS_NORM_INFERENCE_VAR]);\n    k.var = ls_cuda_at(args[LS_NORM_INFERENCE_MEAN]);\n", (OPERATORS,)),
    Fault("batch norm: the gradients of gamma and beta", f"{KERNELS}/norm.cuh",
          "if (a.grad_beta) a.grad_beta[channel] += static_cast<float>(sum);", "if (a.grad_gamma) a.grad_gamma[channel] += static_cast<float>(sum);",
          (OPERATORS,)),
    Fault("convolution: x and dy in the weight gradient", f"{CUDA}/conv_linear.c",
          "ls_cuda_direct_backward_weight(g, src, grad_dst, grad_weight,", "ls_cuda_direct_backward_weight(g, grad_dst, src, grad_weight,",
          (OPERATORS,)),
    Fault("convolution by a library: x and dy in the weight gradient", f"{CUDA}/conv_linear.c",
          "plan->algorithm, src, g->storage == LS_F32 ? grad_weight : rounded, grad_dst, room",
          "plan->algorithm, grad_dst, g->storage == LS_F32 ? grad_weight : rounded, src, room", (SEAM,)),
    Fault("sgd: gradient and momentum", f"{KERNELS}/update.cu",
          "args->state, args->grad, args->kept[0], args->weight, static_cast<T *>(args->copy)",
          "args->state, args->kept[0], const_cast<float *>(args->grad), args->weight, static_cast<T *>(args->copy)", (OPERATORS,)),
    Fault("adamw: the two moments", f"{KERNELS}/update.cu",
          "               args->kept[0], args->kept[1],", "               args->kept[1], args->kept[0],", (OPERATORS,)),
    Fault("rmsprop: the two kept tensors", f"{KERNELS}/update.cu",
          "\n            args->kept[0], args->kept[1],", "\n            args->kept[1], args->kept[0],", (OPERATORS,)),
    Fault("sgd: the 16-bit copy keeps old weights", f"{KERNELS}/update.cu",
          "    store_quad(velocity + first, size, v);\n    store_quad(weight + first, size, w);\n    store_copy(copy ? copy + first : copy, size, w);\n",
          "    store_quad(velocity + first, size, v);\n    store_quad(weight + first, size, w);\n", (OPERATORS,)),
    # ---- the cpu device: Winograd convolution, in pieces, in one direction, of one tap
    Fault("convolution: a transform of 10 positions forgets two pairs' product", f"{CPU_KERNELS}/winograd_transforms.h",
          "if (degree > 1) sum += (a * b + (a + b) * (c + d) + c * d) *", "if (degree > 1) sum += (a * b + (a + b) * (c + d)) *",
          (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: infinity adds to no output of F(3,5)", f"{CPU_KERNELS}/winograd_transforms.h",
          "FF * l.x5 + (outs == 3 ? l.x6 : none),", "FF * l.x5,", (CPU_OPERATORS,)),
    Fault("convolution: a transform of one column lacks the last row", f"{CPU_KERNELS}/winograd_transforms.h",
          "read_column(of_map, size_y, rows, 0), v, pos_stride);", "read_column(of_map, size_y - 1, rows, 0), v, pos_stride);", (CPU_OPERATORS,)),
    Fault("convolution: a transform of one row reads a column beyond the map", f"{CPU_KERNELS}/winograd_transforms.h",
          "j >= begin && j < end) l.x##j", "j >= begin && j <= end) l.x##j", (CPU_OPERATORS,)),
    Fault("convolution: a tile's rows are those of another phase", f"{CPU_KERNELS}/winograd.c",
          "            const int y = p.top + i * map->apart_y;\n            rows[i] = y < 0",
          "            const int y = p.top + i;\n            rows[i] = y < 0",
          (CPU_OPERATORS,)),
    Fault("convolution: a piece's columns are not dilated", f"{CPU}/winograd.c",
          "map.pad_x -= taps.x * map.phases;", "map.pad_x -= taps.x;", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a turned piece begins at the filter's end", f"{CPU_KERNELS}/winograd_filters.c",
          "x = of.x + (j - of.lead_x) * of.step_x;", "x = (j - of.lead_x) * of.step_x;", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a piece's gradients go beyond the filter", f"{CPU_KERNELS}/winograd_filters.c",
          "add_line(outs_y, rows, outs_1d(", "add_line(outs_y, outs_y, outs_1d(", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: all blocks have half of their channels", f"{CPU_KERNELS}/winograd_filters.c",
          "half && k + 1 == reduced_blocks ? B / 2 : B;", "half ? B / 2 : B;", (CPU_OPERATORS,)),
    Fault("convolution: a thread's own filters lie in the next thread's memory", f"{CPU}/winograd.c",
          "    if (plan->whole) plan->thread_floats += plan->matrix_part;\n", "", (CPU_OPERATORS,)),
    Fault("convolution: a later part of the sums begins with what was there", f"{CPU}/winograd.c",
          "add_up(j, p, 0, plan->out.blocks, tiles, first > begin, v, z, sums);", "add_up(j, p, 0, plan->out.blocks, tiles, first > 0, v, z, sums);",
          (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: the last part of the sums is left out", f"{CPU_KERNELS}/winograd_filters.c",
          "for (int part = 1; part < parts; part++)", "for (int part = 1; part < parts - 1; part++)", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a group has the first one's bias", f"{CPU}/winograd.c",
          "    if (j->bias) j->bias += out;\n", "", (CPU_OPERATORS,)),
    Fault("convolution: a tap of F(1,1) does not meet the last pixel of a strided row", f"{CPU_KERNELS}/winograd.c",
          "(map->w - left + step - 1) / step, count)", "(map->w - left) / step, count)", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a tap of F(1,1) begins outside of a strided row", f"{CPU_KERNELS}/winograd.c",
          "at_least((step - 1 - left) / step, 0)", "at_least(-left / step, 0)", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a tap that meets the last pixel alone is left out", f"{CPU}/winograd.c",
          "dilation - pad >= pixels) met.count--;", "dilation - pad >= pixels - 1) met.count--;", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("convolution: a tap that meets the first pixel alone is left out", f"{CPU}/winograd.c",
          "reach + met.first * dilation < 0)", "reach + met.first * dilation <= 0)", (CPU_WINOGRAD, CPU_OPERATORS)),
    Fault("products where half of a filter's taps meet nothing", f"{CPU}/winograd.c",
          "return 2 * rate * taps_that_meet(attr) <= ls_conv_taps(attr);", "return 2 * rate * taps_that_meet(attr) < ls_conv_taps(attr);", (CPU_RULE,)),
    Fault("loss of labels on the cpu: a share of 0 of an infinite loss", f"{CPU}/op_loss.c", "if (no > 0) {", "if (no >= 0) {", (CPU_OPERATORS,)),
    Fault("data gradients of many 1x1 weights by oneDNN", f"{CPU}/winograd.c",
          ">= MANY_WEIGHTS)", "> MANY_WEIGHTS)", (CPU_RULE,)),
    Fault("products of weight gradients of one output more", f"{CPU}/winograd.c",
          "dst.w <= FEW_SUMMED;", "dst.w <= FEW_SUMMED + 1;", (CPU_RULE,)),
    Fault("Winograd where it gains little", f"{CPU}/winograd.c",
          "return gain >= least_gain(attr, variant) ? gain : 0;", "return gain > 1 ? gain : 0;", (CPU_WINOGRAD, CPU_RULE)),
    Fault("Winograd in one direction for few outputs", f"{CPU}/winograd.c",
          "return direct * share + transforms < direct / rate;", "return direct * share < direct / rate;", (CPU_WINOGRAD,)),
    Fault("weight gradients of 1x1 by oneDNN", f"{CPU}/winograd.c",
          "return pointwise || attr->dst.n", "return attr->dst.n", (CPU_RULE,)),
    Fault("convolution: phases begin with the same tap", f"{CPU}/winograd.c",
          ".lead = taps - met - (farthest - (phase + pad) / stride),", ".lead = taps - met,", (CPU_WINOGRAD,)),
    Fault("convolution: phases that no common tiles serve", f"{CPU}/winograd.c",
          "        if (taps_of_phase(phase, kernel, stride, pad, taps).lead < 0) return 0;\n", "", (CPU_WINOGRAD,)),
    Fault("convolution: a phase's rows are those of another", f"{CPU}/winograd.c",
          "map.pad_y -= to.phase / plan->stride_x,", "map.pad_y -= to.phase / plan->stride_y,", (CPU_WINOGRAD,)),
    Fault("convolution: the gradient of a phase's taps goes to neighbours", f"{CPU_KERNELS}/winograd_filters.c",
          "to + (j * of.step_x * B + c) * B,", "to + (j * B + c) * B,", (CPU_WINOGRAD,)),
    Fault("convolution: sums of 1x1 begin with what was there", f"{CPU}/winograd.c",
          "plan->in.h * plan->in.w, n > begin,", "plan->in.h * plan->in.w, n > 0,", (CPU_WINOGRAD,)),
    Fault("convolution: a product lacks the last of an odd number of tiles", f"{CPU_KERNELS}/winograd_gemm.c",
          "for (int k = 0; k < left; k++)", "for (int k = 0; k < left - 1; k++)", (CPU_PARTS, CPU_WINOGRAD)),
    Fault("convolution: half a block's product has every other channel", f"{CPU_KERNELS}/winograd_gemm.c",
          "store(m + r * B, evens(a##r) + odds(a##r));", "store(m + r * B, evens(a##r));", (CPU_PARTS, CPU_WINOGRAD)),
    Fault("convolution: half a block's sums of a channel are its neighbour's", f"{CPU_KERNELS}/winograd_gemm.c",
          "store(a + (2 * r + 1) * row, odds(a##r));", "store(a + (2 * r + 1) * row, evens(a##r));", (CPU_PARTS, CPU_WINOGRAD)),
    # ---- the cpu device: direct convolution
    Fault("convolution: the last odd channel counts twice", f"{CPU_KERNELS}/conv.c",
          "const vf w = in_turn(load(weight), (vf){ 0 });", "const vf w = in_turn(load(weight), load(weight));", (CPU_DIRECT, CPU_OPERATORS)),
    Fault("convolution: half a block has every other channel", f"{CPU_KERNELS}/conv.c",
          "evens(a##i) + odds(a##i));", "evens(a##i));", (CPU_DIRECT, CPU_OPERATORS)),
    Fault("convolution: a channel that is not there has a gradient", f"{CPU_KERNELS}/conv.c",
          "if (!pairs->last[i]) ADD(", "ADD(", (CPU_DIRECT, CPU_OPERATORS)),
    Fault("convolution: all blocks are half", f"{CPU}/conv_direct.c",
          "conv.half = b + 1 == blocks && is_half(plan, channels);", "conv.half = is_half(plan, channels);", (CPU_DIRECT, CPU_OPERATORS)),
    Fault("convolution: the last pixels of a row are written beyond it", f"{CPU_KERNELS}/conv.c",
          "        if (left < count) q = conv->q - count; \\\n", "", (CPU_DIRECT, CPU_OPERATORS)),
    Fault("convolution by own kernels: half a block costs a whole one", f"{CPU}/conv_choose.c",
          "const int half = cpu->block / 2;", "const int half = cpu->block;", (CPU_RULE,)),
    Fault("pooling: the nine windows' numbers in reverse order", f"{CPU_KERNELS}/pool.c", "== 8 - i;", "== i;", (CPU_PARTS, CPU_OPERATORS)),
    # ---- the cpu device: grouped convolution
    Fault("depthwise: a row of the kernel reads one that is overwritten", f"{CPU}/conv_grouped.c",
          "while (m->kept < reach_h / m->spread_h + 1 && m->kept < m->h)", "while (m->kept < reach_h / m->spread_h && m->kept < m->h)",
          (CPU_OPERATORS,)),
    Fault("convolution: a lane without a channel takes one", f"{CPU_KERNELS}/conv_grouped.c",
          "here & (vi)take_lanes_of_two", "(vi)take_lanes_of_two", (CPU_OPERATORS,)),
    Fault("depthwise: two rows of taps have one place", f"{CPU_KERNELS}/conv_grouped.c",
          "SUM_PUT(i) store(sums + next + i * LS_VL,", "SUM_PUT(i) store(sums + i * LS_VL,", (CPU_OPERATORS,)),
    Fault("depthwise: a tap of the last row twice", f"{CPU_KERNELS}/conv_grouped.c",
          "a7 += load(bottom + tap) * g;", "a7 += load(bottom) * g;", (CPU_OPERATORS,)),
    Fault("depthwise: backward data does not turn the filter", f"{CPU}/conv_grouped.c",
          "        tap = taps - 1 - tap;\n", "", (CPU_OPERATORS,)),
    Fault("depthwise: the padding is what was in the workspace", f"{CPU}/conv_grouped.c",
          "    memset(map.rows, 0, plan->room_bytes);\n", "", (CPU_OPERATORS,)),
    # ---- the cpu device: batch norm with what follows, copies of channels, dropout, statistics, products
    Fault("batch norm: a window of zeros passes the gradient on", f"{CPU_KERNELS}/norm.c",
          "const vi closed = best <= (vf){ 0 };", "const vi closed = best < (vf){ 0 };", (CPU_PARTS, CPU_OPERATORS)),
    Fault("batch norm: the right of two equals wins a window", f"{CPU_KERNELS}/norm.c",
          "const vi right = b > a,", "const vi right = b >= a,", (CPU_PARTS, CPU_OPERATORS)),
    Fault("batch norm: a window's lower row takes the upper one's gradient", f"{CPU_KERNELS}/norm.c",
          "const int first = p->row % 2 * 2;", "const int first = 0;", (CPU_PARTS, CPU_OPERATORS)),
    Fault("batch norm: a mean's rounding is left out of the variance", f"{CPU_KERNELS}/norm.c",
          "squares += widen(spread) + 2 * m * widen(rest) + m * whole;", "squares += widen(spread) + m * whole;", (CPU_PARTS, CPU_OPERATORS)),
    Fault("a shuffle of channels clears the first source", f"{CPU}/op_channels.c",
          "copy.keep = a->keep || a->interleave;", "copy.keep = a->keep;", (CPU_OPERATORS,)),
    Fault("a copy of channels does not add the second source", f"{CPU_KERNELS}/channels.c",
          "            if (k->add) v += load(to);\n", "", (CPU_OPERATORS,)),
    Fault("fake quantise: the gradient passes one step beyond the grid", f"{CPU_KERNELS}/quantise.c",
          "(q <= g->most)", "(q <= g->most + 1)", (CPU_OPERATORS,)),
    Fault("fake quantise: one scale for a block of channels", f"{CPU}/op_quantise.c",
          "(s->dim[0] + lanes - 1) / lanes;", "1;", (CPU_OPERATORS,)),
    Fault("dropout: a counter of words does not carry", f"{CPU_KERNELS}/dropout.c",
          "        high -= (vu)(low == 0);\n", "", (CPU_PARTS, CPU_OPERATORS)),
    Fault("dropout: two of the four phases are exchanged", f"{CPU_KERNELS}/dropout.c",
          "choose(phase == 2, stream[j + 2], stream[j + 3]);", "choose(phase == 3, stream[j + 2], stream[j + 3]);", (CPU_PARTS, CPU_OPERATORS)),
    Fault("statistics: infinity is finite", f"{CPU_KERNELS}/update.c",
          "(half_counts)(x - x != 0);", "(half_counts)(x != x);", (CPU_PARTS, CPU_OPERATORS)),
    Fault("statistics: the last number of a row is left out", f"{CPU_KERNELS}/update.c",
          "for (size_t j = 0; i + j < n; j++) {", "for (size_t j = 0; i + j + 1 < n; j++) {", (CPU_PARTS, CPU_OPERATORS)),
    Fault("linear: the second chunk of a product overwrites the first", f"{CPU_KERNELS}/gemm.c",
          ".accumulate = g->accumulate || k > 0 };", ".accumulate = g->accumulate };", (CPU_PARTS, CPU_OPERATORS)),
    Fault("linear: a tile of C begins at another's columns of B", f"{CPU}/product.c",
          ".b = p->b + (size_t)n * p->b_n,", ".b = p->b + (size_t)m * p->b_n,", (CPU_OPERATORS,)),
    Fault("a small operator leaves the device without its threads", f"{CPU}/plan.c",
          "    own->cpu->pool = team;\n", "", (CPU_OPERATORS, CPU_RULE)),
    # ---- the cpu device with bf16 in memory
    Fault("bf16: activations are cut off, not rounded", f"{CPU_KERNELS}/kernels.h",
          "(vf)rounded, (vf)(bits | 0x400000)) >> 16;", "(vf)bits, (vf)(bits | 0x400000)) >> 16;", (CPU_PARTS, CPU_OPERATORS)),
    Fault("bf16: lanes are stored in another order", f"{CPU_KERNELS}/kernels.h",
          "_mm256_permute4x64_epi64(packed, 8)", "_mm256_permute4x64_epi64(packed, 2)", (CPU_PARTS, CPU_OPERATORS)),
    Fault("bf16: NaN becomes infinity", f"{CPU_KERNELS}/kernels.h",
          "_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);", "0;", (CPU_PARTS, CPU_OPERATORS)),
    Fault("bf16: what is computed on copies is not rounded back", f"{CPU}/through_fp32.c",
          "        if (c->is_written && args[c->arg].slab) convert(own, c, args[c->arg], in_fp32[c->arg]);\n", "        continue;\n", (CPU_OPERATORS,)),
    Fault("bf16: copies lie in the fp32 operator's workspace", f"{CPU}/through_fp32.c",
          "part_of(workspace, own->bytes,", "part_of(workspace, 0,", (CPU_OPERATORS,)),
    Fault("bf16: the optimizer leaves the copy as it was", f"{CPU}/op_update.c",
          "    if (run->copy) run->kernels_bf16->from_floats(run->weight + at, run->copy + at, n);\n", "", (CPU_OPERATORS,)),
    Fault("bf16: a segment's copy is the first one's", f"{CPU}/op_update.c",
          "        if (run.copy) run.copy += segment->count;\n", "", (CPU_OPERATORS,)),
    Fault("bf16: Muon's copy is of the store's first tensor", f"{CPU}/op_muon.c",
          "&(copy_run){ &run, copy + first }", "&(copy_run){ &run, copy }", ("test_train_trainer",)),
    Fault("bf16: a map without room around it is read as floats", f"{CPU}/conv_direct.c",
          "if (!p->plain && p->storage == LS_F32 && !has_room(p)) return from;", "if (!p->plain && !has_room(p)) return from;", (CPU_OPERATORS,)),
    Fault("bf16: the second group begins where floats would", f"{CPU}/winograd.c",
          "in * (size_t)(plan->in.h * plan->in.w) * ls_dtype_bytes(plan->storage);", "in * (size_t)(plan->in.h * plan->in.w) * sizeof(float);",
          (CPU_OPERATORS,)),
    Fault("bf16: maps are multiplied as floats where they lie", f"{CPU}/winograd.c",
          "attr->storage == LS_F32 && is_pointwise(attr) &&", "is_pointwise(attr) &&", (CPU_OPERATORS,)),
    Fault("bf16: Winograd where products of bf16 are faster", f"{CPU}/conv_choose.c",
          "(ls_winograd_variant)v, cpu->block, rate) : 0;", "(ls_winograd_variant)v, cpu->block, 1) : 0;", (CPU_RULE,)),
    Fault("pooling: an adaptive gradient leaves out windows that begin in a row", f"{CPU_KERNELS}/pool.c",
          "rows = reach_next(rows, (y + 1) * pool->p - 1,", "rows = reach_next(rows, y * pool->p,", (CPU_OPERATORS,)),
    Fault("pooling: an average's gradient is the whole one", f"{CPU_KERNELS}/pool.c",
          "                        sum += load(from + ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL);\n                store(to, sum * share);",
          "                        sum += load(from + ((size_t)p * (size_t)pool->q + (size_t)q) * LS_VL);\n                store(to, sum);", (CPU_OPERATORS,)),
    # ---- choice of a convolution's algorithm by measuring
    Fault("a later algorithm needs no lead", "src/device/algorithm_choice.c",
          "all[i].ms < all[best].ms * enough_faster", "all[i].ms <= all[best].ms", (CHOICE,)),
    Fault("the first run, which loads code, counts", "src/device/algorithm_choice.c",
          "const int counted = round >= WARM_UPS;", "const int counted = 1;", (CHOICE,)),
    Fault("an algorithm that fails keeps its time", "src/device/algorithm_choice.c",
          "all[i] = (candidate){ INFINITY, 1 };", "all[i].out = 1;", (CHOICE,)),
    Fault("an algorithm that fails is run again", "src/device/algorithm_choice.c",
          "all[i] = (candidate){ INFINITY, 1 };", "all[i] = (candidate){ INFINITY, 0 };", (CHOICE,)),
    Fault("the memory that was timed on stays", f"{CUDA}/conv_timing.c",
          "    cudaFree(t->flush);\n", "", (SEAM,)),
    Fault("a run's time is read before it has ended", f"{CUDA}/conv_timing.c",
          "    LS_TRY_CUDA(cudaEventSynchronize(t->end));\n", "", (SEAM,)),
    Fault("no room for timing is an error", f"{CUDA}/conv_timing.c",
          "return rc == cudaErrorMemoryAllocation ? LS_SUCCESS : ls_cuda_fail(\"cudaMalloc\", rc);",
          "return ls_cuda_fail(\"cudaMalloc\", rc);", (SEAM,)),
    Fault("relu: gradient and output", f"{KERNELS}/elementwise.cu",
          "LAUNCH(relu_backward, (relu_backward<T>), IN(a), IN(b), OUT(dst))",
          "LAUNCH(relu_backward, (relu_backward<T>), IN(b), IN(a), OUT(dst))", (OPERATORS,)),
]


def copy_tree(folder):
    """The tracked files as they are now; what did not change keeps its time, so that it is not built again."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        source, to = ROOT / name, folder / name
        if not source.exists() or (to.exists() and to.read_bytes() == source.read_bytes()):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)


def check_texts(faults, folder):
    for fault in faults:
        count = (folder / fault.file).read_text().count(fault.old)
        if count != 1:
            sys.exit(f"{fault.name}: its text is {count} times in {fault.file}, not once; adapt the table to the source")


def configure(folder):
    build = folder / "build"
    command = ["cmake", "-S", folder, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DLOCKSTEP_CUDA=off"]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    if shutil.which("ccache"):
        command += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cmake: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return build


def compile_tests(build, tests, jobs):
    command = ["cmake", "--build", build, "-j", str(jobs), "--target", "lockstep_cuda_emulated", *tests]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error" in line] or done.stdout.splitlines()[-5:]
        sys.exit("does not build:\n" + "\n".join(errors))


TELLS = re.compile(r"^FAILED (.+)|^ERROR: (.+)|ERROR\s+\] --- (?!\[\s+LINE)(.+)|^(kernel .+|\d+ of \d+ threads .+|emulated CUDA: .+|.*AddressSanitizer.+|.*Assertion.+)")
TIMES = {}


def run_test(folder, build, test, environment):
    """None where the program passes; else the first line that says what failed."""
    program = [build / "bin" / test]
    if shutil.which("stdbuf"):
        program = ["stdbuf", "-oL", *program]
    start, limit = time.monotonic(), LIMIT_S * (4 if test == OPERATORS else 1)  # all operators take minutes on a loaded machine
    process = subprocess.Popen(program, cwd=folder, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.set_blocking(process.stdout.fileno(), False)
    text, told, last = b"", None, ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while told is None:
            left = start + limit - time.monotonic()
            if left <= 0:
                told = f"does not end within {limit} s"
                break
            if not selector.select(left):
                continue
            chunk = process.stdout.read()
            if chunk == b"":
                break
            text += chunk or b""
            *lines, text = text.split(b"\n")
            for line in (raw.decode(errors="replace").strip() for raw in lines):
                last = line or last
                if told is None and (match := TELLS.search(line)):
                    told = next(group for group in match.groups() if group)
    if told is not None:
        process.kill()  # the first failure is enough
    code = process.wait()
    process.stdout.close()
    TIMES[test] = TIMES.get(test, 0) + time.monotonic() - start
    if told is None and code:
        told = f"exit {code}: {last}" if code > 0 else f"signal {-code}: {last}"
    return told


def tidy(line):
    return re.sub(r"\s+", " ", line).replace("|", "\\|").strip()[:150]


def try_fault(fault, folder, build, jobs):
    """-> (test, line), or None where no test saw it."""
    path = folder / fault.file
    whole = path.read_text()
    try:
        path.write_text(whole.replace(fault.old, fault.new))
        compile_tests(build, fault.tests, jobs)
        for test, environment in fault.runs():
            if line := run_test(folder, build, test, environment):
                return test, tidy(line)
    finally:
        path.write_text(whole)
    return None


HEAD = ["fault", "file", "caught by", "first failure", "commit"]
NOT_CAUGHT, UNKNOWN = "not caught", "**no reason is known**"


def row_of(fault, found, commit):
    test, line = found or (NOT_CAUGHT, fault.unseen or UNKNOWN)
    return [fault.name, fault.file.removeprefix("src/"), test.removeprefix("test_"), line, commit]


def read_page(path):
    """The rows of earlier runs, by the fault's name."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |")) for line in lines if line.startswith("| ")]
    return {row[0]: row for row in rows if len(row) == len(HEAD) and row != HEAD}


def write_page(path, page):
    """The rows of the table's faults, in its order: what was taken out of the table leaves the page."""
    rows = [page[fault.name] for fault in FAULTS if fault.name in page]
    caught = sum(row[2] != NOT_CAUGHT for row in rows)
    lines = [
        "# Planted faults", "",
        "Each fault below was put into the source, alone, and the tests of the emulated CUDA device, or those of the cpu device, were run, at the",
        "commit that its row names:",
        f"{caught} of {len(rows)} are caught; {len(FAULTS) - len(rows)} more stand in the script's table and were not run yet.", "",
        "    tests/emulation/planted_faults.py --out tests/results/planted-faults.md            # all again",
        "    tests/emulation/planted_faults.py --out tests/results/planted-faults.md --new      # those without a row", "",
        "The texts that were replaced are in the table of that script.", "",
        *("| " + " | ".join(cells) + " |" for cells in (HEAD, *rows)),
    ]
    lines.insert(len(lines) - len(rows), "|---" * len(HEAD) + "|")
    path.write_text("\n".join(lines) + "\n")


def commit_of_tree():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", "-uno") else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="print the faults and stop")
    parser.add_argument("--check", action="store_true", help="only see that every text that is replaced stands in the sources, once")
    parser.add_argument("--only", action="append", help="faults whose name or file contains this")
    parser.add_argument("--out", type=pathlib.Path, help="the page (Markdown): each fault's row is renewed as soon as it was tried")
    parser.add_argument("--new", action="store_true", help="faults without a row in the page")
    parser.add_argument("--folder", type=pathlib.Path, help="work here, and keep it")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    faults = [f for f in FAULTS if not options.only or any(word in f.name or word in f.file for word in options.only)]
    if options.list:
        for fault in faults:
            print(f"{fault.name:70} {fault.file.removeprefix('src/'):35} {' '.join(fault.tests)}")
        return 0
    if options.check:
        check_texts(faults, ROOT)
        return 0
    page = read_page(options.out) if options.out else {}
    if options.new:
        faults = [f for f in faults if f.name not in page]
    if not faults:
        sys.exit("no such fault; --list shows them")
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="lockstep_faults_"))
    try:
        copy_tree(folder)
        check_texts(faults, folder)
        build = configure(folder)
        tests = sorted({test for fault in faults for test in fault.tests})
        compile_tests(build, tests, options.jobs)
        for test in tests:
            if line := run_test(folder, build, test, {}):
                sys.exit(f"{test} fails without a fault: {line}")
        rows, commit = [], commit_of_tree()
        for fault in faults:
            start = time.monotonic()
            rows.append((fault, try_fault(fault, folder, build, options.jobs)))
            page[fault.name] = row_of(*rows[-1], commit)
            if options.out:
                write_page(options.out, page)
            test, line = rows[-1][1] or ("NOT CAUGHT", fault.unseen)
            print(f"{fault.name:70} {test:28} {time.monotonic() - start:4.0f} s  {line}", flush=True)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    missed = [fault.name for fault, found in rows if not found and not fault.unseen]
    print(f"{sum(1 for _, found in rows if found)} of {len(rows)} caught; missed without a reason: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
