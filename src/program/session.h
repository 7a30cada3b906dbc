// session.h - everything that a rank needs to compute with a network: a device with its queue, the parameter store with
// the weights, the programs, and the slabs in which they run. Training, evaluation and prediction use it.
//
// A session is opened in this order. No slab is allocated on the device before everything is planned.
//
//   ls_session_open_device   opens the device; ranks that choose devices together set `device` themselves instead
//   ls_session_start         checks that the device can compute in the storage type; makes its queue
//   ls_session_place         decides the place of each tensor in the parameter store
//   ls_session_measure       computes the size of the activations of the programs in `options`; cheap
//   ls_session_compile       makes these programs with their plans; `memory` is then exact
//   ls_session_allocate      allocates all slabs, with weights of 0
//   ls_session_close
//
// After measure and after compile, ls_memory_plan_fits(memory) tells whether the session fits. Both may be repeated
// with other `options`. ls_session_build does everything from measure to allocate.
#ifndef LS_PROGRAM_SESSION_H
#define LS_PROGRAM_SESSION_H

#include "config/config.h"
#include "config/values.h"
#include "program/compile.h"
#include "program/memory_plan.h"

// The most programs that training needs: two for each of its stages, for whole and for short micro-batches, and one
// that evaluates.
enum { LS_STAGE_LIMIT = 16 };
enum { LS_SESSION_PROGRAMS = 2 * LS_STAGE_LIMIT + 1 };

typedef struct { // starts as {0}; parts that do not exist yet are NULL
    ls_device *device;
    ls_queue *queue; // all work of the session runs on it
    ls_param_store *store;
    ls_plan *cast;                                   // casts master weights to 16 bits; NULL if storage is fp32
    ls_compile_options options[LS_SESSION_PROGRAMS]; // micro_batch 0: no program
    ls_program *program[LS_SESSION_PROGRAMS];
    ls_slab *activations, *workspace; // shared by all programs, which never run at the same time
    ls_slab *table;                   // memory of LS_INPUT_TABLE
    ls_slab *class_weights;           // memory of LS_INPUT_CLASS_WEIGHTS; NULL: classes have no weights
    ls_memory_plan memory;            // the fields inputs, control and ring are set by the code that allocates these
} ls_session;

// Returns device.threads, or if that is 0, this rank's share of its host's cores.
int ls_session_threads(const ls_config *cfg, int ranks_of_host);
ls_device_options ls_session_device_options(const ls_config *cfg, int threads);
// Opens the device that the options device.* name, for a process with one rank. why_not_gpu: see ls_device_open.
LS_CHECKED ls_status ls_session_open_device(ls_session *session, const ls_config *cfg, const char **why_not_gpu);
// Makes the session's queue. LS_USAGE: the device cannot compute in this storage type.
LS_CHECKED ls_status ls_session_start(ls_session *session, ls_dtype storage);
// Decides the place of each tensor in the parameter store. graph is borrowed.
LS_CHECKED ls_status ls_session_place(
    ls_session *session, const ls_graph *graph, const ls_param_store_options *options);
// Frees the programs of an earlier compile. Sets `memory` without making plans: activations only for a device with its
// own memory; inputs, control and ring stay.
LS_CHECKED ls_status ls_session_measure(ls_session *session);
LS_CHECKED ls_status ls_session_compile(ls_session *session);
LS_CHECKED ls_status ls_session_allocate(ls_session *session);
// Measures, compiles and allocates. LS_DEVICE, with a table of the memory: the session does not fit into the device.
LS_CHECKED ls_status ls_session_build(ls_session *session);
void ls_session_close(ls_session *session); // a session of {0} is allowed; the session becomes {0}
// Waits for work that a failed run may have left on the queue. Call it before freeing buffers that such work reads.
void ls_session_drain(ls_session *session);

// Sets all weights and statistics; values[p]: the canonical values of the graph's parameter p.
void ls_session_set_weights(ls_session *session, const float *const *values);
// Enqueues a cast of the master weights to the weights that operators read. Call it after anything but the optimizer
// has changed the master weights.
void ls_session_weights_changed(ls_session *session);
// Makes a new slab on the device with these values; the caller frees it. what: names the slab in messages.
LS_CHECKED ls_status ls_session_upload(
    ls_session *session, const char *what, const void *values, size_t bytes, ls_slab **out);
// Sets LS_INPUT_TABLE, float[C][256]. Call it once.
LS_CHECKED ls_status ls_session_set_table(ls_session *session, const float *values);
// Sets LS_INPUT_CLASS_WEIGHTS, float[classes]. Call it once.
LS_CHECKED ls_status ls_session_set_class_weights(ls_session *session, const float *values);
ls_program_inputs ls_session_inputs(const ls_session *session); // table and class weights are set, the rest is empty

#endif
