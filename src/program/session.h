// session.h - all that computing with a network takes, for whoever does it (training, evaluation, prediction, replay): a
// device with its queue, the parameter store with the weights, programs, and the slabs that they run in. It belongs to
// one rank. Every session is opened in this order, and nothing is allocated on the device before all of it is planned:
//
//   ls_session_open_device   or, where ranks choose together, their device is put into `device`
//   ls_session_start         the device can train in that precision; its queue
//   ls_session_place         where each tensor lies in the parameter store
//   ls_session_measure       activations of the programs that `options` describes: cheap
//   ls_session_compile       the programs with their plans: `memory` has what they take to the byte
//   ls_session_allocate      all slabs, with weights of 0
//   ls_session_close
//
// After measure and compile `memory` says whether it fits (ls_memory_plan_fits); with other `options` both may be
// repeated. ls_session_build is all from measure to allocate.
#ifndef LS_PROGRAM_SESSION_H
#define LS_PROGRAM_SESSION_H

#include "config/config.h"
#include "config/values.h"
#include "program/compile.h"
#include "program/memory_plan.h"

// As many as training takes: for each of its stages two, of whole and of short micro-batches, and one that evaluates.
enum { LS_STAGE_LIMIT = 16 };
enum { LS_SESSION_PROGRAMS = 2 * LS_STAGE_LIMIT + 1 };

typedef struct { // starts as {0}; what is not there yet is NULL
    ls_device *device;
    ls_queue *queue; // all of it runs there
    ls_param_store *store;
    ls_plan *cast;                                   // of master weights to 16 bits; NULL where storage is fp32
    ls_compile_options options[LS_SESSION_PROGRAMS]; // micro_batch 0: there is no such program
    ls_program *program[LS_SESSION_PROGRAMS];
    ls_slab *activations, *workspace; // programs share them: they never run at the same time
    ls_slab *table;                   // LS_INPUT_TABLE
    ls_slab *class_weights;           // LS_INPUT_CLASS_WEIGHTS; NULL: none
    ls_memory_plan memory;            // of it inputs, control and ring are set by whoever allocates those
} ls_session;

// The configuration's threads, or this rank's share of its host's cores.
int ls_session_threads(const ls_config *cfg, int ranks_of_host);
ls_device_options ls_session_device_options(const ls_config *cfg, int threads);
// For a rank by itself, as device.* says; why_not_gpu as of ls_device_open.
LS_CHECKED ls_status ls_session_open_device(ls_session *session, const ls_config *cfg, const char **why_not_gpu);
// LS_USAGE: the device does not compute in that storage type.
LS_CHECKED ls_status ls_session_start(ls_session *session, ls_dtype storage);
// graph is borrowed.
LS_CHECKED ls_status ls_session_place(
    ls_session *session, const ls_graph *graph, const ls_param_store_options *options);
// Without programs, of an earlier compile neither. Sets weights, gradients, optimizer and, of a device whose memory is not
// the host's, activations.
LS_CHECKED ls_status ls_session_measure(ls_session *session);
LS_CHECKED ls_status ls_session_compile(ls_session *session);
LS_CHECKED ls_status ls_session_allocate(ls_session *session);
// LS_DEVICE: it does not fit, with the table of memory.
LS_CHECKED ls_status ls_session_build(ls_session *session);
void ls_session_close(ls_session *session); // {0} is allowed, and left
// Waits for what a failed run may have left on the queue: before anything that it reads is freed.
void ls_session_drain(ls_session *session);

// values[p]: of the graph's parameter p, canonical.
void ls_session_set_weights(ls_session *session, const float *const *values);
// Master weights came from elsewhere than the optimizer: refreshes what operators read. Enqueued.
void ls_session_weights_changed(ls_session *session);
// A new slab of the device with these values, the caller's to free; what: for messages.
LS_CHECKED ls_status ls_session_upload(
    ls_session *session, const char *what, const void *values, size_t bytes, ls_slab **out);
// What augment looks pixels up in, float[C][256]; once.
LS_CHECKED ls_status ls_session_set_table(ls_session *session, const float *values);
// What the loss multiplies targets by, float[classes]; once.
LS_CHECKED ls_status ls_session_set_class_weights(ls_session *session, const float *values);
ls_program_inputs ls_session_inputs(const ls_session *session); // with table and class weights, else empty

#endif
